"""Every case of ``tests/cases`` through the real entry point, judged by the server itself.

``SPIRIT_PY_CASE_SEED`` replays the random numbers of a case's writers.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.kits.cases import case_arguments
from tests.oracle.case import FOLDER as CASES
from tests.oracle.case import Case, load, load_all
from tests.oracle.scene import Outcome, play
from tests.oracle.zones import zones

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.oracle.scene import Migrate

WITHOUT_GTID = ("big_transactions", "hot_rows", "key_varchar_ai_ci", "unique_values_moving")
#: Never left out: whole runs on a server whose modes or time zone change what is computed (R22).
ALWAYS = ("division_by_zero_fails", "generated_by_sql_mode", "generated_stored_over_timestamp")


def played() -> list[Any]:
    """Return all cases; the usual run draws among those that do not always run."""
    drawn = pytest.mark.draws(6)
    return [
        pytest.param(case, id=case.name, marks=() if case.name in ALWAYS else drawn)
        for case in load_all()
    ]


@pytest.mark.parametrize("case", played())
def test_a_case_ends_as_a_native_alter_would(
    case: Case, db: Database, migrate_case: Migrate
) -> None:
    """The table is, in every row and column, what the server itself would have made of it."""
    with zones(db) if case.named_zones else contextlib.nullcontext():
        play(case, db, migrate_case)


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("name", WITHOUT_GTID)
def test_a_case_ends_as_a_native_alter_would_without_gtids(
    name: str, db_file: Database, migrate_case: Migrate
) -> None:
    """On a server without GTIDs the feed knows places by file and offset, and nothing is lost."""
    play(load(CASES / name), db_file, migrate_case)


@pytest.mark.slow
@pytest.mark.usefixtures("other_time_zone")
def test_the_command_does_what_the_entry_point_does(db: Database, tmp_path: Path) -> None:
    """The command itself, in a process of its own, does what the entry point does."""

    def command(case: Case, db: Database, another_round: Callable[[], None]) -> Outcome:
        path = tmp_path / "report.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "spirit_py", "migrate"),
                *(*case_arguments(case, db), "--report-json", str(path)),
            ],
            env={**os.environ, "SPIRIT_PY_LOG_FORMAT": "json"},
            capture_output=True,
            text=True,
            check=False,
        )
        report = json.loads(path.read_text()) if path.exists() else {}
        return Outcome(exit_code=done.returncode, text=done.stdout + done.stderr, report=report)

    play(load(CASES / "add_column"), db, command)

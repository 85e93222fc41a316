"""The cases of ``tests/cases`` once more, with all their writes after the last checksum.

Nothing compares the tables behind those writes, so that what the change feed applies must be right
by itself (R21). A usual run draws some cases; ``make ci-cases-after`` plays all, every
fifth also without GTIDs. ``SPIRIT_PY_CASES_AFTER`` is how many are drawn, or ``all``.
"""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.kits.draw import DRAW_VARIABLE
from tests.oracle.case import Case, load_all
from tests.oracle.scene import play
from tests.oracle.zones import zones

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database
    from tests.oracle.scene import Migrate

COUNT_VARIABLE = "SPIRIT_PY_CASES_AFTER"
EVERY = "all"
USUAL = 7
#: Of these cases every so many runs without GTIDs, too.
FILE_SHARE = 5


def drawn() -> list[Case]:
    """Return the cases that this run plays, drawn by its seed."""
    cases = [late for case in load_all() if (late := case.after())]
    count = os.environ.get(COUNT_VARIABLE) or str(USUAL)
    if count == EVERY:
        return cases
    # The environment gets its seed in pytest_configure, before tests are collected.
    source = random.Random(f"cases after {os.environ[DRAW_VARIABLE]}")
    return source.sample(cases, min(int(count), len(cases)))


def play_late(case: Case, db: Database, migrate: Migrate) -> None:
    """Play a case in a server that has the time zones that the case may need."""
    with zones(db) if case.named_zones else contextlib.nullcontext():
        play(case, db, migrate)


@pytest.mark.slow
@pytest.mark.parametrize("case", drawn(), ids=lambda case: case.name)
def test_a_case_survives_writes_that_all_come_after_the_checksum(
    case: Case, db: Database, migrate_case: Migrate
) -> None:
    """What is applied after the last checksum is right by itself: nothing is repaired (R21)."""
    play_late(case, db, migrate_case)


@pytest.mark.slow
@pytest.mark.parametrize("case", drawn()[::FILE_SHARE], ids=lambda case: case.name)
def test_a_case_survives_writes_after_the_checksum_without_gtids(
    case: Case, db_file: Database, migrate_case: Migrate
) -> None:
    """The same on a server without GTIDs (R21)."""
    play_late(case, db_file, migrate_case)

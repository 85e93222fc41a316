"""One case from an empty schema to the oracle's judgement."""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.oracle.case import Timing
from tests.oracle.compare import quoted
from tests.oracle.crew import Crew, Deferred, run_in_own_session
from tests.oracle.load import global_variables
from tests.oracle.twin import Judgement, NativeAlter, Oracle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case

SEED_VARIABLE = "SPIRIT_PY_CASE_SEED"
#: How long the server may take to forget a session that was closed.
GRACE = 10.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a migration said: exit code, all text for the operator, and the report's fields."""

    exit_code: int
    text: str = ""
    report: dict[str, Any] = field(default_factory=dict)


if TYPE_CHECKING:
    Migrate = Callable[[Case, Database, Callable[[], None]], Outcome]


def play(case: Case, db: Database, migrate: Migrate) -> Judgement:
    """Run a case: make the table, write, migrate while writing, write on, judge.

    ``migrate`` gets the case, its schema and a function that returns once every writer has done
    another round, to be called while rows are being copied.

    Raises:
        AssertionError: whatever is not as the case expects.
    """
    seed = int(os.environ.get(SEED_VARIABLE) or random.randrange(1 << 32))
    expect = case.expect
    print(f"{case.name}: {SEED_VARIABLE}={seed}")  # noqa: T201 -- shown when the case fails
    with (
        global_variables(db.execute, db.query, expect.server),
        Oracle(db.server, db.name, expect.table) as oracle,
    ):
        _make(case, db)
        oracle.begin(case.setup)
        outcome = _under_load(case, db, migrate, seed)
        _check_outcome(case, outcome)
        _check_leftovers(case, db, outcome)
        done = expect.exit_code == 0
        judgement = oracle.judge(
            NativeAlter(
                statement=case.native_statement() if done else "",
                session=expect.native_session,
                ignore=expect.ignore,
                moment=expect.moment,
                keyless=expect.keyless,
                rows_from_setup=expect.rows_from_setup,
            )
        )
        _check_counter(case, db)
        return judgement


def _make(case: Case, db: Database) -> None:
    """Run table.sql in a session of its own, so that its settings end with it."""
    run_in_own_session(db, case.setup)


def _under_load(case: Case, db: Database, migrate: Migrate, seed: int) -> Outcome:
    """Migrate while the case's applications write, and let them write on after the swap."""
    with Crew(case, db, seed) as crew:
        if case.timing is not Timing.AFTER:
            crew.begin()
        with contextlib.ExitStack() as stack:
            if case.timing.deferred:
                stack.enter_context(Deferred(crew, db))
            outcome = migrate(case, db, crew.another_round)
        assert crew.writing, f"it ended before any writer wrote: {outcome.text}"
        crew.go_on(swapped=outcome.exit_code == 0 == case.expect.exit_code)
    crew.check()
    return outcome


def _check_outcome(case: Case, outcome: Outcome) -> None:
    expect = case.expect
    assert outcome.exit_code == expect.exit_code, f"exit code {outcome.exit_code}: {outcome.text}"
    for part in expect.message:
        assert part.lower() in outcome.text.lower(), f"{part!r} is not in: {outcome.text}"
    if expect.exit_code:
        return
    report = outcome.report
    assert report["algorithm"] == expect.algorithm, f"{report['algorithm']}: {report.get('reason')}"
    if expect.algorithm == "copy":
        wanted = {"differences_found": 0, "chunks_repaired": 0} | expect.report
        found = {name: report[name] for name in wanted}
        assert found == wanted, f"{found}, expected {wanted}: {report.get('difference_examples')}"
        if case.timing is Timing.AFTER:
            assert report["checksum_passes"] == 1, "nothing may be compared after the writes"
        assert report["changes_received"] > 0, "the feed received nothing while applications wrote"


def _check_leftovers(case: Case, db: Database, outcome: Outcome) -> None:
    """Look for tables, sessions and named locks that the migration left behind.

    What the same command would carry on with may stay, and only then.
    """
    tables = {
        str(row[0])
        for row in db.query(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", (db.name,)
        )
    }
    if outcome.report.get("resumable"):
        tables = {name for name in tables if not re.fullmatch("_.*_(new|chkpnt|snt)", name)}
    assert tables == {case.expect.table, *case.expect.left_tables}, f"tables left behind: {tables}"
    deadline = time.monotonic() + GRACE
    while left := _sessions_on(db):
        assert time.monotonic() < deadline, f"sessions left behind: {left}"
        time.sleep(0.02)


def _sessions_on(db: Database) -> list[tuple[Any, ...]]:
    """Return sessions of the program that are still in the case's schema."""
    return db.query(
        "SELECT t.processlist_id, t.processlist_command, t.processlist_info, v.variable_value"
        " FROM performance_schema.threads t JOIN performance_schema.user_variables_by_thread v"
        " USING (thread_id) WHERE v.variable_name = 'spirit_py_role' AND t.processlist_db = %s",
        (db.name,),
    )


def _check_counter(case: Case, db: Database) -> None:
    """The next AUTO_INCREMENT value must not be one that was given out before."""
    if not case.expect.auto_increment:
        return
    db.execute("SET SESSION information_schema_stats_expiry = 0")
    found = db.query(
        "SELECT AUTO_INCREMENT FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (db.name, case.expect.table),
    )[0][0]
    assert found is not None
    most = case.expect.auto_increment_most or found
    where = f"{quoted(case.expect.table)} goes on at {found}"
    assert case.expect.auto_increment <= found <= most, where

"""One case from an empty schema to the oracle's judgement."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mysql_words import version_number
from tests.kits.draw import seed_of
from tests.oracle.case import Timing, other, place
from tests.oracle.compare import quoted
from tests.oracle.crew import Crew, Deferred, run_in_own_session
from tests.oracle.load import global_variables
from tests.oracle.twin import Judgement, NativeAlter, Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case

SEED_VARIABLE = "SPIRIT_PY_CASE_SEED"
#: How long the server may take to forget a session that was closed.
GRACE = 20.0


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
    seed = seed_of(SEED_VARIABLE)
    case = case.on(version_number(db.server.version()))
    expect = case.expect
    print(f"{case.name}: {SEED_VARIABLE}={seed}")  # noqa: T201 -- shown when the case fails
    with (
        global_variables(db.execute, db.query, expect.server),
        surroundings(case, db),
        Oracle(db.server, db.name, *case.changed_tables) as oracle,
    ):
        setup, statement, case = case.setup, case.native_statement(), case.placed(db.name)
        _make(case, db)
        oracle.begin(setup)
        outcome = _under_load(case, db, migrate, seed)
        _check_outcome(case, outcome)
        _check_leftovers(case, db, oracle, outcome)
        _check_invariants(case, db)
        done = expect.exit_code == 0
        judgement = oracle.judge(
            NativeAlter(
                probes=case.probes,
                statement=statement if done else "",
                session=expect.native_session,
                ignore=expect.ignore,
                moment=expect.moment,
                keyless=expect.keyless,
                rows_from_setup=expect.rows_from_setup,
            )
        )
        _check_counter(case, db)
        return judgement


@contextlib.contextmanager
def surroundings(case: Case, db: Database) -> Iterator[None]:
    """Have the second schema and the accounts that a case needs in a `with` block."""
    second = other(db.name)
    schemas = (db.name, second)
    twins = (f"{db.name}_twin", other(f"{db.name}_twin"))
    accounts = {
        place(account, pair[0]): pair
        for account in case.expect.accounts
        for pair in (schemas, twins)
    }
    try:
        if case.other_schema:
            db.execute(f"CREATE DATABASE {quoted(second)}")
        for account, names in accounts.items():
            db.execute(f"CREATE USER {account}")
            for name in names:
                db.execute(f"GRANT ALL ON {_pattern(name)}.* TO {account}")
        yield
    finally:
        for account in accounts:
            db.execute(f"DROP USER IF EXISTS {account}")
        db.execute("SET SESSION foreign_key_checks = 0")
        db.execute(f"DROP DATABASE IF EXISTS {quoted(second)}")
        db.execute("SET SESSION foreign_key_checks = 1")


def _pattern(name: str) -> str:
    """Return a schema's name as GRANT has it: an underscore stands there for any character."""
    return quoted(name.replace("_", "\\_"))


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
            passes = len(case.changed_tables)
            assert report["checksum_passes"] == passes, "nothing may be compared after the writes"
        assert report["changes_received"] > 0, "the feed received nothing while applications wrote"


def _check_leftovers(case: Case, db: Database, oracle: Oracle, outcome: Outcome) -> None:
    """Look for tables, sessions and named locks that the migration left behind.

    What the same command would resume with may stay, and only then.
    """
    tables = {
        (str(schema), str(name))
        for schema, name in db.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA IN (%s, %s)",
            (db.name, other(db.name)),
        )
    }
    if outcome.report.get("resumable"):
        tables = {place for place in tables if not re.fullmatch("_.*_(new|chkpnt|snt)", place[1])}
    expected = {*oracle.places, *((db.name, name) for name in case.expect.left_tables)}
    assert tables == expected, f"tables left behind: {tables - expected}"
    deadline = time.monotonic() + GRACE
    while left := _sessions_on(db):
        assert time.monotonic() < deadline, f"sessions left behind: {left}"
        time.sleep(0.02)


def _check_invariants(case: Case, db: Database) -> None:
    """No SELECT of the case's invariants may return a row."""
    for invariant in case.invariants:
        found = db.query(invariant)
        assert not found, f"{invariant}: {found[:6]}"


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

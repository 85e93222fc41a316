"""Play a scenario and judge it: the table must be what a native ALTER makes, or nothing changed."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import traceback
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import MySQLdb
from pyarrow.parquet import ParquetFile

from mysql_words import version_number
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from tests.fixtures.mysql import Database
from tests.fuzz.model import Scenario, as_files
from tests.oracle.case import Timing, statements
from tests.oracle.crew import Crew, Deferred, run_in_own_session
from tests.oracle.load import HeldUp, LoadError, global_variables
from tests.oracle.rawlog import OracleError
from tests.oracle.reader import Reader
from tests.oracle.twin import NativeAlter, Oracle
from tests.oracle.untrue import BinlogUntrue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mysql_base import MySQLServer
    from tests.oracle.case import Case
    from tests.oracle.scene import Outcome

    Migrate = Callable[..., Outcome]

#: Kinds of verdicts that are no finding.
FINE = frozenset({"right", "both refuse", "poisoned", "unsound", "unseen", "not kept"})
#: What --keep does not go with (docs/commands/migrate.md).
_NOT_KEPT = ("may become equal in the new table", "would be judged in two zones", "too wide for")
#: Since then the changes of foreign keys are in the binlog; before, such a key is refused.
_CASCADES_SEEN = (9, 6)
#: Warnings of a native ALTER that changed a value; the program refuses what would (R10).
LOSSY = frozenset({1048, 1261, 1262, 1263, 1264, 1265, 1292, 1365, 1366, 1406, 1411, 1441, 3637})
#: Codes of a run that has failed for what the new definition cannot hold; others are no refusal.
OF_THE_CHANGE = frozenset(
    {
        *(ErrorCode.DUPLICATES_FOR_UNIQUE_KEY, ErrorCode.VALUE_LOST, ErrorCode.NULL_IN_KEY),
        *(ErrorCode.FOREIGN_KEY, ErrorCode.GENERATED_STORED_OTHERWISE),
    }
)
_FAILED, _REFUSED = 1, 2
#: Plays of a scenario whose binlog may be untrue; the last one's verdict counts.
_PLAYS = 4
#: Of so many runs half must be right; most are, where the program is.
_MANY = 30


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of a run.

    Attributes:
        kind: ``right``; ``both refuse``; ``poisoned`` (refused because of a write that does not
            fit); ``unseen`` (keys that change rows without a trace in this server's binlog);
            ``unsound`` (the drawn table or writer is none); else a finding: ``wrong`` (rows
            or definition), ``accepted`` (the server itself refuses it), ``refused`` (the server
            itself does it), ``account`` (effects of triggers and keys are not what the writers
            did), ``snapshot`` (nor were they for a transaction that read through the swap),
            ``held up`` (a writer did not get on, or missed the table), ``source`` (a failed run
            changed it), ``left`` (tables, sessions), ``crash`` (or another error than of the
            change).
        untrue: a difference may be the binlog's (:mod:`tests.oracle.untrue`).
    """

    scenario: Scenario
    kind: str
    text: str = ""
    seconds: float = 0.0
    untrue: bool = False

    @property
    def finding(self) -> bool:
        """Whether a developer has to look at it."""
        return self.kind not in FINE

    def story(self) -> str:
        """Return everything that is needed to understand it and to have it again."""
        return f"{self.kind}: {self.text}\n{as_files(self.scenario.case())}"


def too_few_right(verdicts: Sequence[Verdict]) -> bool:
    """Return whether so many of many runs came to no changed table that they prove little."""
    right = sum(verdict.kind == "right" for verdict in verdicts)
    return len(verdicts) >= _MANY and right * 2 < len(verdicts)


def judge(scenario: Scenario, server: MySQLServer, migrate: Migrate) -> Verdict:
    """Play a scenario in a schema of its own on a server; again where its binlog may be untrue.

    Args:
        migrate: as :func:`tests.oracle.scene.play` has it, and with the change feed's options.
    """
    began = time.monotonic()
    for _ in range(_PLAYS):
        verdict = _play(scenario, server, migrate)
        if not verdict.untrue:
            break
        print(f"played again: {verdict.text}")  # noqa: T201 -- shown when it fails
    return dataclasses.replace(verdict, seconds=time.monotonic() - began)


def _play(scenario: Scenario, server: MySQLServer, migrate: Migrate) -> Verdict:
    """Play a scenario once."""
    db = Database(server, f"t_{uuid.uuid4().hex[:12]}")
    try:
        verdict = _judge(scenario, db, migrate)
    except Exception:
        verdict = Verdict(scenario=scenario, kind="crash", text=traceback.format_exc())
    finally:
        left = db.close()
    if left and not verdict.finding:
        verdict = Verdict(scenario=scenario, kind="left", text="\n".join(left))
    return verdict


def _judge(scenario: Scenario, db: Database, migrate: Migrate) -> Verdict:
    case = scenario.case()

    def says(kind: str, text: object = "") -> Verdict:
        untrue = isinstance(text, BinlogUntrue)
        return Verdict(scenario=scenario, kind=kind, text=str(text), untrue=untrue)

    with (
        global_variables(db.execute, db.query, case.expect.server),
        Oracle(db.server, db.name, "t") as oracle,
    ):
        try:
            run_in_own_session(db, case.setup)
        except MySQLdb.Error as error:
            return says("unsound", f"the table cannot be made: {error}")
        oracle.begin(case.setup)
        feed = FeedOptions(flush_interval=scenario.flush_interval, batch_rows=scenario.batch_rows)
        ended: list[Outcome] = []

        def migrating(*given: Any) -> Outcome:
            ended.append(migrate(*given, feed))
            return ended[0]

        try:
            with _reading(scenario, db) as reader:
                outcome = _under_load(scenario, case, db, migrating)
        except HeldUp as error:
            return says("held up", error)
        except LoadError as error:
            # Where ours is as the server's is, it fails there, too.
            if ended and ended[0].exit_code == 0:
                kind, text = _changed(case, oracle, ended[0])
                if kind != "right":
                    return says(kind, text)
            return says("unsound", f"a writer: {error}")
        if broken := _broken(case, db):
            return says("account", f"{broken}; exit code {outcome.exit_code}: {outcome.text}")
        # A row format, or an old server: docs/operations.md says what remains then.
        unguarded = str(outcome.report.get("snapshot_guard")).startswith("not possible")
        if reader is not None and reader.broken and not unguarded:
            return says("snapshot", f"{reader.broken}; exit code {outcome.exit_code}")
        if outcome.exit_code == 0:
            return says(*_changed(case, oracle, outcome))
        if outcome.exit_code not in {_FAILED, _REFUSED}:
            return says("crash", f"exit code {outcome.exit_code}: {outcome.text}")
        return says(*_unchanged(scenario, case, db, oracle, outcome))


def _broken(case: Case, db: Database) -> str:
    """Return the invariants that do not hold, with rows that show it."""
    found = ((one, db.query(one)) for one in case.invariants)
    return "; ".join(f"{one}: {rows[:3]}" for one, rows in found if rows)


def _reading(scenario: Scenario, db: Database) -> contextlib.AbstractContextManager[Reader | None]:
    """Read in short transactions where the table has accounts in another one."""
    if not scenario.invariants:
        return contextlib.nullcontext()
    return Reader(db.connect, scenario.invariants, seed=scenario.seed)


def _under_load(
    scenario: Scenario,
    case: Case,
    db: Database,
    migrate: Callable[[Case, Database, Callable[[], None]], Outcome],
) -> Outcome:
    """Migrate while the scenario's sessions write, and let them write on."""
    with Crew(case, db, scenario.seed) as crew:
        if case.timing is not Timing.AFTER:
            crew.begin()
        with Deferred(crew, db) if case.timing.deferred else contextlib.nullcontext():
            outcome = migrate(case, db, crew.another_round)
        if crew.writing:
            crew.go_on(swapped=outcome.exit_code == 0)
    crew.check()
    return outcome


def _changed(case: Case, oracle: Oracle, outcome: Outcome) -> tuple[str, object]:
    """Judge a run that says that the table is changed."""
    keep = case.expect.keep
    left_out = f"NOT (({keep}) IS TRUE)" if keep else ""
    native = NativeAlter(statement=case.native_statement(), keyless=False, counted=left_out)
    try:
        judged = oracle.judge(native)
    except OracleError as error:
        return "wrong", error
    except MySQLdb.Error as error:
        return "accepted", f"exit code 0, and a native ALTER says {error}"
    report = outcome.report
    for archive in report["archived"]:
        files = Path(archive["folder"].removeprefix("file:")).glob("*.parquet")
        rows = sum(ParquetFile(file).metadata.num_rows for file in files)
        if not judged.counted == archive["rows"] == rows:
            counts = f"{archive['rows']} archived, {rows} in files"
            return "wrong", f"{judged.counted} rows are left out, {counts}"
    seen = {name: report[name] for name in ("differences_found", "chunks_repaired")}
    if any(seen.values()):
        return "wrong", f"{seen}: {report.get('difference_examples')}"
    return "right", ""


def _unchanged(
    scenario: Scenario, case: Case, db: Database, oracle: Oracle, outcome: Outcome
) -> tuple[str, object]:
    """Judge a run that says that nothing was changed."""
    try:
        oracle.judge(NativeAlter(statement="", keyless=False))
    except OracleError as error:
        return "source", type(error)(f"{outcome.text}\n{error}")
    resumable = bool(outcome.report.get("resumable"))
    tables = {str(row[0]) for row in db.query("SHOW TABLES")} - {name for _, name in oracle.places}
    if tables and not resumable:
        return "left", f"{tables} after: {outcome.text}"
    code = outcome.report.get("error_code")
    if code == ErrorCode.DEFECT or (outcome.exit_code == _FAILED and code not in OF_THE_CHANGE):
        return "crash", f"{code}: {outcome.text}"
    refusal = _refusal(case, db)
    if refusal:
        return "both refuse", f"{refusal}; ours: {outcome.text}"
    if scenario.poisoned:
        return "poisoned", outcome.text
    if scenario.keep and any(text in outcome.text for text in _NOT_KEPT):
        return "not kept", outcome.text
    old = version_number(db.server.version()) < _CASCADES_SEEN
    if old and outcome.exit_code == _REFUSED and scenario.cascades:
        return "unseen", outcome.text
    return "refused", f"a native ALTER succeeds; exit code {outcome.exit_code}: {outcome.text}"


def _refusal(case: Case, db: Database) -> str:
    """Let the server change the table itself; return why it would not, or what it would lose."""
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 20")
        try:
            for statement in statements(case.native_statement()):
                cursor.execute(statement.replace("{table}", "`t`"))
        except MySQLdb.Error as error:
            return str(error)
        cursor.execute("SHOW WARNINGS")
        warnings = [row for row in cursor.fetchall() if row[1] in LOSSY]
        cursor.execute(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
            " AND TABLE_NAME = 't' AND GENERATION_EXPRESSION <> ''"
        )
        # What the server computes it rounds with a note, at every INSERT; no value is lost.
        computed = [f"'{name}'" for (name,) in cursor.fetchall()]
        lost = [row for row in warnings if not any(name in row[2] for name in computed)]
    return f"values are lost: {lost[:3]}" if lost else ""

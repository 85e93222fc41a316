"""A table that was just swapped, with reverse replication of it."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import MySQLdb

from spirit_py.checkpoint.live import REVERT, SKIP_DROP
from spirit_py.checkpoint.proofs import begin_proofs, note_proofs
from spirit_py.checkpoint.record import CheckpointRecord, ReverseRecord, TableProgress
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.config import FeedOptions, MigrationConfig, RevertConfig, SessionModes
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverLimits, CutoverPlan
from spirit_py.locks.named import AdvisoryLock
from spirit_py.migration.control.listener import ControlListener, listen
from spirit_py.migration.control.subject import Carrier, Effect, live_figures
from spirit_py.migration.job import Job
from spirit_py.migration.reverse.feed import begin, plan_reverse
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.migration.reverse.revert import Revert
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.tables.identity import identity
from spirit_py.progress import MigrationProgress
from spirit_py.statement.parse import alter_of
from spirit_py.table.names import AuxiliaryNames, lock_name
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.followed_tables import FollowedTable
from tests.kits.locking import policy
from tests.kits.reporter import RecordingReporter
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checkpoint.live import LiveFigures, Request
    from spirit_py.checkpoint.queue import Asked
    from spirit_py.mysql.session import Session

_DEADLOCK = 1213
QUICK = FeedOptions(flush_interval=0.2, wait_timeout=DEADLINE)
NOTHING = MigrationProgress(table="", elapsed=0.0, phase_elapsed=0.0)
LIMITS = CutoverLimits(lock=policy(longest_pause=0.2))

_UTC = ServerFacts(
    version="9.7.4", variables={"time_zone": "+00:00", "explicit_defaults_for_timestamp": "ON"}
)


class SwappedTable:
    """A table after its migration's swap, whose old table can follow it.

    Args:
        clauses: what ``ALTER TABLE`` did to it.
        before: called before the swap, while the migration's feed runs.
        seconds: how long reverse replication is to run.
        modes: those of the migration; by default the server's own.
    """

    def __init__(
        self,
        db: Any,
        clauses: str,
        *,
        table: str = "t",
        seconds: float = 600.0,
        before: Callable[[], None] | None = None,
        engine: Any = None,
        modes: SessionModes | None = None,
    ) -> None:
        self.db, self.table = db, table
        self.names = AuxiliaryNames.of(table)
        self.connection = connection_options(db)
        self.engine = engine
        self.stop = StopSwitch()
        self.notes = RecordingReporter()
        self.checkpoint = CheckpointTable(db.name, table)
        with FollowedTable(db, table, clauses, self.stop) as followed:
            kept = plan_reverse(followed.mapping, alter_of(db.name, table, clauses), _UTC)
            self._mark(clauses)
            if before is not None:
                before()
            plan = CutoverPlan(
                connection=self.connection,
                swaps=[followed.swap],
                source=followed.feed,
                stop=self.stop,
                limits=LIMITS,
                note_position=True,
            )
            result = Cutover(plan).run()
        assert result.after_rename
        with connect(self.connection, role="test") as session:
            self.record = begin(
                session,
                ReverseRecord(tables=(kept,), modes=modes or SessionModes()),
                position=result.after_rename,
                seconds=seconds,
            )

    def _mark(self, clauses: str) -> None:
        """Create the checkpoint table, as a migration does."""
        with connect(self.connection, role="test") as session:
            record = CheckpointRecord(
                statement=clauses,
                tables=(TableProgress(schema=self.db.name, table=self.table),),
                server_uuid=str(session.value("SELECT @@server_uuid")),
                phase="keep",
            )
            CheckpointTable(self.db.name, self.table).create(session, record)
            begin_proofs(session, self.db.name, self.table)
            new = identity(session, self.db.name, self.names.new)
            note_proofs(session, self.db.name, self.table, new=new)

    @property
    def config(self) -> RevertConfig:
        """What a revert is asked for, and here also the process that it asks."""
        return RevertConfig(
            connection=self.connection,
            database=self.db.name,
            table=self.table,
            threads=2,
            feed=QUICK,
        )

    def process(self, **changes: Any) -> Job:
        """Return the process that runs reverse replication."""
        engine: Any = SharedEngine(self.engine)
        return Job(
            replace(self.config, **changes),
            self.notes,
            engine_factory=lambda _: engine,
            stop=self.stop,
        )

    def keep(self, **changes: Any) -> BackgroundCall:
        """Run reverse replication in a thread, as the migrating process does."""
        process = self.process(**changes)
        keeper = Keeper(process, self.record)

        def figures(_session: Session) -> LiveFigures:
            return live_figures(process.config.connection.label, NOTHING, phase=REVERT, paused="")

        def locked() -> Any:
            name = lock_name("migration", self.db.name, self.table)
            lock = AdvisoryLock(self.connection, name, stop=self.stop, purpose="migration")
            with lock, process.stack:
                process.closing("Spark", process.engines.stop)
                home = self.record.home
                listen(
                    ControlListener(process, home, Reverts(keeper), key=str, figures=figures),
                    process,
                )
                return keeper.run()

        running = BackgroundCall(locked)
        until(lambda: self.notes.said("runs for"), "reverse replication")
        return running

    def revert(self, notes: RecordingReporter | None = None, **changes: Any) -> RecordingReporter:
        """Swap back as ``spirit-py revert`` does; return what it reported."""
        notes = notes or RecordingReporter()
        engine: Any = SharedEngine(self.engine)
        config = replace(self.config, **changes)
        Revert(config, notes, engine_factory=lambda _: engine, stop=StopSwitch()).run()
        return notes

    def stored(self) -> ReverseRecord | None:
        """Read the record."""
        with connect(self.connection, role="test") as session:
            return self.checkpoint.read(session, ReverseRecord)

    def columns(self, table: str | None = None) -> list[str]:
        """Return the columns of a table."""
        return [row[0] for row in self.db.query(f"SHOW COLUMNS FROM `{table or self.table}`")]

    def tables(self) -> set[str]:
        """Return the names of the schema's tables, without that of the requests."""
        return set(tables(self.db)) - {self.names.requests}


def reverse_config(db: Any, **more: Any) -> MigrationConfig:
    """Return the configuration of a migration with reverse replication."""
    return MigrationConfig(
        connection=connection_options(db),
        database=db.name,
        threads=2,
        keep_old_current=600.0,
        **more,
    )


class Reverts(Carrier):
    """Passes reverts on, as the verbs of a migration do; there are no others."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__({})
        self._keeper = keeper

    def can_answer(self, request: Request) -> bool:
        """Return whether it is a revert."""
        return request.verb == REVERT

    def carry_out(self, session: Session, asked: Asked) -> Effect:
        """Swap back."""
        return Effect(by=self._keeper.ask(skip_drop=SKIP_DROP in asked.request.arguments))


class Client:
    """An application that inserts, updates, deletes and moves unique values, with a journal.

    Each client has keys of its own; ``u`` is unique and moves between two rows of a client in one
    transaction. The table is ``(id, v, u)`` and may have more columns.

    Attributes:
        rows: what the server has acknowledged: id to (v, u).
        errors: what the server answered with an error.
    """

    def __init__(self, db: Any, table: str, number: int, seed: int) -> None:
        self._connection = db.connect(autocommit=False)
        self._table = table
        self._number = number
        self._random = random.Random(seed * 1000 + number)
        self.rows: dict[int, tuple[int, str]] = {}
        self.errors: list[str] = []
        self.writes = 0
        self._next = 1_000_000 * (number + 1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"test-client-{number}")
        self._thread.start()

    def _run(self) -> None:
        with contextlib.closing(self._connection.cursor()) as cursor:
            while not self._stop.is_set():
                planned = self._plan()
                try:
                    for statement in planned[0]:
                        cursor.execute(statement)
                    self._connection.commit()
                except MySQLdb.Error as error:
                    if error.args[0] == _DEADLOCK:  # With another client; it was rolled back.
                        continue
                    self.errors.append(str(error))
                    return
                self.rows = planned[1]
                self.writes += 1
                time.sleep(0.003)

    def _plan(self) -> tuple[list[str], dict[int, tuple[int, str]]]:
        """Draw a transaction: its statements, and what the journal is after it."""
        draw, rows, table = self._random, dict(self.rows), f"`{self._table}`"
        value = draw.randrange(1 << 30)
        kind = draw.random()
        if len(rows) < 20 or (kind < 0.3 and len(rows) < 300):
            key, self._next = self._next, self._next + 1
            rows[key] = (value, f"u{key}")
            return [f"INSERT INTO {table} (id, v, u) VALUES ({key}, {value}, 'u{key}')"], rows
        first, second = draw.sample(sorted(rows), 2)
        if kind < 0.7:
            rows[first] = (value, rows[first][1])
            return [f"UPDATE {table} SET v = {value} WHERE id = {first}"], rows
        if kind < 0.8:
            del rows[first]
            return [f"DELETE FROM {table} WHERE id = {first}"], rows
        mine, other = rows[first][1], rows[second][1]
        rows[first], rows[second] = (rows[first][0], other), (rows[second][0], mine)
        return [
            f"UPDATE {table} SET u = 'moving-{self._number}' WHERE id = {first}",
            f"UPDATE {table} SET u = '{mine}' WHERE id = {second}",
            f"UPDATE {table} SET u = '{other}' WHERE id = {first}",
        ], rows

    def stop(self) -> None:
        """Stop writing and wait for the last answer."""
        self._stop.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "a client hangs"

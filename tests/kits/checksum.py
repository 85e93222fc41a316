"""Pairs of tables to compare, and a gang of threads in Spark's place."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from spirit_py.applier.applier import SqlApplier
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.config import ConnectionOptions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.spark.outcome import Outcome, guarded
from spirit_py.sql import identifier_list
from spirit_py.statement import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checksum.result import ChecksumResult
    from tests.fixtures.mysql import Database


class ThreadEngine:
    """Runs a gang's tasks in threads: the same conversation, without a JVM."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.runs = 0

    def run_gang(
        self, function: Callable[[int], Any], *, size: int, group: str, description: str
    ) -> list[Outcome[Any]]:
        """Run ``function(rank)`` in ``size`` threads."""
        self.runs += 1
        outcomes: list[Outcome[Any]] = []
        threads = [
            threading.Thread(target=lambda r=rank: outcomes.append(guarded(r, function, r)))
            for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes

    def cancel(self, group: str) -> None:
        """Threads cannot be cancelled; they end when their sessions are killed."""


def connection_options(db: Database) -> ConnectionOptions:
    """Return the program's way to the test's server."""
    server = db.server
    return ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )


class Pair:
    """A source table ``t`` and its new table ``_t_new``, copied, with their mapping."""

    def __init__(self, db: Database, alter: str = "ENGINE=InnoDB") -> None:
        self.db = db
        self.options = connection_options(db)
        db.execute(f"CREATE TABLE _t_new LIKE t; ALTER TABLE _t_new {alter}")
        with connect(self.options, role="inspect") as session:
            source = read_table(session, db.name, "t")
            target = read_table(session, db.name, "_t_new")
            zone = str(session.query("SELECT @@global.time_zone")[0][0])
        assert source is not None
        assert target is not None
        self.mapping = build_mapping(source, target, alter_of(db.name, "t", alter), zone)
        self.stop = StopSwitch()

    def copy(self) -> Pair:
        """Fill the new table as the copier does."""
        old = identifier_list(pair.old.name for pair in self.mapping.pairs)
        new = identifier_list(pair.new.name for pair in self.mapping.pairs)
        with connect(self.options, database=self.db.name, role="copy") as session:
            if self.mapping.time_zone:
                session.execute("SET SESSION time_zone = %s", (self.mapping.time_zone,))
            session.execute(f"REPLACE INTO _t_new ({new}) SELECT {old} FROM t")
        return self

    def checker(
        self,
        *,
        applier: SqlApplier | None = None,
        engine: Any = None,
        duplicates: Any = None,
        on_progress: Any = None,
        resume_above: Any = None,
        **options: Any,
    ) -> Checker:
        """Return a checker of the two tables; ``options`` are those of :class:`ChecksumOptions`."""
        return Checker(
            mapping=self.mapping,
            source=self.options,
            engine=engine or ThreadEngine(),
            stop=self.stop,
            applier=applier,
            find_duplicates=duplicates,
            on_progress=on_progress,
            resume_above=resume_above,
            options=ChecksumOptions(**options),
        )

    def check(self, **options: Any) -> ChecksumResult:
        """Compare the two tables once."""
        return self.checker(**options).run()

    def repair(self, **options: Any) -> ChecksumResult:
        """Compare the two tables, and repair with the real applier until they are equal."""
        applier = SqlApplier(self.options, sessions=1, batch_rows=1000, stop=self.stop)
        try:
            return self.checker(applier=applier, **options).run()
        finally:
            applier.close()

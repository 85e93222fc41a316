"""A table and its new table to compare, with threads in Spark's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.applier.applier import SqlApplier
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.worker import Comparison
from spirit_py.mysql.connect import connect
from spirit_py.pace import Unhindered
from spirit_py.sql import identifier_list
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.tables import map_table

if TYPE_CHECKING:
    from spirit_py.checksum.result import ChecksumResult
    from tests.fixtures.mysql import Database


class Pair:
    """A source table ``t`` and its new table ``_t_new``, copied, with their mapping."""

    def __init__(self, db: Database, alter: str = "ENGINE=InnoDB") -> None:
        self.db = db
        self.options = connection_options(db)
        ((zone,),) = db.query("SELECT @@global.time_zone")
        self.mapping = map_table(db, alter, time_zone=str(zone))
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
        on_progress: Any = None,
        resume_above: Any = None,
        pace: Any = None,
        **options: Any,
    ) -> Checker:
        """Return a checker of the two tables; ``options`` are those of :class:`ChecksumOptions`.

        The first chunks are small, so that a few thousand rows are several.
        """
        comparison = Comparison(
            mapping=self.mapping,
            source=self.options,
            engine=engine or ThreadEngine(),
            stop=self.stop,
            pace=pace or Unhindered(),
            options=ChecksumOptions(**({"first_rows": 1000} | options)),
        )
        return Checker(
            comparison, applier=applier, on_progress=on_progress, resume_above=resume_above
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

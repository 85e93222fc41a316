"""The binlog of every table in a scope, as a stream of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.parser import BinlogParser
from spirit_py.binlog.source import BinlogSource
from spirit_py.binlog.xa import recoverable
from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.faults import NO_SUCH_TABLE, Disposition, connection_lost, disposition
from spirit_py.mysql.tables.definition import read_table
from spirit_py.watch.definitions import Definitions
from spirit_py.watch.scope import Scope, TableNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.events import Frontier, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_MOST_READ_AHEAD: Final = 200


class ScopeSource(BinlogSource):
    """A binlog stream of all tables in a scope; it changes nothing on the server."""

    def __init__(
        self, connection: ConnectionOptions, options: FeedOptions, *, database: str, table: str
    ) -> None:
        super().__init__(connection, options)
        self.scope = Scope(database, table, ignore_case=self.ignore_case)
        self.definitions = Definitions(self._definition, self._executed, self.collations)
        self._events: BinlogParser | None = None

    def open(self, position: str) -> ServerFrontier:
        """Open the stream after a position, or after everything committed and visible now."""
        if position:
            return self.resume((), position)
        return self._open((), self.executed())

    def prepared_before(self) -> set[str] | None:
        """Return the XA transactions that are prepared now; None when the account may not see."""
        with self._control.lend() as session:
            rows = recoverable(session)
        return None if rows is None else {_xid(row[0], row[1], row[3]) for row in rows}

    def learn(self) -> int:
        """Read the definitions of the tables there are now, if not very many; count the tables."""
        with self._control.lend() as session:
            rows = session.query(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
                " WHERE TABLE_TYPE = 'BASE TABLE'"
                " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema')"
            )
        tables = [(str(s), str(t)) for s, t in rows if self.scope.covers(str(s), str(t))]
        for table in tables if len(tables) <= _MOST_READ_AHEAD else ():
            self.definitions.learn(table)
        return len(tables)

    def forget_codecs(self) -> None:
        """Ask for definitions again at the next table maps."""
        if self._events is not None:
            self._events.forget_codecs()

    def _parser(
        self,
        mappings: Sequence[TableMapping],  # noqa: ARG002 - a migration's
        start: ServerFrontier,
    ) -> BinlogParser:
        self._events = BinlogParser(
            self.definitions.compile, start, TableNames(self.scope), collations=self.collations
        )
        return self._events

    def _definition(self, table: Table) -> TableSchema | None:
        """Read a definition in the reader's thread; the stream also handles a lost server."""
        try:
            with self._control.lend() as session:
                return read_table(session, *table)
        except ServerFault as fault:
            if connection_lost(fault) or disposition(fault) is not Disposition.FATAL:
                raise StreamLost(fault.message) from fault
            if fault.code == NO_SUCH_TABLE:  # dropped or renamed between two questions
                return None
            raise

    def _executed(self) -> Frontier:
        try:
            return self.executed()
        except FeedFailure as error:
            raise StreamLost(error.message) from error


def _xid(form: int, gtrid: int, data: str) -> str:
    digits = data.removeprefix("0x").lower()
    return f"X'{digits[: 2 * gtrid]}',X'{digits[2 * gtrid :]}',{form}"

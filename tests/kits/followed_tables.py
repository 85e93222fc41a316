"""New tables that are copied and followed by the real change feed, ready for the cutover."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.chunk.chunk import Chunk
from spirit_py.config import FeedOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.sql import identifier_list, quote_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.names import Swap
from tests.kits.connection import connection_options

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession, Subscription
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

#: Quick to apply, and patient: how long a busy machine takes for anything is not what is tested.
QUICK = FeedOptions(flush_interval=0.2, wait_timeout=60)


class FollowedTables:
    """A migration up to its cutover: new tables, copied, and followed by one real feed.

    Args:
        alters: schema, table, and what ``ALTER TABLE`` does to it.
        proxy: reach the server through it.
        feed_options: limits of the feed.
        start: the place from which the feed follows; empty for now.
        copy: copy what the tables hold.
    """

    def __init__(
        self,
        db,
        alters: list[tuple[str, str, str]],
        stop: StopSwitch,
        proxy=None,
        feed_options: FeedOptions = QUICK,
        *,
        start: str = "",
        copy: bool = True,
    ) -> None:
        self.connection = connection_options(db, proxy)
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(connect(self.connection, role="test"))
            native = stack.enter_context(connect(self.connection, role="test", native=True))
            self.mappings = [self._create(session, native, *alter) for alter in alters]
            self.swaps = [Swap.of(mapping) for mapping in self.mappings]
            self.applier = SqlApplier(self.connection, sessions=2, batch_rows=1000, stop=stop)
            self.feed = ChangeFeed(
                BinlogSource(self.connection, feed_options),
                self.applier,
                options=feed_options,
                stop=stop,
            )
            followed = [self.feed.add_subscription(mapping) for mapping in self.mappings]
            # Without a copy nothing may be dropped for a chunk that is to read it.
            if not copy:
                self.feed.end_watermark_optimization()
            if start:
                self.feed.start_from_position(start)
            else:
                self.feed.start()
            for mapping, subscription in zip(self.mappings, followed, strict=True):
                self._fill(session, mapping, subscription, copy=copy)
            self.feed.end_watermark_optimization()

    @staticmethod
    def _create(
        session: SqlSession, native: SqlSession, schema: str, table: str, clauses: str
    ) -> TableMapping:
        """Create the new table of one source."""
        for each in (session, native):
            each.execute(f"USE `{schema}`")
        source = read_table(session, schema, table)
        assert source is not None
        statement = alter_of(schema, table, clauses)
        target = NewTable(session, native, source, statement).create()
        return build_mapping(source, target, statement, "+00:00")

    @staticmethod
    def _fill(
        session: SqlSession, mapping: TableMapping, subscription: Subscription, *, copy: bool
    ) -> None:
        """Copy all rows in one chunk."""
        chunk = Chunk(number=0, lower=None, upper=None, target_rows=1)
        visible = subscription.dispatch(chunk)
        if visible:
            session.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 10)", (visible,))
        source, target = mapping.source, mapping.target
        names = identifier_list(pair.old.name for pair in mapping.pairs)
        if copy:
            session.execute(
                f"REPLACE INTO {quote_table(target.schema, target.name)}"
                f" ({identifier_list(mapping.insert_names)})"
                f" SELECT {names} FROM {quote_table(source.schema, source.name)}"
            )
        subscription.committed(chunk)
        subscription.copy_finished()

    def close(self) -> None:
        """End the feed and the applier."""
        self.feed.close()
        self.applier.close()

    def __enter__(self) -> Self:
        """Use it as a context that closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class FollowedTable(FollowedTables):
    """The same of one table, in the test's schema."""

    def __init__(
        self,
        db,
        table: str,
        clauses: str,
        stop: StopSwitch,
        proxy=None,
        feed_options: FeedOptions = QUICK,
        *,
        start: str = "",
        copy: bool = True,
    ) -> None:
        alters = [(db.name, table, clauses)]
        super().__init__(db, alters, stop, proxy, feed_options, start=start, copy=copy)
        (self.mapping,), (self.swap,) = self.mappings, self.swaps

"""A migration up to its cutover, with the real feed, for the tests of the cutover."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from spirit_py.applier.applier import SqlApplier
from spirit_py.change.source import binlog_source
from spirit_py.chunk.chunk import Chunk
from spirit_py.config import FeedOptions
from spirit_py.cutover.plan import Swap
from spirit_py.mysql.connect import connect
from spirit_py.mysql.inspect import read_table
from spirit_py.mysql.newtable import create_new_table
from spirit_py.sql import identifier_list, quote_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping
from tests.cutover_kit import options

if TYPE_CHECKING:
    from spirit_py.stop import StopSwitch

QUICK = FeedOptions(flush_interval=0.2, wait_timeout=10)


class FollowedTable:
    """A migration up to its cutover: a new table, copied, and followed by the real feed.

    Args:
        clauses: what ``ALTER TABLE`` does to the table.
        proxy: reach the server through it.
        feed_options: limits of the feed.
    """

    def __init__(
        self,
        db,
        table: str,
        clauses: str,
        stop: StopSwitch,
        proxy=None,
        feed_options: FeedOptions = QUICK,
    ) -> None:
        self.connection = options(db, proxy)
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(connect(self.connection, database=db.name, role="test"))
            native = stack.enter_context(
                connect(self.connection, database=db.name, role="test", native=True)
            )
            source = read_table(session, db.name, table)
            assert source is not None
            statement = alter_of(db.name, table, clauses)
            target = create_new_table(session, native, source, statement)
            self.mapping = build_mapping(source, target, statement, "+00:00")
            self.swap = Swap.of(self.mapping)
            self.applier = SqlApplier(self.connection, sessions=2, batch_rows=1000, stop=stop)
            self.feed = binlog_source(self.connection, self.applier, feed_options, stop)
            subscription = self.feed.add_subscription(self.mapping)
            self.feed.start()
            chunk = Chunk(number=0, lower=None, upper=None, target_rows=1)
            visible = subscription.dispatch(chunk)
            if visible:
                session.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 10)", (visible,))
            new = quote_table(db.name, target.name)
            names = identifier_list(pair.old.name for pair in self.mapping.pairs)
            session.execute(
                f"REPLACE INTO {new} ({identifier_list(self.mapping.insert_names)})"
                f" SELECT {names} FROM {quote_table(db.name, table)}"
            )
            subscription.committed(chunk)
            subscription.copy_finished()
            self.feed.set_watermark_optimization(enabled=False)

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

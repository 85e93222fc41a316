"""All uses of the program's internals by the benchmarks.

Whole migrations go through the command line. Only the feed, the swap and the decoder are measured
by themselves.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.config import ConnectionOptions, FeedOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping


def options_of(address: Address) -> ConnectionOptions:
    """Return how the program reaches a server."""
    return ConnectionOptions(
        host=address.host, port=address.port, user=address.user, password=address.password
    )


def new_table(address: Address, alter: str) -> TableMapping:
    """Create the new table, empty; return the mapping to it."""
    with Session(address) as session:
        session.execute("DROP TABLE IF EXISTS _t_new")
        session.execute(f"CREATE TABLE _t_new LIKE {TABLE}")
        session.execute(f"ALTER TABLE _t_new {alter}")
    with connect(options_of(address), database=SCHEMA, role="bench") as own:
        source, target = (read_table(own, SCHEMA, name) for name in (TABLE, "_t_new"))
    if source is None or target is None:
        raise SystemExit("the tables of the benchmark are gone")
    return build_mapping(source, target, alter_of(SCHEMA, TABLE, alter), "+00:00")


@contextlib.contextmanager
def feed_of(address: Address, mapping: TableMapping) -> Iterator[tuple[Any, Any]]:
    """Make a feed and the subscription of one table, not started yet."""
    stop, options = StopSwitch(), FeedOptions(wait_timeout=600.0)
    sessions, rows = options.apply_threads, options.batch_rows
    with contextlib.ExitStack() as stack:
        applier = SqlApplier(options_of(address), sessions=sessions, batch_rows=rows, stop=stop)
        stack.callback(applier.close)
        source = BinlogSource(options_of(address), options)
        feed = ChangeFeed(source, applier, options=options, stop=stop)
        stack.callback(feed.close)
        yield feed, feed.add_subscription(mapping)


def applier_shape() -> tuple[int, int]:
    """Return how many sessions the applier has, and how many rows a statement of it."""
    options = FeedOptions()
    return options.apply_threads, options.batch_rows

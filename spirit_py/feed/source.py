"""The change feed of a MySQL server: the binlog's stream with the parts that apply it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.source import BinlogStream
from spirit_py.feed.feed import ChangeFeed

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import Applier
    from spirit_py.stop import StopSwitch


def binlog_source(
    connection: ConnectionOptions,
    applier: Applier,
    options: FeedOptions,
    stop: StopSwitch,
) -> ChangeFeed:
    """Return the change feed of a server; it asks the server what kind it is, no more.

    Raises:
        ServerFault: the server cannot be asked.
    """
    stream = BinlogStream(connection, options)
    return ChangeFeed(stream, applier, options=options, stop=stop)

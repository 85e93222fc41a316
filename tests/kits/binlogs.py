"""Binary logs that are gone, as a server's expiry leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.mysql import Database


def purge_binlogs(db: Database) -> None:
    """Begin a new binary log and drop all before it.

    The server keeps a file that a session still reads, and takes a moment to forget a closed one.
    """
    db.execute("FLUSH BINARY LOGS")
    ((last, *_),) = db.query("SHOW BINARY LOGS")[-1:]

    def purged() -> bool:
        db.execute("PURGE BINARY LOGS TO %s", (last,))
        return bool(db.query("SHOW BINARY LOGS")[0][0] == last)

    until(purged, "the end of the older binary logs")

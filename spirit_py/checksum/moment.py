"""Two servers at one moment, where one is the other's replica.

There is no snapshot over two servers. But while the source's table is locked, nothing new for
it can come into the binlog; a replica that has executed what the source had executed by then
holds the same rows, until the lock goes. GTIDs tell when that is so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spirit_py.errors import ChangesNotFlushed

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

#: Which side replicates from the other; empty where neither does, or no GTID tells.
Follower: TypeAlias = Literal["", "source", "target"]

CATCH_UP_SECONDS: Final = 30
"""Seconds that a replica gets to catch up before the lock is asked for."""


def catch_up(leader: SqlSession, follower: SqlSession, seconds: int) -> None:
    """Wait until the follower has executed what the leader has executed by now.

    Raises:
        ChangesNotFlushed: when it has not after so many whole seconds.
    """
    executed = str(leader.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    late = follower.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (executed, seconds))[0][0]
    if int(late):
        raise ChangesNotFlushed(
            f"the replica has not caught up within {seconds} s",
            hint="run the same command again when the replica lags less",
        )

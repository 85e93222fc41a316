"""The interface of one throttler, its session, and those that ask no server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from spirit_py.classes import dataclass
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import RenewedSession
from spirit_py.pace import Work
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.progress import FeedStatistics
    from spirit_py.units import Window

WRITES: Final = frozenset({Work.COPY, Work.REPAIR, Work.INDEX})
"""Work that writes to the new table, and so to the binlog and the replicas."""
ALL_WORK: Final = frozenset(Work)
_ANSWER_WITHIN: Final = 3


class Throttler(Protocol):
    """Looks at one thing with its own sessions; one thread calls it, any if :attr:`every` is 0."""

    @property
    def name(self) -> str:
        """What it looks at, for messages and the report: short, and always the same."""

    @property
    def holds(self) -> AbstractSet[Work]:
        """The work that it holds back."""

    @property
    def every(self) -> float:
        """Seconds until the next look; 0 only for one without I/O, asked whenever work is."""

    def look(self) -> str:
        """Return what the work has to wait for, like :meth:`spirit_py.pace.Pace.reason`.

        May block for seconds, or raise: then the last finding holds for a grace.
        """

    def close(self) -> None:
        """Close its sessions; called once, after the last look, by the thread that looked."""


@dataclass(frozen=True, kw_only=True)
class Looking:
    """A throttler that is one function."""

    name: str
    look: Callable[[], str]
    holds: AbstractSet[Work] = ALL_WORK
    every: float = 0.0
    close: Callable[[], None] = lambda: None


def asking(
    connection: ConnectionOptions,
    name: str,
    why: Callable[[Session], str],
    *,
    role: str,
    every: float,
    holds: AbstractSet[Work] = ALL_WORK,
    **more: Any,
) -> Looking:
    """Return a throttler that asks the server in a session of its own; see :func:`own_session`."""
    session = own_session(connection, role, **more)
    return Looking(
        name=name, look=lambda: session.ask(why), holds=holds, every=every, close=session.close
    )


WINDOWS: Final = "times of the day"


def window_throttler(windows: Sequence[Window], *, now: Callable[[], datetime]) -> Looking:
    """Return what waits until one of the windows is open; ``now`` returns a time with a zone."""

    def look() -> str:
        moment = now()
        if any(window.is_open(moment) for window in windows):
            return ""
        wait = human_seconds(min(window.opens_in(moment) for window in windows))
        return f"the time of --allow {','.join(map(str, windows))}, in {wait}"

    return Looking(name=WINDOWS, look=look)


def backlog_throttler(statistics: Callable[[], FeedStatistics]) -> Looking:
    """Return what holds the copy, which fills the binlog, back while the feed has no room (R19)."""

    def look() -> str:
        feed = statistics()
        if not feed.backpressure:
            return ""
        return (
            f"the change feed, which has {feed.pending} changes to apply before it reads on, and"
            " has priority over the copy"
        )

    return Looking(name="change feed", look=look, holds=frozenset({Work.COPY}))


def own_session(
    connection: ConnectionOptions,
    role: str,
    *,
    prepare: Callable[[Session], None] | None = None,
    **more: Any,
) -> RenewedSession:
    """Return a session whose statements end within seconds; ``prepare`` is called with it."""
    # The server ends a wait first, or the fault would not show that it was one.
    more |= dict.fromkeys(("lock_wait_timeout", "innodb_lock_wait_timeout"), _ANSWER_WITHIN - 1)
    opened = partial(connect, connection, role=role, read_timeout=_ANSWER_WITHIN, **more)
    return RenewedSession(opened, prepare=prepare)

"""Apply, or receive and apply, until the backlog is trivial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import ChangesNotFlushed, FeedFailure
from spirit_py.mysql.retry import retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import ChangeSource
    from spirit_py.stop import StopSwitch

TRIVIAL_BACKLOG: Final = 1000
"""Pending changes up to which the backlog is trivial."""
_STALLED_ROUNDS: Final = 10
_FIRST_PAUSE: Final = 0.5


def flush_backlog(apply: Callable[[], int], pending: Callable[[], int], *, trivial: int) -> None:
    """Apply in rounds until the backlog is trivial, or nothing more may be applied yet.

    Args:
        apply: applies what may be applied; returns how many changes.

    Raises:
        ChangesNotFlushed: the backlog does not shrink.
    """
    best, stalled = None, 0
    while True:
        applied = apply()
        left = pending()
        if left <= trivial or not applied:
            return
        stalled = stalled + 1 if best is not None and left >= best else 0
        best = left if best is None else min(best, left)
        if stalled >= _STALLED_ROUNDS:
            raise ChangesNotFlushed(
                f"{left} changes are still pending after {stalled} rounds that did not"
                " get below that",
                hint="the table is written faster than changes are applied: wait for a"
                " quieter time, or raise the apply threads",
            )


def catch_up(source: ChangeSource, stop: StopSwitch, *, tell: Callable[[str], None]) -> None:
    """Return when all that is committed now is received, and the backlog is trivial.

    Waits for a feed that reconnects and for a server that restarts. The limit is
    :data:`PATIENCE` seconds in which no change was received or applied.

    Args:
        tell: called with what is waited for, and with an empty text at the end.

    Raises:
        SpiritError: the feed's own fault, the reason of the stop switch, or the last failure.
    """

    def moved() -> object:
        seen = source.statistics()
        return seen.received, seen.applied, seen.read_position

    def once() -> None:
        stop.check()
        source.block_wait()
        source.flush()

    waited = False

    def hiccup(_: int, error: BaseException) -> None:
        nonlocal waited
        waited = True
        tell(f"the change feed to catch up: {error}")

    retrying(
        stop,
        first_pause=_FIRST_PAUSE,
        on_retry=hiccup,
        hiccups=(FeedFailure, ChangesNotFlushed),
        progress=moved,
    )(once)
    if waited:
        tell("")

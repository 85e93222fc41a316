"""Receive and apply what there is, for as long as that takes, while nothing is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import ChangesNotFlushed, FeedFailure
from spirit_py.mysql.retry import PATIENCE, retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import ChangeSource
    from spirit_py.stop import StopSwitch

_FIRST_PAUSE = 0.5


def catch_up(
    source: ChangeSource,
    stop: StopSwitch,
    *,
    tell: Callable[[str], None],
    patience: float = PATIENCE,
) -> None:
    """Return when all that is committed now is received, and the backlog is trivial.

    A feed that reconnects and a server that restarts are waited for. As long as changes come in
    or are applied there is no limit; ``patience`` seconds without either are one.

    Args:
        tell: told what is waited for, and an empty text at the end.

    Raises:
        SpiritError: the feed's own fault, the reason of the stop switch, or what it waited for.
    """

    def moved() -> object:
        seen = source.statistics()
        return seen.received, seen.applied, seen.read_position

    def once() -> None:
        stop.check()
        source.block_wait()
        source.flush()

    told = False

    def hiccup(_: int, error: BaseException) -> None:
        nonlocal told
        told = True
        tell(f"the change feed to catch up: {error}")

    retrying(
        stop,
        patience=patience,
        first_pause=_FIRST_PAUSE,
        on_retry=hiccup,
        hiccups=(FeedFailure, ChangesNotFlushed),
        progress=moved,
    )(once)
    if told:
        tell("")

"""Bugs that are planted into the program, to see that the simulation finds them.

Each takes one rule of ``docs/rules.md`` away. A run with a planted bug has to go wrong within the
number of worlds that the documentation states.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from tests.simulation import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from spirit_py.binlog.position import GtidFrontier, GtidSet
from spirit_py.binlog.source import BinlogSource
from spirit_py.chunk.watermark import OpenEnd, WatermarkTracker
from spirit_py.copier.task import ChunkWriter
from spirit_py.feed.buffer import Filters
from spirit_py.feed.feed import ChangeFeed
from spirit_py.feed.ledger import Ledger
from spirit_py.feed.reception import Reception
from tests.simulation.server import UUID, interval


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _begin_at_the_end(self: BinlogSource, mappings: Any) -> Any:
    """Begin after all that is in the binlog, whether readers of the table see it or not."""
    server = program.server()
    logged = interval(one.number for one in server.binlog)
    return self._open(mappings, GtidFrontier(UUID, GtidSet.parse(logged)))


def _received(self: Ledger) -> str:
    """Return what was received last in the place of what is safe."""
    safe = self._safe.copy()
    for epoch in self._epochs:
        safe.absorb(epoch.gained)
    return str(safe.text())


#: A bug, and the rule of ``docs/rules.md`` that it takes away.
PLANTED: Final[dict[str, Callable[[], Any]]] = {
    # R2
    "feed-begins-at-the-end": lambda: mock.patch.object(BinlogSource, "begin", _begin_at_the_end),
    # R3
    "chunk-does-not-wait": lambda: mock.patch.object(ChunkWriter, "_wait_until_visible", _nothing),
    "too-much-is-dropped": lambda: mock.patch.object(
        WatermarkTracker, "above_high", return_value=True
    ),
    # R4
    "nothing-is-held": lambda: mock.patch.object(Filters, "holds", return_value=False),
    # R7
    "position-is-what-was-received": lambda: mock.patch.object(Ledger, "safe_text", _received),
    # R15
    "swap-does-not-receive": lambda: mock.patch.object(Reception, "wait", _nothing),
    "swap-does-not-flush": lambda: mock.patch.multiple(
        ChangeFeed, flush_under_table_lock=_nothing, all_changes_flushed=lambda *_: True
    ),
    # R17
    "resume-drops-deletes": lambda: mock.patch.object(
        program, "last_copied_key", return_value=OpenEnd.BEGINNING
    ),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the program be wrong in one way."""
    if not name:
        yield
        return
    with PLANTED[name]():
        yield

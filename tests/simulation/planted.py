"""Bugs that are planted into the program, to see that the simulation finds them.

Each takes one rule of ``docs/rules.md`` away. A run with a planted bug has to go wrong within the
number of worlds that the documentation states.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from tests.simulation import program  # noqa: F401 (imports the program under the simulated clock)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from spirit_py.chunk.watermark import WatermarkTracker
from spirit_py.copier.task import ChunkWriter
from spirit_py.feed.buffer import Filters
from spirit_py.feed.feed import ChangeFeed
from spirit_py.feed.reception import Reception


def _nothing(*_: Any, **__: Any) -> None:
    return None


PLANTED: Final[dict[str, Callable[[], Any]]] = {
    # R3: a chunk reads before what was dropped for it is visible.
    "chunk-does-not-wait": lambda: mock.patch.object(ChunkWriter, "_wait_until_visible", _nothing),
    # R4: changes of a chunk in flight are applied, and overwritten by the chunk.
    "nothing-is-held": lambda: mock.patch.object(Filters, "holds", return_value=False),
    # R3: whatever is above nothing is dropped, copied or not.
    "too-much-is-dropped": lambda: mock.patch.object(
        WatermarkTracker, "above_high", return_value=True
    ),
    # R15: the swap does not wait for what was executed.
    "swap-does-not-receive": lambda: mock.patch.object(Reception, "wait", _nothing),
    # R15: what is pending under the lock is left.
    "swap-does-not-flush": lambda: mock.patch.multiple(
        ChangeFeed, flush_under_table_lock=_nothing, all_changes_flushed=lambda *_: True
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

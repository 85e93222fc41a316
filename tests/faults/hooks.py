"""The command with hooks set into it, which are not in the program: haste, a strange clock, bugs.

``python -m tests.faults.hooks HOOK,HOOK migrate ...``. The bugs are there to see that the
harness notices them.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_DAYS = 3 * 86_400.0
_EVERY = 25


def clock() -> None:
    """Let the wall clock jump, days forwards and hours backwards, every second."""
    real, steady = time.time, time.monotonic

    def jumping() -> float:
        return real() + (_DAYS if int(steady()) % 2 else -7200.0)

    time.time = jumping


def small_chunks() -> None:
    """Begin with chunks of 200 rows."""
    from spirit_py.chunk.sizing import ChunkSizer

    ChunkSizer.__init__.__kwdefaults__["first_rows"] = 200  # type: ignore[index]


def quick_checkpoints() -> None:
    """Write a checkpoint three times a second."""
    from spirit_py.checkpoint.writer import CheckpointWriter

    CheckpointWriter.__init__.__kwdefaults__["period"] = 0.3  # type: ignore[index]


def quick_flushes() -> None:
    """Apply what is pending four times a second."""
    from spirit_py.config import FeedOptions

    FeedOptions.__init__.__kwdefaults__["flush_interval"] = 0.25  # type: ignore[index]


def drop_events() -> None:
    """Bug: forget a change now and then."""
    from spirit_py.change.buffer import ChangeBuffer

    kept, number = ChangeBuffer.add, itertools.count(1)

    def add(self: Any, *given: Any, **more: Any) -> bool:
        return next(number) % _EVERY != 0 and kept(self, *given, **more)

    ChangeBuffer.add = add  # type: ignore[method-assign]


def drop_late_events() -> None:
    """Bug: forget changes once the checksum has its snapshot, so that it cannot notice."""
    from spirit_py import points
    from spirit_py.change.buffer import ChangeBuffer

    kept, reach, passed = ChangeBuffer.add, points.reach, set()

    def noting(name: str) -> None:
        passed.add(name)
        reach(name)

    def add(self: Any, *given: Any, **more: Any) -> bool:
        return "checksum.compare" not in passed and kept(self, *given, **more)

    points.reach = noting
    ChangeBuffer.add = add  # type: ignore[method-assign]


def early_position() -> None:
    """Bug: give out what was received as the safe position, applied or not."""
    from spirit_py.change.ledger import Ledger

    Ledger.safe_text = lambda self: self.received.text()  # type: ignore[method-assign]


def skip_chunk() -> None:
    """Bug: note the high watermark as what is copied, so that a resume skips chunks in flight."""
    from spirit_py.chunk.watermark import WatermarkTracker

    WatermarkTracker.low = WatermarkTracker.high  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "drop-events": drop_events,
    "drop-late-events": drop_late_events,
    "early-position": early_position,
    "skip-chunk": skip_chunk,
}
HOOKS: dict[str, Callable[[], None]] = {
    "clock": clock,
    "small-chunks": small_chunks,
    "quick-checkpoints": quick_checkpoints,
    "quick-flushes": quick_flushes,
    **BUGS,
}


def main(argv: list[str]) -> None:
    """Set the hooks, then run the command line."""
    for name in filter(None, argv[1].split(",")):
        HOOKS[name]()
    from spirit_py.cli import main as command

    sys.argv = ["spirit-py", *argv[2:]]
    command()


if __name__ == "__main__":
    main(sys.argv)

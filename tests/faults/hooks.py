"""The command with hooks set into it, which are not in the program: haste, a strange clock, bugs.

``python -m tests.faults.hooks HOOK,HOOK migrate ...``. The bugs are there to see that the
harness notices them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.copier.crew import Crew
    from spirit_py.feed.subscription import TableSubscription
    from tests.faults.draw import Draw

#: After how many statements of its packet a swap is stopped.
PACKET_VARIABLE = "SPIRIT_PY_TEST_PACKET"
_DAYS = 3 * 86_400.0
_THIRD = 3


def clock() -> None:
    """Let the wall clock jump, days forwards and hours backwards, every second."""
    real, steady = time.time, time.monotonic

    def jumping() -> float:
        return real() + (_DAYS if int(steady()) % 2 else -7200.0)

    time.time = jumping


def _change_default(of: type, **value: object) -> None:
    """Change what an argument of a constructor is where nobody passes it."""
    defaults = of.__init__.__kwdefaults__  # type: ignore[misc]
    (name,) = value
    if name not in defaults:
        message = f"{of.__name__} has no argument {name} with a default"
        raise LookupError(message)
    defaults |= value


def short_meetings() -> None:
    """Have rows of two sources meet for seconds, instead of a minute, before the move ends."""
    from spirit_py.feed import flusher
    from spirit_py.move import carrier

    vars(flusher)["MEETING_SECONDS"] = vars(carrier)["MEETING_SECONDS"] = 5.0


def small_chunks() -> None:
    """Begin the copy with chunks of 200 rows, in parts of 60, the checksum with 1000.

    Rows that differ are read as often as ever, in less than a second instead of three and a half.
    """
    from spirit_py.archiving import archive
    from spirit_py.checksum import recheck
    from spirit_py.checksum.result import ChecksumOptions
    from spirit_py.chunk import sizing

    _change_default(sizing.ChunkSizer, first_rows=200)
    _change_default(ChecksumOptions, first_rows=1000)
    sizing.FAST_GROWTH = sizing.GROWTH
    sizing.FEWEST_PART_ROWS = sizing.MOST_PART_ROWS = 60
    archive._FEWEST_ROWS, archive._FILE_BYTES = 100, 1  # type: ignore[misc]
    recheck._PAUSES = tuple(min(pause, 0.1) for pause in recheck._PAUSES)  # type: ignore[misc,assignment]


def spark_first() -> None:
    """Wait for Spark and copy in its tasks alone, as long as its gangs come together."""
    from spirit_py.copier.crew import Crew
    from spirit_py.errors import MigrationFailure

    opened = Crew._open

    def opening(self: Crew, engine: Any, first: int, size: int) -> Any:
        try:
            return opened(self, self.spark or engine, first, size)
        except MigrationFailure:
            self.spark = None
            return opened(self, engine, first, size)

    Crew._open = opening  # type: ignore[method-assign]


def quick_checkpoints() -> None:
    """Write a checkpoint three times a second."""
    from spirit_py.checkpoint.writer import CheckpointWriter

    _change_default(CheckpointWriter, period=0.3)


def quick_flushes() -> None:
    """Apply what is pending four times a second."""
    from spirit_py.config import FeedOptions

    _change_default(FeedOptions, flush_interval=0.25)


def quick_control() -> None:
    """Look for requests of operators, and write the figures of the run, ten times a second."""
    from spirit_py.migration.control import listener

    listener._LOOK_SECONDS = listener._WRITE_SECONDS = 0.1  # type: ignore[misc]


def stop_in_packet() -> None:
    """Kill session and process within the swap's packet, after so many of its statements.

    As a crash of the server does; the server executes a packet to its end where only the process
    dies. The number is in the environment: :data:`PACKET_VARIABLE`.
    """
    from spirit_py.mysql.session import Session

    send, number = Session.execute_packet, int(os.environ[PACKET_VARIABLE])

    def execute_packet(session: Any, statements: Any) -> Any:
        if len(statements) == 1:
            return send(session, statements)
        if number:
            send(session, statements[:number])
        with contextlib.suppress(Exception):
            session.execute("KILL CONNECTION_ID()")
        return os.kill(os.getpid(), signal.SIGKILL)

    Session.execute_packet = execute_packet  # type: ignore[assignment,method-assign]


def drop_events() -> None:
    """Bug: forget every third change."""
    number = itertools.count()
    _keep_only(lambda: next(number) % _THIRD != 0)


def drop_late_events() -> None:
    """Bug: forget changes once the checksum has its snapshot, so that it cannot notice."""
    from spirit_py import points

    reach, passed = points.reach, set()

    def noting(name: str) -> None:
        passed.add(name)
        reach(name)

    points.reach = noting
    _keep_only(lambda: "checksum.compare" not in passed)


def _keep_only(wanted: Callable[[], bool]) -> None:
    """Forget the changes that are not wanted before they reach the buffer."""
    from spirit_py.feed.subscription import TableSubscription

    receive = TableSubscription.receive

    def received(self: TableSubscription, changes: Any, epoch: Any, doubt: Any) -> None:
        receive(self, [change for change in changes if wanted()], epoch, doubt)

    TableSubscription.receive = received  # type: ignore[method-assign]


def early_position() -> None:
    """Bug: give out what was received as the safe position, applied or not."""
    from spirit_py.feed.ledger import Ledger

    Ledger.safe_text = lambda self: self.received.text()  # type: ignore[method-assign]


def skip_chunk() -> None:
    """Bug: record a chunk as copied when it is handed out, so that a resume skips it."""
    from spirit_py.chunk.watermark import CopiedSoFar, Rest, WatermarkTracker

    def only_the_rests(self: Any) -> CopiedSoFar:
        rests = [one for one in self._uncommitted if isinstance(one, Rest)]
        return WatermarkTracker((), rests).honest()  # type: ignore[attr-defined]

    WatermarkTracker.honest = WatermarkTracker.copied  # type: ignore[attr-defined]
    WatermarkTracker.copied = only_the_rests  # type: ignore[method-assign]


def no_guard() -> None:
    """Bug: say that the snapshot guard is set, and do not set it."""
    from spirit_py.cutover.guard import SnapshotGuard

    SnapshotGuard._change = lambda *_: None  # type: ignore[method-assign]


def left_out_arrives() -> None:
    """Bug: apply a change whatever ``--keep`` says of its row."""
    from spirit_py.applier import state

    vars(state)["_kept"] = lambda _: ""


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
        harms: tells whether it does harm in the run of a draw: one in which the checksum may not
            repair.
    """

    plant: Callable[[], None]
    harms: Callable[[Draw], bool]


def _gone_on(draw: Draw) -> bool:
    return draw.fault.name == "hang-up"


def _killed_at(draw: Draw, point: str) -> bool:
    hooks = set(draw.hooks)
    saved = "quick-checkpoints" in hooks and "quick-flushes" not in hooks
    return saved and (draw.fault.name, draw.point) == ("kill-driver-at-copy", point)


BUGS: dict[str, Bug] = {
    "drop-events": Bug(drop_events, _gone_on),
    "drop-late-events": Bug(drop_late_events, _gone_on),
    # Changes of such a table are never left to the copy: all wait to be applied.
    "early-position": Bug(
        early_position, lambda draw: draw.shape.slot and _killed_at(draw, "drain.begun")
    ),
    # In large chunks the copy may be over before the chunk at which it is to be killed.
    "skip-chunk": Bug(
        skip_chunk,
        lambda draw: "small-chunks" in draw.hooks and _killed_at(draw, "chunk.executing"),
    ),
    "no-guard": Bug(no_guard, lambda draw: draw.reader and _gone_on(draw)),
    "left-out-arrives": Bug(left_out_arrives, lambda draw: bool(draw.line) and _gone_on(draw)),
}
HOOKS: dict[str, Callable[[], None]] = {
    "clock": clock,
    "small-chunks": small_chunks,
    "short-meetings": short_meetings,
    "spark-first": spark_first,
    "quick-checkpoints": quick_checkpoints,
    "quick-flushes": quick_flushes,
    "quick-control": quick_control,
    "stop-in-packet": stop_in_packet,
    **{name: bug.plant for name, bug in BUGS.items()},
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

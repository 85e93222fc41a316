"""Output never decides: a display that fails falls silent."""

from __future__ import annotations

from spirit_py.contracts import QuietReporter
from spirit_py.events.swap import CutoverReleased
from spirit_py.phases import Phase
from spirit_py.progress import MigrationStatus
from spirit_py.status.reporters import Reporters

EVENT = CutoverReleased()
SNAPSHOT = MigrationStatus(table="t", phase=Phase.COPY, elapsed=1.0, phase_elapsed=1.0)


class _Broken:
    """A reporter whose reader has left."""

    def __init__(self):
        self.calls = 0

    def _fail(self, *_arguments):
        self.calls += 1
        raise BrokenPipeError

    start = event = progress = stop = _fail


def test_a_broken_pipe_is_met_once_and_raises_nothing():
    """After the first fault nothing more is shown, and nobody hears of it."""
    broken = _Broken()
    safe = Reporters([broken])
    safe.start()
    safe.event(EVENT)
    safe.progress(SNAPSHOT)
    assert broken.calls == 1
    safe.stop()
    assert broken.calls == 2


def test_an_interrupt_at_the_end_leaves_no_other_reporter_open():
    """The display gives the terminal back, though the operator does not wait for what is slow.

    Nor does the interrupt end the run, whose end is told by then.
    """
    ended: list[str] = []

    class Ends(QuietReporter):
        def event(self, event):
            """Show nothing."""

        def stop(self):
            ended.append("display")

    class Slow(Ends):
        def stop(self):
            raise KeyboardInterrupt

    Reporters([Ends(), Slow()]).stop()
    assert ended == ["display"]


def test_a_working_reporter_gets_everything():
    """Nothing is lost on the way to a display that works."""
    seen: list[object] = []

    class Works:
        def start(self):
            seen.append("start")

        def event(self, event):
            seen.append(event)

        def progress(self, snapshot):
            seen.append(snapshot)

        def stop(self):
            seen.append("stop")

    safe = Reporters([Works()])
    safe.start()
    safe.event(EVENT)
    safe.progress(SNAPSHOT)
    safe.stop()
    assert seen == ["start", EVENT, SNAPSHOT, "stop"]

"""Waiting for room in the buffers, and what is asked meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.binlog.events import is_boundary, weight
from spirit_py.events.copy import BackpressureBegun, BackpressureEnded
from spirit_py.events.event import teller
from spirit_py.feed.shared import Backpressure, EventStore, Shared
from spirit_py.progress import Retention
from spirit_py.threads import Background, StopSwitch
from tests.kits.memory_stream import MemoryStream
from tests.kits.reporter import RecordingReporter
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.binlog.events import Event


def test_an_answer_that_cannot_be_read_ends_no_feed() -> None:
    """The retention is only shown: whatever happens to the question, the wait goes on."""
    answers: Any = iter([ValueError("no number"), Retention(kept=60.0, age=1.0)])

    def ask() -> Retention:
        if isinstance(found := next(answers), Exception):
            raise found
        return found

    store: EventStore[Event] = EventStore(weigh=weight, is_boundary=is_boundary)
    stream = MemoryStream()
    stream.retention = ask  # type: ignore[method-assign]
    made = Backpressure(Shared(stream=stream, stop=StopSwitch()), limit=0, store=store)
    told = RecordingReporter()
    made.tell = teller(told.event)
    waiting = Background("waiting", lambda _: made.wait())
    waiting.start()
    until(lambda: made.waiting)
    found = []
    for _ in range(2):
        made.ask_retention()
        found.append(made.retention)
    assert found == [None, Retention(kept=60.0, age=1.0)]
    # A wait that lasts is reported, and its end.
    until(lambda: told.named(BackpressureBegun), "the event")
    store.close()
    assert waiting.join()
    (ended,) = told.named(BackpressureEnded)
    assert float(str(ended.fields["seconds"])) >= 1.0

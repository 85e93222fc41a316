"""What others do on the server: its counters without what this process sent."""

from __future__ import annotations

from spirit_py.throttle.latency import Traffic


def traffic(reads: float, own: tuple[int, int], writes: float = 0.0) -> Traffic:
    """Return counters of one moment."""
    return Traffic(writes=writes, reads=reads, running=1.0, own=own)


def test_queries_of_this_process_are_not_others():
    """What it sent between two looks is taken away."""
    before, after = traffic(1000, (40, 42)), traffic(1100, (60, 61), writes=7)
    assert after.others_since(before) == (7.0, 100.0 - 21.0)


def test_queries_at_the_ends_of_a_span_are_never_others():
    """One that was sent while the counters were read may be in either; there are none below 0."""
    before, after = traffic(1000, (40, 45)), traffic(1003, (45, 50))
    assert after.others_since(before) == (0.0, 0.0)

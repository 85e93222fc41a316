"""How far the binlog reaches from the place that is read."""

from __future__ import annotations

from spirit_py.binlog.events import Place
from spirit_py.binlog.position import reach

FILES = [("b.1", 100), ("b.2", 1000), ("b.3", 50), ("b.4", 7)]


def test_what_is_unread_counts_from_the_place() -> None:
    """The rest of the file that is read, and all files after it."""
    found = reach(Place("b.2", 400, executed_at=500), FILES, kept=3600, now=1500)
    assert (found.unread_bytes, found.gone) == (657, False)
    assert (found.age, found.left) == (1000.0, 2600.0)


def test_a_server_that_keeps_its_binlog_for_ever() -> None:
    """binlog_expire_logs_seconds=0: nothing is dropped by itself."""
    assert reach(Place("b.1", 4, executed_at=1), FILES, kept=0, now=10**9).left is None


def test_a_file_that_is_no_longer_there() -> None:
    """A purged file is said to be gone, not to be unread by nothing."""
    assert reach(Place("b.0", 4), FILES, kept=60, now=100).gone


def test_an_event_older_than_the_retention_may_go_at_any_time() -> None:
    """Nothing is left, never less than nothing; clocks that differ make no negative age."""
    assert reach(Place("b.1", 4, executed_at=1), FILES, kept=60, now=100).left == 0.0
    assert reach(Place("b.1", 4, executed_at=200), FILES, kept=60, now=100).left == 60.0


def test_the_file_that_is_written_is_not_dropped() -> None:
    """On a server without writes its last event may be older than the retention."""
    newest = FILES[-1][0]
    found = reach(Place(newest, 4, executed_at=1), FILES, kept=60, now=100_000)
    assert (found.age, found.left) == (0.0, 60.0)


def test_the_time_of_a_commit_counts_before_that_of_the_event() -> None:
    """SET timestamp gives an event any time."""
    place = Place("b.1", 4, executed_at=1, committed_at=90_000.5)
    assert reach(place, FILES, kept=60_000, now=100_000).age == 9_999.5

"""What the runner's figures say to the operator."""

from __future__ import annotations

from spirit_py.migration.figures import backpressure_note
from spirit_py.progress import FeedStatistics, Retention


def test_what_the_operator_reads_of_it() -> None:
    """The note says that the reader waits, how much it has not read, and how long that is kept."""
    seen = FeedStatistics(
        backpressure=True, retention=Retention(kept=7200.0, age=60.0, unread_bytes=3 << 30)
    )
    assert backpressure_note(seen) == (
        "the reader waits: the buffers of changes are full; 3.0 GiB of binlog unread,"
        " which the server keeps for 1h59m more"
    )


def test_what_the_operator_reads_when_nothing_is_left_to_wait_for() -> None:
    """A purged file and a binlog that is kept for ever are said to be so."""
    gone = FeedStatistics(backpressure=True, retention=Retention(kept=60.0, age=1.0, gone=True))
    assert "has purged the binlog file" in backpressure_note(gone)
    kept = FeedStatistics(backpressure=True, retention=Retention(kept=None, age=1.0))
    assert backpressure_note(kept).endswith("0 B of binlog unread")
    assert backpressure_note(FeedStatistics(backpressure=True)).endswith("changes are full")

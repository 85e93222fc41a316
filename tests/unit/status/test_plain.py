"""Log lines: spaced in time, complete, and honest about what is not known."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from spirit_py.events.swap import AttachmentsSettled
from spirit_py.phases import Phase
from spirit_py.status.plain import PROGRESS_SECONDS, PlainReporter
from spirit_py.status.snapshot import BatchStatus, MigrationStatus
from spirit_py.units import human_bytes, human_count, human_seconds


def _status(**more):
    return MigrationStatus(
        table="shop.orders",
        phase=more.pop("phase", Phase.COPY),
        elapsed=61.0,
        phase_elapsed=2.0,
        **more,
    )


def test_progress_lines_are_spaced_but_a_new_phase_shows_at_once():
    """One progress line a few seconds, and one at every change of phase."""
    now = [0.0]
    out = io.StringIO()
    reporter = PlainReporter(clock=lambda: now[0], stream=out)
    reporter.progress(_status())
    reporter.progress(_status())
    assert len(out.getvalue().splitlines()) == 1
    reporter.progress(_status(phase=Phase.CHECKSUM))
    now[0] += PROGRESS_SECONDS
    reporter.progress(_status(phase=Phase.CHECKSUM))
    assert len(out.getvalue().splitlines()) == 3


def test_unknown_is_shown_as_unknown():
    """A figure that is not known is said to be, never shown as zero."""
    out = io.StringIO()
    PlainReporter(clock=lambda: 0.0, stream=out).progress(_status(rows=5, rate=2.0, pending=3))
    assert out.getvalue().endswith("; 5 rows; 2 rows/s, ETA unknown; 3 pending\n")


def test_json_lines_parse_and_hold_the_figures():
    """With JSON, each line is one object with the event's own fields."""
    out = io.StringIO()
    reporter = PlainReporter(clock=lambda: 0.0, as_json=True, stream=out)
    reporter.event(AttachmentsSettled(lock_wait_ms=3))
    reporter.progress(_status(pending=0, waiting_for="the lock"))
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert (first["event"], first["lock_wait_ms"]) == ("attachments.settled", 3)
    assert (second["phase"], second["pending"], second["waiting_for"]) == ("copy", 0, "the lock")


def test_counts_sizes_and_durations_read_as_people_write_them():
    """Counts, sizes and durations read as a person writes them."""
    assert human_count(1234567) == "1 234 567"
    assert human_bytes(1536) == "1.5 KiB"
    assert human_bytes(5) == "5 B"
    assert [human_seconds(s) for s in (5.64, 184, 3725)] == ["5.6s", "3m04s", "1h02m"]


def test_each_table_of_a_batch_has_lines_of_its_own():
    """Each is spaced by itself; those that have ended are forgotten."""
    now = [0.0]
    out = io.StringIO()
    reporter = PlainReporter(clock=lambda: now[0], stream=out)
    two = tuple(replace(_status(), table=name) for name in ("a.t", "b.t"))
    for _ in range(2):
        reporter.progress(BatchStatus(described="0 of 2 done", elapsed=1.0, tables=two))
    assert [line.split()[2] for line in out.getvalue().splitlines()] == ["a.t", "b.t"]
    reporter.progress(BatchStatus(described="1 of 2 done", elapsed=1.0, tables=two[1:]))
    reporter.progress(BatchStatus(described="1 of 2 done", elapsed=1.0, tables=two))
    assert [line.split()[2] for line in out.getvalue().splitlines()] == ["a.t", "b.t", "a.t"]

"""Log lines: spaced in time, complete, and honest about what is not known."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from spirit_py.events.copy import FeedBegun
from spirit_py.events.swap import AttachmentsSettled
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationStatus, RunTotals
from spirit_py.status.plain import PlainReporter
from spirit_py.status.wording import PROGRESS_SECONDS
from spirit_py.units import human_bytes, human_count, human_seconds


def _status(**more):
    return MigrationStatus(
        table="shop.orders",
        phase=more.pop("phase", Phase.COPY),
        elapsed=61.0,
        phase_elapsed=2.0,
        **more,
    )


def _lines_of(phases, *, hours=0.0, seconds=0.0, every=2.5, verbose=False):
    """Return the lines of a run that is looked at every so often, each phase so long."""
    now, out = [0.0], io.StringIO()
    reporter = PlainReporter(clock=lambda: now[0], stream=out, verbose=verbose)
    for phase in phases:
        until = now[0] + hours * 3600 + seconds
        while now[0] < until:
            reporter.progress(_status(phase=phase))
            now[0] += every
    return out.getvalue().splitlines()


def test_a_run_of_a_few_seconds_has_no_progress_line():
    """Its events and its summary say everything."""
    every = [Phase.CREATE, Phase.COPY, Phase.CHECKSUM, Phase.CUTOVER, Phase.DONE]
    assert not _lines_of(every[:2], seconds=2.5)
    assert len(_lines_of(every, seconds=PROGRESS_SECONDS * 2)) == 2 * len(every) - 3


def test_lines_of_a_phase_become_rarer_the_longer_it_lasts():
    """A tenth of the phase's time lies between two, at most a minute; a new phase begins anew."""
    lines = _lines_of([Phase.COPY, Phase.CHECKSUM], hours=1)
    assert len(lines) in range(2 * 60, 2 * 120)
    assert len(_lines_of([Phase.COPY], seconds=60)) == 11


def test_two_days_of_deferral_are_not_two_hundred_lines():
    """Where only an operator can end a phase, a line every half hour is enough."""
    assert len(_lines_of([Phase.COPY, Phase.SENTINEL], hours=48, every=10.0)) < 60 * 48 + 200
    assert len(_lines_of([Phase.SENTINEL], hours=48, every=10.0)) in range(96, 200)


def test_what_is_waited_for_is_told_once_and_then_named():
    """Its figures change, and so does its remedy; another one is told as a whole."""
    now, out = [0.0], io.StringIO()
    reporter = PlainReporter(clock=lambda: now[0], stream=out)
    for seconds, session in ((3.0, 7), (8.0, 7), (13.0, 8), (18.0, 8)):
        who = f"session {session} of app@::1, idle in a transaction for {seconds:.0f} s: KILL it"
        reporter.progress(_status(waiting_for=who, waited=seconds))
        now[0] += PROGRESS_SECONDS
        reporter.progress(_status(waiting_for=who, waited=seconds))
    said = [line.partition("1m01s; ")[2] for line in out.getvalue().splitlines()]
    assert said == [
        "waiting for session 7 of app@::1, idle in a transaction for 3 s: KILL it (for 3.0s)",
        "still waiting for session 7 of app@::1, 8.0s",
        "waiting for session 8 of app@::1, idle in a transaction for 13 s: KILL it (for 13s)",
        "still waiting for session 8 of app@::1, 18s",
    ]


def test_details_are_shown_when_asked_for():
    """A line that most readers need not see is written with ``--verbose`` alone."""
    for verbose, lines in ((False, 0), (True, 1)):
        out = io.StringIO()
        PlainReporter(clock=lambda: 0.0, stream=out, verbose=verbose).event(FeedBegun(position="p"))
        assert len(out.getvalue().splitlines()) == lines


def test_unknown_is_shown_as_unknown():
    """A figure that is not known is said to be, never shown as zero."""
    now, out = [0.0], io.StringIO()
    reporter = PlainReporter(clock=lambda: now[0], stream=out)
    reporter.progress(_status())
    now[0] += PROGRESS_SECONDS
    reporter.progress(_status(rows=5, rate=2.0, pending=3))
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


def test_progress_of_a_fleet_names_server_and_table_apart():
    """As all events of its servers do, so that a silent one is found (docs/events.md)."""
    out = io.StringIO()
    reporter = PlainReporter(clock=lambda: 0.0, as_json=True, stream=out)
    one = replace(_status(totals=RunTotals(tables=("s1 shop.orders",))), table="s1 shop.orders")
    reporter.progress(BatchStatus(described="", elapsed=1.0, tables=(one,), servers=True))
    seen = json.loads(out.getvalue())
    assert (seen["fleet_server"], seen["table"]) == ("s1", "shop.orders")
    assert seen["totals"]["tables"] == ["shop.orders"]
    assert "[copy] s1 shop.orders " in seen["text"]


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

    def shown(*tables):
        for _ in range(2):
            reporter.progress(BatchStatus(described="", elapsed=1.0, tables=tables))
        return [line.split()[2] for line in out.getvalue().splitlines()]

    assert not shown(*two)
    now[0] += PROGRESS_SECONDS
    assert shown(*two) == ["a.t", "b.t"]
    now[0] += PROGRESS_SECONDS
    assert shown(two[1]) == ["a.t", "b.t", "b.t"]
    now[0] += 1.0
    assert shown(*two) == ["a.t", "b.t", "b.t"]

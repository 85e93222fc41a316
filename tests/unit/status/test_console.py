"""The live display draws every field of a snapshot."""

from __future__ import annotations

import io

from rich.console import Console

from spirit_py.events import Event, EventName
from spirit_py.phases import Phase
from spirit_py.status.console import ConsoleReporter, render
from spirit_py.status.snapshot import BatchStatus, MigrationStatus


def _drawn(status):
    drawn = io.StringIO()
    Console(file=drawn, width=120, force_terminal=True).print(render(status))
    return drawn.getvalue()


def test_the_panel_answers_where_how_far_and_what_for():
    """Phase, rows, rate, ETA, backlog and the thing waited for are all on the panel."""
    text = _drawn(
        MigrationStatus(
            table="shop.orders",
            phase=Phase.COPY,
            elapsed=10,
            phase_elapsed=5,
            rows=1000,
            rows_total=4000,
            fraction=0.25,
            rate=200.0,
            eta=15.0,
            chunk_rows=500,
            chunk_seconds=0.5,
            received=9,
            applied=4,
            pending=5,
            buffered_bytes=2048,
            feed_lag=0.1,
            waiting_for="the table lock",
        )
    )
    for part in (
        "shop.orders",
        "copy",
        "1 000 of ~4 000",
        "25.0%",
        "200 rows/s",
        "15.0s",
        "5 pending",
        "2.0 KiB",
        "the table lock",
    ):
        assert part in text


def test_unknown_figures_are_left_out_or_marked():
    """A panel without figures shows no bar, no rows and no backlog."""
    text = _drawn(MigrationStatus(table="t", phase=Phase.SENTINEL, elapsed=1, phase_elapsed=1))
    assert "pending" not in text
    assert "rows/s" not in text
    assert "sentinel" in text


def test_messages_stay_above_the_panel():
    """What happened is printed and kept when the live panel is wiped."""
    drawn = io.StringIO()
    reporter = ConsoleReporter(Console(file=drawn, width=100, force_terminal=True))
    reporter.start()
    reporter.event(Event(name=EventName.WARNING, text="the disk is small", level="warning"))
    reporter.progress(MigrationStatus(table="t", phase=Phase.COPY, elapsed=1, phase_elapsed=1))
    reporter.stop()
    assert "warning: the disk is small" in drawn.getvalue()


def test_a_batch_shows_each_table_that_is_under_way():
    """The counts are on top."""
    tables = tuple(
        MigrationStatus(table=name, phase=Phase.COPY, elapsed=1, phase_elapsed=1, fraction=0.5)
        for name in ("shop_1.orders", "shop_2.orders")
    )
    drawn = io.StringIO()
    reporter = ConsoleReporter(Console(file=drawn, width=120, force_terminal=True))
    reporter.start()
    reporter.progress(BatchStatus(described="3 of 9 tables done", elapsed=70.0, tables=tables))
    reporter.stop()
    for part in ("3 of 9 tables done", "1m10s", "shop_1.orders", "shop_2.orders"):
        assert part in drawn.getvalue()

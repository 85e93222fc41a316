"""What a plan says of a run that works on the table: who, since when, how far."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import Refusal, ServerFault
from spirit_py.plan import earlier_run
from spirit_py.plan.earlier_run import described, explained, note_of, working
from spirit_py.plan.model import EarlierRun, RunningRun

SESSION: Any = None
RUN = RunningRun(
    table="shop.orders",
    session=77,
    host="admin1",
    process=4711,
    started_at="2026-11-22T12:00:00.900153+00:00",
    phase="copy",
    elapsed=194.0,
    rows=12_480_000,
    rows_total=48_000_000,
    fraction=0.26,
    run_eta=823.0,
    run_eta_until="the swap",
)


def test_it_names_process_time_and_figures():
    """As its own display has them."""
    assert described(RUN) == (
        "on admin1 (process 4711, server session 77); for 3m14s (begun 2026-11-22 12:00:00"
        " UTC); in phase copy: 12 480 000 of ~48 000 000 rows, 26.0%; about 13m43s until the swap"
    )


def test_one_that_has_shown_nothing_yet_has_its_session():
    """Nothing is made up."""
    shown = described(RunningRun(table="shop.orders", session=77))
    assert shown == "server session 77; it has written no figures yet"


def test_it_says_by_whom_it_is_paused():
    """In the words of the process."""
    shown = described(RunningRun(table="a.t", session=7, phase="copy", paused="paused by a@h"))
    assert shown.endswith("; in phase copy; paused by a@h")


def test_one_that_hangs_has_no_time_left():
    """Its figures are those of a moment that has gone."""
    shown = described(replace(RUN, figures_age=61.0))
    assert shown.endswith("; no figures for 1m01s: it hangs, or it cannot write to the server")


def test_the_refusal_names_the_table_and_what_to_do():
    """It is that of a migration that is begun beside it."""
    note = note_of(
        EarlierRun(action="running", reason="server session 77", remedy="wait", running=RUN)
    )
    assert note.cause == "another run works on shop.orders now: server session 77"
    assert (note.table, note.remedy) == ("shop.orders", "wait")


@pytest.mark.parametrize(
    ("phase", "kept", "ends"),
    [
        ("keep", "it has made its swap, and keeps the old table current", "spirit-py revert"),
        ("grace", "it has made its swap, and keeps the old table for a time", "spirit-py cleanup"),
    ],
)
def test_a_migration_beside_one_that_keeps_its_old_table_hears_what_ends_that(
    phase, kept, ends, monkeypatch
):
    """Not only that a run is running: its swap is done."""
    left = "spirit-py revert; reverse replication ends in 1h59m"
    seen = replace(RUN, phase=phase, waiting_for=left, run_eta=None)
    context: Any = SimpleNamespace(schema="shop", table="orders", statement=None)
    monkeypatch.setattr(earlier_run, "named_lock_holder", lambda *_: 77)
    monkeypatch.setattr(earlier_run, "ours", lambda *_: set())
    monkeypatch.setattr(earlier_run, "normal_form", lambda _: "")
    monkeypatch.setattr(earlier_run, "_running", lambda *_: seen)
    refusal = Refusal("another migration of shop.orders is running", hint="KILL 77")
    refusal = explained(refusal, SESSION, [context])
    assert str(refusal).startswith("another migration of shop.orders is running: on admin1")
    assert kept in refusal.message
    assert "ends in 1h59m" in refusal.message
    assert "spirit-py ctl abort, then spirit-py cleanup" in refusal.hint
    assert ends in refusal.hint


def test_a_run_that_cannot_be_looked_at_is_still_refused(monkeypatch):
    """As by an account that may not read its checkpoint, or of a client that is none of ours."""
    refusal = Refusal("another migration is running", hint="KILL 77")

    def denied(*_):
        raise ServerFault(1142, "denied", where="checkpoint")

    monkeypatch.setattr(earlier_run, "running_run", denied)
    assert explained(refusal, SESSION, []) is refusal
    monkeypatch.setattr(earlier_run, "running_run", lambda *_: None)
    assert explained(refusal, SESSION, []) is refusal


@pytest.mark.parametrize(
    ("phase", "paused", "said"),
    [
        ("copy", "", "a run that works on it now copies it"),
        ("copy", "paused by a@h", "a run works on it now, in phase copy, and is paused by a@h"),
        ("checksum", "", "a run works on it now, in phase checksum"),
        ("keep", "", "a run that has swapped it works on it now, in phase keep"),
        ("revert", "", "a run that has swapped it works on it now, in phase revert"),
        ("", "", "a run works on it now"),
    ],
)
def test_only_one_that_copies_is_said_to_copy(phase, paused, said):
    """After the swap nothing is copied, nor in a pause."""
    assert working(replace(RUN, phase=phase, paused=paused)) == said

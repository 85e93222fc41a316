"""What a migration shows of itself: which end is known, and which is not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checksum.result import ChecksumProgress, ChecksumResult
from spirit_py.copier.meter import CopyStatistics
from spirit_py.events.run import PhaseEntered
from spirit_py.migration.facts import IndexesUnderWay
from spirit_py.migration.figures import Figures, Journal
from spirit_py.migration.snapshots import Snapshots
from spirit_py.phases import Phase
from spirit_py.progress import FeedStatistics
from spirit_py.status.report import MigrationReport
from spirit_py.status.wording import in_one_line

TABLE: Any = SimpleNamespace(schema="s", name="t", row_bytes=100, estimated_rows=3000)


class Copying:
    """A migration that copies a table of 3000 rows, 100 a second."""

    def __init__(self) -> None:
        self._paused = False
        self.time = 0.0
        estimates = {("s", "t"): 3000}
        self.journal = Journal(
            MigrationReport(algorithm="copy", tables=["s.t"]),
            clock=lambda: self.time,
            estimates=estimates,
        )
        figures = Figures(self.journal, paused=lambda: self._paused)
        self.snapshots = Snapshots(figures, server="db1:3306")
        for phase in (Phase.SHORTCUT, Phase.CREATE, Phase.COPY):
            self.enter(phase)
        seen = CopyStatistics(
            rows=1000,
            rows_total=3000,
            seconds=10.0,
            rows_per_second=120,
            steady_rows_per_second=100,
        )
        self.figures = figures
        self.throttled = ""
        copier: Any = SimpleNamespace(statistics=lambda: replace(seen, throttled=self.throttled))
        figures.copying(copier, TABLE)

    def enter(self, phase: Phase) -> None:
        """Go to a phase."""
        self.journal.note(PhaseEntered(phase=phase.value, before="", seconds=0.0))

    def pause(self, *, paused: bool = True) -> None:
        """Have an operator pause the run, or end the pause."""
        self._paused = paused


def test_of_a_paused_copy_no_end_is_known_from_the_first_moment() -> None:
    """The speed of the last minute says nothing of when the operator ends the pause."""
    copying = Copying()
    assert copying.snapshots.take().eta == pytest.approx(20.0)
    assert copying.snapshots.take().run_eta is not None
    copying.pause()
    seen = copying.snapshots.take()
    assert (seen.eta, seen.run_eta) == (None, None)
    assert (seen.rate, seen.byte_rate) == (0.0, 0.0)
    copying.pause(paused=False)
    seen = copying.snapshots.take()
    assert seen.eta == pytest.approx(20.0)
    assert seen.rate == 120


@pytest.mark.parametrize(("doing", "rows"), [("", 1000), ("reading the files back", None)])
def test_rows_of_an_archive_are_shown_until_they_are_read_back(doing, rows) -> None:
    """A run that was resumed has not counted those that stand there, and none is proved yet."""
    figures = Figures(Journal(MigrationReport(tables=["s.t"]), clock=lambda: 0.0))
    figures.journal.note(PhaseEntered(phase=Phase.ARCHIVE.value, before="", seconds=0.0))
    figures.archiving(TABLE, 1000, None, doing)
    seen = Snapshots(figures, server="db1:3306").take()
    assert (seen.table, seen.rows, seen.fraction, seen.note) == ("s.t", rows, None, doing)


@pytest.mark.parametrize(("known", "waited"), [(3.0, 3.0), (None, 60.0)])
def test_a_wait_is_shown_for_as_long_as_its_own_reason_holds(known, waited) -> None:
    """The load has held the copy for a minute, and now the lag does."""
    copying = Copying()
    copying.throttled = "the load"
    throttles: Any = SimpleNamespace(
        waiting_for=lambda: (copying.throttled, known),
        described=str,
        seconds=dict,
        tasks=lambda most: most,
        most_tasks=lambda most: most,
    )
    copying.figures.sparing(throttles)
    copying.snapshots.take()
    copying.time, copying.throttled = 60.0, "the lag"
    seen = copying.snapshots.take()
    assert (seen.waiting_for, seen.waited) == ("the lag", waited)


def test_a_server_that_is_lost_is_waited_for_and_leaves_no_speed_and_no_end() -> None:
    """Neither the feed nor a task reaches it; the tasks, which try again, say nothing."""
    copying = Copying()
    feed = FeedStatistics()
    source: Any = SimpleNamespace(statistics=lambda: feed)
    copying.figures.following(source, "db1:3306")
    assert copying.snapshots.take().waiting_for == ""
    feed = FeedStatistics(trouble="Lost connection")
    copying.time = 2.0
    assert copying.snapshots.take().rate == 120
    copying.time = 40.0
    seen = copying.snapshots.take()
    assert seen.waiting_for == "the server at db1:3306 to answer (Lost connection)"
    assert seen.waited == 40.0
    assert (seen.rate, seen.byte_rate, seen.eta, seen.run_eta) == (0.0, 0.0, None, None)
    assert "waiting for the server at db1:3306 to answer" in in_one_line(seen)
    copying.time = 41.0
    seen = copying.snapshots.take()
    assert seen.totals is not None
    assert seen.totals.throttled == {"server": 41.0}
    # The work goes on before the feed, which pauses longer, is there again.
    feed = FeedStatistics(trouble="Lost connection", applied=1)
    seen = copying.snapshots.take()
    assert (seen.waiting_for, seen.rate) == ("", 120)
    feed = FeedStatistics(applied=1)
    copying.time = 60.0
    assert copying.snapshots.take().totals == seen.totals


def test_a_limit_that_holds_the_copy_back_for_a_while_leaves_no_end_either() -> None:
    """A moment at the limit is nothing: the work goes on at its speed."""
    copying = Copying()
    held: Any = SimpleNamespace(
        waiting_for=lambda: ("the lag of a replica", None),
        described=lambda: "",
        most_tasks=lambda most: most,
        tasks=lambda most: most,
        seconds=dict,
    )
    copying.figures.sparing(held)
    shown = []
    for _ in range(4):
        seen = copying.snapshots.take()
        shown.append((seen.rate, seen.eta is None))
        copying.time += 1.0
    assert shown == [(120, False), (120, False), (0.0, True), (0.0, True)]


def test_what_the_server_does_in_a_pause_has_its_end() -> None:
    """A build of indexes that has begun goes on."""
    copying = Copying()
    copying.enter(Phase.INDEX)
    copying.pause()
    for built in (0.2, 0.5):
        copying.journal.note(IndexesUnderWay(built))
        copying.time += 10.0
        seen = copying.snapshots.take()
    assert seen.eta == pytest.approx(0.5 / 0.03)


def test_a_further_pass_of_the_checksum_has_no_negative_speed() -> None:
    """Its count of rows begins again."""
    copying = Copying()
    for phase in (Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM):
        copying.enter(phase)
    what = SimpleNamespace(target=None, mapping=SimpleNamespace(keep=None))
    checker: Any = SimpleNamespace(result=ChecksumResult(), what=what)
    copying.figures.checking(checker, TABLE)
    rates = []
    for passes, rows in ((1, 1000), (1, 2900), (2, 100), (2, 2000)):
        checker.progress = ChecksumProgress(passes=passes, rows=rows)
        copying.time += 5.0
        rates.append(copying.snapshots.take().rate)
    assert rates == [None, 380.0, 190.0, 190.0]


@pytest.mark.parametrize(("before", "total"), [(0, 300), (500, None)])
def test_a_comparison_of_kept_rows_counts_those_that_were_copied(before, total) -> None:
    """A tenth of 3000 rows; how many an earlier run has left out is not known."""
    copying = Copying()
    seen = CopyStatistics(rows=3000, left_out=2700, rows_before=before, ended=True)
    copier: Any = SimpleNamespace(statistics=lambda: seen)
    copying.figures.copiers[0] = (TABLE, copier)
    for phase in (Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM):
        copying.enter(phase)
    what = SimpleNamespace(target=None, mapping=SimpleNamespace(keep="id > 2700"))
    checker: Any = SimpleNamespace(result=ChecksumResult(), what=what)
    checker.progress = ChecksumProgress(passes=1, rows=150)
    copying.figures.checking(checker, TABLE)
    shown = copying.snapshots.take()
    assert shown.rows_total == total
    assert shown.fraction == (None if total is None else pytest.approx(0.5))

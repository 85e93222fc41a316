"""The bounded history of a run."""

from datetime import UTC, datetime, timedelta

import pytest

from spirit_py.events.run import PhaseEntered, Warned
from spirit_py.progress import BatchStatus, Growth
from spirit_py.status.timeline import LANES, STAGES, History, Noted, Range, Timeline, rates


def filled(seconds, *, step=0.5, figure=lambda at: at, counter=lambda at: 10 * at, **settings):
    """Return a timeline of a run of so many seconds, looked at every ``step``."""
    timeline = Timeline(**settings)
    for number in range(int(seconds / step)):
        at = number * step
        timeline.look(at, {"lag": figure(at)}, {"rows": counter(at)})
    return timeline


def test_a_run_of_days_takes_no_more_than_one_of_minutes():
    """Looks of a week are kept in the same number of spans."""
    timeline = filled(200_000, step=2.0, spans=100)
    assert 50 <= len(timeline.spans) <= 100


def test_the_spans_follow_each_other_without_a_gap():
    """From the first look to the last one, in spans of about the same length."""
    spans = filled(10_000, spans=64).spans
    assert [one.ended for one in spans[:-1]] == [one.began for one in spans[1:]]
    assert (spans[0].began, spans[-1].ended) == (0.0, 9999.5)
    lengths = [one.ended - one.began for one in spans[:-1]]
    assert max(lengths) < 3 * min(lengths)


def test_a_peak_of_one_look_is_still_seen_after_a_week():
    """The least and the most of a figure survive the merging of spans."""
    spans = filled(100_000, spans=50, figure=lambda at: 99.0 if at == 700.5 else 1.0).spans
    assert max(one.figures["lag"].most for one in spans) == 99.0
    assert min(one.figures["lag"].least for one in spans) == 1.0


def test_the_mean_of_a_span_counts_every_look():
    """Merged ranges have the mean of all looks, not of the spans."""
    assert Range(1, 1, 1, 1).with_(Range(2, 4, 3, 3)) == Range(1, 4, 2.5, 4)


def test_a_rate_is_exact_however_much_was_merged():
    """What a counter has grown over all spans is what it grew."""
    timeline = filled(50_000, spans=40)
    found = list(rates(timeline.spans, "rows"))
    assert found
    assert {round(rate, 6) for _, rate in found} == {10.0}
    grown = sum(rate * (span.ended - span.began) for span, rate in found)
    assert grown == pytest.approx(10 * (timeline.spans[-1].ended - timeline.spans[0].ended))


def test_a_figure_that_is_not_known_is_no_zero():
    """None leaves no trace."""
    timeline = Timeline()
    timeline.look(0.0, {"lag": None, "pending": 0.0}, {"rows": None})
    (span,) = timeline.spans
    assert set(span.figures) == {"pending"}
    assert span.counters == {}


def test_a_counter_that_appears_has_no_rate_yet():
    """What it begins with may be older than the span."""
    timeline = Timeline()
    timeline.look(0.0, {}, {})
    timeline.look(1.0, {}, {"rows": 5000.0})
    timeline.look(2.0, {}, {"rows": 5010.0})
    assert [rate for _, rate in rates(timeline.spans, "rows")] == [10.0]


def test_phases_are_kept_with_their_times():
    """Each stage ends where the next one begins."""
    timeline = Timeline()
    for at, phase in enumerate(["copy", "copy", "checksum", "copy"]):
        timeline.stage("shop.orders", phase, float(at))
    found = [(one.name, one.began, one.ended) for one in timeline.lanes["shop.orders"]]
    assert found == [("copy", 0, 2), ("checksum", 2, 3), ("copy", 3, 3)]


def test_phases_that_change_for_weeks_stay_few():
    """The shortest ones become part of their neighbours, and the time stays covered."""
    timeline = Timeline()
    for at in range(4 * STAGES):
        timeline.stage("t", "checksum" if at % 2 else "sentinel", float(at * 600))
    stages = timeline.lanes["t"]
    assert len(stages) <= STAGES
    assert [one.ended for one in stages[:-1]] == [one.began for one in stages[1:]]


def test_tables_of_a_large_batch_are_counted_where_they_are_not_kept():
    """The first ones have lanes."""
    timeline = Timeline()
    for number in range(LANES + 7):
        for at in (0.0, 1.0):
            timeline.stage(f"t{number}", "copy", number + at)
    assert (len(timeline.lanes), timeline.lanes_left_out) == (LANES, 7)


def test_warnings_outlive_what_is_usual():
    """Of many events the first and last stay, and warnings longer than others; all are counted."""
    timeline = Timeline(events=60)
    for number in range(1000):
        level = "warning" if number == 300 else "info"
        timeline.note(Noted(at=float(number), name="x", text=str(number), level=level))
    texts = [one.text for one in timeline.events]
    assert texts[0] == "0"
    assert texts[-1] == "999"
    assert "300" in texts
    assert texts == sorted(texts, key=int)
    assert timeline.events_left_out == 1000 - len(texts)


def test_what_counters_have_grown_never_falls():
    """A counter that begins again goes on from where it was."""
    growth, seen = Growth(), []
    for value in (5.0, 8.0, 2.0, 2.0, 4.0):
        growth.add("feed", {"received": value})
        seen.append(growth.totals["received"])
    assert seen == [5.0, 8.0, 10.0, 10.0, 12.0]


def test_what_a_table_has_added_stays_when_it_is_gone():
    """The sum over the tables of a batch does not fall when one ends."""
    growth = Growth()
    growth.add("a", {"rows": 10.0})
    growth.add("b", {"rows": 1.0})
    growth.keep({"b"})
    growth.add("a", {"rows": 3.0})
    assert growth.totals == {"rows": 14.0}


@pytest.mark.parametrize("step", [timedelta(hours=9), timedelta(hours=-9)])
def test_events_stand_where_the_figures_of_their_time_do(step):
    """A step of the machine's clock, or a machine that was suspended, moves no event."""
    now = [5.0]
    history = History(lambda: now[0])
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    history.event(Warned(said="first", time=begun))
    now[0] = 65.0
    history.event(Warned(said="then", time=begun + step))
    assert [one.at for one in history.timeline.events] == [0.0, 60.0]
    assert history.timeline.ended == 60.0


def test_what_a_server_tells_at_its_end_stands_at_its_own_time():
    """Its process may be followed by a task of Spark, which tells all at its end."""
    now = [0.0]
    history = History(lambda: now[0])
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    history.event(Warned(said="first", time=begun))
    now[0] = 60.0
    for seconds in (20, 9000):
        at = begun + timedelta(seconds=seconds)
        history.event(Warned(said="then", time=at, fleet_server="s1"))
    assert [one.at for one in history.timeline.events] == [0.0, 20.0, 60.0]


def test_a_table_that_begins_late_has_no_phase_before_its_beginning():
    """What a server did is told when its task has ended; what was seen since is newer."""
    began, now = datetime(2026, 1, 1, tzinfo=UTC), [0.0]
    history = History(clock=lambda: now[0])
    history.event(Warned(said="it begins", time=began))
    history.batch = BatchStatus(described="", elapsed=0.0, tables=())
    now[0] = 500.0

    def entered(phase: str, before: str, *, at: float, seconds: float) -> None:
        history.event(
            PhaseEntered(
                phase=phase, before=before, seconds=seconds, table="s1 shop.t", fleet_server="s1",
                time=began + timedelta(seconds=at),
            )
        )  # fmt: skip

    def stages() -> list[tuple[str, float, float]]:
        return [(one.name, one.began, one.ended) for one in history.timeline.lanes["s1 shop.t"]]

    entered("copy", "preflight", at=103.0, seconds=3.0)
    entered("checksum", "copy", at=110.0, seconds=7.0)
    found = [("preflight", 100.0, 103.0), ("copy", 103.0, 110.0), ("checksum", 110.0, 110.0)]
    assert stages() == found
    entered("copy", "preflight", at=101.0, seconds=1.0)
    assert stages() == found

"""Turns, medians, ratios and goals; the CPU of phases; percentiles."""

import json
from pathlib import Path

import pytest

from benchmarks import contenders, meter, table, turn, whole
from benchmarks.__main__ import (
    _arguments,
    _as_json,
    cpu_beyond_the_start,
    file_system,
    listing,
)
from benchmarks.application import Latency, percentile
from benchmarks.contenders import COPY, OURS, THREADS
from benchmarks.scenario import BEFORE, Figure, Goal, Outcome, Sizes
from benchmarks.scenarios import SCENARIOS
from benchmarks.turn import Turn


def latency(p99, longest=50.0):
    """Make the application's figures."""
    return Latency(writes=10, per_second=500, p50=1.0, p99=p99, longest=longest)


def made(contender, seconds, **more):
    """Make a turn."""
    return Turn(contender=contender, seconds=seconds, **more)


def test_everyone_has_one_turn_a_round_and_each_round_another_begins():
    """No contender always meets the server as the same one left it."""
    order = turn.in_turns(["a", "b", "c"], 3)
    assert [name for _, name in order] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert [number for number, _ in order] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.smoke
def test_a_ratio_is_that_of_the_medians():
    """One bad round decides nothing."""
    turns = [made(OURS, each) for each in (12.0, 90.0, 11.0)]
    turns += [made(COPY, each) for each in (10.0, 9.0, 11.0)]
    (figure,) = whole.figures(turns, [Goal(of="whole", against=COPY, limit=1.1)], 100)
    assert figure.ratio == pytest.approx(1.2)
    assert figure.missed


def test_a_turn_that_failed_counts_for_nothing():
    """Its seconds are those of a failure."""
    turns = [made(OURS, 10.0), made(COPY, 0.1, failed="1062"), made(COPY, 5.0)]
    (figure,) = whole.figures(turns, [Goal(of="whole", against=COPY)], 100)
    assert figure.ratio == pytest.approx(2.0)
    assert not figure.missed


def test_a_contender_without_turns_gives_no_figure():
    """A tool that is not installed leaves no gap in the table."""
    assert whole.figures([made(OURS, 1.0)], [Goal(of="whole", against="gh-ost")], 100) == []


def test_the_copy_phase_is_compared_with_that_of_the_threads():
    """Not the whole of one with a part of the other."""
    turns = [made(OURS, 9.0, phases={"start": 1.0, "copy": 6.0}), made(THREADS, 7.0)]
    turns[1].phases = {"copy": 5.0, "index": 2.0}
    (figure,) = whole.figures(turns, [Goal(of="copy phase", against=THREADS)], 100)
    assert (figure.ours, figure.peer) == (6.0, 5.0)


def test_latency_during_is_compared_with_latency_before():
    """The application's own figure before the same turn is the yardstick."""
    turns = [made(OURS, 9.0, before=latency(2.0), during=latency(7.0))]
    (figure,) = whole.figures(turns, [Goal(of="p99 during", against=BEFORE, limit=3.0)], 100)
    assert figure.ratio == pytest.approx(3.5)
    assert figure.missed


def test_a_goal_in_seconds_holds_for_its_number_of_rows_only():
    """Ten seconds for a million rows say nothing of a thousand."""
    goal = Goal(of="whole", against="10 s", target=10.0, rows=1000, limit=1.0)
    assert whole.figures([made(OURS, 9.0)], [goal], 999) == []
    (figure,) = whole.figures([made(OURS, 9.0)], [goal], 1000)
    assert figure.ratio == pytest.approx(0.9)


def test_phases_and_what_lies_around_them_come_to_the_whole():
    """Interpreter and imports before, Spark's end behind."""
    phases = contenders.whole_phases(10.0, {"copy": 6.0, "checksum": 1.0}, 0.5)
    assert phases == {"start": 0.5, "copy": 6.0, "checksum": 1.0, "end": 2.5}
    assert sum(phases.values()) == pytest.approx(10.0)


def test_a_log_without_a_time_puts_everything_before_the_phases():
    """No phase is longer than the command."""
    phases = contenders.whole_phases(3.0, {"copy": 2.0}, 99.0)
    assert phases == {"start": 1.0, "copy": 2.0, "end": 0.0}


def test_a_phase_has_the_cpu_of_its_span():
    """Between two looks by the straight line."""
    seen = meter.Metered(
        began=10.0,
        ended=14.0,
        timeline=[(10.0, {"server": 0.0}), (12.0, {"server": 2.0}), (14.0, {"server": 2.5})],
    )
    assert seen.cpu_between(11.0, 13.0) == {"server": pytest.approx(1.25)}


def test_a_process_that_came_later_has_used_nothing_before():
    """The program starts after the meter."""
    seen = meter.Metered(
        began=0.0,
        ended=4.0,
        timeline=[(0.0, {"server": 0.0}), (2.0, {"server": 1.0, "jvm": 1.0})],
    )
    assert seen.cpu_between(0.0, 1.0) == {
        "server": pytest.approx(0.5),
        "jvm": pytest.approx(0.5),
    }


def test_rows_are_timed_from_the_first_to_the_last():
    """What Spark's start takes is not the copy's."""
    seen = meter.Metered(began=5.0, ended=9.0, rows=[(6.0, 0), (7.0, 10), (8.5, 100)])
    assert seen.first_row == pytest.approx(2.0)
    assert seen.reached(100) == pytest.approx(3.5)
    assert seen.reached(101) is None


@pytest.mark.parametrize(
    ("parent", "name", "kind"),
    [
        ("driver", "java", "jvm"),
        ("driver", "python3", "workers"),
        ("jvm", "python3", "workers"),
        ("workers", "python3", "workers"),
        ("tool", "java", "tool"),
        ("application", "python3", "application"),
    ],
)
def test_a_child_process_is_known_by_its_parent_and_name(parent, name, kind):
    """Driver, JVM and Python workers are counted apart; another tool as a whole."""
    assert meter.kind_of_child(parent, name) == kind


def test_a_process_whose_name_has_spaces_and_brackets_is_read():
    """The name in /proc ends with the last bracket."""
    stat = "123 (a (b) c) S 7 1 1 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 1 1 1"
    assert meter.parsed(stat) == (7, 42, "a (b) c")


def test_a_core_that_idles_or_waits_for_a_disk_is_not_busy():
    """What is left when the processes that are counted are taken off is used elsewhere."""
    stat = "cpu  300 100 200 9000 700 30 70 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n"
    assert meter.busy(stat) == pytest.approx(700 / meter._HERTZ)


@pytest.mark.parametrize(
    ("name", "owner", "expected"),
    [
        ("connection", "binlog dump", "binlog dump"),
        ("connection", "", "sessions"),
        ("ib_pg_flush_co", "", "page cleaner"),
        ("ib_log_writer", "", "redo log"),
        ("sig_handler", "", "other"),
    ],
)
def test_a_thread_of_the_server_is_known_by_its_session_or_its_name(name, owner, expected):
    """Sending the binlog is told from copying."""
    assert meter.role(name, owner) == expected


def test_percentiles_are_values_that_were_seen():
    """The smallest that so large a share does not exceed."""
    values = [float(each) for each in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([], 0.99) == 0.0


def test_a_write_that_overlaps_a_span_counts_even_if_it_began_before():
    """A stall is felt by the write that was under way."""
    writes = [(0.0, 5.0), (1.0, 0.5), (9.0, 1.0)]
    assert Latency.of(writes, (2.0, 4.0)).longest == 5000.0
    assert Latency.of(writes, (2.0, 4.0)).writes == 1


def test_cpu_of_a_million_rows_more_is_the_slope_between_two_sizes():
    """What Spark's start costs is in both."""
    outcomes = [
        Outcome(scenario=name, rows=rows, figures=[], turns=[made(OURS, 1.0, cpu=cpu)])
        for name, rows, cpu in (
            ("idle", 500_000, {"server": 9.0, "jvm": 3.0, "driver": 1.0}),
            ("long", 2_000_000, {"server": 30.0, "jvm": 4.0, "driver": 1.5, "workers": 1.5}),
        )
    ]
    figure = cpu_beyond_the_start(outcomes)
    assert figure is not None
    assert figure.ours == pytest.approx(2.0)
    assert cpu_beyond_the_start(outcomes[:1]) is None


def test_every_scenario_is_listed_with_its_rows():
    """--list names them all, and the length of the run."""
    listed = listing(list(SCENARIOS.values()), Sizes(rounds=3, threads=2))
    assert len(listed) == len(SCENARIOS) + 2
    assert [line.split()[0] for line in listed[1:-1]] == list(SCENARIOS)
    assert "4,000,000" in listed[4]


def test_an_outcome_survives_as_table_and_as_json():
    """With turns, a failure, latencies and a missed goal."""
    turns = [
        made(OURS, 9.0, phases={"copy": 6.0}, cpu={"server": 3.0}, before=latency(1.0)),
        made(COPY, 3.0, size=1 << 20),
        made(THREADS, 0.0, failed="not recorded\nat all"),
    ]
    turns[0].during = latency(4.0)
    turns[0].phase_cpu = {"copy": {"server": 2.0}}
    turns[0].phase_writes = {"copy": latency(5.0)}
    figure = Figure(name="whole", ours=9.0, peer=3.0, against=COPY, goal=1.2)
    outcome = Outcome(scenario="idle", rows=1000, figures=[figure], turns=turns)
    text = "\n".join(table.lines(outcome))
    assert "missed" in text
    assert "FAILED: not recorded" in text
    assert "1.0 > 4.0" in text
    assert json.loads(json.dumps(_as_json(outcome)))["figures"][0]["ratio"] == 3.0


@pytest.mark.parametrize(
    ("notes", "turns", "failed"),
    [
        ({"rows_written": 3}, [made(OURS, 1.0)], False),
        ({"FAILED": "all of it"}, [], True),
        ({f"FAILED, {OURS} --max-lag 0": "a round"}, [], True),
        ({}, [made(OURS, 1.0), made(OURS, 0.0, failed="a round")], True),
    ],
)
def test_one_turn_that_fails_has_the_run_fail(notes, turns, failed):
    """Whatever the scenario: a contender that fails in every round is no success."""
    outcome = Outcome(scenario="idle", rows=1, figures=[], notes=notes, turns=turns)
    assert outcome.failed == failed


@pytest.mark.parametrize("words", [["--not-durable"], ["--set=--x=1"], ["--buffer-pool", "1G"]])
def test_options_that_a_named_server_ignores_are_refused(words, monkeypatch, capsys):
    """The figures would be recorded as of a server that had them."""
    monkeypatch.setattr("sys.argv", ["ci/bench", *words])
    monkeypatch.delenv("SPIRIT_PY_TEST_MYSQL", raising=False)
    assert _arguments().rounds
    monkeypatch.setenv("SPIRIT_PY_TEST_MYSQL", "mysql://root@192.0.2.1")
    with pytest.raises(SystemExit):
        _arguments()
    assert "keeps its own settings" in capsys.readouterr().err


def test_the_file_system_of_the_data_is_known():
    """In one that is in memory a commit that waits for the disk costs nothing."""
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(None) == ""

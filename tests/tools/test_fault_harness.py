"""The harness's own parts, without a server: seeds, tables, journals."""

from __future__ import annotations

import random
from unittest import mock

import pytest

import fault_moves
import faults
from tests.faults.draw import FAULTS, draw
from tests.faults.hooks import HOOKS
from tests.faults.journal import Journal, mismatches
from tests.faults.judge import bug_seen
from tests.faults.moves import Verdict as MoveVerdict
from tests.faults.moves import draw as draw_move
from tests.faults.run import Verdict
from tests.faults.scene import Attempt
from tests.faults.shapes import SHAPES, State
from tests.kits.draw import seed_of
from tests.kits.kills import STRUCK

BEFORE, AFTER = State(1, "before"), State(2, "after")


def test_a_seed_draws_the_same_every_time():
    """A seed stands for one table, workload, fault and place; consecutive seeds for all faults."""
    seeds = range(5000, 5000 + 5 * len(FAULTS))
    drawn = [draw(seed) for seed in seeds]
    assert drawn == [draw(seed) for seed in seeds]
    names = [each.fault.name for each in drawn]
    assert all(names.count(fault.name) >= 5 for fault in FAULTS)
    assert {each.shape.name for each in drawn} == {shape.name for shape in SHAPES}
    assert {each.repair for each in drawn} == {True, False}


def test_a_reader_is_drawn_only_where_its_account_is_kept():
    """In about half of the runs, and never beside rows that are changed without an account."""
    drawn = [draw(seed) for seed in range(20 * len(FAULTS))]
    assert 0.3 < sum(each.reader for each in drawn) / len(drawn) < 0.6
    of = [each.fault for each in drawn if each.reader]
    assert not any(fault.expects_repairs or fault.loses_rows for fault in of)


def test_faults_strike_where_the_program_can_be_held():
    """Every fault has a name of its own, points that exist, and a hook that exists."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert set(fault.points) <= STRUCK, fault.name
        assert not fault.hook or fault.hook in HOOKS


def test_the_tail_of_a_log_begins_with_its_error_however_many_rows_that_names(tmp_path):
    """The proof that bugs are caught looks there for what the error says."""
    rows = [f"  row ({number}) is missing" for number in range(10)]
    log = [
        "copying",
        "error: t and _t_new still differ in 10 rows",
        *rows,
        "hint: look",
        "more: it",
    ]
    attempt = Attempt(1, mock.Mock(), tmp_path / "log", tmp_path / "report")
    attempt.log.write_text("\n".join(log))
    assert attempt.tail.splitlines() == log[1:]
    attempt.log.write_text("\n".join(f"line {number}" for number in range(20)))
    assert attempt.tail.splitlines()[0] == "line 8"
    attempt.log.write_text("one line")
    assert attempt.tail == "one line"


def test_faults_that_gave_no_verdict_or_never_struck_fail_the_whole(capsys, monkeypatch):
    """A run whose process died has not passed; a fault that never came proves nothing."""
    runs = 5 * len(FAULTS)
    good = [
        Verdict(seed=number, what="", fault=FAULTS[number % len(FAULTS)].name, struck=True)
        for number in range(runs)
    ]
    assert faults._summary(good, 1, of=runs) == 0
    assert faults._summary(good[1:], 1, of=runs) == 1
    assert f"1 of {runs} runs gave no verdict" in capsys.readouterr().out
    missed = good[0].fault
    for verdict in good:
        verdict.struck = verdict.fault != missed
    assert faults._summary(good, 1, of=runs) == 1
    assert f"never struck: {missed}\n" in capsys.readouterr().out
    # A few runs may miss their points; not all of them, and not many of many.
    assert faults._summary(good[:3], 1, of=3) == 0
    monkeypatch.delenv("SPIRIT_PY_LANE", raising=False)
    # The usual gate has one run, of another seed every time.
    assert faults._summary(good[:1], 1, of=1) == 0
    assert "0 of 1 struck" in capsys.readouterr().out
    monkeypatch.setenv("SPIRIT_PY_LANE", "1")
    assert faults._summary(good[:1], 1, of=1) == 1
    for number, verdict in enumerate(good[:12]):
        verdict.struck = number >= 4
    assert faults._summary(good[:12], 1, of=12) == 0
    good[4].struck = False
    assert faults._summary(good[:12], 1, of=12) == 1
    good[11].problem = "a row is lost"
    assert faults._summary(good[9:12], 1, of=3) == 1


def test_moves_of_which_too_few_were_struck_fail_the_whole():
    """A point may lie behind the end; it does not in most runs."""

    def result(struck: int, of: int) -> int:
        verdicts = [MoveVerdict(drawn=draw_move(seed), struck=seed < struck) for seed in range(of)]
        return fault_moves._summary(verdicts, 1, of=of)

    assert [result(0, of) for of in (0, 1, 4, 5)] == [1, 0, 0, 1]
    assert [result(struck, 20) for struck in (9, 10)] == [1, 0]


def test_a_rename_is_lost_only_where_one_is_still_to_come():
    """Armed behind it, nothing was lost, and the run counted as one that was struck."""
    drawn = [draw_move(seed) for seed in range(400)]
    lost = [one for one in drawn if one.fault == "lost RENAME of the SIDE"]
    behind = {"switch.renamed", "switch.commanded", "switch.unlocked", "cleanup.checkpoint"}
    assert {"switch.locked"} < {one.point for one in lost} < {one.point for one in drawn} - behind
    assert behind < {one.point for one in drawn}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("report", "said", "seen"),
    [
        ({"error_code": "defect", "error": "KeyError: 'a'"}, "error: KeyError: 'a'", "KeyError"),
        ({}, "copying\nTraceback (most recent call last):\n  File", "Traceback"),
        ({"error_code": "feed-failed"}, "error: it broke\nhint: this is a bug: report it", "this"),
        ({"error_code": "cannot-connect", "error": "gone"}, "error: gone\nhint: look", ""),
        ({}, "", ""),
    ],
)
def test_a_bug_of_the_program_is_no_trouble_with_its_exit_code(report, said, seen):
    """It ends with 1, as a run does whose connection was lost."""
    found = bug_seen(report, said)
    assert found.startswith(seen)
    assert bool(found) == bool(seen)


def test_without_a_small_disk_the_next_seed_is_drawn_and_no_lane_passes(monkeypatch):
    """The usual run has one run, and may draw a full disk."""
    (first, *_) = (seed for seed in range(len(FAULTS)) if draw(seed).fault.needs_disk)
    assert faults._seeds_of("", "", first, 1, has_disk=True) == [first]
    (seed,) = faults._seeds_of("", "", first, 1, has_disk=False)
    assert seed > first
    with pytest.raises(SystemExit, match="disk-full"):
        faults._seeds_of("disk-full", "", first, 1, has_disk=False)
    monkeypatch.setattr(faults, "in_own_namespace", lambda _: False)
    monkeypatch.setattr(faults, "end_on_sigterm", lambda: None)
    monkeypatch.setenv("SPIRIT_PY_LANE", "1")
    with pytest.raises(SystemExit, match="this lane needs a disk"):
        faults.main(["--seed", str(first)])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_row_is_read_back_as_it_was_written(shape):
    """Number, state and spelling come back from a row's key and values."""
    for number in (1, 17, 4999, 60_000):
        state = State(-77, "text", "s" if shape.slot else None, shape.spellings - 1)
        row = (*shape.encode(number, state.spelling), *shape.values(state))
        assert shape.read(row) == (number, state)
    with pytest.raises(ValueError, match="does not hold together"):
        shape.read((*row[: len(shape.key)], 5, *row[len(shape.key) + 1 :]))


@pytest.mark.smoke
def test_lost_extra_and_changed_rows_are_told_apart():
    """A table that differs from the acknowledged rows is described row by row."""
    journal = Journal(rows={1: BEFORE, 2: BEFORE})
    journal.acknowledge([(2, BEFORE, AFTER)], "update")
    assert mismatches([journal], {1: BEFORE, 2: AFTER}) == []
    wrong = mismatches([journal], {2: BEFORE, 3: AFTER})
    assert [line.split(":")[0] for line in wrong] == ["lost", "changed", "extra"]
    assert "update: acknowledged" in wrong[1]


@pytest.mark.smoke
def test_rows_that_a_swap_leaves_out_are_told_from_lost_ones():
    """What was written before the swap has gone by the line; what is written later stays."""
    journal = Journal(rows={1: BEFORE, 2: AFTER}, keeps=lambda _, state: state == AFTER)
    assert mismatches([journal], {2: AFTER}, swapped=True) == []
    assert mismatches([journal], {2: AFTER}, swapped=False)
    assert mismatches([journal], {}, swapped=True)
    # A row that has left the line, and is there all the same.
    assert mismatches([journal], {1: BEFORE, 2: AFTER}, swapped=True)
    journal.acknowledge([(2, AFTER, BEFORE)], "update", old=False)
    assert mismatches([journal], {2: BEFORE}, swapped=True) == []
    assert mismatches([journal], {}, swapped=True)
    journal.lose([(2, BEFORE, AFTER), (3, None, BEFORE)], "both")
    assert mismatches([journal], {2: AFTER}, swapped=True) == []
    assert mismatches([journal], {3: BEFORE}, swapped=True)


def test_rows_are_left_out_only_where_that_can_be_judged():
    """In a quarter of the runs, or in all that can: without damage, parents or a reader."""
    seeds = range(20 * len(FAULTS))
    drawn = [draw(seed) for seed in seeds]
    assert 0.15 < sum(each.line is not None for each in drawn) / len(drawn) < 0.35
    every = [draw(seed, keep=True) for seed in seeds]
    assert all((each.line is None) == each.fault.expects_repairs for each in every)
    kept = [each for each in every if each.line]
    assert {each.line for each in kept} == {line for shape in SHAPES for line in shape.lines}
    assert not any(each.reader or each.shape.attached for each in kept)


def test_a_failed_transaction_leaves_everything_as_it_was():
    """What the server refused must not be in the table."""
    journal = Journal(rows={1: BEFORE})
    journal.fail([(1, BEFORE, AFTER)], "update")
    assert mismatches([journal], {1: BEFORE}) == []
    assert mismatches([journal], {1: AFTER})


@pytest.mark.smoke
def test_an_unknown_transaction_is_whole_or_absent():
    """Of a transaction whose answer was lost, all rows are as before or all as after."""
    journal = Journal(rows={1: BEFORE, 2: BEFORE})
    journal.lose([(1, BEFORE, AFTER), (2, BEFORE, None)], "both")
    assert mismatches([journal], {1: BEFORE, 2: BEFORE}) == []
    assert mismatches([journal], {1: AFTER}) == []
    assert "half a transaction" in mismatches([journal], {1: AFTER, 2: BEFORE})[0]
    assert mismatches([journal], {1: State(9, "neither")})


def test_an_unknown_insert_may_be_there_under_any_number():
    """An INSERT whose number the server gives may be found once, and only as it was sent."""
    journal = Journal()
    journal.lose_new(AFTER)
    assert mismatches([journal], {}) == []
    assert mismatches([journal], {7: AFTER}) == []
    assert mismatches([journal], {7: AFTER, 8: AFTER})
    assert mismatches([journal], {7: BEFORE})


def test_a_journal_agrees_with_a_table_that_does_what_it_says():
    """Random transactions on a model table: only a planted difference is reported."""
    seed = seed_of("SPIRIT_PY_FAULTS_SEED")
    source = random.Random(seed)
    table = {number: State(number, "row") for number in range(50)}
    journal = Journal(rows=dict(table))
    for step in range(500):
        number = source.choice(sorted(journal.rows))
        before = journal.rows[number]
        after = State(step, "new") if source.random() < 0.9 else None
        change = [(number, before, after)]
        outcome = source.choice(("acknowledge", "fail", "lose"))
        happens = outcome == "acknowledge" or (outcome == "lose" and source.random() < 0.5)
        getattr(journal, outcome)(change, "step")
        if happens:
            table.pop(number)
            table |= {} if after is None else {number: after}
        if len(journal.rows) < 5:
            break
    assert mismatches([journal], table) == [], f"seed {seed}"
    victim = source.choice(sorted(journal.rows))
    assert mismatches([journal], table | {victim: State(-1, "other")}), f"seed {seed}"

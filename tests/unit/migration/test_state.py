"""The state of a migration: what follows from each thing that happens, and what cannot be."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import MigrationFailure
from spirit_py.events.copy import CheckpointWritten, ChecksumDone, FeedBegun, FeedLost, IndexesBuilt
from spirit_py.events.run import (
    AlgorithmChosen,
    PhaseEntered,
    ResumeDecided,
    StatementRead,
    Warned,
)
from spirit_py.migration import state as module
from spirit_py.migration.facts import (
    AlterAnswered,
    Broken,
    Concluded,
    Counted,
    IndexesTried,
    IndexesUnderWay,
    OldTablesLeft,
    PlainFact,
    Swapped,
    WaitsFor,
)
from spirit_py.migration.figures import Journal
from spirit_py.migration.state import State, Wait, apply
from spirit_py.phases import IllegalTransition, Phase
from spirit_py.status.report import MigrationReport
from tests.kits.states import validate

FIRST = State(report=MigrationReport(threads=1, versions={}))
READ = StatementRead(
    statement="ADD x INT",
    tables=["s.t"],
    server="db1",
    mysql="9.7.1",
    names=[("s", "t")],
    estimates={("s", "t"): 300},
)
CLEAN = ChecksumDone(
    table="s.t", rows=300, passes=1, differences=0, repaired_chunks=0, lock_held_ms=1.0, seconds=2.0
)
RESULT: Any = SimpleNamespace(
    attempts=2, lock_wait_ms=1.23456, lock_held_ms=3.0, steps_ms={"rename": 1.0}, attached=(),
    killed=(), guard="done", snapshots=(), position="p2",
)  # fmt: skip


def entered(phase: Phase) -> PhaseEntered:
    """Return the event of a phase."""
    return PhaseEntered(phase=phase.value, before="", seconds=0.0)


def after(*happened: Any, first: State = FIRST) -> State:
    """Return the state after events and facts, one a second."""

    def step(state: State, numbered: tuple[int, Any]) -> State:
        before = replace(state)
        later = apply(state, numbered[1], float(numbered[0]))
        assert state == before, "the state that was there has changed"
        return later

    return reduce(step, enumerate(happened, start=1), first)


WHOLE = (
    READ,
    AlgorithmChosen(algorithm="copy", reason="a type changes"),
    *map(entered, (Phase.SHORTCUT, Phase.CREATE, Phase.COPY)),
    FeedBegun(position="p1"),
    *map(entered, (Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM)),
    CLEAN,
    entered(Phase.CUTOVER),
    Swapped(RESULT),
    PlainFact.TABLES_CHANGED,
    *map(entered, (Phase.CLEANUP, Phase.DONE)),
    Concluded("done"),
)


def test_a_whole_migration_is_told_by_its_state():
    """The report, the phases and the figures follow from what happened, and from nothing else."""
    done = after(*WHOLE)
    assert validate(done) == []
    report = done.report
    assert (report.tables, report.schema, report.table) == (["s.t"], "s", "t")
    assert (report.algorithm, report.reason, report.outcome) == ("copy", "a type changes", "done")
    assert (report.start_position, report.final_position) == ("p1", "p2")
    assert (report.cutover_attempts, report.lock_wait_ms) == (2, 1.235)
    # The comparison ended at 10, the swap was made at 12.
    assert report.checksum_age_seconds == 2.0
    assert done.table == "s.t"
    assert done.estimates == {("s", "t"): 300}
    assert [phase for phase, _ in done.phases.history][-2:] == [Phase.CUTOVER, Phase.CLEANUP]


def test_what_was_read_of_a_state_never_changes():
    """A display that has it may take its time."""
    state = after(READ)
    with pytest.raises(FrozenInstanceError):
        state.altered = True  # type: ignore[misc]
    warnings = state.report.warnings
    after(Warned(said="odd"), first=state)
    assert warnings == []


@pytest.mark.parametrize(
    ("happened", "seen"),
    [
        ([Warned(said="a"), Warned(said="b"), Warned(said="a")], {"warnings": ["a", "b"]}),
        ([FeedLost(reason="x")], {"warnings": []}),
        ([OldTablesLeft(["s._t_old", "s._u_old"])], {"old_table": "s._t_old, s._u_old"}),
        ([Counted({"rows_copied": 7})], {"rows_copied": 7, "seconds": 1.0}),
        (
            [IndexesTried(1.5, 2), IndexesTried(1.0, 1)],
            {"index_build_seconds": 2.5, "index_build_tries": 3},
        ),
        (
            [IndexesBuilt(table="s.t", indexes=["k"], listed="k", seconds=1.0, tries=1)],
            {"indexes_deferred": ["s.t.k"]},
        ),
        ([PlainFact.STAYS_RESUMABLE], {"resumable": True}),
        (
            [Broken(MigrationFailure("no", hint="again"))],
            {"outcome": "failed", "error": "no", "hint": "again", "exit_code": 1},
        ),
    ],
)
def test_the_report_follows(happened, seen):
    """Each thing has its fields."""
    report = after(*happened).report
    assert {name: getattr(report, name) for name in seen} == seen


def test_a_run_that_carries_on_copies_and_one_that_begins_afresh_decides():
    """What the earlier run was stopped in decides, too, whether the tables are swapped."""
    decided: Any = {
        "reason": "its checkpoint is good",
        "number": 3,
        "rows_copied": 40,
        "phase": "copy",
    }
    said = "resuming: its checkpoint is good; some rows may be copied again"
    carried = after(ResumeDecided(decision="resume", said=said, swapped=True, **decided))
    assert carried.report.resumed == "resumed: its checkpoint is good"
    assert (carried.report.runs, carried.report.rows_copied_before) == (3, 40)
    assert (carried.report.algorithm, carried.swapped_before) == ("copy", True)
    afresh = after(ResumeDecided(decision="afresh", said="afresh: why", **decided))
    assert (afresh.report.resumed, afresh.report.algorithm) == ("afresh: why", "")


def test_a_change_in_place_is_under_way_until_its_answer():
    """Operators are told that it is too late, or that it was not made."""
    sent = after(PlainFact.ALTER_SENT)
    assert (sent.altering, sent.altered) == (True, False)
    assert validate(sent) == []
    assert after(PlainFact.ALTER_SENT, AlterAnswered(made=True)).altered
    not_made = after(PlainFact.ALTER_SENT, AlterAnswered(made=False))
    assert (not_made.altering, not_made.altered) == (False, False)


def test_a_wait_that_goes_on_after_a_short_break_is_the_same_wait():
    """What is shown is for how long it has lasted; a phase begins another one."""
    waits = Wait().then("a lock", 10.0).then("", 15.0).then("a lock", 16.0)
    assert waits.seconds(20.0) == 10.0
    assert waits.then("", 20.0).then("a lock", 30.0).seconds(31.0) == 1.0
    assert waits.then("", 20.0).seconds(21.0) is None
    told = after(WaitsFor("a lock"), WaitsFor(""), entered(Phase.SHORTCUT), WaitsFor("a lock"))
    assert told.waits.seconds(4.5) == 0.5


def test_what_is_built_is_forgotten_with_its_phase():
    """And a checkpoint makes a run resumable."""
    state = after(*WHOLE[:5], entered(Phase.INDEX), IndexesUnderWay(0.5))
    assert state.built == 0.5
    assert after(entered(Phase.DRAIN), first=state).built is None
    written = after(CheckpointWritten(phase="copy", rows_copied=1, position="p"), first=state)
    assert (written.resumable, written.checkpoint_age(4.0)) == (True, 3.0)


def test_a_phase_that_may_not_follow_changes_nothing():
    """R15: the swap is not reached without a comparison."""
    journal = Journal(MigrationReport(), clock=lambda: 1.0)
    before = journal.state
    with pytest.raises(IllegalTransition):
        journal.note(entered(Phase.CUTOVER))
    assert journal.state is before


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"altering": True, "altered": True}, "known and not known"),
        ({"altered": True}, "in place and copied"),
        ({"clean_at": {}}, "without a comparison"),
        ({"changed": False}, "it is not known"),
        ({"report": {"resumable": True}}, "can be resumed"),
        ({"report": {"error": "x"}}, "has an error"),
        ({"report": {"algorithm": ""}}, "no algorithm"),
        ({"report": {"tables": []}}, "no table"),
        ({"report": {"outcome": "rehearsed"}}, "a dry run has swapped"),
    ],
)
def test_what_cannot_be_is_found(changes, broken):
    """At the end of every test that has a run."""
    whole = after(*WHOLE)
    report = replace(whole.report, **changes.pop("report", {}))
    assert any(broken in one for one in validate(replace(whole, report=report, **changes)))


def test_phases_out_of_their_order_are_found():
    """Whoever made the state."""
    whole = after(*WHOLE)
    history = whole.phases.history
    for phases, broken in (
        (history[1:], "do not begin"),
        ((*history[:3], *history[4:]), "that may not"),
        (((Phase.PREFLIGHT, -1.0), *history[1:]), "below zero"),
    ):
        log = replace(whole.phases, history=phases)
        assert any(broken in one for one in validate(replace(whole, phases=log)))
    early = replace(after(READ), report=replace(FIRST.report, reverted=True))
    assert validate(early) == ["it was reverted before it was swapped"]
    assert after(PlainFact.REVERTED, first=whole).report.reverted


def test_a_migration_that_was_swapped_back_is_not_done():
    """Its outcome is the word of ``status``, and the state is sound."""
    reverted = after(*WHOLE[:-2], PlainFact.REVERTED, *WHOLE[-2:])
    assert reverted.report.outcome == "reverted"
    assert validate(reverted) == []
    told = replace(reverted, report=replace(reverted.report, outcome="done"))
    assert validate(told) == ["it is reverted, and its outcome is another"]


def test_states_are_made_in_one_place():
    """Nobody but this module, and the journal for the first one, makes a state."""
    package = Path(module.__file__).parents[1]
    makers = {
        path.name
        for path in package.rglob("*.py")
        if re.search(r"\bState\(|replace\((?:self\.)?_?state\b", path.read_text())
    }
    assert makers == {"state.py", "figures.py"}

"""What a move does with what an earlier run left on two servers."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.checkpoint.decision import Afresh, Refuse, Resume
from spirit_py.checkpoint.record import (
    FOLLOWING,
    REVERTING,
    CheckpointRecord,
    MoveNote,
    OldTableRecord,
    Pointer,
    ReverseRecord,
    ReverseTable,
    TableProgress,
)
from spirit_py.classes import replace
from spirit_py.config import SessionModes, SwapChoices
from spirit_py.migration.run import Run
from spirit_py.move.decision import MoveFound, TableSeen, decide, finished, together
from spirit_py.move.run import MoveRun
from spirit_py.mysql.connect import another_server

STATEMENT = "MOVE TO there; ALTER TABLE `s`.`t` FORCE"
RECORD = CheckpointRecord(
    statement=STATEMENT,
    tables=(TableProgress(schema="s", table="t", rows_copied=5),),
    server_uuid="here",
    phase="copy",
    position="p",
)
HERE = TableSeen(schema="s", table="t", here=True, new=True)
MOVED = TableSeen(schema="s", table="t", away=True, arrived=True)
REVERSE = ReverseRecord(
    tables=(ReverseTable(schema="s", table="t", old="_t_moved", undone="_t_undone"),)
)


def found(*tables: TableSeen, **more: Any) -> MoveFound:
    """Return what an earlier run left."""
    given: dict[str, Any] = {"record": RECORD, "note": MoveNote(target="there")}
    return MoveFound(
        source_uuid="here",
        target_uuid="there",
        tables=tables or (HERE,),
        **(given | more),
    )


def decided(seen: MoveFound) -> Any:
    """Return what is done with it."""
    return decide(seen, statement=STATEMENT, max_age=100.0)


def test_nothing_begins_afresh():
    """Without a record there is nothing to resume."""
    assert decided(found(record=None)) == Afresh()


def test_a_table_that_another_move_brings_is_kept():
    """Of that one there is no record here: only a note says that it has not ended."""
    brought = TableSeen(schema="s", table="t", exists=True, brought_from=("db0:3306",))
    # Each table has a note of its own, also where another one's has the record.
    for tables in ([brought], [TableSeen(schema="s", table="a", exists=True), brought]):
        decision = decided(found(*tables, record=None, unreadable="_t_chkpnt has no row"))
        assert isinstance(decision, Refuse), decision
        assert "a move brings s.t here from db0:3306, and has not ended" in decision.reason
    kept = replace(brought, reverted=True)
    for seen in (kept, replace(kept, brought_from=(), others=("db0:3306",))):
        decision = decided(found(seen, record=None))
        assert isinstance(decision, Refuse), decision
        assert "was taken back: s._t_undone is kept" in decision.reason
        assert "begun with" not in decision.hint
    # Of several sources each has such a note, beside its record.
    own = MoveNote(target="there", sources=("db0:3306",), asked="db0:3306")
    assert isinstance(decided(found(note=own)), Resume)
    unread = decided(found(record=None, note=own, unreadable="of version 99"))
    assert "cannot be read: of version 99" in unread.reason


@pytest.mark.parametrize("more", [{}, {"record": None}, {"unreachable": "purged"}])
def test_a_table_that_another_source_has_brought_is_kept(more):
    """What this source has noted is of a time before; also where nothing can be resumed."""
    others = TableSeen(schema="s", table="t", here=True, others=("db0:3306",))
    decision = decided(found(others, **more))
    assert isinstance(decision, Refuse), decision
    assert "on the target, a move brings s.t here from db0:3306" in decision.reason
    # What was moved before that is ended.
    note = MoveNote(target="there", switched=True)
    moved = replace(others, here=False, away=True, held=True)
    assert decided(found(moved, note=note, switched=True)).cleanup is True


def test_a_table_that_was_altered_on_the_target_after_the_switch_is_moved():
    """The application was sent there: what it does with the table ends no move half-way."""
    altered = TableSeen(schema="s", table="t", away=True, held=True)
    note = MoveNote(target="there", switched=True)
    assert decided(found(altered, note=note, switched=True)).cleanup is True
    # Not where nobody has noted that, nor where the target has no table of the name any more.
    assert isinstance(decided(found(altered)), Refuse)
    gone = replace(altered, held=False)
    assert isinstance(decided(found(gone, note=note, switched=True)), Refuse)


def test_what_is_copied_is_resumed():
    """Before the source's RENAME the source is the table, whatever name the new one has."""
    assert decided(found()) == Resume(record=RECORD, reason=decided(found()).reason)
    arrived = replace(HERE, new=False, arrived=True)
    assert isinstance(decided(found(arrived)), Resume)
    assert not decided(found(arrived)).cleanup


@pytest.mark.parametrize(
    "seen",
    [
        MOVED,
        replace(MOVED, arrived=False, new=True),
        replace(MOVED, away=False, old_table=OldTableRecord(swapped_at=1.0, until=2.0)),
    ],
    ids=["moved", "being-taken-back", "dropped"],
)
def test_behind_the_rename_it_goes_on_forward(seen):
    """The table is on the target: nothing brings it back but a revert."""
    assert decided(found(seen)).cleanup is True


def test_a_source_that_is_back_by_hand_is_refused():
    """The application has used the target, which may have rows of its own."""
    seen = replace(HERE, new=False, arrived=True)
    decision = decided(found(seen, note=MoveNote(target="there", switched=True)))
    assert isinstance(decision, Refuse)
    assert "have their names again" in decision.reason


def test_another_commands_moved_table_is_refused():
    """Dropping what it left could drop the table in use."""
    other = replace(RECORD, statement="MOVE TO there; ALTER TABLE `s`.`t` ADD COLUMN z INT")
    assert isinstance(decided(found(MOVED, record=other)), Refuse)


def test_two_tables_of_which_one_is_moved_are_refused():
    """One RENAME moves all of them."""
    other = TableSeen(schema="s", table="u", here=True, new=True)
    decision = decided(found(MOVED, other))
    assert isinstance(decision, Refuse)
    assert "s.u is on the source" in decision.reason


@pytest.mark.parametrize(
    "seen",
    [
        TableSeen(schema="s", table="t"),
        TableSeen(schema="s", table="t", away=True),
        TableSeen(schema="s", table="t", here=True, away=True, arrived=True),
    ],
    ids=["nowhere", "not-arrived", "both"],
)
def test_what_no_run_leaves_is_refused(seen):
    """A person has renamed or dropped something: a person must look."""
    assert isinstance(decided(found(seen)), Refuse)


def test_what_is_done_is_left_to_the_operator():
    """The target's checkpoint is gone, so its table cannot be proven any more."""
    done = TableSeen(
        schema="s",
        table="t",
        away=True,
        old_table=OldTableRecord(swapped_at=1.0, finished=True),
    )
    decision = decided(found(done))
    assert isinstance(decision, Refuse)
    assert "moved already; s._t_moved" in decision.reason


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (MOVED, FOLLOWING),
        (TableSeen(schema="s", table="t", here=True, arrived=True), REVERTING),
        (TableSeen(schema="s", table="t", here=True, undone=True), REVERTING),
    ],
    ids=["follows", "half-way-back", "back"],
)
def test_reverse_replication_goes_on(seen, state):
    """Also where a revert ended between its RENAMEs, or was made."""
    assert decided(found(seen, reverse=replace(REVERSE, state=state))).cleanup is True


@pytest.mark.parametrize("switched", [False, True])
def test_a_followed_source_that_is_back_by_hand_is_refused(switched):
    """No revert was begun: the application may use either of the two tables."""
    seen = replace(HERE, new=False, arrived=True)
    note = MoveNote(target="there", switched=switched)
    decision = decided(found(seen, note=note, switched=switched, reverse=REVERSE))
    assert isinstance(decision, Refuse), decision
    assert "have their names again" in decision.reason


@pytest.mark.parametrize(
    "more",
    [
        {"record": replace(RECORD, server_uuid="another")},
        {"note": MoveNote(target="another")},
        {"unreadable": "not JSON"},
    ],
    ids=["source", "target", "unreadable"],
)
def test_another_server_is_refused(more):
    """Nothing is dropped, and nothing resumed (R14)."""
    assert isinstance(decided(found(**more)), Refuse)


def test_a_checkpoint_without_a_row_hinders_nothing():
    """A process was killed behind its CREATE TABLE: there is no table of a move."""
    here = TableSeen(schema="s", table="t", here=True)
    decision = decided(found(here, record=None, unreadable="it has no row"))
    assert isinstance(decision, Afresh)
    assert not decision.throws_away


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"record": replace(RECORD, position="")}, "before the copy"),
        (
            {
                "record": replace(RECORD, position=""),
                "tables": (TableSeen(schema="s", table="t"),),
            },
            "before the copy",
        ),
        ({"tables": (replace(HERE, new=False),)}, "gone on the target"),
        ({"unreachable": "purged"}, "purged"),
    ],
    ids=["early", "earliest", "gone", "purged"],
)
def test_what_cannot_be_resumed_begins_afresh(more, said):
    """Nothing else could resume it, so nobody is asked."""
    seen = found(*more.pop("tables", ()), **more)
    decision = decided(seen)
    assert isinstance(decision, Afresh)
    assert said in decision.reason
    assert not decision.throws_away


def test_other_modes_are_refused_before_the_switch():
    """The new table was made under the first ones; behind the switch nothing is made."""
    modes = SessionModes(sql_mode="ANSI_QUOTES")

    def of(seen: MoveFound) -> Any:
        return decide(seen, statement=STATEMENT, max_age=100.0, modes=modes)

    decision = of(found())
    assert isinstance(decision, Refuse)
    assert "this command has other modes" in decision.reason
    assert of(found(MOVED)).cleanup is True
    assert isinstance(of(found(record=replace(RECORD, modes=modes))), Resume)


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (SwapChoices(defer_cutover=True), "add --defer-cutover"),
        (SwapChoices(keep_old_current=60.0), "add --keep-old-current"),
    ],
    ids=["deferred", "kept"],
)
def test_what_was_to_be_done_at_the_switch_has_to_be_said_again(begun, said):
    """The operator's decision, or the way back, would be gone; behind the switch it is too late."""

    def of(seen: MoveFound, choices: SwapChoices | None = begun) -> Any:
        return decide(seen, statement=STATEMENT, max_age=100.0, choices=choices)

    seen = found(record=replace(RECORD, choices=begun))
    decision = of(seen, SwapChoices())
    assert isinstance(decision, Refuse)
    assert said in decision.hint
    assert isinstance(of(seen), Resume)
    assert isinstance(of(seen, None), Resume)
    assert of(replace(seen, tables=(MOVED,)), SwapChoices()).cleanup is True


def test_an_old_record_is_dropped_with_consent_alone():
    """Another command could resume it with a longer limit."""
    assert decided(found(age=101.0)).throws_away


def test_a_definition_that_another_session_changed_is_refused():
    """Whose rows are meant is not known (R14); with consent it begins anew."""
    seen = found(replace(HERE, changed="s.t"))
    assert isinstance(decided(seen), Refuse)
    afresh = decide(seen, statement=STATEMENT, max_age=100.0, start_afresh=True)
    assert isinstance(afresh, Afresh)


@pytest.mark.parametrize(
    "record",
    [Pointer(home=("s", "a")), replace(RECORD, statement="ALTER TABLE `s`.`t` FORCE")],
    ids=["together", "migration"],
)
def test_another_commands_rows_are_dropped_with_consent_alone(record):
    """A migration's record is not a move's."""
    decision = decided(found(record=record))
    assert isinstance(decision, Afresh)
    assert decision.throws_away


def test_a_new_table_beside_those_of_a_record_is_named():
    """The same command fits it, too: leaving it out resumes."""
    both = [HERE, TableSeen(schema="s", table="a", here=True)]
    decision: Any = decide(found(*both), statement="MOVE TO there; another", max_age=100.0)
    assert decision.throws_away
    assert decision.instead.endswith("or this one with --exclude s.a")


def test_of_several_sources_the_last_rename_decides():
    """All are moved, or none: what is half-way is taken back before, or refused."""
    here = found(TableSeen(schema="s", table="t", here=True, exists=True, new=True))
    away = found(TableSeen(schema="s", table="t", away=True, arrived=True))
    both = [decided(here), decided(away)]
    assert isinstance(together([here, here], [both[0], both[0]]), Resume)
    behind: Any = together([away, away], [both[1], both[1]])
    assert behind.cleanup
    assert isinstance(together([here, away], both), Refuse)
    assert isinstance(together([away, here], both[::-1]), Refuse)


def test_one_source_that_begins_anew_has_all_begin_anew():
    """What would be dropped counts first: the operator is asked."""
    here = found(TableSeen(schema="s", table="t", here=True, exists=True, new=True))
    old = Afresh(reason="old", throws_away=True)
    chosen = together([here] * 3, [decided(here), Afresh(reason="new"), old])
    assert chosen == old
    refused = Refuse(reason="no", hint="")
    assert together([here] * 2, [old, refused]) == refused


def test_a_source_without_anything_is_done():
    """Its checkpoint goes last: it was cleaned up, or a stranger's table has the name."""
    gone = found(TableSeen(schema="s", table="t", arrived=True), record=None)
    assert finished(gone)
    assert not finished(replace(gone, unreadable="no row"))
    made = replace(gone, tables=(replace(gone.tables[0], exists=True),))
    assert not finished(made)


@pytest.mark.parametrize(
    ("seen", "refused"),
    [
        (TableSeen(schema="s", table="t", arrived=True), True),
        (TableSeen(schema="s", table="t", arrived=True, exists=True), True),
        (TableSeen(schema="s", table="t", arrived=True, here=True), False),
        (TableSeen(schema="s", table="t", new=True, here=True), False),
    ],
    ids=["gone", "another", "here", "not there"],
)
def test_a_table_that_may_be_in_use_on_the_target_is_not_dropped(seen, refused):
    """Nothing on the source says that nobody was sent to it (R17)."""
    decision = decided(found(seen, record=None))
    assert isinstance(decision, Refuse) == refused
    sent = found(seen, record=None, note=MoveNote(target="there", switched=True))
    assert isinstance(decided(sent), Refuse) == seen.arrived


def test_what_one_source_notes_counts_for_all():
    """Another one that begins anew drops nothing that the application may use."""
    seen = TableSeen(schema="s", table="t", here=True, exists=True, arrived=True)
    noted = found(seen, note=MoveNote(target="there", away=True))
    anew = Afresh(reason="old")
    assert isinstance(together([noted, found(seen)], [decided(found(seen)), anew]), Refuse)
    assert together([found(seen, record=None)] * 2, [anew, anew]) == anew


def test_rows_that_another_source_has_copied_are_dropped_with_consent_alone():
    """One that was stopped before its copy began has nothing to lose; the others have."""
    empty = replace(RECORD, tables=(TableProgress(schema="s", table="t"),))
    none = found(HERE, record=empty)
    early = found(HERE, record=replace(empty, position=""))
    anew = decided(early)
    assert isinstance(anew, Afresh)
    assert not anew.throws_away
    for other, asked in ((found(HERE), True), (none, False)):
        for seen in ([early, other], [other, early]):
            decision = together(seen, list(map(decided, seen)))
            assert isinstance(decision, Afresh)
            assert decision.throws_away == asked
            assert decision.reason == anew.reason
    plain = TableSeen(schema="s", table="t", exists=True)
    gone = [found(plain, record=None, note=None), found(HERE)]
    lost = together(gone, list(map(decided, gone)))
    assert isinstance(lost, Afresh)
    # What has a reason is asked for.
    assert (lost.throws_away, bool(lost.reason)) == (True, True)


@pytest.mark.parametrize(
    "elsewhere",
    [{"record": replace(RECORD, server_uuid="another")}, {"note": MoveNote(target="another")}],
)
def test_after_the_switch_another_server_is_no_reason_to_start_again(elsewhere):
    """What is dropped then, or moved once more, are rows that the application uses elsewhere."""
    before = decided(found(HERE, **elsewhere))
    assert "and start again" in before.hint
    for table in (MOVED, replace(MOVED, arrived=False)):
        after = decided(found(table, **elsewhere))
        assert isinstance(after, Refuse), after
        assert "the source's tables are out of the way already" in after.reason
        assert "start again" not in after.hint
        assert "see that the target has its tables with all rows" in after.hint


@pytest.mark.parametrize("done", ["", "the switch is made"])
def test_a_move_does_not_promise_to_go_on_with_another_server(done, monkeypatch):
    """Its error is that of a migration, which resumes on a promoted replica."""
    monkeypatch.setattr(MoveRun, "done_hint", done)
    monkeypatch.setattr(Run, "cause_of", lambda _run, error: error)
    error = another_server("db1:3306", found="b", wanted="a")
    cause = MoveRun.cause_of(object.__new__(MoveRun), error)
    assert cause is error
    assert "same command" not in error.hint
    assert ("start again" in error.hint) == (not done)

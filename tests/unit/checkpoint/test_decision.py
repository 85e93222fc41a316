"""A run starts afresh only on proof that there is nothing to resume (R14, R17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume, Wanted, decide
from spirit_py.checkpoint.earlier_run import (
    Found,
    ReverseFound,
    ReverseState,
    TableFound,
    was_swapped,
)
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    OldTableRecord,
    Pointer,
    TableProgress,
    UncopiedRange,
)
from spirit_py.config import SessionModes, SwapChoices

PROGRESS = TableProgress(
    schema="shop",
    table="t",
    source_shape="before",
    target_shape="after",
    uncopied=(UncopiedRange(lower=("7",)),),
    rows_copied=7,
)
RECORD = CheckpointRecord(
    statement="ALTER", tables=(PROGRESS,), server_uuid="u", phase="copy", position="somewhere"
)
TABLE = TableFound(
    schema="shop",
    table="t",
    source_shape="before",
    new_shape="after",
    ours=True,
    new_is_ours=True,
)
AFTER = replace(
    TABLE,
    source_shape="after",
    new_shape="",
    old_shape="before",
    changed_here=True,
    new_is_ours=False,
    old_is_ours=True,
)
FOUND = Found(record=RECORD, age=90.0, server_uuid="u", tables=(TABLE,))
WANTED = Wanted(statement="ALTER", max_age=3600.0)


def found(**changes: Any) -> Found:
    """Return what an interrupted migration leaves, with something else about it."""
    return replace(FOUND, **changes)


def test_an_interrupted_migration_is_resumed():
    """Everything fits: it resumes, and says from where."""
    decision = decide(FOUND, WANTED)
    assert decision == Resume(
        record=RECORD, reason="stopped in the copy phase, 1m30s ago; 7 rows are copied"
    )


def test_the_first_run_begins_without_a_message():
    """There is no checkpoint and no new table: nothing to report."""
    assert decide(Found(server_uuid="u", tables=(replace(TABLE, new_shape="", ours=False),)),
                  WANTED) == Afresh()  # fmt: skip


@pytest.mark.parametrize(
    ("begun", "given", "refused"),
    [
        ({"archive_to": "/a"}, {}, "does not say where to"),
        ({"archive_to": "/a"}, {"archive_to": "/b"}, ""),
        ({"drop_old_after": 60.0}, {}, "does not say for how long"),
        ({"drop_old_after": 60.0}, {"drop_old_after": 5.0}, ""),
        ({"keep_old_current": 60.0}, {}, "to keep the old table up to date"),
        ({"keep_old_current": 60.0}, {"keep_old_current": 5.0}, ""),
    ],
)
@pytest.mark.parametrize("table", [TABLE, AFTER])
def test_what_becomes_of_the_old_table_is_asked_for(begun, given, refused, table):
    """Each plan says so, too: resumed without it, the run would drop what is left out."""
    there = found(record=replace(RECORD, choices=SwapChoices(**begun)), tables=(table,))
    decision = decide(there, replace(WANTED, choices=SwapChoices(**given)))
    assert isinstance(decision, Refuse if refused else Resume)
    assert refused in decision.reason


@pytest.mark.parametrize(
    ("changes", "given", "asked"),
    [
        ({}, {}, True),
        ({}, {"defer_cutover": True}, False),
        # The operator has dropped it, or the run waits for it.
        ({"record": {"sentinel": True}}, {}, False),
        ({"tables": (AFTER,)}, {}, False),
    ],
)
def test_a_swap_that_was_to_wait_is_not_made_unasked(changes, given, asked):
    """A run that was killed before its sentinel was there would swap at once."""
    noted = {"choices": SwapChoices(defer_cutover=True), **changes.get("record", {})}
    seen = found(**{**changes, "record": replace(RECORD, **noted)})
    decision = decide(seen, replace(WANTED, choices=SwapChoices(**given)))
    assert isinstance(decision, Refuse if asked else Resume)
    assert ("to wait for the operator" in decision.reason) is asked


@pytest.mark.parametrize(
    ("table", "given", "asked"),
    [(TABLE, "", True), (TABLE, "00:00-24:00", False), (AFTER, "", False)],
)
def test_a_migration_of_the_night_does_not_go_on_at_noon_unasked(table, given, asked):
    """Any time is named for that; after the swap nothing of it is left to wait."""
    noted = replace(RECORD, choices=SwapChoices(allow="22:00-06:00"))
    wanted = replace(WANTED, choices=SwapChoices(allow=given))
    decision = decide(found(record=noted, tables=(table,)), wanted)
    assert isinstance(decision, Refuse if asked else Resume)
    assert ("--allow 22:00-06:00" in getattr(decision, "hint", "")) is asked


def test_a_way_back_that_is_noted_is_not_made_again():
    """The old table follows no more, and only the time for which it stays is asked for."""
    choices = SwapChoices(keep_old_current=60.0, drop_old_after=600.0)
    noted = ReverseFound(state=ReverseState.NOTED, names="shop.t")
    after = found(record=replace(RECORD, choices=choices), reverse=noted, tables=(AFTER,))
    wanted = replace(WANTED, keeps_current=False, choices=replace(choices, keep_old_current=0.0))
    assert isinstance(decide(after, wanted), Resume)


def test_a_migration_that_is_given_up_takes_no_other_one_with_it():
    """A table of it has one of its own since, which only another version can read."""
    changed = replace(TABLE, table="u", new_shape="else")
    record = replace(RECORD, tables=(PROGRESS, replace(PROGRESS, table="u")))
    both = found(record=record, tables=(TABLE, changed))
    assert isinstance(decide(both, WANTED), GiveUp)
    decision = decide(replace(both, unread=(("shop", "u"),)), WANTED)
    assert isinstance(decision, Refuse)
    assert "another migration of a table has begun since" in decision.reason
    assert "the version of spirit-py" in decision.hint


def test_nothing_is_asked_about_an_old_table_that_is_gone_or_back():
    """No time is asked for where the operator has dropped it, or a revert was made."""
    choices = SwapChoices(drop_old_after=60.0)
    wanted = replace(WANTED, choices=SwapChoices())
    record = replace(RECORD, choices=choices)
    gone = replace(AFTER, old_shape="", old_is_ours=False)
    assert isinstance(decide(found(record=record, tables=(gone,)), wanted), Resume)
    back = ReverseFound(state=ReverseState.REVERTED, names="shop.t")
    assert isinstance(decide(found(record=record, reverse=back), wanted), Resume)
    named = replace(wanted, no_grace=True)
    assert isinstance(decide(found(record=record, tables=(AFTER,)), named), Resume)


def test_status_takes_the_record_of_any_statement():
    """``spirit-py status`` does not know the statement."""
    assert isinstance(decide(FOUND, replace(WANTED, statement=None)), Resume)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"record": None, "unreadable": "not JSON"}, "cannot be read: not JSON"),
        ({"record": None}, "its checkpoint is gone"),
        ({"record": Pointer(home=("shop", "a"))}, "with shop.a"),
        ({"record": replace(RECORD, statement="OTHER")}, "another statement: OTHER"),
        ({"record": replace(RECORD, position="")}, "before the copy began"),
        ({"age": 3601.0}, "1h00m old, more than --checkpoint-max-age allows (1h00m"),
        ({"tables": (replace(TABLE, new_shape=""),)}, "_t_new is gone"),
        (
            {"tables": (replace(TABLE, taken_over=True, new_shape="of another"),)},
            "another migration of shop.t was begun since",
        ),
        ({"unreachable": "it was purged"}, "cannot go on where it stopped: it was purged"),
    ],
)
def test_a_proof_that_nothing_can_be_resumed_begins_afresh(changes, reason):
    """Each of them alone is enough, and is the reason that is reported."""
    decision = decide(found(**changes), WANTED)
    assert isinstance(decision, Afresh)
    assert reason in decision.reason


POINTED = {"record": Pointer(home=("shop", "a")), "elsewhere": RECORD}


@pytest.mark.parametrize(
    ("changes", "instead"),
    [
        ({"record": None, "unreadable": "it has format 99"}, "the version of spirit-py"),
        ({"record": None}, "the version of spirit-py"),
        (POINTED, "the command that it was begun with (ALTER)"),
        ({"record": replace(RECORD, statement="OTHER")}, "begun with (OTHER)"),
        (
            {"record": replace(RECORD, statement="OTHER"), "server_uuid": "x", "unreachable": "no"},
            "begun with (OTHER)",
        ),
        ({"age": 3601.0}, "a longer --checkpoint-max-age"),
    ],
)
def test_copied_rows_are_not_dropped_unasked_where_something_could_carry_on(changes, instead):
    """The operator may want to: then the decision says so, and what would resume."""
    decision = decide(found(**changes), WANTED)
    assert isinstance(decision, Afresh)
    assert decision.throws_away
    assert instead in decision.instead


MOVE = replace(RECORD, statement="MOVE TO an-uuid; ALTER")


@pytest.mark.parametrize(
    "changes",
    [
        {"record": MOVE},
        # Its new table is on another server.
        {"record": MOVE, "tables": (replace(TABLE, new_shape=""),)},
        {"record": replace(MOVE, position=""), "age": 1e9},
        {"record": Pointer(home=("shop", "a")), "elsewhere": MOVE},
    ],
)
def test_a_move_that_has_not_ended_is_kept(changes):
    """Its record alone leads to what is on the other servers; another command does not drop it."""
    decision = decide(found(**changes), WANTED)
    assert isinstance(decision, Refuse), decision
    assert "a move of shop.t has not ended (MOVE TO an-uuid; ALTER)" in decision.reason
    assert "spirit-py move" in decision.hint
    assert "spirit-py cleanup --database shop --table t" in decision.hint


def test_a_move_that_brings_the_table_is_kept():
    """Its record is on another server, and what proves the table to it is here."""
    brought = replace(TABLE, new_shape="", brought_from=("db0:3306",))
    decision = decide(found(record=None, unreadable="no row", tables=(brought,)), WANTED)
    assert isinstance(decision, Refuse), decision
    assert "a move brings shop.t here from db0:3306, and has not ended" in decision.reason
    assert "spirit-py cleanup --database shop --table t" in decision.hint


def test_a_move_that_is_done_hinders_nothing():
    """The table that it put out of the way is gone: another one may have the name."""
    done = OldTableRecord(swapped_at=1.0, finished=True)
    gone = replace(TABLE, new_shape="", old_table=done)
    assert decide(found(record=MOVE, tables=(gone,)), WANTED) == Afresh()


NOTHING_COPIED = replace(RECORD, tables=(replace(PROGRESS, rows_copied=0),))
GONE = (replace(TABLE, new_shape=""),)


@pytest.mark.parametrize(
    "changes",
    [
        {"record": None, "tables": GONE},
        {"record": None, "unreadable": "not JSON", "tables": GONE},
        {"record": Pointer(home=("shop", "a"))},
        {**POINTED, "tables": GONE},
        {"record": replace(NOTHING_COPIED, statement="OTHER")},
        {"record": replace(RECORD, statement="OTHER", position="")},
        {"record": replace(RECORD, statement="OTHER"), "unreachable": "it was purged"},
        {"record": replace(RECORD, statement="OTHER"), "tables": (AFTER,)},
        {"record": NOTHING_COPIED, "age": 3601.0},
        {"age": 3601.0, "unreachable": "it was purged"},
        {"unreachable": "it was purged"},
        {"tables": GONE},
    ],
)
def test_nobody_is_asked_about_what_nothing_can_carry_on_with(changes):
    """Nothing is copied, or the tables or the binlog of it are gone: a new start loses nothing."""
    decision = decide(found(**changes), WANTED)
    assert isinstance(decision, Afresh)
    assert not decision.throws_away


@pytest.mark.parametrize(
    "changes", [{}, {"record": None, "unreadable": "x"}, {"record": Pointer(home=("shop", "a"))}]
)
@pytest.mark.parametrize("table", [TABLE, AFTER])
def test_nothing_begins_over_notes_that_cannot_be_read(changes, table):
    """Whatever can be read besides: nothing proves whose the tables are, or how long they stay."""
    unproven = replace(table, unreadable="it has format 99", new_is_ours=False)
    decision = decide(found(tables=(unproven,), **changes), WANTED)
    assert isinstance(decision, Refuse)
    assert "what an earlier run noted of shop.t cannot be read: it has format 99" in decision.reason
    assert "the version of spirit-py that wrote it" in decision.hint
    assert "shop._t_chkpnt last" in decision.hint


@pytest.mark.parametrize("changes", [{"unreadable": "it has format 99"}, {}])
def test_an_old_table_beside_an_unreadable_checkpoint_is_kept(changes):
    """The swap may have been done: only the operator can tell, and nothing is dropped."""
    after = replace(TABLE, source_shape="after", new_shape="", old_shape="before")
    decision = decide(found(record=None, tables=(after,), **changes), WANTED)
    assert isinstance(decision, Refuse)
    assert "shop._t_old exists: the swap may have been done" in decision.reason
    assert "only copy" in decision.reason
    assert "cleanup" in decision.hint


def test_what_may_be_made_once_only_waits_for_somebody_who_looks():
    """Without a record nothing shows whether a killed run has made it; a copy has not."""
    once = replace(WANTED, once=True)
    for changes in ({"record": None, "unreadable": "it has format 99"}, {"record": None}):
        decision = decide(found(tables=GONE, **changes), once)
        assert isinstance(decision, Refuse)
        assert "may not be made twice" in decision.reason
        assert "spirit-py cleanup --database shop --table t" in decision.hint
        assert isinstance(decide(found(**changes), once), Afresh)
    assert isinstance(decide(found(tables=GONE), once), Afresh)


def test_a_fresh_start_names_the_record_that_it_abandons():
    """Something may be left beside the other tables of that record."""
    decision = decide(FOUND, replace(WANTED, statement="OTHER"))
    assert isinstance(decision, Afresh)
    assert decision.abandoned == RECORD
    gone = decide(found(unreachable="it was purged"), WANTED)
    assert isinstance(gone, Afresh)
    assert gone.abandoned == RECORD


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tables": (replace(TABLE, source_shape="else"),)}, "changed the definition of shop.t"),
        ({"tables": (replace(TABLE, new_shape="else"),)}, "changed the definition of _t_new"),
    ],
)
def test_a_changed_definition_gives_the_migration_up(changes, reason):
    """It stops, drops its tables, and leaves the source alone (R14)."""
    decision = decide(found(**changes), WANTED)
    assert isinstance(decision, GiveUp)
    assert reason in decision.reason
    assert "starts from the beginning" in decision.hint


def test_a_table_that_is_gone_was_not_changed():
    """Status shows it: a run of the command finds no table before it looks here."""
    decision = decide(found(tables=(replace(TABLE, source_shape=""),)), WANTED)
    assert isinstance(decision, Refuse)
    assert "shop.t is gone: another session dropped or renamed it" in decision.reason
    assert "spirit-py cleanup drops what is left" in decision.hint


@pytest.mark.parametrize(("then", "now"), [("8.0.27", "8.0.36"), ("9.7", "9.7")])
def test_a_definition_that_another_version_shows_is_not_given_up(then, now):
    """R14: the upgrade may show it in another way; the copy stays until the operator has looked."""
    changed = found(
        record=replace(RECORD, mysql=then),
        mysql=now,
        tables=(replace(TABLE, source_shape="other"),),
    )
    decision = decide(changed, WANTED)
    assert isinstance(decision, GiveUp if then == now else Refuse)
    assert ("MySQL 8.0.36" in decision.reason) == (then != now)
    assert ("before it was 8.0.27" in decision.reason) == (then != now)


def test_another_server_is_refused_whatever_its_tables_show():
    """What another server shows of the tables says nothing about this migration."""
    decision = decide(found(server_uuid="x", age=9e9, tables=(), unreachable="gone"), WANTED)
    assert isinstance(decision, Refuse)
    assert "another server, such as a replica or a clone" in decision.reason
    nowhere = replace(RECORD, position="")
    assert isinstance(decide(found(server_uuid="x", record=nowhere), WANTED), Refuse)


def test_another_server_does_not_call_for_a_second_change_where_the_first_is_done():
    """It may lack a revert that the first one has: nothing is dropped, and nothing begun again."""
    seen = found(server_uuid="x", unreachable="it was purged", tables=(AFTER,))
    decision = decide(seen, WANTED)
    assert isinstance(decision, Refuse)
    assert "start again" not in decision.hint
    assert "the change is done by what the tables show here" in decision.hint
    before = decide(replace(seen, tables=(TABLE,)), WANTED)
    assert isinstance(before, Refuse)
    assert before.hint.endswith("with spirit-py cleanup and start again")


def test_another_server_that_has_everything_carries_on_and_compares_anew():
    """Its GTIDs prove it; what was compared on the first server does not count on this one."""
    compared = replace(
        RECORD, tables=(replace(PROGRESS, checked_up_to=("5",)),), settled_at="there"
    )
    decision = decide(found(server_uuid="x", record=compared), WANTED)
    assert isinstance(decision, Resume)
    assert decision.record == RECORD
    assert "this is another server, x, which has all of it" in decision.reason


def test_after_the_swap_only_the_cleanup_is_left():
    """Then neither the age, nor the binlog, nor the definitions matter."""
    decision = decide(found(age=9e9, unreachable="purged", tables=(AFTER,)), WANTED)
    assert decision == Resume(record=RECORD, reason="the swap was done already", cleanup=True)


KEPT = ReverseFound(state=ReverseState.KEPT, names="shop.t", until="2030-01-01")
LOST = ReverseFound(state=ReverseState.LOST, names="shop.t", reason="it broke")
UNREADABLE = ReverseFound(state=ReverseState.UNREADABLE, names="shop.t", reason="it cannot be read")
REVERTED = ReverseFound(state=ReverseState.REVERTED, names="shop.t", undone="shop._t_undone")


@pytest.mark.parametrize(
    ("reverse", "reason"),
    [
        (KEPT, "the swap was done already; reverse replication of shop.t is kept until 2030-01-01"),
        (LOST, "reverse replication of shop.t is lost: it broke"),
        (REVERTED, "a revert has brought the old definition of shop.t back"),
    ],
)
def test_after_reverse_replication_the_same_command_never_begins_anew(reverse, reason):
    """Neither while it is kept, nor when it is lost, nor after a revert."""
    there = replace(TABLE if reverse is REVERTED else AFTER, new_shape="")
    decision = decide(found(tables=(there,), reverse=reverse, age=9e9), WANTED)
    assert isinstance(decision, Resume)
    assert decision.cleanup
    assert decision.reason.startswith(reason)


def test_the_way_back_is_not_given_up_unasked():
    """The same command without ``--keep-old-current`` would drop the old table: it is refused."""
    seen = found(tables=(AFTER,), reverse=KEPT)
    decision = decide(seen, replace(WANTED, keeps_current=False))
    assert isinstance(decision, Refuse)
    assert "shop.t is kept until 2030-01-01; without --keep-old-current" in decision.reason
    for way in ("add --keep-old-current", "spirit-py revert", "spirit-py cleanup"):
        assert way in decision.hint


def test_what_is_over_is_not_promised_to_stay():
    """The same command drops the old table, with the option too: only a revert swaps back."""
    over = replace(KEPT, over=True)
    seen = found(tables=(AFTER,), reverse=over)
    refused = decide(seen, replace(WANTED, keeps_current=False))
    assert isinstance(refused, Refuse)
    assert "has passed at 2030-01-01" in refused.reason
    assert "to keep that possible" not in refused.hint
    assert "with --keep-old-current it drops it, too; swap back with spirit-py revert" in (
        refused.hint
    )
    ended = decide(seen, WANTED)
    assert isinstance(ended, Resume)
    assert ended.reason.endswith("has passed at 2030-01-01, and ends")


def test_reverse_replication_that_cannot_be_read_is_left_alone():
    """A process of another version may keep it: nothing is dropped by the same command either."""
    decision = decide(found(tables=(AFTER,), reverse=UNREADABLE), WANTED)
    assert isinstance(decision, Refuse)
    assert decision.reason == "it cannot be read"
    assert "the version of spirit-py that wrote it" in decision.hint


@pytest.mark.parametrize("reverse", [KEPT, LOST, REVERTED, UNREADABLE])
@pytest.mark.parametrize(
    "changes",
    [
        {"record": replace(RECORD, statement="OTHER")},
        {"record": Pointer(home=("shop", "a"))},
        {"record": None},
        {"record": None, "unreadable": "not JSON"},
    ],
)
def test_another_migration_never_begins_over_reverse_replication(reverse, changes):
    """What it needs is kept, and no hint says to drop it."""
    decision = decide(found(tables=(AFTER,), reverse=reverse, **changes), WANTED)
    assert isinstance(decision, Refuse)
    assert decision.reason == str(reverse)
    assert "spirit-py" in decision.hint
    assert "DROP" not in decision.hint


def test_tables_from_neither_before_nor_after_the_swap_are_kept():
    """Nothing is dropped, and the operator must look."""
    both = replace(TABLE, old_shape="before")
    assert isinstance(decide(found(tables=(both,)), WANTED), Refuse)


def test_a_new_table_without_a_checkpoint_is_left_to_preflight():
    """A check refuses it, together with everything else that is found."""
    decision = decide(found(record=None, tables=(replace(TABLE, ours=False),)), WANTED)
    assert decision == Afresh()


def test_one_table_that_cannot_be_resumed_ends_the_resume_of_all():
    """The whole migration begins afresh, or is given up."""
    second = replace(PROGRESS, table="s")
    record = replace(RECORD, tables=(PROGRESS, second))
    there = replace(TABLE, table="s")
    assert isinstance(decide(found(record=record, tables=(TABLE, there)), WANTED), Resume)
    gone = decide(found(record=record, tables=(TABLE, replace(there, new_shape=""))), WANTED)
    assert isinstance(gone, Afresh)
    assert "shop._s_new" in gone.reason
    changed = found(record=record, tables=(TABLE, replace(there, source_shape="else")))
    assert isinstance(decide(changed, WANTED), GiveUp)


@pytest.mark.parametrize(
    ("source", "new", "old", "ours", "swapped"),
    [
        ("before", "after", "", "n", False),
        ("after", "", "before", "so", True),
        ("after", "", "", "s", True),
        ("before", "", "", "", False),
        ("altered later", "", "before", "so", True),
        ("altered later", "", "", "s", None),
        ("altered later", "", "", "", False),
        ("before", "after", "before", "n", None),
        ("before", "after", "before", "no", None),
        ("after", "", "another table", "s", None),
        ("", "", "before", "o", None),
        # Somebody's backup of the table, made by CREATE TABLE ... LIKE.
        ("before", "", "before", "", None),
        # The same behind an ALTER that somebody made natively.
        ("after", "", "before", "", None),
        ("after", "", "", "", None),
        ("after", "", "before", "s", None),
        ("after", "", "before", "o", None),
    ],
)
def test_only_tables_that_are_proven_to_be_ours_show_a_swap(source, new, old, ours, swapped):
    """Where the answer to RENAME was lost, the tables' numbers and definitions show it (R24).

    ``ours`` names the tables that are proven: s for the source's name, n for the new, o the old.
    """
    seen = replace(
        TABLE,
        source_shape=source,
        new_shape=new,
        old_shape=old,
        changed_here="s" in ours,
        new_is_ours="n" in ours,
        old_is_ours="o" in ours,
    )
    assert was_swapped([seen], RECORD) is swapped


def test_a_refusal_describes_every_table():
    """The operator learns which of the tables is not what its name says."""
    backup = replace(TABLE, new_shape="", new_is_ours=False, old_shape="before")
    decision = decide(found(tables=(backup,)), WANTED)
    assert isinstance(decision, Refuse)
    assert "_t_new is not there" in decision.reason
    assert "_t_old is not the table from before the swap" in decision.reason
    native = replace(backup, source_shape="after", old_shape="")
    decision = decide(found(tables=(native,)), WANTED)
    assert isinstance(decision, Refuse)
    assert "another session has changed it" in decision.reason


def test_a_new_table_that_another_session_made_is_kept():
    """It has the right name and the right definition, and is not the one that was made."""
    decision = decide(found(tables=(replace(TABLE, new_is_ours=False),)), WANTED)
    assert isinstance(decision, Refuse)
    assert "shop._t_new is not the table that the migration of shop.t made" in decision.reason


def test_before_there_was_a_new_table_there_was_no_swap():
    """A record from before the new table was made is of no swap, whatever else is there."""
    early = replace(RECORD, tables=(replace(PROGRESS, target_shape=""),))
    assert was_swapped([replace(TABLE, new_shape="", old_shape="x")], early) is False


def test_a_swap_to_the_same_definition_is_shown_by_the_numbers():
    """An ALTER that rebuilds the same definition is swapped where the table's number says so."""
    same = replace(RECORD, tables=(replace(PROGRESS, target_shape="before"),))
    rebuilt = replace(TABLE, source_shape="before", new_shape="")
    assert was_swapped([rebuilt], same) is False
    assert was_swapped([replace(rebuilt, old_shape="before", old_is_ours=True)], same) is None
    assert was_swapped([replace(rebuilt, changed_here=True)], same) is True


def test_tables_that_were_swapped_together_must_agree():
    """One RENAME swaps all tables: some swapped and some not proves nothing."""
    second = replace(PROGRESS, table="s")
    record = replace(RECORD, tables=(PROGRESS, second))
    gone = replace(AFTER, table="s", old_shape="", old_is_ours=False)
    assert was_swapped([AFTER, replace(TABLE, table="s")], record) is None
    assert was_swapped([AFTER, gone], record) is True


NOTED = OldTableRecord(swapped_at=1.0, until=3601.0)
LEFT = OldTableRecord(swapped_at=1.0, finished=True)


def test_an_old_table_in_its_grace_is_dropped_by_the_same_command():
    """Whatever has become of the table since: others may change what is in use."""
    for shape, changed in (("after", True), ("since", True), ("since", False)):
        table = replace(AFTER, source_shape=shape, changed_here=changed, old_table=NOTED)
        decision = decide(found(tables=(table,)), WANTED)
        assert isinstance(decision, Resume)
        assert decision.cleanup
        assert "shop._t_old is kept until 1970-01-01 01:00:01 UTC" in decision.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"record": replace(RECORD, statement="OTHER")},
        {"record": None, "unreadable": "not JSON"},
        {"record": Pointer(home=("shop", "a"))},
    ],
)
def test_another_statement_waits_for_the_old_table(changes):
    """Its name is needed, and its proof is in the checkpoint table: nothing is dropped."""
    table = replace(AFTER, old_table=NOTED)
    decision = decide(found(tables=(table,), **changes), WANTED)
    assert isinstance(decision, Refuse)
    assert "its old table is there: shop._t_old is kept until 1970" in decision.reason
    assert "cleanup" in decision.hint


def test_an_old_table_that_was_left_to_the_operator_is_not_dropped_by_a_run():
    """The migration is done, also for its own command."""
    decision = decide(found(tables=(replace(AFTER, old_table=LEFT),)), WANTED)
    assert isinstance(decision, Refuse)
    assert "kept until spirit-py cleanup --drop-old drops it" in decision.reason


def test_a_done_migration_whose_old_table_is_gone_is_over():
    """The same statement may be given again, as for ENGINE=InnoDB; there is nothing to report."""
    table = replace(AFTER, old_shape="", old_is_ours=False, old_table=LEFT)
    assert decide(found(tables=(table,)), WANTED) == Afresh()


TWO = replace(RECORD, tables=(PROGRESS, replace(PROGRESS, table="u")))
U = replace(TABLE, table="u")
#: After another migration of it alone, begun since, has swapped it.
U_TAKEN = replace(AFTER, table="u", source_shape="of another", taken_over=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tables": (TABLE, replace(U_TAKEN, old_table=NOTED))}, "shop._u_old is kept until 1970"),
        ({"tables": (TABLE, replace(U_TAKEN, old_table=LEFT))}, "shop._u_old is kept until spirit"),
        ({"reverse": KEPT}, str(KEPT)),
        ({"reverse": LOST}, str(LOST)),
        ({"reverse": REVERTED}, str(REVERTED)),
    ],
)
@pytest.mark.parametrize("statement", ["ALTER", None])
def test_what_another_migration_of_a_table_has_left_is_no_swap_of_this_one(
    changes, reason, statement
):
    """Its notes are beside one of two tables: neither is changed by this command, and all stay."""
    seen = found(record=TWO, **{"tables": (TABLE, U_TAKEN), **changes})
    decision = decide(seen, replace(WANTED, statement=statement))
    assert isinstance(decision, Refuse), decision
    assert reason in decision.reason


@pytest.mark.parametrize("tables", [(TABLE,), (AFTER,)], ids=["before the swap", "after it"])
def test_a_migration_of_other_modes_is_not_carried_on(tables):
    """The new table was made under them; the way to go on names the options."""
    begun = replace(RECORD, modes=SessionModes(allow_zero_dates=True))
    decision = decide(
        found(record=begun, tables=tables), replace(WANTED, modes=SessionModes(sql_mode="ANSI"))
    )
    assert isinstance(decision, Refuse)
    assert "begun with --allow-zero-dates" in decision.reason
    assert "add --allow-zero-dates" in decision.hint
    assert isinstance(decide(found(record=begun, tables=tables), WANTED), Resume)


OF_U = replace(RECORD, statement="OF U", tables=(replace(PROGRESS, table="u", rows_copied=9),))
U_BEGUN = replace(U, taken_over=True)


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        # The same command again, after another migration of u alone has begun.
        ({"record": TWO, "tables": (TABLE, U_BEGUN)}, (OF_U,)),
        # A command for both, after each had a migration of its own.
        ({"record": replace(RECORD, statement="OF T"), "tables": (TABLE, U)}, None),
        ({"record": replace(RECORD, statement="OF T", position=""), "tables": (TABLE, U)}, (OF_U,)),
        # Whether the binlog of another server has its position is not seen here.
        ({"record": TWO, "tables": (TABLE, U_BEGUN), "unreachable": "it was purged"}, (OF_U,)),
    ],
)
def test_rows_of_another_migration_of_one_of_the_tables_do_not_go_unasked(changes, lost):
    """All records beside the tables are looked at, and the question names each."""
    decision = decide(found(others=(OF_U,), **changes), WANTED)
    assert isinstance(decision, Afresh)
    assert decision.throws_away
    assert decision.lost == (lost or (changes["record"], OF_U))
    assert "begun with (OF U)" in decision.instead


def test_another_record_without_rows_is_not_asked_about():
    """Its new table is gone: nothing can resume it."""
    gone = replace(U_BEGUN, new_shape="", new_is_ours=False)
    decision = decide(found(record=TWO, tables=(TABLE, gone), others=(OF_U,)), WANTED)
    assert isinstance(decision, Afresh)
    assert not decision.throws_away
    assert decision.lost == ()


def test_a_record_that_cannot_be_read_beside_another_table_is_asked_about():
    """It hinders no resume of what can be read, and a fresh start drops its new table."""
    seen = found(record=TWO, tables=(TABLE, U), unread=(("shop", "u"),))
    assert isinstance(decide(seen, WANTED), Resume)
    decision = decide(replace(seen, unreachable="it was purged"), WANTED)
    assert isinstance(decision, Afresh)
    assert decision.throws_away
    assert "the version of spirit-py" in decision.instead


@pytest.mark.parametrize("statement", ["ALTER", "OTHER"])
def test_a_move_of_another_table_is_kept(statement):
    """Beside the first table there is another record, of this command or not."""
    move = replace(OF_U, statement="MOVE TO an-uuid; ALTER")
    seen = found(record=TWO, tables=(TABLE, replace(U_BEGUN, new_shape="")), others=(move,))
    decision = decide(seen, replace(WANTED, statement=statement))
    assert isinstance(decision, Refuse)
    assert "a move of shop.u has not ended" in decision.reason
    assert "--table u" in decision.hint


def test_a_done_migration_of_one_table_hides_no_copy_of_another():
    """The old table that u's migration left is gone; t has rows of a migration of its own."""
    done = replace(U, new_shape="", new_is_ours=False, old_table=LEFT)
    decision = decide(found(record=replace(RECORD, statement="OF T"), tables=(TABLE, done)), WANTED)
    assert isinstance(decision, Afresh)
    assert decision.throws_away
    assert "another statement: OF T" in decision.reason

"""How the process that runs reverse replication ends, at a signal and after a revert."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checkpoint.live import Request
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.checkpoint.record import FOLLOWING, REVERTING, ReverseRecord, ReverseTable
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    AnotherServer,
    Interrupted,
    LeftAfterChange,
    MigrationFailure,
    Refusal,
    SchemaChanged,
    ServerFault,
)
from spirit_py.events.event import untold
from spirit_py.migration.control.subject import Verb
from spirit_py.migration.reverse import swap_back
from spirit_py.migration.reverse.keeper import Keeper, ReverseReplicationLost
from spirit_py.migration.reverse.phase import WayBack
from spirit_py.migration.reverse.revert import RevertPace, RevertVerbs
from spirit_py.migration.reverse.swap_back import KeptRecord, SwapBack
from spirit_py.threads import StopSwitch
from tests.kits.waiting import until

READ_ONLY = 1290
RECORD = ReverseRecord(
    tables=(ReverseTable(schema="shop", table="t", old="_t_old", undone="_t_undone"),),
    position="",
    until=0.0,
)


class _Late(StopSwitch):
    """A switch whose request has not reached the switches linked to it yet."""

    def linked(self) -> StopSwitch:
        return StopSwitch()


def test_a_signal_during_a_revert_is_not_answered_as_its_failure(monkeypatch):
    """The revert that asked takes the place of a process that ends: it gets no answer."""
    process: Any = SimpleNamespace(stop=_Late(), tell=untold)
    keeper = Keeper(process, RECORD)
    saved: list[str] = []
    asked = keeper.ask(skip_drop=False)
    monkeypatch.setattr(keeper._record, "save", saved.append)
    feed = SimpleNamespace(position=lambda: "here")
    same = SimpleNamespace(take_over=lambda: False)
    monkeypatch.setattr(keeper, "_pairs", [SimpleNamespace(feed=feed, tables=same)])
    process.stop.request(Interrupted(signal.SIGTERM, hint="run it again"))
    with pytest.raises(Interrupted) as raised:
        keeper._answer_failure(asked, ServerFault(2013, "lost", where="feed"))
    assert "spirit-py revert still swaps back" in raised.value.hint
    assert (saved, asked.ended) == (["here"], False)


def test_a_lost_lock_while_old_tables_follow_says_that_the_change_is_done(monkeypatch):
    """Once, however often it is looked at."""
    process: Any = SimpleNamespace(stop=StopSwitch(), tell=untold)
    keeper = Keeper(process, RECORD)
    lost = MigrationFailure("lost", hint="run it again", error_code=ErrorCode.RUN_LOCK_LOST)
    process.stop.request(lost)
    for _ in range(2):
        with pytest.raises(MigrationFailure, match="lost"):
            keeper._check()
    assert lost.hint.startswith("run it again; the change is done; spirit-py revert still")
    assert lost.hint.count("is done") == 1


def test_nothing_is_held_back_where_the_tables_were_swapped_back_before():
    """A revert that only drops what another process has left says so."""
    process: Any = SimpleNamespace(stop=StopSwitch(), tell=untold, give_up=lambda _: None)
    session: Any = None
    pace = RevertPace()
    verbs = RevertVerbs(process, Keeper(process, RECORD, back=True), pace)
    with pytest.raises(Refusal, match="the swap back is made"):
        verbs.carry_out(session, Asked(number=1, request=Request.of(Verb.PAUSE, {})))
    assert pace.paused == ""
    said = verbs.carry_out(session, Asked(number=2, request=Request.of(Verb.ABORT, {}))).said
    assert "the old definition is in place" in said


class _Quick(StopSwitch):
    """A switch that is waited for no time."""

    def wait(self, seconds: float) -> bool:
        return super().wait(min(seconds, 0.001))


@pytest.mark.parametrize("code", [READ_ONLY, 2013])
def test_what_fails_for_a_moment_after_a_revert_leaves_nothing(monkeypatch, code):
    """The last drop is tried again, in a new session: the revert says that it is done."""
    opened: list[Any] = []
    warned: list[str] = []

    def drop(_table: CheckpointTable, session: object) -> None:
        if opened.index(session) < 2:
            raise ServerFault(code, "not now", where="drop")
        dropped.append(session)

    def session(_role: str, **_: object) -> object:
        opened.append(SimpleNamespace(close=lambda: None))
        return opened[-1]

    dropped: list[object] = []
    monkeypatch.setattr(CheckpointTable, "drop", drop)
    monkeypatch.setattr(CheckpointTable, "is_ours", lambda *_: False)
    monkeypatch.setattr(RequestQueue, "drop", lambda *_: None)
    process: Any = SimpleNamespace(
        stop=_Quick(),
        tell=untold,
        warn=warned.append,
        session=session,
        await_readers=lambda: None,
    )
    Keeper(process, RECORD)._record.forget(keep=False)
    assert (dropped, warned) == (opened[-1:], [])


def _failing_once(code: int) -> Any:
    """Return a process in whose first session nothing succeeds."""
    opened: list[Any] = []

    def session(_role: str, **_: object) -> object:
        def query(*_: object) -> list[tuple[float]]:
            if opened[0] is found:
                raise ServerFault(code, "not now", where="keep")
            return [(5.0,)]

        found = SimpleNamespace(close=lambda: None, query=query)
        opened.append(found)
        return found

    return SimpleNamespace(stop=_Quick(), session=session, warn=untold)


PASSING = pytest.mark.parametrize("code", [1040, 1203, READ_ONLY, 2013])


@PASSING
def test_a_fault_that_passes_right_after_the_swap_does_not_end_the_way_back(code):
    """How long the old tables follow is asked again, in a new session."""
    kept = KeptRecord(_failing_once(code), replace(RECORD, until=65.0))
    assert kept.seconds_left() == 60.0


@PASSING
def test_a_fault_that_passes_at_the_end_of_its_time_does_not_fail_the_way_back(monkeypatch, code):
    """The place is noted in a new session: days of following are not lost."""
    written = _keeping(monkeypatch)
    KeptRecord(_failing_once(code), replace(RECORD, until=65.0)).end("there")
    assert [(one.position, one.until) for one in written] == [("there", 0.0)]


@PASSING
def test_a_position_that_cannot_be_written_for_a_moment_is_written_later(monkeypatch, code):
    """A server is read-only in a drill, and takes writes again."""
    written = _keeping(monkeypatch)
    monkeypatch.setattr(swap_back, "WRITE_SECONDS", 0.0)
    monkeypatch.setattr(swap_back, "require_definitions", lambda *_: None)
    kept = KeptRecord(_failing_once(code), RECORD)
    kept.keep_up(lambda: "here")
    assert written == []
    kept.keep_up(lambda: "there")
    assert [one.position for one in written] == ["there"]


def _keeping(monkeypatch: pytest.MonkeyPatch) -> list[ReverseRecord]:
    """Have a checkpoint table that is asked in a session; return what is written to it."""
    written: list[ReverseRecord] = []

    def read(_table: object, session: Any, _kind: object) -> ReverseRecord:
        session.query("SELECT")
        return written[-1] if written else RECORD

    monkeypatch.setattr(CheckpointTable, "read", read)
    monkeypatch.setattr(CheckpointTable, "write", lambda _, __, record: written.append(record))
    return written


def test_the_checkpoint_that_has_the_record_goes_last_after_a_revert(monkeypatch):
    """By its record a later process knows of the other tables, in whatever order they were."""
    dropped: list[object] = []
    monkeypatch.setattr(swap_back, "drop_checkpoint", lambda _, table: dropped.append(table))
    session = SimpleNamespace(close=lambda: None)
    process: Any = SimpleNamespace(
        stop=StopSwitch(), session=lambda *_, **__: session, await_readers=lambda: None
    )
    (one,) = RECORD.tables
    several = tuple(replace(one, schema=name) for name in ("b", "a", "c"))
    record = replace(RECORD, tables=several)
    Keeper(process, record)._record.forget(keep=False)
    assert dropped == [("c", "t"), ("b", "t"), ("a", "t")]
    assert dropped[-1] == record.home


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ServerFault(2013, "lost", where="feed"), ErrorCode.SERVER_ERROR),
        (ServerFault(1045, "Access denied", where="feed-login"), ErrorCode.ACCESS_DENIED),
        (ServerFault(1142, "INSERT denied", where="apply"), ErrorCode.MISSING_PRIVILEGES),
    ],
)
def test_a_way_back_that_is_still_there_is_not_called_lost(monkeypatch, fault, code):
    """The page of a lost one says that the old table may be dropped."""
    process: Any = SimpleNamespace(stop=StopSwitch(), tell=untold)
    keeper = Keeper(process, RECORD)
    monkeypatch.setattr(keeper._record, "save", lambda _position: None)
    feed = SimpleNamespace(position=lambda: "here")
    same = SimpleNamespace(take_over=lambda: False)
    monkeypatch.setattr(keeper, "_pairs", [SimpleNamespace(feed=feed, tables=same)])
    keeper._stop.request(fault)
    with pytest.raises(MigrationFailure, match="has stopped") as raised:
        keeper._check()
    assert raised.value.error_code is code
    assert "spirit-py revert still swaps back" in raised.value.hint
    assert ("run the same command again" in raised.value.hint) == (code != ErrorCode.SERVER_ERROR)


def test_a_lost_session_fails_no_revert(monkeypatch):
    """All rows are compared then: the record is written in a new session, and the swap goes on."""
    opened: list[Any] = []
    written: list[ReverseRecord] = []

    def session(_role: str, **_: object) -> object:
        opened.append(SimpleNamespace(close=lambda: None))
        return opened[-1]

    def write(_table: CheckpointTable, session: object, record: ReverseRecord) -> None:
        if session is lost:
            raise ServerFault(2013, "lost", where="keep")
        written.append(record)

    monkeypatch.setattr(CheckpointTable, "write", write)
    monkeypatch.setattr(CheckpointTable, "read", lambda *_: (written or [RECORD])[-1])
    lost: object = None
    process: Any = SimpleNamespace(stop=StopSwitch(), session=session)
    # An earlier try was lost, and nothing of that holds up this one.
    kept = Keeper(process, replace(RECORD, reason="a value was lost"))._record
    kept.write(position="first")
    lost = opened[0]
    feed = SimpleNamespace(position=lambda: "here", flushed_often=contextlib.nullcontext)
    pair: Any = SimpleNamespace(feed=feed, stop=_Quick())
    back = SwapBack(process, [pair], kept)
    swapped: list[str] = []
    monkeypatch.setattr(back, "prove", lambda: None)
    monkeypatch.setattr(back, "swap", lambda: swapped.append(kept.record.position))
    back.run(skip_drop=True)
    assert (len(opened), swapped) == (2, ["here"])
    assert [(one.state, one.skip_drop, one.reason) for one in written] == [
        (RECORD.state, False, "a value was lost"),
        (REVERTING, True, ""),
    ]


def test_the_position_is_written_while_a_revert_compares(monkeypatch):
    """A process that is killed then goes on near its end, and not from the swap."""
    written = _keeping(monkeypatch)
    monkeypatch.setattr(swap_back, "WRITE_SECONDS", 0.0)
    monkeypatch.setattr(swap_back, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(swap_back, "require_definitions", lambda *_: None)
    places = iter(range(1000))
    feed = SimpleNamespace(
        position=lambda: f"place {next(places)}", flushed_often=contextlib.nullcontext
    )
    same = SimpleNamespace(take_over=lambda: False)
    pair: Any = SimpleNamespace(feed=feed, tables=same, stop=_Quick())
    session: Any = SimpleNamespace(close=lambda: None, query=lambda *_: [])
    process: Any = SimpleNamespace(stop=_Quick(), session=lambda *_, **__: session)
    back = SwapBack(process, [pair], KeptRecord(process, RECORD))
    monkeypatch.setattr(back, "prove", lambda: until(lambda: len(written) > 2, "two writes"))
    monkeypatch.setattr(back, "swap", lambda: None)
    back.run(skip_drop=False)
    assert [one.position for one in written[:2]] == ["place 0", "place 1"]
    assert {one.state for one in written[:-1]} == {FOLLOWING}
    assert written[-1].state == REVERTING


@pytest.mark.parametrize(("until", "pauses"), [(0.0, True), (65.0, False)])
def test_what_drops_the_old_table_of_a_lost_way_back_is_said(until, pauses):
    """Where the place was only noted a process may wait to drop it, and goes on to do so."""
    hint = ReverseReplicationLost.of(replace(RECORD, until=until), "a value was lost").hint
    assert ("spirit-py ctl pause holds that back" in hint) == pauses
    assert "see what only it holds" in hint


def test_what_ends_the_writing_ends_the_comparison(monkeypatch):
    """Such as DDL by others: the comparison looks at the switch of its feed."""
    changed = SchemaChanged("changed")

    def meet(*_: object) -> None:
        raise changed

    monkeypatch.setattr(swap_back, "_LOOK_SECONDS", 0.001)
    stop = StopSwitch()
    process: Any = SimpleNamespace(stop=stop)
    kept = KeptRecord(process, RECORD)
    monkeypatch.setattr(kept, "keep_up", meet)
    with kept.kept_up(lambda: "here", stop):
        assert stop.wait(60)
    assert stop.reason is changed


@pytest.mark.parametrize("work", ["keep_up", "revert", "asked"])
def test_one_connection_that_meets_another_server_does_not_end_the_way_back(monkeypatch, work):
    """The next process checks whether that server has all transactions; the position is saved."""
    other = AnotherServer("another server answers")
    stop = StopSwitch()
    process: Any = SimpleNamespace(
        stop=stop, tell=untold, follow=untold, unfollow=untold, show=untold, engines=None
    )
    keeper, saved, ended = Keeper(process, RECORD), list[str](), list[str]()
    monkeypatch.setattr(keeper._record, "save", saved.append)
    monkeypatch.setattr(keeper._record, "note_end", ended.append)
    monkeypatch.setattr(keeper._record, "seconds_left", lambda: 60.0)
    monkeypatch.setattr(keeper, "_opened", lambda _: keeper._pairs)
    feed = SimpleNamespace(position=lambda: "here")
    same = SimpleNamespace(take_over=lambda: False)
    monkeypatch.setattr(keeper, "_pairs", [SimpleNamespace(feed=feed, tables=same)])

    def meet(*_: object, **__: object) -> None:
        raise other

    if work == "keep_up":
        monkeypatch.setattr(keeper._record, "keep_up", meet)
        with pytest.raises(AnotherServer):
            keeper.run()
    elif work == "revert":
        monkeypatch.setattr(keeper, "_swap_back", meet)
        with pytest.raises(AnotherServer):
            keeper.revert(skip_drop=False)
    else:
        asked = keeper.ask(skip_drop=False)
        keeper._answer_failure(asked, other)
        assert asked.ended
    assert ended == []
    assert saved == ([] if work == "asked" else ["here"])


@pytest.mark.parametrize("work", ["revert", "asked", "grace"])
def test_a_swap_back_that_is_made_and_not_ended_has_not_failed(monkeypatch, work):
    """The record still says that it was begun, and another process ends it; nothing is dropped."""
    left = LeftAfterChange("not settled", hint="run it again")
    process: Any = SimpleNamespace(
        stop=StopSwitch(), tell=untold, follow=untold, unfollow=untold, keep_with=untold
    )
    process.done_hint = "it is back"
    way_back = WayBack(process, RECORD)
    keeper, written = way_back._keeper, list[object]()
    feed = SimpleNamespace(position=lambda: "here")
    monkeypatch.setattr(keeper, "_pairs", [SimpleNamespace(feed=feed)])
    monkeypatch.setattr(keeper, "_opened", lambda _: keeper._pairs)
    monkeypatch.setattr(keeper, "_drop_undone", written.append)
    monkeypatch.setattr(keeper._record, "seconds_left", lambda: 60.0)
    for name in ("write", "save", "keep_up", "forget"):
        monkeypatch.setattr(keeper._record, name, written.append)

    def made(**_: object) -> None:
        # What the feed met in the tables that were put in place is no change by others.
        keeper._stop.request(SchemaChanged("changed"))
        written.clear()
        raise left

    swap: Any = SimpleNamespace(swapped=True, renaming=False, run=made)
    monkeypatch.setattr(keeper, "_made_swap", lambda: swap)
    asked = keeper.ask(skip_drop=False)
    does: dict[str, Any] = {
        "revert": partial(keeper.revert, skip_drop=False),
        "asked": keeper.run,
        "grace": way_back.taken,
    }
    with pytest.raises(LeftAfterChange, match="not settled") as ended:
        does[work]()
    assert ended.value.hint.startswith("run it again; it is back")
    assert written == []
    assert work == "revert" or asked.answer.hint == ended.value.hint


def test_a_checkpoint_that_leads_to_what_is_not_settled_is_not_dropped(monkeypatch):
    """Its drop is no warning of a command that is done."""
    dropped: list[object] = []
    monkeypatch.setattr(CheckpointTable, "is_ours", lambda *_: True)
    monkeypatch.setattr(CheckpointTable, "has", lambda *_: True)
    monkeypatch.setattr(CheckpointTable, "drop", lambda *_: dropped.append(_))
    session = SimpleNamespace(close=lambda: None)
    process: Any = SimpleNamespace(
        stop=StopSwitch(), session=lambda *_, **__: session, await_readers=lambda: None
    )
    with pytest.raises(LeftAfterChange, match="_t_chkpnt stays"):
        Keeper(process, RECORD)._record.forget(keep=False)
    assert dropped == []

"""What a run says when it leaves its auxiliary tables behind."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    Aborted,
    AbortedForGood,
    AnotherServer,
    Interrupted,
    MigrationFailure,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.migration import auxiliary
from spirit_py.migration.reverse.phase import begin_reverse
from spirit_py.migration.swap import old_tables
from spirit_py.migration.swap.old_tables import DropTurn, drop_swapped_out
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.pace import Unhindered
from spirit_py.threads import StopSwitch
from spirit_py.throttle.latency import Measures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES = (("s", "t"), ("s", "u"))


class Left:
    """A run that ends, on a server where one of the tables may not be dropped."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        stays: str = "",
        kept: str = "",
        ours: bool = True,
        dry_run: bool = False,
    ) -> None:
        self.warnings: list[str] = []
        self.dropped: list[str] = []

        @contextlib.contextmanager
        def session(_role: str) -> Iterator[None]:
            yield

        def drop(
            _session: object, _schema: str, table: str, *, still_deferred: bool, noted: bool
        ) -> str:
            assert not still_deferred
            assert not noted
            if table == stays:
                raise ServerFault(1142, "DROP command denied", where="cleanup")
            self.dropped.append(table)
            return "_t_new stays, for a reason" if table == kept else ""

        patch.setattr(auxiliary, "drop_auxiliary", drop)
        patch.setattr(CheckpointTable, "is_ours", lambda *_: ours)
        self._run: Any = SimpleNamespace(
            may_be_swapped=False,
            state=SimpleNamespace(resumable=False),
            note=lambda _: None,
            config=SimpleNamespace(dry_run=dry_run, connection=SimpleNamespace(unlogged=dry_run)),
            stop=StopSwitch(),
            session=session,
            warn=self.warnings.append,
            await_readers=lambda: None,
        )

    def after(self, error: BaseException | None, *, stopped: bool = False) -> None:
        """End the run with an error, or without; ``stopped``: an operator has asked for that."""
        if stopped:
            assert error is not None
            self._run.stop.request(error)
        auxiliary.leave(self._run, TABLES, type(error), error, None, taken_over=False)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Return what makes such a run."""
    return lambda **given: Left(monkeypatch, **given)


def test_a_refusal_that_leaves_tables_is_a_failure(left: Callable[..., Left]):
    """Exit code 2 says that nothing was written; the words of the refusal stay."""
    run = left(stays="t")
    refusal = Refusal("the disk is full", hint="free it", error_code=ErrorCode.SERVER_ERROR)
    with pytest.raises(MigrationFailure, match="the disk is full") as failed:
        run.after(refusal)
    assert (failed.value.exit_code, failed.value.hint) == (1, "free it")
    assert failed.value.explained_by == (ErrorCode.SERVER_ERROR,)
    assert len(run.warnings) == 1
    assert "_t_new and _t_chkpnt could not be dropped" in run.warnings[0]
    assert run.dropped == ["u"]


def test_a_refusal_whose_tables_are_dropped_stays_one(left: Callable[..., Left]):
    """Nothing is raised in its place."""
    run = left()
    run.after(Refusal("no key"))
    assert run.dropped == ["t", "u"]
    assert not run.warnings


@pytest.mark.parametrize("given", [{"stays": "t"}, {"kept": "t"}])
@pytest.mark.parametrize("dry_run", [False, True])
def test_nobody_is_told_that_nothing_is_left_where_something_is(
    left: Callable[..., Left], given: dict[str, str], dry_run: bool
):
    """Neither after an abort nor after a rehearsal; what is nobody's of ours is no part of that.

    The rehearsal is one on a replica, where cleanup is refused, or would be logged.
    """
    by = "the same command" if dry_run else "spirit-py cleanup"
    said, stays = "nothing is left of it", f"{by} drops what is left"
    asked = Aborted("a", hint=said) if dry_run else AbortedForGood("a", hint=stays)
    left(**given, dry_run=dry_run).after(asked, stopped=True)
    assert stays in asked.hint
    again = AbortedForGood("aborted by a@h", hint=stays)
    left(kept="t", ours=False).after(again, stopped=True)
    assert said in again.hint
    if dry_run:
        with pytest.raises(MigrationFailure, match="is left behind") as failed:
            left(**given, dry_run=True).after(None)
        assert failed.value.exit_code == 1
    left(dry_run=dry_run).after(None)


def test_tables_that_stay_hide_no_other_error(left: Callable[..., Left]):
    """A signal keeps its exit code."""
    run = left(stays="u")
    run.after(Interrupted(15))
    assert len(run.warnings) == 1
    assert run.dropped == ["t"]


def test_a_checkpoint_that_stays_keeps_those_that_lead_to_it(monkeypatch):
    """Of several servers' the first one's goes last: what a later run does begins with it."""
    asked, stopped = [], StopSwitch()

    def drop_checkpoints(run: Any, _tables: object) -> bool:
        asked.append(run.name)
        return run.name != "second"

    def run_on(name: str) -> Any:
        return SimpleNamespace(
            name=name,
            stop=stopped,
            state=SimpleNamespace(swapped_before=False),
            measures=None,
            config=SimpleNamespace(drop_old_after=0.0, targets=(), archive_to=""),
            go_on_to=lambda _: None,
            note=lambda _: None,
        )

    monkeypatch.setattr(old_tables, "_step", lambda *_: False)
    monkeypatch.setattr(old_tables, "_drop", lambda *_: [])
    monkeypatch.setattr(old_tables, "drop_checkpoints", drop_checkpoints)
    runs = [run_on(name) for name in ("first", "second", "third")]
    old_tables.settle_old_tables(runs[0], TABLES, lambda: None, fronts=lambda: runs)
    assert asked == ["third", "second"]


@pytest.mark.parametrize("seen", ["here", "by another thread"])
def test_another_server_in_the_grace_is_named_as_such(seen):
    """R14: a replica that was promoted may lack the swap: nothing is promised of its old table."""
    stop, another = StopSwitch(), AnotherServer("another server answers", hint="of the feed")
    if seen != "here":
        stop.request(another)
    with pytest.raises(AnotherServer) as raised, old_tables.after_change(stop):
        raise another if seen == "here" else ServerFault(2013, "Lost connection", where="keep")
    assert raised.value.error_code is ErrorCode.ANOTHER_SERVER
    assert raised.value.message == "another server answers"
    assert "made on the first server" in raised.value.hint
    assert raised.value.says_done


@pytest.mark.parametrize("error", [ServerFault(1290, "read only", where="keep"), Interrupted(15)])
@pytest.mark.parametrize(
    ("seconds", "then"),
    [(0.0, "drops the old table when it is due"), (60.0, "whether the old table can still follow")],
)
def test_what_is_said_where_the_way_back_is_not_noted(error, seconds, then):
    """With --keep-old-current the same command refuses, where nothing else drops the old table."""

    def step(*_: Any, **__: Any) -> None:
        raise error

    config = SimpleNamespace(keep_old_current=seconds)
    run: Any = SimpleNamespace(config=config, stop=StopSwitch(), step=step)
    planned: Any = SimpleNamespace(tables=())
    swapped: Any = SimpleNamespace(after_rename="p", answer_lost=False)
    with pytest.raises(SpiritError) as raised:
        begin_reverse(run, planned, swapped)
    assert then in raised.value.hint


def dropping(monkeypatch, measures: Measures, drop: Callable[..., object]) -> Any:
    """Return a run whose drops call ``drop``, and a function that drops the tables, of a batch."""
    monkeypatch.setattr(old_tables, "_PACE_SECONDS", 0.0)
    monkeypatch.setattr(old_tables, "_REST_SECONDS", 0.0)
    monkeypatch.setattr(old_tables, "throttled", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(old_tables, "drop_old_table", drop)
    monkeypatch.setattr(old_tables, "_step", lambda _run, work: work(None))
    monkeypatch.setattr(old_tables, "_seconds_left", lambda *_, **__: (0.0, 1.0))
    nothing: Any = lambda *_: None  # noqa: E731
    run: Any = SimpleNamespace(stop=StopSwitch(), pace=Unhindered(), step=nothing, show=nothing)
    run.tell, run.go_on_to = nothing, nothing
    run.config = SimpleNamespace(connection=None, drop_old_after=1.0, cutover_timeout=1.0)

    def drop_all(given: Measures | None = measures) -> list[str]:
        with contextlib.closing(DropTurn(given)) as turn:
            dropped = partial(drop_swapped_out, turn=turn)
            return old_tables._drop(run, TABLES, FORWARD, lambda: [run], dropped)

    return run, drop_all


def test_of_a_batch_one_drops_its_old_table_at_a_time(monkeypatch):
    """A stop ends the wait for the other one, and says that the change is done."""
    measures, drops = Measures(), list[bool]()
    run, drop_all = dropping(
        monkeypatch, measures, lambda *_, **__: drops.append(measures.dropping.locked())
    )
    for given in (measures, None):
        assert drop_all(given) == []
    assert drops == [True, True, False, False]
    assert not measures.dropping.locked()
    run.stop.request(Interrupted(15))
    with measures.dropping, pytest.raises(Interrupted) as stopped:
        drop_all()
    assert "the change is done" in stopped.value.hint
    assert len(drops) == 4


def test_a_drop_that_is_paused_lets_others_of_the_batch_drop_theirs(monkeypatch):
    """Also between two partitions; a stop then leaves the turn to them."""
    measures, reasons, seen = Measures(), [""], list[bool]()

    def reason(_work: object) -> str:
        if said := reasons.pop():
            return said
        seen.append(measures.dropping.locked())
        return ""

    def drop(*_: object, before_each: Callable[[], object], **__: object) -> None:
        seen.append(measures.dropping.locked())
        reasons.extend(["", "", "", "paused"])
        before_each()
        seen.append(measures.dropping.locked())
        reasons[:] = ["", "", ""]

    run, drop_all = dropping(monkeypatch, measures, drop)
    run.pace = SimpleNamespace(reason=reason)
    drop_all()
    assert seen == [False, True, False, True, True, True, False, True]
    assert not measures.dropping.locked()


def test_who_waits_for_anothers_drop_can_be_swapped_back(monkeypatch):
    """The way back ends with the turn to drop, not before; a revert goes first."""
    measures, run = Measures(), dropping(monkeypatch, Measures(), lambda *_, **__: None)[0]

    class Back:
        looks = 0

        @property
        def asked(self) -> bool:
            self.looks += 1
            return self.looks > 2

        def taken(self) -> bool:
            return self.looks > 2

        def closed(self) -> bool:
            return not self.asked

    fronts: Any = lambda: [run]  # noqa: E731
    with contextlib.closing(DropTurn(measures)) as turn:
        with measures.dropping:
            assert old_tables._wait(run, TABLES, Back, FORWARD, fronts, turn=turn)
        assert not measures.dropping.locked()
        back = Back()
        back.looks = -2
        assert not old_tables._wait(run, TABLES, lambda: back, FORWARD, fronts, turn=turn)
        assert measures.dropping.locked()
    assert not measures.dropping.locked()


@pytest.mark.parametrize("archive_to", ["", "folder"])
def test_the_turn_is_given_up_where_an_archive_reads_alone(monkeypatch, archive_to):
    """The ways back of others stay as long as this drop lasts; this one ends with the turn."""
    measures, seen = Measures(), list[tuple[str, bool]]()
    run = dropping(monkeypatch, measures, lambda *_, **__: None)[0]
    run.config.targets, run.config.archive_to = (), archive_to
    run.measures, run.note = measures, lambda _: None

    def step(_run: object, work: Any) -> None:
        if "noted" in work.keywords:
            seen.append(("end of the way back", measures.dropping.locked()))

    def take(*_: object, turn: DropTurn) -> bool:
        turn.wait(run, "drop")
        return False

    def read() -> None:
        seen.append(("reading", measures.dropping.locked()))

    monkeypatch.setattr(old_tables, "_step", step)
    monkeypatch.setattr(old_tables, "_wait", take)
    monkeypatch.setattr(old_tables, "_drop", lambda *_: [])
    monkeypatch.setattr(old_tables, "drop_checkpoints", lambda *_: True)
    old_tables.settle_old_tables(run, TABLES, lambda: None, before_drop=read)
    assert seen == [("reading", not archive_to), ("end of the way back", True)]
    assert not measures.dropping.locked()

"""Requests that meet the swap: what is answered is so."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checkpoint.live import REVERT, WORKING, Answer, Request, StandingOrders
from spirit_py.checkpoint.queue import Asked
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import Aborted, AbortedForGood, MigrationFailure, Refusal, ServerFault
from spirit_py.migration.control import command, verbs
from spirit_py.migration.control.subject import Verb
from spirit_py.migration.control.verbs import Verbs
from spirit_py.migration.facts import AlterAnswered
from spirit_py.migration.run import Run as MigrationRun
from spirit_py.migration.swap.veto import Veto
from spirit_py.phases import Phase
from spirit_py.threads import StopSwitch
from tests.kits.reporter import RecordingReporter


class Run:
    """A run whose RENAME is sent when it is paused, and answered after a few looks.

    Args:
        swaps: whether the RENAME swaps the tables; otherwise it is refused.
    """

    def __init__(self, *, swaps: bool) -> None:
        self.settings = SimpleNamespace(current=SimpleNamespace(paused=""))
        self.stop = StopSwitch()
        self.state = SimpleNamespace(
            swapped_before=False,
            altering=False,
            altered=False,
            unproven=False,
            phase=Phase.CUTOVER,
        )
        self.keeper: object = None
        self.config = SimpleNamespace(drop_old_after=math.inf, keep_old_current=False)
        self.veto: Any = None
        self.undefer: Any = None
        self.paused: list[str] = []
        self._swaps = swaps
        self._looks = 0

    def pause(self, _session: object, why: str) -> None:
        """Note the pause, as the standing orders do."""
        self.paused.append(why)

    def lift(self, session: object) -> None:
        """Note the end of a pause that is taken back."""
        self.pause(session, "")

    @property
    def renaming(self) -> bool:
        """Whether the RENAME is not answered yet."""
        self._looks += 1 if self.paused else 0
        return bool(self.paused) and self._looks < 4

    @property
    def may_be_swapped(self) -> bool:
        """Whether it was, or may be."""
        return self.renaming or (bool(self.paused) and self._swaps)


def pause(run: Run) -> str:
    """Ask for a pause; return the answer."""
    of_run = Verbs(run, run, [("shop", "t")])  # type: ignore[arg-type]
    asked = Asked(number=1, request=Request.of(Verb.PAUSE, {}), who="me@here")
    return of_run.carry_out(SimpleNamespace(), asked).said  # type: ignore[arg-type]


@pytest.mark.parametrize("grace", [math.inf, 0.0])
def test_a_pause_that_comes_after_the_rename_is_refused_and_lifted(grace):
    """It was to hold back the swap: whoever asked has to know that it did not."""
    run = Run(swaps=True)
    run.config.drop_old_after = grace
    with pytest.raises(Refusal, match="the swap is made"):
        pause(run)
    assert run.paused[-1] == ""


@pytest.mark.parametrize("phase", [Phase.CUTOVER, Phase.ARCHIVE, Phase.GRACE, Phase.CLEANUP])
def test_the_drop_of_the_old_table_is_paused(phase):
    """It asks the pace."""
    run = Run(swaps=True)
    run.config.drop_old_after, run.state.phase, run.state.swapped_before = 0.0, phase, True
    assert "the tables are swapped, and what comes after that" in pause(run)
    assert run.paused == ["paused by me@here"]


@pytest.mark.parametrize(
    ("phase", "more"),
    [
        (Phase.KEEP, {}),
        (Phase.CUTOVER, {"keep_old_current": True}),
        (Phase.GRACE, {"drop_old_after": math.inf}),
        (Phase.DONE, {}),
    ],
)
def test_where_nothing_is_to_be_dropped_soon_a_pause_is_refused(phase, more):
    """While the old table follows, a pause would hold back a revert, and nothing else."""
    run = Run(swaps=True)
    run.state.phase, run.state.swapped_before = phase, True
    vars(run.config).update({"drop_old_after": 0.0, **more})
    with pytest.raises(Refusal, match="the tables are swapped"):
        pause(run)
    assert run.paused == []


def test_a_pause_is_refused_while_a_revert_is_made():
    """It would be answered as if the old table were kept, which is in place again soon."""
    run = Run(swaps=False)
    run.state.phase = Phase.GRACE
    run.config.drop_old_after = 0.0
    run.keeper = SimpleNamespace(asked=True, may_be_back=lambda: False)
    with pytest.raises(Refusal, match="the tables are swapped"):
        pause(run)


def test_a_revert_in_a_pause_is_refused_and_says_who_has_paused():
    """It would wait for the end of the pause without a word."""
    run: Any = Run(swaps=True)
    run.settings.current.paused = "paused by you@there"
    run.keeper = SimpleNamespace(hands_over=False)
    asked = Asked(number=1, request=Request.of(REVERT, {}), who="me@here")
    nothing: Any = None
    with pytest.raises(Refusal, match="is paused by you@there, and swaps nothing back") as refused:
        Verbs(run, run, [("shop", "t")]).carry_out(nothing, asked)
    # The pause alone may keep the old table from being dropped.
    assert refused.value.hint.startswith("spirit-py ctl abort ends it, and the old table stays")


def test_the_look_at_each_row_for_a_new_key_is_paused():
    """It comes after the change; what would end in an abort for good is refused as before."""
    run = Run(swaps=True)
    run.state.altered = run.state.unproven = True
    assert pause(run).startswith("paused")
    assert run.paused[-1] == "paused by me@here"


def test_a_pause_during_a_rename_that_fails_is_granted():
    """The outcome is waited for."""
    run = Run(swaps=False)
    assert "paused" in pause(run)
    assert run.paused[-1]


def test_a_pause_of_reverse_replication_is_refused_in_a_process_that_did_not_swap():
    """It would hold no swap back."""
    run = Run(swaps=False)
    run.keeper = object()
    with pytest.raises(Refusal, match="the swap is made"):
        pause(run)
    assert run.paused[-1] == ""


@pytest.mark.parametrize("begun", [None, Answer(token="0" * 16, state=WORKING, said=())])
@pytest.mark.parametrize("taken", [True, False])
def test_a_request_without_an_answer_says_whether_it_counts_yet(monkeypatch, taken, begun):
    """One that the process has taken out of the queue, as a revert that it begins, may be later."""
    monkeypatch.setattr(command, "named_lock_holder", lambda *_: 7)
    queue: Any = SimpleNamespace(answer_to=lambda *_: begun, withdraw=lambda *_: not taken)
    asked = Asked(number=1, request=Request.of(Verb.PAUSE, {}), who="me@here")
    nothing: Any = None
    with pytest.raises(MigrationFailure) as failed:
        command.follow_answer(
            nothing, queue, asked, process_lock="", said=nothing, pause=nothing, within=-1.0
        )
    counts = taken or begun is not None
    says = "may carry it out yet" if counts else "has not taken the request up, which is withdrawn"
    assert says in failed.value.message


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_aborted_rehearsal_is_not_said_to_be_resumed(dry_run):
    """It drops what it has made, and its command begins anew."""
    run: Any = Run(swaps=False)
    run.config = SimpleNamespace(dry_run=dry_run)
    run.state.unproven = False
    run.give_up = lambda _: None
    asked = Asked(number=1, request=Request.of(Verb.ABORT, {}), who="me@here")
    nothing: Any = None
    effect = Verbs(run, run, [("shop", "t")]).carry_out(nothing, asked)
    assert ("resumes" in effect.said) is not dry_run
    assert ("begins anew" in effect.said) is dry_run
    assert isinstance(effect.then, Aborted)
    assert ("run the same command again" in effect.then.hint) is not dry_run


def test_an_abort_for_good_promises_nothing_before_all_is_dropped():
    """A run that resumes hears operators during its checks, before it has to drop anything."""
    run: Any = Run(swaps=False)
    run.give_up = lambda _: None
    asked = Asked(number=1, request=Request.of(Verb.ABORT, {"cleanup": ""}), who="me@here")
    nothing: Any = None
    effect = Verbs(run, run, [("shop", "t")]).carry_out(nothing, asked)
    assert isinstance(effect.then, AbortedForGood)
    assert effect.then.hint == "the source table is intact; spirit-py cleanup drops what is left"


def test_a_limit_of_load_is_not_set_where_another_server_lacks_the_counter(monkeypatch):
    """A move watches all its servers: on that one the limit would never be reached."""
    here = SimpleNamespace(query=lambda *_: [("Questions", "1")])
    there = SimpleNamespace(query=lambda *_: [])
    monkeypatch.setattr(verbs, "connect", lambda *_, **__: nullcontext(there))
    run = Run(swaps=True)
    run.config = SimpleNamespace(threads=2, others=[SimpleNamespace(address="db2:3306")])
    asked = Asked(number=1, request=Request.of(Verb.SET, {"max-load": "Questions=9"}), who="me")
    with pytest.raises(Refusal, match=r"Questions on db2:3306 is not a numeric variable"):
        Verbs(run, run, [("shop", "t")]).carry_out(here, asked)  # type: ignore[arg-type]


def test_a_limit_of_lag_is_not_set_where_no_replica_is_watched():
    """``--max-lag 0`` looks at none, and the run has nothing to hold against the limit."""
    run = Run(swaps=True)
    run.config = SimpleNamespace(threads=2, max_lag=None)
    of_run = Verbs(run, run, [("shop", "t")])  # type: ignore[arg-type]
    session = SimpleNamespace(query=lambda *_: [])
    asked = Asked(number=1, request=Request.of(Verb.SET, {"max-lag": "5s"}), who="me@here")
    with pytest.raises(Refusal, match=r"started with --max-lag 0, and watches no replica"):
        of_run.carry_out(session, asked)  # type: ignore[arg-type]


def test_a_cutover_whose_drop_of_the_sentinel_fails_decides_nothing(monkeypatch):
    """The hook is asked as before, and no later run takes the swap as wanted."""
    wanted: list[bool] = []

    def fail(*_: object) -> None:
        raise ServerFault(1205, "Lock wait timeout exceeded", where="ctl")

    monkeypatch.setattr(verbs, "read_table", lambda *_: object())
    monkeypatch.setattr(verbs, "is_own_sentinel", lambda *_: True)
    monkeypatch.setattr(verbs, "drop_sentinel", fail)
    run = Run(swaps=False)
    run.state.undeferred = False
    run.config = SimpleNamespace(dry_run=False, defer_cutover=True)
    nothing: Any = None
    run.veto = Veto(nothing, lambda *_: "no", tables=list)
    run.undefer = lambda _session, *, undeferred: wanted.append(undeferred)
    asked = Asked(number=1, request=Request.of(Verb.CUTOVER, {}), who="me@here")
    with pytest.raises(ServerFault):
        Verbs(run, run, [("shop", "t")]).carry_out(SimpleNamespace(), asked)  # type: ignore[arg-type]
    assert wanted == [True, False]
    assert not run.veto.overrule()


def test_an_order_that_is_taken_back_over_a_lost_session_is_written_later():
    """The swap would wait for nobody any more, though cutover had failed, and said so."""
    rows: list[bool] = []
    session = SimpleNamespace(lost=False)

    def write(_session: object, standing: StandingOrders) -> None:
        if session.lost:
            raise ServerFault(2013, "Lost connection to MySQL server", where="ctl")
        rows.append(standing.undeferred)

    nothing: Any = None
    config: Any = MigrationConfig(
        connection=ConnectionOptions(), database="s", table="t", defer_cutover=True
    )
    run = MigrationRun(config, RecordingReporter(), engine_factory=nothing, stop=StopSwitch())

    def is_wanted() -> bool:
        return run.state.undeferred

    checkpoint: Any = SimpleNamespace(write=write)
    orders = verbs.Orders(run, checkpoint)
    orders.undefer(nothing, undeferred=True)
    assert is_wanted()
    session.lost = True
    orders.undefer(nothing, undeferred=False)
    assert not is_wanted()
    with pytest.raises(ServerFault):
        orders.undefer(nothing, undeferred=True)
    orders.write(nothing)
    session.lost = False
    orders.write(nothing)
    orders.write(nothing)
    assert rows == [True, False]
    assert not is_wanted()


def test_an_order_whose_answer_is_lost_is_written_over():
    """Cutover has failed, and said so; the next run would find that the swap waits for nobody."""
    rows: list[bool] = []
    nothing: Any = None

    def write(_session: object, standing: StandingOrders) -> None:
        rows.append(standing.undeferred)
        if len(rows) == 1:
            raise ServerFault(2013, "Lost connection to MySQL server", where="ctl")

    config: Any = MigrationConfig(
        connection=ConnectionOptions(), database="s", table="t", defer_cutover=True
    )
    run = MigrationRun(config, RecordingReporter(), engine_factory=nothing, stop=StopSwitch())
    checkpoint: Any = SimpleNamespace(write=write)
    orders = verbs.Orders(run, checkpoint)
    with pytest.raises(ServerFault):
        orders.undefer(nothing, undeferred=True)
    orders.write(nothing)
    orders.write(nothing)
    assert rows == [True, False]


def test_a_pause_that_comes_too_late_is_taken_back_over_a_lost_session_too():
    """The run would stay paused, and what it still has to drop, though the pause was refused."""
    rows: list[str] = []
    nothing: Any = None
    session = SimpleNamespace(lost=False)

    def write(_session: object, standing: StandingOrders) -> None:
        if session.lost:
            raise ServerFault(2013, "Lost connection to MySQL server", where="ctl")
        rows.append(standing.paused)
        # Until the swap was made.
        session.lost = True
        run.note(AlterAnswered(True))

    config: Any = MigrationConfig(connection=ConnectionOptions(), database="s", table="t")
    run = MigrationRun(config, RecordingReporter(), engine_factory=nothing, stop=StopSwitch())
    checkpoint: Any = SimpleNamespace(write=write)
    orders = verbs.Orders(run, checkpoint)
    asked = Asked(number=1, request=Request.of(Verb.PAUSE, {}), who="me@here")
    with pytest.raises(Refusal, match="the swap is made"):
        Verbs(run, orders, [("shop", "t")]).carry_out(nothing, asked)
    assert not run.settings.current.paused
    session.lost = False
    orders.write(nothing)
    assert rows == ["paused by me@here", ""]

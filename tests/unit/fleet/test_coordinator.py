"""Wave after wave: when the hook is asked, whose orders count, and what is counted."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, PropertyMock

import pytest

from spirit_py.batch.changes import TableChange
from spirit_py.batch.plan import BatchPlan, PlannedTable
from spirit_py.batch.report import BatchReport
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import BatchConfig, FleetConfig, FleetOrders, FleetServer
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import (
    Aborted,
    Interrupted,
    MigrationFailure,
    Refusal,
    SparkFailure,
    SpiritError,
    WorkersLost,
)
from spirit_py.events.run import Warned
from spirit_py.fleet import coordinator, places
from spirit_py.fleet.coordinator import Fleet
from spirit_py.fleet.planning import FleetPlan, ServerPlan
from spirit_py.fleet.process import ServerWork
from spirit_py.spark.member import Outcome, guarded
from spirit_py.threads import StopSwitch
from tests.kits.reporter import RecordingReporter
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.fleet.process import Told

PAUSED = FleetOrders(number=1, paused=True)
RESUMED = FleetOrders(number=2)


class Switch(StopSwitch):
    """Waits for no time, and calls ``waits`` instead."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Callable[[], object] = lambda: None

    def wait(self, seconds: float) -> bool:
        """Call it."""
        self.waits()
        return super().wait(0)


class Place:
    """Runs nothing. Each server is done at once. ``free`` are the slots of each look."""

    shows = True

    def __init__(self, *free: int) -> None:
        self.free = list(free)

    def run(self, _work: ServerWork, hear: Callable[[Told], None], _stop: StopSwitch) -> None:
        """Tell the report of a server that is done."""
        report = BatchReport()
        report.add(())
        hear(report)

    def slots(self) -> int | None:
        """Return the slots of this look."""
        return self.free.pop(0) if self.free else None

    def close(self) -> None:
        """Close nothing."""


def fleet(*, dry_run: bool = True, place: Place | None = None, begun: bool = False) -> Fleet:
    """Return a fleet of two servers, of which the first is a canary."""
    plans = []
    for name in ("s1", "s2"):
        each = MigrationConfig(
            connection=ConnectionOptions(host=name), database="shop", dry_run=dry_run
        )
        server = FleetServer(name=name, batch=BatchConfig(each=each))
        change = TableChange(schema="shop", table="t", clauses="FORCE", normalized="FORCE")
        tables = (PlannedTable(change=change, action="copied"),)
        batch = BatchPlan(name="b", server_uuid=name, tables=tables, earlier={} if begun else None)
        plans.append(ServerPlan(server=server, batch=batch))
    stop = Switch()
    return Fleet(
        config=FleetConfig(servers=tuple(one.server for one in plans), asked="", canary=1),
        plan=FleetPlan(servers=tuple(plans)),
        place=place or Place(),
        reporter=RecordingReporter(),
        stop=stop,
        stops={one.server.name: stop for one in plans},
        at_turn=lambda _: stop,
        most=10,
    )


def test_the_hook_is_not_asked_in_a_pause():
    """The wave waits for the operator, and then for the hook."""
    run = fleet()
    asked: list[bool] = []

    def gate(*_: object) -> str:
        asked.append(run._orders.paused)
        run._orders = RESUMED
        return ""

    run.gate = gate
    first = run._begin

    def begin(name: str) -> None:
        first(name)
        run._orders = PAUSED

    def resume() -> None:
        run._orders = RESUMED

    run._begin = begin  # type: ignore[method-assign]
    run.stop.waits = resume  # type: ignore[attr-defined]
    run.run()
    assert asked == [False]


@pytest.mark.parametrize("during", [PAUSED, RESUMED])
def test_a_yes_from_before_a_pause_counts_no_more(during):
    """What the hook looked at may be another thing after it, also where it has ended by now."""
    run = fleet()
    asked: list[bool] = []

    def gate(*_: object) -> str:
        asked.append(run._orders.paused)
        if len(asked) == 1:
            run._orders = during
        return ""

    def resume() -> None:
        run._orders = RESUMED

    run.gate = gate
    run.stop.waits = resume  # type: ignore[attr-defined]
    run.run()
    assert asked == [False, False]


@pytest.mark.parametrize(("good", "times"), [(0.0, 2), (3600.0, 1)])
def test_a_yes_of_long_ago_counts_no_more(monkeypatch, good, times):
    """Spark may have no slot for hours; it is asked again when there is one."""
    monkeypatch.setattr(coordinator, "_GOOD_SECONDS", good)
    run = fleet(place=Place(1, 1, 0, 0, 1))
    asked: list[bool] = []

    def gate(*_: object) -> str:
        asked.append(run._orders.paused)
        return ""

    run.gate = gate
    run.run()
    assert len(asked) == times
    assert [one.state for one in run.state.servers] == ["done", "done"]


def test_the_order_of_one_server_counts_not_because_the_other_one_is_away(monkeypatch):
    """Two have begun, so that two must have it: the row may be forged."""
    forged = replace(RESUMED, number=time.time_ns() // 1_000_000, at_once=10_000)
    away: set[str] = set()

    def orders_of(plan: ServerPlan) -> FleetOrders:
        if plan.server.name in away:
            raise MigrationFailure("it does not answer")
        return FleetOrders() if plan.server.name == "s1" else forged

    monkeypatch.setattr(coordinator, "orders_of", orders_of)
    run = fleet(dry_run=False, begun=True)
    run._look()
    away.add("s1")
    run._look()
    assert run._orders.at_once == 0
    away.clear()
    monkeypatch.setattr(coordinator, "orders_of", lambda _: forged)
    run._look()
    assert run._orders.at_once == 10_000


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_server_begins_with_what_others_were_given_before_it_had_a_record(monkeypatch, when):
    """Its process has the orders of its start; a record that is made meanwhile waits for a look."""
    ordered = replace(PAUSED, number=time.time_ns() // 1_000_000)
    began, reads = replace(RESUMED, unseen=True), list[str]()
    written: dict[str, FleetOrders] = {}

    def orders_of(plan: ServerPlan) -> FleetOrders | None:
        reads.append(plan.server.name)
        again = reads.count(plan.server.name) > 1
        if plan.server.name == "s2":
            return began
        return ordered if again or when == "before" else RESUMED

    def order(plan: ServerPlan, orders: FleetOrders) -> None:
        written[plan.server.name] = orders

    monkeypatch.setattr(coordinator, "orders_of", orders_of)
    monkeypatch.setattr(coordinator, "order", order)
    run = fleet(dry_run=False, begun=True)
    run._look()
    assert run._orders.paused
    assert (written["s2"].paused, written["s2"].unseen) == (True, False)
    written.clear()
    late = iter([None, began])
    monkeypatch.setattr(
        coordinator, "orders_of", lambda plan: next(late) if plan.server.name == "s1" else began
    )
    run._look()
    assert set(written) == {"s2"}
    # Also with what holds anyway: its process waits for that.
    known = run._orders
    written.clear()
    monkeypatch.setattr(coordinator, "orders_of", lambda _: replace(known, unseen=True))
    run._look()
    assert written == {"s1": known, "s2": known}


def test_that_an_order_from_the_future_is_not_obeyed_is_told_once(monkeypatch):
    """The clock of this machine may be days behind; the operator was told that it is paused."""
    ahead = replace(PAUSED, number=(time.time_ns() + 2 * 86_400 * 10**9) // 1_000_000)
    monkeypatch.setattr(coordinator, "orders_of", lambda _: ahead)
    run = fleet(dry_run=False, begun=True)
    run._look()
    run._look()
    assert not run._orders.paused
    (warned,) = run.reporter.events  # type: ignore[attr-defined]
    assert "the clock of this machine" in warned.text


@pytest.mark.parametrize("end", ["done", "left", "never"])
def test_a_process_that_no_task_follows_any_more_is_seen_to_its_end(monkeypatch, end):
    """Spark kills what follows it; what it does after that is in its record."""
    why = Interrupted(signal.SIGTERM)
    left = BatchReport()
    left.add(())
    left.conclude(None if end == "done" else why, seconds=1.0, record="")
    seen: list[Any] = [None, MigrationFailure("it is away"), left]
    looks = iter([None] * 9 if end == "never" else seen)

    def left_by(_plan: ServerPlan, stopped: SpiritError) -> BatchReport | None:
        assert stopped is why
        found = next(looks)
        if isinstance(found, SpiritError):
            raise found
        return found

    class Cluster(Place):
        shows = False

        def run(self, *_: object) -> None:
            """Raise what ends it from here."""
            raise why

    now = iter(range(0, 9000, 100))
    monkeypatch.setattr(coordinator, "left_by", left_by)
    monkeypatch.setattr(coordinator, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(coordinator, "time", Mock(monotonic=lambda: float(next(now))))
    run = fleet(place=Cluster())
    run._begin("s1")
    run._await_all()
    ended = run.state["s1"]
    assert ended.state == ("done" if end == "done" else "failed")
    assert ended.exit_code == (0 if end == "done" else 143)
    assert ("not seen to end" in ended.hint) is (end == "never")
    said = [one.text for one in run.reporter.events]  # type: ignore[attr-defined]
    assert any("not seen to end" in one for one in said) is (end == "never")


def test_an_abort_of_before_the_first_wave_begins_nothing(monkeypatch):
    """It was given while the command stood at its prompt."""
    ordered = FleetOrders(number=time.time_ns() // 1_000_000, aborted=True)
    monkeypatch.setattr(coordinator, "orders_of", lambda _: ordered)
    run = fleet(dry_run=False, begun=True)
    with pytest.raises(Aborted):
        run.run()
    assert [one.state for one in run.state.servers] == ["waiting", "waiting"]


def test_an_order_names_no_further_servers(monkeypatch):
    """One of the rows that have it may be forged, and would keep the records for ever (R26)."""
    ordered = replace(PAUSED, number=time.time_ns() // 1_000_000, members=("s1", "s2", "x"))
    monkeypatch.setattr(coordinator, "orders_of", lambda _: ordered)
    monkeypatch.setattr(coordinator, "order", lambda *_: None)
    run = fleet(dry_run=False, begun=True)
    run._orders = replace(run._orders, members=("s1", "s2"))
    run._look()
    assert (run._orders.paused, run._orders.members) == (True, ("s1", "s2"))


def test_a_server_without_a_record_has_not_begun(monkeypatch):
    """So the only other one's orders count: its process left nothing, and dropped the record."""
    ordered = replace(PAUSED, number=time.time_ns() // 1_000_000)
    monkeypatch.setattr(
        coordinator, "orders_of", lambda plan: ordered if plan.server.name == "s2" else None
    )
    run = fleet(dry_run=False, begun=True)
    run._look()
    assert run._orders.paused


def test_a_canary_that_fails_stops_the_rest_however_many_may_fail():
    """The server of the plan is pinned to what was found there, that of the list is not."""
    run = fleet()
    run.config = replace(run.config, stop_after=5)
    plan = run.state["s1"].plan
    each = plan.server.batch.each
    each = replace(each, connection=replace(each.connection, server_uuid="u1"))
    pinned = replace(plan.server, batch=replace(plan.server.batch, each=each))
    why = MigrationFailure("it failed")
    run.state.note("s1", lambda one: replace(one, plan=replace(plan, server=pinned), error=why))
    run.state.note("s1", lambda one: one.ended(1.0, why, stopped=False))
    run.run()
    assert [one.state for one in run.state.servers] == ["failed", "waiting"]


def test_a_server_that_is_lost_while_it_waits_is_told_and_tried_again_at_its_turn():
    """It may have restarted since the command began, or answer after ten minutes."""
    run = fleet()
    lost, again = Switch(), Switch()
    lost.request(MigrationFailure("it was away"))
    run.stops["s2"] = lost
    given = []

    def at_turn(name: str) -> StopSwitch:
        given.append(name)
        return again

    run.at_turn = at_turn
    run.run()
    assert given == ["s1", "s2"]
    assert [one.state for one in run.state.servers] == ["done", "done"]
    events = run.reporter.events  # type: ignore[attr-defined]
    (warned,) = [one for one in events if isinstance(one, Warned)]
    assert warned.fleet_server == "s2"
    assert "it was away" in warned.text


def test_a_server_that_is_still_lost_at_its_turn_fails_with_what_is_so_then():
    """Not with what was so hours ago."""
    run = fleet()

    def at_turn(_name: str) -> StopSwitch:
        raise MigrationFailure("it is away now")

    run.at_turn = at_turn
    run.run()
    assert (run.state["s1"].state, run.state["s1"].cause) == ("failed", "it is away now")


def test_servers_that_were_stopped_are_left():
    """Each server is in one of the counts."""
    run = fleet()
    why: SpiritError = MigrationFailure("it was stopped")
    run.state.note("s1", lambda one: one.ended(1.0, why, stopped=True))
    assert run.status().counts == {"done": 0, "running": 0, "failed": 0, "left": 2}


def cluster(*answers: Any, failure: Any = None, modules: Sequence[str] = ()) -> Any:
    """Return an engine that answers so how many tasks it runs, and whose tasks lack no modules."""

    def run_gang(_self: object, function: Callable[[int], str], **_: object) -> list[Outcome[str]]:
        with pytest.MonkeyPatch.context() as patched:
            for name in modules:
                patched.setitem(sys.modules, name, None)
            return [guarded(0, function)]

    slots = PropertyMock(side_effect=answers)
    return type("Engine", (), {"slots": slots, "failure": failure, "run_gang": run_gang})()


def test_a_cluster_whose_start_failed_for_good_is_not_waited_for():
    """Nothing can begin there any more."""
    lost = SparkFailure("Spark did not start")
    with pytest.raises(SparkFailure, match="did not start"):
        places.OnSpark(cluster(lost, failure=lost)).slots()


def test_no_server_begins_on_executors_that_lack_a_library():
    """Each one would fail, and after the first one the change of many servers has begun."""
    lacking = places.OnSpark(cluster(*[3] * 1000, modules=["MySQLdb"]))
    with pytest.raises(Refusal, match="MySQLdb"):
        until(lacking.slots, "what its tasks lack")
    spark = places.OnSpark(cluster(*[3] * 1000))
    until(lambda: spark.slots() == 3, "the end of the trial")


def test_a_trial_that_waits_for_an_executor_holds_up_neither_looks_nor_a_stop():
    """Spark tries for ten minutes: nothing begins meanwhile, and the loop goes on."""
    free = threading.Event()
    engine = cluster(*[3] * 100)
    trial = type(engine).run_gang

    def run_gang(self: object, function: Callable[[int], str], **given: object) -> Any:
        assert free.wait(30)
        return trial(self, function, **given)

    type(engine).run_gang = run_gang
    spark = places.OnSpark(engine)
    assert [spark.slots(), spark.slots()] == [0, 0]
    free.set()
    until(lambda: spark.slots() == 3, "the end of the trial")


def test_a_cluster_that_does_not_answer_begins_nothing_for_a_while(monkeypatch):
    """It may answer again; after two minutes its error ends the fleet."""
    now = [1000.0]
    monkeypatch.setattr(places, "time", Mock(monotonic=lambda: now[0]))
    lost = SparkFailure("Spark does not answer")
    spark = places.OnSpark(cluster(lost, lost, 3, lost, lost, lost))
    found = []
    for _ in range(5):
        found.append(spark.slots())
        now[0] += 100.0
    assert found == [0, 0, 3, 0, 0]
    with pytest.raises(SparkFailure):
        spark.slots()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_stop_does_not_wait_for_a_lock_of_another_command(monkeypatch, lost):
    """The process has told its end; one of a lost executor may still have the lock itself."""
    monkeypatch.setattr(places, "_PAUSE", 0.0)
    stop, heard = StopSwitch(), list[Any]()
    refused = Refusal("another run works on it", hint="", error_code=ErrorCode.ALREADY_RUNNING)
    answers = [WorkersLost("the executor is gone")] * lost

    def once(*_: object) -> list[Any]:
        if answers:
            raise answers.pop()
        # While it waits for the lock.
        monkeypatch.setattr(places, "_PAUSE", 30.0)
        threading.Thread(target=stop.request, args=(Interrupted(signal.SIGTERM),)).start()
        return [refused]

    spark = places.OnSpark(cluster(3))
    monkeypatch.setattr(spark, "_once", once)
    each = MigrationConfig(connection=ConnectionOptions(host="s1"), database="shop")
    work = ServerWork(server="s1", batch=BatchConfig(each=each), tables=())
    with pytest.raises(Interrupted) if lost else contextlib.nullcontext():
        spark.run(work, heard.append, stop)
    assert heard == [] if lost else [refused]

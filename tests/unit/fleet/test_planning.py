"""What is known of a server whose record is dropped, and what refuses a fleet as a whole."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from spirit_py.batch.changes import TableChange
from spirit_py.batch.plan import BatchPlan, PlannedTable
from spirit_py.batch.trial import Trace
from spirit_py.cli import fleet as cli_fleet
from spirit_py.command_config import BatchConfig, FleetConfig, FleetOrders, FleetServer
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.fleet import entry, planning
from spirit_py.fleet.planning import FleetPlan, ServerPlan
from spirit_py.fleet.report import ServerRun, ServerState

if TYPE_CHECKING:
    from spirit_py.threads import StopSwitch

LOST = ServerFault(2013, "Lost connection", where="batch session")


def server(name: str) -> FleetServer:
    """Return a server of a list."""
    each = MigrationConfig(connection=ConnectionOptions(host=name), database="shop")
    return FleetServer(name=name, batch=BatchConfig(each=each))


def planned(name: str = "db1", **more: Any) -> ServerPlan:
    """Return the plan of one table, which no earlier run has begun."""
    change = TableChange(
        schema="shop", table="orders", clauses="ADD INDEX (a)", normalized="ADD INDEX (a)"
    )
    table = PlannedTable(change=change, action="copied")
    batch = BatchPlan(name="b", server_uuid="u", tables=(table,), **more)
    return ServerPlan(server=server(name), batch=batch)


@pytest.mark.parametrize(
    ("trace", "witnesses", "done", "refused"),
    [
        (Trace.MADE, 1, True, False),
        (Trace.MISSING, 2, False, False),
        (Trace.NONE, 2, True, False),
        (Trace.NONE, 1, False, True),
        (LOST, 2, False, True),
    ],
)
def test_a_server_that_others_call_done_is_begun_only_where_nothing_is_made(
    monkeypatch, trace, witnesses, done, refused
):
    """Where that cannot be looked at it is refused: the change would be made a second time."""

    def trace_of(*_: object) -> Trace:
        if isinstance(trace, SpiritError):
            raise trace
        return trace

    monkeypatch.setattr(planning, "trace_of", trace_of)
    plan = planning._settled(planned(), witnesses)
    assert (plan.done, plan.refused) == (done, refused)
    fleet = FleetPlan(servers=(plan,))
    assert bool(fleet.left) is not (done or refused)
    if trace is LOST:
        run = ServerRun.of(plan)
        assert (run.state, run.cause) == (ServerState.REFUSED, LOST.message)


@pytest.mark.parametrize("begun", [False, True])
def test_a_fleet_of_which_a_server_has_begun_is_not_refused_without_a_trace(begun):
    """Exit code 2 promises that nothing was written (R16)."""
    fails = ServerPlan(server=server("db2"), error=LOST)
    plan = FleetPlan(servers=(planned("db1", earlier={} if begun else None), fails))
    config = FleetConfig(servers=tuple(one.server for one in plan.servers), asked="")
    with pytest.raises(SpiritError) as raised:
        entry.refuse(config, plan)
    assert raised.value.exit_code == (1 if begun else 2)
    assert ("nothing was written" in raised.value.message) is not begun
    assert "1 of 2 servers cannot be changed" in raised.value.message


@pytest.mark.parametrize(
    ("stop_after", "canary", "refused"), [(1, 0, True), (2, 0, False), (2, 1, True), (2, 2, True)]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_the_plan_ends_as_the_command_would(monkeypatch, capsys, stop_after, canary, refused, form):
    """With as many failures allowed the other servers are changed, and the check does not fail."""
    fails = ServerPlan(server=server("db1"), error=LOST)
    plan = FleetPlan(servers=(fails, planned("db2")))
    config = FleetConfig(
        servers=tuple(one.server for one in plan.servers),
        asked="",
        stop_after=stop_after,
        canary=canary,
    )
    monkeypatch.setattr(cli_fleet, "fleet_config", lambda _: config)
    monkeypatch.setattr(planning, "plan_fleet", lambda *_, **__: plan)
    with pytest.raises(SpiritError) if refused else contextlib.nullcontext():
        entry.refuse(config, plan)
    assert cli_fleet.show_plan({"sample": False, "format": form}) == (2 if refused else 0)
    if form == "json":
        assert json.loads(capsys.readouterr().out)["refused"] is refused


@pytest.mark.parametrize("begun", [False, True], ids=["not looked at", "lost since"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_lone_row_is_not_believed_while_another_server_is_away(monkeypatch, begun, paused):
    """It may be forged; a pause, which any operator can end, stays."""
    number = time.time_ns() // 1_000_000 - 1000
    row = FleetOrders(number=number, at_once=9, paused=paused, members=("db1", "db2"))
    one = planned("db1", earlier={}, orders=row)
    other = planned("db2", earlier={}) if begun else ServerPlan(server=server("db2"), error=LOST)
    plans = {"db1": one, "db2": other}
    config = FleetConfig(servers=tuple(each.server for each in plans.values()), asked="")
    if begun:
        monkeypatch.setattr(entry, "order", lambda *_: None)
        fleet = FleetPlan(servers=tuple(plans.values()), orders=row)
        orders = entry._carried_on(config, fleet).orders
    else:
        monkeypatch.setattr(planning, "_planned", lambda each, **_: plans[each.name])
        orders = planning.plan_fleet(config).orders
    assert (orders.at_once, orders.paused, orders.members) == (0, paused, ("db1", "db2"))


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ([("db1", "db9")], ("db9",)),
        ([("db1", "db9"), ("db1", "db9")], ("db9",)),
        ([("db1", "db9"), ("db1",)], ()),
        ([("db1", *(f"x{number}" for number in range(10_005)))] * 2, None),
    ],
)
def test_a_server_that_is_not_listed_counts_where_two_records_name_it(monkeypatch, rows, others):
    """One that is forged would keep the records of all servers for ever; they are so many, too."""
    names = [f"db{number}" for number, _ in enumerate(rows, 1)]
    orders = [FleetOrders(number=1, members=row, places={"p": "x"}) for row in rows]
    plans = {
        name: planned(name, earlier={}, orders=row) for name, row in zip(names, orders, strict=True)
    }
    monkeypatch.setattr(planning, "_planned", lambda each, **_: plans[each.name])
    config = FleetConfig(servers=tuple(one.server for one in plans.values()), asked="")
    plan = planning.plan_fleet(config)
    found = plan.orders
    more = {*found.members} - {*names}
    warned = any("one record alone also has 1 server, db9:" in line for line in plan.warnings())
    assert warned is (others == ())
    assert (len(more) == 10_000) if others is None else (more == {*others})
    assert set(found.places.values()) <= {*names}


def test_a_limit_of_an_earlier_command_does_not_hold_for_the_next_one(monkeypatch):
    """Its own number is typed, and is what the plan has shown; a pause lasts."""
    row = FleetOrders(number=time.time_ns() // 1_000_000 - 1000, at_once=9, paused=True)
    plans = tuple(planned(name, earlier={}, orders=row) for name in ("db1", "db2"))
    written: dict[str, FleetOrders] = {}
    monkeypatch.setattr(
        entry, "order", lambda one, orders: written.update({one.server.name: orders})
    )
    config = FleetConfig(servers=tuple(one.server for one in plans), asked="", at_once=2)
    fleet = FleetPlan(servers=plans, orders=row)
    orders = entry._carried_on(config, fleet).orders
    assert (orders.at_once, orders.paused) == (0, True)
    assert written == {"db1": orders, "db2": orders}


@pytest.mark.parametrize(
    ("finished", "told"),
    [(("db2",), 1), (("db2", "db2"), 1), (("PLACE",), 1), (("db2", "PLACE"), 1), (("db3",), 0)],
)
def test_a_record_is_one_witness_by_name_or_place(monkeypatch, finished, told):
    """However often it says so: one server's word alone is not believed (R26)."""
    other = planned("db2")
    row = FleetOrders(finished=tuple(one.replace("PLACE", other.place) for one in finished))
    done = ServerPlan(server=server("db1"), batch=BatchPlan(name="b", server_uuid="v", tables=(),
                                                            orders=row))  # fmt: skip
    plans = {"db1": done, "db2": other}
    asked: list[int] = []

    def settled(plan: ServerPlan, witnesses: int) -> ServerPlan:
        asked.append(witnesses)
        return plan

    monkeypatch.setattr(planning, "_planned", lambda each, **_: plans[each.name])
    monkeypatch.setattr(planning, "_settled", settled)
    planning.plan_fleet(FleetConfig(servers=(done.server, other.server), asked=""))
    assert asked == [told] * bool(told)


class Lock:
    """A named lock of a server that is away as often as ``away`` says."""

    away: ClassVar[list[SpiritError]] = []
    taken: ClassVar[list[str]] = []

    def __init__(self, options: ConnectionOptions, *_: object, stop: StopSwitch, **__: Any) -> None:
        self.options, self.stop = options, stop

    def acquire(self) -> None:
        """Take it."""
        if self.options.host == "db2" and self.away:
            raise self.away.pop()
        self.taken.append(self.options.host)

    def close(self) -> None:
        """Release it."""


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("changed", [True, False])
def test_a_lock_that_was_lost_is_taken_anew_at_the_turn_of_its_server(monkeypatch, again, changed):
    """And its record is read then: another command may have worked there meanwhile."""
    read: list[str] = []

    def read_again(plan: ServerPlan) -> None:
        read.append(plan.server.name)
        if changed and len(read) > 1:
            raise Refusal("it has changed")

    monkeypatch.setattr(entry, "AdvisoryLock", Lock)
    monkeypatch.setattr(entry, "read_again", read_again)
    monkeypatch.setattr(Lock, "taken", [])
    monkeypatch.setattr(
        Lock, "away", [LOST] if again else [ServerFault(2003, "no", where="x"), LOST]
    )
    plan = FleetPlan(servers=(planned("db1"), planned("db2")))
    with entry.Holds(plan) as holds:
        holds.read_again()
        assert (Lock.taken, read) == (["db1"], ["db1"])
        assert holds.at_turn("db1") is holds.stops["db1"]
        assert (Lock.taken, read) == (["db1"], ["db1"])
        lost = holds.stops["db2"]
        assert lost.requested
        if not again:
            with pytest.raises(ServerFault, match="no"):
                holds.at_turn("db2")
            assert holds.stops["db2"].requested
            return
        with pytest.raises(Refusal, match="changed") if changed else contextlib.nullcontext():
            assert not holds.at_turn("db2").requested
        assert (Lock.taken, read) == (["db1", "db2"], ["db1", "db2"])
        assert holds.stops["db2"] is not lost

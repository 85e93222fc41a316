"""Which orders of operators count, of those that servers have."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.batch.plan import BatchPlan
from spirit_py.batch.store import BatchTable, TableRecord
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import BatchConfig, FleetConfig, FleetOrders, FleetServer, agreed
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, ServerFault, UsageFault
from spirit_py.fleet import entry, orders, report
from spirit_py.fleet import records as fleet_records
from spirit_py.fleet.planning import FleetPlan, ServerPlan
from spirit_py.fleet.records import FleetMember, FleetRecord, ServerRecords, where_to_meet
from spirit_py.migration.control.subject import CLEANUP
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOW = time.time_ns() // 1_000_000


def order(number, **more):
    """Return orders of that many milliseconds ago."""
    return FleetOrders(number=NOW - number, **more)


STOPPED = Interrupted(signal.SIGTERM)
LOST = MigrationFailure("its lock is lost", error_code=ErrorCode.RUN_LOCK_LOST)
KNOWN = order(1000)
PAUSE = order(10, paused=True)
ABORT = order(5, aborted=True)


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ([], KNOWN),
        ([FleetOrders()], KNOWN),
        ([KNOWN, FleetOrders(), FleetOrders()], KNOWN),
        # One server alone has begun.
        ([PAUSE], PAUSE),
        ([order(2000, paused=True)], KNOWN),
        # Of several, two must have it.
        ([PAUSE, KNOWN], KNOWN),
        ([PAUSE, FleetOrders()], KNOWN),
        ([PAUSE, PAUSE, KNOWN], PAUSE),
        ([ABORT, PAUSE, PAUSE, KNOWN], PAUSE),
        ([order(2000), order(2000), KNOWN], KNOWN),
        # From the future: a forged one would count for ever.
        ([order(-200_000_000, aborted=True)] * 2, KNOWN),
    ],
)
def test_the_latest_counts_that_two_servers_have(found, counts):
    """A row of one server alone may be forged (R26)."""
    assert agreed(found, KNOWN) == counts


@pytest.mark.parametrize(
    ("found", "new", "counts"),
    [
        # It began with what was known before the order was given to the only one that had begun.
        ([ABORT], [KNOWN], ABORT),
        ([ABORT], [FleetOrders()], ABORT),
        # All have begun since the last look, and one of them with the order of later.
        ([], [ABORT, KNOWN], ABORT),
        ([], [PAUSE, PAUSE, KNOWN], PAUSE),
        # Two that have begun before must agree, or one and a new one.
        ([ABORT, KNOWN], [KNOWN], KNOWN),
        ([KNOWN], [ABORT], KNOWN),
        ([ABORT, KNOWN], [ABORT], ABORT),
        ([], [ABORT, PAUSE], KNOWN),
        # Whose row its coordinator has not looked at has begun just now, also for those who ask.
        ([PAUSE, replace(KNOWN, unseen=True)], [], PAUSE),
        ([replace(PAUSE, unseen=True)], [], PAUSE),
    ],
)
def test_a_server_that_has_just_begun_speaks_against_no_order(found, new, counts):
    """An abort is obeyed that the only server has which could be given it."""
    assert agreed(found, KNOWN, new, begun=len(found)) == counts


@pytest.mark.parametrize(
    ("found", "new", "begun", "counts"),
    [
        ([PAUSE], [], 1, PAUSE),
        ([PAUSE], [], 2, KNOWN),
        ([PAUSE, PAUSE], [], 3, PAUSE),
        ([ABORT], [KNOWN], 2, KNOWN),
        ([], [ABORT], 0, ABORT),
        ([], [ABORT], 1, KNOWN),
    ],
)
def test_a_row_is_not_alone_because_others_do_not_answer(found, new, begun, counts):
    """Else a forged one counted as soon as the other server is away for one look."""
    assert agreed(found, KNOWN, new, begun=begun) == counts


def test_what_else_a_row_has_is_no_reason_to_differ():
    """Members come in as lists grow."""
    other = FleetOrders(**{**vars(PAUSE), "members": ("s1",)})
    assert agreed([PAUSE, other], KNOWN).paused


def test_a_member_that_has_another_name_by_now_is_one_member():
    """By its place; a place that has another server by now keeps the name that both have."""
    here = FleetOrders(members=("new", "s2", "s3"), places={"a": "new", "b": "s2", "d": "s3"})
    row = FleetOrders(
        members=("s1", "s2", "s3", "s4", "s5"), places={"a": "s1", "b": "s2", "c": "s3", "e": "s4"}
    )
    both = here.joined(row)
    assert both.members == ("new", "s2", "s3", "s4", "s5")
    assert both.places == {"a": "new", "b": "s2", "c": "s3", "d": "s3", "e": "s4"}
    assert row.joined(FleetOrders(members=("s1",), places={"a": "s1"})) == row


@pytest.mark.parametrize("wrong", [{"number": -1}, {"at_once": -1}, {"members": ("a b",)}])
def test_orders_that_cannot_be_are_refused(wrong):
    """A number below zero would stop a fleet without a word."""
    with pytest.raises(ValueError, match="of a fleet"):
        FleetOrders(**wrong)


def part_of(name: str, uuid: str = "", **more: Any) -> ServerRecords:
    """Return a server of a list, which has begun."""
    record = FleetRecord(
        store=BatchTable("shop", "_spirit_py_batch_a"), fleet="a", orders=KNOWN,
        coordinated=True, tables=(), at_work=(), left=(),
    )  # fmt: skip
    reached = ConnectionOptions(host=name, port=3306, user="u")
    member = FleetMember(name=name, connection=reached, database="")
    given = {"identity": uuid or name, "records": [record]} | more
    return ServerRecords(member=member, table="", **given)


def meeting(*parts: ServerRecords) -> list[str]:
    """Return the names of the servers whose locks commands for them take."""
    return [one.member.name for one in where_to_meet(parts)]


def test_commands_meet_on_each_server_that_their_lists_have_in_common():
    """In one order, so that neither waits for the other; under whatever names and addresses."""
    assert meeting(part_of("s2"), part_of("s1"), part_of("s3")) == ["s1", "s2", "s3"]
    ours = meeting(part_of("a", "u2"), part_of("b", "u1"))
    theirs = meeting(part_of("c", "u3"), part_of("d", "u2"))
    assert (ours, theirs) == (["b", "a"], ["d", "c"])
    # Two schemas of one server; a server that does not answer; one that has not begun.
    assert len(meeting(part_of("s1", "u"), part_of("s2", "u"))) == 1
    away = part_of("s1", error=MigrationFailure("it is away"))
    assert meeting(away, part_of("s2", records=[])) == ["s2"]


def test_a_server_with_the_uuid_of_another_one_has_its_own_lock(monkeypatch):
    """Its data directory is a copy, with the file that keeps the identifier."""

    class Server(contextlib.nullcontext[Any]):
        def __init__(self, options: ConnectionOptions, **_: Any) -> None:
            super().__init__(self)
            shown = {"hostname": options.host, "port": 3306, "datadir": "/data/"}
            self.shown = {"server_uuid": "u1", "lower_case_table_names": 0, **shown}

        def query(self, sql: str) -> list[tuple[object, ...]]:
            *names, last = re.findall(r"@@GLOBAL\.(\w+)", sql)
            return [(" ".join(str(self.shown[name]) for name in names), self.shown[last])]

    monkeypatch.setattr(fleet_records, "connect_first", Server)
    monkeypatch.setattr(fleet_records, "doubtful", contextlib.nullcontext)
    monkeypatch.setattr(fleet_records, "marked_tables", lambda _: [])
    parts = [part_of(name, "") for name in ("s1", "s2", "s1")]
    fleet_records.look_at(parts)
    assert meeting(*parts) == ["s1", "s2"]


@pytest.mark.parametrize("locked", ["sandbox", "of_a"])
def test_a_locked_table_of_another_schema_holds_up_no_order(monkeypatch, locked):
    """Each of them is waited for one second, and only one of a schema (R26)."""
    looked, bounded = list[str](), list[str]()

    class Server(contextlib.nullcontext[Any]):
        def query(self, sql: str) -> list[tuple[object, ...]]:
            return [(1, 1)] if "lock_wait_timeout" in sql else [("u1", 0)]

        def execute(self, sql: str) -> None:
            bounded.append(sql)

    def read(_session: object, name: tuple[str, str]) -> FleetRecord:
        assert "lock_wait_timeout = 1," in bounded[-1]
        looked.append(name[1])
        if name[0] == locked:
            raise ServerFault(1205, "Lock wait timeout exceeded", where="s1")
        return record_of()

    names = [("sandbox", "b1"), ("sandbox", "b2"), ("of_a", "b3"), ("of_a", "b4")]
    monkeypatch.setattr(fleet_records, "connect_first", lambda *_, **__: Server(Server()))
    monkeypatch.setattr(fleet_records, "marked_tables", lambda _: names)
    monkeypatch.setattr(fleet_records, "_read", read)
    monkeypatch.setattr(fleet_records, "_with_processes", lambda _, record: record)
    part = part_of("s1")
    part.member = replace(part.member, database="of_a")
    fleet_records.look_at([part])
    assert looked == (["b1", "b3", "b4"] if locked == "sandbox" else ["b1", "b2", "b3"])
    # One of its own schema may be the one that an order is for.
    assert (bool(part.records), part.error is None) == ((locked == "sandbox",) * 2)


def test_two_orders_whose_lists_share_one_server_do_not_meet_half_way(monkeypatch):
    """The second one is given after the first one has reached all of its servers."""
    taken: list[tuple[str, str]] = []
    busy = {"s2"}

    @contextlib.contextmanager
    def session(options: ConnectionOptions, **_: Any) -> Iterator[str]:
        yield options.host

    def take(at: str, name: str, *, timeout: float) -> bool:
        assert 0 < timeout <= 60
        taken.append((at, name))
        return at not in busy

    def look_at(parts: Sequence[ServerRecords]) -> None:
        for one in parts:
            vars(one).update(vars(part_of(one.member.name)))

    monkeypatch.setattr(fleet_records, "connect_first", session)
    monkeypatch.setattr(orders, "take_named_lock", take)
    for module in (orders, fleet_records):
        monkeypatch.setattr(module, "look_at", look_at)
    monkeypatch.setattr(ServerRecords, "order", lambda *_, **__: pytest.fail("ordered"))
    members = [part_of(name).member for name in ("s3", "s1", "s2")]
    with pytest.raises(Refusal, match="another spirit-py ctl --fleet"):
        orders.order_fleet(members, table="", verb="abort", arguments={}, say=lambda _: None)
    assert [at for at, _ in taken] == ["s1", "s2"]
    assert len({name for _, name in taken}) == 1


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_an_order_copies_nothing_of_a_row_that_may_be_forged(monkeypatch, away, paused):
    """The other server that has begun does not answer; but no pause is ended by the way."""
    written: list[FleetOrders] = []
    row = order(10, at_once=10_000, paused=paused)

    def look_at(parts: Sequence[ServerRecords]) -> None:
        for one in parts:
            vars(one).update(vars(part_of(one.member.name)))
            one.records = [replace(each, orders=row) for each in one.records]
            if one.member.name == "s1":
                one.records = []
                one.error = MigrationFailure("it is away") if away else None

    monkeypatch.setattr(orders, "sessions_on", lambda *_: [])
    for module in (orders, fleet_records):
        monkeypatch.setattr(module, "look_at", look_at)
    monkeypatch.setattr(ServerRecords, "order", lambda _, given, **__: written.append(given))
    monkeypatch.setattr(orders, "_WRITES", 1)
    members = [part_of(name).member for name in ("s1", "s2")]
    with pytest.raises(MigrationFailure, match="away") if away else contextlib.nullcontext():
        orders.order_fleet(members, table="", verb="abort", arguments={}, say=lambda _: None)
    (given,) = written
    assert (given.paused, given.at_once) == (paused, 0 if away else 10_000)


def written_by(monkeypatch: pytest.MonkeyPatch, **servers: Any) -> dict[str, FleetOrders]:
    """Return what is written on each of these servers: their records, or why they are away."""
    written: dict[str, FleetOrders] = {}

    def look_at(parts: Sequence[ServerRecords]) -> None:
        for one in parts:
            found = servers[one.member.name]
            away = isinstance(found, Exception)
            vars(one).update(vars(part_of(one.member.name)))
            one.records, one.error = ([], found) if away else (list(found), None)

    def order(self: ServerRecords, given: FleetOrders, **_: Any) -> None:
        written[self.member.name] = given

    monkeypatch.setattr(orders, "sessions_on", lambda *_: [])
    for module in (orders, fleet_records):
        monkeypatch.setattr(module, "look_at", look_at)
    monkeypatch.setattr(ServerRecords, "order", order)
    monkeypatch.setattr(orders, "_WRITES", 1)
    monkeypatch.setattr(orders, "_AGAIN_SECONDS", 0.0)
    return written


def server_plan(name: str) -> ServerPlan:
    """Return the plan of a server that has begun."""
    each = MigrationConfig(connection=ConnectionOptions(host=name), database="shop")
    server = FleetServer(name=name, batch=BatchConfig(each=each, fleet="1" * 32))
    batch = BatchPlan(name="b", server_uuid=name, tables=(), earlier={}, orders=KNOWN)
    return ServerPlan(server=server, batch=batch)


class Row:
    """The record of a server, with its orders, and of what it is a part."""

    def __init__(self, row: FleetOrders) -> None:
        self.row, self.fleet = row, "0" * 32

    def join(self, _session: object, fleet: str) -> None:
        """Note that."""
        self.fleet = fleet

    def orders(self, _session: object) -> FleetOrders:
        """Return them."""
        return self.row

    def order(self, _session: object, orders: FleetOrders) -> None:
        """Replace them."""
        self.row = orders


def test_an_order_that_is_given_while_a_command_begins_stays(monkeypatch):
    """It has read the records before that, for its prompt; the operator was told that it holds."""
    monkeypatch.setattr(fleet_records, "connect", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(fleet_records, "server_now", lambda _: NOW / 1000)
    plans = tuple(map(server_plan, ("s1", "s2")))
    rows = {one.server.name: Row(KNOWN) for one in plans}
    monkeypatch.setattr(fleet_records, "record_of", lambda _, plan: rows[plan.server.name])
    meanwhile = order(100, paused=True)
    rows["s1"].row = rows["s2"].row = meanwhile
    config = FleetConfig(servers=tuple(one.server for one in plans), asked="")
    carried = entry._carried_on(config, FleetPlan(servers=plans, orders=KNOWN)).orders
    assert [one.row for one in rows.values()] == [meanwhile] * 2
    # An order for the change finds all of them, however it was spelled when they began.
    assert {one.fleet for one in rows.values()} == {plans[0].server.batch.fleet}
    # What looks at the records from now on obeys it.
    assert agreed([one.row for one in rows.values()], carried, begun=2) == meanwhile
    # That a server is done is noted all the same.
    fleet_records.order(plans[0], carried, finished=("s1",))
    assert rows["s1"].row == replace(meanwhile, finished=("s1",))


def test_a_command_with_a_shorter_list_erases_no_note_of_other_servers(monkeypatch):
    """One row alone names the third: it is doubted, and the next command is warned of it, too."""
    monkeypatch.setattr(fleet_records, "connect", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(fleet_records, "server_now", lambda _: NOW / 1000)
    row = Row(replace(KNOWN, members=("s1", "s2", "s3")))
    monkeypatch.setattr(fleet_records, "record_of", lambda *_: row)
    fleet_records.order(server_plan("s1"), order(100, members=("s1", "s2")))
    assert (row.row.number, row.row.members) == (NOW - 100, ("s1", "s2", "s3"))


def test_an_order_erases_nothing_that_commands_have_noted(monkeypatch):
    """The coordinator has just written that all are done, since the command has read the record.

    Without the members all records are dropped while servers of another list are left.
    """
    monkeypatch.setattr(
        fleet_records, "connect_first", lambda *_, **__: contextlib.nullcontext(None)
    )
    monkeypatch.setattr(fleet_records, "server_now", lambda _: NOW / 1000)
    noted = replace(KNOWN, finished=("s1",), members=("s1", "s2"), places={"a": "s1"})
    row = Row(noted)
    part = part_of("s1")
    part.records = [replace(record_of(), store=row)]
    ordered = order(100, paused=True, members=("x",), places={"b": "x"})
    part.order(ordered, resumes=False)
    assert part.error is None
    assert row.row == replace(noted, number=ordered.number, paused=True)


@pytest.mark.parametrize(
    ("states", "why", "code"),
    [
        (["done"], STOPPED, 0),
        (["done", "running"], STOPPED, 143),
        ([], STOPPED, 143),
        (["done"], LOST, 1),
        (["running"], LOST, 1),
    ],
)
def test_what_a_process_has_done_that_told_no_end_is_in_its_record(monkeypatch, states, why, code):
    """As long as it works there, or could not be asked, nothing is known of it."""
    held = [True, False]
    tables = {
        number: TableRecord(schema="shop", table=f"t{number}", statement="", state=state)
        for number, state in enumerate(states)
    }
    store = SimpleNamespace(tables=lambda _: tables) if states else None
    monkeypatch.setattr(fleet_records, "connect", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(fleet_records, "_held", lambda *_: held.pop(0))
    monkeypatch.setattr(fleet_records, "record_of", lambda *_: store)
    assert fleet_records.left_by(server_plan("s1"), why) is None
    found = fleet_records.left_by(server_plan("s1"), why)
    assert found is not None
    assert (found.exit_code, len(found.tables)) == (code, len(states))


@pytest.mark.parametrize(
    ("members", "broken", "told", "hint"),
    [
        (("s1", "s2"), "", "", ""),
        (("s1", "s2", "s9"), "", "also had other servers: s9", "or given up, .* the same command"),
        (("s1", "s2"), "forget", "s2: its record could not be dropped: gone", "forget drops them"),
        (("s1", "s2"), "order", "s2: its record could not be marked", "forget drops them"),
    ],
)
def test_what_is_left_of_a_change_that_is_done_has_a_remedy_that_helps(
    monkeypatch, members, broken, told, hint
):
    """The same command ends so for ever, or refuses the servers whose records it has dropped."""

    def action(name: str) -> Any:
        def act(plan: ServerPlan, *_: object, **__: object) -> None:
            if name == broken and plan.server.name == "s2":
                raise MigrationFailure("gone")

        return act

    for name in ("order", "forget"):
        monkeypatch.setattr(fleet_records, name, action(name))
    plans = tuple(map(server_plan, ("s1", "s2")))
    left = fleet_records.finish(plans, replace(KNOWN, members=members), StopSwitch())
    assert (left is not None) is bool(told)
    if left is None:
        return
    ended = report.FleetReport()
    ended.conclude(None, seconds=1.0, left_over=left)
    assert (ended.exit_code, ended.error_code) == (1, ErrorCode.RECORDS_LEFT)
    assert told in ended.error
    assert re.search(hint, ended.hint)


def record_of(store: str = "a", fleet: str = "a", row: FleetOrders = KNOWN) -> FleetRecord:
    """Return a record of a fleet, in a schema of its own table."""
    schema, name = f"of_{store}", f"_spirit_py_batch_{store}"
    return FleetRecord(
        store=BatchTable(schema, name), fleet=fleet, orders=row, tables=((schema, "t"),), left=()
    )


def pause(said: list[str], *names: str) -> None:
    """Pause these servers."""
    members = [part_of(name).member for name in names]
    orders.order_fleet(members, table="", verb="pause", arguments={}, say=said.append)


def test_the_records_of_one_server_count_once(monkeypatch):
    """Whoever may make tables there would decide which change is meant (R26)."""
    forged = [record_of(f"f{number}", "f", order(1, at_once=9)) for number in range(5)]
    written = written_by(monkeypatch, s1=[record_of()], s2=[record_of(), *forged])
    said: list[str] = []
    pause(said, "s1", "s2")
    assert [(one.paused, one.at_once) for one in written.values()] == [(True, 0)] * 2
    assert sum("is of another change" in line for line in said) == 5


def test_a_server_with_two_records_of_the_change_is_left_out_and_named(monkeypatch):
    """One is a copy that somebody has forged, with an order that nobody has given (R26)."""
    forged = [record_of("f", row=ABORT), record_of("g", row=ABORT)]
    written = written_by(monkeypatch, s1=[record_of(), *forged], s2=[record_of()], s3=[record_of()])
    said: list[str] = []
    with pytest.raises(Refusal, match="several records of this change"):
        pause(said, "s1", "s2", "s3")
    assert {name: one.aborted for name, one in written.items()} == {"s2": False, "s3": False}
    with pytest.raises(Refusal, match="several records of this change"):
        pause(said, "s1")


def test_schemas_of_one_server_count_each_and_another_schema_of_it_does_not():
    """Unless nothing else is known of that server: an entry without a schema has any."""
    own = [part_of("s1", "u", records=[record_of("a")]), part_of("s2", "u", records=[])]
    own[0].member = replace(own[0].member, database="of_a")
    own[1].member = replace(own[1].member, database="of_b")
    own[1].records = [record_of("c", row=ABORT)]
    assert fleet_records.rows_of(own, "a") == [KNOWN]
    own[1].records.append(record_of("b", row=PAUSE))
    assert fleet_records.rows_of(own, "a") == [KNOWN, PAUSE]
    assert fleet_records.rows_of([part_of("s3", records=[record_of("c")])], "a") == [KNOWN]


def test_a_record_in_a_schema_without_a_table_of_it_is_nobodys():
    """Its name can be guessed: whoever may write any schema could make it."""
    part = part_of("s1")
    kept = record_of("a")
    elsewhere = replace(kept, store=BatchTable("sandbox", kept.store.name[1]))
    assert [part.means(one, folds=False) for one in (kept, elsewhere)] == [True, False]


def test_an_order_that_one_server_alone_has_is_not_said_to_hold(monkeypatch):
    """The other one of the list does not answer, and may have begun: then two must have it."""
    written = written_by(monkeypatch, s1=[record_of()], s2=MigrationFailure("it is away"))
    said: list[str] = []
    with pytest.raises(MigrationFailure, match="the order may not count"):
        pause(said, "s1", "s2")
    assert written["s1"].paused
    assert not any(line.startswith("paused") for line in said)


def test_an_order_by_a_clock_that_is_behind_is_later_than_what_is_there(monkeypatch):
    """Otherwise it is not written over a row whose content alone is not believed."""
    row = order(-3_600_000)
    written = written_by(monkeypatch, s1=[record_of(row=row)], s2=MigrationFailure("it is away"))
    with pytest.raises(MigrationFailure, match="the order may not count"):
        pause([], "s1", "s2")
    # Nor by a command that withdraws an abort with the next number, from what it saw before.
    assert written["s1"].number == row.number + 2
    # One that would soon be from the future by another clock would keep all orders from counting.
    servers: dict[str, Any] = {"s1": [record_of(row=order(-80_000_000))], "s2": [record_of()]}
    written = written_by(monkeypatch, **servers)
    with contextlib.suppress(MigrationFailure):
        pause([], "s1", "s2")
    assert written["s2"].number < NOW + 43_200_000


def test_the_state_of_a_fleet_says_which_order_one_server_alone_has(monkeypatch):
    """It may hold or not; of other changes on these servers nothing is taken over."""
    away = MigrationFailure("it is away")
    written_by(monkeypatch, s1=[record_of(row=PAUSE)], s2=away, s3=[record_of("o", "o", ABORT)] * 2)
    monkeypatch.setattr(report, "batches", lambda *_, **__: [])
    members = [part_of(name).member for name in ("s1", "s2")]
    (first, _) = report.status_of(members, "")
    assert (first["paused"], first["order_alone"]) == (False, True)
    assert "has an order that no other one here has" in report.lines_of([first])[0]
    (first, other) = report.status_of([members[0], part_of("s3").member], "")
    assert (first["paused"], first["aborted"], first["order_alone"]) == (True, False, False)
    assert (other["paused"], other["aborted"]) == (False, True)


def test_a_server_that_is_lost_before_its_lock_is_taken_does_not_end_the_order(monkeypatch):
    """The others are ordered, and it is named."""
    ordered: list[str] = []

    @contextlib.contextmanager
    def session(options: ConnectionOptions, **_: Any) -> Iterator[str]:
        yield options.host

    def take(at: str, _name: str, **_: Any) -> bool:
        if at == "s1":
            raise ServerFault(2013, "Lost connection", where="s1")
        return True

    def look_at(parts: Sequence[ServerRecords]) -> None:
        for one in parts:
            vars(one).update(vars(part_of(one.member.name)))

    def order(self: ServerRecords, *_: Any, **__: Any) -> None:
        ordered.append(self.member.name)

    monkeypatch.setattr(fleet_records, "connect_first", session)
    monkeypatch.setattr(orders, "take_named_lock", take)
    for module in (orders, fleet_records):
        monkeypatch.setattr(module, "look_at", look_at)
    monkeypatch.setattr(ServerRecords, "order", order)
    members = [part_of(name).member for name in ("s1", "s2", "s3")]
    with pytest.raises(ServerFault, match="Lost connection"):
        orders.order_fleet(members, table="", verb="abort", arguments={}, say=lambda _: None)
    # Its lock is not had: it answers again, and is ordered by its coordinator alone.
    assert set(ordered) == {"s2", "s3"}


TABLE = ("shop", "orders")


class AtWork:
    """A fleet of one server, whose process takes requests, and ends, after so many of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, takes: int, ends: int = 99) -> None:
        self.asked, self.said = 0, list[str]()
        self._takes, self._ends = takes, ends

        def look_at(parts: Sequence[ServerRecords]) -> None:
            for one in parts:
                vars(one).update(vars(part_of(one.member.name)))
                working = (TABLE,) if self.asked < self._ends else ()
                one.records = [replace(each, at_work=working) for each in one.records]

        monkeypatch.setattr(orders, "sessions_on", lambda *_: [])
        for module in (orders, fleet_records):
            monkeypatch.setattr(module, "look_at", look_at)
        monkeypatch.setattr(ServerRecords, "order", lambda *_, **__: None)
        monkeypatch.setattr(orders, "control", self._control)
        monkeypatch.setattr(orders, "_AGAIN_SECONDS", 0.0)
        monkeypatch.setattr(orders, "_WRITES", 1)

    def _control(self, *_: object, **__: object) -> None:
        self.asked += 1
        if self.asked < self._takes:
            code = ErrorCode.NOTHING_TO_CONTROL
            raise Refusal("it takes no requests", hint="ask again", error_code=code)

    def order(self, verb: str, **arguments: str) -> None:
        """Give an order to it."""
        member = part_of("s1").member
        orders.order_fleet([member], table="", verb=verb, arguments=arguments, say=self.said.append)


@pytest.mark.parametrize("verb", ["postpone", "set", "pause"])
def test_one_that_takes_no_requests_yet_is_asked_until_it_does(monkeypatch, verb):
    """It still checks its table; without the order it would swap."""
    fleet = AtWork(monkeypatch, takes=3)
    fleet.order(verb, **({"max-load": "Threads_running=10"} if verb == "set" else {}))
    assert fleet.asked == 3
    assert not any("takes no requests" in line for line in fleet.said)


@pytest.mark.parametrize("verb", ["postpone", "pause", "abort", "set", "cutover"])
def test_one_that_takes_no_requests_at_all_is_an_error_where_it_was_to_be_held(monkeypatch, verb):
    """It lives, so that it has not ended, and goes on without the order; else all others obeyed."""
    monkeypatch.setattr(orders, "_BEGINNING_SECONDS", 0.0)
    fleet = AtWork(monkeypatch, takes=99)
    held = verb in {"postpone", "pause", "abort"}
    ends = pytest.raises(Refusal, match="takes no req") if held else contextlib.nullcontext()
    with ends:
        fleet.order(verb, **({"max-load": "Threads_running=10"} if verb == "set" else {}))
    assert any("it takes no requests" in line for line in fleet.said)


@pytest.mark.parametrize("cleanup", [False, True])
def test_one_that_has_ended_meanwhile_needs_no_order(monkeypatch, cleanup):
    """But that it was not asked to drop its copy, the operator should know."""
    fleet = AtWork(monkeypatch, takes=99, ends=1)
    ends = pytest.raises(Refusal) if cleanup else contextlib.nullcontext()
    with ends:
        fleet.order("abort", **({CLEANUP: "1"} if cleanup else {}))
    assert fleet.asked == 1
    assert any("it takes no requests" in line for line in fleet.said)


@pytest.mark.parametrize("number", ["0", "10001", "x", "9" * 5000])
def test_a_number_of_servers_that_is_none_is_refused(monkeypatch, number):
    """However long it is."""
    fleet = AtWork(monkeypatch, takes=0, ends=0)
    with pytest.raises(UsageFault, match="is no number"):
        fleet.order("set", **{orders.AT_ONCE: number})


def test_where_nothing_is_at_work_that_is_said(monkeypatch):
    """A postponed swap would be awaited in vain."""
    fleet = AtWork(monkeypatch, takes=0, ends=0)
    fleet.order("postpone")
    assert fleet.asked == 0
    assert fleet.said == ["no migration is at work on these servers now: none was asked"]


@pytest.mark.parametrize(
    ("database", "table", "folds", "meant"),
    [
        ("shop", "orders", 0, True),
        ("", "", 0, True),
        ("SHOP", "Orders", 0, False),
        ("SHOP", "Orders", 1, True),
        ("shop", "ORDERS", 2, True),
        ("SHOP", "other", 1, False),
    ],
)
def test_a_server_that_keeps_no_capital_letters_finds_its_record(database, table, folds, meant):
    """Otherwise an order would pass by the server whose list has other letters."""
    reached = ConnectionOptions(host="db1", port=3306, user="u")
    member = FleetMember(name="s1", connection=reached, database=database)
    part = ServerRecords(member=member, table=table)
    (record,) = part_of("s1").records
    record = replace(record, tables=(("shop", "orders"),))
    assert part.means(record, folds=bool(folds)) is meant

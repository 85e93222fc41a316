"""A fleet: one change on many servers; each schema here stands for a server."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import spirit_py
from spirit_py import points
from spirit_py.api.values import option_values
from spirit_py.batch.planning import plan_batch
from spirit_py.batch.store import (
    BatchRecord,
    BatchTable,
    TableRecord,
    TableState,
    marked_tables,
    refuse_others,
)
from spirit_py.classes import replace
from spirit_py.cli.fleet import fleet_config
from spirit_py.cli.migrate import migrate
from spirit_py.command_config import FleetOrders
from spirit_py.config import ConnectionOptions
from spirit_py.fleet import orders as orders_module
from spirit_py.fleet.entry import Holds
from spirit_py.fleet.orders import forget_fleet, order_fleet
from spirit_py.fleet.planning import plan_fleet
from spirit_py.fleet.records import FleetMember, ServerRecords, look_at
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.migration.control.subject import Verb
from spirit_py.options.commands import FleetArguments
from spirit_py.sql import quote_identifier
from spirit_py.table.names import lock_name
from tests.kits import kills
from tests.kits.batch import ShardWriters, batch_config, shards
from tests.kits.fleet import Listed, named
from tests.kits.point_listener import PointListener
from tests.kits.tables import open_session
from tests.kits.waiting import until

WIDER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5, FORCE"
#: Leaves no trace in a definition.
REBUILD = "ENGINE=InnoDB"
MINUTE = 60.0


@pytest.fixture
def four(db, tmp_path):
    """Four servers with a shard each."""
    with shards(db, 4) as made:
        yield Listed(made, tmp_path)


@pytest.fixture
def listener(tmp_path):
    """Listen to the points of the coordinator and of the servers' processes."""
    with PointListener(tmp_path / "points") as found:
        yield found


def at(listener):
    """Return the variable that has a process wait at a point."""
    return {points.VARIABLE: str(listener.path)}


def records(fleet):
    """Return the batch records that are left, by schema."""
    with open_session(fleet.db) as session:
        found = {}
        for schema, name in marked_tables(session):
            if schema in fleet.made.schemas:
                tables = BatchTable(schema, name).tables(session).values()
                found[schema] = [one.state for one in tables]
        return found


def await_held(process, hold):
    """Wait until a process is held at a point."""
    deadline = time.monotonic() + 2 * MINUTE
    while not hold.held.wait(0.05):
        assert process.poll() is None, f"ended before {hold.point}: {process.communicate()[1]}"
        assert time.monotonic() < deadline, f"never reached {hold.point}"


def await_no_process(fleet):
    """Wait until no process works on a shard: those of a killed coordinator end by themselves."""
    schemas = ", ".join(f"'{one}'" for one in fleet.made.schemas)
    deadline = time.monotonic() + MINUTE
    while fleet.db.query(
        "SELECT 1 FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t ON t.THREAD_ID = v.THREAD_ID"
        " WHERE v.VARIABLE_NAME = 'spirit_py_run'"
    ):
        assert time.monotonic() < deadline, f"sessions are left of {schemas}"
        time.sleep(0.05)


def assert_clean(fleet):
    """Nothing but the tables is left."""
    assert set(map(tuple, fleet.made.tables().values())) == {("orders",)}


# -- the whole way


def test_all_servers_are_changed_wave_after_wave(four):
    """Canary, then the waves of a label; no write is lost, and no record is left."""
    with ShardWriters(four.made) as writers:
        report, events = four.migrate("--alter", WIDER, "--canary", "1", "--waves-by", "region")
    assert report["outcome"] == "done", report
    assert four.states(report) == dict.fromkeys(four.names, "done")
    assert four.made.type_of("z") == ["int"] * 4
    writers.assert_kept()
    assert [one["wave"] for one in named(events, "wave.begun")] == ["canary", "eu", "us"]
    order = [
        (one["event"], one["fleet_server"])
        for one in events
        if one["event"] in {"server.begun", "server.ended"}
    ]
    assert order[:2] == [("server.begun", "s1"), ("server.ended", "s1")]
    assert {name for _, name in order[2:6]} == {"s2", "s4"}
    assert {name for _, name in order[6:]} == {"s3"}
    swaps = named(events, "swap.done")
    assert sorted((one["fleet_server"], one["table"]) for one in swaps) == [
        (name, f"{schema}.orders")
        for name, schema in zip(four.names, four.made.schemas, strict=True)
    ]
    assert report["totals"]["rows_copied"] > 4 * 2000
    assert report["totals"]["differences_found"] == 0
    assert_clean(four)


@pytest.mark.slow
def test_a_program_changes_all_servers(four):
    """The library's function, with its events; the same report as the command's."""
    how = {
        "servers": four.file, "user": four.db.server.user, "password": four.db.server.password,
        "table": "orders", "alter": WIDER,
    }  # fmt: skip
    with spirit_py.start_fleet(**how) as running:
        planned = [one for one in running if one.name == "server.planned"]
        report = running.report
    assert [one.fleet_server for one in planned] == four.names
    assert [one["state"] for one in report.servers] == ["done"] * 4
    assert four.made.type_of("z") == ["int"] * 4
    assert_clean(four)
    with pytest.raises(spirit_py.Refusal, match="4 of 4 servers cannot be changed"):
        spirit_py.migrate_fleet(**how | {"alter": "ADD COLUMN z INT"})


@pytest.mark.slow
def test_at_most_so_many_of_a_label_at_a_time(four):
    """The events say who was at work with whom."""
    _, events = four.migrate("--alter", REBUILD, "--at-once-of", "region=1")
    at_work, most = set(), 0
    for one in events:
        if one["event"] == "server.begun":
            at_work.add(one["fleet_server"])
        elif one["event"] == "server.ended":
            at_work.discard(one["fleet_server"])
        assert not {"s1", "s3"} <= at_work
        assert not {"s2", "s4"} <= at_work
        most = max(most, len(at_work))
    assert most == 2


@pytest.mark.slow
def test_the_plan_has_a_line_for_each_server_and_writes_nothing(four):
    """A definition that differs, and a table that is refused, are named with their server."""
    *_, third, last = four.made.names
    four.db.execute(f"ALTER TABLE {third} MODIFY b VARCHAR(60)")
    before = four.made.tables()
    alter = ("--table", "orders", "--alter", "ADD COLUMN z INT, ADD INDEX (b)")
    planned = four.run("plan", *alter)
    assert planned.returncode == 0, planned.stderr
    assert [
        line.split()[0] for line in planned.stdout.splitlines() if line[:1] == "s"
    ] == four.names
    assert f"{third} has `b` varchar(60)" in planned.stdout
    assert "time: about" in planned.stdout
    four.db.execute(f"ALTER TABLE {last} ADD COLUMN z INT")
    refused = four.run("plan", *alter, "--format", "json")
    document = json.loads(refused.stdout)
    assert refused.returncode == 2
    assert [one["name"] for one in document["servers"] if one["refused"]] == ["s4"]
    assert "z" in document["servers"][3]["refusals"][0]
    assert document["totals"]["left"] == 3
    report, _ = four.migrate(*alter[2:])
    assert report["exit_code"] == 2
    assert "1 of 4 servers cannot be changed; nothing was written" in report["error"]
    assert report["details"][0].startswith("s4: ")
    assert four.made.tables() == before
    assert four.made.type_of("z")[:3] == [""] * 3


@pytest.mark.slow
def test_with_failures_allowed_the_others_are_changed_and_the_rest_is_resumed(four):
    """A server that is away and one that refuses: both are named, and done by the next command."""
    bad = four.made.names[1]
    four.db.execute(f"ALTER TABLE {bad} ADD COLUMN z INT")
    four.write(four.names, more="mysql://127.0.0.1:1/shop name=away region=us")
    report, _ = four.migrate("--alter", "ADD COLUMN z INT, FORCE", "--stop-after", "3")
    assert report["exit_code"] == 1
    done = dict.fromkeys(("s1", "s3", "s4"), "done")
    assert four.states(report) == {**done, "s2": "refused", "away": "refused"}
    assert sorted(records(four)) == [four.made.schemas[0], *four.made.schemas[2:]]
    four.write(four.names)
    four.db.execute(f"ALTER TABLE {bad} DROP COLUMN z")
    report, events = four.migrate("--alter", "ADD COLUMN z INT, FORCE")
    assert [one["fleet_server"] for one in named(events, "server.begun")] == ["s2"]
    assert four.made.type_of("z") == ["int"] * 4
    assert report["exit_code"] == 1
    assert "also had other servers: away" in report["error"]
    assert four.states(report) == dict.fromkeys(four.names, "done")
    assert sorted(records(four)) == sorted(four.made.schemas)
    given_up = four.run("ctl", "forget")
    assert given_up.returncode == 0, given_up.stderr
    assert [line.split()[0] for line in given_up.stdout.splitlines()] == [
        "s1:",
        "s2:",
        "s3:",
        "s4:",
    ]
    assert_clean(four)


@pytest.mark.slow
def test_a_canary_that_fails_stops_the_rest(four, listener):
    """Its process is killed: no other server is begun, and the same command carries on."""
    hold = listener.hold("chunk.dispatched")
    process = four.start("--alter", WIDER, "--canary", "1", **at(listener))
    await_held(process, hold)
    os.kill(hold.pid, signal.SIGKILL)
    report, events = four.end(process)
    hold.release()
    assert report["exit_code"] == 1
    assert four.states(report) == {"s1": "failed", **dict.fromkeys(four.names[1:], "waiting")}
    assert "was killed by signal 9" in report["servers"][0]["error"]
    assert len(named(events, "server.begun")) == 1
    await_no_process(four)
    report, _ = four.migrate("--alter", WIDER, "--canary", "1")
    assert report["outcome"] == "done", report
    assert four.made.type_of("z") == ["int"] * 4
    assert_clean(four)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_of_twenty_four_are_killed_and_exactly_these_are_left(db, tmp_path, listener):
    """Each of the five keeps what it has copied, and the same command does these five."""
    with shards(db, 24, rows=300) as made:
        fleet = Listed(made, tmp_path)
        hold = listener.hold("chunk.dispatched")
        process = fleet.start(
            "--alter", WIDER, "--stop-after", "6", "--canary", "2", **at(listener)
        )
        await_held(process, hold)
        # The canaries go first, and are none of the five.
        hold.release()
        for _ in range(5):
            hold = listener.hold_after("feed.started", 4)
            await_held(process, hold)
            os.kill(hold.pid, signal.SIGKILL)
            hold.release()
        report, _ = fleet.end(process)
        assert report["exit_code"] == 1, report
        states = fleet.states(report)
        killed = {name for name, state in states.items() if state == "failed"}
        assert len(killed) == 5, states
        assert list(states.values()).count("done") == 19, states
        await_no_process(fleet)
        report, events = fleet.migrate("--alter", WIDER)
        assert report["outcome"] == "done", report
        assert {one["fleet_server"] for one in named(events, "server.begun")} == killed
        assert made.type_of("z") == ["int"] * 24
        assert_clean(fleet)


# -- killed, stopped, and two at once


def done_when_killed(four, listener, point, nth=1):
    """Kill a rebuild of each table at a point; return the schemas in which it is done."""
    hold = listener.hold(point, nth)
    process = four.start("--alter", REBUILD, "--canary", "1", **at(listener))
    await_held(process, hold)
    process.kill()
    process.communicate(timeout=MINUTE)
    hold.release()
    await_no_process(four)
    if point == "fleet.forgotten":
        return set(four.made.schemas)
    return {schema for schema, states in records(four).items() if states == ["done"]}


@pytest.mark.draws(1)
@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_A_FLEET, kills.MORE_OF_A_FLEET)
)
def test_killed_anywhere_the_same_command_changes_what_is_left(four, listener, point, nth):
    """A rebuild of each table, once: what was done before the kill keeps its number (R16)."""
    last = (point, nth) == ("fleet.forgotten", 3)
    with ShardWriters(four.made) as writers:
        done = done_when_killed(four, listener, point, nth)
        before = numbers(four)
        four.write([*reversed(four.names)])
        report, _ = four.migrate("--alter", REBUILD)
    if last:
        # One record's word is not enough for a change that leaves no trace.
        assert report["outcome"] == "failed", report
        assert "what an earlier run did stays" in report["error"]
        assert "nothing shows whether it was" in report["details"][0]
        assert four.run("ctl", "forget").returncode == 0
    else:
        assert report["outcome"] == "done", report
    after = numbers(four)
    assert {schema: after[schema] for schema in done} == {schema: before[schema] for schema in done}
    left = set(four.made.schemas) - done
    assert all(after[schema] != before[schema] for schema in left), report
    writers.assert_kept()
    assert_clean(four)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["fleet.ended", "fleet.forgotten"])
def test_a_server_that_has_another_name_by_now_is_the_same_server(four, listener, point):
    """What is done there is not done again, and no record stays because of its earlier name."""
    done = done_when_killed(four, listener, point)
    before = numbers(four)
    four.file.write_text(four.file.read_text().replace(" name=", " name=new-"))
    report, _ = four.migrate("--alter", REBUILD)
    assert report["outcome"] == "done", report
    after = numbers(four)
    assert {schema: after[schema] for schema in done} == {schema: before[schema] for schema in done}
    assert_clean(four)


def numbers(fleet):
    """Return InnoDB's number of each table: it changes whenever the table is rebuilt."""
    rows = fleet.db.query(
        "SELECT NAME, TABLE_ID FROM information_schema.INNODB_TABLES"
        f" WHERE NAME LIKE '{fleet.db.name}|_%/orders' ESCAPE '|'"
    )
    return {str(name).partition("/")[0]: int(number) for name, number in rows}


@pytest.mark.slow
def test_a_signal_stops_all_servers_and_the_same_command_resumes(four, listener):
    """SIGTERM while a server copies: its process ends in order, and keeps what it has copied."""
    # Its copy may be done before the signal reaches it; its swap waits, then.
    sentinel = f"{four.made.schemas[0]}._orders_snt"
    four.db.execute(f"CREATE TABLE {sentinel} (id INT)")
    hold = listener.hold("chunk.committed")
    process = four.start("--alter", WIDER, "--servers-at-once", "1", **at(listener))
    await_held(process, hold)
    assert hold.pid != process.pid
    process.send_signal(signal.SIGTERM)
    hold.release()
    report, _ = four.end(process)
    assert report["exit_code"] == 143
    assert report["outcome"] == "interrupted"
    assert four.states(report) == {"s1": "stopped", **dict.fromkeys(four.names[1:], "waiting")}
    await_no_process(four)
    four.db.execute(f"DROP TABLE {sentinel}")
    report, _ = four.migrate("--alter", WIDER)
    assert report["outcome"] == "done", report
    assert report["servers"][0]["report"]["runs"] == 2
    assert_clean(four)


@pytest.mark.slow
def test_two_coordinators_refuse_each_other(four, listener):
    """Also where the lists have only one server in common; nothing is written by the second."""
    hold = listener.hold("fleet.begins")
    process = four.start("--alter", WIDER, **at(listener))
    await_held(process, hold)
    four.write(["s4"])
    second = four.run("migrate", "--table", "orders", "--alter", WIDER, "--yes")
    assert second.returncode == 2
    assert "s4: another command with this change for several servers is running" in second.stderr
    hold.release()
    report, _ = four.end(process)
    assert report["outcome"] == "done"
    assert_clean(four)


# -- operators


@pytest.mark.slow
def test_an_operator_pauses_limits_and_resumes_all_servers(four, listener):
    """While a server is at work: nothing begins in a pause, and its limit counts after that."""
    hold = listener.hold("chunk.dispatched")
    process = four.start("--alter", WIDER, "--servers-at-once", "1", **at(listener))
    await_held(process, hold)
    status = four.run("ctl", "status")
    assert "s2: not begun" in status.stdout, status.stderr
    assert f"at work: {four.made.names[0]}" in status.stdout
    assert "1 of 4 servers have begun; a process coordinates them" in status.stdout
    paused = four.run("ctl", "pause")
    assert paused.returncode == 0, paused.stderr
    first, second = paused.stdout.splitlines()[:2]
    assert first == "paused: no server and no table begins"
    assert second.startswith(f"s1 {four.made.names[0]}: ")
    hold.release()
    limited = four.run("ctl", "set", "servers-at-once=2")
    assert limited.stdout.splitlines() == ["at most 2 servers at a time"], limited.stderr
    shown = json.loads(four.run("ctl", "status", "--json").stdout)
    assert (shown[0]["paused"], shown[0]["servers_at_once"]) == (True, 2)
    assert listener.count("fleet.begins") == 1
    resumed = four.run("ctl", "resume")
    assert resumed.stdout.startswith("goes on"), resumed.stderr
    report, events = four.end(process)
    assert report["outcome"] == "done", report
    orders = [(one["paused"], one["at_once"]) for one in named(events, "fleet.ordered")]
    assert orders[0][0]
    assert orders[-1] == (False, 2)
    names = [one["event"] for one in events]
    last = len(names) - 1 - names[::-1].index("fleet.ordered")
    assert names[:last].count("server.begun") == 1
    assert_clean(four)
    ended = four.run("ctl", "pause")
    assert ended.returncode == 2
    assert "no change for several servers is under way" in ended.stderr


@pytest.mark.slow
def test_an_abort_ends_all_servers_and_the_same_command_carries_on(four, listener):
    """The exit code is that of an abort; the order of then does not end the next command."""
    hold = listener.hold("chunk.dispatched")
    process = four.start("--alter", WIDER, "--servers-at-once", "1", **at(listener))
    await_held(process, hold)
    aborting = subprocess.Popen(
        four.words("ctl", "abort"),
        env={**os.environ, "SPIRIT_PY_PASSWORD": four.db.server.password},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + MINUTE
    schema = four.made.schemas[0]
    while not any(orders.aborted for orders in ordered(four, schema)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    hold.release()
    said, _ = aborting.communicate(timeout=MINUTE)
    report, _ = four.end(process)
    assert report["outcome"] == "interrupted", said
    assert report["error_code"] == "aborted"
    assert report["exit_code"] == 143
    report, _ = four.migrate("--alter", WIDER)
    assert report["outcome"] == "done", report
    assert_clean(four)


def ordered(fleet, schema):
    """Return the orders that a server's records have."""
    with open_session(fleet.db) as session:
        return [
            BatchTable(*name).orders(session)
            for name in marked_tables(session)
            if name[0] == schema
        ]


@pytest.mark.slow
def test_an_order_reaches_servers_that_begin_while_it_is_written(four, monkeypatch):
    """Else one server alone would have it, which counts for nothing once several have begun."""
    found = [fleet_record(four, schema) for schema in four.made.schemas[:3]]
    begin(four, *found[0])
    left = found[1:]
    write = ServerRecords.order

    def meanwhile(part, orders, *, resumes):
        if left:
            begin(four, *left.pop(0))
        write(part, orders, resumes=resumes)

    monkeypatch.setattr(ServerRecords, "order", meanwhile)
    order_fleet(
        members_of(four), table="orders", verb=Verb.ABORT, arguments={}, say=lambda _line: None
    )
    assert not left
    kept = [orders for schema in four.made.schemas for orders in ordered(four, schema)]
    assert [one.aborted for one in kept] == [True] * 3
    assert len({one.number for one in kept}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("begins", [True, False])
def test_a_later_order_stays_and_is_told(four, monkeypatch, begins):
    """A server has it that begins meanwhile, or one that is just being ordered something else."""
    found = [fleet_record(four, schema) for schema in four.made.schemas[:3]]
    for one in found[:2] if begins else found:
        begin(four, *one)
    store, record = found[2]
    later, write = FleetOrders(number=time.time_ns() // 1_000_000 + 60_000), ServerRecords.order

    def meanwhile(part, orders, *, resumes):
        if part.member.name == ("s1" if begins else "s3") and orders.number < later.number:
            begin(four, store, record, later)
        write(part, orders, resumes=resumes)

    monkeypatch.setattr(ServerRecords, "order", meanwhile)
    said: list[str] = []
    with pytest.raises(spirit_py.MigrationFailure, match="a later order was given there"):
        order_fleet(
            members_of(four), table="orders", verb=Verb.ABORT, arguments={}, say=said.append
        )
    assert ordered(four, store.name[0]) == [later]
    assert any(line.startswith("s3: a later order") for line in said), said


TWO_DAYS = 172_800_000


@pytest.mark.slow
def test_an_order_by_a_clock_that_is_ahead_is_no_order(four, monkeypatch):
    """It would count for nobody, and keep each correct order from being written."""
    found = [fleet_record(four, schema) for schema in four.made.schemas[:2]]
    for one in found:
        begin(four, *one)
    ahead = {"time_ns": lambda: time.time_ns() + TWO_DAYS * 1_000_000}
    monkeypatch.setattr(orders_module, "time", SimpleNamespace(**(vars(time) | ahead)))
    with pytest.raises(
        spirit_py.MigrationFailure, match="clocks of this machine and of that server"
    ):
        order_fleet(members_of(four), table="orders", verb=Verb.PAUSE, arguments={}, say=print)
    kept = [orders for schema in four.made.schemas for orders in ordered(four, schema)]
    assert [one.number for one in kept] == [0, 0]


@pytest.mark.slow
def test_an_order_from_the_future_holds_up_no_other(four):
    """It was written by a clock that was ahead, or forged; a correct one is written over it."""
    future = FleetOrders(number=time.time_ns() // 1_000_000 + TWO_DAYS)
    for schema in four.made.schemas[:2]:
        store, record = fleet_record(four, schema)
        begin(four, store, record, future)
    order_fleet(members_of(four), table="orders", verb=Verb.PAUSE, arguments={}, say=print)
    kept = [orders for schema in four.made.schemas for orders in ordered(four, schema)]
    assert [one.paused for one in kept] == [True] * 2


@pytest.mark.slow
def test_an_order_that_a_coordinator_has_written_over_is_written_again(four, monkeypatch):
    """It has read the record before the order, and writes what it knew then after it."""
    found = [fleet_record(four, schema) for schema in four.made.schemas[:2]]
    for store, record in found:
        begin(four, store, record)
    write, over = ServerRecords.order, [found[0][0]]

    def written_over(part, orders, *, resumes):
        write(part, orders, resumes=resumes)
        if over and part.records[0].store.name == over[0].name:
            with open_session(four.db) as session:
                over.pop().order(session, FleetOrders())

    monkeypatch.setattr(ServerRecords, "order", written_over)
    order_fleet(
        members_of(four), table="orders", verb=Verb.PAUSE, arguments={}, say=lambda _line: None
    )
    assert not over
    kept = [orders for schema in four.made.schemas for orders in ordered(four, schema)]
    assert [one.paused for one in kept] == [True] * 2


@pytest.mark.slow
def test_an_order_says_which_servers_of_the_change_it_does_not_ask(four):
    """Nobody asks their migrations, and an order that one server alone has may be forged."""
    store, record = fleet_record(four, four.made.schemas[0])
    with open_session(four.db) as session:
        store.create(session, record, FleetOrders(number=1, members=("s1", "s2", "s9")))
        store.note(session, TableRecord(schema=store.name[0], table="orders", statement=""))
    said: list[str] = []
    with pytest.raises(spirit_py.MigrationFailure, match="the order may not count"):
        order_fleet(
            members_of(four)[:1], table="orders", verb=Verb.PAUSE, arguments={}, say=said.append
        )
    assert "2 servers of this change, s2, s9: not in this list" in said[0], said


@pytest.mark.slow
def test_a_change_is_not_forgotten_under_a_coordinator_that_begins(four, monkeypatch):
    """It has taken the lock of one server since its records were looked at."""
    found = [fleet_record(four, schema) for schema in four.made.schemas[:2]]
    for one in found:
        begin(four, *one)
    look, looks = look_at, []
    with open_session(four.db) as coordinator:

        def looked_at(parts):
            look(parts)
            assert take_named_lock(coordinator, lock_name("fleet", found[1][0].name[1]))
            looks.append(parts)

        monkeypatch.setattr(orders_module, "look_at", looked_at)
        with pytest.raises(spirit_py.Refusal, match="a process works on this change"):
            forget_fleet(members_of(four), table="orders", say=lambda _line: None)
    assert looks
    for schema in four.made.schemas[:2]:
        assert ordered(four, schema), schema


@pytest.mark.slow
def test_schemas_of_one_server_have_one_session_for_their_named_locks(four):
    """A session for each of hundreds would leave the application none (max_connections)."""
    plan = plan_of(four)
    locks = [lock_name("fleet", one.batch.name) for one in plan.servers if one.batch]
    with Holds(plan) as holds, open_session(four.db) as session:
        (holder,) = {named_lock_holder(session, lock) for lock in locks}
        assert holder is not None
        session.execute(f"KILL {holder}")
        until(
            lambda: {named_lock_holder(session, lock) for lock in locks}.isdisjoint({holder, None}),
            "the locks in another session",
        )
        assert not any(one.requested for one in holds.stops.values())
    with open_session(four.db) as other, open_session(four.db) as session:
        # One of them is another coordinator's: nothing is begun on that server.
        assert take_named_lock(other, locks[2])
        with pytest.raises(spirit_py.Refusal, match="another command with this change"):
            Holds(plan).__enter__()
        until(lambda: named_lock_holder(session, locks[0]) is None, "the end of its session")


@pytest.mark.slow
def test_records_of_other_entries_are_read_in_one_query(four, monkeypatch, caplog):
    """Hundreds of schemas of one server would each read the records of all others."""
    store, record = fleet_record(four, four.made.schemas[0])
    wanted = [(four.made.schemas[0], "orders")]
    asked: list[int] = []
    for number, schema in enumerate(four.made.schemas[1:]):
        begin(four, *fleet_record(four, schema))
        with open_session(four.db) as session:
            counted = Mock(wraps=session.query)
            monkeypatch.setattr(session, "query", counted)
            refuse_others(session, store.name[1], wanted)
            asked.append(counted.call_count)
        if number == 0:
            assert not caplog.messages
    assert len(set(asked)) == 1, asked
    # One that names a table of this entry is still told.
    with open_session(four.db) as session:
        stranger = BatchTable(four.made.schemas[3], "_spirit_py_batch_other")
        stranger.create(session, replace(record, home=four.made.schemas[3], fleet=""))
        stranger.note(session, TableRecord(schema=wanted[0][0], table="orders", statement=""))
        refuse_others(session, store.name[1], wanted)
    assert "another, unfinished batch has 1 of these tables" in caplog.text


@pytest.mark.parametrize("schema", ["spirit%", "100%%s"])
def test_a_percent_sign_in_the_name_of_a_schema_is_no_placeholder(four, caplog, schema):
    """Anybody who may create a schema could end every batch of the server otherwise."""
    _, record = fleet_record(four, four.made.schemas[0])
    with open_session(four.db) as session:
        session.execute(f"CREATE DATABASE {quote_identifier(schema)}")
        try:
            stranger = BatchTable(schema, "_spirit_py_batch_other")
            stranger.create(session, replace(record, home=schema, fleet=""))
            stranger.note(
                session, TableRecord(schema=four.made.schemas[0], table="orders", statement="")
            )
            refuse_others(session, "mine", [(four.made.schemas[0], "orders")])
        finally:
            session.execute(f"DROP DATABASE {quote_identifier(schema)}")
    assert "another, unfinished batch has 1 of these tables" in caplog.text


def plan_of(fleet):
    """Return the plan of a command for the servers of a list."""
    server = fleet.db.server
    given = {"servers": fleet.file, "table": "orders", "alter": WIDER, "user": server.user}
    config = fleet_config(
        option_values(migrate, FleetArguments, {**given, "password": server.password})
    )
    return plan_fleet(config)


@pytest.mark.slow
def test_lists_in_another_order_take_the_locks_of_one_server_in_the_same_one(four, monkeypatch):
    """Else each waits for a lock of the other, which the server ends as a deadlock (3058)."""
    plan = plan_of(four)
    back = replace(plan, servers=plan.servers[::-1])
    asked: list[str] = []
    met = threading.Event()

    def in_turn(session, name, **more):
        # Each command has its first lock, or waits for it, before one asks for its second.
        asked.append(name)
        first = len(asked) == 1
        if asked.count(name) > 1:
            met.set()
        taken = take_named_lock(session, name, **more)
        if not first:
            met.set()
        assert met.wait(MINUTE)
        return taken

    monkeypatch.setattr("spirit_py.locks.named.take_named_lock", in_turn)
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as stack:
        held = [Holds(one) for one in (plan, back)]
        for one in held:
            stack.push(one.__exit__)
        ended = [pool.submit(one.take) for one in held]
        errors = [one.exception() for one in ended]
    (error,) = filter(None, errors)
    assert isinstance(error, spirit_py.Refusal), error
    assert "another command with this change" in error.message


def fleet_record(fleet, schema):
    """Return the record that a fleet keeps of a schema's table."""
    record = BatchRecord(
        home=schema, server_uuid=server_uuid(fleet), asked="", started_at="", runs=1, parallel=1,
        on_failure="stop", program="", fleet="1" * 32,
    )  # fmt: skip
    return BatchTable(schema, batch_name_of(fleet, schema)), record


def members_of(fleet):
    """Return the servers of a list as ``spirit-py ctl --fleet`` reaches them."""
    server = fleet.db.server
    options = ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )
    return [
        FleetMember(name=name, connection=options, database=schema, schema=schema)
        for name, schema in zip(fleet.names, fleet.made.schemas, strict=True)
    ]


def begin(fleet, store, record, orders=None):
    """Write the record of a server that has begun."""
    with open_session(fleet.db) as session:
        store.create(session, record, orders or FleetOrders())
        store.note(session, TableRecord(schema=store.name[0], table="orders", statement=""))


@pytest.mark.slow
def test_the_hook_is_asked_before_each_further_wave(four, tmp_path):
    """It refuses once: the wave waits, and is asked for again."""
    seen = tmp_path / "seen"
    hook = (
        f'if [ "$SPIRIT_PY_EVENT" = wave.ready ]; then cat >> {shlex.quote(str(seen))}; '
        f"if [ $(grep -c . {shlex.quote(str(seen))}) = 1 ]; then echo not yet; exit 1; fi; fi"
    )
    more = ("--canary", "1", "--on-event", hook, "--hook-veto")
    report, events = four.migrate("--alter", REBUILD, *more)
    assert report["outcome"] == "done", report
    asked = [json.loads(line) for line in seen.read_text().splitlines()]
    assert [(one["wave"], one["number"]) for one in asked] == [("all", 1), ("all", 2)]
    assert asked[0]["servers"] == four.names[1:]
    assert asked[0]["done"] == 1
    (vetoed,) = named(events, "wave.vetoed")
    assert vetoed["reason"] == "not yet"
    assert_clean(four)


@pytest.mark.slow
def test_a_rehearsal_neither_obeys_nor_drops_what_a_real_run_has_left(four, listener):
    """Its records and its operator's pause are those of the run that carries on."""
    hold = listener.hold("fleet.ended")
    process = four.start("--alter", REBUILD, "--servers-at-once", "1", **at(listener))
    await_held(process, hold)
    assert four.run("ctl", "pause").returncode == 0
    process.kill()
    process.communicate(timeout=MINUTE)
    hold.release()
    await_no_process(four)
    before = records(four)
    report, _ = four.migrate("--alter", REBUILD, "--dry-run")
    assert report["outcome"] == "rehearsed", report
    assert records(four) == before
    assert any(orders.paused for orders in ordered(four, four.made.schemas[0]))
    process = four.start("--alter", REBUILD)
    until(lambda: coordinated(four), "a process that coordinates the change")
    assert four.run("ctl", "resume").returncode == 0
    report, events = four.end(process)
    assert report["outcome"] == "done", report
    assert "an operator has paused this change" in str(named(events, "warning"))


def coordinated(fleet):
    """Return whether a process coordinates the change."""
    return "; a process coordinates them" in fleet.run("ctl", "status").stdout


# -- what is read


@pytest.mark.slow
def test_two_entries_that_are_one_server_are_refused(four):
    """The same table under two names: each would change what the other has changed."""
    where = f"{four.db.server.host}:{four.db.server.port}"
    four.write(["s1"], more=f"mysql://{where} name=again")
    pattern = f"`{four.made.schemas[0]}`.orders"
    ended = four.run("migrate", "--tables", pattern, "--alter", WIDER, "--yes")
    assert ended.returncode == 2, ended.stderr
    assert "is changed through s1 already: both are one server" in ended.stderr


@pytest.mark.slow
def test_one_forged_record_makes_no_other_server_done(four):
    """It says that all servers are done, for a change that leaves no trace in a definition."""
    with open_session(four.db) as session:
        forged = BatchTable(four.made.schemas[0], batch_name_of(four, four.made.schemas[0]))
        _, record = fleet_record(four, four.made.schemas[0])
        names = tuple(four.names)
        forged.create(session, record, FleetOrders(number=1, members=names, finished=names))
        forged.note(
            session,
            TableRecord(
                schema=four.made.schemas[0],
                table="orders",
                statement="",
                state=TableState.DONE.value,
            ),
        )
    before = numbers(four)
    report, _ = four.migrate("--alter", REBUILD)
    # As far as the command knows, a server has begun.
    assert (report["outcome"], report["exit_code"]) == ("failed", 1), report
    assert len(report["details"]) == 3
    assert numbers(four) == before


def batch_name_of(fleet, schema):
    """Return the name of the record that a command writes there."""
    config = batch_config(fleet.db, "`orders`", alter=REBUILD, database=schema)
    return plan_batch(config).name


def server_uuid(fleet):
    """Return the server's own identifier."""
    return str(fleet.db.query("SELECT @@server_uuid")[0][0])


@pytest.mark.slow
@pytest.mark.parametrize("has_row", [False, True])
def test_a_forged_record_orders_nothing(four, has_row):
    """Another account may make a table with the mark: what it says is refused, or is no record."""
    schema = four.made.schemas[1]
    row = json.dumps({"format": 5, "number": 9, "paused": True, "aborted": True})
    name = "_spirit_py_batch_0123456789ab"
    four.db.execute(
        f"CREATE TABLE {schema}.{name} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,"
        " record LONGTEXT) COMMENT='spirit-py batch'"
    )
    if has_row:
        four.db.execute(f"INSERT INTO {schema}.{name} VALUES (-1, '{row}')")
    report, _ = four.migrate("--alter", REBUILD)
    assert report["outcome"] == "done", report
    shown = four.run("ctl", "status")
    # What it shows of one that has begun, by the forged row or not, would be another line.
    assert shown.stdout == "".join(f"{name}: not begun\n" for name in four.names)
    assert (shown.returncode, shown.stderr) == (1, "")

"""``spirit-py move`` to several servers, each for the rows of its shard."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from mysql_server import ServerOptions, running
from spirit_py.move import renames
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits import kills
from tests.kits.command import await_line, environment
from tests.kits.moving import ALTER, ROWS, ShardedApplication, Shards, await_held, fill, part
from tests.kits.point_listener import PointListener
from tests.kits.waiting import until

NAMES = ("eu", "us")


@pytest.fixture(scope="module")
def targets(request):
    """Two other servers, to which tables are moved."""
    options = ServerOptions(durable=False, buffer_pool="64M")
    with contextlib.ExitStack() as stack:
        provider = request.config.stash[PROVIDER]
        yield [stack.enter_context(running(options, provider=provider)) for _ in NAMES]


@contextlib.contextmanager
def shards_of(db, servers, names, folder):
    """Yield the source and its targets; in the end no session is left on any."""
    fill(db)
    part(db, names)
    theirs = {name: Database(made, db.name) for name, made in zip(names, servers, strict=True)}
    try:
        yield Shards(db, theirs, folder)
    finally:
        left = [one.close() for one in theirs.values()]
    assert not any(left), left


@pytest.fixture
def shards(db, targets, tmp_path):
    """Three servers with a schema of the same name; the source has the table ``t``."""
    with shards_of(db, targets, NAMES, tmp_path) as made:
        yield made


@pytest.fixture
def listener(tmp_path):
    """Listen to the points of a command."""
    with PointListener(tmp_path / "points") as found:
        yield found


def assert_moved(shards):
    """The table is on each target, the source's is out of the way, and nothing else is left."""
    for db in shards.theirs.values():
        assert shards.tables(db) == ["t"]
    assert shards.tables(shards.here) == ["_t_chkpnt", "_t_moved"]


@pytest.mark.slow
def test_rows_go_to_their_shard_and_may_change_it(shards):
    """Each row is on its region's server alone, as its client wrote it last."""
    with ShardedApplication(shards) as clients:
        clients.wait_for(100)
        report, events = shards.move("--alter", ALTER)
        clients.wait_for(50)
    assert report["outcome"] == "done", report
    clients.assert_all_kept()
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert shards.times_switched() == 1
    begun = [one["table"] for one in events if one["event"] == "copy.begun"]
    assert begun == [f"{shards.here.name}.t (eu)", f"{shards.here.name}.t (us)"]
    assert_moved(shards)
    for db in shards.theirs.values():
        assert db.query("SELECT COUNT(*) FROM t WHERE z = 5")[0][0] > ROWS // 4


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_SHARDS, kills.MORE_OF_SHARDS), ids=str
)
def test_killed_it_goes_on(shards, listener, point, nth):
    """Killed anywhere, also between the RENAMEs of two targets, the same command ends it."""
    with ShardedApplication(shards, seed=nth) as clients:
        clients.wait_for(20)
        shards.kill_at(listener, point, "--alter", ALTER, nth=nth)
        report, _ = shards.move("--alter", ALTER)
        assert report["outcome"] == "done", report
        clients.wait_for(20)
    clients.assert_all_kept()
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert_moved(shards)


@pytest.mark.slow
def test_a_failed_command_takes_all_targets_back(shards):
    """Its failure renames the tables back on each; the same command copies nothing twice."""
    with ShardedApplication(shards) as clients:
        report, _ = shards.move("--on-switch", "exit 3")
        assert report["error_code"] == "switch-failed", report
        assert shards.tables(shards.here) == ["_t_chkpnt", "t"]
        for db in shards.theirs.values():
            assert shards.tables(db) == ["_t_chkpnt", "_t_new"]
        clients.wait_for(30)
        report, events = shards.move()
        assert report["outcome"] == "done", report
        clients.wait_for(30)
    assert [one["decision"] for one in events if one["event"] == "resume.decided"] == ["resume"]
    assert report["rows_copied"] == report["rows_copied_before"] > 0
    clients.assert_all_kept()
    assert_moved(shards)


@pytest.mark.slow
def test_a_target_whose_answer_is_lost_has_taken_the_switch_back(shards, listener, proxy_to):
    """Its tables show that they were renamed back before anybody could write there."""
    us = shards.theirs["us"].server
    proxy = proxy_to((us.host, us.port))
    shards.ways = (*shards.ways[:2], f"{proxy.host}:{proxy.port}")
    hold = listener.hold("switch.renamed")
    process = shards.start("--on-switch", "exit 3", listener=listener)
    await_held(process, hold)
    proxy.lose_reply(b"RENAME TABLE")
    hold.release()
    report, _ = shards.end(process)
    assert proxy.lost.is_set()
    assert report["error_code"] == "switch-failed", report
    assert shards.tables(shards.here) == ["_t_chkpnt", "t"]
    for db in shards.theirs.values():
        assert shards.tables(db) == ["_t_chkpnt", "_t_new"]
    report, _ = shards.move()
    assert report["outcome"] == "done", report
    assert_moved(shards)


@pytest.mark.slow
def test_a_switch_that_one_target_does_not_take_back_is_taken_back_on_none(shards, monkeypatch):
    """A backup there holds its lock: the tables stay on the targets, as the error says."""
    us = shards.theirs["us"]

    def fails(*_, **__):
        backup.query("LOCK INSTANCE FOR BACKUP")
        return "exit 3"

    monkeypatch.setattr(renames, "_LEAVE_SECONDS", 0)
    with contextlib.closing(us.connect()) as backup, monkeypatch.context() as patched:
        patched.setattr(renames, "run_switch_command", fails)
        done = shards.move_here("--on-switch", shards.switch)
    assert done.returncode != 0
    report = json.loads(shards.report.read_text())
    assert report["error_code"] == "outcome-unknown", report
    assert "could not be renamed back where it was to switch to" in report["error"]
    assert "the tables stay there" in report["hint"]
    for db in shards.theirs.values():
        assert shards.tables(db) == ["_t_chkpnt", "t"]
    report, _ = shards.move()
    assert report["outcome"] == "done", report
    assert_moved(shards)


@pytest.mark.slow
def test_a_byte_on_one_target_is_found(shards, listener):
    """Each target is compared with the rows that the source has for it."""
    hold = listener.hold("drain.begun")
    process = shards.start("--on-switch", shards.switch, listener=listener)
    await_held(process, hold)
    shards.theirs["us"].execute("UPDATE _t_new SET b = CONCAT(b, '!') WHERE id = 77")
    hold.release()
    report, _ = shards.end(process)
    assert report["outcome"] == "failed", report
    assert report["differences_found"] == 1
    assert shards.times_switched() == 0


@pytest.mark.slow
def test_a_row_on_the_wrong_target_is_found(shards, listener):
    """It is the other target's: there are as many rows in all, and one is missing on each."""
    hold = listener.hold("drain.begun")
    process = shards.start("--on-switch", shards.switch, listener=listener)
    await_held(process, hold)
    eu, us = shards.theirs["eu"], shards.theirs["us"]
    ((row,),) = us.query("SELECT id FROM _t_new ORDER BY id LIMIT 1")
    us.execute(f"DELETE FROM _t_new WHERE id = {row}")
    eu.execute(f"INSERT INTO _t_new (id, a, b, region) VALUES ({row}, {row} * 3, 'x', 'us')")
    hold.release()
    report, _ = shards.end(process)
    assert report["outcome"] == "failed", report
    assert report["differences_found"] >= 1
    assert shards.times_switched() == 0


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_row_of_no_target_is_named(shards, listener, when):
    """It would be lost: the move ends, names it, and resumes once the row has a target."""
    mars = "UPDATE t SET region = 'mars' WHERE id = 1234"
    if when == "before":
        shards.here.execute(mars)
        report, _ = shards.move()
    else:
        hold = listener.hold("drain.begun")
        process = shards.start("--on-switch", shards.switch, listener=listener)
        await_held(process, hold)
        shards.here.execute(mars)
        hold.release()
        report, _ = shards.end(process)
    assert report["error_code"] == "value-lost", report
    assert "no target is named mars" in report["error"], report
    assert "1234" in f"{report['error']} {report['details']}", report
    assert shards.times_switched() == 0
    shards.here.execute("UPDATE t SET region = 'us' WHERE id = 1234")
    report, _ = shards.move()
    assert report["outcome"] == "done", report
    assert shards.theirs["us"].query("SELECT COUNT(*) FROM t WHERE id = 1234") == [(1,)]
    assert_moved(shards)


@pytest.mark.slow
def test_several_tables_go_to_four_servers(db, request, tmp_path):
    """The numbers of shards are their names; the tables are switched together."""
    names = ("0", "1", "2", "3")
    options = ServerOptions(durable=False, buffer_pool="32M")
    with contextlib.ExitStack() as stack:
        provider = request.config.stash[PROVIDER]
        servers = [stack.enter_context(running(options, provider=provider)) for _ in names]
        four = stack.enter_context(shards_of(db, servers, names, tmp_path))
        fill(db, "u")
        db.execute("ALTER TABLE u ADD COLUMN region INT GENERATED ALWAYS AS (a DIV 3 % 4) STORED")
        with ShardedApplication(four, clients=4) as clients:
            clients.wait_for(50)
            tables = ("--tables", f"{db.name}.t", "--tables", f"{db.name}.u")
            report, _ = four.move("--alter", ALTER, *tables)
            clients.wait_for(50)
        assert report["outcome"] == "done", report
        clients.assert_all_kept()
        for number, other in enumerate(four.theirs.values()):
            assert four.tables(other) == ["t", "u"]
            rows = other.query(f"SELECT COUNT(*), SUM(id % 4 = {number}), SUM(a = id * 3) FROM u")
            assert rows == [(ROWS // 4,) * 3]


@pytest.mark.slow
def test_a_target_that_freezes_between_the_renames_holds_up_nobody(shards, targets, listener):
    """The watch ends the source's lock (R23): its clients go on while the target says nothing."""
    hold = listener.hold("switch.arrived")
    process = shards.start("--on-switch", shards.switch, listener=listener)
    await_held(process, hold)
    os.kill(targets[1].pid, signal.SIGSTOP)
    try:
        hold.release()
        client = shards.here.connect()
        with client.cursor() as cursor:
            # Far less than the command may take, for which the lock is held at most.
            cursor.execute("SET SESSION lock_wait_timeout = 30")
            cursor.execute("UPDATE t SET b = 'meanwhile' WHERE id = 2")
    finally:
        os.kill(targets[1].pid, signal.SIGCONT)
    report, _ = shards.end(process)
    assert report["outcome"] == "done", report
    assert report["cutover_attempts"] >= 2
    assert shards.theirs["eu"].query("SELECT b FROM t WHERE id = 2") == [("meanwhile",)]
    assert_moved(shards)


@pytest.mark.slow
def test_the_column_that_parts_the_rows_may_go(shards, listener):
    """It is judged by images of the source's rows, also by a repair."""
    hold = listener.hold("drain.begun")
    words = shards.words("--alter", "DROP COLUMN region, MODIFY a VARCHAR(30)")
    shards.words = lambda *_, **__: [one for one in words if one != "--no-repair"]
    process = shards.start(listener=listener)
    await_held(process, hold)
    shards.here.execute("UPDATE t SET region = IF(region = 'eu', 'us', 'eu') WHERE id <= 10")
    shards.theirs["us"].execute("UPDATE _t_new SET b = 'wrong' WHERE id = 77")
    hold.release()
    report, _ = shards.end(process)
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 1
    eu, us = (db.query("SELECT COUNT(*), SUM(id <= 10) FROM t") for db in shards.theirs.values())
    assert (eu, us) == ([(ROWS // 2, 5)], [(ROWS // 2, 5)])
    assert shards.theirs["us"].query("SELECT b FROM t WHERE id = 77") == [("row 77",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hour", "of_server"),
    [
        ("TIMESTAMP", "HOUR(made)", True),
        ("DATETIME", "HOUR(CONVERT_TZ(made, '+00:00', 'Test/Zone'))", False),
    ],
    ids=["the server's", "one that is named"],
)
def test_another_time_zone_on_a_target_is_refused(shards, kind, hour, of_server):
    """A row would be judged by another local time there than on the source."""
    shards.here.execute(f"ALTER TABLE t ADD COLUMN made {kind} NULL")
    session = shards.here.connect()
    with session.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.time_zone")
        ((before,),) = cursor.fetchall()
        # Only this server knows it.
        cursor.execute(
            "INSERT INTO mysql.time_zone VALUES (9001, 'N');"
            "INSERT INTO mysql.time_zone_name VALUES ('Test/Zone', 9001);"
            "INSERT INTO mysql.time_zone_transition_type VALUES (9001, 0, 7200, 0, 'TZ');"
            "INSERT INTO mysql.time_zone_transition VALUES (9001, 0, 0)"
        )
    try:
        session = shards.here.connect()
        with session.cursor() as cursor:
            if of_server:
                cursor.execute("SET GLOBAL time_zone = 'Test/Zone'")
        done = shards.move_here("--shard-by", f"IF({hour} < 12, 'eu', 'us')")
    finally:
        with session.cursor() as cursor:
            cursor.execute(f"SET GLOBAL time_zone = '{before}'")
            for table in ("_name", "_transition", "_transition_type", ""):
                cursor.execute(f"DELETE FROM mysql.time_zone{table} WHERE Time_zone_id = 9001")
    assert done.returncode == 2, done.stderr
    assert "is another one on the target" in done.stderr
    assert shards.tables(shards.here) == ["t"]
    assert not any(shards.tables(db) for db in shards.theirs.values())


@pytest.mark.slow
def test_a_time_zone_whose_name_is_in_the_row_is_refused(shards):
    """What a target knows of a zone cannot be asked for all names that may come."""
    shards.here.execute("ALTER TABLE t ADD COLUMN zone VARCHAR(40), ADD COLUMN made DATETIME")
    hour = "HOUR(CONVERT_TZ(made, zone, '+00:00'))"
    done = shards.move_here("--shard-by", f"IF({hour} < 12, 'eu', 'us')")
    assert done.returncode == 2, done.stderr
    assert "takes the name of a time zone from the row" in done.stderr
    assert shards.tables(shards.here) == ["t"]
    assert not any(shards.tables(db) for db in shards.theirs.values())


@pytest.mark.slow
def test_status_says_that_a_killed_move_resumes(shards, listener):
    """Its new tables are on the targets, where status does not look."""
    shards.kill_at(listener, "switch.begin")
    server = shards.here.server
    said = subprocess.run(
        [sys.executable, "-m", "spirit_py", "status", "--host", shards.ways[0], "--user",
         server.user, "--database", shards.here.name],
        env=environment(shards.here), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "the same spirit-py move command" in said.stdout, said
    report, _ = shards.move()
    assert report["outcome"] == "done", report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--keep-old-current", "1h"), "the way back would have several sources"),
        (("--shard-by", "'eu'"), "cannot judge rows"),
        (("--shard-by", "nothing"), "cannot read it"),
        (("--shard-by", "RAND() * id"), "--shard-by"),
        (("--target", "eu=localhost:1"), "two targets are named eu"),
        (("--target-host", "localhost"), "both given"),
        (("--target", "here"), "is not NAME=HOST[:PORT]"),
        (("--target", "x y=mysql://u:SECRET@localhost"), "is not NAME=HOST[:PORT]"),
        (("--target", "asia=mysql//u:SECRET@localhost"), "neither HOST[:PORT] nor a URL"),
        (("--shard-by", "a * 0"), "not judged for certain"),
        (("--target", "asia=mysql://db/shop"), "keep their schemas"),
    ],
    ids=[
        "current",
        "constant",
        "column",
        "random",
        "twice",
        "host",
        "name",
        "letters",
        "url",
        "number",
        "schema",
    ],
)
def test_what_cannot_be_is_refused(shards, more, said):
    """Before anything is written."""
    done = shards.move_here(*more)
    text = done.stdout + done.stderr
    assert done.returncode == 2, text
    assert said in text, text
    assert "SECRET" not in text
    assert shards.tables(shards.here) == ["t"]
    assert not any(shards.tables(db) for db in shards.theirs.values())


def test_targets_do_not_replicate_from_each_other(shards):
    """A table that is made on one would reach the other twice."""
    eu, us = shards.theirs["eu"], shards.theirs["us"]
    eu.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{us.server.host}',"
        f" SOURCE_PORT = {us.server.port}, SOURCE_USER = '{us.server.user}',"
        f" SOURCE_PASSWORD = '{us.server.password}', GET_SOURCE_PUBLIC_KEY = 1"
    )
    eu.execute("START REPLICA IO_THREAD")
    try:
        known = "SELECT SOURCE_UUID FROM performance_schema.replication_connection_status"
        until(lambda: any(row[0] for row in eu.query(known)), "the replica knows its source")
        done = shards.move_here()
    finally:
        eu.execute("STOP REPLICA")
        eu.execute("RESET REPLICA ALL")
        dumps = "SELECT ID FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'"
        for (number,) in us.query(dumps):
            us.kill(number)
    assert done.returncode == 2, done.stderr
    assert "the target eu is a replica of the target us" in done.stderr, done.stderr
    assert shards.tables(shards.here) == ["t"]


def test_one_server_is_not_two_targets(shards):
    """Its tables have one name, and rows of two shards would meet."""
    us = shards.theirs["us"]
    done = Shards(shards.here, {**shards.theirs, "asia": us}, shards.folder).move_here()
    assert done.returncode == 2, done.stderr
    assert "asia and us are one server" in done.stderr, done.stderr
    assert not shards.tables(us)


@pytest.mark.slow
def test_a_target_that_goes_away_during_the_copy_is_waited_for(shards, targets, listener):
    """The other one is not switched to meanwhile."""
    hold = listener.hold("drain.begun")
    process = shards.start("--on-switch", shards.switch, listener=listener)
    await_held(process, hold)
    targets[1].kill()
    hold.release()
    shards.here.execute("UPDATE t SET b = 'late' WHERE id = 1")
    us = shards.theirs["us"]
    await_line(process, '"pending": 1', "[drain]")
    assert shards.times_switched() == 0
    targets[1].resume()
    us.reconnect()
    report, _ = shards.end(process)
    assert report["outcome"] == "done", report
    assert us.query("SELECT b FROM t WHERE id = 1") == [("late",)]
    assert_moved(shards)


@pytest.mark.slow
def test_a_plan_has_the_share_of_each_target(shards):
    """By a sample: both have about half of the rows, and room for these."""
    shards.here.execute("UPDATE t SET region = 'us' WHERE id % 4 = 0; ANALYZE TABLE t")
    plan = shards.plan()
    (table,) = plan["tables"]
    assert [one["name"] for one in table["ways"]] == list(NAMES)
    assert [one["target"] for one in table["ways"]] == list(shards.ways[1:])
    eu, us = (one["share"] for one in table["ways"])
    assert (eu, us) == (pytest.approx(0.25, abs=0.05), pytest.approx(0.75, abs=0.05))
    assert table["ways"][0]["space"]["table_bytes"] < table["ways"][1]["space"]["table_bytes"]
    assert table["time"]["seconds"] > 0


def test_a_plan_meets_a_row_of_no_target(shards):
    """Its sample is judged as the copy is."""
    shards.here.execute("UPDATE t SET region = 'mars' WHERE id = 5")
    (lost,) = shards.plan(code=2)["refusals"]
    assert "no target is named mars" in lost["cause"], lost
    assert lost["code"] == "value-lost"

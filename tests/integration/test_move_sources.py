"""``spirit-py move`` from several servers to one, where their rows come together."""

from __future__ import annotations

import contextlib
import json

import pytest

from mysql_server import ServerOptions, running
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits import kills
from tests.kits.command import run_here
from tests.kits.moving import (
    ALTER,
    ROWS,
    MergingApplication,
    Sources,
    TwoServers,
    await_held,
    fill,
    part,
)
from tests.kits.point_listener import PointListener
from tests.kits.waiting import until

NAMES = ("eu", "us")


@pytest.fixture(scope="module")
def others(request):
    """Return two more servers: a second source, and the target."""
    options = ServerOptions(durable=False, buffer_pool="64M")
    with contextlib.ExitStack() as stack:
        provider = request.config.stash[PROVIDER]
        yield [stack.enter_context(running(options, provider=provider)) for _ in range(2)]


@pytest.fixture
def sources(db, others, tmp_path):
    """Three servers with a schema of the same name; each source has its rows of the table ``t``."""
    us, there = (Database(made, db.name) for made in others)
    ours = dict(zip(NAMES, (db, us), strict=True))
    try:
        for name, one in ours.items():
            fill(one)
            part(one, NAMES)
            one.execute(f"DELETE FROM t WHERE region <> '{name}'")
        yield Sources(ours, there, tmp_path)
    finally:
        left = [one.close() for one in (us, there)]
    assert not any(left), left


@pytest.fixture
def listener(tmp_path):
    """Listen to the points of a command."""
    with PointListener(tmp_path / "points") as found:
        yield found


def moved_with(sources, listener, db, sql, when):
    """Move, with a statement that one source executes before, or while rows are followed."""
    if when == "before":
        db.execute(sql)
        return sources.move()[0]
    hold = listener.hold("drain.begun")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    db.execute(sql)
    hold.release()
    return sources.end(process)[0]


def assert_moved(sources):
    """The rows are together on the target, the tables are out of the way, and nothing is left."""
    assert sources.tables(sources.there) == ["t"]
    for db in sources.ours.values():
        assert sources.tables(db) == ["_t_chkpnt", "_t_moved"]


def test_rows_of_two_servers_come_together(sources):
    """All rows are on the target, as their clients wrote them last."""
    with MergingApplication(sources) as clients:
        clients.wait_for(100)
        report, events = sources.move("--alter", ALTER)
        clients.wait_for(50)
    assert report["outcome"] == "done", report
    clients.assert_kept(sources.there)
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert report["rows_copied"] >= ROWS - 100
    assert sources.times_switched() == 1
    begun = [one["table"] for one in events if one["event"] == "copy.begun"]
    assert begun == [f"{sources.here.name}.t (eu)", f"{sources.here.name}.t (us)"]
    assert_moved(sources)


@pytest.mark.slow
def test_a_sentinel_that_was_dropped_by_hand_has_let_all_sources_switch(sources):
    """Killed after that, the command needs not say again that it is to wait."""
    process = sources.start("--on-switch", sources.switch, "--defer-cutover")

    def noted() -> bool:
        assert process.poll() is None, process.communicate()
        if "_t_snt" not in sources.tables(sources.here):
            return False
        ((text,),) = sources.here.query("SELECT record FROM _t_chkpnt ORDER BY id LIMIT 1")
        return bool(json.loads(text)["sentinel"])

    until(noted, "the sentinel")
    process.kill()
    process.communicate()
    sources.here.execute("DROP TABLE _t_snt")
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert report["resumed"], report
    assert_moved(sources)


@pytest.mark.slow
def test_a_rehearsal_between_two_renames_advises_no_rename_by_hand(sources, listener):
    """The feed cannot pass it, and the copy would be lost: the same command has its own way."""
    sources.kill_at(listener, "switch.away", nth=1)
    report, _ = sources.move("--dry-run")
    assert report["outcome"] == "refused", report
    assert "run the same command without --dry-run" in report["hint"], report
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert_moved(sources)


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_SOURCES, kills.MORE_OF_SOURCES), ids=str
)
def test_killed_it_goes_on(sources, listener, point, nth):
    """Killed anywhere, also between the RENAMEs of two sources, the same command ends it."""
    with MergingApplication(sources, seed=nth) as clients:
        clients.wait_for(20)
        sources.kill_at(listener, point, "--alter", ALTER, nth=nth)
        report, _ = sources.move("--alter", ALTER)
        assert report["outcome"] == "done", report
        clients.wait_for(20)
    clients.assert_kept(sources.there)
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert_moved(sources)


@pytest.mark.slow
def test_a_failed_command_takes_all_sources_back(sources):
    """Its failure renames the tables back on each; the same command copies nothing twice."""
    with MergingApplication(sources) as clients:
        report, _ = sources.move("--on-switch", "exit 3")
        assert report["error_code"] == "switch-failed", report
        assert sources.tables(sources.there) == ["_t_chkpnt", "_t_new"]
        for db in sources.ours.values():
            assert sources.tables(db) == ["_t_chkpnt", "t"]
        clients.wait_for(30)
        report, events = sources.move()
        assert report["outcome"] == "done", report
        clients.wait_for(30)
    assert [one["decision"] for one in events if one["event"] == "resume.decided"] == ["resume"]
    assert report["rows_copied"] == report["rows_copied_before"] > 0
    clients.assert_kept(sources.there)
    assert_moved(sources)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["drain.begun", "switch.locked"])
def test_rows_may_change_their_source(sources, listener, point):
    """What comes from another source waits for its delete there; also in a circle, at the end."""
    eu, us = sources.ours.values()
    hold = listener.hold(point)
    if point == "switch.locked":
        # What is written in the last moment is applied under the locks.
        hold = listener.hold("switch.lock")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    for number in range(1, 60):
        odd, even = 2 * number + 1, 2 * number
        us.execute(f"DELETE FROM t WHERE id = {odd}")
        eu.execute(f"DELETE FROM t WHERE id = {even}")
        eu.execute(f"INSERT INTO t (id, a, b, region) VALUES ({odd}, 7, 'from us', 'eu')")
        us.execute(f"INSERT INTO t (id, a, b, region) VALUES ({even}, 7, 'from eu', 'us')")
    hold.release()
    report, _ = sources.end(process)
    assert report["outcome"] == "done", report
    rows = "SELECT id, a, b, region FROM {} ORDER BY id"
    ours = [*eu.query(rows.format("_t_moved")), *us.query(rows.format("_t_moved"))]
    assert list(sources.there.query(rows.format("t"))) == sorted(ours)
    assert sources.there.query("SELECT COUNT(*) FROM t WHERE b LIKE 'from%'") == [(118,)]
    assert_moved(sources)


@pytest.mark.slow
def test_a_stopped_move_takes_no_table_that_another_source_has_brought_since(sources, listener):
    """What it left on the target was cleaned up there: the table of the name is in use now."""
    (tmp := sources.folder / "us").mkdir()
    first, second = (
        TwoServers(db, sources.there, folder)
        for db, folder in zip(reversed(sources.ours.values()), (tmp, sources.folder), strict=True)
    )
    first.kill_at(listener, "chunk.committed", nth=5)
    first.cleanup(sources.there)
    second.kill_at(listener, "switch.commanded")
    rows = sources.there.query("SELECT COUNT(*) FROM t")
    for more in ((), ("--start-afresh",)):
        report, _ = first.move(*more)
        assert report["outcome"] == "refused", report
        assert f"a move brings {first.here.name}.t here from {second.ways[0]}" in report["error"]
        assert "spirit-py cleanup" in report["hint"]
        assert sources.tables(sources.there) == ["_t_chkpnt", "t"]
    assert sources.there.query("SELECT COUNT(*) FROM t") == rows
    report, _ = second.move()
    assert report["outcome"] == "done", report
    report, _ = first.move()
    assert "no move has made" in f"{report['error']} {report['details']}", report
    assert sources.there.query("SELECT COUNT(*) FROM t") == rows


def test_a_way_back_to_several_servers_is_refused(sources):
    """Before any server is asked: reverse replication has one to write to."""
    done = sources.move_here("--keep-old-current", "1h")
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "the way back would have several targets" in said
    assert not sources.report.exists()


def in_place(sources):
    """Return the sources whose table has its name."""
    return [name for name, db in sources.ours.items() if "t" in sources.tables(db)]


@pytest.mark.slow
@pytest.mark.parametrize("who", NAMES)
@pytest.mark.parametrize(
    "damage",
    [
        "RENAME TABLE _t_moved TO t",
        "DELETE FROM _t_chkpnt",
        "DROP TABLE _t_moved, _t_chkpnt; CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE t LIKE _t_moved; DROP TABLE _t_moved, _t_chkpnt",
    ],
    ids=["renamed", "forgotten", "another", "alike"],
)
def test_what_is_done_to_one_source_behind_the_switch_harms_nobody(sources, listener, damage, who):
    """The application uses the target: no table goes there, and no other source's comes back."""
    sources.kill_at(listener, "switch.commanded")
    sources.there.execute("INSERT INTO t (id, a, b, region) VALUES (100002, 1, 'new', 'eu')")
    sources.ours[who].execute(damage)
    before = in_place(sources)
    report, _ = sources.move()
    assert report["outcome"] == "refused", report
    assert in_place(sources) == before
    assert sources.there.query("SELECT COUNT(*) FROM t") == [(ROWS + 1,)]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("key", ["primary", "unique"])
def test_keys_that_meet_are_refused(sources, listener, key, when):
    """Nobody's row is written over: the move ends, names the key, and resumes once they differ."""
    eu, us = sources.ours.values()
    for db in (eu, us):
        db.execute("ALTER TABLE t ADD COLUMN code VARCHAR(20), ADD UNIQUE KEY by_code (code)")
        db.execute("UPDATE t SET code = CONCAT(region, id)")
    if key == "primary":
        ((own,),) = eu.query("SELECT MIN(id) FROM t WHERE id > 700")
        meet = f"INSERT INTO t (id, a, b, region) VALUES ({own}, 1, 'us', 'us')"
        part_ways = f"DELETE FROM t WHERE id = {own}"
    else:
        ((own,),) = us.query("SELECT MIN(id) FROM t WHERE id > 700")
        meet = f"UPDATE t SET code = 'EU2' WHERE id = {own}"
        part_ways = f"UPDATE t SET code = 'none' WHERE id = {own}"
    report = moved_with(sources, listener, us, meet, when)
    assert report["error_code"] == "duplicates-for-unique-key", report
    assert "a key of another source's row" in report["error"], report
    assert sources.times_switched() == 0
    us.execute(part_ways)
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    together = sources.there.query("SELECT id, a, b, region, code FROM t ORDER BY id")
    ours = "SELECT id, a, b, region, code FROM _t_moved"
    assert list(together) == sorted([*eu.query(ours), *us.query(ours)])
    assert_moved(sources)


@pytest.mark.slow
def test_a_value_of_a_unique_key_goes_from_row_to_row(sources, listener):
    """It is given up by one row, and taken by another of the same source, in any order."""
    eu = sources.here
    for db in sources.ours.values():
        db.execute("ALTER TABLE t ADD COLUMN code VARCHAR(20), ADD UNIQUE KEY by_code (code)")
        db.execute("UPDATE t SET code = CONCAT(region, id)")
    hold = listener.hold("drain.begun")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    for row in range(2, 400, 2):
        eu.execute(f"UPDATE t SET code = NULL WHERE id = {row}")
        eu.execute(f"UPDATE t SET code = 'eu{row}' WHERE id = {row + 2}")
    hold.release()
    report, _ = sources.end(process)
    assert report["outcome"] == "done", report
    there = sources.there.query("SELECT id, code FROM t WHERE region = 'eu' ORDER BY id")
    assert list(there) == list(eu.query("SELECT id, code FROM _t_moved ORDER BY id"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_row_of_another_source_is_named(sources, listener, when):
    """The expression says that it is not this source's: the move ends, and names it."""
    us = sources.ours["us"]
    wrong = "UPDATE t SET region = 'eu' WHERE id = 1235"
    report = moved_with(sources, listener, us, wrong, when)
    assert report["error_code"] == "value-lost", report
    assert "the source us has a row of eu" in report["error"], report
    assert sources.times_switched() == 0
    us.execute("UPDATE t SET region = 'us' WHERE id = 1235")
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert_moved(sources)


@pytest.mark.slow
def test_a_source_that_does_not_take_part_brings_all_back(sources, listener):
    """Its session is gone right before its RENAME: the first source has its table again at once."""
    eu, us = sources.ours.values()
    hold = listener.hold("switch.away")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    assert "t" not in sources.tables(eu)
    locking = (
        "SELECT OWNER_THREAD_ID FROM performance_schema.metadata_locks WHERE OBJECT_NAME = 't'"
        f" AND OBJECT_SCHEMA = '{us.name}' AND LOCK_TYPE = 'SHARED_NO_READ_WRITE'"
    )
    of = f"SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE THREAD_ID IN ({locking})"
    for (number,) in us.query(of):
        us.kill(number)
    hold.release()
    report, _ = sources.end(process)
    assert report["outcome"] == "failed", report
    assert "1 of 2 sources" in report["error"], report
    assert sources.tables(eu) == ["_t_chkpnt", "t"]
    assert sources.tables(us) == ["_t_chkpnt", "t"]
    assert sources.tables(sources.there) == ["_t_chkpnt", "_t_new"]
    assert sources.times_switched() == 0
    for number, one in enumerate((eu, us)):
        one.execute(f"UPDATE t SET b = 'after' WHERE id % 10 = {number}")
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert report["rows_copied"] == report["rows_copied_before"] > 0
    assert sources.there.query("SELECT COUNT(*) FROM t WHERE b = 'after'") == [(400,)]
    assert_moved(sources)


def reached_through(sources, name, proxy_to):
    """Have one of the sources be reached through a proxy, which is returned."""
    server = sources.ours[name].server
    proxy = proxy_to((server.host, server.port))
    place = NAMES.index(name)
    sources.ways = (*sources.ways[:place], f"{proxy.host}:{proxy.port}", *sources.ways[place + 1 :])
    return proxy


@pytest.mark.slow
def test_a_source_whose_answer_is_lost_gets_its_table_back_too(sources, proxy_to):
    """Its RENAME was made, which is seen when the others are back; the same command resumes."""
    proxy = reached_through(sources, "us", proxy_to)
    proxy.lose_reply(b"RENAME TABLE")
    report, _ = sources.move()
    assert proxy.lost.is_set()
    assert report["outcome"] == "failed", report
    assert "1 of 2 sources" in report["error"], report
    for db in sources.ours.values():
        assert sources.tables(db) == ["_t_chkpnt", "t"]
    assert sources.times_switched() == 0
    for db in sources.ours.values():
        db.execute("UPDATE t SET b = 'after' WHERE id % 10 = 0")
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert report["rows_copied"] == report["rows_copied_before"] > 0
    assert sources.there.query("SELECT COUNT(*) FROM t WHERE b = 'after'") == [(ROWS // 10,)]
    assert_moved(sources)


@pytest.mark.slow
def test_a_failed_command_and_a_source_that_was_cut_off_take_all_back(sources, listener, proxy_to):
    """No session of the first source is left: others write the note, and rename its table back."""
    proxy = reached_through(sources, "eu", proxy_to)
    hold = listener.hold("switch.undoing")
    process = sources.start("--on-switch", "exit 3", listener=listener)
    await_held(process, hold)
    proxy.cut()
    hold.release()
    report, _ = sources.end(process)
    assert report["error_code"] == "switch-failed", report
    for db in sources.ours.values():
        assert sources.tables(db) == ["_t_chkpnt", "t"]
        db.execute("UPDATE t SET b = 'after' WHERE id % 10 = 0")
    assert sources.tables(sources.there) == ["_t_chkpnt", "_t_new"]
    report, _ = sources.move()
    assert report["outcome"] == "done", report
    assert sources.there.query("SELECT COUNT(*) FROM t WHERE b = 'after'") == [(ROWS // 10,)]
    assert_moved(sources)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE _t_new SET b = CONCAT(b, '!') WHERE id = 77",
        "DELETE FROM _t_new WHERE id = 77",
        "INSERT INTO _t_new (id, a, b, region) VALUES (100001, 1, 'x', 'us')",
    ],
    ids=["byte", "lost", "more"],
)
def test_what_one_source_lacks_on_the_target_is_found(sources, listener, wrong):
    """Each source is compared with its own rows of the target."""
    hold = listener.hold("drain.begun")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    sources.there.execute(wrong)
    hold.release()
    report, _ = sources.end(process)
    assert report["outcome"] == "failed", report
    assert report["differences_found"] == 1
    assert sources.times_switched() == 0


@pytest.mark.slow
def test_a_plan_has_the_rows_of_each_source(sources):
    """They come together on one target; a definition that differs is refused."""
    for db in sources.ours.values():
        db.execute("ANALYZE TABLE t")
    (table,) = sources.plan()["tables"]
    assert [one["name"] for one in table["ways"]] == list(NAMES)
    assert [one["source"] for one in table["ways"]] == list(sources.ways[:2])
    assert {one["target"] for one in table["ways"]} == {sources.ways[2]}
    assert sum(one["rows"] for one in table["ways"]) == table["size"]["rows"] >= ROWS - 100
    for db, letter in zip(sources.ours.values(), "😀😁", strict=True):
        db.execute(f"ALTER TABLE t ADD COLUMN other ENUM('{letter}')")
    (wrong,) = sources.plan(code=2)["refusals"]
    assert "another one on us" in wrong["cause"]
    sources.ours["us"].execute("ALTER TABLE t MODIFY other INT")
    assert sources.plan(code=2)["refusals"] == [wrong]


@pytest.mark.slow
def test_another_source_says_where_a_move_is_asked(sources, listener):
    """Status on each source shows the record; figures and requests are on the first, as it says."""
    hold = listener.hold("checksum.begin")
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    first, us = sources.ways[0], sources.ours["us"]
    (here,) = json.loads(run_here(sources.here, "status", "--json").stdout)
    (shown,) = json.loads(run_here(us, "status", "--json").stdout)
    (there,) = json.loads(run_here(sources.there, "status", "--json").stdout)
    assert [one["asked"] for one in (here, shown, there)] == ["", first, first]
    assert here["live"] is not None
    assert shown["live"] is None
    assert there["moved_from"] == list(sources.ways[:2])
    assert f"its note names {first}: ask" in " ".join(run_here(us, "status").stdout.split())
    for db in (us, sources.there):
        refused = run_here(db, "ctl", "pause")
        assert refused.returncode == 2, refused
        assert f"is asked on {first}" in refused.stderr
    hold.release()
    assert sources.end(process)[0]["outcome"] == "done"


@pytest.mark.slow
def test_a_move_that_resumes_by_other_addresses_says_them(sources, listener):
    """On the further source and on the target, which show where it is asked."""
    sources.kill_at(listener, "chunk.committed", nth=3)
    sources.ways = tuple(one.replace("127.0.0.1", "127.1") for one in sources.ways)
    hold = listener.hold_after("drain.begun", 1)
    process = sources.start("--on-switch", sources.switch, listener=listener)
    await_held(process, hold)
    for db in (sources.ours["us"], sources.there):
        (shown,) = json.loads(run_here(db, "status", "--json").stdout)
        assert shown["asked"] == sources.ways[0]
    hold.release()
    report, events = sources.end(process)
    assert report["outcome"] == "done", report
    assert [one["decision"] for one in events if one["event"] == "resume.decided"] == ["resume"]


@pytest.mark.slow
def test_a_table_that_the_second_source_alone_has_can_be_left_out(sources):
    """The pattern fits none of the first one's; a name that fits nowhere is refused."""
    sources.ours["us"].execute("CREATE TABLE more (id INT PRIMARY KEY)")
    schema = sources.here.name
    chosen = ("--tables", f"{schema}.%", "--exclude")
    assert [one["table"] for one in sources.plan(*chosen, f"{schema}.more")["tables"]] == ["t"]
    sources.ours["us"].execute("DROP TABLE more")
    (wrong,) = sources.plan(*chosen, f"{schema}.more", code=2)["refusals"]
    assert f"--exclude {schema}.more matches no table" in wrong["cause"]

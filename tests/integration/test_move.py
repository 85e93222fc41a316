"""``spirit-py move``: tables go to another server while they are written."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import uuid

import pytest

import spirit_py
from mysql_server import ServerOptions, running
from spirit_py.classes import replace
from spirit_py.copier.meter import ChunkCopied
from spirit_py.copier.task import ChunkOrder
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.move import carrier, renames
from spirit_py.move import run as move_run
from spirit_py.move.carrier import JoinAcross
from spirit_py.mysql.faults import DEADLOCK
from spirit_py.mysql.session import Session
from tests.fixtures.mysql import PROVIDER, Database
from tests.golden.normal import Normaliser
from tests.golden.recordings import as_text, compare
from tests.integration.test_checksum_types import TYPES
from tests.integration.test_other_writers import replicating
from tests.kits import kills
from tests.kits.chunks import chunk
from tests.kits.command import MINUTE, run_here, run_words_here
from tests.kits.connection import account, connection_options, granted
from tests.kits.moving import ALTER, ROWS, Application, TwoServers, await_held, fill
from tests.kits.point_listener import PointListener
from tests.kits.tables import map_table, open_session
from tests.kits.waiting import until


@pytest.fixture(scope="module")
def target(request):
    """Another server, to which tables are moved."""
    options = ServerOptions(durable=False, buffer_pool="64M")
    with running(options, provider=request.config.stash[PROVIDER]) as made:
        yield made


@pytest.fixture
def two(db, target, tmp_path):
    """Two servers with a schema of the same name; the source has the table ``t``."""
    there = Database(target, db.name)
    fill(db)
    try:
        yield TwoServers(db, there, tmp_path)
    finally:
        left = there.close()
    assert not left, left


@pytest.fixture
def listener(tmp_path):
    """Listen to the points of a command."""
    with PointListener(tmp_path / "points") as found:
        yield found


def assert_moved(two):
    """The table is on the target, the source's is out of the way, and nothing else is left."""
    assert two.tables(two.there) == ["t"]
    assert two.tables(two.here) == ["_t_chkpnt", "_t_moved"]


def assert_whole(two):
    """Every row is there, with the new definition."""
    found = two.there.query(
        "SELECT COUNT(*), SUM(a = id * 3), SUM(b = CONCAT('row ', id)), SUM(z = 5) FROM t"
    )
    assert tuple(int(number) for number in found[0]) == (ROWS,) * 4


def test_a_table_moves_under_writes(two):
    """Its clients follow the switch, no write is lost, and nothing had to be repaired."""
    with Application(two) as clients:
        clients.wait_for(50)
        report, events = two.move("--alter", ALTER)
        clients.wait_for(50)
    assert report["outcome"] == "done", report
    clients.assert_kept(two.there)
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert report["old_table"] == "_t_moved"
    assert two.times_switched() == 1
    (switching,) = [one for one in events if one["event"] == "move.switching"]
    assert switching["tables"] == [f"{two.here.name}.t"]
    assert_moved(two)
    # The counter goes on where the source's was.
    two.there.execute("INSERT INTO t (a) VALUES (1)")
    assert two.there.query("SELECT MAX(id) FROM t")[0][0] >= ROWS + 1
    again = two.move_here("--alter", ALTER)
    assert "moved already" in again.stderr, again
    two.cleanup(two.here, "t", "--drop-old")
    assert two.tables(two.here) == []


def test_behind_a_failover_of_the_source_cleanup_knows_what_is_out_of_the_way(two):
    """R24: a promoted replica has the record with the numbers of the first server."""
    two.move()
    ((own,),) = two.here.query("SELECT @@server_uuid")
    first = "5c0a7e5e-0000-0000-0000-000000000001"
    two.here.execute(f"UPDATE _t_chkpnt SET record = REPLACE(record, '{own}', '{first}')")
    two.cleanup(two.here, "t", "--drop-old")
    assert two.tables(two.here) == []


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_A_MOVE, kills.MORE_OF_A_MOVE), ids=str
)
def test_killed_it_goes_on(two, listener, point, nth):
    """Killed anywhere, the same command ends with the table on the target, and every write."""
    with Application(two, seed=nth) as clients:
        clients.wait_for(20)
        two.kill_at(listener, point, "--alter", ALTER, nth=nth)
        report, _ = two.move("--alter", ALTER)
        assert report["outcome"] == "done", report
        clients.wait_for(20)
    clients.assert_kept(two.there)
    assert (report["chunks_repaired"], report["differences_found"]) == (0, 0)
    assert two.times_switched() >= 1
    assert_moved(two)


@pytest.mark.slow
def test_a_table_in_use_on_the_target_is_not_dropped(two, listener):
    """The source's record is cleaned up, and its table made anew: the target has the only rows."""
    two.kill_at(listener, "switch.commanded")
    two.here.execute("CREATE TABLE t LIKE _t_moved")
    two.cleanup(two.here, "t", "--drop-old")
    report, _ = two.move()
    assert report["outcome"] == "refused", report
    assert two.there.query("SELECT COUNT(*) FROM t") == [(ROWS,)]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["switch.arrived", "switch.commanded"])
def test_a_cleanup_on_the_target_does_not_end_a_move_that_can_go_on(two, listener, point):
    """It keeps what proves the table there, which may be in use, and says what it left."""
    two.kill_at(listener, point)
    said = two.cleanup(two.there)
    assert f"a move has put it here from {two.ways[0]}" in said
    assert two.tables(two.there) == ["_t_chkpnt", "t"]
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_a_move_is_given_up_on_the_target_by_consent(two, listener):
    """The table that it has put there stays for the operator."""
    two.kill_at(listener, "switch.arrived")
    two.cleanup(two.there, "t", "--drop-old")
    two.cleanup(two.here)
    assert (two.tables(two.here), two.tables(two.there)) == (["t"], ["t"])


@pytest.mark.slow
def test_a_cleanup_on_the_source_does_not_end_a_switch_that_was_being_taken_back(two, listener):
    """The old table was left to the operator, but the target's has its auxiliary name still."""
    hold = listener.hold("switch.undoing")
    process = two.start("--on-switch", "exit 1", listener=listener)
    await_held(process, hold)
    process.kill()
    process.communicate()
    hold.release()
    assert (two.tables(two.here)[-1], two.tables(two.there)[-1]) == ("_t_moved", "_t_new")
    two.cleanup(two.here)
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert two.times_switched() == 1
    assert_moved(two)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["cleanup.old_table", "cleanup.checkpoint"])
def test_killed_while_it_drops_the_old_table_at_once_it_goes_on(two, listener, point):
    """What was moved is noted, also where the source's table does not stay."""
    hold = listener.hold(point)
    more = ("--drop-old-after", "0s")
    process = two.start("--on-switch", two.switch, *more, listener=listener)
    await_held(process, hold)
    process.kill()
    process.communicate()
    hold.release()
    report, _ = two.move(*more)
    assert report["outcome"] == "done", report
    assert two.tables(two.here) == []
    assert two.tables(two.there) == ["t"]


@pytest.mark.slow
def test_a_failed_command_takes_the_switch_back(two):
    """Its failure renames the tables back; the same command goes on, and copies nothing twice."""
    with Application(two) as clients:
        report, _ = two.move("--alter", ALTER, "--on-switch", "echo no way >&2; exit 3")
        assert report["error_code"] == "switch-failed", report
        assert "no way" in report["error"]
        assert two.tables(two.here) == ["_t_chkpnt", "t"]
        assert two.tables(two.there) == ["_t_chkpnt", "_t_new"]
        clients.wait_for(30)
        report, events = two.move("--alter", ALTER)
        assert report["outcome"] == "done", report
        clients.wait_for(30)
    assert [one["decision"] for one in events if one["event"] == "resume.decided"] == ["resume"]
    assert report["rows_copied"] == report["rows_copied_before"] > 0
    clients.assert_kept(two.there)
    assert_moved(two)


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_A_MOVE_UNDONE, kills.MORE_OF_A_MOVE_UNDONE), ids=str
)
def test_killed_while_it_is_taken_back_nothing_is_lost(two, listener, point, nth):
    """Between the RENAMEs it goes on to the target; behind them the feed cannot pass them."""
    with Application(two) as clients:
        hold = listener.hold(point, nth)
        process = two.start("--alter", ALTER, "--on-switch", "exit 1", listener=listener)
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()
        report, _ = two.move("--alter", ALTER)
        if point == "switch.undone":
            assert report["error_code"] == "schema-changed", report
            assert "t" in two.tables(two.here)
            report, _ = two.move("--alter", ALTER)
        assert report["outcome"] == "done", report
        clients.wait_for(20)
    clients.assert_kept(two.there)
    assert_moved(two)


@pytest.mark.slow
def test_a_backup_on_the_target_only_delays_that_a_switch_is_taken_back(two, listener):
    """The target's tables stay locked while their RENAME is refused: nobody has written there."""
    refused = (
        "SELECT SUM_ERROR_RAISED FROM performance_schema.events_errors_summary_global_by_error"
        " WHERE ERROR_NUMBER = 1205"
    )
    hold = listener.hold("switch.renamed")
    process = two.start("--on-switch", "exit 1", listener=listener)
    await_held(process, hold)
    before = two.there.query(refused)
    with contextlib.closing(two.there.connect()) as backup:
        backup.query("LOCK INSTANCE FOR BACKUP")
        hold.release()
        until(lambda: process.poll() is not None or two.there.query(refused) > before)
    report, _ = two.end(process)
    assert report["error_code"] == "switch-failed", report
    assert two.tables(two.here) == ["_t_chkpnt", "t"]
    assert two.tables(two.there) == ["_t_chkpnt", "_t_new"]


@pytest.mark.slow
def test_a_command_that_takes_too_long_has_failed(two):
    """It is ended after its time, and the tables are back."""
    report, _ = two.move("--on-switch", "sleep 60", "--switch-timeout", "1")
    assert report["error_code"] == "switch-failed", report
    assert "longer than 1 s" in report["error"]
    assert two.here.query("SELECT COUNT(*) FROM t") == [(ROWS,)]
    report, _ = two.move()
    assert report["outcome"] == "done", report


@pytest.mark.slow
def test_several_tables_of_several_schemas_move_at_once(two):
    """All of them are switched by one command, at one moment."""
    schema = f"u_{uuid.uuid4().hex[:12]}"
    others = [Database(one.server, schema) for one in (two.here, two.there)]
    try:
        fill(others[0], "t")
        fill(two.here, "v")
        names = (f"{two.here.name}.%", f"{schema}.t")
        report, events = two.move("--tables", names[0], "--tables", names[1])
        assert report["outcome"] == "done", report
        assert len([one for one in events if one["event"] == "move.switching"]) == 1
        assert two.tables(two.there) == ["t", "v"]
        assert two.tables(others[1]) == ["t"]
        assert two.there.query("SELECT COUNT(*) FROM v") == [(ROWS,)]
        # By the same pattern, although no such table is there any more.
        report, _ = two.move("--tables", names[0], "--tables", names[1])
        assert "moved already" in report["error"], report
    finally:
        for one in others:
            one.close()


@pytest.mark.slow
def test_a_rehearsal_leaves_nothing(two):
    """A dry run copies and compares, and drops what it has made on both servers."""
    report, _ = two.move("--alter", ALTER, "--dry-run")
    assert report["outcome"] == "rehearsed", report
    assert report["rows_copied"] == ROWS
    assert two.tables(two.here) == ["t"]
    assert two.tables(two.there) == []
    assert two.times_switched() == 0


@pytest.mark.slow
def test_it_waits_for_its_operator(two):
    """With --defer-cutover a sentinel on the source holds the switch back."""
    process = two.start("--on-switch", two.switch, "--defer-cutover")
    until(lambda: "_t_snt" in two.tables(two.here), "the sentinel")
    assert "t" in two.tables(two.here)
    two.here.execute("DROP TABLE _t_snt")
    report, _ = two.end(process)
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_a_trigger_that_comes_after_the_preflight_ends_it(two, listener):
    """It would stay on the source, and the table on the target would have none."""
    hold = listener.hold("move.built", 1)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.here.execute("CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.a")
    hold.release()
    report, _ = two.end(process)
    assert "has put a trigger on" in report["error"], report
    assert "t" in two.tables(two.here)


@pytest.mark.slow
def test_a_foreign_key_that_comes_to_wait_on_the_target_is_named(two, listener):
    """The server would refuse the RENAME under the locks, and name the child alone."""
    hold = listener.hold("move.built", 1)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.there.execute(WAITING)
    hold.release()
    report, _ = two.end(process)
    assert "foreign key f of" in report["error"], report
    two.there.execute("DROP TABLE c")
    two.move("--on-switch", two.switch)
    assert_moved(two)


@pytest.mark.slow
def test_a_source_that_became_a_replica_meanwhile_switches_nothing(two, listener):
    """Its RENAME would be on a replica alone, and the application sent away from the primary."""
    hold = listener.hold("drain.begun", 1)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.here.set_global("read_only", "ON")
    try:
        hold.release()
        report, _ = two.end(process)
        executed = two.here.query("SELECT @@GLOBAL.gtid_executed")
        again, _ = two.move("--on-switch", two.switch)
        assert two.here.query("SELECT @@GLOBAL.gtid_executed") == executed
    finally:
        two.here.execute("SET GLOBAL read_only = OFF")
    for one in (report, again):
        assert "takes no writes any more (read_only=ON)" in one["error"], one
    # The second one has written nothing.
    assert (report["outcome"], again["outcome"]) == ("failed", "refused")
    assert "t" in two.tables(two.here)
    report, _ = two.move("--on-switch", two.switch)
    assert report["resumed"], report
    assert_moved(two)


@pytest.mark.slow
def test_the_search_for_duplicates_of_a_new_key_is_held_back(two, listener):
    """It reads the whole table, as the copy does."""
    hold = listener.hold("feed.started", 1)
    process = two.start(
        *("--on-switch", two.switch, "--alter", "ADD UNIQUE KEY (a)"),
        *("--max-load", "Threads_connected=0"),
        listener=listener,
    )

    def waits():
        found = two.here.query("SELECT record FROM _t_chkpnt WHERE id = 6")
        shown = json.loads(str(found[0][0])).get("waiting_for", "") if found else ""
        return hold.held.is_set() or "Threads_connected" in shown

    try:
        until(lambda: "_t_chkpnt" in two.tables(two.here), "the checkpoint")
        until(waits, "the limit")
        assert not hold.held.is_set()
    finally:
        hold.release()
        process.send_signal(signal.SIGTERM)
    report, _ = two.end(process)
    assert report["outcome"] == "interrupted", report


@pytest.mark.slow
def test_a_backup_on_the_target_is_waited_for_without_a_lock_on_the_source(two, listener):
    """Its RENAME would wait for the backup, a second in each try, and every writer for that."""
    hold = listener.hold("drain.begun", 1)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    with contextlib.closing(two.there.connect()) as backup:
        backup.cursor().execute("LOCK INSTANCE FOR BACKUP")
        hold.release()

        def waits():
            found = two.here.query("SELECT record FROM _t_chkpnt WHERE id = 6")
            shown = str(found[0][0]) if found else ""
            return "lock of the switch" in shown and shown

        assert "before the lock of the switch is requested" in until(waits, "the backup")
        assert listener.count("switch.lock") == 0
    report, events = two.end(process)
    assert report["outcome"] == "done", report
    assert "cutover.try_failed" not in [one["event"] for one in events]
    assert_moved(two)


@pytest.mark.slow
def test_interrupted_it_is_resumed(two, listener):
    """SIGTERM leaves both sides for the same command."""
    hold = listener.hold("chunk.committed", 3)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    process.send_signal(signal.SIGTERM)
    hold.release()
    report, _ = two.end(process)
    assert report["outcome"] == "interrupted", report
    assert two.tables(two.there) == ["_t_chkpnt", "_t_new"]
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert report["rows_copied_before"] > 0
    assert_moved(two)


@pytest.mark.slow
def test_what_was_compared_under_other_settings_is_compared_again(two, listener):
    """As by a migration: the place of the comparison is forgotten where the digest is another."""
    alter = ("--alter", "MODIFY a VARCHAR(20)")
    hold = listener.hold("chunk.committed", 3)
    process = two.start(*alter, listener=listener)
    await_held(process, hold)
    process.send_signal(signal.SIGTERM)
    hold.release()
    assert two.end(process)[0]["outcome"] == "interrupted"
    place = """REPLACE(record, '"checked_up_to": []', '"checked_up_to": ["1"]')"""
    assert two.here.execute(f"UPDATE _t_chkpnt SET record = {place} WHERE id = 1")
    two.here.set_global("time_zone", "+02:00")
    report, events = two.move(*alter)
    assert report["outcome"] == "done", report
    reasons = [one["reason"] for one in events if one["event"] == "checksum.restarted"]
    assert len([one for one in reasons if "are others since" in one]) == 1, reasons
    assert_moved(two)


@pytest.mark.slow
def test_a_move_that_is_started_during_a_backup_of_the_target_waits(two):
    """Its first tables could not be made there; nor could those on the source be dropped again."""
    with contextlib.closing(two.there.connect()) as backup:
        backup.cursor().execute("LOCK INSTANCE FOR BACKUP")
        process = two.start("--on-switch", two.switch)
        waits = "the first table of the migration"
        said = ""
        assert process.stderr is not None
        while waits not in said:
            said = process.stderr.readline()
            assert said, "it ended"
        assert two.tables(two.here) == ["t"]
        assert two.tables(two.there) == []
    report, _ = two.end(process)
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_begun_afresh_with_fewer_tables_it_leaves_no_copy_of_the_others(two, listener):
    """Nothing leads to them any more: their copies would stay on the target for good."""
    fill(two.here, "u")
    both = ("--tables", f"{two.here.name}.u", "--tables", f"{two.here.name}.t")
    two.kill_at(listener, "drain.begun", *both)
    assert "_u_new" in two.tables(two.there)
    report, events = two.move("--start-afresh")
    assert report["outcome"] == "done", report
    assert "u" in two.tables(two.here)
    assert not [one for one in two.tables(two.here) if one.startswith("_u")]
    assert not [one for one in two.tables(two.there) if one.startswith("_u")]
    said = " ".join(one["text"] for one in events if one["event"] == "auxiliary.dropped")
    assert f"the earlier run of {two.here.name}.u" in said, events
    two.here.execute("DROP TABLE u")
    assert_moved(two)


# -- the way back


def start_followed(two, listener=None):
    """Start a move whose source follows the target; return once it does."""
    process = two.start(
        "--alter", ALTER, "--on-switch", two.switch_both_ways, "--keep-old-current", "10m",
        listener=listener,
    )  # fmt: skip
    until(lambda: two.times_switched() or process.poll() is not None, "the switch")
    return process


@pytest.mark.slow
def test_a_revert_brings_the_table_back(two):
    """What was written on the target is on the source again; nothing is lost on the way."""
    with Application(two) as clients:
        process = start_followed(two)
        clients.wait_for(60)
        done = two.revert()
        assert done.returncode == 0, done.stderr
        report, _ = two.end(process)
        clients.wait_for(30)
    assert report["outcome"] == "reverted", report
    clients.assert_kept(two.here)
    assert two.times_switched() == 2
    assert two.tables(two.here) == ["t"]
    assert two.tables(two.there) == []


@pytest.mark.slow
def test_the_target_says_that_a_move_was_taken_back(two):
    """What is kept there is no move that has yet to begin, and no command ends it."""
    process = start_followed(two)
    until(lambda: two.follows(process), "the way back")
    done = run_here(two.here, "revert", "--skip-drop")
    assert done.returncode == 0, done.stderr
    report, _ = two.end(process)
    assert report["outcome"] == "reverted", report
    assert two.tables(two.there) == ["_t_chkpnt", "_t_undone"]
    assert status_there(two)["phase"] == "reverted; _t_undone is kept"
    fill(two.there)
    refused = run_here(two.there, "migrate", "--alter", "ADD y INT")
    assert refused.returncode == 2, refused
    assert "and was taken back: " in refused.stderr
    two.there.execute("DROP TABLE t")
    two.cleanup(two.there, "t", "--drop-old")
    assert two.tables(two.there) == []


@pytest.mark.slow
@pytest.mark.parametrize("which", ["here", "there"])
def test_no_revert_to_or_from_a_server_that_became_a_replica(two, which):
    """Its RENAME would be on a replica alone: the application stays where it is, and follows."""
    process = start_followed(two)
    replica = getattr(two, which)
    replica.set_global("read_only", "ON")
    try:
        done = two.revert()
    finally:
        replica.execute("SET GLOBAL read_only = OFF")
    where = two.ways[which == "there"]
    assert f"{where} takes no writes" in done.stderr, done.stderr
    assert "t" in two.tables(two.there)
    assert two.times_switched() == (2 if which == "here" else 1)
    if which == "here":
        # The command may lift a fence of the source; it did not, as one that fails.
        report, _ = two.end(process)
        assert report["error_code"] == "switch-failed", report
        process = start_followed(two)
        until(lambda: two.follows(process), "reverse replication")
    done = two.revert()
    assert done.returncode == 0, done.stderr
    report, _ = two.end(process)
    assert report["outcome"] == "reverted", report
    assert two.tables(two.here) == ["t"]


@pytest.mark.slow
def test_no_revert_while_another_server_may_write_the_targets_table(two):
    """The lock of the switch holds on one server: a write through another one would be lost."""
    process = start_followed(two)
    with replicating(two.there):
        done = two.revert()
        assert "replicates to this server and may write the table" in done.stderr, done.stderr
        assert two.ways[1] in done.stderr
    assert "t" in two.tables(two.there)
    assert two.times_switched() == 1
    done = two.revert()
    assert done.returncode == 0, done.stderr
    report, _ = two.end(process)
    assert report["outcome"] == "reverted", report


@pytest.mark.slow
def test_a_target_that_another_server_writes_to_is_refused_without_consent(two):
    """The way back would have to take what comes through the other one."""
    with replicating(two.there):
        plan = two.plan(code=2)
        consented = two.plan("--writes-only-here", code=0)
    (refused,) = plan["refusals"]
    assert refused["code"] == "other-writers", refused
    assert "on the target, " in refused["cause"]
    assert "--writes-only-here" in refused["remedy"]
    assert consented["refusals"] == []


@pytest.mark.slow
def test_what_is_to_be_made_after_the_move_is_not_made_while_the_way_back_is_open(two):
    """DDL on the target's table ends reverse replication for good."""
    two.here.execute("CREATE TRIGGER later BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'x'")
    for more, said in (((), False), (("--keep-old-current", "1h"), True)):
        found = two.plan(*more, code=2)["refusals"]
        (remedy,) = [one["remedy"] for one in found if one["code"] == "trigger-not-kept"]
        assert ("once --keep-old-current has ended" in remedy) == said, remedy


@pytest.mark.slow
def test_the_command_of_a_revert_may_lift_the_fence_of_the_source(two, tmp_path):
    """An operator may have set read_only there, for clients that were not sent to the target."""
    server, lifts = two.here.server, tmp_path / "lifts.py"
    lifts.write_text(
        "import json, sys, MySQLdb\n"
        "if json.load(sys.stdin)['back']:\n"
        f"    given = dict(host={server.host!r}, port={server.port}, user={server.user!r})\n"
        f"    found = MySQLdb.connect(password={server.password!r}, **given)\n"
        "    found.cursor().execute('SET GLOBAL read_only = OFF')\n"
    )
    process = two.start(*("--on-switch", f"{sys.executable} {lifts}", "--keep-old-current", "10m"))
    until(lambda: two.follows(process), "the way back")
    two.here.set_global("read_only", "ON")
    try:
        done = two.revert()
    finally:
        two.here.execute("SET GLOBAL read_only = OFF")
    assert done.returncode == 0, done.stderr
    report, _ = two.end(process)
    assert report["outcome"] == "reverted", report
    assert two.tables(two.here) == ["t"]


@pytest.mark.slow
def test_the_old_table_of_a_fenced_source_is_dropped_after_its_grace(two, listener):
    """Nobody uses it, and it replicates from nobody: its read_only keeps clients away alone."""
    hold = listener.hold("switch.unlocked")
    given = ("--on-switch", two.switch, "--drop-old-after", "1s")
    process = two.start(*given, listener=listener)
    await_held(process, hold)
    two.here.set_global("read_only", "ON")
    try:
        hold.release()
        report, _ = two.end(process)
    finally:
        two.here.execute("SET GLOBAL read_only = OFF")
    assert report["outcome"] == "done", report
    assert two.tables(two.here) == []


@pytest.mark.slow
def test_a_cleanup_drops_the_old_table_of_a_fenced_source(two):
    """As the end of the grace does: read_only says nothing of a table that is out of the way."""
    two.here.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    two.move("--tables", f"{two.here.name}.%")
    # An earlier cleanup was stopped between the two.
    two.here.execute("DROP TABLE _t_moved")
    two.here.set_global("read_only", "ON")
    try:
        # No account writes under this one.
        two.here.set_global("super_read_only", "ON")
        words = [*("--drop-old", "--yes", "--database", two.here.name, "--table", "u")]
        done = run_here(two.here, "cleanup", *words)
        assert "takes no writes (super_read_only=ON)" in done.stderr, done.stderr
        two.here.execute("SET GLOBAL super_read_only = OFF")
        own = f"SELECT, DROP ON {granted(two.here.name)}"
        with account(two.here, own, "PROCESS, REPLICATION CLIENT ON *.*") as less:
            reached = f"{less.host}:{less.port}"
            words = ["cleanup", "--host", reached, "--user", less.user, *words]
            done = run_words_here(words, SPIRIT_PY_PASSWORD=less.password)
        # It would try for ten minutes without a word.
        assert "lacks CONNECTION_ADMIN on *.*: read_only is ON" in done.stderr, done.stderr
        two.cleanup(two.here, "u", "--drop-old")
    finally:
        two.here.execute("SET GLOBAL super_read_only = OFF")
        two.here.execute("SET GLOBAL read_only = OFF")
    assert two.tables(two.here) == []


@pytest.mark.slow
def test_the_target_forgets_a_move_whose_way_back_never_began(two, listener):
    """The old table stays on the source, and nothing leads back from the target."""
    given = ("--keep-old-current", "10m", "--drop-old-after", "0s")
    two.kill_at(listener, "switch.renamed", *given)
    report, _ = two.move(*given)
    assert (report["error_code"], two.times_switched()) == ("switch-failed", 0), report
    # Whoever has sent the application there by hand.
    report, _ = two.end(two.start(*given))
    assert report["error_code"] == "reverse-replication-lost", report
    assert "_t_moved" in two.tables(two.here)
    assert two.tables(two.there) == ["t"]


@pytest.mark.slow
def test_killed_while_it_is_taken_back_there_is_no_way_back(two, listener):
    """Its place is before a RENAME of ours: nobody is sent to the target but without one."""
    with Application(two) as clients:
        clients.wait_for(20)
        hold = listener.hold("switch.undoing")
        keep = ("--keep-old-current", "10m")
        process = two.start("--on-switch", "exit 1", *keep, listener=listener)
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()
        report, _ = two.move(*keep)
        assert (report["error_code"], two.times_switched()) == ("switch-failed", 0), report
        assert "without --keep-old-current" in report["hint"]
        report, _ = two.move()
        clients.wait_for(20)
    assert report["outcome"] == "done", report
    clients.assert_kept(two.there)
    assert_moved(two)


@pytest.mark.slow
def test_a_switch_whose_way_back_cannot_be_noted_is_taken_back(two, monkeypatch):
    """Nobody was sent to the target yet, and without the place nothing would follow it."""

    def fails(*_):
        raise MigrationFailure("no binary log")

    keep = ("--keep-old-current", "1s")
    with monkeypatch.context() as patched:
        patched.setattr(renames, "place_there", fails)
        done = two.move_here("--on-switch", two.switch, *keep)
    assert done.returncode == 1, done
    assert "it was not called: the place of the way back is not noted: no binary log" in done.stderr
    assert (two.tables(two.here), two.times_switched()) == (["_t_chkpnt", "t"], 0)
    report, _ = two.move(*keep)
    assert report["outcome"] == "done", report
    assert not any("no reverse replication" in one for one in report["warnings"]), report
    assert_moved(two)


@pytest.mark.slow
def test_what_a_way_back_has_left_is_forgotten(two, listener):
    """A switch that was taken back, and one that is cut in half later: the source is the table."""
    keep = ("--keep-old-current", "10m")
    with Application(two) as clients:
        hold = listener.hold("switch.undoing")
        process = two.start("--on-switch", "exit 1", *keep, listener=listener)
        await_held(process, hold)
        of_reverse = "SELECT record FROM _t_chkpnt WHERE id = 2"
        ((note,),) = two.here.query(of_reverse)
        hold.release()
        report, _ = two.end(process)
        assert report["error_code"] == "switch-failed", report
        assert two.here.query(of_reverse) == []
        # As if it could not be deleted.
        two.here.execute("INSERT INTO _t_chkpnt (id, record) VALUES (2, %s)", (note,))
        hold = listener.hold_after("switch.arrived", 1)
        process = two.start("--on-switch", two.switch, *keep, listener=listener)
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()
        assert two.here.query(of_reverse) == []
        clients.wait_for(20)
        report, _ = two.move("--keep-old-current", "1s")
        clients.wait_for(20)
    assert report["outcome"] == "done", report
    clients.assert_kept(two.there)


@pytest.mark.slow
def test_killed_in_the_operators_command_it_leaves_the_way_back(two, listener):
    """The place is noted before the command: the next process follows, and a revert is possible.

    A table that is renamed away has other names of CHECKs, and lists them in another order.
    """
    two.here.execute(
        "ALTER TABLE t ADD CHECK (a > -9), ADD CONSTRAINT t_chk_a CHECK (a > -8),"
        " ADD CONSTRAINT positive CHECK (a > -7)"
    )
    with Application(two) as clients:
        clients.wait_for(20)
        hold = listener.hold("switch.commanded")
        keep = ("--keep-old-current", "10m")
        words = ("--on-switch", two.switch_both_ways, *keep)
        process = two.start(*words, listener=listener)
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()
        process = two.start(*words)
        until(lambda: two.follows(process), "reverse replication")
        clients.wait_for(20)
        done = two.revert()
        assert done.returncode == 0, done.stderr
        report, _ = two.end(process)
        clients.wait_for(20)
    assert report["outcome"] == "reverted", report
    clients.assert_kept(two.here)


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.kills
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_A_MOVE_BACK, kills.MORE_OF_A_MOVE_BACK), ids=str
)
def test_killed_on_the_way_back_it_goes_on(two, listener, point, nth):
    """Killed in a revert, the same command carries on, and a revert can be asked for again."""
    with Application(two, seed=nth) as clients:
        process = start_followed(two, listener)
        clients.wait_for(30)
        hold = listener.hold_after(point, nth)
        asked = two.ask_revert()
        await_held(process, hold)
        process.kill()
        process.communicate()
        hold.release()
        asked.communicate()
        process = two.start(
            "--alter", ALTER, "--on-switch", two.switch_both_ways, "--keep-old-current", "10m"
        )
        until(lambda: two.follows(process), "reverse replication")
        if process.poll() is None:
            clients.wait_for(10)
            done = two.revert()
            # By then it may have ended what the killed one began, and there is nothing to revert.
            assert done.returncode == 0 or process.wait(MINUTE) == 0, done.stderr
        report, _ = two.end(process)
        assert report["outcome"] == "reverted", report
        clients.wait_for(10)
    clients.assert_kept(two.here)
    assert two.tables(two.here) == ["t"]
    assert two.tables(two.there) == []


@pytest.mark.slow
def test_behind_a_revert_the_application_is_not_sent_to_the_target(two, listener):
    """The note that it was sent there is lost: the tables say that it has to be sent back."""
    process = start_followed(two, listener)
    until(lambda: two.follows(process), "reverse replication")
    hold = listener.hold_after("switch.unlocked", 1)
    asked = two.ask_revert()
    await_held(process, hold)
    process.kill()
    process.communicate()
    hold.release()
    asked.communicate()
    lost = """REPLACE(record, '"switched": true', '"switched": false')"""
    assert two.here.execute(f"UPDATE _t_chkpnt SET record = {lost} WHERE id = 8")
    assert two.times_switched() == 2
    process = two.start("--alter", ALTER, "--on-switch", two.switch_both_ways)
    report, events = two.end(process)
    assert report["outcome"] == "reverted", report
    assert [one["back"] for one in events if one["event"] == "move.switching"] == [True]
    assert two.tables(two.here) == ["t"]


@pytest.mark.slow
def test_a_revert_is_made_though_the_source_is_lost_behind_the_command(two, listener):
    """Its read_only cannot be looked at any more: all RENAMEs are made, and the command has run."""
    process = start_followed(two, listener)
    until(lambda: two.follows(process), "reverse replication")
    hold = listener.hold_after("switch.renamed", 1)
    asked = two.ask_revert()
    await_held(process, hold)
    owners = two.here.query(
        "SELECT DISTINCT processlist_id FROM performance_schema.metadata_locks JOIN"
        " performance_schema.threads ON thread_id = owner_thread_id"
        f" WHERE object_schema = '{two.here.name}' AND object_name = 't' AND"
        " processlist_id <> CONNECTION_ID()"
    )
    assert owners
    for (number,) in owners:
        two.here.execute(f"KILL {number}")
    hold.release()
    report, events = two.end(process)
    asked.communicate()
    assert report["outcome"] == "reverted", report
    assert not [one for one in events if one["event"] == "cutover.try_failed"]
    assert two.times_switched() == 2
    assert two.tables(two.here) == ["t"]


@pytest.mark.slow
def test_a_failed_command_leaves_the_table_on_the_target(two):
    """The revert is taken back; the same command carries on, and the next revert is made."""
    two.fail_back.write_text("")
    with Application(two) as clients:
        process = start_followed(two)
        clients.wait_for(20)
        done = two.revert()
        assert done.returncode == 1, done.stderr
        report, _ = two.end(process)
        assert report["error_code"] == "switch-failed", report
        assert "t" in two.tables(two.there)
        clients.wait_for(20)
        two.fail_back.unlink()
        process = two.start(
            "--alter", ALTER, "--on-switch", two.switch_both_ways, "--keep-old-current", "10m"
        )
        until(lambda: two.follows(process), "reverse replication")
        done = two.revert()
        assert done.returncode == 0, done.stderr
        report, _ = two.end(process)
        clients.wait_for(10)
    assert report["outcome"] == "reverted", report
    clients.assert_kept(two.here)


@pytest.mark.slow
def test_a_misspelt_table_to_leave_out_moves_nothing(two):
    """It would be moved."""
    report, _ = two.move("--tables", f"{two.here.name}.%", "--exclude", f"{two.here.name}.tt")
    assert report["error_code"] == "no-such-table", report
    assert two.tables(two.there) == []


@pytest.mark.slow
def test_a_new_table_that_the_pattern_fits_drops_no_copy(two, listener):
    """It sorts first, and has no record: that of the others counts, and the new table is named."""
    chosen = ("--tables", f"{two.here.name}.%")
    two.kill_at(listener, "checksum.chunk", *chosen)
    two.here.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    report, _ = two.move(*chosen)
    assert report["error_code"] == "unfinished-work", report
    assert f"--exclude {two.here.name}.a" in report["hint"]
    assert "_t_new" in two.tables(two.there)
    report, _ = two.move(*chosen, "--exclude", f"{two.here.name}.a")
    assert report["outcome"] == "done", report
    assert report["rows_copied"] == report["rows_copied_before"] == ROWS
    # Nor where a table is moved already.
    report, _ = two.move(*chosen)
    assert report["error_code"] == "cannot-resume", report
    assert f"--exclude {two.here.name}.a" in report["hint"]


@pytest.mark.slow
def test_a_table_that_was_renamed_back_by_hand_stays(two):
    """Nobody has asked for a revert: the application may use it, and it is not renamed away."""
    process = start_followed(two)
    until(lambda: two.follows(process), "reverse replication")
    process.kill()
    process.communicate()
    two.here.execute("RENAME TABLE _t_moved TO t")
    report, _ = two.move("--alter", ALTER, "--keep-old-current", "10m")
    assert report["outcome"] == "refused", report
    assert "have their names again" in report["error"]
    assert {"t", "_t_moved"} & {*two.tables(two.here)} == {"t"}
    assert "t" in two.tables(two.there)
    # What was taken back is carried on.
    two.here.execute("RENAME TABLE t TO _t_moved")
    process = start_followed(two)
    until(lambda: two.follows(process), "reverse replication")
    assert two.revert().returncode == 0
    assert two.end(process)[0]["outcome"] == "reverted"


@pytest.mark.slow
def test_its_time_passes(two):
    """After it the source's table stays for the operator, and follows no more."""
    report, events = two.move("--keep-old-current", "1s")
    assert report["outcome"] == "done", report
    assert "reverse.ended" in {one["event"] for one in events}
    assert_moved(two)
    done = two.revert()
    assert done.returncode == 2, done.stderr


# -- what is proven


@pytest.mark.slow
def test_a_byte_that_another_wrote_on_the_target_is_found(two, listener):
    """The comparison across the servers finds it: with --no-repair nothing is switched."""
    hold = listener.hold("drain.begun")
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.there.execute("UPDATE _t_new SET b = CONCAT(b, '!') WHERE id = 77")
    hold.release()
    report, _ = two.end(process)
    assert report["outcome"] == "failed", report
    assert report["differences_found"] == 1
    assert "t" in two.tables(two.here)
    assert two.times_switched() == 0


@pytest.mark.slow
def test_such_a_byte_is_repaired(two, listener):
    """Without --no-repair the row is read again on the source."""
    hold = listener.hold("drain.begun")
    words = [one for one in two.words("--on-switch", two.switch) if one != "--no-repair"]
    two.words = lambda *_, **__: words
    process = two.start(listener=listener)
    await_held(process, hold)
    two.there.execute("UPDATE _t_new SET b = CONCAT(b, '!') WHERE id = 77")
    two.there.execute("DELETE FROM _t_new WHERE id = 78")
    two.there.execute("INSERT INTO _t_new (id, a, b) VALUES (99999, 1, 'x')")
    hold.release()
    report, _ = two.end(process)
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 3
    assert two.there.query("SELECT COUNT(*), SUM(b = CONCAT('row ', id)) FROM t") == [(ROWS, ROWS)]


@pytest.mark.slow
def test_a_trigger_that_another_made_on_the_target_is_found(two, listener):
    """No binary log of the target is read; what was applied since would be other rows (R25)."""
    hold = listener.hold("switch.begin")
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.there.execute("CREATE TRIGGER g BEFORE INSERT ON _t_new FOR EACH ROW SET NEW.a = 99")
    two.here.execute("UPDATE t SET b = 'late' WHERE id = 77")
    hold.release()
    report, _ = two.end(process)
    assert report["error_code"] == "schema-changed", report
    assert "trigger g (BEFORE INSERT)" in report["error"]
    assert "t" in two.tables(two.here)
    assert "t" not in two.tables(two.there)
    assert two.times_switched() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "nth", "done", "said"),
    [
        ("chunk.committed", 1, "DROP TABLE _t_new", "has dropped or renamed"),
        ("drain.begun", 1, "TRUNCATE TABLE _t_new", "has truncated, rebuilt or replaced"),
    ],
    ids=["dropped", "truncated"],
)
def test_what_another_did_to_the_new_table_is_said(two, listener, point, nth, done, said):
    """Whatever failed because of it: with the server, what is there now, and what to do next."""
    fill(two.here, "more", 20_000)
    two.here.execute("INSERT INTO t SELECT id + 5000, a, b FROM more")
    hold = listener.hold(point, nth)
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.there.execute(done)
    if "DROP" in done:
        # A change that the feed has to apply there is what fails first.
        two.here.execute("UPDATE t SET b = CONCAT(b, '!')")
    hold.release()
    report, _ = two.end(process)
    assert report["error_code"] == "schema-changed", report
    where = f"{two.here.name}._t_new on {two.ways[1]}"
    assert f"another session {said} {where}" in report["error"]
    assert ("it is empty now" in report["error"]) is (said != "has dropped or renamed")
    assert "sql_log_bin" not in report["hint"]
    assert "start the move again" in report["hint"]
    left = [one for one in report["warnings"] if "is left" in one]
    assert not any("spirit-py cleanup" in one for one in left), left


@pytest.mark.slow
def test_another_table_on_the_target_is_not_switched_to(two, listener):
    """A new table that was replaced after the comparison is noticed under the lock (R25)."""
    hold = listener.hold("switch.begin")
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    two.there.execute("CREATE TABLE other LIKE _t_new")
    two.there.execute("RENAME TABLE _t_new TO gone, other TO _t_new")
    hold.release()
    report, _ = two.end(process)
    assert report["error_code"] == "schema-changed", report
    assert "t" in two.tables(two.here)
    assert two.times_switched() == 0
    # A stranger's table stays; what proves ours went with the checkpoint.
    assert set(two.tables(two.there)) >= {"_t_new", "gone"}


@pytest.mark.slow
def test_a_value_that_does_not_fit_is_named(two):
    """The row is named; the source stays as it is."""
    two.here.execute("UPDATE t SET a = 300 WHERE id = 1234")
    report, _ = two.move("--alter", "MODIFY a TINYINT UNSIGNED")
    assert report["error_code"] == "value-lost", report
    assert "t" in two.tables(two.here)


def test_rows_are_written_as_they_come(db, monkeypatch):
    """Some megabytes are gathered at most; after an error between two all are read once more."""
    fill(db)
    db.execute("ALTER TABLE t ADD COLUMN j JSON")
    db.execute("UPDATE t SET j = '[1, 2]' WHERE id > 1000")
    mapping = replace(map_table(db), apart=True)
    options, execute, sizes = connection_options(db), Session.execute, list[int]()
    join = JoinAcross(connection=options, reads=options, mapping=mapping, licence=db.name)

    def interrupted(self, sql, *given):
        if sql.startswith("REPLACE"):
            sizes.append(len(sql))
            if len(sizes) == 20:
                raise ServerFault(DEADLOCK, "Deadlock found", where="test")
        return execute(self, sql, *given)

    monkeypatch.setattr(Session, "execute", interrupted)
    monkeypatch.setattr(carrier, "_GATHERED", 1000)
    order = ChunkOrder(chunk=chunk(0, None, None))
    with contextlib.closing(join(0)) as member, open_session(db, role="driver") as driver:
        assert driver.value("SELECT GET_LOCK(%s, 0)", (db.name,))
        copied = ChunkCopied.decode(member.handle(order.encode()))
    assert (copied.rows, copied.retries) == (ROWS, 1)
    assert len(sizes) > 40
    assert max(sizes) < 2000
    every = "SELECT id, a, b, j FROM {} ORDER BY id"
    assert db.query(every.format("_t_new")) == db.query(every.format("t"))
    # So it is over rows that are there already, in one transaction.
    db.execute("UPDATE _t_new SET b = 'other'")
    with contextlib.closing(join(0)) as member:
        member._carry_over_own(order.chunk)
    assert db.query(every.format("_t_new")) == db.query(every.format("t"))


@pytest.mark.slow
def test_every_value_arrives_byte_for_byte(two):
    """Every type of the comparison's tests, in one table: with NULL, with all that it can hold.

    The comparison of the run may not have repaired anything; the server's own bytes decide here.
    """
    types = {name: one for name, one in TYPES.items() if "vector" not in name}
    columns = ", ".join(f"c{n} {one[0]}" for n, one in enumerate(types.values()))
    two.here.execute("DROP TABLE t")
    two.here.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, g INT AS (id * 2) STORED,"
        " h VARCHAR(9) INVISIBLE, CHECK (id < 1000), CONSTRAINT mine CHECK (id > 0))"
    )
    two.here.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    number = 0
    for n, (_, value, others) in enumerate(types.values()):
        for text in (value, *others):
            number += 1
            two.here.execute(f"INSERT INTO t (id, c{n}, h) VALUES ({number}, {text}, 'x')")
    report, _ = two.move("--alter", "ADD COLUMN z INT NOT NULL DEFAULT 5")
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 0
    names = ["id", "g", "h", *(f"c{n}" for n, _ in enumerate(types))]
    selected = ", ".join(f"HEX({name})" for name in names)
    (there,) = [two.there.query(f"SELECT {selected} FROM t ORDER BY id")]
    assert there == two.here.query(f"SELECT {selected} FROM _t_moved ORDER BY id")
    ((made,),) = two.there.query(
        "SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = DATABASE()"
        " AND CONSTRAINT_TYPE = 'CHECK' AND CONSTRAINT_NAME IN ('t_chk_1', 'mine')"
    )
    assert made == 2


@pytest.mark.slow
def test_the_alter_is_read_as_on_the_source_whatever_the_targets_settings_are(two):
    """Another zone makes other instants of a default, and each of several targets its own."""
    two.there.set_global("time_zone", "+05:00")
    two.there.set_global("sql_mode", "ANSI_QUOTES")
    alter = (
        """ADD made TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00', ADD w CHAR(1) DEFAULT "w\""""
    )
    assert two.plan("--alter", alter)["refusals"] == []
    done = two.move_here("--alter", alter, "--on-switch", two.switch)
    assert done.returncode == 0, done.stderr
    (here,) = two.here.query("SELECT UNIX_TIMESTAMP('2020-01-01 00:00:00')")
    two.there.execute("INSERT INTO t (id) VALUES (100000)")
    (there,) = two.there.query("SELECT UNIX_TIMESTAMP(made) FROM t WHERE id = 100000")
    assert here == there


@pytest.mark.slow
def test_instants_arrive_where_a_check_is_judged_in_the_servers_zone(two):
    """The writing session has the zone of the source, and what it writes is in none (R22)."""
    two.here.set_global("time_zone", "+02:00")
    two.here.execute(
        "ALTER TABLE t ADD COLUMN at TIMESTAMP(3) NOT NULL DEFAULT '2001-01-01', ADD COLUMN n"
        " TIMESTAMP NULL, ADD CHECK (n > '2000-01-01' OR a > 27 OR HOUR(at) > 24), DROP"
        " PRIMARY KEY, ADD PRIMARY KEY (id, at)"
    )
    two.here.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
    two.here.execute("UPDATE t SET at = '2024-03-31 01:30:00.5' + INTERVAL id SECOND")
    two.here.execute("UPDATE t SET n = IF(a > 27, '0000-00-00', '2024-05-01') WHERE id < 1000")
    report, _ = two.move("--sql-mode", "NO_ENGINE_SUBSTITUTION")
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 0
    instants = "SELECT id, UNIX_TIMESTAMP(at), UNIX_TIMESTAMP(n) FROM {} ORDER BY id"
    assert two.there.query(instants.format("t")) == two.here.query(instants.format("_t_moved"))


@pytest.mark.slow
def test_numbers_of_a_document_keep_their_types(two):
    """The text of a signed number from 2^32 on is read as an unsigned one."""
    two.here.execute("ALTER TABLE t ADD COLUMN j JSON")
    signed = "JSON_OBJECT('id', CAST(4294967290 + id AS SIGNED), 'n', -id)"
    two.here.execute(f"UPDATE t SET j = {signed} WHERE id < 1000")
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 0
    types = "SELECT JSON_TYPE(j->'$.id'), COUNT(*) FROM {} WHERE id < 1000 GROUP BY 1"
    assert two.there.query(types.format("t")) == two.here.query(types.format("_t_moved"))


@pytest.mark.slow
def test_members_without_a_text_arrive_by_their_numbers(two):
    """The empty set, an empty member, and an ENUM's number 0 have one text; under lenient modes."""
    two.here.execute("ALTER TABLE t ADD COLUMN s SET('', 'q'), ADD COLUMN e ENUM('', 'q')")
    two.here.execute("SET SESSION sql_mode = ''")
    two.here.execute("UPDATE t SET s = id % 4, e = id % 3 WHERE id % 5")
    report, _ = two.move("--sql-mode", "NO_ENGINE_SUBSTITUTION")
    assert report["outcome"] == "done", report
    numbers = "SELECT id, s + 0, e + 0 FROM {} ORDER BY id"
    assert two.there.query(numbers.format("t")) == two.here.query(numbers.format("_t_moved"))


@pytest.mark.slow
def test_what_the_definitions_text_does_not_show_arrives(two):
    """Members above U+FFFF, and a default with a letter of two codes."""
    two.here.execute(
        "ALTER TABLE t ADD e ENUM('?', '😀'), ADD s SET('😀', 'b') CHARACTER SET utf16,"
        " ADD d VARCHAR(9) CHARACTER SET cp932 NOT NULL DEFAULT X'FA54'"
    )
    two.here.execute("UPDATE t SET e = id % 3, s = id % 4 WHERE id % 5 AND id % 3")
    report, _ = two.move()
    assert report["outcome"] == "done", report
    two.there.execute("INSERT INTO t (id, a) VALUES (9999, 1)")
    two.here.execute("INSERT INTO _t_moved (id, a) VALUES (9999, 1)")
    octets = "SELECT id, HEX(e), HEX(s), HEX(d) FROM {} ORDER BY id"
    assert two.there.query(octets.format("t")) == two.here.query(octets.format("_t_moved"))


@pytest.mark.slow
def test_a_value_that_is_longer_than_half_a_packet_arrives(two):
    """The row's text is too long for the server; its columns are read one by one."""
    for db in (two.here, two.there):
        db.set_global("max_allowed_packet", 4 << 20)
    two.here.execute("ALTER TABLE t ADD COLUMN l LONGTEXT")
    session = two.here.connect()
    with session.cursor() as cursor:
        cursor.execute("UPDATE t SET l = REPEAT('x', 3 << 20) WHERE id = 7")
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert report["differences_found"] == 0
    assert two.there.query("SELECT id, LENGTH(l) FROM t WHERE l IS NOT NULL") == [(7, 3 << 20)]


@pytest.mark.slow
def test_a_target_that_lost_commits_is_compared_again(two, target, listener):
    """A crash of a server that does not wait for its disk takes back what was applied (R25)."""
    session = two.there.connect()
    with session.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")
        assert cursor.fetchone()[0] != 1
    hold = listener.hold("switch.begin")
    words = [one for one in two.words("--on-switch", two.switch) if one != "--no-repair"]
    two.words = lambda *_, **__: words
    process = two.start(listener=listener)
    await_held(process, hold)
    target.kill()
    target.resume()
    two.there.reconnect()
    # What a crash may take back, for certain.
    two.there.execute("DELETE FROM _t_new WHERE id % 2 = 0")
    hold.release()
    report, _ = two.end(process)
    assert report["outcome"] == "done", report
    assert report["checksum_passes"] >= 2
    assert two.there.query("SELECT COUNT(*) FROM t") == [(ROWS,)]


@pytest.mark.slow
def test_a_rename_that_the_source_refuses_is_taken_back(two, listener):
    """The target's table gets its auxiliary name again before anybody can use it."""
    hold = listener.hold("switch.arrived")
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    assert two.tables(two.there) == ["_t_chkpnt", "t"]
    two.here.execute("CREATE TABLE _t_moved (id INT)")
    hold.release()
    report, _ = two.end(process)
    assert report["error_code"] == "swap-not-made", report
    assert "'_t_moved' already exists" in report["error"]
    assert "drop or rename it there, then run the same command again" in report["hint"]
    assert two.tables(two.there) == ["_t_chkpnt", "_t_new"]
    assert not two.times_switched()
    two.here.execute("DROP TABLE _t_moved")
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_a_rehearsal_ends_no_unfinished_move(two, listener):
    """It is refused, and the move goes on."""
    two.kill_at(listener, "chunk.committed", nth=5)
    report, _ = two.move("--dry-run")
    assert report["error_code"] == "cannot-resume", report
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_another_change_needs_consent(two, listener):
    """What was copied is dropped with --start-afresh only, on both servers."""
    two.kill_at(listener, "checksum.chunk")
    report, _ = two.move("--alter", ALTER)
    assert report["error_code"] == "unfinished-work", report
    report, _ = two.move("--alter", ALTER, "--start-afresh")
    assert report["outcome"] == "done", report
    assert_whole(two)
    assert_moved(two)


@pytest.mark.slow
def test_a_change_that_a_target_refuses_costs_no_copy(two, listener):
    """Exit code 2: nothing is dropped, and the earlier command resumes."""
    two.kill_at(listener, "checksum.chunk")
    report, _ = two.move("--alter", "ADD INDEX (nope)", "--start-afresh")
    assert (report["error_code"], report["exit_code"]) == ("definition-refused", 2), report
    report, _ = two.move()
    assert (report["outcome"], report["runs"]) == ("done", 2), report
    assert_moved(two)


def migrate_here(db):
    """Run a change of the table ``t`` that the server makes in place, in this process."""
    return run_here(db, "migrate", "--alter", "ADD COLUMN y INT")


@pytest.mark.slow
def test_a_change_in_place_drops_no_unfinished_move(two, listener):
    """It would leave the target's tables to nobody; the move is named, and goes on."""
    two.kill_at(listener, "chunk.committed", nth=5)
    done = migrate_here(two.here)
    assert done.returncode == 2, done
    assert f"a move of {two.here.name}.t has not ended" in done.stderr
    assert "spirit-py cleanup" in done.stderr
    report, events = two.move()
    assert report["outcome"] == "done", report
    assert [one["decision"] for one in events if one["event"] == "resume.decided"] == ["resume"]


@pytest.mark.slow
def test_a_change_on_the_target_drops_no_unfinished_move(two, listener):
    """Behind the switch the table is there, and the move is not yet ended."""
    two.kill_at(listener, "switch.unlocked")
    done = migrate_here(two.there)
    assert done.returncode == 2, done
    assert f"a move brings {two.here.name}.t here from {two.ways[0]}" in done.stderr
    onward = TwoServers(two.there, two.here, two.folder).move_here("--on-switch", "true")
    assert onward.returncode == 2, onward
    assert "a move brings" in onward.stderr
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert_moved(two)
    assert migrate_here(two.there).returncode == 0


@pytest.mark.slow
def test_a_table_that_the_application_uses_on_the_target_may_be_changed_there(two, listener):
    """Killed after the switch, the move has nothing left to do there, and still ends."""
    two.kill_at(listener, "cleanup.checkpoint")
    assert "_t_chkpnt" in two.tables(two.there)
    done = migrate_here(two.there)
    assert done.returncode == 0, done
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert_moved(two)


@pytest.mark.slow
def test_a_stopped_change_on_the_target_is_not_the_moves(two, listener):
    """Its record and its new table stay for the command that made them."""
    two.kill_at(listener, "cleanup.checkpoint")
    alter = ("--alter", "MODIFY a BIGINT")
    stopped = run_here(two.there, "migrate", *alter, "--defer-cutover", "--defer-timeout", "1s")
    assert stopped.returncode == 1, stopped
    left = two.tables(two.there)
    assert {"_t_new", "_t_chkpnt"} <= set(left)
    report, _ = two.move()
    assert report["outcome"] == "done", report
    assert two.tables(two.there) == left
    two.cleanup(two.there)
    assert two.tables(two.there) == ["t"]


@pytest.mark.slow
def test_the_same_command_forgets_what_could_not_be_forgotten(two, monkeypatch):
    """The table on the target is nobody's any more then, without a cleanup there."""

    def fails(*_):
        raise MigrationFailure("the target takes no writes")

    with monkeypatch.context() as patched:
        patched.setattr(move_run, "drop_checkpoint", fails)
        done = two.move_here("--on-switch", two.switch)
    assert (done.returncode, "takes no writes" in done.stderr) == (0, True), done
    assert "_t_chkpnt" in two.tables(two.there)
    # As if the server were a replica of the target, which has it by replication.
    ((its,),) = two.there.query("SELECT @@GLOBAL.server_uuid")
    change = "UPDATE _t_chkpnt SET record = REPLACE(record, %s, %s)"
    two.here.execute(change, (its, "x" + its[1:]))
    again = two.move_here("--on-switch", two.switch)
    assert (again.returncode, "with another target server" in again.stderr) == (2, True), again
    assert "_t_chkpnt" in two.tables(two.there)
    two.here.execute(change, ("x" + its[1:], its))
    again = two.move_here("--on-switch", two.switch)
    assert (again.returncode, "moved already" in again.stderr) == (2, True), again
    assert_moved(two)


@pytest.mark.slow
def test_a_move_onward_looks_at_each_table(two, listener):
    """One of them is being brought by a move that has not ended; another one is the first."""
    two.there.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    two.kill_at(listener, "switch.unlocked")
    chosen = [word for name in "at" for word in ("--tables", f"{two.here.name}.{name}")]
    onward = TwoServers(two.there, two.here, two.folder).move_here("--on-switch", "true", *chosen)
    assert onward.returncode == 2, onward
    assert f"a move brings {two.here.name}.t" in onward.stderr
    report, _ = two.move()
    assert report["outcome"] == "done", report


@pytest.mark.slow
def test_what_another_source_has_brought_is_kept(two, listener):
    """Two moves of a table of one name to one target: the first one's copy is not the second's."""
    two.kill_at(listener, "chunk.committed", nth=5)
    left = two.tables(two.there)
    # The address stays: seen from somewhere else it may lead to another server.
    note = "UPDATE _t_chkpnt SET record = REPLACE(record, '{}', '{}') WHERE id = 8"
    own, other = str(two.here.query("SELECT @@server_uuid")[0][0]), str(uuid.uuid4())
    two.there.execute(note.format(own, other))
    two.here.execute("DROP TABLE _t_chkpnt")
    done = two.move_here("--on-switch", two.switch)
    assert done.returncode == 2, done
    assert "on the target, a move brings" in done.stderr
    assert two.tables(two.there) == left
    (refusal,) = two.plan(code=2)["refusals"]
    assert "on the target, a move brings" in refusal["cause"]
    two.there.execute(note.format(other, own))
    assert two.move_here("--on-switch", two.switch).returncode == 0


@pytest.mark.slow
def test_the_old_table_is_dropped_when_it_is_due(two):
    """Nothing is left on the source then."""
    report, _ = two.move("--drop-old-after", "1s")
    assert report["outcome"] == "done", report
    assert two.tables(two.here) == []
    assert two.tables(two.there) == ["t"]


# -- what is refused

#: A key that a table of the name ``t`` would have from the RENAME on.
WAITING = (
    "SET foreign_key_checks = 0; CREATE TABLE c (p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t"
    " (id) ON DELETE CASCADE); SET foreign_key_checks = 1"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "before", "more", "said"),
    [
        ("here", "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES t (id))", (), "foreign key"),
        ("there", WAITING, (), "foreign key f of"),
        ("here", "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", (), "trigger"),
        ("there", "CREATE TABLE t (id INT)", (), "no move has made"),
        ("there", "CREATE TABLE _t_new (id INT)", (), "no move has made"),
        ("here", "CREATE TABLE _t_moved (id INT)", (), "no move has made"),
        ("there", "CREATE TABLE _t_chkpnt (id INT)", (), "no table of this program"),
        ("here", "ALTER TABLE t ADD e ENUM('a', X'F040') CHARSET sjis", (), "member x'f040'"),
        ("here", "DO 0", ("--alter", "MODIFY id VARCHAR(20)"), "no key identifies"),
        ("here", "DO 0", ("--tables", "nowhere.t"), "matches no table"),
        ("here", "DO 0", ("--alter", "ADD COLUMN"), "statement"),
    ],
    ids=["foreign-key", "waiting-key", "trigger", "taken", "new", "moved", "checkpoint", "member",
         "key", "none", "syntax"],
)  # fmt: skip
def test_what_cannot_be_is_refused(two, where, before, more, said):
    """Nothing is written, or what was is dropped again."""
    db = getattr(two, where)
    db.execute(before)
    there = two.tables(two.there)
    done = two.move_here("--on-switch", two.switch, *more)
    assert done.returncode == 2, done.stderr
    report = json.loads(two.report.read_text())
    assert report["exit_code"] == 2, report
    assert said in f"{report['error']} {report['details']}".lower(), report
    assert two.tables(two.there) == there
    assert "_t_chkpnt" not in two.tables(two.here)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value", "columns", "said"),
    [
        (
            "explicit_defaults_for_timestamp",
            "OFF",
            "id INT PRIMARY KEY, made TIMESTAMP NULL, seen TIMESTAMP NOT NULL",
            "t.seen is TIMESTAMP NOT NULL without a default",
        ),
        (
            "sql_generate_invisible_primary_key",
            "ON",
            "id INT NOT NULL UNIQUE",
            "t has no primary key, and the target would add one",
        ),
        ("binlog_format", "STATEMENT", "id INT PRIMARY KEY", "binlog_format is STATEMENT"),
    ],
    ids=["timestamp", "key", "format"],
)
def test_a_target_that_would_make_another_table_or_takes_no_rows_is_refused(
    two, setting, value, columns, said
):
    """The application would find a column, or a default, that the source's table has not."""
    two.here.execute(f"DROP TABLE t; CREATE TABLE t ({columns})")
    two.there.set_global(setting, value)
    done = two.move_here("--on-switch", two.switch)
    assert done.returncode == 2, done
    assert said in done.stderr, done.stderr
    assert two.tables(two.there) == []
    two.there.set_global(setting, {"ON": "OFF", "OFF": "ON", "STATEMENT": "ROW"}[value])
    assert two.move_here("--on-switch", two.switch).returncode == 0
    (here,), (there,) = (
        two.here.query("SHOW CREATE TABLE _t_moved"),
        two.there.query("SHOW CREATE TABLE t"),
    )
    assert str(here[1]).replace("_t_moved", "t") == str(there[1])


def test_a_limit_of_load_that_the_target_does_not_have_is_refused(two):
    """It would never be reached there, where both servers are watched."""
    fill(two.there)
    two.here.execute("DROP TABLE t")
    plugin = "rpl_semi_sync_source"
    two.there.execute(f"INSTALL PLUGIN {plugin} SONAME 'semisync_source.so'")
    try:
        back = TwoServers(two.there, two.here, two.folder)
        done = back.move_here("--on-switch", "true", "--max-load", f"{plugin}_clients=5")
    finally:
        two.there.execute(f"UNINSTALL PLUGIN {plugin}")
    assert done.returncode == 2, done
    assert f"on the target, --max-load names {plugin}_clients" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing", ["all", "PROCESS", "REPLICATION CLIENT", "TRIGGER", "one schema"]
)
def test_a_right_that_is_missing_on_the_target_is_named_with_its_grant(two, missing):
    """Before anything else is asked there: the GRANTs of one refusal are enough."""
    on_schema, on_all = granted(two.there.name), {"PROCESS", "REPLICATION CLIENT"} - {missing}
    rights = {"SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX"} - {missing}
    rights |= {"LOCK TABLES", "CREATE TEMPORARY TABLES", "TRIGGER"} - {missing}
    grants = [f"{', '.join(rights)} ON {on_schema}", f"{', '.join(on_all)} ON *.*"]
    if missing == "one schema":
        # A new table is made under a random name, so rights on tables are not enough.
        grants[0] = f"LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER ON {on_schema}"
        tables = ("t", "_t_new", "_t_chkpnt")
        grants += [
            f"SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX ON `{two.there.name}`.{table}"
            for table in tables
        ]
    with account(two.there, *([] if missing == "all" else grants)) as less:
        words = ("--on-switch", two.switch, "--target-user", less.user)
        done = two.move_here(*words, target_password=less.password)
        report = json.loads(two.report.read_text())
        assert (done.returncode, report["error_code"]) == (2, "missing-privileges"), report
        assert "of the target" in report["error"]
        assert two.tables(two.here) == ["t"]
        for grant in report["hint"].removesuffix(";").split("; "):
            two.there.execute(grant)
        assert two.move_here(*words, target_password=less.password).returncode == 0
    assert two.tables(two.there) == ["t"]


@pytest.mark.slow
def test_a_role_that_is_not_active_on_the_target_is_thought_of(two):
    """As on the source: the account may have all that is needed, and not use it."""
    role = f"r_{uuid.uuid4().hex[:12]}"
    two.there.execute(f"CREATE ROLE {role}")
    try:
        with account(two.there) as less:
            two.there.execute(f"GRANT ALL ON *.* TO {role}")
            two.there.execute(f"GRANT {role} TO '{less.user}'@'%'")
            words = ("--on-switch", two.switch, "--target-user", less.user)
            done = two.move_here(*words, target_password=less.password)
            assert done.returncode == 2, done
            assert "(or SET DEFAULT ROLE ALL, if a granted role has it)" in done.stderr
            two.there.execute(f"SET DEFAULT ROLE ALL TO '{less.user}'@'%'")
            assert two.move_here(*words, target_password=less.password).returncode == 0
    finally:
        two.there.execute(f"DROP ROLE {role}")


def test_a_right_that_is_missing_on_the_source_is_named_with_its_grant(two):
    """So are those that a first look at an earlier run would need."""
    with account(two.here, f"SELECT ON {granted(two.here.name)}") as less:
        words = [*two.words("--on-switch", two.switch, hooks="")[3:], "--user", less.user]
        done = run_words_here(
            words,
            SPIRIT_PY_PASSWORD=less.password,
            SPIRIT_PY_TARGET_PASSWORD=two.there.server.password,
        )
    report = json.loads(two.report.read_text())
    assert (done.returncode, report["error_code"]) == (2, "missing-privileges"), report
    assert "PROCESS" in report["hint"]
    assert "CREATE TEMPORARY TABLES" in report["hint"]


@pytest.mark.slow
def test_a_source_that_could_not_be_fenced_is_said_before(two):
    """With a way back: its account has to write there while read_only is ON."""
    rights = "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES"
    of_it = f"{rights}, UPDATE, CREATE TEMPORARY TABLES ON {granted(two.here.name)}"
    on_all = "PROCESS, REPLICATION CLIENT, REPLICATION SLAVE ON *.*"
    with account(two.here, of_it, on_all) as less:
        words = [*two.words("--plan", "--keep-old-current", "10m", hooks="")[3:]]
        words.remove("--no-repair")
        given = {"SPIRIT_PY_TARGET_PASSWORD": two.there.server.password}
        words += ["--user", less.user]
        said = run_words_here(words, SPIRIT_PY_PASSWORD=less.password, **given)
        assert "lacks CONNECTION_ADMIN on the source" in said.stdout, said
        two.here.execute(f"GRANT CONNECTION_ADMIN ON *.* TO {less.user}")
        said = run_words_here(words, SPIRIT_PY_PASSWORD=less.password, **given)
        assert said.returncode == 0, said
        assert "on the source" not in said.stdout, said


def test_a_plan_names_missing_rights_with_their_grants(two):
    """Of the target, too: an account without any there."""
    with account(two.there) as less:
        words = [*two.words("--plan", hooks="")[3:], "--target-user", less.user]
        words.remove("--no-repair")
        said = run_words_here(
            words,
            SPIRIT_PY_PASSWORD=two.here.server.password,
            SPIRIT_PY_TARGET_PASSWORD=less.password,
        )
    assert said.returncode == 2, said
    text = " ".join(said.stdout.split())
    assert "of the target" in text, said
    assert "GRANT" in text, said


@pytest.mark.slow
def test_a_table_that_has_moved_away_does_not_come_back_over_its_record(two):
    """What is left of the first move would be proven by nothing any more, and never be dropped."""
    report, _ = two.move()
    assert report["outcome"] == "done", report
    back = TwoServers(two.there, two.here, two.folder)
    report, _ = back.move()
    assert (report["exit_code"], report["error_code"]) == (2, "name-taken"), report
    assert "record of another command" in report["error"]
    assert two.tables(two.here) == ["_t_chkpnt", "_t_moved"]
    two.cleanup(two.here, "t", "--drop-old")
    report, _ = back.move()
    assert report["outcome"] == "done", report
    assert two.tables(two.here) == ["t"]


def test_the_same_server_is_no_target(two):
    """It would be a RENAME."""
    server = two.here.server
    where = ("--target-host", f"{server.host}:{server.port}", "--target-user", server.user)
    done = two.move_here(*where, target_password=server.password)
    assert done.returncode == 2, done.stderr
    assert "the source" in done.stderr


# -- what would be done


def state(two):
    """Return what writing would change on either server."""
    return [
        (db.query("SELECT @@GLOBAL.gtid_executed"), db.query("SHOW BINARY LOGS"), two.tables(db))
        for db in (two.here, two.there)
    ]


def test_a_plan_says_all_and_writes_nothing(two):
    """Where rows go, both definitions, sizes, room, time, and what the switch leaves."""
    two.here.execute("ANALYZE TABLE t")
    before = state(two)
    plan = two.plan("--alter", ALTER, "--on-switch", "true")
    assert state(two) == before
    assert (plan["refused"], plan["earlier"]["action"]) == (False, "none")
    (table,) = plan["tables"]
    assert "`z` int" in table["definition"]["new"]
    assert "`z` int" not in table["definition"]["old"]
    (way,) = table["ways"]
    assert [way["source"], way["target"]] == list(two.ways)
    assert (way["rows"], way["share"]) == (table["size"]["rows"], None)
    assert 0 < way["space"]["table_bytes"] < way["space"]["free_bytes"]
    assert plan["totals"]["table_bytes"] == way["space"]["table_bytes"]
    assert table["time"]["seconds"] > 0
    assert 0 < table["time"]["sample_rows"] <= ROWS
    assert [one["name"] for one in table["locks"]] == ["snapshot of the comparison", "switch"]
    leaves = plan["switch"][-1]
    assert f"leaves {two.here.name}._t_moved on {two.ways[0]}, until spirit-py cleanup" in leaves
    assert any("users, grants" in one["cause"] for one in plan["warnings"])


@pytest.mark.slow
def test_a_program_has_the_same_plan(two):
    """As of a migration: a refusal is part of it, and nothing is written."""
    here, there = two.here.server, two.there.server
    given = {
        "host": two.ways[0], "user": here.user, "password": here.password,
        "target_host": two.ways[1], "target_user": there.user, "target_password": there.password,
        "tables": f"{two.here.name}.t", "alter": ALTER, "sample": False,
    }  # fmt: skip
    before = state(two)
    plan = spirit_py.plan_move(**given)
    command = two.plan("--alter", ALTER, "--no-sample")
    (ours,), (theirs,) = json.loads(json.dumps(plan.to_dict()["tables"])), command["tables"]
    for name in ("statement", "method", "definition"):
        assert ours[name] == theirs[name]
    assert [one["target"] for one in ours["ways"]] == [two.ways[1]]
    assert (plan.refused, list(plan.switch)) == (False, command["switch"])
    assert state(two) == before
    two.there.execute("CREATE TABLE t (id INT)")
    refused = spirit_py.plan_move(**given)
    assert refused.refused
    assert "no move has made" in str(refused.to_dict())
    with pytest.raises(spirit_py.UsageFault, match="--tables is missing"):
        spirit_py.plan_move(**{**given, "tables": None})


def test_a_plan_is_as_recorded(two):
    """All its names for programs, as those of the other outputs; see ``tests/golden``."""
    two.here.execute("ANALYZE TABLE t")
    names = {two.here.name: "{schema}", two.ways[0]: "{source}", two.ways[1]: "{target}"}
    version = str(two.here.query("SELECT VERSION()")[0][0])
    plan = two.plan("--alter", ALTER, "--on-switch", "true")
    # As the server estimates them, and as many as it copies in that time.
    plan["tables"][0]["ways"][0]["rows"] = plan["tables"][0]["time"]["how"] = "<varies>"
    if version.startswith("9.7."):
        normal = Normaliser(names | {version: "{mysql}"})
        compare("move_plan.json", as_text(normal.value(plan)) + "\n")


@pytest.mark.slow
def test_a_plan_tries_the_change_on_the_target_too(two):
    """Another version of the server, or another setting there, may refuse what the source takes."""
    two.here.set_global("innodb_strict_mode", "OFF")
    before = state(two)
    wide = (f"ADD COLUMN c{n} CHAR(40) CHARACTER SET latin1 NOT NULL" for n in range(250))
    long = ("--alter", ", ".join(wide))
    plan = two.plan(*long, code=2)
    assert state(two) == before
    (refusal,) = plan["refusals"]
    assert refusal["cause"].startswith(f"on the target {two.ways[1]}: the server refuses the ALTER")
    assert "Row size too large" in refusal["cause"]
    assert two.move_here(*long).returncode == 2
    assert two.tables(two.there) == []


@pytest.mark.parametrize(
    ("smaller", "more", "code"),
    [("there", (), 2), ("here", (), 0), ("here", ("--keep-old-current", "1h"), 0)],
)
def test_a_server_that_takes_smaller_packets_is_told(two, smaller, more, code):
    """A target could not take a row of the source, and a source none that comes back."""
    getattr(two, smaller).set_global("max_allowed_packet", 4 << 20)
    plan = two.plan(*more, code=code)
    found = [one for kind in ("refusals", "warnings") for one in plan[kind]]
    told = [one["remedy"] for one in found if "max_allowed_packet" in one["cause"]]
    needed = two.here.query("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    if smaller == "here":
        needed = two.there.query("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    where = "target" if smaller == "there" else "source"
    wanted = [f"SET PERSIST max_allowed_packet = {needed} on the {where}"]
    assert told == (wanted if code or more else [])


def test_a_plan_says_what_the_target_makes_otherwise(two):
    """The server of the target decides what a clause leaves out; the source's answer is shown."""
    two.there.set_global("explicit_defaults_for_timestamp", "OFF")
    plan = two.plan("--alter", "ADD COLUMN at TIMESTAMP")
    assert "`at` timestamp NULL DEFAULT NULL" in plan["tables"][0]["definition"]["new"]
    (other,) = [one for one in plan["warnings"] if "otherwise" in one["cause"]]
    assert two.ways[1] in other["cause"]
    assert other["details"][0].startswith("- `at` timestamp NULL DEFAULT NULL")
    assert other["details"][1].startswith("+ `at` timestamp NOT NULL")


@pytest.mark.slow
def test_a_target_that_takes_null_for_the_current_time_is_refused(two):
    """The row with NULL is the target's to refuse, and it would not."""
    two.here.execute("ALTER TABLE t ADD COLUMN at TIMESTAMP NULL DEFAULT '2020-02-02'")
    two.there.set_global("explicit_defaults_for_timestamp", "OFF")
    done = two.move_here("--on-switch", two.switch, "--alter", "MODIFY at TIMESTAMP NOT NULL")
    assert done.returncode == 2, done
    assert "which would replace NULL by the current time" in done.stderr, done.stderr


def test_a_plan_for_people_says_where_rows_go(two):
    """The same in lines, with what runs it."""
    words = [one for one in two.words("--plan", hooks="")[3:] if one != "--no-repair"]
    password = two.here.server.password
    said = run_words_here(
        words, SPIRIT_PY_PASSWORD=password, SPIRIT_PY_TARGET_PASSWORD=two.there.server.password
    )
    assert said.returncode == 0, said
    assert f"{two.ways[0]} -> {two.ways[1]}: ~" in said.stdout
    assert "copied row by row to another server, and switched" in said.stdout
    assert "would run: the same command without --plan does it" in said.stdout
    assert "not used by plan, which runs nothing: --report-json" in said.stderr


def test_a_plan_has_every_reason_of_a_refusal(two):
    """Those of the source, the target and the ALTER together, and none is sampled."""
    two.here.execute("ALTER TABLE t ADD COLUMN e ENUM(X'F040') CHARACTER SET sjis")
    two.here.execute("CREATE TRIGGER seen BEFORE UPDATE ON t FOR EACH ROW SET NEW.a = 1")
    two.there.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    plan = two.plan("--alter", "DROP PRIMARY KEY", code=2)
    causes = " ".join(one["cause"] for one in plan["refusals"])
    for part in ("trigger", "there is a table", "key", "the member X'F040'"):
        assert part in causes, causes
    assert all(one["remedy"] for one in plan["refusals"])
    assert plan["tables"][0]["time"]["seconds"] is None


def test_a_plan_meets_a_value_that_the_copy_would(two):
    """It goes to the target's temporary table, where it does not fit."""
    two.here.execute("UPDATE t SET a = 40000 WHERE id = 7")
    plan = two.plan("--alter", "MODIFY a SMALLINT", code=2)
    (lost,) = plan["refusals"]
    assert lost["code"] == "value-lost", lost
    assert "does not fit" in lost["cause"]


@pytest.mark.slow
def test_a_plan_says_what_is_resumed(two, listener):
    """Of the same command the rows that are copied; another one asks; one that runs is named."""
    two.kill_at(listener, "switch.begin", "--alter", ALTER)
    before = state(two)
    plan = two.plan("--alter", ALTER)
    assert plan["earlier"]["action"] == "resume", plan["earlier"]
    assert plan["earlier"]["rows_copied"] > 0
    other = two.plan("--alter", "ADD COLUMN y INT", code=2)
    assert other["earlier"]["action"] == "ask"
    assert state(two) == before
    hold = listener.hold("checksum.begin", 2)
    process = two.start("--alter", ALTER, "--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    (runs,) = two.plan("--alter", ALTER, code=2)["refusals"]
    assert runs["code"] == "already-running"
    hold.release()
    assert two.end(process)[0]["outcome"] == "done"
    done = two.plan("--alter", ALTER, code=2)
    assert "moved already" in done["earlier"]["reason"], done["earlier"]


# -- asked on the target


@pytest.mark.slow
def test_the_target_says_where_a_move_is_asked(two, listener):
    """Status there shows that it comes and from where; a request there is refused with the address.

    So it is while it runs, once it is killed, and after it is resumed; in the end nothing is left.
    """
    hold = listener.hold("checksum.begin")
    process = two.start("--on-switch", two.switch, listener=listener)
    await_held(process, hold)
    (shown,) = json.loads(run_here(two.there, "status", "--json").stdout)
    assert (shown["moved_from"], shown["asked"]) == ([two.ways[0]], two.ways[0])
    assert (shown["phase"], shown["state"]) == ("before its switch", "running")
    assert shown["unreadable"] == ""
    said = run_here(two.there, "status").stdout
    assert f"t: is moved here from {two.ways[0]}: before its switch" in said
    assert f"figures    its note names {two.ways[0]}: ask spirit-py status and ctl" in said
    refused = run_here(two.there, "ctl", "pause")
    assert refused.returncode == 2, refused
    assert f"is asked on {two.ways[0]}, not on this server" in refused.stderr
    refused = run_here(two.there, "revert")
    assert refused.returncode == 2, refused
    assert f"its revert is asked on {two.ways[0]}" in refused.stderr
    process.kill()
    process.communicate()
    hold.release()
    until(lambda: status_there(two)["state"] == "stopped", "the end of its sessions")
    assert "no process works on it now" in run_here(two.there, "status").stdout
    assert two.move()[0]["outcome"] == "done"
    assert run_here(two.there, "status", "--json").stdout.strip() == "[]"
    assert_moved(two)


def status_there(two):
    """Return what status shows on the target."""
    (shown,) = json.loads(run_here(two.there, "status", "--json").stdout)
    return shown


@pytest.mark.slow
def test_what_another_wrote_on_the_target_is_no_address(two, listener):
    """A note that names something else than a server is not shown as one."""
    two.kill_at(listener, "checksum.begin")
    asked, changed = """'"asked": "'""", """'"asked": "x; rm '"""
    written = f"UPDATE _t_chkpnt SET record = REPLACE(record, {asked}, {changed}) WHERE id = 8"
    two.there.execute(written)
    shown = status_there(two)
    assert "names servers by their addresses" in shown["unreadable"]
    assert shown["asked"] == ""
    refused = run_here(two.there, "cleanup", "--table", "t", "--yes")
    assert refused.returncode == 2, refused
    assert "names servers by their addresses" in refused.stderr
    # Whose the table is there is not known: it may be another move's by now.
    report, _ = two.move()
    assert report["outcome"] == "refused", report
    assert "names servers by their addresses" in report["error"]
    two.there.execute(written.replace(f"{asked}, {changed}", f"{changed}, {asked}"))
    assert two.move()[0]["outcome"] == "done"

"""``spirit-py ctl`` on a running migration, verbs from this process and from others."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.live import WORKING, Answer, Request
from spirit_py.checkpoint.queue import Asked, RequestQueue
from spirit_py.cli import main
from spirit_py.errors import ServerFault
from spirit_py.locks.named import take_named_lock
from spirit_py.migration.control.command import control
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.phases import Phase
from tests.kits.command import MINUTE, command_line, environment, run_here
from tests.kits.command import run as run_command
from tests.kits.connection import account, connection_options
from tests.kits.cutover import lock_request
from tests.kits.held_command import assert_migrated, fill
from tests.kits.held_command import migration as held_migration
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import Migrating, config_for
from tests.kits.tables import tables
from tests.kits.waiting import until

pytestmark = [pytest.mark.timeout(400), pytest.mark.draws(3)]
#: For the two tests that always run, two of two: each request is for itself, a pause is kept.
ALWAYS = pytest.mark.draws(3)

COPY = "chunk.committed"
HELD = ("_t_chkpnt", "_t_new", "t")
HOOKS = "small-chunks,quick-control"


@pytest.fixture
def table(db):
    """A table of a few thousand rows."""
    return fill(db)


def migration(db, folder, *more, hooks=HOOKS):
    """Run the command, which looks for requests often, with a listener on its points."""
    return held_migration(db, folder, *more, hooks=hooks)


def done(db, *words):
    """Run one verb, in this process, to its good end; return what it says."""
    return ended_well(run_here(db, "ctl", *words))


def done_beside(db, *words):
    """Run one verb in a process of its own, to its good end; return what it says."""
    return ended_well(run_command(db, "ctl", *words))


def ended_well(ended):
    """Return what a verb has said that has done it."""
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    return ended.stdout


def refused(db, *words):
    """Run one verb, in this process, that must be refused; return cause and remedy."""
    ended = CliRunner(env=environment(db)).invoke(
        main, command_line(db, "ctl", "--table", "t", *words)[3:]
    )
    assert ended.exit_code == 2, ended.output
    return ended.stderr


def is_refused(db, verb, why):
    """Whether a verb, which must be refused, is refused for this cause."""
    return why in refused(db, *verb)


def live(db):
    """Return what ``ctl status --json`` shows."""
    (shown,) = migrations(connection_options(db), database=db.name, table="t", max_age=7 * 86400)
    return shown.to_dict()


def is_copied(db, key, text):
    """Whether the new table has this text in a row."""
    return db.query("SELECT b FROM _t_new WHERE id = %s", (key,)) == [(text,)]


def in_copy(command, listener, nth=2):
    """Hold the migration in its copy."""
    hold = listener.hold(COPY, nth)
    command.wait_held(hold)
    return hold


def test_a_paused_copy_hands_out_nothing_and_goes_on_when_resumed(table, tmp_path):
    """Changes are applied meanwhile; who has paused it is shown and logged as the server says."""
    with migration(table, tmp_path, hooks=f"{HOOKS},quick-flushes") as (command, listener):
        hold = in_copy(command, listener)
        assert "paused" in done(table, "pause")
        hold.release()
        command.until(lambda: "waiting for the end of the pause" in command.said, "the pause")
        handed_out = listener.count("chunk.dispatched")
        for text in ("changed", "row 1"):
            table.execute("UPDATE t SET b = %s WHERE id = 1", (text,))
            until(partial(is_copied, table, 1, text), "the change in the new table")
        shown = live(table)
        assert shown["state"] == "running"
        ((user,),) = table.query("SELECT USER()")
        assert shown["live"]["paused"] == f"paused by {user}"
        assert f"asked by {user}" in command.said
        assert "the end of the pause" in shown["live"]["waiting_for"]
        assert shown["live"]["eta"] is None
        assert listener.count("chunk.dispatched") == handed_out
        assert "paused already" in done(table, "pause")
        end = listener.hold("cutover.lock")
        assert "resumed; it was paused by" in done(table, "resume")
        assert "was not paused" in done(table, "resume")
        end.release()
        command.finish()
    assert listener.count("chunk.dispatched") > handed_out
    assert_migrated(table)


@pytest.mark.slow
def test_a_process_without_new_figures_is_said_to_hang_before_its_answer(
    table, tmp_path, monkeypatch
):
    """The operator is not left waiting for an answer without a word."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        until(lambda: live(table)["live"], "figures")
        assert "may hang" not in done(table, "pause")
        monkeypatch.setattr("spirit_py.migration.control.command.STALE_SECONDS", -1.0)
        first, *answer = done(table, "resume").splitlines()
        assert "has written no figures for" in first
        assert first.endswith("it may hang; its answer is waited for, 30 s at most")
        assert "resumed" in "".join(answer)
        hold.release()
        command.finish()


@ALWAYS
def test_a_pause_outlasts_the_process(table, tmp_path):
    """The same command, as a supervisor would start it, goes on paused, with the settings."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        done(table, "pause")
        assert "threads is 1, nice is 0.25" in done(table, "set", "threads=1", "nice=0.25")
        asked = ctl_in_background(table, "abort")
        command.until(lambda: "aborted by" in command.said, "the abort")
        hold.release()
        assert "kept" in finished(asked)
        assert command.end() == 143
    (tmp_path / "again").mkdir()
    with migration(table, tmp_path / "again") as (command, listener):
        command.until(lambda: "waiting for the end of the pause" in command.said, "the pause")
        shown = live(table)["live"]
        assert (shown["settings"]["threads"], shown["settings"]["nice"]) == ("1", "0.25")
        assert listener.count("chunk.dispatched") == 0
        done(table, "resume")
        command.finish()
    assert_migrated(table)


def test_a_setting_of_a_new_command_line_is_newer_than_one_of_ctl(table, tmp_path):
    """What an operator set holds for the same command line, and for no other one."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        done(table, "set", "chunk-time=200ms", "nice=0.25")
        asked = ctl_in_background(table, "abort")
        command.until(lambda: "aborted by" in command.said, "the abort")
        hold.release()
        finished(asked)
        command.end()
    (tmp_path / "again").mkdir()
    with migration(table, tmp_path / "again", "--target-chunk-time", "0.3") as (command, listener):
        hold = in_copy(command, listener, 1)
        shown = live(table)["live"]["settings"]
        assert (shown["chunk-time"], shown["nice"]) == ("300ms", "0.25")
        hold.release()
        command.finish()


def test_settings_change_at_once(table, tmp_path):
    """``set`` and ``throttle`` are answered with what holds now, and impossible values refused."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        assert "threads is 1, chunk-time is 200ms" in done(
            table, "set", "threads=1", "chunk-time=200ms"
        )
        document = json.loads(done(table, "throttle", "0.5", "--json"))
        assert (document["outcome"], document["said"]) == ("done", ["nice is 0.5"])
        until(lambda: live(table)["live"]["tasks"] == 1, "the one task")
        assert "started with 2 threads" in refused(table, "set", "threads=3")
        assert "there is no setting" in refused(table, "set", "speed=3")
        hold.release()
        command.finish()
    assert_migrated(table)


def test_a_swap_is_postponed_and_made_on_demand(table, tmp_path):
    """``postpone`` creates the sentinel while rows are copied, ``cutover`` drops it."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        assert "there was no sentinel" in done(table, "cutover")
        assert "postponed now" in done(table, "postpone")
        assert "postponed already" in done(table, "postpone")
        assert "_t_snt" in tables(table)
        hold.release()
        command.until(lambda: (live(table)["live"] or {}).get("phase") == "sentinel", "the wait")
        assert "is deferred" in command.said
        assert "dropped" in done(table, "cutover")
        command.finish()
    assert_migrated(table)


def test_a_cutover_asked_for_early_lets_the_swap_happen_without_a_sentinel(table, tmp_path):
    """With --defer-cutover: the operator will not be asked once more."""
    with migration(table, tmp_path, "--defer-cutover") as (command, listener):
        hold = in_copy(command, listener)
        assert "now: copy" in done(table, "cutover")
        hold.release()
        report = command.finish()
    assert "sentinel" not in report["phases"]
    assert_migrated(table)


def test_a_sentinel_made_by_hand_is_dropped_by_hand(table, tmp_path):
    """``cutover`` refuses, and names the statement."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        table.execute("CREATE TABLE _t_snt (id INT)")
        assert "DROP TABLE" in refused(table, "cutover")
        table.execute("DROP TABLE _t_snt")
        hold.release()
        command.finish()


def test_a_paused_migration_does_not_swap(table, tmp_path):
    """Nothing postpones the swap any more, and yet it waits until the migration is resumed."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        done(table, "postpone")
        hold.release()
        command.until(lambda: "is deferred" in command.said, "the wait")
        done(table, "pause")
        said = done(table, "cutover")
        assert "the swap is made when the pause has ended (spirit-py ctl resume)" in said
        assert "now: sentinel, paused by" in said
        until(lambda: "the end of the pause" in live(table)["live"]["waiting_for"], "the pause")
        assert listener.count("cutover.lock") == 0
        done(table, "resume")
        command.finish()
    assert_migrated(table)


@pytest.mark.parametrize(("verb", "again"), [("postpone", "cutover"), ("pause", "resume")])
def test_a_swap_whose_lock_is_requested_is_still_held_back(table, tmp_path, verb, again):
    """What an operator was told holds: no RENAME follows, though the lock is granted then."""
    with migration(table, tmp_path, "--lock-wait-timeout", "60") as (command, listener):
        hold = listener.hold("cutover.lock")
        command.wait_held(hold)
        reader = table.connect()
        with closing(reader), closing(reader.cursor()) as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM t")
            hold.release()
            until(lambda: lock_request(table), "the request")
            assert "now" in done(table, verb) or verb == "pause"
            assert lock_request(table)
            reader.rollback()
            command.until(lambda: "waiting again" in command.said, "the swap that waits")
            assert "_t_old" not in tables(table)
        done(table, again)
        command.finish()
    assert_migrated(table)


def test_a_change_that_an_earlier_run_has_made_is_not_postponed_any_more(table, tmp_path):
    """In the grace of its old table nothing is promised that is done already."""
    with migration(table, tmp_path, "--drop-old-after", "1h") as (command, _):
        command.until(lambda: "is kept until" in command.said, "the grace")
        said = done(table, "abort")
        assert "the change is done" in said
        assert "copied" not in said
        assert command.end() == 143
    (tmp_path / "again").mkdir()
    with migration(table, tmp_path / "again", "--drop-old-after", "1h") as (command, _):
        command.until(lambda: "is kept until" in command.said, "the grace")
        for verb in (["postpone"], ["cutover"], ["abort", "--cleanup"]):
            # It says what it keeps a moment before it takes requests.
            until(partial(is_refused, table, verb, "the tables are swapped"), "the refusal")
        assert tables(table) == ["_t_chkpnt", "_t_ctl", "_t_old", "t"]
        done(table, "abort")
        assert command.end() == 143


def test_the_drop_of_the_old_table_is_paused(table, tmp_path):
    """The grace may be over meanwhile, and the process another one."""
    with migration(table, tmp_path, "--drop-old-after", "1h") as (command, _):
        command.until(lambda: "is kept until" in command.said, "the grace")
        until(lambda: (live(table)["live"] or {}).get("phase") == "grace", "figures of the phase")
        assert "the drop of the old table) waits for spirit-py ctl resume" in done(table, "pause")
        done(table, "abort")
        assert command.end() == 143
    (tmp_path / "again").mkdir()
    with migration(table, tmp_path / "again", "--drop-old-after", "0s") as (command, _):
        waits = "the end of the pause (paused by "
        until(lambda: waits in ((live(table)["live"] or {}).get("waiting_for") or ""), "the pause")
        assert "_t_old" in tables(table)
        assert "resumed" in done(table, "resume")
        command.finish()
    assert tables(table) == ["t"]


@pytest.mark.slow
def test_a_limit_of_a_counter_that_the_server_does_not_have_is_refused(table, tmp_path):
    """It would never be reached."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        for name in ("max-load", "critical-load"):
            assert "Thread_running is no" in refused(table, "set", f"{name}=Thread_running=9")
        assert live(table)["live"]["settings"]["max-load"] == "off"
        hold.release()
        command.finish()


def test_a_paused_comparison_goes_on_when_resumed(table, tmp_path):
    """Its segments wait like chunks of the copy."""
    with migration(table, tmp_path) as (command, listener):
        hold = listener.hold("checksum.compare")
        command.wait_held(hold)
        done(table, "pause")
        hold.release()
        until(lambda: "the end of the pause" in live(table)["live"]["waiting_for"], "the pause")
        assert listener.count("cutover.lock") == 0
        done(table, "resume")
        command.finish()
    assert_migrated(table)


def test_an_aborted_migration_carries_on_with_the_same_command(table, tmp_path):
    """It ends as if interrupted by SIGTERM; status says for how long it can be resumed."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        asked = ctl_in_background(table, "abort")
        command.until(lambda: "aborted by" in command.said, "the abort")
        for second in (["abort", "--cleanup"], ["abort"]):
            assert "it stops already: aborted by" in refused(table, *second)
        hold.release()
        assert "kept" in finished(asked)
        assert command.end() == 143
    assert tuple(tables(table)) == HELD
    await_lock_freed(table)
    shown = live(table)
    assert (shown["state"], shown["again"]) == ("stopped", "resume")
    assert 0 < shown["resumable_for"] <= 7 * 86400
    assert "no process works on" in refused(table, "pause")
    (tmp_path / "again").mkdir()
    with migration(table, tmp_path / "again") as (command, _):
        assert command.finish()["runs"] == 2
    assert_migrated(table)


def test_an_abort_with_cleanup_leaves_nothing(table, tmp_path):
    """The source is whole, and no table of the program is there."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        done(table, "postpone")
        asked = ctl_in_background(table, "abort", "--cleanup")
        command.until(lambda: "aborted by" in command.said, "the abort")
        hold.release()
        assert "nothing is left" in finished(asked)
        assert command.end() == 143
    assert tables(table) == ["t"]
    await_lock_freed(table)
    assert f"no process works on {table.name}.t now" in refused(table, "resume")


@pytest.mark.slow
def test_an_abort_with_cleanup_that_could_not_drop_all_has_failed(table, tmp_path):
    """A script goes on by its exit code, and the process does not say that nothing is left."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        reader = table.connect()
        with closing(reader), closing(reader.cursor()) as cursor:
            asked = ctl_in_background(table, "abort", "--cleanup")
            command.until(lambda: "aborted by" in command.said, "the abort")
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM _t_new")
            hold.release()
            out, err = asked.communicate(timeout=4 * MINUTE)
            assert command.end() == 143
        assert asked.returncode == 1, out + err
        assert "_t_chkpnt is there" in err
        assert "hint: spirit-py cleanup drops what is left" in err
        assert "could not be dropped" in command.said
        assert "nothing is left" not in out + command.said
    assert {"_t_chkpnt", "t"} <= set(tables(table))


def ctl_in_background(db, *words):
    """Begin a verb in a process of its own."""
    return subprocess.Popen(
        command_line(db, "ctl", "--table", "t", *words),
        env=environment(db),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    """Wait for the end of a verb that must be done; return what it says."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out


def test_operators_at_once_are_all_answered(table, tmp_path):
    """Requests are queued, each gets its own answer, and none is lost."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        ratios = [f"0.{number}" for number in range(1, 7)]
        with ThreadPoolExecutor(len(ratios)) as pool:
            said = list(pool.map(lambda ratio: done_beside(table, "throttle", ratio), ratios))
        assert said == [f"nice is {ratio}\n" for ratio in ratios]
        assert sorted(re.findall(r"ctl set nice=(0\.\d)", command.said)) == ratios
        assert table.query("SELECT COUNT(*) FROM _t_ctl") == [(0,)]
        hold.release()
        command.finish()


def _asked_by(table, user):
    """Have an account ask for a pause."""
    return subprocess.run(
        command_line(table, "ctl", "--table", "t", "--user", user, "pause"),
        env={**environment(table), "SPIRIT_PY_PASSWORD": "pw"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def unprivileged(table):
    """An account that may only read the schema."""
    try:
        table.execute("CREATE USER 'reader'@'%' IDENTIFIED BY 'pw'")
        table.execute(f"GRANT SELECT ON `{table.name}`.* TO 'reader'@'%'")
        yield
    finally:
        table.execute("DROP USER IF EXISTS 'reader'@'%'")


@pytest.mark.slow
def test_an_operator_without_rights_gets_the_grant_named(table, unprivileged, tmp_path):
    """Nothing is written, and the migration goes on."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        ended = _asked_by(table, "reader")
        assert ended.returncode == 2
        assert "lacks INSERT, DELETE" in ended.stderr
        assert f"GRANT INSERT, DELETE ON `{table.name}`.`_t_ctl` TO `reader`@`%`" in ended.stderr
        assert "paused" not in command.said
        hold.release()
        command.finish()


def test_a_container_is_healthy_for_an_account_that_sees_one_schema(table, unprivileged, tmp_path):
    """It sees no migration, and may not see whether there is one elsewhere."""
    text = Path("examples/container/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (check,) = re.findall(r"^HEALTHCHECK .*? CMD (.+)$", text, re.MULTILINE)
    words = check.replace("/tmp/", "./")  # noqa: S108
    words = words.replace("spirit-py", shlex.join([sys.executable, "-m", "spirit_py"]))
    reached = f"{table.server.host}:{table.server.port}"
    given = {"SPIRIT_PY_USER": "reader", "SPIRIT_PY_PASSWORD": "pw", "PYTHONPATH": str(Path.cwd())}
    for address, healthy in ((reached, True), ("127.0.0.1:1", False)):
        environ = os.environ | given | {"SPIRIT_PY_HOST": address}
        done = subprocess.run(["sh", "-c", words], cwd=tmp_path, env=environ, check=False)
        assert (done.returncode == 0) == healthy


def test_where_no_process_works_nobody_is_asked_for_a_grant(table):
    """No GRANT on the tables of a run succeeds before a run has made them (error 1146)."""
    try:
        table.execute("CREATE USER idle@'%' IDENTIFIED BY 'pw'")
        ended = _asked_by(table, "idle")
    finally:
        table.execute("DROP USER IF EXISTS idle@'%'")
    assert ended.returncode == 2
    assert "the account sees only schemas on which it has privileges" in ended.stderr
    assert "GRANT" not in ended.stderr


@ALWAYS
def test_a_row_that_is_no_request_is_answered_and_ends_nothing(table, tmp_path):
    """Neither rubbish, nor an unknown verb, nor a request that nobody waits for is carried out."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        queue = RequestQueue(table.name, "t")
        with connect(connection_options(table), role="test") as session:
            table.execute("INSERT INTO _t_ctl (record) VALUES ('rubbish')")
            unknown, late = Request.of("explode", {}), Request.of("pause", {})
            take_named_lock(session, unknown.lock)
            numbers = [queue.put(session, request) for request in (unknown, late)]
            answers = [
                until(partial(queue.answer_to, session, number, request.token), "the answer")
                for number, request in zip(numbers, (unknown, late), strict=True)
            ]
        assert "there is no verb 'explode'" in answers[0].said[0]
        assert "no longer waits" in answers[1].said[0]
        assert "refused a request that cannot be read" in command.said
        rubbish = table.query("SELECT record FROM _t_ctl ORDER BY id")[0][0]
        assert "cannot be read: not JSON" in rubbish
        assert not live(table)["live"]["paused"]
        hold.release()
        command.finish()
    assert_migrated(table)


def test_an_operator_writes_no_row_but_requests_and_is_named_as_the_server_says(table, tmp_path):
    """R26: the documented grants reach no row of the checkpoint; a request that lies is logged."""
    with migration(table, tmp_path) as (command, listener), contextlib.ExitStack() as stack:
        hold = in_copy(command, listener)
        rights = ("SELECT ON {db}._t_chkpnt", "SELECT, INSERT, DELETE ON {db}._t_ctl")
        operator = stack.enter_context(account(table, *rights))
        session = stack.enter_context(connect(operator, role="test"))
        for change in ("INSERT INTO {} VALUES (4, '{{}}', NOW())", "DELETE FROM {}"):
            with pytest.raises(ServerFault, match="denied"):
                session.execute(change.format(f"`{table.name}`._t_chkpnt"))
        queue = RequestQueue(table.name, "t")
        request = Request.of("pause", {})
        take_named_lock(session, request.lock)
        lie = json.loads(to_text(request)) | {"account": "root@%", "client": "root@db1"}
        stolen = json.loads(to_text(request)) | {"verb": "abort"}
        for row in (stolen, lie):
            text = json.dumps(row)
            session.execute(f"INSERT INTO `{table.name}`._t_ctl (record) VALUES (%s)", (text,))
        number = int(session.query("SELECT LAST_INSERT_ID()")[0][0])
        said = until(partial(queue.answer_to, session, number, request.token), "the answer").said
        assert "paused" in said[0]
        who = live(table)["live"]["paused"]
        assert who.startswith(f"paused by {operator.user}@")
        assert f"asked by {operator.user}@" in command.said
        assert "root@" not in command.said
        assert "ctl abort refused: the command that asked no longer waits" in command.said
        done(table, "resume")
        hold.release()
        command.finish()
    assert_migrated(table)


def test_before_the_checkpoint_table_exists_ctl_says_so(table, tmp_path):
    """The process holds its lock, and nobody can be reached through rows yet."""
    with migration(table, tmp_path) as (command, listener):
        hold = listener.hold("preflight.done")
        command.wait_held(hold)
        said = refused(table, "pause")
        assert "or has swapped it and ends" in said
        shown = live(table)
        assert (shown["state"], shown["live"]) == ("running", None)
        assert f"(server session {shown['worked_on_by']}, {shown['begins']})" in said
        assert f"{table.name}.t: a migration begins" in done(table, "status")
        hold.release()
        command.finish()


def test_a_process_that_hangs_is_seen(table, tmp_path):
    """It holds its lock, and its figures are old."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        until(lambda: live(table)["live"], "figures")
        assert live(table)["state"] == "running"
        command.process.send_signal(19)
        try:
            until(lambda: live(table)["state"] == "hanging", "the hanging process")
            assert "it hangs" in done(table, "status")
        finally:
            command.process.send_signal(18)
        until(lambda: live(table)["state"] == "running", "figures again")
        hold.release()
        command.finish()


def test_only_a_request_is_withdrawn_and_not_the_answer_in_its_place(db):
    """The process may have claimed it, and begun, since the last look at it."""
    queue = RequestQueue(db.name, "t")
    with connect(connection_options(db), role="test") as session:
        queue.create(session)
        request = Request.of("revert", {"über": "die Straße"})
        asked = Asked(number=queue.put(session, request), request=request)
        queue.answer(session, asked.number, Answer(token=request.token, state=WORKING, said=()))
        assert not queue.withdraw(session, asked)
        assert queue.answer_to(session, asked.number, request.token) is not None
        asked = Asked(number=queue.put(session, request), request=request)
        assert queue.withdraw(session, asked)
        assert not queue.withdraw(session, asked)


def test_an_interrupted_request_says_nothing_of_the_table(table, tmp_path):
    """It is withdrawn; what the process does now, another request shows."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        command.process.send_signal(signal.SIGSTOP)
        words = command_line(table, "ctl", "--table", "t", "abort")
        asking = subprocess.Popen(
            words, env=environment(table), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            until(lambda: table.query("SELECT 1 FROM _t_ctl"), "the request")
            asking.terminate()
            _, said = asking.communicate(timeout=MINUTE)
        finally:
            command.process.send_signal(signal.SIGCONT)
        assert asking.returncode == 143, said
        assert "hint: spirit-py ctl status shows what the process does now" in said
        assert table.query("SELECT 1 FROM _t_ctl") == []
        hold.release()
        command.finish()


def test_status_shows_the_figures_of_now(table, tmp_path):
    """For people a line each; a stopped migration is shown as before."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener, 4)
        until(lambda: (live(table)["live"] or {}).get("rows"), "rows")
        shown = done(table, "status")
        for part in ("copy, running on", "rows ", "changes ", "threads=2", "figures written"):
            assert part in shown
        (as_json,) = json.loads(done(table, "status", "--json"))
        assert as_json["live"]["phase"] == "copy"
        hold.release()
        command.finish()


@pytest.mark.slow
def test_reverse_replication_is_aborted_like_any_phase(table, tmp_path):
    """What belongs before the swap is refused; an abort ends it as a signal would."""
    with migration(table, tmp_path, "--keep-old-current", "1h") as (command, _):
        command.until(lambda: "reverse replication of" in command.said, "the swap")
        until(lambda: live(table)["live"]["phase"] == "keep", "figures of the phase")
        for verb in (["pause"], ["postpone"], ["cutover"], ["abort", "--cleanup"]):
            assert "the tables are swapped" in refused(table, *verb)
        assert "kept" in done(table, "abort")
        assert command.end() == 143
    assert {"_t_old", "t"} <= set(tables(table))


@pytest.mark.slow
def test_a_lost_session_costs_no_request(table, tmp_path):
    """The thread opens another one, as after a restart of the server."""
    with migration(table, tmp_path) as (command, listener):
        hold = in_copy(command, listener)
        for nice in ("0.1", "0.2"):
            for (number,) in until(lambda: role_sessions(table, "control"), "its session"):
                table.kill(number)
            assert f"nice is {nice}" in done(table, "throttle", nice)
        hold.release()
        command.finish()


def role_sessions(db, role):
    """Return the sessions of the program that are for this."""
    return db.query(
        "SELECT t.PROCESSLIST_ID FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t ON t.THREAD_ID = v.THREAD_ID"
        " WHERE v.VARIABLE_NAME = 'spirit_py_role' AND v.VARIABLE_VALUE = %s",
        (role,),
    )


@pytest.mark.slow
def test_several_tables_are_controlled_by_any_of_them(db, engine):
    """The request goes to the table that has the record."""
    for name in "tu":
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT)")
        db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    both = "ALTER TABLE t MODIFY a BIGINT; ALTER TABLE u MODIFY a BIGINT"
    running = Migrating(
        engine, config_for(db, statement=both, defer_cutover=True, recheck_interval=3600.0)
    )
    said: list[str] = []
    running.wait_until(
        lambda: running.told.snapshots and running.told.snapshots[-1].phase is Phase.SENTINEL,
        "the wait for the operator",
    )
    for verb in ("pause", "resume", "cutover"):
        control(
            connection_options(db),
            database=db.name,
            table="u",
            verb=verb,
            arguments={},
            say=said.append,
        )
    assert "dropped" in said[-1]
    assert running.end().outcome == "done"
    assert tables(db) == ["t", "u"]

"""Hooks of a migration: every event is handed over, and a veto holds the swap back."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import threading

import pytest

from spirit_py.errors import Interrupted, MigrationFailure, Refusal
from spirit_py.events.copy import CopyDone
from spirit_py.events.event import untold
from spirit_py.events.swap import CutoverDeferred, CutoverHeldBack, CutoverTryFailed, CutoverVetoed
from spirit_py.hooks import Hook
from spirit_py.migration.control import command, listener
from spirit_py.migration.control.command import Asking
from spirit_py.migration.listing import migrations
from spirit_py.migration.swap import veto
from spirit_py.mysql.connect import connect
from spirit_py.threads import StopSwitch
from tests.kits.command import MINUTE, command_line, environment
from tests.kits.connection import connection_options
from tests.kits.events import declared, kinds
from tests.kits.held_command import assert_migrated, fill
from tests.kits.migrate import Migrating, config_for
from tests.kits.tables import tables
from tests.kits.waiting import until

ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
INSTANT = "ADD COLUMN y INT"


@pytest.fixture
def table(db):
    """A table of a few thousand rows."""
    fill(db)
    return db


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """The hook is asked again after a moment."""
    monkeypatch.setattr(veto, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(veto, "_LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(listener, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.05)


def start(db, *more, alter=ALTER):
    """Start the command as a process in a session of its own."""
    words = ["--table", "t", "--alter", alter, *more]
    if alter == ALTER:
        words.append("--no-shortcut")
    return subprocess.Popen(
        command_line(db, "migrate", *words),
        env=environment(db),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def events_of(text):
    """Return the events of JSON lines, each held against what is declared."""
    found = [json.loads(line) for line in text.splitlines()]
    own = ("run", "time", "event", "level", "table", "text")
    for one in found:
        assert list(one)[:6] == list(own), one
        kind = kinds()[one["event"]]
        assert one["event"] == "progress" or one.keys() - {*own} == declared(kind).keys()
    return found


@pytest.mark.slow
def test_a_run_is_json_from_its_first_line_to_its_last_and_a_hook_gets_the_same(table, tmp_path):
    """Every line is a declared event of one run; the hook is called with each but the figures."""
    out = tmp_path / "out"
    hook = f"cat >> {shlex.quote(str(out))}"
    process = start(table, "--log-format", "json", "--on-event", hook, "--hook-veto")
    _, errors = process.communicate(timeout=2 * MINUTE)
    assert process.returncode == 0, errors
    lines = events_of(errors)
    names = [one["event"] for one in lines]
    assert (names[0], names[-1]) == ("run.begun", "run.ended")
    assert lines[-1]["outcome"] == "done"
    assert len({one["run"] for one in lines}) == 1
    in_order = ["statement.read", "feed.begun", "copy.begun", "copy.done", "checksum.begun"]
    in_order += ["checksum.done", "cutover.ready", "swap.done", "old_table.dropped"]
    assert [name for name in names if name in in_order] == in_order
    phases = [one["phase"] for one in lines if one["event"] == "phase.entered"]
    assert {"copy", "drain", "checksum", "cutover", "cleanup", "done"} <= set(phases)
    handed = events_of(out.read_text())
    # The question is called ahead of what waits.
    apart = {"progress", "log.written", "cutover.ready"}
    assert [one for one in handed if one["event"] != "cutover.ready"] == [
        one for one in lines if one["event"] not in apart
    ]
    assert [one["tables"] for one in handed if one["event"] == "cutover.ready"] == [
        [f"{table.name}.t"]
    ]


@pytest.mark.slow
def test_a_hook_that_is_missing_changes_nothing(table):
    """The migration is done, and one line warns."""
    process = start(table, "--log-format", "json", "--on-event", "/nowhere/hook", alter=INSTANT)
    _, errors = process.communicate(timeout=2 * MINUTE)
    assert process.returncode == 0, errors
    (failed,) = [one for one in events_of(errors) if one["event"] == "hook.failed"]
    assert (failed["kind"], failed["exit_code"]) == ("missing", 127)


@pytest.mark.slow
def test_a_log_that_nobody_reads_stops_no_run(table):
    """The reader of the lines has stopped, and the pipe is full: the table is changed."""
    with start(table, "--log-format", "json", "--verbose", alter=INSTANT) as process:
        fcntl.fcntl(process.stderr.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        assert process.wait(2 * MINUTE) == 0
        assert len(process.stderr.read()) <= 8192
    assert table.query("SHOW COLUMNS FROM t LIKE 'y'")


@pytest.mark.slow
def test_a_stop_while_the_hook_is_asked_ends_the_run_and_not_the_hook(table, tmp_path, engine):
    """Ctrl-C in the terminal is not aimed at the hook; the same command resumes."""
    asked, ended = tmp_path / "asked", tmp_path / "ended"
    hook = (
        f'[ "$SPIRIT_PY_EVENT" = cutover.ready ] || exit 0; echo x > {shlex.quote(str(asked))};'
        f" sleep 1; echo x > {shlex.quote(str(ended))}; exit 1"
    )
    process = start(table, "--on-event", hook, "--hook-veto")
    until(asked.exists, "the question")
    # To everything in the process group, as a terminal does it.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=MINUTE)
    assert process.returncode == 130, errors
    assert "resumes from here" in errors
    assert ended.exists()
    report = Gated(engine, copying(table), None).end()
    assert report.resumed
    assert_migrated(table)


# -- in this process, with a gate in the hook's place


class Gated(Migrating):
    """A migration that asks this test before the swap."""

    def __init__(self, engine, config, gate):
        self._gate = gate
        super().__init__(engine, config)

    def _run(self):
        from spirit_py.migration import entry

        try:
            self.report = entry.migrate(
                self._config,
                reporter=self.told,
                engine_factory=lambda _: self._engine,
                stop=self.stop,
                gate=self._gate,
            )
        except BaseException as error:
            self.error = error


def copying(db, **more):
    """Return the configuration of a copy."""
    return config_for(db, table="t", alter=ALTER, no_shortcut=True, **more)


@pytest.mark.slow
def test_a_hook_may_put_the_swap_off_and_then_allow_it(table, engine, tmp_path):
    """It says why; meanwhile rows are written, and none is lost when it agrees (R15)."""
    allowed = tmp_path / "allowed"
    command = f"[ -e {shlex.quote(str(allowed))} ] || {{ echo the batch job runs; exit 1; }}"
    hook = Hook(command, seconds=30.0, tell=untold)
    migrating = Gated(engine, copying(table), hook.ask)
    vetoed = CutoverVetoed
    migrating.wait_until(lambda: migrating.told.named(vetoed), "the refusal")
    table.execute("INSERT INTO t VALUES (9001, 7, 'meanwhile')")
    assert not table.query("SHOW COLUMNS FROM t LIKE 'z'")
    allowed.touch()
    migrating.end()
    hook.stop()
    assert {one.fields["reason"] for one in migrating.told.named(vetoed)} == {"the batch job runs"}
    assert table.query("SELECT a FROM t WHERE b = 'meanwhile'") == [(7,)]
    assert table.query("SHOW COLUMNS FROM t LIKE 'z'")
    assert tables(table) == ["t"]


@pytest.mark.slow
def test_an_answer_that_has_become_old_is_asked_for_again_and_never_under_the_lock(
    table, engine, monkeypatch
):
    """After the drain, and where the sessions for the lock took long; writers wait for no hook."""
    monkeypatch.setattr(veto, "_GOOD_SECONDS", -1.0)
    writer = table.connect(autocommit=True).cursor()
    writer.execute("SET SESSION lock_wait_timeout = 1")
    asked: list[object] = []

    def gate(event, _check):
        asked.append(event.fields["number"])
        writer.execute(f"INSERT INTO t VALUES ({9000 + len(asked)}, 7, 'meanwhile')")
        if len(asked) == 3:
            monkeypatch.setattr(veto, "_GOOD_SECONDS", 30.0)
        return ""

    migrating = Gated(engine, copying(table), gate)
    migrating.end()
    assert asked == [1, 2, 3]
    (held,) = migrating.told.named(CutoverHeldBack)
    assert "an answer of the hook" in held.text
    assert table.query("SELECT COUNT(*) FROM t WHERE b = 'meanwhile'") == [(3,)]


@pytest.mark.slow
def test_every_try_of_the_swap_needs_its_own_answer(table, engine):
    """A veto that comes between two tries holds: the table is not swapped until it ends."""
    blocker = table.connect(autocommit=False).cursor()
    asked: list[object] = []
    agreed: list[bool] = []

    def gate(event, _check):
        asked.append(event.fields["number"])
        if len(asked) == 1:
            # Young enough to be in front of the first try, and of no other.
            blocker.execute("INSERT INTO t VALUES (9001, 1, 'held')")
            return ""
        return "" if agreed else "not yet"

    migrating = Gated(engine, copying(table, lock_wait_timeout=1.0), gate)
    migrating.wait_until(lambda: len(asked) > 1 or len(blocks(migrating)), "another question")
    blocker.execute("COMMIT")
    migrating.wait_until(lambda: len(asked) > 3, "more questions")
    assert not table.query("SHOW COLUMNS FROM t LIKE 'z'")
    agreed.append(True)
    migrating.end()
    assert table.query("SHOW COLUMNS FROM t LIKE 'z'")


def blocks(migrating):
    """Return the events that say the swap was not made."""
    return migrating.told.named(CutoverTryFailed)


@pytest.mark.slow
def test_a_swap_that_is_never_agreed_to_ends_in_time_and_can_be_resumed(table, engine):
    """--cutover-timeout counts for the hook as well."""
    migrating = Gated(engine, copying(table, cutover_timeout=0.5), lambda *_: "never")
    with pytest.raises(MigrationFailure, match=r"the hook has not agreed to the swap for 0\.5s"):
        migrating.end()
    assert not table.query("SHOW COLUMNS FROM t LIKE 'z'")
    assert migrating.told.said("the same command resumes from here")


@pytest.mark.slow
def test_a_change_in_place_is_asked_for_too(table, engine, monkeypatch):
    """INSTANT changes the table as much as a swap does; an old answer is asked for again."""
    monkeypatch.setattr(veto, "_GOOD_SECONDS", -1.0)
    answers = ["wait", "", ""]

    def gate(*_):
        if len(answers) == 1:
            monkeypatch.setattr(veto, "_GOOD_SECONDS", 30.0)
        return answers.pop(0)

    config = config_for(table, table="t", alter=INSTANT)
    migrating = Gated(engine, config, gate)
    report = migrating.end()
    assert report.algorithm == "instant"
    assert answers == []
    assert len(migrating.told.named(CutoverVetoed)) == 1
    assert tables(table) == ["t"]


def ask(db, verb):
    """Ask as ``spirit-py ctl`` does, in this process; return what it says."""
    said: list[str] = []
    with connect(connection_options(db), role="ctl") as session:
        Asking(session, db.name, "t", StopSwitch(), said.append).ask(verb, {})
    return said[0]


@pytest.mark.slow
def test_an_operator_overrules_a_hook_that_is_being_asked(table, engine):
    """A call that would last for ever ends nothing, and has agreed to nothing."""
    asked: list[object] = []

    def gate(event, check):
        asked.append(event.fields["number"])
        while True:
            check()
            threading.Event().wait(0.01)

    migrating = Gated(engine, copying(table), gate)
    migrating.wait_until(lambda: asked, "the question")
    assert "the hook is not asked any more: the swap is made" in ask(table, "cutover")
    migrating.end()
    assert asked == [1]
    assert not migrating.told.named(CutoverVetoed)
    assert_migrated(table)


@pytest.mark.slow
def test_a_refused_cutover_overrules_no_hook(table, engine):
    """Once the sentinel that was made by hand is dropped, the tables are swapped as it agrees."""
    answer, asked, agreed = threading.Event(), [], []

    def gate(event, check):
        asked.append(event.fields["number"])
        while not answer.wait(0.01):
            check()
        agreed.append(True)
        return ""

    migrating = Gated(engine, copying(table), gate)
    migrating.wait_until(lambda: asked, "the question")
    table.execute("CREATE TABLE _t_snt (id INT)")
    with pytest.raises(Refusal, match="was not created by spirit-py"):
        ask(table, "cutover")
    table.execute("DROP TABLE _t_snt")
    answer.set()
    migrating.end()
    assert agreed
    assert_migrated(table)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["pause", "postpone"])
def test_what_an_operator_asks_for_while_the_hook_is_asked_holds(table, engine, verb):
    """The hook agrees, and the tables are not swapped; in a pause it is not asked again."""
    answer, asked = threading.Event(), []

    def gate(event, check):
        asked.append(event.fields["number"])
        while not answer.wait(0.01):
            check()
        return ""

    migrating = Gated(engine, copying(table), gate)
    migrating.wait_until(lambda: asked, "the question")
    ask(table, verb)
    answer.set()
    waits = {"pause": "the end of the pause", "postpone": "_t_snt to be dropped"}[verb]
    migrating.wait_until(
        lambda: any(waits in seen.waiting_for for seen in migrating.told.snapshots[-1:]), waits
    )
    assert not table.query("SHOW COLUMNS FROM t LIKE 'z'")
    assert asked == [1]
    ask(table, {"pause": "resume", "postpone": "cutover"}[verb])
    migrating.end()
    assert_migrated(table)


@pytest.mark.slow
def test_with_a_deferred_cutover_the_hook_is_asked_when_the_sentinel_is_gone(table, engine):
    """Both must agree; a second run of the command asks again, and makes no second sentinel."""
    asked: list[object] = []

    def gate(event, _check):
        asked.append(event.fields["number"])
        return "not yet"

    deferred = copying(table, defer_cutover=True, recheck_interval=3600.0)
    migrating = Gated(engine, deferred, gate)
    migrating.wait_until(lambda: migrating.told.named(CutoverDeferred), "the sentinel")
    assert asked == []
    table.execute("DROP TABLE _t_snt")
    migrating.wait_until(lambda: len(asked) > 1, "the questions")
    migrating.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        migrating.end()
    (shown,) = migrations(connection_options(table), database=table.name, table="t", max_age=3600)
    assert not shown.deferred
    again = Gated(engine, deferred, lambda *_: "")
    assert again.end().resumed
    assert not again.told.named(CutoverDeferred)
    assert_migrated(table)


@pytest.mark.slow
def test_a_copy_begins_without_consent(table, engine):
    """Where the server cannot change the table in place, only the swap is asked for."""
    seen: list[bool] = []

    def gate(*_):
        seen.append(bool(migrating.told.named(CopyDone)))
        return ""

    config = config_for(table, table="t", alter="MODIFY a BIGINT")
    migrating = Gated(engine, config, gate)
    report = migrating.end()
    assert report.algorithm == "copy"
    assert seen == [True]

"""What ``spirit-py status`` shows of migrations that no process, or another one, works on."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.cli import main
from spirit_py.config import SessionModes
from spirit_py.errors import MigrationFailure
from spirit_py.locks.named import (
    migration_lock,
    named_lock_holder,
    take_named_lock,
    working_session,
)
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import run_label, token_of
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch
from tests.kits.command import command_line, environment
from tests.kits.connection import connection_options
from tests.kits.locking import await_lock_freed
from tests.kits.resume import start

if TYPE_CHECKING:
    from spirit_py.migration.migration_status import MigrationShown


DEAD = LiveFigures(
    host="admin1",
    pid=4711,
    run="of another run",
    program="1",
    phase="copy",
    table="t",
    elapsed=10.0,
    phase_elapsed=9.0,
)


def shown(db) -> MigrationShown:
    """Return the one migration that is listed."""
    (found,) = migrations(connection_options(db), database=db.name, table="t", max_age=1e6)
    return found


@pytest.mark.slow
def test_figures_of_a_process_that_has_ended_are_not_those_of_the_next(db, engine):
    """A process that has just started, after a kill -9, shows none rather than the dead one's."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(MigrationFailure):
        start(
            engine, db, table="t", alter="MODIFY v BIGINT",
            defer_cutover=True, defer_timeout=0.0,
        ).end()  # fmt: skip
    checkpoint = CheckpointTable(db.name, "t")
    with connect(connection_options(db), role="test") as session:
        checkpoint.write(session, DEAD)
    await_lock_freed(db)
    assert (shown(db).state, shown(db).live) == ("stopped", DEAD)

    label = run_label([(db.name, "t")])
    options = replace(connection_options(db), label=label)
    with connect(options, role="advisory", asks_for_lock=True) as session:
        assert take_named_lock(session, lock_name("migration", db.name, "t"))
        seen = shown(db)
        assert (seen.state, seen.worked_on_by) == ("running", session.id)
        assert (seen.live, seen.live_age) == (None, None)
        assert "has written no figures yet" in "\n".join(seen.lines())

        mine = replace(DEAD, run=token_of(label))
        checkpoint.write(session, mine)
        assert shown(db).live == mine


@pytest.mark.slow
def test_a_stopped_migration_is_not_running_while_its_table_is_archived(db, engine):
    """An archive and a repair hold its lock, too: how to resume it, and until when, is shown on."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with pytest.raises(MigrationFailure):
        start(
            engine, db, table="t", alter="MODIFY v BIGINT",
            defer_cutover=True, defer_timeout=0.0,
        ).end()  # fmt: skip
    await_lock_freed(db)
    stopped = shown(db)
    options, name = connection_options(db), (db.name, "t")
    with migration_lock(options, name, stop=StopSwitch(), reads=True):
        seen = shown(db)
        with connect(options, role="test") as session:
            holder = named_lock_holder(session, lock_name("migration", *name))
            assert working_session(session, name) is None
    assert (seen.state, seen.worked_on_by, seen.read_by) == ("stopped", None, holder)
    assert (seen.command, seen.again) == (stopped.command, "resume")
    assert seen.resumable_for is not None
    assert f"an archive or a repair of the table (server session {holder}) is" in "\n".join(
        seen.lines()
    )


@pytest.mark.slow
def test_the_commands_that_are_shown_do_what_they_are_shown_for(db, engine):
    """That of a sentinel lets the swap happen; that of ``status`` resumes."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    modes = SessionModes(allow_zero_dates=True)
    waiting = start(
        engine, db, table="t", alter="MODIFY V BIGINT\n DEFAULT '7'",
        defer_cutover=True, defer_timeout=0.0, modes=modes,
    )  # fmt: skip
    with pytest.raises(MigrationFailure):
        waiting.end()
    carries_on = shown(db).command
    assert "--defer-cutover" in shlex.split(carries_on)
    assert "MODIFY V BIGINT DEFAULT '7'" in shlex.split(carries_on)[-3].partition(".`t` ")[2]
    assert f"  command    {carries_on}" in asked(db, "status", "--table", "t").stdout.splitlines()
    db.execute("DROP TABLE _t_snt")
    run_as_shown(db, carries_on)
    assert "`V` bigint DEFAULT '7'" in db.query("SHOW CREATE TABLE t")[0][1]

    waiting = start(engine, db, table="t", alter="MODIFY v INT", defer_cutover=True)
    waiting.wait_until(lambda: waiting.told.said("the cut-over is deferred"), "the sentinel")
    (line,) = [one for one in waiting.told.lines if "the cut-over is deferred" in one]
    run_as_shown(db, line.partition("to swap: ")[2].partition("; or ")[0])
    waiting.end()
    assert "`v` int" in db.query("SHOW CREATE TABLE t")[0][1]


def run_as_shown(db, command):
    """Run a command as it was shown, to a good end."""
    program, *words = shlex.split(command)
    assert program == "spirit-py"
    ended = subprocess.run(
        [sys.executable, "-m", "spirit_py", *words],
        env=environment(db),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def asked(db, *words: str):
    """Run a command on the test's server; a later option stands for the schema's."""
    runner = CliRunner(env={"SPIRIT_PY_PASSWORD": db.server.password})
    return runner.invoke(main, command_line(db, *words)[3:])


@pytest.mark.parametrize("command", [("status",), ("ctl", "status"), ("cleanup", "--yes")])
def test_a_name_that_is_not_there_is_refused(db, command):
    """A table's and a schema's; one that is there, and has no migration, is an answer."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    there = asked(db, *command, "--table", "t")
    assert there.exit_code == (1 if command[0] == "ctl" else 0)
    assert "no migration" in there.output
    for database, table, cause in (
        (db.name, "nosuch", f"there is no table {db.name}.nosuch, and no migration of it"),
        ("nosuch", "t", "there is no schema nosuch"),
    ):
        done = asked(db, *command, "--database", database, "--table", table)
        assert done.exit_code == 2, done.output
        assert cause in done.stderr
        assert "check the name" in done.stderr


def test_a_verb_for_a_table_that_is_not_there_is_refused_as_status_does(db):
    """Nobody works on it, and nobody could; the table of a similar name is meant."""
    db.execute("CREATE TABLE two (id INT PRIMARY KEY)")
    for command in (("ctl", "pause"), ("status",)):
        done = asked(db, *command, "--table", "tow")
        assert f"there is no table {db.name}.tow, and no migration of it" in done.stderr
        assert "hint: did you mean two? check the name" in done.stderr
    assert "no process works on" in asked(db, "ctl", "pause", "--table", "two").stderr
    done = asked(db, "migrate", "--table", "tow", "--alter", "FORCE")
    assert "hint: did you mean two? check --table" in done.stderr


def test_a_schema_that_is_not_there_is_refused_for_all_its_tables(db):
    """``status --database nosuch`` is no answer about a schema."""
    done = asked(db, "status", "--database", "nosuch")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no schema nosuch" in done.stderr

"""What ``spirit-py status`` shows of migrations that no process, or another one, works on."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.config import SessionModes
from spirit_py.errors import MigrationFailure
from spirit_py.locks.named import take_named_lock
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import run_label, token_of
from spirit_py.table.names import lock_name
from tests.kits.command import environment
from tests.kits.connection import connection_options
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


def test_the_commands_that_are_shown_do_what_they_are_shown_for(db, engine):
    """That of a sentinel lets the swap happen; that of ``status`` carries on."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    modes = SessionModes(allow_zero_dates=True)
    waiting = start(
        engine, db, table="t", alter="MODIFY v BIGINT DEFAULT '7'",
        defer_cutover=True, defer_timeout=0.0, modes=modes,
    )  # fmt: skip
    with pytest.raises(MigrationFailure):
        waiting.end()
    carries_on = shown(db).command
    assert f"  command    {carries_on}" in shown(db).lines()
    db.execute("DROP TABLE _t_snt")
    run_as_shown(db, carries_on)
    assert "bigint DEFAULT '7'" in db.query("SHOW CREATE TABLE t")[0][1]

    waiting = start(engine, db, table="t", alter="MODIFY v INT", defer_cutover=True)
    waiting.wait_until(lambda: waiting.told.said("the cutover is deferred"), "the sentinel")
    (line,) = [one for one in waiting.told.lines if "the cutover is deferred" in one]
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

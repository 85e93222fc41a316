"""A server that says no: small packets, no writes, sessions killed for a while."""

from __future__ import annotations

import contextlib
import os
import time

import MySQLdb
import pytest

from tests.kits.held_command import assert_migrated, fill, migration

MIB = 1 << 20
#: The issue asks for a minute; the usual run has no time for it.
KILL_SECONDS = float(os.environ.get("SPIRIT_PY_FAULTS_SECONDS", "3"))
WIDE_ALTER = "ADD COLUMN z INT NOT NULL DEFAULT 5, MODIFY n BIGINT"


def wide_table(db, rows):
    """Create a table with rows of these sizes, numbered from 1."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, body LONGBLOB)")
    for number, size in enumerate(rows, start=1):
        db.execute("INSERT INTO t VALUES (%s, 0, REPEAT('x', %s))", (number, size))


@pytest.mark.slow
def test_packets_of_a_mebibyte_carry_rows_of_hundreds_of_kilobytes(db, tmp_path):
    """Wide rows pass, copied and changed; one above the packet stops with the variable to raise."""
    sizes = [300_000, 900_000, 10, 1_500_000, 700_000, 2_000_000]
    wide_table(db, sizes)
    db.set_global("max_allowed_packet", MIB)
    with migration(db, tmp_path, alter=WIDE_ALTER) as (command, listener):
        hold = listener.hold("drain.begun")
        command.wait_held(hold)
        db.execute("UPDATE t SET n = id, body = CONCAT(body, 'y') WHERE id NOT IN (4, 6)")
        hold.release()
        hold = listener.hold("checksum.chunk")
        command.wait_held(hold)
        db.execute("UPDATE t SET n = 7 WHERE id = 4")
        hold.release()
        assert command.end() == 1, command.said
        assert "max_allowed_packet" in command.said
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "n", "body"]
    db.execute("UPDATE t SET n = 8 WHERE id = 1")
    db.set_global("max_allowed_packet", 64 * MIB)
    with migration(db, tmp_path, alter=WIDE_ALTER) as (command, _):
        assert command.finish()["differences_found"] == 0
    found = db.query("SELECT id, n, LENGTH(body), RIGHT(body, 1) = 'y', z FROM t ORDER BY id")
    wanted = [(i, i, size + 1, 1, 5) for i, size in enumerate(sizes, start=1)]
    wanted[0] = (1, 8, 300_001, 1, 5)
    wanted[3], wanted[5] = (4, 7, 1_500_000, 0, 5), (6, 0, 2_000_000, 0, 5)
    assert [tuple(int(value) for value in row) for row in found] == wanted


@pytest.mark.slow
def test_a_server_that_turns_read_only_stops_the_migration_safely(db, tmp_path):
    """With super_read_only the run ends with 1 and a cause, and the next one resumes."""
    fill(db)
    with migration(db, tmp_path) as (command, listener):
        hold = listener.hold("chunk.dispatched")
        command.wait_held(hold)
        db.set_global("super_read_only", "ON")
        hold.release()
        assert command.end() == 1, command.said
        db.execute("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")
    assert "--super-read-only" in command.said
    with migration(db, tmp_path) as (command, _):
        command.finish()
    assert_migrated(db)


@pytest.mark.slow
def test_a_migration_survives_killed_sessions_and_statements(db, tmp_path):
    """KILL of all our sessions and of what they run: it goes on, or stops and resumes later."""
    fill(db)
    killer = db.connect()
    with migration(db, tmp_path) as (command, listener):
        hold = listener.hold("feed.started")
        command.wait_held(hold)
        hold.release()
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline and command.process.poll() is None:
            _kill_all(killer)
        code = command.end()
        assert code in {0, 1}, command.said
    if code:
        assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "a", "b"]
        with migration(db, tmp_path) as (command, _):
            command.finish()
    assert_migrated(db)


def _kill_all(killer):
    """Kill every second session of the program, and the statement of every other."""
    with contextlib.closing(killer.cursor()) as cursor:
        cursor.execute(
            "SELECT DISTINCT t.processlist_id FROM performance_schema.user_variables_by_thread v"
            " JOIN performance_schema.threads t USING (thread_id)"
            " WHERE v.variable_name = 'spirit_py_role'"
        )
        for (number,) in cursor.fetchall():
            with contextlib.suppress(MySQLdb.Error):
                cursor.execute(f"KILL {'QUERY' if number % 2 else 'CONNECTION'} {number}")

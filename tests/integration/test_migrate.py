"""The command as an operator meets it: interrupted, killed, run twice, run again."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time

import pytest

from spirit_py import points
from tests.kits.command import MINUTE, await_line, command_line, environment, run_here
from tests.kits.events import kinds
from tests.kits.held_command import assert_migrated, fill, migration
from tests.kits.locking import await_lock_freed
from tests.kits.point_listener import PointListener
from tests.kits.tables import tables
from tests.kits.waiting import until

ROWS = 4000
HELD_ID = 2000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
CHANGE = ("migrate", "--no-shortcut", "--alter", ALTER)


@pytest.fixture
def table(db):
    """A table of a few thousand rows, and what it holds."""
    return fill(db, ROWS)


def start(db, *more, environ=()):
    """Start ``spirit-py migrate`` as a process in a session of its own."""
    return subprocess.Popen(
        command_line(db, "migrate", "--no-shortcut", "--table", "t", "--alter", ALTER, *more),
        env=environment(db, **dict(environ)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def copy_held(db, folder, *more):
    """Start a process and hold its copy in a chunk: a row of the new table is locked from outside.

    The row is there before the first chunk, which waits for it on entry.
    """
    blocker = db.connect()
    cursor = blocker.cursor()
    with PointListener(folder / "points") as listener:
        hold = listener.hold("create.done")
        process = start(db, *more, environ={points.VARIABLE: str(listener.path)})
        try:
            until(lambda: hold.held.is_set() or process.poll() is not None, "new table")
            assert hold.held.is_set(), process.communicate()
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO _t_new (id, a, b, z) VALUES ({HELD_ID}, 0, 'held', 0)")
            hold.release()
            until(
                lambda: db.query("SELECT 1 FROM performance_schema.data_lock_waits LIMIT 1"),
                "chunk that waits",
            )
            yield process, cursor
        finally:
            blocker.close()
            if process.poll() is None:
                process.kill()
                process.wait()


def assert_kept_and_clean_up(db):
    """The next run could resume; ``spirit-py cleanup`` drops what it would resume with."""
    # A process that leaves at once has no time to drop the table of requests.
    assert {"_t_chkpnt", "_t_new", "t"} <= set(tables(db)) <= {"_t_chkpnt", "_t_ctl", "_t_new", "t"}
    await_lock_freed(db)
    status = run_here(db, "status")
    assert status.returncode == 0, status.stderr
    assert "it would resume" in status.stdout
    assert "no process works on it now" in status.stdout
    cleanup = run_here(db, "cleanup", "--yes")
    assert cleanup.returncode == 0, cleanup.stderr


def assert_source_whole(db):
    """The source has its old definition and every row; nothing else is there."""
    assert tables(db) == ["t"]
    assert [row[0] for row in db.query("SHOW COLUMNS FROM t")] == ["id", "a", "b"]
    found = db.query("SELECT COUNT(*), SUM(a = id * 3), SUM(b = CONCAT('row ', id)) FROM t")
    assert tuple(int(n) for n in found[0]) == (ROWS, ROWS, ROWS)
    db.execute("UPDATE t SET a = a WHERE id = 1")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_copy_leaves_the_source_whole(table, number, code, tmp_path):
    """SIGINT and SIGTERM end the run with their own code, and a checkpoint (R16)."""
    with copy_held(table, tmp_path) as (process, cursor):
        process.send_signal(number)
        cursor.execute("ROLLBACK")
        _, errors = process.communicate(timeout=4 * MINUTE)
    assert process.returncode == code, errors
    assert "the same command resumes from here" in errors
    assert_kept_and_clean_up(table)
    assert_source_whole(table)


@pytest.mark.slow
def test_a_second_sigint_leaves_at_once(table, tmp_path):
    """The second SIGINT does not wait for a chunk that hangs; no session stays on the server.

    The report says that the run can be resumed, as after the first one.
    """
    report = tmp_path / "report.json"
    with copy_held(table, tmp_path, "--report-json", str(report)) as (process, cursor):
        process.send_signal(signal.SIGINT)
        await_line(process, "stopping and cleaning up")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=4 * MINUTE)
        assert process.returncode == 130, errors
        assert "run the same command again: it resumes from the last checkpoint" in errors
        assert json.loads(report.read_text())["resumable"] is True
        cursor.execute("ROLLBACK")
    assert_kept_and_clean_up(table)
    assert_source_whole(table)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("point", "code", "says", "swapped"),
    [
        ("cutover.locked", 130, "the source table is intact", False),
        ("cutover.rename", 3, "may or may not have happened", False),
        ("cutover.renamed", 130, "the change is done", True),
    ],
)
def test_a_second_sigint_knows_of_the_swap(db, tmp_path, point, code, says, swapped):
    """Left at once: exit code 3 only while the outcome is unknown; the next run resumes."""
    with migration(fill(db), tmp_path) as (command, listener):
        hold = listener.hold(point)
        command.wait_held(hold)
        command.process.send_signal(signal.SIGINT)
        command.until(lambda: "stopping and cleaning up" in command.said, "no word of the stop")
        command.process.send_signal(signal.SIGINT)
        assert command.end() == code, command.said
        assert says in command.said
        hold.release()
    assert ("z" in [row[0] for row in db.query("SHOW COLUMNS FROM t")]) is swapped
    with migration(db, tmp_path) as (again, _):
        again.finish()
    assert_migrated(db)


@pytest.mark.slow
def test_a_second_run_on_the_same_table_is_refused(table, tmp_path):
    """While one migration runs, another of the same table ends with 2 and disturbs nothing."""
    with copy_held(table, tmp_path) as (first, cursor):
        second = start(table)
        _, errors = second.communicate(timeout=4 * MINUTE)
        assert second.returncode == 2, errors
        assert "another migration" in errors
        cursor.execute("ROLLBACK")
        _, errors = first.communicate(timeout=4 * MINUTE)
    assert first.returncode == 0, errors
    assert tables(table) == ["t"]


def test_tables_of_others_are_not_touched(table):
    """A table in the new table's place that is not ours is refused by name and left alone."""
    table.execute("CREATE TABLE _t_new (keep_me INT)")
    done = run_here(table, *CHANGE)
    assert done.returncode == 2, done.stderr
    assert "_t_new" in done.stderr
    assert [row[0] for row in table.query("SHOW COLUMNS FROM _t_new")] == ["keep_me"]


@pytest.mark.slow
def test_the_old_table_can_be_kept(table, tmp_path):
    """With --drop-old-after never the old table stays as it was at the swap."""
    report = tmp_path / "report.json"
    done = run_here(table, *CHANGE, "--drop-old-after", "never", "--report-json", str(report))
    assert done.returncode == 0, done.stderr
    assert tables(table) == ["_t_chkpnt", "_t_old", "t"]
    assert int(table.query("SELECT COUNT(*) FROM _t_old")[0][0]) == ROWS
    assert json.loads(report.read_text())["old_table"] == "_t_old"


@pytest.mark.slow
def test_the_report_holds_every_figure_that_an_operator_asks_for(table, tmp_path):
    """Outcome, algorithm, rows, chunks, phases, changes, checksum, cutover, positions, versions."""
    report = tmp_path / "report.json"
    done = run_here(table, *CHANGE, "--report-json", str(report), "--log-format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert (found["outcome"], found["exit_code"], found["algorithm"]) == ("done", 0, "copy")
    assert found["rows_copied"] == ROWS
    assert found["checksum_rows"] == ROWS
    assert found["chunks"] > 0
    assert found["checksum_passes"] == 1
    assert (found["differences_found"], found["chunks_repaired"]) == (0, 0)
    assert found["cutover_attempts"] == 1
    assert found["lock_held_ms"] > 0
    assert {"copy", "checksum", "cutover"} <= set(found["phases"])
    assert found["start_position"]
    assert found["final_position"]
    assert {"mysql", "pyspark", "python", "spirit-py"} <= set(found["versions"])
    for line in done.stderr.splitlines():
        assert json.loads(line)["event"] in kinds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "home", "warned"),
    [
        ((), None, ""),
        (("--max-lag", "5"), None, "the server knows no replica"),
        ((), "/nowhere", "Spark needs Java"),
    ],
)
def test_a_run_of_two_rows_has_a_dozen_lines_at_most(table, monkeypatch, more, home, warned):
    """What is done, the plan, the cause once and the summary, with two warnings, each once."""
    table.execute("DELETE FROM t WHERE id > 2")
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    done = run_here(table, "migrate", "--alter", "FORCE, ADD COLUMN z INT", *more)
    assert done.returncode == 0, done.stderr
    assert not warned or done.stderr.count(warned) == 1
    lines = (done.stdout + done.stderr).splitlines()
    # A busy machine may take long enough for figures.
    said = [line for line in lines if " [" not in line]
    assert len(said) <= 12, done.stderr
    assert sum("changed (copy)" in line for line in said) == 1


@pytest.mark.slow
def test_the_migration_goes_on_when_its_output_is_not_read(table, tmp_path):
    """The reader of the log leaves in the middle: the swap is done and the exit code is 0."""
    with copy_held(table, tmp_path) as (process, cursor):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        cursor.execute("ROLLBACK")
        assert process.wait(4 * MINUTE) == 0
    assert tables(table) == ["t"]
    assert "z" in [row[0] for row in table.query("SHOW COLUMNS FROM t")]


@pytest.mark.slow
def test_an_interrupt_cleans_up_when_the_output_is_not_read(table, tmp_path):
    """SIGINT with a log pipe that is gone: exit code 130, and the checkpoint is written."""
    with copy_held(table, tmp_path) as (process, cursor):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        process.send_signal(signal.SIGINT)
        cursor.execute("ROLLBACK")
        assert process.wait(4 * MINUTE) == 130
    assert_kept_and_clean_up(table)
    assert_source_whole(table)


@pytest.mark.slow
def test_a_report_that_cannot_be_written_changes_nothing(table, tmp_path):
    """The report's folder disappears meanwhile: a warning, and the outcome stands."""
    folder = tmp_path / "gone"
    folder.mkdir()
    report = str(folder / "report.json")
    with copy_held(table, tmp_path, "--report-json", report) as (process, cursor):
        folder.rmdir()
        cursor.execute("ROLLBACK")
        _, errors = process.communicate(timeout=4 * MINUTE)
    assert process.returncode == 0, errors
    assert "the report could not be written" in errors


def test_ddl_of_others_before_the_feed_sees_it_is_noticed(table, monkeypatch):
    """R14: the definition is compared again once the feed runs, which sees all that follows."""
    from spirit_py.config import ConnectionOptions, MigrationConfig
    from spirit_py.errors import SchemaChanged
    from spirit_py.migration.entry import migrate
    from spirit_py.preflight import preflight
    from spirit_py.spark.choice import DriverEngine
    from spirit_py.status.plain import PlainReporter

    wanted = preflight.check_after_create

    def meanwhile(context, target):
        table.execute("ALTER TABLE t ADD COLUMN other INT DEFAULT 7")
        return wanted(context, target)

    monkeypatch.setattr("spirit_py.migration.auxiliary.check_after_create", meanwhile)
    server = table.server
    connection = ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )
    config = MigrationConfig(
        connection=connection,
        database=table.name,
        table="t",
        alter=ALTER,
        no_shortcut=True,
        threads=2,
    )
    with pytest.raises(SchemaChanged, match="another session changed the definition"):
        migrate(
            config,
            reporter=PlainReporter(clock=time.monotonic),
            engine_factory=lambda _: DriverEngine(1),
        )
    assert tables(table) == ["t"]
    assert [row[0] for row in table.query("SHOW COLUMNS FROM t")] == ["id", "a", "b", "other"]

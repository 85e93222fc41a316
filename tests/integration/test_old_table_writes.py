"""Rows that somebody writes to an old table after the swap: they do not go with it (R27)."""

from __future__ import annotations

import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.checkpoint import drop
from spirit_py.checkpoint.drop import free_partitions
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.config import SessionModes
from spirit_py.errors import Interrupted
from spirit_py.migration import archive as archived
from spirit_py.migration import migration
from spirit_py.migration.archive import require_archived
from spirit_py.migration.swap import old_tables
from spirit_py.migration.swap.old_table_writes import OldTableWrites, await_writers
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.threads import StopSwitch
from tests.integration.test_archive import KEEP, archiving, left_out, make_days, read_back
from tests.kits.background import BackgroundCall
from tests.kits.binlogs import purge_binlogs
from tests.kits.command import run_here
from tests.kits.migrate import config_for, migrate_here
from tests.kits.resume import assert_nothing_left, once_at, start
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from spirit_py.config import MigrationConfig
    from spirit_py.migration.run import Run

KEPT = "INSERT INTO _t_old (id, at, v) VALUES (100000, '2026-03-01', 'late')"
ARCHIVED = "UPDATE _t_old SET v = 'late' WHERE id = 3"
IN_TEXT = f"SET SESSION binlog_format = STATEMENT; {KEPT}; SET SESSION binlog_format = ROW"
AWAY = f"RENAME TABLE _t_old TO x; {KEPT.replace('_t_old', 'x')}; {{}}"
RENAMED = AWAY.format("RENAME TABLE x TO _t_old")
ALTERED = AWAY.replace("RENAME TABLE _t_old", "ALTER TABLE _t_old RENAME").format(
    "ALTER TABLE x RENAME TO _t_old"
)
EXCHANGED = "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE _t_old"
PREPARED = f"XA START 'a'; {KEPT}; XA END 'a'; XA PREPARE 'a'; XA COMMIT 'a'"
WAITS = (
    "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE 'INSERT INTO _t_old%'"
    " AND PROCESSLIST_STATE LIKE 'Waiting for table%'"
)


def purging(db: Any, folder: Path, **more: Any) -> MigrationConfig:
    """Return the configuration of a purge of table ``t`` with its archive."""
    return archiving(db, folder, KEEP, alter="ADD COLUMN w INT", **more)


@pytest.mark.parametrize(
    ("point", "write", "said"),
    [
        # The archive leaves it out, and the new table has not got it.
        ("archive.written", KEPT, r"\(100000\) of .*_t_old \(insert\)"),
        pytest.param("cleanup.old_table", KEPT, r"\(100000\) of", marks=pytest.mark.slow),
        # The file has the row as it was.
        pytest.param("archive.proved", ARCHIVED, r"\(3\) of .*update", marks=pytest.mark.slow),
        pytest.param(
            "archive.written", IN_TEXT, "STATEMENT format: INSERT", marks=pytest.mark.slow
        ),
        pytest.param("archive.written", PREPARED, r"\(100000\) of", marks=pytest.mark.slow),
    ],
)
def test_a_row_that_is_written_to_the_old_table_keeps_it(
    point, write, said, db, spark_engine, tmp_path, monkeypatch
):
    """Whenever it comes, between the swap and the drop; the error names its key."""
    make_days(db, 100)
    once_at(monkeypatch, point, lambda: db.execute(write))
    with pytest.raises(ArchiveFailure, match=f"old table is kept: somebody wrote to .*{said}"):
        migrate_here(spark_engine, purging(db, tmp_path))
    assert db.query("SELECT v FROM _t_old WHERE v = 'late'") == [("late",)]
    assert not db.query("SELECT v FROM t WHERE v = 'late'")


PREPARE = f"XA START 'b'; {KEPT}; XA END 'b'; XA PREPARE 'b'"
PREPARE_TEXT = f"SET SESSION binlog_format = STATEMENT; {PREPARE}"


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ((f"BEGIN; {KEPT}; ROLLBACK",), None),
        (
            (f"BEGIN; SAVEPOINT s; {KEPT}; ROLLBACK TO s; INSERT INTO other VALUES (1); COMMIT",),
            None,
        ),
        ((PREPARE, "XA ROLLBACK 'b'"), None),
        ((PREPARE_TEXT, "XA ROLLBACK 'b'"), None),
        ((PREPARE, "XA COMMIT 'b'"), r"\(100000\) of .*_t_old \(insert\)"),
        ((PREPARE,), r"XA transaction that is not decided yet .*\(100000\) of"),
        ((PREPARE_TEXT, "XA COMMIT 'b'"), "STATEMENT format: INSERT"),
        ((f"BEGIN; {KEPT}; {ARCHIVED}; COMMIT",), r"\(100000\) of"),
        ((PREPARE.replace(KEPT, "INSERT INTO other VALUES (2)"),), None),
        ((RENAMED,), "another name: RENAME"),
        ((f"{EXCHANGED}; INSERT INTO p VALUES (5, NULL, 'late'); {EXCHANGED}",), "name: ALTER"),
        ((ALTERED,), "another name: ALTER"),
        # As the swap does.
        (("DROP TABLE _t_old; RENAME TABLE other TO _t_old",), None),
    ],
)
def test_only_what_is_committed_counts_as_written(writes, said, db):
    """Also where a transaction is prepared first; one that may still be committed counts, too.

    Rows that came while the table had another name are not named: the rename is.
    """
    db.execute("CREATE TABLE _t_old (id INT PRIMARY KEY AUTO_INCREMENT, at DATE, v VARCHAR(20))")
    db.execute("CREATE TABLE other (id INT PRIMARY KEY); INSERT INTO _t_old (id) VALUES (3)")
    db.execute("CREATE TABLE p LIKE _t_old; ALTER TABLE p PARTITION BY HASH (id) PARTITIONS 1")
    config, table = config_for(db, table="t"), read_table(db, db.name, "_t_old")
    assert table is not None
    followed = OldTableWrites(
        config.connection, config.feed, [table], position="", stop=StopSwitch()
    )
    try:
        for write in writes:
            with contextlib.closing(db.connect()) as connection:
                for statement in write.split("; "):
                    connection.cursor().execute(statement)
        if said is None:
            followed.require_none()
        else:
            with pytest.raises(ArchiveFailure, match=f"somebody wrote to .*{said}"):
                followed.require_none()
    finally:
        followed.close()
        for *_, xid in db.query("XA RECOVER"):
            db.execute(f"XA ROLLBACK '{xid}'")


@pytest.mark.slow
def test_a_row_that_comes_at_the_last_look_finds_no_table(db, spark_engine, tmp_path, monkeypatch):
    """The table is locked from then to its drop: its writer waits, and is told that it is gone."""
    make_days(db, 100)
    real = OldTableWrites.require_none
    written: list[BackgroundCall] = []

    def write() -> None:
        with contextlib.closing(db.connect()) as connection:
            connection.cursor().execute(KEPT)

    def write_then(self: OldTableWrites, session: Any = None) -> None:
        real(self, session)
        if session is not None:
            written.append(BackgroundCall(write))
            until(lambda: db.query(WAITS), "a write that waits")

    monkeypatch.setattr(OldTableWrites, "require_none", write_then)
    migrate_here(spark_engine, purging(db, tmp_path))
    with pytest.raises(Exception, match="doesn't exist"):
        written[0].result(30.0)
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize("write", [KEPT, ARCHIVED])
def test_a_row_that_is_written_while_the_old_table_is_kept_is_found(
    write, db, spark_engine, tmp_path, monkeypatch
):
    """After the grace the server counts and hashes the rows again."""
    make_days(db, 100)

    def write_before(run: Run, archives: Any) -> Any:
        db.execute(write)
        return require_archived(run, archives)

    asked = partial(purging, db, tmp_path, drop_old_after=1.0)
    with monkeypatch.context() as patched:
        patched.setattr("spirit_py.migration.migration.require_archived", write_before)
        with pytest.raises(ArchiveFailure, match=r"old table is kept: .* has other rows than when"):
            migrate_here(spark_engine, asked())
    assert "_t_old" in tables(db)
    if write == KEPT:
        with pytest.raises(ArchiveFailure, match="are not those of the swap any more"):
            migrate_here(spark_engine, asked())
        db.execute("DELETE FROM _t_old WHERE id = 100000")
        migrate_here(spark_engine, asked())
        assert_nothing_left(db)


@pytest.mark.slow
def test_what_was_prepared_before_the_look_is_waited_for(db):
    """Its rows are in the binlog of before, and its commit says nothing of them."""
    db.execute("CREATE TABLE _t_old (id INT PRIMARY KEY AUTO_INCREMENT, at DATE, v VARCHAR(20))")
    with contextlib.closing(db.connect()) as connection:
        for statement in PREPARE.split("; "):
            connection.cursor().execute(statement)
    with connect(config_for(db, table="t").connection, role="test", lock_wait_timeout=1) as session:
        table = read_table(session, db.name, "_t_old")
        assert table is not None
        with pytest.raises(ArchiveFailure, match="does not end"):
            await_writers(session, tables=[table])
        db.execute("XA COMMIT 'b'")
        await_writers(session, tables=[table])


def fail() -> None:
    """Stop an archive."""
    raise ArchiveFailure("the test stops it")


@pytest.mark.slow
@pytest.mark.parametrize("write", ["", KEPT])
def test_a_row_that_is_written_between_two_runs_is_found(
    write, db, spark_engine, tmp_path, monkeypatch
):
    """The record has a place from before the swap."""
    make_days(db, 100)
    wanted = left_out(db)
    with monkeypatch.context() as patched:
        once_at(patched, "archive.written", fail)
        with pytest.raises(ArchiveFailure, match="the test stops it"):
            migrate_here(spark_engine, purging(db, tmp_path))
    db.execute(write or "DO 1")
    if write:
        with pytest.raises(ArchiveFailure, match=r"somebody wrote to .*: \(100000\) of"):
            migrate_here(spark_engine, purging(db, tmp_path))
        assert "_t_old" in tables(db)
    else:
        migrate_here(spark_engine, purging(db, tmp_path))
        assert len(read_back(tmp_path, db)) == len(wanted)
        assert_nothing_left(db)


@pytest.mark.slow
def test_a_grace_that_is_given_after_the_proof_counts_from_the_swap(
    db, spark_engine, tmp_path, monkeypatch
):
    """A run without one that ended after the proof left the drop to the same command."""
    make_days(db, 100)
    moments: list[float] = []
    in_between = "SELECT UNIX_TIMESTAMP(NOW(6))"
    with monkeypatch.context() as patched:
        real = archived.archive_old_tables

        def timed(*given: Any) -> Any:
            moments.append(float(db.query(in_between)[0][0]))
            return real(*given)

        patched.setattr(migration, "archive_old_tables", timed)
        once_at(patched, "cleanup.old_table", fail)
        with pytest.raises(ArchiveFailure, match="the test stops it"):
            migrate_here(spark_engine, purging(db, tmp_path))
    shown = run_here(db, "status").stdout
    assert "_t_old is to be dropped by the same command, or by spirit-py cleanup" in shown
    stop_at = RuntimeError("seen")

    def look(*_: object, **__: object) -> None:
        raise stop_at

    monkeypatch.setattr(old_tables, "_wait", look)
    with pytest.raises(RuntimeError, match="seen"):
        migrate_here(spark_engine, purging(db, tmp_path, drop_old_after=3600.0))
    noted = old_table_of(db, (db.name, "t"))
    assert noted is not None
    assert noted.swapped_at < moments[0]
    assert noted.until == noted.swapped_at + 3600.0


@pytest.mark.slow
@pytest.mark.parametrize("proved", [False, True])
def test_a_binlog_that_is_gone_is_no_proof(proved, db, spark_engine, tmp_path, monkeypatch):
    """What is noted at the first proof needs none: the hash of the kept rows."""
    make_days(db, 100)
    with monkeypatch.context() as patched:
        once_at(patched, "cleanup.old_table" if proved else "archive.written", fail)
        with pytest.raises(ArchiveFailure, match="the test stops it"):
            migrate_here(spark_engine, purging(db, tmp_path))
    db.execute("INSERT INTO t (at, v) VALUES ('2026-04-01', 'new')")
    purge_binlogs(db)
    if proved:
        migrate_here(spark_engine, purging(db, tmp_path))
        assert_nothing_left(db)
    else:
        with pytest.raises(ArchiveFailure, match=r"whether anybody wrote to .*_t_old .* not kn"):
            migrate_here(spark_engine, purging(db, tmp_path))
        assert "_t_old" in tables(db)


def make_parts(db: Any) -> None:
    """Make a table of three partitions, with a row in each."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, at DATE, v INT) PARTITION BY RANGE (id)"
        " (PARTITION one VALUES LESS THAN (2), PARTITION two VALUES LESS THAN (3),"
        " PARTITION three VALUES LESS THAN (99))"
    )
    db.execute("INSERT INTO t VALUES (1, '2026-01-01', 1), (2, NULL, 2), (3, '2026-03-01', 3)")


def parts_purged(folder: Path) -> dict[str, Any]:
    """Return what is asked of it: two of its rows go to an archive."""
    return {
        "modes": SessionModes(keep=KEEP),
        "alter": "ADD COLUMN w INT",
        "archive_to": str(folder),
    }


@pytest.mark.slow
def test_a_row_that_is_written_while_a_drop_rests_is_found(db, spark_engine, tmp_path, monkeypatch):
    """Between two partitions nothing is locked, as a pause may be long; then it looks again."""
    make_parts(db)
    monkeypatch.setattr(drop, "free_partitions", partial(free_partitions, large=0))
    db.execute("SET SESSION lock_wait_timeout = 2")
    rests: list[None] = []

    def write_at_the_second(*_: object) -> None:
        if len(rests) == 1:
            db.execute("INSERT INTO _t_old VALUES (50, '2026-04-01', 50)")
        rests.append(None)

    monkeypatch.setattr(old_tables, "_between_partitions", write_at_the_second)
    with pytest.raises(ArchiveFailure, match=r"somebody wrote to .*\(50\) of"):
        start(spark_engine, db, **parts_purged(tmp_path)).end()
    assert db.query("SELECT v FROM _t_old WHERE id = 50") == [(50,)]


@pytest.mark.slow
@pytest.mark.parametrize("before", ["nothing", "a write", "a file is gone"])
def test_a_drop_that_was_stopped_between_two_partitions_is_carried_on(
    before, db, spark_engine, tmp_path, monkeypatch
):
    """What is emptied is in the files: they were proved before; both are looked at again."""
    make_parts(db)
    monkeypatch.setattr(drop, "free_partitions", partial(free_partitions, large=0))
    monkeypatch.setattr(old_tables, "_REST_SECONDS", 0.0)
    running: list[Any] = []

    def stop_at_the_second(*_: object) -> None:
        if len(running) == 2:
            running[0].stop.request(Interrupted(signal.SIGTERM))
            running[0].stop.check()
        running.append(None)

    asked = parts_purged(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(old_tables, "_between_partitions", stop_at_the_second)
        running.append(start(spark_engine, db, **asked))
        with pytest.raises(Interrupted):
            running[0].end()
    assert len(db.query("SELECT id FROM _t_old")) < 3
    if before == "a file is gone":
        left = db.query("SELECT id FROM _t_old")
        next((tmp_path / f"{db.name}.t").glob("rows-*")).unlink()
        with pytest.raises(ArchiveFailure, match="is not as it was when the drop began"):
            start(spark_engine, db, **asked).end()
        assert db.query("SELECT id FROM _t_old") == left
        return
    if before == "a write":
        db.execute("INSERT INTO _t_old VALUES (51, '2026-04-01', 51)")
        with pytest.raises(ArchiveFailure, match=r"somebody wrote to .*\(51\) of"):
            start(spark_engine, db, **asked).end()
        assert db.query("SELECT v FROM _t_old WHERE id = 51") == [(51,)]
        return
    start(spark_engine, db, **asked).end()
    assert [row["id"] for row in read_back(tmp_path, db)] == [1, 2]
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["DROP", "TRUNCATE"])
@pytest.mark.parametrize("when", ["after the swap", "before the first row is read"])
def test_a_partition_that_others_drop_or_empty_keeps_the_old_table(
    what, when, db, spark_engine, tmp_path, monkeypatch
):
    """Such as a job that rotates the partitions of all tables: its rows are in no file."""
    make_parts(db)
    statement = f"ALTER TABLE _t_old {what} PARTITION one"
    if when == "after the swap":
        once_at(monkeypatch, "cutover.unlocked", lambda: db.execute(statement))
    else:
        real = archived._watched

        def watched(*given: Any) -> Any:
            db.execute(statement)
            return real(*given)

        monkeypatch.setattr(archived, "_watched", watched)
    with pytest.raises(ArchiveFailure, match="partitions of it were dropped or emptied"):
        start(spark_engine, db, **parts_purged(tmp_path)).end()
    monkeypatch.undo()
    left = db.query("SELECT id FROM _t_old")
    assert left
    with pytest.raises(ArchiveFailure, match="partitions of it were dropped or emptied"):
        start(spark_engine, db, **parts_purged(tmp_path)).end()
    assert db.query("SELECT id FROM _t_old") == left


@pytest.mark.slow
def test_an_old_table_that_is_gone_before_its_archive_is_told(
    db, spark_engine, tmp_path, monkeypatch
):
    """Also to the runs that come after it; an operator ends the migration."""
    make_days(db, 100)
    with monkeypatch.context() as patched:
        once_at(patched, "archive.written", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            migrate_here(spark_engine, purging(db, tmp_path))
    db.execute("DROP TABLE _t_old")
    for _ in range(2):
        with pytest.raises(ArchiveFailure, match="has not all rows of the swap any more: it is go"):
            migrate_here(spark_engine, purging(db, tmp_path))
    assert run_here(db, "cleanup", "--drop-old", "--yes").returncode == 0
    assert_nothing_left(db)

"""Archives that wait, are stopped, or whose table is altered: how they end, and what they show."""

from __future__ import annotations

import contextlib
import json
import math
import signal
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.archiving.columns import HASH_DIGITS
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.archiving.session import SparkTables
from spirit_py.checkpoint.writer import note_of_old
from spirit_py.config import SessionModes
from spirit_py.errors import Interrupted, Refusal, ServerFault
from spirit_py.migration.entry import archive
from spirit_py.migration.figures import Figures
from spirit_py.migration.listing import migrations
from spirit_py.migration.run import Run
from spirit_py.mysql.faults import INTERRUPTED
from spirit_py.mysql.processlist import rows_sent
from spirit_py.records import RecordOptions
from spirit_py.threads import StopSwitch
from tests.integration.test_archive import KEEP, archive_here, archiving, make_days, read_back
from tests.kits.background import BackgroundCall
from tests.kits.cleanup import clean
from tests.kits.connection import account, connection_options, granted
from tests.kits.engine import SharedEngine
from tests.kits.migrate import config_for, migrate_here
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import once_at, start
from tests.kits.tables import open_session, tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITS = "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_STATE LIKE 'Waiting for table%'"
#: The tries of a task of Spark together wait for a lock for longer.
SOON = 60.0


@pytest.fixture
def locks(db: Any) -> Iterator[Any]:
    """Return a session that may lock table ``t``, so that every statement on it waits."""
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor:
        yield cursor


def stopped(config: Any, engine: Any, db: Any) -> BaseException:
    """Run an archive, stop it once a statement waits for a lock, and return its error."""
    stop, shared = StopSwitch(), SharedEngine(engine)
    running = BackgroundCall(
        lambda: archive(
            config, reporter=RecordingReporter(), engine_factory=lambda _: shared, stop=stop
        )
    )
    until(lambda: db.query(WAITS), "a statement that waits for the lock")
    stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted) as raised:
        running.result(SOON)
    return raised.value


def report_of(file: Path) -> dict[str, Any]:
    """Return the report of a run."""
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.slow
def test_a_stop_cancels_a_job_of_spark_that_waits(db, spark_engine, tmp_path, monkeypatch, locks):
    """Its tasks wait for a lock; the run ends while they do, and the same command carries on."""
    make_days(db, 200)
    file = tmp_path / "report.json"
    config = archiving(db, tmp_path, records=RecordOptions(report_json=file))
    real = SparkTables.rows

    def lock_first(self: SparkTables, *given: Any) -> Any:
        locks.execute("LOCK TABLES t WRITE")
        return real(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(SparkTables, "rows", lock_first)
        # Otherwise the tasks' statements are killed as often as Spark tries them.
        patched.setattr(Run, "hurry", lambda _run: None)
        stopped(config, spark_engine, db)
    assert (report_of(file)["outcome"], report_of(file)["resumable"]) == ("interrupted", True)
    locks.execute("UNLOCK TABLES")
    until(lambda: not db.query(WAITS), "the tasks' sessions to end")
    report = archive_here(config, spark_engine)
    assert report.archived[0]["rows"] == len(read_back(tmp_path, db)) == 200
    assert not report_of(file)["resumable"]


@pytest.mark.slow
def test_a_stop_ends_the_statement_that_hashes_rows(db, spark_engine, tmp_path, monkeypatch, locks):
    """It may run for long on a large table: it is killed, and does not end by itself."""
    make_days(db, 200)
    once_at(monkeypatch, "archive.prove", lambda: locks.execute("LOCK TABLES t WRITE"))
    error: BaseException | None = stopped(archiving(db, tmp_path), spark_engine, db)
    codes = []
    while error is not None:
        codes += [error.code] if isinstance(error, ServerFault) else []
        error = error.__cause__ or error.__context__
    assert INTERRUPTED in codes


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["stopped", "failed", "refused"])
def test_the_report_says_that_the_same_command_carries_on(
    ends, db, spark_engine, tmp_path, monkeypatch
):
    """Of a migration that ended in its archive, but where the command itself was refused."""
    make_days(db, 100)
    file = tmp_path / "report.json"
    asked: dict[str, Any] = {
        "modes": SessionModes(keep=KEEP),
        "alter": "ADD COLUMN w INT",
        "archive_to": str(tmp_path / "a"),
        "records": RecordOptions(report_json=file),
    }
    running: Any = None

    def end() -> None:
        if ends == "stopped":
            running.stop.request(Interrupted(signal.SIGINT, hint="another"))
        else:
            raise ArchiveFailure("the test stops it")

    with monkeypatch.context() as patched:
        once_at(patched, "archive.written", end)
        running = start(spark_engine, db, **asked)
        with pytest.raises(Interrupted if ends == "stopped" else ArchiveFailure) as raised:
            running.end()
    assert report_of(file)["resumable"]
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]
    if ends == "stopped":
        assert "the same command carries on with the archive" in raised.value.hint
    if ends == "refused":
        with pytest.raises(Refusal, match="before the old table is dropped"):
            start(spark_engine, db, **{**asked, "archive_to": ""}).end()
        assert not report_of(file)["resumable"]
    else:
        start(spark_engine, db, **asked).end()
        assert (report_of(file)["outcome"], report_of(file)["resumable"]) == ("done", False)
        assert tables(db) == ["t"]


ALTERED = {
    "ALTER TABLE t ADD COLUMN w INT DEFAULT 5": "was altered while",
    "ALTER TABLE t MODIFY v VARCHAR(300)": "was altered while",
    "ALTER TABLE t DROP COLUMN v": "was altered while",
    "DROP TABLE t": "was dropped or renamed while",
}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["archive.piece", "archive.prove"])
@pytest.mark.parametrize("statement", ALTERED)
def test_a_table_that_is_altered_meanwhile_is_not_proved(
    statement, point, db, spark_engine, tmp_path, monkeypatch
):
    """A column that was added has values that are in no file."""
    monkeypatch.setattr("spirit_py.archiving.archive._FEWEST_ROWS", 100)
    make_days(db, 300)
    once_at(monkeypatch, point, lambda: db.execute(statement))
    with pytest.raises(ArchiveFailure, match=ALTERED[statement]):
        archive_here(archiving(db, tmp_path), spark_engine)
    assert not (tmp_path / f"{db.name}.t" / "_manifest.json").exists()


@pytest.mark.slow
def test_an_old_table_is_not_dropped_while_it_is_archived(db, spark_engine, tmp_path, monkeypatch):
    """What drops it holds the lock of the table that it was: the archive holds that, too."""
    make_days(db, 50)
    change = {"table": "t", "alter": "ADD COLUMN w INT", "no_shortcut": True}
    migrate_here(spark_engine, config_for(db, **change, drop_old_after=math.inf))
    refused: list[str] = []

    def drop() -> None:
        with pytest.raises(Refusal) as raised:
            clean(db, old=True)
        refused.append(raised.value.message)
        (shown,) = migrations(connection_options(db), database=db.name, table="t", max_age=1e6)
        assert (shown.state, shown.worked_on_by) == ("stopped", None)
        assert shown.read_by

    once_at(monkeypatch, "archive.prove", drop)
    archived = archive_here(
        config_for(db, table="_t_old", archive_to=str(tmp_path)), spark_engine
    ).archived
    assert [one["rows"] for one in archived] == [50]
    assert f"a process works on {db.name}.t now" in refused[0]
    assert "_t_old" in tables(db)


@pytest.mark.slow
def test_an_old_table_that_is_half_dropped_is_no_archive(db, engine, tmp_path):
    """The rows of its emptied partitions are nowhere: no manifest may say that it is whole."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 4")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    start(engine, db, table="t", alter="ADD w INT", drop_old_after=math.inf).end()
    db.execute("ALTER TABLE _t_old TRUNCATE PARTITION p3")
    with pytest.raises(Refusal, match=r"1 of 4 partitions of .*_t_old are emptied"):
        archive_here(config_for(db, table="_t_old", archive_to=str(tmp_path)), engine)


@pytest.mark.slow
def test_a_privilege_that_the_expressions_need_is_named(db, spark_engine, tmp_path):
    """SELECT alone is enough for a whole table; the refusal has the GRANT, and comes first."""
    make_days(db, 50)
    with account(db, f"SELECT ON `{db.name}`.`t`") as options:
        asked = archiving(db, tmp_path, connection=options)
        assert archive_here(asked, spark_engine).archived[0]["rows"] == 50
        with pytest.raises(Refusal, match="lacks CREATE TEMPORARY TABLES on") as refused:
            archive_here(archiving(db, tmp_path / "a", KEEP, connection=options), spark_engine)
    assert f"GRANT CREATE TEMPORARY TABLES ON {granted(db.name)}" in refused.value.hint
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_old_tables_that_read_an_expression_otherwise_do_not_need_each_other(
    db, spark_engine, tmp_path, monkeypatch
):
    """One of two is gone, whose text of --keep was another one: the other is archived."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, v VARCHAR(9))")
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT, v VARCHAR(9) CHARACTER SET latin1)")
    for name in ("t", "u"):
        db.execute(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    change = "ALTER TABLE t ADD COLUMN w INT; ALTER TABLE u ADD COLUMN w INT"
    asked = config_for(
        db, statement=change, modes=SessionModes(keep="v > 'a'"), archive_to=str(tmp_path)
    )
    with monkeypatch.context() as patched:

        def fail() -> None:
            raise ArchiveFailure("the test stops it")

        once_at(patched, "archive.written", fail)
        with pytest.raises(ArchiveFailure, match="the test stops it"):
            migrate_here(spark_engine, asked)
    with open_session(db) as noting:
        # As a run that was ended between its two drops.
        note_of_old(noting, (db.name, "t"), kept=f"2 {'0' * HASH_DIGITS}")
    db.execute("DROP TABLE _t_old")
    report, _ = migrate_here(spark_engine, asked)
    assert [one["rows"] for one in report.archived] == [1]
    assert tables(db) == ["t", "u"]


@pytest.mark.slow
def test_rows_are_shown_while_spark_writes_them(db, spark_engine, tmp_path, monkeypatch):
    """As many as the server has sent, and never more than there are."""
    make_days(db, 400)
    seen: list[tuple[int, str]] = []
    real_show, real_rows = Figures.archiving, SparkTables.rows

    def show(self: Figures, table: Any, rows: int, total: int | None, doing: str) -> None:
        seen.append((rows, doing))
        real_show(self, table, rows, total, doing)

    def hold(self: SparkTables, *given: Any) -> Any:
        until(lambda: (60, "") in seen, "rows that are shown before they are written")
        return real_rows(self, *given)

    monkeypatch.setattr("spirit_py.archiving.rows.rows_sent", lambda _session, _numbers: {7: 60})
    monkeypatch.setattr("spirit_py.archiving.session._PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr(SparkTables, "rows", hold)
    monkeypatch.setattr(Figures, "archiving", show)
    archive_here(archiving(db, tmp_path), spark_engine)
    rows = [one for one, doing in seen if not doing]
    assert rows == sorted(rows)
    assert max(rows) <= 500
    doing = [text for _, text in seen if text]
    assert "counting and hashing the table's rows: 0 of 1 piece" in doing


@pytest.mark.slow
def test_parts_of_a_job_are_shown(spark_engine, tmp_path):
    """How many of its tasks have ended, while others work."""
    context, ended = spark_engine.context(), tmp_path / "ended"
    tables = SparkTables(context, "archive of s.t", StopSwitch())

    def work(rank: int) -> int:
        import time
        from pathlib import Path

        while rank and not Path(ended).exists():
            time.sleep(0.05)
        return rank

    def job() -> None:
        with tables.job("work"):
            context.parallelize(range(2), 2).map(work).collect()

    running = BackgroundCall(job)
    try:
        until(lambda: tables.parts() == (1, 2), "one of two parts")
    finally:
        ended.touch()
        running.result()
        tables.close()


@pytest.mark.slow
def test_a_server_shows_how_many_rows_it_has_sent(db):
    """While the statement goes on; nothing of a session that executes nothing."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)")
    db.execute("INSERT INTO t (v) VALUES (REPEAT('x', 20000))")
    for _ in range(11):
        db.execute("INSERT INTO t (v) SELECT v FROM t")
    with open_session(db) as reader, open_session(db) as asking:
        stream: Any = reader.stream("SELECT * FROM t", 10)
        next(stream)
        found = until(lambda: rows_sent(asking, [reader.id]).get(reader.id), "rows that are sent")
        assert 10 <= found < 2048
        stream.close()
        # The client has the last row before the server ends the statement.
        until(lambda: not rows_sent(asking, [reader.id]), "the end of the statement")
    assert rows_sent(asking, []) == {}

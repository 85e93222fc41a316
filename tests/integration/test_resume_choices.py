"""What a run does with what an interrupted one left: resume, begin afresh, give up, refuse."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import threading

import pytest

from mysql_words import reset_binlogs
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.checkpoint import examination as looking
from spirit_py.checkpoint.codec import FORMAT
from spirit_py.checkpoint.drop import drop_auxiliary
from spirit_py.checkpoint.record import CheckpointRecord, UncopiedRange
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.config import SessionModes
from spirit_py.errors import (
    Interrupted,
    MigrationFailure,
    Refusal,
    SchemaChanged,
    ServerFault,
    UnfinishedWork,
)
from spirit_py.events.swap import CutoverDeferred
from spirit_py.migration import auxiliary, cleanup
from spirit_py.migration.checkpoints import Checkpoints
from spirit_py.migration.control.command import control
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.new_table import create_sentinel
from spirit_py.phases import Phase
from spirit_py.plan import make as planning
from spirit_py.plan import make_plan
from spirit_py.plan.sample import time_of
from spirit_py.preflight import registry
from spirit_py.preflight.checks.source_table import source_table
from spirit_py.preflight.preflight import prepare
from spirit_py.statement import alter_of
from spirit_py.table.names import AuxiliaryNames, lock_name
from spirit_py.units import human_count, to_the_second
from tests.kits.binlogs import purge_binlogs
from tests.kits.cleanup import clean
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import config_for
from tests.kits.resume import ALTER, Interruption, assert_nothing_left, make_table, once_at, start
from tests.kits.tables import open_session, tables

ROWS = 6000
KEPT = ["_t_chkpnt", "_t_new", "t"]
DAY = 86400.0


@pytest.fixture
def interrupt(monkeypatch):
    """End migrations at their points."""
    return Interruption(monkeypatch)


@pytest.fixture
def stopped(db, engine, interrupt):
    """A migration that was interrupted in its copy, after some chunks."""
    make_table(db, ROWS)
    run = interrupt.at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    assert "the same command resumes from here" in run.told.text
    assert tables(db) == KEPT
    await_lock_freed(db)
    return db


def the_record(db, table="t"):
    """Read the checkpoint of the kit's table, or of another one."""
    with connect(config_for(db).connection, role="test") as session:
        record = CheckpointTable(db.name, table).read_record(session)
    assert isinstance(record, CheckpointRecord)
    return record


def rewrite(db, **changes):
    """Replace values of the stored record."""
    found = json.loads(str(db.query("SELECT record FROM _t_chkpnt")[0][0]))
    db.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (json.dumps({**found, **changes}),))


def shown(db, table="t"):
    """Return what ``spirit-py status`` shows of the one migration that is there."""
    connection = config_for(db).connection
    (one,) = migrations(connection, database=db.name, table=table, max_age=7 * DAY)
    return one


def assert_migrated(db, rows=ROWS):
    """Every row is there, with the new column; nothing else is."""
    counted = db.query("SELECT COUNT(*), SUM(z = 5) FROM t")[0]
    assert tuple(int(n) for n in counted) == (rows, rows)
    assert_nothing_left(db)


@pytest.mark.slow
def test_the_same_change_is_carried_on_with_other_threads_chunks_and_spelling(stopped, engine):
    """Options of speed do not matter, nor do blanks, case and backquotes of the ALTER."""
    record = the_record(stopped)
    assert record.phase == "copy"
    assert record.position
    spelled = "modify `a` bigint ,  add  z int not null  default 5 , add index(`b`)"
    run = start(engine, stopped, alter=spelled, threads=1, target_chunk_time=0.5)
    report = run.end()
    assert "resumed: stopped in the copy phase" in report.resumed
    assert report.runs == 2
    assert report.rows_copied_before == record.rows_copied
    assert report.rows_copied == ROWS
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_defect_at_the_last_record_keeps_the_copy(db, engine, interrupt, monkeypatch):
    """R17: a record with a position is there, from which the next run resumes."""

    def fail(*_):
        raise RuntimeError("a defect")

    make_table(db, ROWS)
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "_settle", fail)
        run = interrupt.at(engine, db, "checkpoint.written")
    assert "the same command resumes from here" in run.told.text
    assert tables(db) == KEPT
    assert start(engine, db).end().runs == 2
    assert_migrated(db)


@pytest.mark.slow
def test_cleanup_drops_nothing_after_a_swap_that_ends_behind_its_list(stopped, monkeypatch):
    """A killed run's RENAME may wait in the server until its session is ended."""

    def renamed(*_, **__):
        stopped.execute("RENAME TABLE t TO _t_old, _t_new TO t")
        return 1

    with monkeypatch.context() as patched:
        patched.setattr(cleanup, "end_earlier_sessions", renamed)
        with pytest.raises(Refusal, match="has just changed"):
            clean(stopped)
    assert tables(stopped) == ["_t_chkpnt", "_t_old", "t"]
    clean(stopped, old=True)
    assert tables(stopped) == ["t"]


@pytest.mark.slow
def test_cleanup_names_the_work_that_goes_with_it_before_it_asks(stopped):
    """What it calls abandoned may have days of work, and be resumed."""
    copied = human_count(the_record(stopped).rows_copied)
    said = clean(stopped)
    assert f"would be lost: {copied} rows copied in " in said
    assert said.index("would be lost: ") < said.index("Drop ")


def test_cleanup_drops_a_sentinel_that_stayed_without_a_checkpoint(db):
    """A run that begins afresh keeps it, and may end before it has a checkpoint of its own."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with connect(config_for(db).connection, role="test") as session:
        create_sentinel(session, db.name, "_t_snt")
    with pytest.raises(Refusal, match="nothing was dropped"):
        clean(db, yes=False)
    assert tables(db) == ["_t_snt", "t"]
    assert f"dropped {db.name}._t_snt" in clean(db)
    assert tables(db) == ["t"]
    db.execute("CREATE TABLE _t_snt (id INT)")
    assert "has left anything" in clean(db)
    assert tables(db) == ["_t_snt", "t"]


def test_cleanup_does_not_take_another_tables_names_for_this_ones(db):
    """Where the server tells Orders and orders apart, their tables are two tables'."""
    if db.query("SELECT @@GLOBAL.lower_case_table_names") != [(0,)]:
        db.execute("CREATE TABLE `T` (id INT PRIMARY KEY)")
        assert "has left anything" in clean(db, "T")
        return
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE `T` (id INT PRIMARY KEY)")
    db.execute("CREATE TABLE _t_new LIKE t; CREATE TABLE _t_old LIKE t")
    assert "has left anything" in clean(db, "T")
    with pytest.raises(Refusal, match="made _t_new, _t_old"):
        clean(db, "t")


@pytest.mark.slow
def test_a_run_that_ended_on_another_server_before_its_first_record_costs_no_copy(stopped, engine):
    """It noted its own numbers of the tables, and was refused; then the first server came back."""
    found = json.loads(str(stopped.query("SELECT record FROM _t_chkpnt WHERE id = 5")[0][0]))
    for proof in ("source", "new"):
        found[proof]["server"] = "00000000-0000-0000-0000-000000000001"
        found[proof]["numbers"] = [number + 1000 for number in found[proof]["numbers"]]
    there = "UPDATE _t_chkpnt SET record = %s WHERE id = 5"
    stopped.execute(there, (json.dumps(found),))
    assert start(engine, stopped).end().runs == 2
    assert_migrated(stopped)


@pytest.mark.slow
def test_another_alter_throws_no_copied_rows_away_unasked(stopped, engine):
    """It is refused, and names what would be lost and every way on; the first one resumes."""
    record = the_record(stopped)
    with pytest.raises(UnfinishedWork, match="another statement: ALTER TABLE") as refused:
        start(engine, stopped, alter="ADD COLUMN z INT NOT NULL DEFAULT 5").end()
    assert refused.value.exit_code == 2
    (lost,) = refused.value.details
    assert f"{human_count(record.rows_copied)} rows copied in" in lost
    assert f"since {to_the_second(record.started_at)}" in lost
    for way in ("the command that it was begun with", "--start-afresh", "spirit-py cleanup"):
        assert way in refused.value.hint
    assert tables(stopped) == KEPT
    assert start(engine, stopped).end().runs == 2
    assert_migrated(stopped)


@pytest.mark.slow
def test_another_alter_begins_afresh_where_that_was_agreed_to(stopped, engine):
    """The tables of an abandoned migration are dropped for another one of the same table."""
    run = start(engine, stopped, alter="ADD COLUMN z INT NOT NULL DEFAULT 5", start_afresh=True)
    report = run.end()
    assert "dropped with the earlier run: " in run.told.text
    assert "starts afresh" in report.resumed
    assert "another statement: ALTER TABLE" in report.resumed
    assert report.runs == 1
    assert_migrated(stopped)


@pytest.mark.slow
def test_an_alter_that_the_server_refuses_costs_no_copy(stopped, engine):
    """Exit code 2: nothing is dropped, nor said to be, and the earlier command resumes."""
    run = start(engine, stopped, alter="ADD INDEX (nope)", start_afresh=True)
    with pytest.raises(Refusal, match="nope") as refused:
        run.end()
    assert "dropped with the earlier run" not in run.told.text
    assert refused.value.exit_code == 2
    assert tables(stopped) == KEPT
    assert start(engine, stopped).end().runs == 2


@pytest.mark.slow
def test_what_is_refused_once_a_copy_is_dropped_says_so(stopped, engine):
    """Exit code 1: something was written, and the earlier command begins at the beginning."""
    stopped.execute("UPDATE t SET b = 'twice' WHERE id < 20")
    with pytest.raises(MigrationFailure, match="had copied was dropped before") as failed:
        start(engine, stopped, alter="ADD UNIQUE KEY (b)", start_afresh=True).end()
    assert failed.value.exit_code == 1
    assert tables(stopped) == ["t"]


def _deferred(told: object) -> bool:
    return isinstance(told, CutoverDeferred)


@pytest.mark.slow
def test_a_run_that_begins_afresh_stays_postponed(stopped, engine):
    """An operator was told that the swap waits; preflight of the new run says so, too."""
    with open_session(stopped) as session:
        create_sentinel(session, stopped.name, "_t_snt")
    run = start(engine, stopped, alter="ADD COLUMN z INT NOT NULL DEFAULT 5", start_afresh=True)
    try:
        run.wait_until(lambda: any(map(_deferred, run.told.events)), "the wait for the sentinel")
    finally:
        stopped.execute("DROP TABLE IF EXISTS _t_snt")
    assert "starts afresh" in run.end().resumed
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_dry_run_never_drops_what_an_earlier_run_left(stopped, engine):
    """Whatever would become of it: the dry run is refused, and the migration is resumed."""

    def refused(why, **config):
        row = stopped.query("SELECT * FROM _t_chkpnt")
        copied = stopped.query("SELECT COUNT(*) FROM _t_new")
        with pytest.raises(Refusal, match=f"_t_new, .*_t_chkpnt.*{why}") as refusal:
            start(engine, stopped, dry_run=True, **config).end()
        assert "spirit-py cleanup" in refusal.value.hint
        assert refusal.value.exit_code == 2
        assert tables(stopped) == KEPT
        assert stopped.query("SELECT * FROM _t_chkpnt") == row
        assert stopped.query("SELECT COUNT(*) FROM _t_new") == copied

    refused("stopped in the copy phase")
    refused("another statement", alter="ADD COLUMN z INT")
    refused("more than", checkpoint_max_age=0)
    whole = stopped.query("SELECT record FROM _t_chkpnt WHERE id = 1")[0][0]
    (progress,) = the_record(stopped).tables
    rewrite(stopped, tables=[{**dataclasses.asdict(progress), "source_shape": "another"}])
    refused("another session changed the definition")
    stopped.execute("UPDATE _t_chkpnt SET record = '{}' WHERE id = 1")
    refused("cannot be read")
    stopped.execute("UPDATE _t_chkpnt SET record = %s WHERE id = 1", (whole,))
    assert start(engine, stopped).end().runs == 2
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_dry_run_begins_over_one_that_was_killed(db, engine, interrupt, monkeypatch):
    """What a dry run left is of no use: the next one drops it, and ends well."""
    make_table(db, 50)
    with monkeypatch.context() as patched:
        patched.setattr(auxiliary, "leave", lambda *_, **__: None)
        interrupt.at(engine, db, "checksum.compare", dry_run=True)
    assert tables(db) == KEPT
    assert shown(db).again == "start afresh"
    asked = {"database": db.name, "table": "t", "verb": "pause", "arguments": {}, "say": print}
    with pytest.raises(Refusal) as refused:
        control(config_for(db).connection, **asked)
    assert refused.value.hint.startswith("the command that it was begun with begins anew; ")
    assert start(engine, db, dry_run=True, alter="MODIFY a BIGINT").end().rehearsal
    assert_nothing_left(db)


@pytest.mark.slow
def test_status_shows_why_nothing_can_be_resumed(stopped, engine):
    """Each is seen before anything is touched; the last one makes a new beginning."""
    assert shown(stopped).again == "resume"
    stopped.execute("RENAME TABLE _t_new TO elsewhere")
    assert "_t_new is gone" in shown(stopped).reason
    stopped.execute("RENAME TABLE elsewhere TO _t_new")
    age = "UPDATE _t_chkpnt SET written_at = NOW(6) - INTERVAL 8 DAY"
    stopped.execute(age)
    assert "is 8d00h old, more than" in shown(stopped).reason
    stopped.execute("UPDATE _t_chkpnt SET record = '{}' WHERE id = 1")
    assert "format None" in shown(stopped).unreadable
    assert "with --start-afresh" in shown(stopped).reason
    report = start(engine, stopped, start_afresh=True).end()
    assert "starts afresh" in report.resumed
    assert "cannot be read: it has format None" in report.resumed
    assert (report.rows_copied, report.runs) == (ROWS, 1)
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_purged_binlog_begins_afresh(stopped, engine):
    """The changes since the checkpoint are gone: everything is copied again."""
    purge_binlogs(stopped)
    seen = shown(stopped)
    assert seen.again == "start afresh"
    assert "cannot go on where it stopped: " in seen.reason
    report = start(engine, stopped).end()
    assert seen.reason in report.resumed
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_reset_binlog_begins_afresh_however_much_was_written_since(stopped):
    """After RESET the numbers begin again: that they are large enough proves nothing (R17)."""
    before = the_record(stopped).position
    reset(stopped)
    stopped.execute("UPDATE _t_chkpnt SET written_at = written_at - INTERVAL 10 SECOND")
    grow_to(stopped, before)
    seen = shown(stopped)
    assert seen.binlog
    assert seen.again == "start afresh"


def reset(db):
    """Reset the binlog, with the statement of the server's version."""
    db.execute(reset_binlogs(db.server.version()))


def grow_to(db, position):
    """Write until the server has executed as many transactions as there were before."""
    numbers = [part.rpartition("-")[2] for part in position.replace(",", ":").split(":")]
    wanted = max((int(number) for number in numbers if number.isdigit()), default=0)
    db.execute("CREATE TABLE filler (id INT)")
    for _ in range(min(wanted, 5000)):
        db.execute("INSERT INTO filler VALUES (1)")
    db.execute("DROP TABLE filler")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("ALTER TABLE t ADD COLUMN other INT", "changed the definition of"),
        ("ALTER TABLE _t_new ADD COLUMN other INT", "the new table of"),
    ],
)
def test_a_definition_that_changed_meanwhile_ends_the_migration(stopped, engine, ddl, reason):
    """R14: it stops and drops its own tables; the source is left alone; the next run begins."""
    stopped.execute(ddl)
    with pytest.raises(SchemaChanged, match=reason) as ended:
        start(engine, stopped).end()
    # The page of a run that cannot be resumed says that everything stays.
    assert ended.value.error_code is ErrorCode.SCHEMA_CHANGED
    assert_nothing_left(stopped)
    assert int(stopped.query("SELECT COUNT(*) FROM t")[0][0]) == ROWS


@pytest.mark.slow
@pytest.mark.gtid
def test_another_server_behind_the_address_is_refused(stopped, engine):
    """R14: its tables may be a replica's: the run is refused, and nothing of them is dropped."""
    first = "00000000-0000-0000-0000-000000000001"
    rewrite(stopped, server_uuid=first, position=f"gtid;{first};{first}:1-5")
    with pytest.raises(Refusal, match=r"such as a replica or a clone.*never executed"):
        start(engine, stopped).end()
    assert tables(stopped) == KEPT


@pytest.mark.slow
def test_what_cannot_be_looked_at_is_kept(stopped, engine, monkeypatch):
    """R17: an error on the way to resuming proves nothing; everything stays for the next try."""

    def fail(*_, **__):
        raise ServerFault(2013, "Lost connection", where="reach session")

    with monkeypatch.context() as patched:
        patched.setattr(looking, "why_unreachable", fail)
        with pytest.raises(ServerFault, match="Lost connection"):
            start(engine, stopped).end()
    assert tables(stopped) == KEPT
    assert start(engine, stopped).end().runs == 2
    assert_migrated(stopped)


@pytest.mark.slow
def test_what_another_version_has_noted_is_kept(stopped, engine):
    """Nothing proves whose the tables are: no command drops one, nor the checkpoint."""
    stopped.execute("UPDATE _t_chkpnt SET record = JSON_SET(record, '$.format', 99) WHERE id <> 3")
    seen = shown(stopped)
    assert seen.again == "refuse"
    for attempt in (
        lambda: start(engine, stopped).end(),
        lambda: start(engine, stopped, start_afresh=True).end(),
        lambda: start(engine, stopped, dry_run=True).end(),
        lambda: clean(stopped, old=True),
    ):
        with pytest.raises(Refusal, match=r"noted of .* it has format 99") as refused:
            attempt()
        assert "the version of spirit-py that wrote it" in refused.value.hint
    with connect(config_for(stopped).connection, role="test") as session:
        assert "it has format 99" in drop_auxiliary(session, stopped.name, "t")
    assert tables(stopped) == KEPT
    stopped.execute(
        f"UPDATE _t_chkpnt SET record = JSON_SET(record, '$.format', {FORMAT}) WHERE id <> 3"
    )
    assert start(engine, stopped).end().runs == 2
    assert_migrated(stopped)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [("1 OR TRUE",), ("1", "2")])
def test_a_checkpoint_with_a_damaged_bound_cannot_be_read(stopped, engine, bound):
    """What goes into SQL text is read back strictly; status and run say the same (R17)."""
    record = the_record(stopped)
    (table,) = record.tables
    bad = (UncopiedRange(upper=("1",)), UncopiedRange(lower=("2",), upper=bound))
    spoiled = dataclasses.asdict(dataclasses.replace(table, uncopied=bad))
    rewrite(stopped, tables=[spoiled])
    seen = shown(stopped)
    assert seen.again == "refuse"
    assert "uncopied" in seen.unreadable
    report = start(engine, stopped, start_afresh=True).end()
    assert f"cannot be read: {seen.unreadable}" in report.resumed
    assert_migrated(stopped)


@pytest.mark.slow
def test_after_a_swap_an_unreadable_checkpoint_does_not_begin_afresh(stopped, engine):
    """The old table may be the only copy of the rows from before: status and run say so."""
    stopped.execute("RENAME TABLE t TO _t_old, _t_new TO t")
    for ruin in (
        "UPDATE _t_chkpnt SET record = JSON_SET(record, '$.format', 99) WHERE id = 1",
        "DELETE FROM _t_chkpnt",
    ):
        stopped.execute(ruin)
        seen = shown(stopped)
        assert seen.again == "refuse"
        assert "_t_old exists: the swap may have been done" in "\n".join(seen.lines())
        with pytest.raises(Refusal, match="only copy") as caught:
            start(engine, stopped).end()
        assert caught.value.message == seen.reason
    assert tables(stopped) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_a_new_table_is_refused_as_a_source(stopped, engine):
    """What a migration made for itself is not migrated, whether it runs or was stopped."""
    for table in ("_t_new", "_t_chkpnt"):
        with pytest.raises(Refusal, match="an auxiliary table of a migration"):
            start(engine, stopped, table=table, alter="MODIFY a INT").end()
    assert tables(stopped) == KEPT
    # Where the server keeps names in lower case, any other spelling names it too.
    config = config_for(stopped, table="_t_new", alter="MODIFY a INT")
    with connect(config.connection, role="test") as session:
        (context,) = prepare(session, config)
        typed = alter_of(stopped.name, "_T_NEW", "MODIFY a INT")
        (finding,) = source_table(dataclasses.replace(context, statement=typed))
    assert "an auxiliary table of a migration" in finding.cause


@pytest.mark.slow
def test_a_dry_run_does_not_touch_what_can_be_resumed(stopped, engine):
    """It would drop its tables at the end, which are those of the real migration."""
    with pytest.raises(Refusal, match="can be resumed"):
        start(engine, stopped, dry_run=True).end()
    assert tables(stopped) == KEPT


@pytest.mark.slow
def test_a_row_deleted_between_two_runs_stays_deleted(db, engine, monkeypatch):
    """R17: rows that an earlier run copied after its last record, deleted while it was away."""
    make_table(db, ROWS)
    blocker = db.connect()
    try:
        cursor = blocker.cursor()
        run = start_held(db, engine, monkeypatch, cursor)
        copied = "SELECT COUNT(*) FROM _t_new WHERE id > 2000"
        run.wait_until(lambda: int(db.query(copied)[0][0]) > 0, "later chunks copied")
        run.stop.request(MigrationFailure("stopped by the test"))
        with pytest.raises(MigrationFailure, match="by the test"):
            run.end()
        cursor.execute("ROLLBACK")
    finally:
        blocker.close()
    (table,) = the_record(db).tables
    older = dataclasses.replace(table, uncopied=(UncopiedRange(),), rows_copied=0)
    rewrite(db, tables=[dataclasses.asdict(older)])
    gone = [int(row[0]) for row in db.query("SELECT id FROM _t_new WHERE id > 2000 LIMIT 50")]
    assert gone
    db.execute(f"DELETE FROM t WHERE id IN ({', '.join(map(str, gone))})")
    again = start(engine, db, no_repair=True, threads=1)
    report = again.end()
    assert report.runs == 2
    assert report.differences_found == 0, again.told.text
    assert_migrated(db, ROWS - len(gone))


def start_held(db, engine, monkeypatch, cursor):
    """Start a migration whose first chunk waits for a row lock, while the others are copied."""
    held = threading.Event()

    def hold():
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO _t_new (id, a, b, z) VALUES (2, 0, 'held', 0)")
        held.set()

    once_at(monkeypatch, "create.done", hold)
    run = start(engine, db, target_chunk_time=0.01)
    run.wait_until(held.is_set, "new table")
    return run


@pytest.mark.slow
def test_a_sentinel_that_was_dropped_meanwhile_is_not_made_again(db, engine, interrupt):
    """It was dropped by the operator while no process ran."""
    make_table(db, ROWS)
    run = start(engine, db, defer_cutover=True)
    run.wait_until(lambda: "_t_snt" in tables(db) and the_record(db).sentinel, "sentinel")
    run.wait_until(lambda: the_record(db).phase == "sentinel", "wait")
    run.stop.request(MigrationFailure("stopped by the test"))
    with pytest.raises(MigrationFailure, match="by the test"):
        run.end()
    assert tables(db) == ["_t_chkpnt", "_t_new", "_t_snt", "t"]
    assert shown(db).deferred
    db.execute("DROP TABLE _t_snt")
    report = start(engine, db, defer_cutover=True).end()
    assert report.runs == 2
    assert report.rows_copied_before == ROWS
    assert_migrated(db)


@pytest.mark.slow
def test_several_tables_are_carried_on_together(db, engine, interrupt, monkeypatch):
    """One of them copied, the other not: in whatever order the statements are given.

    A plan counts the rows of each that are copied.
    """
    make_table(db, ROWS)
    db.execute("CREATE TABLE s LIKE t; INSERT INTO s SELECT * FROM t")
    one, other = (f"ALTER TABLE {name} ADD COLUMN z INT NOT NULL DEFAULT 5" for name in ("s", "t"))
    given = {"table": "", "alter": "", "target_chunk_time": 0.05}
    run = interrupt.at(engine, db, "chunk.committed", 4, statement=f"{one}; {other}", **given)
    assert tables(db) == ["_s_chkpnt", "_s_new", "_t_chkpnt", "_t_new", "s", "t"], run.told.text
    assert shown(db, "s").tables == (f"{db.name}.s", f"{db.name}.t") == shown(db, "t").tables
    before = {}

    def note_before(mapping, *given, **named):
        before[mapping.source.name] = named["before"]
        return time_of(mapping, *given, **named)

    monkeypatch.setattr(planning, "time_of", note_before)
    make_plan(config_for(db, statement=f"{one}; {other}"))
    copied = {table.table: table.rows_copied for table in the_record(db, "s").tables}
    assert sum(copied.values()) > 0
    assert before == copied
    report = start(engine, db, statement=f"{other};\n{one}", **given).end()
    assert report.runs == 2
    assert report.differences_found == 0
    assert_nothing_left(db, "s", "t")
    for name in ("s", "t"):
        assert int(db.query(f"SELECT SUM(z = 5) FROM {name}")[0][0]) == ROWS


@pytest.mark.slow
def test_status_shows_everything_and_nothing_secret(stopped):
    """Phase, age, position, binlog, what would happen; the record holds no password (R20)."""
    seen = shown(stopped)
    assert (seen.phase, seen.again, seen.binlog, seen.worked_on_by) == (
        "copy",
        "resume",
        "",
        None,
    )
    assert 0 <= seen.age < DAY
    assert "it would resume: stopped in the copy phase" in "\n".join(seen.lines())
    assert seen.to_dict()["statement"].startswith("ALTER TABLE")
    assert stopped.server.password not in str(stopped.query("SELECT record FROM _t_chkpnt"))
    assert tables(stopped) == KEPT


@pytest.mark.slow
def test_status_and_cleanup_see_a_process_at_work(stopped):
    """The session of the process is shown, and nothing is dropped while it works."""
    lock = lock_name("migration", stopped.name, "t")
    connection = config_for(stopped).connection
    with connect(connection, role="test") as session:
        session.query("SELECT GET_LOCK(%s, 0)", (lock,))
        assert shown(stopped).worked_on_by == session.id
        with pytest.raises(Refusal, match="a process works on"):
            clean(stopped)
    assert tables(stopped) == KEPT


@pytest.mark.slow
def test_cleanup_drops_only_after_a_yes(stopped):
    """A no keeps everything, a yes drops what is ours, and then nothing is left."""
    with pytest.raises(Refusal, match="nothing was dropped"):
        clean(stopped, yes=False)
    assert tables(stopped) == KEPT
    assert "dropped" in clean(stopped)
    assert tables(stopped) == ["t"]
    assert "has left anything" in clean(stopped)


@pytest.mark.slow
def test_cleanup_never_drops_an_old_table_unasked(stopped):
    """After a swap it may be the only copy of what was there before."""
    stopped.execute("CREATE TABLE _t_old LIKE t")
    drop = f"DROP TABLE `{stopped.name}`.`_t_old`;"
    assert f"when it is not needed: {drop}" in clean(stopped)
    assert tables(stopped) == ["_t_old", "t"]
    with pytest.raises(Refusal, match="no checkpoint says") as caught:
        clean(stopped, old=True)
    assert drop in caught.value.hint
    assert tables(stopped) == ["_t_old", "t"]


def test_cleanup_drops_an_old_table_when_told_to(stopped):
    """Asked for separately, and answered separately."""
    stopped.execute("RENAME TABLE t TO _t_old, _t_new TO t")
    clean(stopped, old=True)
    assert tables(stopped) == ["t"]


@pytest.mark.slow
def test_long_names_get_auxiliary_names_of_their_own(db, engine):
    """Names that are equal in their first 63 characters are two tables, each with one migration."""
    first, second = ("x" * 63 + end for end in "ab")
    assert AuxiliaryNames.of(first).checkpoint != AuxiliaryNames.of(second).checkpoint
    for name in (first, second):
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    with connect(config_for(db).connection, role="test") as session:
        session.query("SELECT GET_LOCK(%s, 0)", (lock_name("migration", db.name, first),))
        with pytest.raises(Refusal, match="another migration"):
            start(engine, db, table=first, alter="ADD z INT", no_shortcut=False).end()
        start(engine, db, table=second, alter="ADD z INT", no_shortcut=False).end()
    assert tables(db) == [first, second]


@pytest.mark.slow
def test_sessions_of_a_dead_run_are_ended(stopped, engine):
    """What a killed program left executing on the server must not write any more (R18)."""
    connection = config_for(stopped).connection
    label = f"0123 {lock_name('migration', stopped.name, 't').rpartition(':')[2]}"
    dead = connect(dataclasses.replace(connection, label=label), role="apply")
    stranger = connect(dataclasses.replace(connection, label="0123 other"), role="apply")
    try:
        run = start(engine, stopped)
        run.end()
        assert "ended 1 session of an earlier run" in run.told.text
        assert not dead.alive()
        assert stranger.alive()
    finally:
        dead.close()
        stranger.close()
    assert_migrated(stopped)


@pytest.mark.slow
def test_a_stop_ends_a_check_that_takes_hours(db, engine, monkeypatch):
    """The statements of the preparation are ended on the server, not waited for."""
    make_table(db, 10)
    slow = "SELECT SLEEP(100000)"

    def look(context):
        context.session.query(slow)
        return ()

    check = registry.Check("slow", registry.CheckScope.SOURCE, look, ErrorCode.SERVER_SETTINGS)
    monkeypatch.setattr(registry, "CHECKS", (check,))
    run = start(engine, db)
    running = "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO = %s"
    run.wait_until(lambda: db.query(running, (slow,)), "slow check")
    run.stop.request(Interrupted(signal.SIGINT))
    with pytest.raises(Interrupted):
        run.end()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_command_that_leaves_out_what_becomes_of_the_old_table_is_refused(
    db, engine, interrupt, tmp_path
):
    """Resumed in the copy, it would drop the rows that are left out, or the way back."""
    make_table(db, ROWS)
    purge = {"modes": SessionModes(keep="id > 4000"), "target_chunk_time": 0.05}
    asked = {**purge, "archive_to": str(tmp_path), "drop_old_after": math.inf}
    interrupt.at(engine, db, "chunk.committed", 2, **asked)
    with pytest.raises(Refusal, match="before the old table is dropped") as refused:
        start(engine, db, **purge, drop_old_after=math.inf).end()
    assert f"add --drop-old-after never --archive-to {tmp_path}" in refused.value.hint
    assert refused.value.error_code is ErrorCode.ARCHIVE_REFUSED
    given = {"table": "t", "alter": ALTER, "no_shortcut": True, **purge}
    planned = make_plan(config_for(db, **given), sample=False)
    assert [one.code for one in planned.refusals] == [ErrorCode.ARCHIVE_REFUSED]
    with pytest.raises(Refusal, match="does not say for how long"):
        start(engine, db, **purge, archive_to=str(tmp_path)).end()
    assert tables(db) == KEPT
    assert the_record(db).choices.archive_to == str(tmp_path)


@pytest.mark.slow
def test_a_time_of_none_that_is_named_counts_instead(db, engine, interrupt):
    """The operator may have the old table dropped at once after all."""
    make_table(db, ROWS)
    interrupt.at(engine, db, "chunk.committed", 2, target_chunk_time=0.05, drop_old_after=math.inf)
    given = {"drop_old_after": 0.0, "named": frozenset({"drop_old_after"})}
    assert start(engine, db, **given).end().runs == 2
    assert_migrated(db)


@pytest.mark.slow
def test_an_archive_that_is_asked_for_after_the_swap_is_asked_for_again(db, engine, tmp_path):
    """It is noted then, so that a third command without it does not drop the rows."""
    make_table(db, ROWS)
    purge = {"modes": SessionModes(keep="id > 4000"), "drop_old_after": DAY}
    run = start(engine, db, **purge)
    shown = run.told.snapshots
    run.wait_until(lambda: any(one.phase is Phase.GRACE for one in shown), "grace")
    run.stop.request(MigrationFailure("stopped by the test"))
    with pytest.raises(MigrationFailure, match="by the test"):
        run.end()
    written = db.query("SELECT written_at FROM _t_chkpnt WHERE id = 1")
    (tmp_path / f"{db.name}.t").mkdir()
    (tmp_path / f"{db.name}.t" / "mine").write_text("not ours")
    with pytest.raises(ArchiveFailure):
        start(engine, db, **purge, archive_to=str(tmp_path)).end()
    assert the_record(db).choices.archive_to == str(tmp_path)
    # By that time a binary log that began anew is seen.
    assert db.query("SELECT written_at FROM _t_chkpnt WHERE id = 1") == written
    with pytest.raises(Refusal, match="before the old table is dropped"):
        start(engine, db, **purge).end()
    assert "_t_old" in tables(db)

"""R26: tables with our marks in somebody's sandbox end nothing, and are believed nothing."""

from __future__ import annotations

import json

import pytest

from spirit_py.batch import store
from spirit_py.batch.listing import batches
from spirit_py.batch.planning import plan_batch
from spirit_py.batch.store import BatchRecord, BatchTable, TableRecord, TableState
from spirit_py.checkpoint.codec import FORMAT
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.listing import migrations
from tests.kits.batch import batch_config, batch_here, shards
from tests.kits.connection import account, connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import config_for, migrate_here
from tests.kits.tables import open_session

_CHECKPOINT = "COMMENT = 'spirit-py checkpoint'"
_BATCH = "COMMENT = 'spirit-py batch'"
_COLUMNS = "id INT PRIMARY KEY AUTO_INCREMENT, record LONGTEXT, written_at TIMESTAMP(6) NULL"


@pytest.fixture
def sandbox(db):
    """Have a schema of somebody else, full of tables with our marks."""
    name = f"box_{db.name}"
    db.execute(f"CREATE DATABASE {name}")
    forged = json.dumps({"format": FORMAT, "tables": [[None, -1]], "record": 1})
    for statement in (
        f"CREATE TABLE {name}._a_chkpnt (a INT) {_CHECKPOINT}",
        f"CREATE TABLE {name}._b_chkpnt ({_COLUMNS}) {_CHECKPOINT}",
        f"INSERT INTO {name}._b_chkpnt (id, record) VALUES (1, '{forged}')",
        f"CREATE TABLE {name}._c_chkpnt (id INT, record GEOMETRY) {_CHECKPOINT}",
        f"INSERT INTO {name}._c_chkpnt VALUES (1, POINT(1, 1))",
        f"CREATE TABLE {name}.x (a INT) {_CHECKPOINT}",
        f"CREATE TABLE {name}._spirit_py_batch_x (a INT) {_BATCH}",
        f"CREATE TABLE {name}._spirit_py_batch_y ({_COLUMNS}) {_BATCH}",
        f"INSERT INTO {name}._spirit_py_batch_y (id, record) VALUES (1, '{forged}')",
    ):
        db.execute(statement)
    yield name
    db.execute(f"DROP DATABASE {name}")


def test_status_shows_what_it_cannot_read_and_goes_on(db, sandbox):
    """Each with its name, beside a migration that was stopped; with grants or without."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    config = config_for(
        db, table="t", alter="MODIFY v BIGINT", no_shortcut=True, defer_cutover=True,
        defer_timeout=0.0,
    )  # fmt: skip
    threads = ThreadEngine()
    with pytest.raises(MigrationFailure):
        migrate_here(threads, config)
    await_lock_freed(db)
    with account(db, "SELECT ON {db}.*", "PROCESS ON *.*", f"INSERT ON {sandbox}.*") as lesser:
        for options in (connection_options(db), lesser):
            shown = migrations(options, database="", table="", max_age=1e6)
            found = {one.checkpoint: one for one in shown}
            assert found[f"{db.name}._t_chkpnt"].state == "stopped"
            assert not found[f"{db.name}._t_chkpnt"].unreadable
            for name in ("_a_chkpnt", "_b_chkpnt", "_c_chkpnt"):
                seen = found[f"{sandbox}.{name}"]
                assert seen.unreadable
                assert f"{sandbox}.{name}" in "\n".join(seen.lines())
            listed = {one.batch for one in batches(options, database="", table="")}
            assert listed == {f"{sandbox}._spirit_py_batch_{one}" for one in "xy"}


@pytest.mark.slow
def test_a_batch_believes_nothing_of_a_schema_in_which_it_changes_nothing(db, sandbox):
    """Neither that its tables belong to another batch, nor that they are done already."""
    with shards(db, 2, rows=10) as made:
        config = batch_config(db, made.pattern, alter="ADD COLUMN z INT")
        of_this_one = plan_batch(config).name
        with open_session(db) as session:
            for name in ("_spirit_py_batch_other", of_this_one):
                _forge(session, sandbox, name, made.schemas)
        # An edited file may leave such a record, too: on the command line the operator is asked.
        script = f"ALTER TABLE {made.names[0]} ADD COLUMN z INT;"
        for plan in plan_batch(config), plan_batch(batch_config(db, statements=script, file="f")):
            claim = f"as {sandbox}._spirit_py_batch_other says, another, unfinished batch"
            assert any(one.startswith(claim) for one in plan.claims)
            assert plan.asks
        report, _ = batch_here(ThreadEngine(), config)
        assert report.exit_code == 0
        assert [one["outcome"] for one in report.tables] == ["done", "done"]
        assert all(
            db.query(f"SHOW COLUMNS FROM {schema}.orders LIKE 'z'") for schema in made.schemas
        )
        # In a schema of the batch such a record is somebody's who may change its tables.
        with open_session(db) as session:
            _forge(session, made.schemas[0], "_spirit_py_batch_other", made.schemas)
        with pytest.raises(Refusal, match="another, unfinished batch has"):
            batch_here(ThreadEngine(), batch_config(db, made.pattern, alter="ADD COLUMN y INT"))


def _forge(session, schema, name, schemas):
    """Write a record that says that the tables are done."""
    table = BatchTable(schema, name)
    uuid = session.value("SELECT @@GLOBAL.server_uuid")
    table.create(
        session,
        BatchRecord(
            home=schema, server_uuid=uuid, asked="?", started_at="", runs=1, parallel=1,
            on_failure="stop", program="1",
        ),
    )  # fmt: skip
    for one in schemas:
        done = TableRecord(schema=one, table="orders", statement="?", state=TableState.DONE)
        table.note(session, done)


@pytest.mark.slow
def test_locked_tables_in_a_sandbox_hold_nobody_up(db):
    """A wait for each of them would add up to hours: one of a schema is waited for, shortly."""
    box = f"box_{db.name}"
    db.execute(f"CREATE DATABASE {box}")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    names = [f"{box}._spirit_py_batch_{number}" for number in range(4)]
    names += [f"{box}._t{number}_chkpnt" for number in range(4)]
    for name in names:
        mark = _BATCH if "batch" in name else _CHECKPOINT
        db.execute(f"CREATE TABLE {name} ({_COLUMNS}) {mark}")
    locking = open_session(db)
    options = connection_options(db)
    try:
        locking.execute("LOCK TABLES " + ", ".join(f"{name} WRITE" for name in names))
        waited = lock_waits(db)
        assert len(batches(options, database="", table="")) == 4
        assert len(migrations(options, database="", table="", max_age=1e6)) == 4
        plan_batch(batch_config(db, f"{db.name}.%", alter="ADD COLUMN y INT"))
        # The plan waits twice: for all of them in one query, and then for one of the schema.
        assert lock_waits(db) - waited <= 4
    finally:
        locking.close()
        db.execute(f"DROP DATABASE {box}")


def lock_waits(db):
    """Return how many statements have ended because a lock of a table was not given in time."""
    ((number,),) = db.query(
        "SELECT COALESCE(SUM(SUM_ERROR_RAISED), 0) FROM"
        " performance_schema.events_errors_summary_global_by_error WHERE ERROR_NUMBER = 1205"
    )
    return int(number)


def test_a_batch_of_more_bytes_than_there_is_room_for_is_not_read(db, monkeypatch):
    """Whoever may create tables somewhere would end status, and each batch, for want of memory."""
    monkeypatch.setattr(store, "_LONGEST", 1000)
    db.execute(f"CREATE TABLE _spirit_py_batch_z ({_COLUMNS}) {_BATCH}")
    db.execute("INSERT INTO _spirit_py_batch_z (record) VALUES (REPEAT('x', 600)), ('y')")
    db.execute("INSERT INTO _spirit_py_batch_z (record) VALUES (REPEAT('x', 600))")
    (shown,) = batches(connection_options(db), database=db.name, table="")
    assert "it has 1201 bytes" in shown.unreadable
    db.execute("DROP TABLE _spirit_py_batch_z")


def test_a_look_at_the_requests_reads_some_rows_only(db):
    """An operator may write any number: the run is not to end for want of memory."""
    queue = RequestQueue(db.name, "t")
    with open_session(db) as session:
        queue.create(session)
        for _ in range(3):
            db.execute(
                f"INSERT INTO _t_ctl (record) VALUES {', '.join(['(REPEAT(9, 5000))'] * 100)}"
            )
        assert len(queue.waiting(session)) == 200
        queue.drop(session)

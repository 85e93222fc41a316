"""Tables of others that only have the names of ours are never touched (R24)."""

from __future__ import annotations

import dataclasses

import pytest

from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.errors import CutoverFailure, Refusal, SchemaChanged
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_sessions, kill_own
from tests.kits.migrate import config_for
from tests.kits.point_listener import PointListener
from tests.kits.resume import (
    ALTER,
    Interruption,
    assert_nothing_left,
    kill_at,
    make_table,
    once_at,
    start,
)
from tests.kits.tables import tables

ROWS = 3000


@pytest.fixture
def stopped(db, engine, monkeypatch):
    """A migration that was interrupted in its copy, whose new table was dropped by hand."""
    make_table(db, ROWS)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    db.execute("DROP TABLE _t_new")
    return db


def count(db, table):
    """Count a table's rows."""
    return int(db.query(f"SELECT COUNT(*) FROM {table}")[0][0])


BACKUPS = {
    "like": "CREATE TABLE _t_old LIKE t; INSERT INTO _t_old SELECT * FROM t",
    "select": "CREATE TABLE _t_old SELECT * FROM t",
    "native": "CREATE TABLE _t_old LIKE t; INSERT INTO _t_old SELECT * FROM t;"
    f" ALTER TABLE t {ALTER}",
    "renamed": "RENAME TABLE t TO _t_old; CREATE TABLE t LIKE _t_old;"
    f" INSERT INTO t SELECT * FROM _t_old; ALTER TABLE t {ALTER}",
}


@pytest.mark.slow
@pytest.mark.parametrize("backup", list(BACKUPS))
def test_a_backup_is_not_taken_for_the_old_table(stopped, engine, backup):
    """Whoever made it and however the table looks: it stays, and the run is not done."""
    stopped.execute(BACKUPS[backup])

    (shown,) = migrations(config_for(stopped).connection, database="", table="", max_age=1e9)
    with pytest.raises(Refusal, match="neither those before the swap nor those after") as caught:
        start(engine, stopped).end()

    assert shown.again == "refuse"
    assert caught.value.message == shown.reason
    assert "_t_new is not there" in shown.reason
    assert tables(stopped) == ["_t_chkpnt", "_t_old", "t"]
    assert count(stopped, "_t_old") == count(stopped, "t") == ROWS


@pytest.mark.slow
def test_a_native_alter_is_not_taken_for_the_swap(stopped, engine):
    """The table has the new definition, and is refused: it is not the new table."""
    stopped.execute(f"ALTER TABLE t {ALTER}")
    with pytest.raises(Refusal, match="another session has changed it"):
        start(engine, stopped).end()
    assert tables(stopped) == ["_t_chkpnt", "t"]


@pytest.mark.slow
def test_cleanup_leaves_what_is_not_proven(stopped):
    """Every question is answered with yes, and a backup and another new table stay."""
    stopped.execute(BACKUPS["like"] + "; CREATE TABLE _t_new LIKE t")
    said: list[str] = []
    clean_up(
        config_for(stopped).connection,
        database=stopped.name,
        table="t",
        ask=lambda _: True,
        ask_old=lambda _: True,
        say=said.append,
    )
    assert tables(stopped) == ["_t_new", "_t_old", "t"]
    assert "nothing proves that this program made it" in "\n".join(said)
    assert f"DROP TABLE `{stopped.name}`.`_t_old`;" in "\n".join(said)


def test_a_new_table_in_the_place_of_ours_stays(stopped, engine):
    """It has the same definition and was made by hand: no row is copied into it."""
    with connect(config_for(stopped).connection, role="test") as session:
        assert read_proofs(session, stopped.name, "t").new
    stopped.execute(f"CREATE TABLE _t_new LIKE t; ALTER TABLE _t_new {ALTER}")
    for alter in (ALTER, "ADD COLUMN other INT, ADD INDEX (a)"):
        with pytest.raises(Refusal, match="_t_new"):
            start(engine, stopped, alter=alter, start_afresh=True).end()
    assert tables(stopped) == ["_t_chkpnt", "_t_new", "t"]
    assert count(stopped, "_t_new") == 0


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_new_table_that_comes_between_check_and_creation_stays(db, engine, monkeypatch, dry_run):
    """The run is refused, drops what it made itself, and leaves the other table as it is."""
    make_table(db, ROWS)
    once_at(
        monkeypatch,
        "checkpoint.created",
        lambda: db.execute("CREATE TABLE _t_new (mine INT); INSERT INTO _t_new VALUES (7)"),
    )
    with pytest.raises(Refusal, match="_t_new already exists"):
        start(engine, db, dry_run=dry_run).end()
    assert_nothing_left(db, "_t_new", "t")
    assert db.query("SELECT mine FROM _t_new") == [(7,)]


def test_a_checkpoint_table_that_comes_between_check_and_creation_stays(db, engine, monkeypatch):
    """CREATE TABLE fails, and nothing that the run did not make is dropped."""
    make_table(db, ROWS)
    once_at(monkeypatch, "preflight.done", lambda: db.execute("CREATE TABLE _t_chkpnt (mine INT)"))
    with pytest.raises(Exception, match="_t_chkpnt"):
        start(engine, db).end()
    assert_nothing_left(db, "_t_chkpnt", "t")


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_a_new_table_that_is_exchanged_before_the_swap_stops_the_run(db, engine, monkeypatch):
    """What is swapped in is the very table that was filled and compared."""
    make_table(db, ROWS)
    once_at(
        monkeypatch,
        "drain.begun",
        lambda: db.execute("RENAME TABLE _t_new TO elsewhere; CREATE TABLE _t_new LIKE elsewhere"),
    )
    with pytest.raises(SchemaChanged):
        start(engine, db).end()
    assert count(db, "t") == ROWS
    assert {"_t_new", "elsewhere"} <= set(tables(db))


@pytest.mark.slow
@pytest.mark.usefixtures("never_logged")
def test_a_new_table_that_is_exchanged_while_the_lock_is_waited_for_stays(db, engine, monkeypatch):
    """Under the lock it is proven again which table is swapped in: the wait may be a long one."""
    make_table(db, ROWS)
    once_at(
        monkeypatch,
        "cutover.lock",
        lambda: db.execute("RENAME TABLE _t_new TO elsewhere; CREATE TABLE _t_new LIKE elsewhere"),
    )
    with pytest.raises(SchemaChanged, match="_t_new"):
        start(engine, db).end()
    assert count(db, "t") == ROWS
    assert tables(db) == ["_t_new", "elsewhere", "t"]


@pytest.mark.slow
def test_a_swap_that_was_undone_by_hand_leaves_what_was_written_meanwhile(db, engine, tmp_path):
    """The new table was the application's for a while: no run drops it, cleanup asks for it."""
    make_table(db, ROWS)
    with PointListener(tmp_path / "points") as listener:
        kill_at(db, listener, "cutover.renamed", 1)
    db.execute("INSERT INTO t (a, b) VALUES (777, 'written after the swap')")
    db.execute("RENAME TABLE t TO _t_new, _t_old TO t")

    run = start(engine, db)
    with pytest.raises(SchemaChanged):
        run.end()
    assert "_t_new holds what the application wrote in between" in run.told.text
    for alter in ("ADD COLUMN other INT", "ADD INDEX (a)"):
        with pytest.raises(Refusal, match="_t_new holds what the application wrote in between"):
            start(engine, db, alter=alter).end()
    assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
    assert db.query("SELECT COUNT(*) FROM _t_new WHERE b LIKE 'written%'") == [(1,)]
    clean_up(
        config_for(db).connection,
        database=db.name,
        table="t",
        ask=lambda _: True,
        ask_old=lambda _: False,
        say=lambda _: None,
    )
    assert tables(db) == ["_t_chkpnt", "_t_new", "t"]


@pytest.mark.slow
def test_a_swap_that_was_not_made_keeps_no_table(db, engine, monkeypatch):
    """Where the swap ends before its RENAME, what is of no use is dropped as usual."""
    make_table(db, ROWS)
    once_at(monkeypatch, "cutover.locked", lambda: db.execute("CREATE TABLE _t_old (mine INT)"))
    with pytest.raises(CutoverFailure):
        start(engine, db).end()
    with connect(config_for(db).connection, role="test") as session:
        assert not read_proofs(session, db.name, "t").swap_begun
    db.execute("DROP TABLE _t_old")
    assert start(engine, db).end().outcome == "done"
    assert_nothing_left(db)


@pytest.mark.slow
def test_an_old_table_that_is_exchanged_after_the_swap_stays(db, engine, monkeypatch):
    """The migration is done, and reports what it did not drop."""
    make_table(db, ROWS)
    once_at(
        monkeypatch,
        "cleanup.old_table",
        lambda: db.execute("RENAME TABLE _t_old TO elsewhere; CREATE TABLE _t_old (mine INT)"),
    )
    report = start(engine, db).end()
    assert report.outcome == "done"
    assert "nothing proves that it is the table that was swapped out" in "\n".join(report.warnings)
    assert tables(db) == ["_t_old", "elsewhere", "t"]


def test_an_empty_table_of_the_same_definition_that_takes_the_name_stays(db, engine, monkeypatch):
    """Another tool's, made a moment before ours: the server refuses ours, which is remembered."""
    make_table(db, ROWS)
    once_at(monkeypatch, "create.tried", lambda: db.execute("CREATE TABLE _t_new LIKE t"))
    with pytest.raises(Refusal, match="_t_new already exists"):
        start(engine, db).end()
    assert_nothing_left(db, "_t_new", "t")


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize(
    "change", ["INSERT INTO _t_new (a) VALUES (7)", "ALTER TABLE _t_new ADD x INT"]
)
def test_a_table_that_was_begun_and_is_used_by_others_stays(db, engine, tmp_path, change):
    """Only an empty one with a definition of ours is dropped where no number was noted."""
    make_table(db, ROWS)
    with PointListener(tmp_path / "points") as listener:
        kill_at(db, listener, "create.named", 1)
    db.execute(change)
    with pytest.raises(Refusal, match="_t_new is not the table that"):
        start(engine, db).end()
    assert "_t_new" in tables(db)


@pytest.mark.slow
@pytest.mark.kills
def test_a_kill_with_checks_of_any_name_leaves_proofs(db, engine, tmp_path):
    """Some change with the table's name, others not: they are listed in another order then."""
    make_table(db, ROWS)
    db.execute(
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (a >= 0), ADD CHECK (a < 1e9),"
        " ADD CONSTRAINT t_chk_sum CHECK (a < 2e9), ADD CONSTRAINT t_g CHECK (a < 3e9)"
    )
    with PointListener(tmp_path / "points") as listener:
        for point in ("create.named", "create.built", "cutover.renamed"):
            kill_at(db, listener, point, 1)
            assert ("_t_old" if point == "cutover.renamed" else "_t_new") in tables(db)
    assert start(engine, db).end().outcome == "done"
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize("point", ["create.tried", "create.named", "create.built", "create.done"])
def test_a_kill_while_the_new_table_is_made_leaves_proofs(db, engine, tmp_path, point):
    """Wherever it ended, the next run knows what is its own, and drops that alone."""
    make_table(db, ROWS)
    with PointListener(tmp_path / "points") as listener:
        kill_at(db, listener, point, 1)
    (made,) = [name for name in tables(db) if name not in {"t", "_t_chkpnt", "_t_ctl"}]
    assert (made == "_t_new") == (point != "create.tried")
    assert start(engine, db).end().outcome == "done"
    assert_nothing_left(db)


def test_a_remembered_session_id_ends_no_session_of_others(db):
    """Ids begin again after a restart: an application's session may have one of ours (R24)."""
    options = config_for(db).connection
    other = dataclasses.replace(options, origin="another program's")
    with (
        connect(options, role="test") as ours,
        connect(options, role="test") as second,
        connect(other, role="test") as stranger,
        db.connect() as application,
    ):
        for number in (application.thread_id(), stranger.id):
            assert kill_own(ours, number) == ""
            assert kill_own(ours, number, statement=True) == ""
        end_sessions(options, [application.thread_id(), stranger.id, second.id])
        application.ping()
        assert stranger.alive()
        assert not second.alive()

"""Triggers and swaps that are cut off, accounts that may not keep them, and the way back."""

from __future__ import annotations

import threading
from functools import partial

import MySQLdb
import pytest

from spirit_py.attached.record import AttachmentsNote
from spirit_py.attached.triggers import statements
from spirit_py.attached.triggers.catalogue import read_places, read_triggers
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.swap.attachments import settle_left
from tests.kits import kills
from tests.kits.attached import Swapping, run_killed_after
from tests.kits.connection import account
from tests.kits.migrate import config_for, migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.resume import ROWS, assert_nothing_left, kill_at, make_table, start
from tests.kits.tables import open_session

AUDIT = "INSERT INTO audit (who, id) VALUES ('{}', NEW.id)"
MADE = (
    "CREATE TABLE audit (who VARCHAR(9), id INT)",
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    f"CREATE TRIGGER one AFTER INSERT ON t FOR EACH ROW BEGIN {AUDIT.format('one')}; END",
    f"CREATE TRIGGER two AFTER INSERT ON t FOR EACH ROW {AUDIT.format('two')}",
)


def triggers_of(db, table="t"):
    """Return the triggers of a table."""
    with open_session(db) as session:
        return read_triggers(session, db.name, table)


def places(db, *names):
    """Return the names of the triggers of some tables."""
    with open_session(db) as session:
        found = read_places(session, [(db.name, name) for name in names])
    return sorted(place.name for place in found)


class Inserting(threading.Thread):
    """Inserts rows, each in a transaction that reads first; again where it is told to."""

    def __init__(self, db, first: int) -> None:
        super().__init__()
        self.first = first
        self.connection = db.connect()
        self.done = threading.Event()
        self.keys: list[int] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write until it is told to end."""
        key = self.first
        try:
            while not self.done.wait(0.002):
                key += 1
                if self._insert(key):
                    self.keys.append(key)
        except BaseException as error:
            self.error = error

    def _insert(self, key: int) -> bool:
        cursor = self.connection.cursor()
        try:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM seen")
            cursor.execute(f"INSERT INTO t (id, v) VALUES ({key}, 1)")
            self.connection.commit()
        except MySQLdb.OperationalError as error:
            self.connection.rollback()
            if error.args[0] not in {1205, 1213}:
                raise
            return False
        return True

    def end(self) -> list[int]:
        """End it; return the keys of the rows that are committed."""
        self.done.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.keys


@pytest.mark.slow
def test_a_packet_that_stopped_anywhere_is_settled_while_others_write(db):
    """Every committed row has fired each trigger once, and they are as they were."""
    for statement in (*MADE, "CREATE TABLE seen (id INT)"):
        db.execute(statement)
    swapping = Swapping(db, ("t",))
    before = triggers_of(db)
    attached = swapping.attachments()
    attached.survey()
    length = len(attached.statements.all)
    # Each trigger: settings and copy; drop, settings, trigger and drop. And what is between.
    assert length >= 12
    writers = [Inserting(db, first) for first in (1000, 1_000_000)]
    for writer in writers:
        writer.start()
    try:
        for number in range(length + 1):
            renamed = run_killed_after(swapping, number)
            with swapping.session() as session:
                settle_left(swapping.process, session, [(db.name, "t")])
                assert CheckpointTable(db.name, "t").read(session, AttachmentsNote) is None
            assert triggers_of(db) == before, f"after {number} statements"
            assert not places(db, "_t_new", "_t_old"), f"after {number} statements"
            if renamed:
                db.execute("DROP TABLE _t_old")
                db.execute("CREATE TABLE _t_new LIKE t")
    finally:
        keys = [key for writer in writers for key in writer.end()]
    assert keys
    fired = sorted(db.query("SELECT who, id FROM audit"))
    assert fired == sorted((who, key) for key in keys for who in ("one", "two"))


def test_a_try_is_given_up_when_a_trigger_was_made_meanwhile(db):
    """What is proven under the lock is what was surveyed."""
    for statement in MADE:
        db.execute(statement)
    swapping = Swapping(db, ("t",))
    attached = swapping.attachments()
    attached.survey()
    with swapping.session() as session:
        attached.prove(session)
        db.execute("DROP TRIGGER two; CREATE TRIGGER two AFTER INSERT ON t FOR EACH ROW SET @x = 1")
        with pytest.raises(Exception, match="triggers were created or dropped meanwhile"):
            attached.prove(session)
        db.execute("CREATE TRIGGER mine BEFORE INSERT ON _t_new FOR EACH ROW SET @x = 1")
        with pytest.raises(MigrationFailure, match=r"trigger mine is on .*_t_new"):
            attached.survey()


@pytest.mark.parametrize("surveyed", [True, False])
def test_a_collation_of_the_schema_that_changed_meanwhile_stops_the_swap(db, surveyed):
    """The triggers would get it, on the changed table and by a revert; CREATED shows nothing."""
    for statement in MADE:
        db.execute(statement)
    attached = Swapping(db, ("t",)).attachments()
    with open_session(db) as session:
        if surveyed:
            attached.survey()
        db.execute(f"ALTER DATABASE `{db.name}` COLLATE latin1_swedish_ci")
        look = partial(attached.prove, session) if surveyed else attached.survey
        with pytest.raises(MigrationFailure, match="a trigger created now gets latin1_swedish_ci"):
            look()


def test_a_trigger_made_meanwhile_that_names_a_lost_column_stops_the_swap(db):
    """With the place; the table is as it was."""
    for statement in MADE:
        db.execute(statement)
    swapping = Swapping(db, ("t",))
    attached = swapping.attachments()
    attached.changed = lambda _: {"id": "drops"}
    with pytest.raises(MigrationFailure) as refused:
        attached.survey()
    assert len(refused.value.details) == 2
    assert "names NEW.id, which the ALTER drops: line 1" in refused.value.details[0]


ON_SCHEMA = (
    "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
    " CREATE TEMPORARY TABLES ON {db}.*"
)
ON_ALL = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, CONNECTION_ADMIN ON *.*"


def migrated_as(db, engine, *grants: str):
    """Migrate with an account of these grants."""
    with account(db, ON_SCHEMA, ON_ALL, "SELECT ON performance_schema.*", *grants) as options:
        return migrate_here(
            engine,
            config_for(
                db, connection=options, table="t", alter="ADD COLUMN n INT", no_shortcut=True
            ),
        )


@pytest.mark.slow
def test_an_account_that_may_not_keep_definers_is_told_the_grant(db, engine):
    """SET_ANY_DEFINER, and the word about the binlog; with both, the triggers are kept."""
    for statement in MADE:
        db.execute(statement)
    db.set_global("log_bin_trust_function_creators", 0)
    with pytest.raises(Refusal) as refused:
        migrated_as(db, engine)
    text = "\n".join(refused.value.details)
    assert "error 1419" in text
    assert "SET PERSIST log_bin_trust_function_creators = 1, or GRANT SUPER" in text
    assert "trigger one (AFTER INSERT) has the definer root@" in text
    assert "GRANT SET_ANY_DEFINER ON *.*" in text
    assert not places(db, "_t_new")
    # Where the server is somebody's service, neither is possible.
    hours = "SELECT 'binlog retention hours', 24"
    db.execute(f"CREATE PROCEDURE mysql.rds_show_configuration () {hours}")
    try:
        with pytest.raises(Refusal) as refused:
            migrated_as(db, engine, "EXECUTE ON PROCEDURE mysql.rds_show_configuration")
    finally:
        db.execute("DROP PROCEDURE mysql.rds_show_configuration")
    text = "\n".join(refused.value.details)
    assert "set log_bin_trust_function_creators to 1 in the DB parameter group" in text
    assert "SUPER" not in text
    db.set_global("log_bin_trust_function_creators", 1)
    before = triggers_of(db)
    migrated_as(db, engine, "SET_ANY_DEFINER, SYSTEM_USER ON *.*")
    assert triggers_of(db) == before


@pytest.mark.slow
def test_what_the_server_refuses_is_known_before_the_copy(db, engine):
    """A definer that does not exist needs another privilege, which only the trial can tell."""
    for statement in MADE:
        db.execute(statement)
    db.execute("CREATE DEFINER = nobody@nowhere TRIGGER x BEFORE DELETE ON t FOR EACH ROW SET @a=1")
    db.set_global("log_bin_trust_function_creators", 1)
    with pytest.raises(Refusal, match=r"trigger x \(BEFORE DELETE\).*cannot be created again"):
        migrated_as(db, engine, "SET_ANY_DEFINER, SYSTEM_USER ON *.*")
    assert_nothing_left(db, "audit", "t")
    assert places(db, "t") == ["one", "two", "x"]


@pytest.mark.slow
@pytest.mark.kills
def test_a_kill_during_the_trial_leaves_nothing_for_long(db, engine, tmp_path):
    """What was to be created is noted first; the next run drops it, and nothing else."""
    make_table(db, ROWS)
    db.execute("CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW SET @x = 1")
    with PointListener(tmp_path / "points") as listener:
        kill_at(db, listener, *kills.OF_A_TRIAL)
    with open_session(db) as session:
        noted = CheckpointTable(db.name, "t").read(session, AttachmentsNote)
    assert noted is not None
    (move,) = noted.triggers
    db.execute(f"CREATE TRIGGER {move.temporary} BEFORE UPDATE ON _t_new FOR EACH ROW SET @x = 1")
    assert start(engine, db).end().outcome == "done"
    assert_nothing_left(db)
    assert places(db, "t") == ["mine"]


def test_instant_changes_leave_triggers_alone(db, engine):
    """They need no privilege for triggers: nothing is created again."""
    for statement in MADE:
        db.execute(statement)
    before = triggers_of(db)
    report, _ = migrate_here(engine, config_for(db, table="t", alter="ADD COLUMN n INT"))
    assert report.algorithm == "instant"
    assert triggers_of(db) == before


@pytest.mark.slow
def test_triggers_of_other_tables_follow_the_name(db, engine):
    """One that writes to the table, before and after; one that reads it."""
    for statement in MADE:
        db.execute(statement)
    db.execute(
        "CREATE TABLE other (id INT PRIMARY KEY, n INT);"
        "CREATE TRIGGER into_t BEFORE INSERT ON other FOR EACH ROW BEGIN"
        " INSERT INTO t (id, v) VALUES (NEW.id, 0); SET NEW.n = (SELECT COUNT(*) FROM t); END"
    )
    application = db.connect()
    cursor = application.cursor()
    cursor.execute("PREPARE p FROM 'INSERT INTO other (id) VALUES (?)'")
    cursor.execute("SET @id = 1")
    cursor.execute("EXECUTE p USING @id")
    migrate_here(engine, config_for(db, table="t", alter="ADD COLUMN n INT, FORCE"))
    cursor.execute("SET @id = 2")
    cursor.execute("EXECUTE p USING @id")
    assert db.query("SELECT id, n FROM other") == [(1, 1), (2, 2)]
    assert sorted(db.query("SELECT who, id FROM audit")) == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
    ]


def removed(db, key: int) -> bool:
    """Delete a parent; return whether it is gone, or is to be tried again."""
    try:
        db.execute(f"DELETE FROM p WHERE id = {key}")
    except MySQLdb.OperationalError as error:
        if error.args[0] != 1213:
            raise
        return False
    return True


@pytest.mark.slow
@pytest.mark.logged_cascades
def test_a_cascade_fires_triggers_once_or_is_refused_where_a_swap_was_cut_off(db, monkeypatch):
    """With ``enable_cascade_triggers``, off by default; as soon after the cut as its time says."""
    monkeypatch.setattr(statements, "_WARY_SECONDS", 600)
    if not db.query("SHOW GLOBAL VARIABLES LIKE 'enable_cascade_triggers'"):
        pytest.skip("cascades of this server fire no trigger")
    key = "FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE"
    db.execute(
        f"CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, p INT, {key})"
    )
    db.execute("CREATE TABLE audit (id INT)")
    db.execute(
        "CREATE TRIGGER gone AFTER DELETE ON t FOR EACH ROW INSERT INTO audit VALUES (OLD.id)"
    )
    db.execute("SET SESSION enable_cascade_triggers = ON")
    swapping = Swapping(db, ("t",))
    attached = swapping.attachments()
    attached.survey()
    packet = attached.statements
    renamed = len(packet.before) + 1
    refused = 0
    for sent in (renamed - 1, renamed, renamed + 2, len(packet.all) - 1, len(packet.all)):
        db.execute(
            f"DELETE FROM audit; INSERT INTO p VALUES ({sent}); INSERT INTO t (id, p)"
            f" VALUES ({sent}, {sent}); INSERT INTO _t_new (id, p) VALUES ({sent}, {sent})"
        )
        assert run_killed_after(swapping, sent) == (sent >= renamed)
        deleted = removed(db, sent)
        refused += not deleted
        assert db.query("SELECT * FROM audit") == [(sent,)] * deleted
        with swapping.session() as session:
            settle_left(swapping.process, session, [(db.name, "t")])
        assert places(db, "t", "_t_new", "_t_old") == ["gone"]
        if sent >= renamed:
            db.execute(
                "DROP TABLE _t_old; CREATE TABLE _t_new LIKE t; INSERT INTO _t_new SELECT * FROM t"
            )
    assert refused == 3

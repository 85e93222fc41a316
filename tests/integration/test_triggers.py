"""Migrations of tables with triggers: each write fires each of them once, whenever it is made."""

from __future__ import annotations

import math
import threading

import MySQLdb
import pytest

from spirit_py.attached.triggers import catalogue
from spirit_py.attached.triggers.catalogue import read_places, read_triggers
from spirit_py.errors import Refusal
from spirit_py.migration.swap.attachments import SwapAttachments
from tests.kits.migrate import config_for, migrate_here
from tests.kits.resume import once_at
from tests.kits.tables import open_session, tables

ROWS = 2000
#: Between two rows of a writer: without it three of them take all cores from the migration.
PAUSE = 0.002
NAMES = ("a1", "a2", "u1", "d1")
ADD = "ADD COLUMN extra INT NOT NULL DEFAULT 5, FORCE"


@pytest.fixture
def audited(db):
    """A table that counts its writes, and a trigger for each name that notes each of them."""
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "CREATE TABLE audit (who VARCHAR(9), id INT, v INT, KEY (id));"
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, by_trigger INT);"
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {ROWS}) SELECT i, 0, NULL FROM n;"
        "CREATE TRIGGER b1 BEFORE INSERT ON t FOR EACH ROW SET NEW.by_trigger = NEW.id * 2;"
    )
    for name, event, row in (
        ("a1", "INSERT", "NEW"),
        ("a2", "INSERT", "NEW"),
        ("u1", "UPDATE", "NEW"),
        ("d1", "DELETE", "OLD"),
    ):
        db.execute(
            f"CREATE TRIGGER {name} AFTER {event} ON t FOR EACH ROW"
            f" BEGIN INSERT INTO audit VALUES ('{name}', {row}.id, {row}.v); END"
        )
    return db


class Writers:
    """Sessions that insert, update and delete, each row and each version of it once."""

    def __init__(self, db, number: int = 3) -> None:
        self.done = threading.Event()
        self.expected: list[tuple[str, int, int]] = []
        self.errors: list[BaseException] = []
        self._db = db
        self._threads = [
            threading.Thread(target=self._write, args=(at, db.connect())) for at in range(number)
        ]

    def __enter__(self):
        """Begin to write."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        """End it, and raise what went wrong."""
        self.done.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _write(self, at: int, connection) -> None:
        try:
            key = 100_000 * (at + 1)
            while not self.done.wait(PAUSE):
                key += 1
                self._transaction(
                    connection,
                    at % 2 == 1,
                    (f"INSERT INTO t (id, v) VALUES ({key}, 1)", [("a1", key, 1), ("a2", key, 1)]),
                    (f"UPDATE t SET v = 2 WHERE id = {key}", [("u1", key, 2)]),
                    *([(f"DELETE FROM t WHERE id = {key}", [("d1", key, 2)])] if key % 3 else []),
                )
        except BaseException as error:
            self.errors.append(error)

    def _transaction(self, connection, whole: bool, *writes) -> None:
        """Do the writes in one transaction, or each in its own; again when one is refused."""
        if whole:
            while not self._try(connection, [sql for sql, _ in writes]):
                pass
            self.expected.extend(one for _, fired in writes for one in fired)
            return
        for sql, fired in writes:
            while not self._try(connection, [sql]):
                pass
            self.expected.extend(fired)

    def _try(self, connection, statements) -> bool:
        cursor = connection.cursor()
        try:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM audit WHERE id = 1")
            for sql in statements:
                cursor.execute(sql)
            cursor.execute("COMMIT")
        except MySQLdb.OperationalError as error:
            connection.rollback()
            if error.args[0] not in {1205, 1213, 1412}:
                raise
            return False
        return True


def audit(db):
    """Return what the triggers have noted."""
    return sorted(db.query("SELECT who, id, v FROM audit"))


def triggers_of(db, table="t"):
    """Return the triggers of a table."""
    with open_session(db) as session:
        return read_triggers(session, db.name, table)


@pytest.mark.slow
def test_each_write_fires_each_trigger_once_during_several_migrations(audited, engine):
    """None is lost and none is made twice by the swap; our own writes fire nothing."""
    db = audited
    before = triggers_of(db)
    with Writers(db) as writers:
        for alter in (ADD, "MODIFY v BIGINT", "DROP COLUMN extra, FORCE"):
            report, told = migrate_here(
                engine, config_for(db, table="t", alter=alter, no_shortcut=True)
            )
            assert report.chunks_repaired == 0, told.text
    assert audit(db) == sorted(writers.expected)
    assert writers.expected
    assert triggers_of(db) == before
    assert db.query("SELECT COUNT(*) FROM t WHERE id > 100000 AND by_trigger <> id * 2") == [(0,)]
    assert db.query("SELECT COUNT(*) FROM t WHERE id <= 100000 AND by_trigger IS NOT NULL") == [
        (0,)
    ]
    assert tables(db) == ["audit", "t"]


@pytest.mark.slow
def test_a_rehearsal_leaves_no_trigger_behind(audited, engine):
    """The triggers are tried on the new table, which is empty then."""
    before = triggers_of(audited)
    migrate_here(engine, config_for(audited, table="t", alter=ADD, dry_run=True))
    assert triggers_of(audited) == before
    assert tables(audited) == ["audit", "t"]
    assert not audit(audited)


@pytest.mark.slow
def test_the_old_table_keeps_no_trigger(audited, engine):
    """What is kept of the old table fires nothing when somebody writes to it."""
    migrate_here(engine, config_for(audited, table="t", alter=ADD, drop_old_after=math.inf))
    with open_session(audited) as session:
        assert not read_places(session, [(audited.name, "_t_old")])
    audited.execute("DELETE FROM _t_old WHERE id = 1")
    assert not audit(audited)


@pytest.mark.parametrize(
    ("alter", "shown"),
    [
        ("DROP COLUMN v", "names NEW.v, which the ALTER drops: line 1, column 51 of its body"),
        ("RENAME COLUMN by_trigger TO w", "trigger b1 (BEFORE INSERT) names NEW.by_trigger"),
        ("CHANGE by_trigger w INT", "which the ALTER renames to w"),
    ],
)
def test_a_column_that_a_body_names_cannot_go(audited, engine, alter, shown):
    """Refused with the place, before anything is written, also where INSTANT would do."""
    with pytest.raises(Refusal) as refused:
        migrate_here(engine, config_for(audited, table="t", alter=alter))
    text = "\n".join((refused.value.message, *refused.value.details))
    assert shown in text
    assert tables(audited) == ["audit", "t"]


@pytest.mark.slow
def test_a_trigger_keeps_the_semicolon_that_the_server_has_kept(db, engine):
    """It keeps one behind a body that is no block, where another statement followed it."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES (1, 1, 1);"
        "CREATE TRIGGER b1 BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 7; ANALYZE TABLE t;"
        "CREATE TRIGGER b2 BEFORE INSERT ON t FOR EACH ROW SET NEW.w = NEW.v -- a;\n ;\n"
        "ANALYZE TABLE t"
    )

    def bodies():
        with open_session(db) as session:
            return [one.body for one in read_triggers(session, db.name, "t")]

    before = bodies()
    assert before == ["SET NEW.v = 7;", "SET NEW.w = NEW.v -- a;\n ;"]
    migrate_here(engine, config_for(db, table="t", alter=ADD))
    assert bodies() == before
    db.execute("INSERT INTO t VALUES (2, 2, 2, 2)")
    assert db.query("SELECT v, w FROM t WHERE id = 2") == [(7, 7)]


def test_triggers_are_refused_on_demand(audited, engine):
    """--triggers refuse names each of them."""
    config = config_for(audited, table="t", alter=ADD, triggers="refuse")
    with pytest.raises(Refusal) as refused:
        migrate_here(engine, config)
    text = "\n".join(refused.value.details)
    assert all(f"trigger {name} (" in text for name in NAMES)


def test_a_collation_of_the_schema_that_is_no_longer_is_refused(audited, engine):
    """A trigger created now would get another one."""
    audited.execute(f"ALTER DATABASE `{audited.name}` COLLATE latin1_swedish_ci")
    with pytest.raises(Refusal, match=r"5 checks refuse|collation"):
        migrate_here(engine, config_for(audited, table="t", alter=ADD, no_shortcut=True))
    assert tables(audited) == ["audit", "t"]


@pytest.mark.slow
def test_triggers_created_and_dropped_meanwhile_are_those_of_the_swapped_table(
    audited, engine, monkeypatch
):
    """DROP TRIGGER names no table; what counts is what there is at the swap."""
    db = audited
    once_at(monkeypatch, "drain.begun", lambda: db.execute("DROP TRIGGER u1"))
    migrate_here(engine, config_for(db, table="t", alter=ADD))
    assert [one.name for one in triggers_of(db)] == ["b1", "a1", "a2", "d1"]


@pytest.mark.slow
def test_a_trigger_that_is_dropped_while_it_is_read_is_not_there(audited, engine, monkeypatch):
    """The catalogue has listed it: a deployment that replaces it ends no run."""
    db, shown = audited, catalogue._shown

    def dropping(session, schema, name):
        if name == "u1":
            db.execute("DROP TRIGGER IF EXISTS u1")
        return shown(session, schema, name)

    monkeypatch.setattr(catalogue, "_shown", dropping)
    with open_session(db) as session:
        found = read_triggers(session, db.name, "t")
    assert [one.name for one in found] == ["b1", "a1", "a2", "d1"]
    db.execute("CREATE TRIGGER u1 AFTER UPDATE ON t FOR EACH ROW SET @x = 1")
    monkeypatch.setattr(catalogue, "_shown", shown)
    survey = SwapAttachments.survey

    def surveying(self):
        monkeypatch.setattr(catalogue, "_shown", dropping)
        survey(self)

    monkeypatch.setattr(SwapAttachments, "survey", surveying)
    report, told = migrate_here(engine, config_for(db, table="t", alter=ADD, no_shortcut=True))
    assert report.outcome == "done", told.text
    assert [one.name for one in triggers_of(db)] == ["b1", "a1", "a2", "d1"]

"""A checkpoint speaks for the table beside which the program wrote it, and for no other (R24, R26).

A schema that was copied on the same server has copies of the checkpoint tables, too.
"""

from __future__ import annotations

import pytest

from spirit_py.checkpoint.examination import brought_from, runs_seen
from spirit_py.checkpoint.record import MoveNote, Pointer
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import Refusal
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from tests.kits.migrate import config_for
from tests.kits.resume import Interruption, assert_nothing_left, make_table, start
from tests.kits.tables import tables


@pytest.fixture
def staging(db):
    """Return the name of another schema on the same server."""
    name = f"{db.name}_staging"
    db.execute(f"CREATE DATABASE {name}")
    yield name
    db.execute(f"DROP DATABASE {name}")


def there(db, schema):
    """Return the names of a schema's tables."""
    return sorted(row[0] for row in db.query(f"SHOW TABLES FROM {schema}"))


def clean(db, schema):
    """Clean up in a schema, old tables too; return what was said."""
    said: list[str] = []
    clean_up(
        config_for(db).connection,
        database=schema,
        table="t",
        ask=lambda _: True,
        ask_old=lambda _: True,
        say=said.append,
    )
    return "\n".join(said)


@pytest.mark.slow
def test_a_copied_schema_has_no_hold_on_the_migration_that_it_was_copied_from(
    db, engine, monkeypatch, staging
):
    """Neither its sessions nor its tables: what is done in the copy ends there."""
    make_table(db, 3000)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    left = tables(db)
    for name in left:
        db.execute(f"CREATE TABLE {staging}.{name} LIKE {name}")
        db.execute(f"INSERT INTO {staging}.{name} SELECT * FROM {name}")
    with connect(config_for(db).connection, role="test") as session:
        assert len(runs_seen(session, [(db.name, "t")])) == 1
        assert runs_seen(session, [(staging, "t")]) == set()
    (shown,) = migrations(config_for(db).connection, database=staging, table="t", max_age=1e9)
    assert f"it is of {db.name}.t" in shown.unreadable
    assert shown.tables == (f"{staging}.t",)

    with pytest.raises(Refusal, match="_t_new"):
        start(engine, db, database=staging).end()
    assert tables(db) == left

    said = clean(db, staging)
    assert f"dropped {staging}._t_chkpnt" in said
    assert f"DROP TABLE `{staging}`.`_t_new`" in said
    assert tables(db) == left
    assert there(db, staging) == ["_t_new", "t"]
    assert start(engine, db).end().runs == 2
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_pointer_to_a_record_that_does_not_name_its_table_ends_no_session(
    db, engine, monkeypatch, staging
):
    """Whoever may create a table in some schema writes one to any table."""
    make_table(db, 3000)
    Interruption(monkeypatch).at(engine, db, "chunk.committed", 2, target_chunk_time=0.05)
    db.execute(f"CREATE TABLE {staging}.t LIKE t")
    with connect(config_for(db).connection, role="test") as session:
        checkpoint = CheckpointTable(staging, "t")
        checkpoint.make(session)
        checkpoint.write(session, Pointer(home=(db.name, "t")))
        assert runs_seen(session, [(staging, "t")]) == set()


def test_a_copied_note_of_a_move_brings_nothing(db, staging):
    """It is of the table beside which the move wrote it; earlier versions did not say which."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    note = MoveNote(target="uuid", sources=("db1:3306",), asked="db1:3306", beside=(db.name, "t"))
    with connect(config_for(db).connection, role="test") as session:
        for schema, expected in ((db.name, ("db1:3306",)), (staging, ())):
            checkpoint = CheckpointTable(schema, "t")
            checkpoint.make(session)
            checkpoint.write(session, note)
            assert brought_from(session, (schema, "t")) == expected

"""Programs that follow the binlog understand a migration: docs/followers.md."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kits.background import Loop
from tests.kits.followers import (
    TABLE,
    DataMigration,
    FlinkCdc,
    Follower,
    Tracking,
    place,
    played,
)
from tests.kits.resume import make_table, start

# The reader gives it to its own driver.
pytestmark = pytest.mark.filterwarnings("ignore:'db' is deprecated")

CHANGES = {
    "column": "ADD COLUMN z INT NOT NULL DEFAULT 5",
    "several": "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5 FIRST, ADD INDEX (b)",
    "renamed": "CHANGE b label VARCHAR(60) DEFAULT 'none', RENAME COLUMN a TO amount",
    "dropped": "DROP COLUMN a, COMMENT 'of `t`, _t_new'",
    "checked": "ADD CONSTRAINT positive CHECK (a >= 0), ADD z INT AS (a + 1)",
    "converted": "CONVERT TO CHARACTER SET utf8mb3",
}
LAST = 900_001
FOLLOWERS: list[Any] = [DataMigration, Tracking, FlinkCdc]


@pytest.fixture
def follow(db):
    """Return what begins to follow the table with each model; their schemas are dropped."""
    begun: list[Follower] = []

    def begin():
        begun.extend(model(db) for model in FOLLOWERS)
        return place(db), begun

    yield begin
    for follower in begun:
        follower.close()


def definition(db):
    """Return the table's definition now, without its counter."""
    return re.sub(r" AUTO_INCREMENT=\d+", "", db.query(f"SHOW CREATE TABLE {TABLE}")[0][1])


def rows(db):
    """Return the rows by their key, with names."""
    names = [
        name
        for (name,) in db.query(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
            " AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (db.name, TABLE),
        )
    ]
    found = [dict(zip(names, row, strict=True)) for row in db.query(f"SELECT * FROM {TABLE}")]
    return {row["id"]: row for row in found}


@pytest.fixture
def writes(db):
    """Write rows that are good in both definitions, until the test ends it."""
    make_table(db)
    db.execute(f"ALTER TABLE {TABLE} ADD INDEX plain (a, b)")
    session = db.connect()

    def step(number):
        cursor = session.cursor()
        cursor.execute(f"INSERT INTO {TABLE} (id) VALUES ({LAST - number})")
        cursor.execute(f"UPDATE {TABLE} SET id = {LAST + number} WHERE id = {2 * number}")
        cursor.execute(f"DELETE FROM {TABLE} WHERE id = {2 * number + 1000}")

    loop = Loop(step, pause=0.004)
    yield loop
    loop.stop()
    assert not loop.errors


@pytest.mark.slow
@pytest.mark.parametrize("deferred", ["off", "on"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_each_follower_arrives_at_the_definition_and_the_rows(
    db, engine, writes, follow, change, deferred
):
    """While writes go on: no row is met that it cannot describe, and what it has last is right."""
    since, followers = follow()
    given = {"alter": CHANGES[change], "defer_indexes": deferred, "allow_data_loss": True}
    assert start(engine, db, **given).end().outcome == "done"
    writes.stop()
    require_followed(db, since, followers)


def require_followed(db, since, followers):
    """Play the binlog to followers; require that they have the definition and its rows."""
    db.execute(f"INSERT INTO {TABLE} (id) VALUES ({LAST})")
    wanted, there = definition(db), rows(db)
    for follower in followers:
        played(db, since, follower)
        name = type(follower).__name__
        assert follower.definitions() == {wanted}, name
        assert follower.rows[LAST] == there[LAST], name
        assert len(follower.rows) > 10, name
        for key, row in follower.rows.items():
            both = row.keys() & there[key].keys()
            assert {one: row[one] for one in both} == {one: there[key][one] for one in both}, name


@pytest.mark.slow
def test_triggers_are_no_matter_of_theirs(db, engine, writes, follow):
    """The copies on the new table come before the RENAME, the triggers behind it."""
    db.execute(f"CREATE TRIGGER fills BEFORE INSERT ON {TABLE} FOR EACH ROW SET NEW.a = 7")
    since, followers = follow()
    assert start(engine, db, alter=CHANGES["column"]).end().outcome == "done"
    writes.stop()
    require_followed(db, since, followers)


@pytest.mark.slow
def test_a_key_of_the_table_stops_data_migration_and_no_other(db, engine, writes, follow):
    """It passes over the DROP of the original on the old table: then the name is there twice."""
    db.execute(
        "CREATE TABLE p (id INT PRIMARY KEY);"
        f"CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES {TABLE} (id));"
        f"ALTER TABLE {TABLE} ADD p INT, ADD CONSTRAINT own FOREIGN KEY (p) REFERENCES p (id)"
    )
    since, (migration, tracking, _) = follow()
    without_key = DataMigration(db)
    try:
        without_key._do(f"ALTER TABLE {TABLE} DROP FOREIGN KEY own")
        assert start(engine, db, alter=CHANGES["column"]).end().outcome == "done"
        writes.stop()
        require_followed(db, since, [tracking, without_key])
    finally:
        without_key.close()
    with pytest.raises(Exception, match="Duplicate foreign key constraint name"):
        played(db, since, migration)

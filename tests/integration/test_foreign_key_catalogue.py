"""Foreign keys as the server's catalogue has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.attached.foreign_keys.catalogue import keys_of, keys_to
from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.attached.sequence import added, dropped
from spirit_py.mysql.connect import connect
from tests.kits.connection import account
from tests.kits.schema_tools import open_schema_tools

ODD = "c é/#p#`x y"
ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL")


@pytest.fixture
def desk(db):
    """Open sessions in a schema with a parent."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, UNIQUE ab (a, b))"
    )
    with open_schema_tools(db) as found:
        yield found


def test_a_key_is_read_with_its_columns_in_order_and_from_both_ends(db, desk):
    """Names with odd characters, several columns, and the parent's index; not those of others."""
    quoted = "`" + ODD.replace("`", "``") + "`"
    db.execute(
        f"CREATE TABLE {quoted} (i INT PRIMARY KEY, x INT, y INT, CONSTRAINT {quoted}"
        " FOREIGN KEY (y, X) REFERENCES t (A, b) ON DELETE SET NULL ON UPDATE CASCADE);"
        "CREATE TABLE other (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id));"
        "CREATE TABLE T2 (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES other (id))"
    )
    expected = ForeignKey(
        name=ODD,
        schema=db.name,
        table=ODD,
        columns=("y", "x"),
        parent_schema=db.name,
        parent_table="t",
        parent_columns=("a", "b"),
        on_delete="SET NULL",
        on_update="CASCADE",
        parent_index="ab",
    )
    assert keys_of(desk.session, db.name, ODD) == (expected,)
    assert [key for key in keys_to(desk.session, db.name, "t") if key.table == ODD] == [expected]
    assert [key.table for key in keys_to(desk.session, db.name, "t")] == [ODD, "other"]
    assert keys_of(desk.session, db.name, "t") == ()


def test_a_self_reference_is_a_key_of_the_table_and_to_it(db, desk):
    """It is read from either end."""
    db.execute("ALTER TABLE t ADD CONSTRAINT own FOREIGN KEY (a) REFERENCES t (id)")
    (key,) = keys_of(desk.session, db.name, "t")
    assert key.child == key.parent
    assert keys_to(desk.session, db.name, "t") == (key,)


def test_a_parent_that_is_missing_is_read_too(db, desk):
    """A key made without checks may refer to nothing, and has no index there."""
    db.execute(
        "SET foreign_key_checks = 0;"
        "ALTER TABLE t ADD CONSTRAINT astray FOREIGN KEY (a) REFERENCES nowhere (id)"
        " ON DELETE SET DEFAULT"
    )
    (key,) = keys_of(desk.session, db.name, "t")
    assert (key.parent_table, key.parent_index, key.on_delete) == ("nowhere", "", "SET DEFAULT")


@pytest.mark.parametrize("on_delete", ACTIONS)
@pytest.mark.parametrize("on_update", ACTIONS)
def test_a_key_that_is_dropped_and_added_again_is_the_same(db, desk, on_delete, on_update):
    """What is rendered is what the server prints, for each action."""
    db.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id)"
        f" ON DELETE {on_delete} ON UPDATE {on_update})"
    )
    (key,) = keys_of(desk.session, db.name, "c")
    before = desk.table("c").create_sql
    db.execute(f"ALTER TABLE c {dropped(key)}")
    db.execute(f"ALTER TABLE c {added(key)}")
    assert keys_of(desk.session, db.name, "c") == (key,)
    assert desk.table("c").create_sql == before


@pytest.mark.parametrize("on_delete", ACTIONS)
@pytest.mark.parametrize("on_update", ACTIONS)
def test_a_child_that_the_account_may_not_see_is_known(db, desk, on_delete, on_update):
    """INNODB_FOREIGN has the whole key but the parent's index."""
    db.execute(
        f"CREATE SCHEMA {db.name}_far; CREATE TABLE {db.name}_far.`c é` (id INT PRIMARY KEY, a INT,"
        f" b INT, CONSTRAINT `f é` FOREIGN KEY (b, a) REFERENCES {db.name}.t (a, b)"
        f" ON DELETE {on_delete} ON UPDATE {on_update})"
    )
    try:
        (whole,) = keys_to(desk.session, db.name, "t")
        with (
            account(db, "PROCESS ON *.*", "SELECT ON {db}.*") as limited,
            connect(limited, database=db.name, role="driver") as session,
        ):
            assert keys_to(session, db.name, "t") == (
                replace(whole, visible=False, parent_index=""),
            )
    finally:
        db.execute(f"DROP SCHEMA {db.name}_far")

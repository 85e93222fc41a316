"""What a plan foresees of the server's refusals of foreign keys: what is sure, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.attached.foreign_keys.rules import KeyedTables, objections
from spirit_py.statement import alter_of
from tests.kits.definitions import column, index, table

CHILD, PARENT = ("s", "child"), ("s", "parent")
KEY = ForeignKey(
    name="refers",
    schema="s",
    table="child",
    columns=("p",),
    parent_schema="s",
    parent_table="parent",
    parent_columns=("id",),
)
ID = index("PRIMARY", "id")
ON_P = index("own", "p", "v", unique=False)


def child(*columns, indexes=(ID, ON_P)):
    """Return a child with a nullable p of INT, unless it is given."""
    given = columns or (column("p", nullable=True),)
    return table(column("id"), column("v"), *given, *indexes, name="child")


def parent(of="int", indexes=(ID,), **more):
    """Return a parent whose id has this type."""
    return table(column("id", of, **more), *indexes, name="parent")


def foreseen(clauses, *, old=None, new=None, key=KEY, at=CHILD):
    """Return what is foreseen of a statement for the child, or for the parent."""
    before = {CHILD: child(), PARENT: parent()} | (old or {})
    statement = alter_of(at[0], at[1], clauses)
    return list(
        objections(
            [key],
            KeyedTables(old=before, new=before | (new or {}), altered={at: statement}),
        )
    )


def test_a_key_whose_tables_still_fit_meets_nothing():
    """Nor does one that the statement drops."""
    assert foreseen("ADD COLUMN n INT") == []
    assert (
        foreseen(
            "MODIFY p BIGINT, DROP FOREIGN KEY refers", new={CHILD: child(column("p", "bigint"))}
        )
        == []
    )


@pytest.mark.parametrize(
    ("new", "at"),
    [
        ({CHILD: child(column("p", "bigint"))}, CHILD),
        ({CHILD: child(column("p", "int unsigned", unsigned=True))}, CHILD),
        ({PARENT: parent("bigint")}, PARENT),
    ],
    ids=["child", "sign", "parent"],
)
def test_columns_that_do_not_fit_any_more_are_refused(new, at):
    """Integers must have one size and one sign (error 3780)."""
    ((cause, remedy),) = foreseen("MODIFY p BIGINT", new=new, at=at)
    assert "foreign key refers" in cause
    assert "3780" in cause
    assert "both tables" in remedy


def test_texts_must_have_one_collation_and_may_have_any_length():
    """As the manual has it."""
    old = {CHILD: child(column("p", "varchar(10)")), PARENT: parent("varchar(10)")}
    longer = {CHILD: child(column("p", "varchar(20)"))}
    other = {CHILD: child(column("p", "varchar(10)", collation="utf8mb4_bin"))}
    assert foreseen("MODIFY p VARCHAR(20)", old=old, new=longer) == []
    ((cause, _),) = foreseen("MODIFY p VARCHAR(10)", old=old, new=other)
    assert "utf8mb4_bin" in cause


def test_columns_that_did_not_fit_before_are_left_to_the_server():
    """Such a key was made without checks; what the server says then is not sure."""
    assert foreseen("ADD COLUMN n INT", old={PARENT: parent("bigint")}) == []


def test_a_column_that_is_set_to_null_must_stay_nullable():
    """Error 1830; of a key that restricts it may become NOT NULL."""
    new = {CHILD: child(column("p"))}
    ((cause, _),) = foreseen(
        "MODIFY p INT NOT NULL", new=new, key=replace(KEY, on_delete="SET NULL")
    )
    assert "1830" in cause
    assert foreseen("MODIFY p INT NOT NULL", new=new) == []


def test_each_side_needs_an_index():
    """One that begins with the key's columns; the child's is not made anew."""
    other = index("other", "v", "p", unique=False)
    ((cause, _),) = foreseen("DROP INDEX own", new={CHILD: child(indexes=(ID, other))})
    assert "needs an index" in cause
    gone = {PARENT: parent(indexes=(index("v", "v"),))}
    ((cause, _),) = foreseen("DROP PRIMARY KEY", new=gone, at=PARENT)
    assert "1822" in cause


@pytest.mark.parametrize("at", [CHILD, PARENT])
def test_partitions_and_keys_exclude_each_other(at):
    """Error 1506, whichever side gets them."""
    ((cause, _),) = foreseen("PARTITION BY HASH (id) PARTITIONS 2", at=at)
    assert "1506" in cause


def test_a_table_that_cannot_be_read_raises_no_doubt():
    """The server decides."""
    known = {PARENT: parent("bigint")}
    tables = KeyedTables(old=known, new=known, altered={})
    assert list(objections([KEY], tables)) == []

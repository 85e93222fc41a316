"""What an ALTER makes of a foreign key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.attached.foreign_keys.model import ForeignKey, carried, missing_column
from spirit_py.statement import alter_of

CHILD, PARENT = ("s", "c"), ("s", "p")
KEY = ForeignKey(
    name="f",
    schema="s",
    table="c",
    columns=("a", "b"),
    parent_schema="s",
    parent_table="p",
    parent_columns=("x", "y"),
    on_delete="CASCADE",
)


def statements(**clauses):
    """Return the statements for the tables of these names."""
    return {("s", table): alter_of("s", table, text) for table, text in clauses.items()}


@pytest.mark.parametrize(
    ("clauses", "changed"),
    [
        ({}, {}),
        ({"other": "RENAME COLUMN a TO z"}, {}),
        ({"c": "RENAME COLUMN A TO z"}, {"columns": ("z", "b")}),
        ({"c": "RENAME COLUMN a TO b, RENAME COLUMN b TO a"}, {"columns": ("b", "a")}),
        ({"p": "CHANGE y Z INT"}, {"parent_columns": ("x", "Z")}),
        (
            {"c": "CHANGE a a2 INT", "p": "RENAME COLUMN x TO x2"},
            {"columns": ("a2", "b"), "parent_columns": ("x2", "y")},
        ),
        ({"p": "DROP FOREIGN KEY f"}, {}),
    ],
)
def test_renamed_columns_are_carried_over_to_the_key(clauses, changed):
    """Names of columns follow the ALTER of either table; all else stays."""
    assert carried(KEY, statements(**clauses)) == replace(KEY, **changed)


@pytest.mark.parametrize("clause", ["DROP FOREIGN KEY F", "ADD z INT, DROP CONSTRAINT `f`"])
def test_a_key_that_the_alter_drops_is_gone(clause):
    """Both ways to drop it are known, whatever the name's case."""
    assert carried(KEY, statements(c=clause)) is None


def test_a_self_reference_is_renamed_at_both_ends():
    """One statement is about both ends."""
    key = replace(KEY, parent_table="c", parent_columns=("id", "b"))
    assert carried(key, statements(c="RENAME COLUMN b TO z")) == replace(
        key, columns=("a", "z"), parent_columns=("id", "z")
    )


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        ({"c": "DROP COLUMN z", "p": "DROP a"}, None),
        ({"c": "DROP COLUMN B"}, ("b", CHILD)),
        ({"p": "ADD x INT, DROP x"}, ("x", PARENT)),
    ],
)
def test_a_column_that_the_alter_drops_is_found(clauses, found):
    """At either end; one of the same name that is added is another column."""
    assert missing_column(KEY, statements(**clauses)) == found

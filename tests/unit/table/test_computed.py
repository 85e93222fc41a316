"""Which stored generated columns are the same in both tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from tests.kits.definitions import column, table

if TYPE_CHECKING:
    from spirit_py.table.schema import Column, TableSchema

ID, A = column("id"), column("a")


def stored(name: str, expression: str, kind: str = "int") -> Column:
    """Return a stored generated column."""
    return replace(column(name, kind), generated="STORED", generation_expression=expression)


def names(source: TableSchema, target: TableSchema, clauses: str) -> list[str]:
    """Return the generated columns that are compared."""
    mapping = build_mapping(source, target, alter_of("s", "t", clauses), "+00:00")
    assert mapping.compared == (*mapping.pairs, *mapping.computed)
    return [pair.new.name for pair in mapping.computed]


def test_the_same_expression_over_unchanged_columns_is_compared():
    """It is compared, also where it reads another generated column."""
    plain = (ID, A, stored("g", "(`a` + 1)"), stored("h", "(`g` * 2)"))
    assert names(table(*plain), table(*plain, column("x")), "ADD x INT") == ["g", "h"]


@pytest.mark.parametrize(
    ("target", "clauses"),
    [
        ((ID, column("a", "bigint"), stored("g", "(`a` + 1)")), "MODIFY a BIGINT"),
        ((ID, A, stored("g", "(`a` + 2)")), "MODIFY g INT AS (a + 2) STORED"),
        ((ID, A, stored("g", "(`a` + 1)", "bigint")), "MODIFY g BIGINT AS (a + 1) STORED"),
        ((ID, A, stored("g", "(`a` + 1)")), "DROP g, ADD g INT AS (a + 1) STORED"),
    ],
)
def test_what_the_alter_changes(target, clauses):
    """A column whose value the ALTER may change is not compared."""
    assert names(table(ID, A, stored("g", "(`a` + 1)")), table(*target), clauses) == []


def test_virtual_columns_are_not_compared():
    """Both tables compute them from compared columns when they are read."""
    virtual = replace(stored("g", "(`a` + 1)"), generated="VIRTUAL")
    both = (ID, A, virtual)
    assert names(table(*both), table(*both, column("x")), "ADD x INT") == []

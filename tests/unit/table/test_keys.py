"""Which keys may be compared in Python (R6)."""

from __future__ import annotations

import pytest

from spirit_py.table.keys import comparable
from spirit_py.table.schema import Column


def column(data_type: str, collation: str | None = None, charset: str | None = None) -> Column:
    """Return a NOT NULL key column."""
    return Column(
        name="k",
        ordinal=1,
        data_type=data_type,
        column_type=data_type,
        nullable=False,
        collation=collation,
        charset=charset,
    )


@pytest.mark.parametrize(
    "data_type",
    ["tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "bit", "enum", "set",
     "date", "time", "datetime", "timestamp", "binary", "varbinary"],
)  # fmt: skip
def test_exact_types_are_comparable(data_type):
    """Types whose equality and order Python shares with the server may be deduplicated."""
    assert comparable([column(data_type)])


@pytest.mark.parametrize(
    "data_type", ["float", "double", "json", "geometry", "vector", "text", "blob"]
)
def test_inexact_types_are_not_comparable(data_type):
    """Types that the server compares otherwise stay in binlog order."""
    assert not comparable([column(data_type)])


@pytest.mark.parametrize("data_type", ["char", "varchar"])
def test_only_the_no_pad_binary_collation_makes_text_comparable(data_type):
    """'a' = 'A' in most collations, and 'a' = 'a ' in every PAD SPACE one, utf8mb4_bin too."""
    assert comparable([column(data_type, "utf8mb4_0900_bin", "utf8mb4")])
    for collation in ("utf8mb4_bin", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "latin1_bin"):
        assert not comparable([column(data_type, collation)])


def test_one_inexact_column_makes_the_key_inexact():
    """A key is comparable only when all its columns are; no columns make no key."""
    assert comparable([column("int"), column("date")])
    assert not comparable([column("int"), column("double")])
    assert not comparable([])

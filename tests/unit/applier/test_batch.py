"""Statements bounded by rows and bytes."""

from __future__ import annotations

import pytest

from spirit_py.applier.batch import Bounds, delete_keys, insert_rows, replace_rows
from spirit_py.errors import ValueLost
from tests.feed_kit import mapping

WIDE = Bounds(rows=1000, packet=1 << 20)


def test_the_text_of_a_replace() -> None:
    """Columns are those of the new table, rows come in order."""
    (statement,) = replace_rows(mapping(), ["(1, 'a')", "(2, NULL)"], WIDE)
    assert statement == "REPLACE INTO `s`.`_t_new` (`id`, `v`) VALUES (1, 'a'), (2, NULL)"


def test_the_text_of_a_delete() -> None:
    """Keys are compared with the new table's key columns."""
    (statement,) = delete_keys(mapping(), ["(1)", "(2)"], WIDE)
    assert statement == "DELETE FROM `s`.`_t_new` WHERE (`id`) IN ((1), (2))"


def test_the_text_of_a_staging_insert() -> None:
    """The staging table has exactly the old columns."""
    (statement,) = insert_rows("`s`.`x`", ["(1, 'a')"], WIDE, mapping())
    assert statement == "INSERT INTO `s`.`x` VALUES (1, 'a')"


def test_no_rows_make_no_statement() -> None:
    """An empty batch asks nothing of the server."""
    assert list(replace_rows(mapping(), [], WIDE)) == []


def test_statements_hold_at_most_so_many_rows() -> None:
    """And together every row once, in order."""
    rows = [f"({n}, 'x')" for n in range(25)]
    found = list(replace_rows(mapping(), rows, Bounds(rows=10, packet=1 << 20)))
    assert [text.count("'x'") for text in found] == [10, 10, 5]
    assert ", ".join(text.partition("VALUES ")[2] for text in found) == ", ".join(rows)


@pytest.mark.parametrize("letter", ["x", "\u20ac"])
def test_statements_hold_at_most_so_many_bytes(letter: str) -> None:
    """Bytes, not characters, and a margin below the server's limit."""
    rows = [f"({n}, '{letter * 500}')" for n in range(20)]
    found = list(replace_rows(mapping(), rows, Bounds(rows=1000, packet=6000)))
    assert len(found) > 1
    assert all(len(text.encode()) < 6000 for text in found)
    assert sum(text.count(letter * 500) for text in found) == 20


def test_a_row_that_no_packet_holds_is_an_error() -> None:
    """It names the table, the size and the variable."""
    with pytest.raises(ValueLost, match="max_allowed_packet of 6000") as caught:
        list(replace_rows(mapping(), ["(1, 'a')", f"(2, '{'x' * 6000}')"], Bounds(10, 6000)))
    assert "s.t" in str(caught.value)
    assert "SET GLOBAL max_allowed_packet" in caught.value.hint

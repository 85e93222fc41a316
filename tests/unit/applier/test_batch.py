"""Statements bounded by rows and bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.applier.batch import Bounds, delete_keys, insert_rows, replace_rows
from spirit_py.errors import PacketTooSmall
from spirit_py.sql import PiecedRow
from spirit_py.table.mapping import Fill
from tests.kits.definitions import column
from tests.kits.row_images import mapping

WIDE = Bounds(rows=1000, packet=1 << 20)


def test_the_text_of_a_replace() -> None:
    """Columns are those of the new table, rows come in order."""
    (statement,) = replace_rows(mapping(), ["(1, 'a')", "(2, NULL)"], WIDE)
    assert statement == "REPLACE INTO `s`.`_t_new` (`id`, `v`) VALUES (1, 'a'), (2, NULL)"


def test_the_constants_of_new_columns_are_named_behind_the_row() -> None:
    """A new column that every row has the same value in is named, behind the row's own."""
    filled = replace(mapping(), fills=(Fill(column=column("n", ordinal=3), sql="0"),))
    (statement,) = replace_rows(filled, ["(1, 'a')", "(2, ')')"], WIDE)
    assert statement == (
        "REPLACE INTO `s`.`_t_new` (`id`, `v`, `n`) VALUES (1, 'a', 0), (2, ')', 0)"
    )


def test_a_delete_compares_the_new_tables_key_columns() -> None:
    """Keys are compared with the new table's key columns."""
    (statement,) = delete_keys(mapping(), ["(1)", "(2)"], WIDE)
    assert statement == "DELETE FROM `s`.`_t_new` WHERE (`id`) IN ((1), (2))"


def test_a_staging_insert_has_exactly_the_old_columns() -> None:
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


def test_a_row_with_a_value_above_the_packet_is_an_error() -> None:
    """It names the table, the size and the variable."""
    rows = ["(1, 'a')", f"(2, X'{'ab' * 6001}')"]
    with pytest.raises(
        PacketTooSmall, match=r"6001 bytes, more .* max_allowed_packet of 6000"
    ) as caught:
        list(replace_rows(mapping(), rows, Bounds(10, 6000)))
    assert "s.t" in str(caught.value)
    assert "SET GLOBAL max_allowed_packet=12002" in caught.value.hint
    assert caught.value.resumable


def test_a_row_larger_than_a_packet_is_sent_in_pieces() -> None:
    """Its large values go ahead in user variables; the rows around it stay, in order."""
    value = "".join(f"{n % 256:02x}" for n in range(5000))
    rows = ["(1, NULL)", f"(2, X'{value}')", "(3, NULL)"]
    found = list(replace_rows(mapping(), rows, Bounds(10, 6000)))
    assert all(len(text) < 6000 for text in found)
    before, *pieces, row, forget, after = found
    assert before.endswith("VALUES (1, NULL)")
    assert "".join(piece[piece.index("X'") + 2 :].rstrip("')") for piece in pieces) == value
    assert pieces[0].startswith("SET @spirit_py_1 = X'")
    assert all(p.startswith("SET @spirit_py_1 = CONCAT(@spirit_py_1, X'") for p in pieces[1:])
    assert row.endswith("VALUES (2, @spirit_py_1)")
    assert forget == "SET @spirit_py_1 = NULL"
    assert after.endswith("VALUES (3, NULL)")


def test_the_literals_that_are_taken_out_of_a_row() -> None:
    """Text gets its character set back; a binary value inside JSON keeps its place and type."""
    big = "61" * 100
    quoted = f"'it''s \\'X''{big}''('"
    row = (
        f"(1, _latin1 X'{big}', {quoted}, X'{big}', X'00',"
        f" CAST(_utf8mb4 X'{big}' AS JSON), JSON_ARRAY(X'{big}'))"
    )
    taken = PiecedRow(row)
    assert taken.text == (
        f"(1, CONVERT(@spirit_py_1 USING latin1), {quoted}, @spirit_py_2, X'00',"
        f" CAST(CONVERT(@spirit_py_3 USING utf8mb4) AS JSON), JSON_ARRAY(X'{big}'))"
    )
    assert taken.largest == 100
    assert taken.forget() == "SET @spirit_py_1 = NULL, @spirit_py_2 = NULL, @spirit_py_3 = NULL"

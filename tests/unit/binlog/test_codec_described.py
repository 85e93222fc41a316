"""Definitions out of table maps that describe themselves."""

from __future__ import annotations

import pytest

from spirit_py.binlog.codec import tablemap as codes
from spirit_py.binlog.codec.tablemap import Collation, ColumnType, TableMap, agrees, described

COLLATIONS = {
    8: Collation("latin1", "latin1_swedish_ci"),
    13: Collation("sjis", "sjis_japanese_ci"),
    63: Collation("binary", "binary"),
    255: Collation("utf8mb4", "utf8mb4_0900_ai_ci"),
}
#: Collation 255 as a length-encoded integer.
UTF8 = b"\xfc\xff\x00"


def table_map(*columns: ColumnType, signs: bytes = b"\0", **fields: bytes) -> TableMap:
    """Return a table map of columns named a, b, c ...; fields are named ``f`` and their type."""
    names = tuple("abcdefgh"[: len(columns)])
    optional = {int(name[1:]): value for name, value in fields.items()}
    return TableMap(
        schema="s",
        table="t",
        columns=columns,
        nullable=(False,) * len(columns),
        signedness=signs,
        names=names,
        optional=optional,
    )


def test_character_sets_come_from_a_default_with_exceptions_or_a_list() -> None:
    """Both forms say the same; the binary collation makes binary types."""
    columns = (
        ColumnType(codes.VARCHAR, 80),
        ColumnType(codes.VARCHAR, 20),
        ColumnType(codes.STRING, 5),
        ColumnType(codes.BLOB, 3),
    )
    by_default = described(table_map(*columns, f2=UTF8 + b"\x02\x3f\x03\x08"), COLLATIONS)
    listed = described(table_map(*columns, f3=UTF8 * 2 + b"\x3f\x08"), COLLATIONS)
    assert by_default is not None
    assert listed is not None
    shown = [column.column_type for column in by_default.columns]
    assert shown == ["varchar(20)", "varchar(5)", "binary(5)", "mediumtext"]
    assert by_default.columns == listed.columns
    assert by_default.columns[3].charset == "latin1"


@pytest.mark.parametrize("year_has_a_bit", [True, False])
def test_signs_skip_what_is_not_numeric(year_has_a_bit: bool) -> None:
    """YEAR has a bit on newer servers, and none on older ones."""
    columns = [ColumnType(code, 0) for code in (codes.LONG, codes.YEAR, codes.DATE, codes.TINY)]
    signs = b"\xc0" if year_has_a_bit else b"\x80"
    found = described(table_map(*columns, signs=signs), COLLATIONS)
    assert found is not None
    assert [column.column_type for column in found.columns] == [
        *("int unsigned", "year", "date", "tinyint")
    ]


def test_members_are_texts_of_their_character_set() -> None:
    """In a set that Python does not know the table map is not enough."""
    enum = ColumnType(codes.ENUM, 1)
    members = b"\x02\x01\xe9\x02it"
    found = described(table_map(enum, f6=members, f10=b"\x08"), COLLATIONS)
    assert found is not None
    assert found.columns[0].members == ("é", "it")
    assert found.columns[0].column_type == "enum('é','it')"
    assert described(table_map(enum, f6=members, f10=b"\x0d"), COLLATIONS) is None


def test_the_key_may_have_prefixes() -> None:
    """A key of parts of columns does not identify a row by whole columns."""
    columns = (ColumnType(codes.LONG, 0), ColumnType(codes.VARCHAR, 80))
    whole = described(table_map(*columns, f2=UTF8, f8=b"\x01\x00"), COLLATIONS)
    part = described(table_map(*columns, f2=UTF8, f9=b"\x01\x05\x00\x00"), COLLATIONS)
    assert whole is not None
    assert part is not None
    assert whole.not_null_unique_indexes()[0].columns == ("b", "a")
    assert part.not_null_unique_indexes() == ()
    assert agrees(whole, part)


def test_a_table_map_that_says_too_little_is_not_enough() -> None:
    """Fields that are missing or too short give no definition, and no error."""
    column = ColumnType(codes.VARCHAR, 80)
    assert described(table_map(column, f3=b""), COLLATIONS) is None
    assert described(table_map(ColumnType(codes.LONG, 0), signs=b""), COLLATIONS) is None
    assert described(table_map(ColumnType(codes.ENUM, 1), f10=UTF8), COLLATIONS) is None
    assert described(table_map(column, f2=b"\x07"), COLLATIONS) is None

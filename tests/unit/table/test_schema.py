"""Looking things up in a table's definition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.errors import MigrationFailure
from tests.kits.definitions import column, index, table


def test_a_column_is_found_whatever_its_case():
    """A column is found whatever the case of its name."""
    found = table(column("Id"), column("ä"))
    assert found.column("ID").name == "Id"
    assert found.has_column("Ä")
    assert not found.has_column("b")
    with pytest.raises(KeyError):
        found.column("b")


def test_only_an_index_over_whole_columns_identifies_a_row():
    """Only an index over whole columns has columns to identify a row by."""
    assert index("k", "a", "b").columns == ("a", "b")
    assert index("k", "a", "b(3)").columns == ()
    assert index("k", "a", "(b + 1)").columns == ()


def test_unique_keys_over_not_null_columns_are_usable():
    """Unique keys over whole NOT NULL columns, the primary one first."""
    found = table(
        column("a"),
        column("b"),
        column("n", nullable=True),
        index("first", "b"),
        index("PRIMARY", "a"),
        index("nullable", "n"),
        index("prefix", "a(3)"),
        index("plain", "a", unique=False),
        index("both", "a", "n"),
    )
    assert [i.name for i in found.not_null_unique_indexes()] == ["PRIMARY", "first"]
    assert found.primary_key is found.index("primary")
    assert table(column("a"), index("u", "a")).primary_key is None


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ("ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4", 4.0),
        ("KEY_BLOCK_SIZE=8", 2.0),
        ("ROW_FORMAT=COMPRESSED", 2.0),
        ("ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=4", 1.0),
        ("COMPRESSION='zlib'", 1.0),
    ],
)
def test_how_much_larger_rows_are_than_compressed_pages(options, times):
    """Of pages of 16 KiB; a row format that is written counts before the size of a block."""
    text = f"CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB {options}"
    assert replace(table(column("a")), create_sql=text).unzipped(16 << 10) == times


@pytest.mark.parametrize("given", ["charset", "collation"])
@pytest.mark.parametrize("name", ["", "latin1 ", "latin1{print(1)}", "x; DROP TABLE t", "é"])
def test_a_character_set_that_is_no_word_is_refused(given, name):
    """It goes into SQL without quotes."""
    with pytest.raises(MigrationFailure, match="no name of one"):
        column("v", "varchar(20)", **{given: name})
    with pytest.raises(MigrationFailure, match="no name of one"):
        replace(table(column("id")), collation=name)

"""How long later phases take beside the copy: by number, type and width of what they work on."""

from __future__ import annotations

from dataclasses import replace

from spirit_py.estimates import build_share, index_bytes, likely_sizes
from tests.kits.definitions import column, index, table

TABLE = table(
    column("id"),
    column("n"),
    column("b", "varchar(100)", charset="ascii", collation="ascii_bin"),
    column("s", "varchar(100)"),
    index("PRIMARY", "id"),
    index("n", "n", unique=False),
    index("b", "b", unique=False),
    index("s", "s", unique=False),
    index("head", "s(4)", unique=False),
    index("both", "n", "s", unique=False),
)


def share(*names, row_bytes=200.0):
    """Return the share of some of its indexes."""
    return build_share(TABLE, names, row_bytes=row_bytes)


def test_each_index_counts():
    """None takes no time, and what the table does not have neither."""
    assert share() == share("gone") == 0
    assert share("n", "s") == share("n") + share("s")


def test_longer_entries_take_longer():
    """A text more than a number, weights more than bytes, two columns more than one."""
    assert share("n") < share("b") < share("s") < share("both")
    assert share("n") <= share("head") < share("b")


def test_wide_rows_take_longer_to_copy_than_to_read():
    """So an index of a wide table is a smaller share of its copy."""
    assert share("n", row_bytes=2000.0) < share("n") < 1
    assert share("n", row_bytes=None) == share("n")


def test_an_index_is_as_large_as_its_columns_and_the_rows_texts():
    """A wide text more than a number; texts are as long as the average row leaves room for."""
    short = replace(TABLE, estimated_rows=1000, data_bytes=60_000)
    long = replace(short, data_bytes=300_000)
    n, both = (TABLE.index(name) for name in ("n", "both"))
    assert n is not None
    assert both is not None
    assert index_bytes(TABLE, n, short) == index_bytes(TABLE, n, long) < 30_000
    assert index_bytes(TABLE, n, short) < index_bytes(TABLE, both, short)
    assert index_bytes(TABLE, both, short) < index_bytes(TABLE, both, long) < 300_000


def test_sizes_that_cannot_be_are_replaced_by_those_of_the_columns():
    """After a load the server has counted the rows, and one page."""
    loaded = replace(TABLE, estimated_rows=399_999, data_bytes=16_384)
    rows, indexes = likely_sizes(loaded)
    assert 399_999 * 40 < rows < 399_999 * 400
    assert indexes > 399_999 * 50
    known = replace(loaded, data_bytes=40_000_000, index_bytes=7)
    assert likely_sizes(known) == (40_000_000, 7)
    assert likely_sizes(replace(TABLE, data_bytes=16_384)) == (16_384, 0)


def test_files_tell_more_than_statistics_that_are_old():
    """The bytes are shared as they are told, or by the columns; a file of usual size tells none."""
    known = replace(TABLE, estimated_rows=400_000, data_bytes=60_000_000, index_bytes=20_000_000)
    assert likely_sizes(replace(known, file_bytes=100_000_000)) == (60_000_000, 20_000_000)
    assert likely_sizes(replace(known, file_bytes=400_000_000)) == (300_000_000, 100_000_000)
    # Each of many partitions has a file of its own, in which extents are begun.
    assert likely_sizes(replace(known, file_bytes=400_000_000, files=100))[0] == 60_000_000
    rows, indexes = likely_sizes(replace(TABLE, data_bytes=16_384, file_bytes=400_000_000))
    assert rows + indexes == 400_000_000
    assert rows > 100_000_000
    assert indexes > 100_000_000

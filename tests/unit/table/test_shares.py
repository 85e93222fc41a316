"""How long later phases take beside the copy: by number, type and width of what they work on."""

from __future__ import annotations

from spirit_py.estimates import build_share
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

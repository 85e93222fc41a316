"""Which values the server warned about when it converted what fits."""

from __future__ import annotations

import pytest

from spirit_py.checksum.staging import places_of

WORDS = "Incorrect integer value: 'for column '_spirit_py_c9' at row 9' for column"


def test_rows_and_columns_are_read_from_the_end_of_the_warning():
    """The value in its middle may say anything."""
    said = [
        ("Warning", 1366, f"{WORDS} '_spirit_py_c0' at row 1"),
        ("Warning", 1265, "Data truncated for column '_spirit_py_c2' at row 1"),
        ("Warning", 1264, "Out of range value for column '_spirit_py_c0' at row 17"),
        ("Warning", 3719, "'utf8' is deprecated"),
    ]
    assert places_of(said) == {1: {0, 2}, 17: {0}}
    assert places_of([]) == {}


def test_a_note_is_no_error_but_of_text_it_may_be():
    """Digits that are rounded away are noted, and so is text behind the digits of a DECIMAL."""
    said = [("Note", 1265, "Data truncated for column '_spirit_py_c1' at row 4")]
    assert places_of(said, doubtful={0}) == {}
    assert places_of(said, doubtful={1}) is None


@pytest.mark.parametrize(
    "said",
    [
        [("Warning", 1292, "Truncated incorrect DOUBLE value: 'abc'")],
        [("Warning", 1478, "Cannot convert string for column '_spirit_py_c0' at row 1")],
        [("Warning", 1265, "Data truncated for column '_spirit_py_c0' at row 1")] * 65_535,
    ],
    ids=["no row", "not an error", "perhaps not all"],
)
def test_what_is_unclear_is_not_read(said):
    """Then the rows are looked at one by one."""
    assert places_of(said) is None

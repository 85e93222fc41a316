"""What the server's messages are about."""

from __future__ import annotations

import pytest

from spirit_py.mysql.lost_values import Complaint, read_complaint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Data too long for column 'note' at row 3", Complaint("note", 3)),
        ("Column 'v' cannot be null", Complaint("v", 0)),
        ("Data truncated for column 'it's' at row 12", Complaint("it's", 12)),
        (
            "Incorrect integer value: 'column 'a' at row 9' for column 'b' at row 2",
            Complaint("b", 2),
        ),
        ("Division by 0 at row 7", Complaint("", 7)),
        ("Check constraint 'c' is violated.", Complaint("", 0)),
    ],
)
def test_column_and_row_of_a_message(text: str, found: Complaint) -> None:
    """A value that is quoted in it does not count, whatever it holds."""
    assert read_complaint(text) == found

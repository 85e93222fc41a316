"""The literals of a row that is read from another server."""

from __future__ import annotations

import pytest

from spirit_py.move.carrier import _literals

TEXT = b'[1, "a"]'.hex()
TYPES = '["ARRAY", "INTEGER", "STRING"]'


@pytest.mark.parametrize(
    ("parts", "literals"),
    [
        (["1", TEXT, TYPES], ["1", f"_utf8mb4 X'{TEXT}'"]),
        (["1", None, None], ["1", "NULL"]),
        (["1", None, TYPES], None),
        (["1", TEXT, '["ARRAY"]'], ["1", f"_utf8mb4 X'{TEXT}'"]),
        ([None, TEXT, TYPES], None),
    ],
    ids=["document", "null", "no text", "plain", "too long"],
)
def test_a_document_without_its_text_is_no_null(parts, literals):
    """NULL has no types of nodes; a value that has them was not given by the server."""
    assert _literals(parts, {1}) == literals

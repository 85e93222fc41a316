"""JSON documents as SQL that gives every node its type again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.compare.copyback import document_sql

if TYPE_CHECKING:
    from spirit_py.compare.copyback import Kind


def test_what_text_can_say_stays_text():
    """One CAST of the whole document, its numbers as the server wrote them."""
    text = '{"a": [1, 1.50, "é", null, true], "b": {}, "c": 4294967296}'
    kinds: list[Kind] = ["OBJECT", "ARRAY", "OBJECT", "UNSIGNED INTEGER"]
    kinds += ["INTEGER", "DOUBLE", "STRING", None, "BOOLEAN"]
    assert document_sql(text, kinds) == f"CAST(_utf8mb4 X'{text.encode().hex()}' AS JSON)"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1", "UNSIGNED INTEGER", "CAST(1 AS UNSIGNED)"),
        ("4294967296", "INTEGER", "CAST(4294967296 AS SIGNED)"),
        ("-1.50", "DECIMAL", "CAST(-1.50 AS DECIMAL(3, 2))"),
        ("-14.809999999999999", "DOUBLE", "-14.809999999999999e0"),
        ("1.7976931348623157e308", "DOUBLE", "1.7976931348623157e308"),
        ("7", "DECIMAL", "CAST(7 AS DECIMAL(1, 0))"),
        ('"2024-01-02"', "DATE", "CAST(_utf8mb4 X'323032342d30312d3032' AS DATE)"),
    ],
)
def test_scalars_that_text_cannot_say(text, kind, expected):
    """Each is an expression of its type, as a document and inside one."""
    assert document_sql(text, [kind]).endswith(f"(JSON_ARRAY({expected}), '$[0]')")
    inside = document_sql(f'{{"a": [{text}]}}', ["OBJECT", "ARRAY", kind])
    assert inside == f"JSON_OBJECT(_utf8mb4 X'61', JSON_ARRAY({expected}))"


def test_bytes_go_by_the_way_of_the_feed():
    """Its renderer knows what gives each type code."""
    sql = document_sql('["base64:type252:qgA="]', ["ARRAY", "BLOB"])
    assert "X'aa00'" in sql
    assert "LONGBLOB" in sql


def test_members_of_objects_come_before_elements_of_arrays():
    """In the server's order of the types; each node gets its own."""
    text = '[1, {"a": 2, "b": [3]}, 4]'
    kinds = ["ARRAY", "DECIMAL", "ARRAY", "INTEGER", "OBJECT", "UNSIGNED INTEGER", "INTEGER"]
    assert document_sql(text, kinds) == (
        "JSON_ARRAY(1, JSON_OBJECT("
        "_utf8mb4 X'61', CAST(2 AS DECIMAL(1, 0)),"
        " _utf8mb4 X'62', CAST(_utf8mb4 X'5b335d' AS JSON)), CAST(4 AS UNSIGNED))"
    )


@pytest.mark.parametrize("kinds", [["ARRAY"], ["ARRAY", "INTEGER", "INTEGER"], []])
def test_types_of_another_document_are_refused(kinds):
    """They are not guessed at."""
    with pytest.raises(ValueError, match="not those of its nodes"):
        document_sql("[1]", kinds)

"""Patterns of tables: their two parts, quotes, and what is refused."""

from __future__ import annotations

import pytest

from spirit_py.batch.changes import NamePattern, read_pattern
from spirit_py.errors import UsageFault


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("shop_%.orders", NamePattern("shop_%"), NamePattern("orders")),
        ("shop_%.`a.b`", NamePattern("shop_%"), NamePattern("a.b", exact=True)),
        ("`we``ird`.t%", NamePattern("we`ird", exact=True), NamePattern("t%")),
        (r"shop\_1.t", NamePattern(r"shop\_1"), NamePattern("t")),
        ("orders_%", NamePattern("here", exact=True), NamePattern("orders_%")),
        ("`100%.x`", NamePattern("here", exact=True), NamePattern("100%.x", exact=True)),
    ],
)
def test_both_parts_are_read_as_they_are_quoted(text, schema, table):
    """A part in backquotes is a name; another is a pattern; --database stands in for a schema."""
    found = read_pattern(text, "here")
    assert (found.schema, found.table) == (schema, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", "a.b.c", "`a.b", "a`b.c", "``.t"])
def test_what_is_no_pattern_is_refused_with_an_example(text):
    """Nothing is guessed."""
    with pytest.raises(UsageFault, match="not a table pattern") as refused:
        read_pattern(text, "here")
    assert "shop_%.orders" in refused.value.hint


def test_a_pattern_without_a_schema_needs_one():
    """The schema of a pattern is never all of them by omission."""
    with pytest.raises(UsageFault, match="names no schema"):
        read_pattern("orders", "")


def test_the_server_compares_names_exactly_and_patterns_by_like():
    """The condition has one operator for each part; the parts are parameters."""
    found = read_pattern("shop_%.`a_b`", "")
    assert found.condition == "(TABLE_SCHEMA LIKE %s AND TABLE_NAME = %s)"
    assert found.parameters == ("shop_%", "a_b")


@pytest.mark.parametrize(
    ("part", "wild"),
    [
        (NamePattern("shop_%"), True),
        (NamePattern("shop_1"), False),
        (NamePattern(r"a\%b"), False),
        (NamePattern("a%b", exact=True), False),
    ],
)
def test_a_part_is_wild_where_names_of_any_length_match(part, wild):
    """An underscore alone makes no pattern of shards."""
    assert part.wild is wild

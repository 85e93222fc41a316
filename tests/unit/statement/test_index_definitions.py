"""Which indexes may be built after the copy, and their definitions as the server shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.statement.index_definitions import deferrable_indexes, without_indexes
from spirit_py.table.schema import Index, IndexPart
from tests.kits.definitions import column, index, table

PLAIN = index("plain", "n", unique=False)
OTHER = index("other", "n", "c", unique=False)


def shown(*lines):
    """Return a table's definition as SHOW CREATE TABLE shows it."""
    return "CREATE TABLE `t` (\n  " + ",\n  ".join(lines) + "\n) ENGINE=InnoDB"


def of(*indexes, lines, **columns):
    """Return a table with columns id, n and c, these indexes, and its text."""
    parts = [
        columns.get("id", column("id")),
        columns.get("n", column("n")),
        columns.get("c", column("c", "varchar(30)")),
    ]
    found = table(*parts, index("PRIMARY", "id"), *indexes)
    head = ("`id` int NOT NULL", "`n` int DEFAULT 'KEY `x` (`y`),'", "PRIMARY KEY (`id`)")
    return replace(found, create_sql=shown(*head, *lines))


@pytest.mark.parametrize(
    "clause",
    [
        "KEY `plain` (`n`)",
        "KEY `plain` (`n` DESC,`c`(10)) USING BTREE",
        "KEY `plain` (`n`) KEY_BLOCK_SIZE=4 COMMENT 'it''s, (a) \\n\\\\ KEY `x`'",
        "KEY `plain` (`n`) /*!80000 INVISIBLE */",
        "KEY `plain` (`n`) /*!80021 ENGINE_ATTRIBUTE '{\"a\": [1, 2]}' */ /*!80000 INVISIBLE */",
    ],
)
@pytest.mark.parametrize("behind", [(), ("KEY `other` (`n`,`c`)",)])
def test_a_definition_is_kept_letter_by_letter(clause, behind):
    """Length, direction, comment, visibility and attributes are the text of SHOW CREATE TABLE."""
    extra = (OTHER,) if behind else ()
    found = deferrable_indexes(of(PLAIN, *extra, lines=(clause, *behind)))
    assert found.clauses["plain"] == clause
    assert list(found.clauses) == ["plain", "other"][: 1 + len(behind)]
    assert not found.kept


def test_the_definition_without_them_is_what_the_server_would_show():
    """Both definitions are known before the first index is dropped."""
    whole = of(PLAIN, OTHER, lines=("KEY `plain` (`n`)", "KEY `other` (`n`,`c`)"))
    assert without_indexes(whole.create_sql, deferrable_indexes(whole).clauses) == (
        of(lines=()).create_sql
    )


def test_unique_indexes_are_not_considered():
    """They guard the copy (R11), and the chunk key is one of them."""
    unique = index("only", "n")
    found = deferrable_indexes(of(unique, lines=("UNIQUE KEY `only` (`n`)",)))
    assert not found.clauses
    assert not found.kept


@pytest.mark.parametrize(
    ("one", "line", "why"),
    [
        (
            Index(name="odd", unique=False, parts=(IndexPart(column="c"),), kind="FULLTEXT"),
            "FULLTEXT KEY `odd` (`c`)",
            "FULLTEXT",
        ),
        (
            Index(name="odd", unique=False, parts=(IndexPart(column="c"),), kind="SPATIAL"),
            "SPATIAL KEY `odd` (`c`)",
            "SPATIAL",
        ),
        (
            Index(name="odd", unique=False, parts=(IndexPart(column=None, expression="n + 1"),)),
            "KEY `odd` (((`n` + 1)))",
            "not stored",
        ),
        (index("odd", "v", unique=False), "KEY `odd` (`v`)", "not stored"),
    ],
)
def test_what_the_server_cannot_add_while_rows_are_written_stays(one, line, why):
    """Each stays where it is, and says why."""
    whole = of(one, lines=(line,))
    virtual = column("v", generated="VIRTUAL", generation_expression="n + 1")
    found = deferrable_indexes(replace(whole, columns=(*whole.columns, virtual)))
    assert not found.clauses
    assert why in found.kept["odd"]


def test_an_index_that_an_auto_increment_column_needs_stays():
    """And so do those in front of it, which would come back behind it."""
    given = {"n": column("n", auto_increment=True)}
    first = index("first", "c", unique=False)
    lines = ("KEY `first` (`c`)", "KEY `plain` (`n`)", "KEY `behind` (`c`)")
    behind = index("behind", "c", unique=False)
    found = deferrable_indexes(of(first, PLAIN, behind, lines=lines, **given))
    assert list(found.clauses) == ["behind"]
    assert "AUTO_INCREMENT" in found.kept["plain"]
    assert "before that one" in found.kept["first"]


def test_an_auto_increment_column_with_a_unique_index_needs_no_other():
    """The primary key begins with it."""
    given = {"id": column("id", auto_increment=True)}
    one = index("one", "id", "n", unique=False)
    found = deferrable_indexes(of(one, lines=("KEY `one` (`id`,`n`)",), **given))
    assert list(found.clauses) == ["one"]

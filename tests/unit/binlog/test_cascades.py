"""Which rows events may hold what the server has rolled back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.binlog import wire
from spirit_py.binlog.cascades import (
    BY_SQL_LAYER,
    STATEMENT_ENDS,
    UNCHECKED,
    Cascades,
    acting_parents,
)
from spirit_py.binlog.events import Doubt
from tests.kits.row_images import mapping

CHILD, PARENT, OTHER = (wire.name_key("s", name) for name in ("c", "p", "o"))
PLAIN, CASCADE = BY_SQL_LAYER, BY_SQL_LAYER | UNCHECKED


def judged(tables: tuple[bytes, ...], flags: int, kind: int = wire.DELETE_ROWS) -> Doubt:
    """Return what an event of the child is in a statement with these tables."""
    cascades = Cascades({("s", "c"): frozenset({PARENT})})
    for table in tables:
        cascades.table_map(table)
    return cascades.judge(("s", "c"), kind, flags)


@pytest.mark.parametrize(
    ("tables", "flags", "kind", "doubt"),
    [
        ((CHILD,), PLAIN, wire.DELETE_ROWS, Doubt.NONE),
        ((PARENT, CHILD), CASCADE, wire.DELETE_ROWS, Doubt.CASCADED),
        ((PARENT, CHILD), PLAIN, wire.UPDATE_ROWS, Doubt.CASCADED),
        ((PARENT, CHILD), PLAIN, wire.WRITE_ROWS, Doubt.BESIDE),
        ((OTHER, CHILD), PLAIN, wire.DELETE_ROWS, Doubt.BESIDE),
        ((CHILD,), CASCADE, wire.DELETE_ROWS, Doubt.CASCADED),
        ((PARENT, CHILD), UNCHECKED, wire.DELETE_ROWS, Doubt.NONE),
        ((PARENT, CHILD), 0, wire.DELETE_ROWS, Doubt.NONE),
    ],
    ids=[
        *("alone", "a cascade", "perhaps merged with one", "no cascade inserts", "another table"),
        *("checks off", "checks off, older server", "older server"),
    ],
)
def test_an_event_is_judged_by_its_flags_and_its_statement(tables, flags, kind, doubt):
    """The server adds rows of cascades to an event of the table that is open already."""
    assert judged(tables, flags, kind) is doubt


def test_a_table_that_refers_to_itself_is_in_doubt_alone() -> None:
    """Rows without children come first, and the event has no mark of the cascade."""
    cascades = Cascades({("s", "c"): frozenset({CHILD})})
    cascades.table_map(CHILD)
    assert cascades.judge(("s", "c"), wire.DELETE_ROWS, PLAIN) is Doubt.CASCADED
    assert cascades.judge(("s", "c"), wire.WRITE_ROWS, PLAIN) is Doubt.BESIDE


@pytest.mark.parametrize("kind", [wire.WRITE_ROWS, wire.UPDATE_ROWS])
def test_a_table_that_no_key_changes_is_in_no_doubt_alone(kind: int) -> None:
    """A session without foreign key checks has written it; beside others it may be a cascade."""
    cascades = Cascades()
    cascades.table_map(CHILD)
    assert cascades.judge(("s", "c"), kind, CASCADE | STATEMENT_ENDS) is Doubt.NONE
    assert not cascades.end()
    for table in (PARENT, CHILD):
        cascades.table_map(table)
    assert cascades.judge(("s", "c"), kind, CASCADE | STATEMENT_ENDS) is Doubt.CASCADED


def test_tables_are_those_of_one_statement_and_a_cascade_that_of_one_transaction() -> None:
    """Events of tables that are not followed count: the cascade may be in one of them."""
    cascades = Cascades()
    for table in (PARENT, CHILD):
        cascades.table_map(table)
    cascades.passed(CASCADE | STATEMENT_ENDS)
    cascades.table_map(CHILD)
    assert cascades.judge(("s", "c"), wire.DELETE_ROWS, PLAIN | STATEMENT_ENDS) is Doubt.NONE
    assert cascades.end()
    assert not cascades.end()


def test_parents_are_those_whose_keys_change_rows() -> None:
    """In other schemas too, with whatever names; RESTRICT and NO ACTION change nothing."""
    source = replace(
        mapping().source,
        schema="s",
        create_sql="CREATE TABLE `c` (\n  `id` int NOT NULL,\n"
        "  CONSTRAINT `a` FOREIGN KEY (`x`) REFERENCES `p` (`id`) ON DELETE CASCADE,\n"
        "  CONSTRAINT `b``)` FOREIGN KEY (`x`,`y (`) REFERENCES `d``b`.`q` (`id`, `k`)"
        " ON DELETE RESTRICT ON UPDATE SET NULL,\n"
        "  CONSTRAINT `d` FOREIGN KEY (`x`) REFERENCES `r` (`id`) ON DELETE RESTRICT,\n"
        "  CONSTRAINT `e` FOREIGN KEY (`x`) REFERENCES `t` (`id`),\n"
        "  CONSTRAINT `g` FOREIGN KEY (`x\ny`) REFERENCES `v` (`i\nd`) ON DELETE CASCADE,\n"
        "  CONSTRAINT `f` CHECK ((`x` <> _utf8mb4' FOREIGN KEY (`x`) REFERENCES `u` (`id`)"
        " ON DELETE CASCADE'))\n) ENGINE=InnoDB",
    )
    parents = {("s", "p"), ("d`b", "q"), ("s", "v")}
    assert acting_parents(source) == {wire.name_key(*one) for one in parents}

"""The query for the last key of a new table that an earlier run has filled (R17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spirit_py.chunk.chunk import KeyRange
from spirit_py.chunk.watermark import OpenEnd
from spirit_py.copier.copier import last_copied_key, last_key_sql
from tests.kits.chunks import bound, mapping, primary
from tests.kits.definitions import column

XY = primary("x", "y")
BOTH = mapping(primary("a", "b"), column("a"), column("b", ordinal=2))


class Answers:
    """Answers every query with the same rows."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def query(self, sql):
        """Return the rows."""
        return self.rows


def server(*rows) -> Any:
    """Return a session of a server that has these rows."""
    return Answers(*rows)


def with_target(base, **changes):
    """Return a mapping with another new table."""
    return replace(base, target=replace(base.target, **changes))


def test_the_key_is_read_from_the_end_of_its_index():
    """One row, from the end of the walk, without a sort."""
    assert last_key_sql(BOTH, KeyRange()) == (
        "SELECT `a`, `b` FROM `s`.`_t_new` FORCE INDEX (`PRIMARY`)"
        " WHERE TRUE ORDER BY `a` DESC, `b` DESC LIMIT 1"
    )


def test_of_a_lane_only_its_own_rows_are_looked_at():
    """Each range that is to be copied has a last key of its own, under the new names."""
    one = replace(
        with_target(BOTH, columns=(column("x"), column("y", ordinal=2)), indexes=(XY,)),
        new_key_columns=("x", "y"),
    )
    sql = last_key_sql(one, KeyRange(lower=bound(1, 2), upper=bound(3, 4)))
    assert (
        " WHERE ((`x` > 1) OR (`x` = 1 AND `y` > 2))"
        " AND ((`x` < 3) OR (`x` = 3 AND `y` <= 4)) ORDER BY `x` DESC, `y` DESC LIMIT 1"
    ) in sql


def test_a_descending_part_ends_at_its_smallest_value():
    """The end of a walk over (a, b DESC) is the largest a with the smallest b."""
    key = primary("a", "b", descending=("b",))
    sql = last_key_sql(mapping(key, column("a"), column("b", ordinal=2)), KeyRange())
    assert sql.endswith("ORDER BY `a` DESC, `b` LIMIT 1")


def test_a_renamed_key_is_read_by_its_new_name():
    """The new table's names count there."""
    named = replace(
        with_target(BOTH, columns=(column("x"), column("y", ordinal=2)), indexes=(XY,)),
        new_key_columns=("x", "y"),
    )
    assert "SELECT `x`, `y`" in last_key_sql(named, KeyRange())


def test_without_an_index_in_order_nothing_is_read():
    """A sort of the whole new table would take as long as the copy: nothing is dropped then."""
    turned = primary("b", "a")
    other = primary("a", "b", descending=("b",))
    for index in (turned, other, replace(primary("a", "b"), visible=False)):
        changed = with_target(BOTH, indexes=(index,))
        assert last_key_sql(changed, KeyRange()) == ""
        assert last_copied_key(server(), changed, KeyRange()) is OpenEnd.END


def test_a_key_of_another_type_is_not_read():
    """Its values would have to be turned back into those of the source."""
    wider = column("a", "bigint")
    changed = with_target(BOTH, columns=(wider, column("b", ordinal=2)))
    assert last_key_sql(changed, KeyRange()) == ""


def test_a_key_that_python_cannot_order_is_not_read():
    """With such keys nothing is dropped anyway."""
    text = column("a", "varchar", collation="utf8mb4_0900_ai_ci", charset="utf8mb4")
    assert last_key_sql(mapping(primary("a"), text), KeyRange()) == ""


def test_what_is_read_becomes_a_key():
    """An empty table has no last key."""
    assert last_copied_key(server((7, 9)), BOTH, KeyRange()) == (7, 9)
    assert last_copied_key(server(), BOTH, KeyRange()) is OpenEnd.BEGINNING

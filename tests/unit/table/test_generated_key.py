"""A key over stored generated columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.applier.ordered import convert
from spirit_py.errors import Refusal
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.unique_keys import without_computed
from tests.kits.definitions import column, index, table

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema

A, B = column("a"), column("b")


def computed(name: str, expression: str) -> Column:
    """Return a stored generated column."""
    return column(name, generated="STORED", generation_expression=expression)


def keyed(*columns: Column) -> TableSchema:
    """Return a table whose only key is g."""
    return table(*columns, index("PRIMARY", "g"))


def mapped(source: TableSchema, target: TableSchema, clauses: str = "FORCE") -> TableMapping:
    """Map source to target."""
    return build_mapping(source, target, alter_of("s", "t", clauses), "+00:00")


def test_a_generated_key_that_every_session_computes_alike_serves():
    """Its literals come from row images; it is never written."""
    both = keyed(A, B, computed("g", "(`a` + 1)"), computed("h", "(`b` + 1)"))
    mapping = mapped(both, both)
    assert mapping.key.columns == ("g",)
    assert mapping.insert_names == ("a", "b")
    assert [pair.old.name for pair in mapping.key_pairs] == ["g"]


def test_it_stays_compared_where_other_generated_columns_are_not():
    """With --recompute-generated, and in reverse replication, rows are still known by it."""
    both = keyed(A, B, computed("g", "(`a` + 1)"), computed("h", "(`b` + 1)"))
    left = without_computed(mapped(both, both))
    assert [pair.old.name for pair in left.computed] == ["g"]
    assert left.key_pairs == left.computed


@pytest.mark.parametrize(
    ("target", "clauses"),
    [
        (keyed(column("a", "bigint"), B, computed("g", "(`a` + 1)")), "MODIFY a BIGINT"),
        (keyed(A, B, computed("g", "(`a` + 2)")), "MODIFY g INT AS (a + 2) STORED"),
        (keyed(A, B, computed("g", "(`a` + 1)")), "DROP g, ADD g INT AS (a + 1) STORED"),
    ],
    ids=["its column changes", "its expression changes", "another one of its name"],
)
def test_one_that_is_computed_otherwise_is_refused(target, clauses):
    """A literal of the old value would not find the new row."""
    with pytest.raises(Refusal, match="no key identifies") as refused:
        mapped(keyed(A, B, computed("g", "(`a` + 1)")), target, clauses)
    assert "may compute it differently" in refused.value.details[0]


def test_one_that_depends_on_the_session_is_refused():
    """Sessions of other settings have stored other values than this program computes."""
    both = keyed(A, B, computed("g", "(`a` / `b`)"))
    with pytest.raises(Refusal, match="no key identifies"):
        mapped(both, both)


def test_staged_keys_include_generated_ones():
    """A state of the source deletes by the converted key, generated or not."""

    class Noting:
        """Notes statements."""

        warning_count = 0

        def __init__(self) -> None:
            self.said: list[str] = []

        def execute(self, sql: str) -> int:
            """Note one."""
            self.said.append(sql)
            return 0

    session = Noting()
    both = keyed(A, B, computed("g", "(`a` + 1)"))
    convert(session, mapped(both, both))  # type: ignore[arg-type]
    assert any("SELECT `_spirit_py_number`, `g` FROM" in sql for sql in session.said)

"""What a plan says of each column: what happens to the values, where that is not plain."""

from __future__ import annotations

from dataclasses import replace

from spirit_py.plan.columns import columns_of
from spirit_py.table.mapping import ColumnPair
from tests.kits.definitions import column, mapping

ID = (column("id"), column("id"))


def noted(old, new):
    """Return what happens to one column, and the note."""
    made = mapping(ID, (old, new))
    found = next(one for one in columns_of(made) if one.new == new.name)
    return found.change, found.note


def test_a_changed_default_is_named():
    """The diff has it, too; the list of columns alone must be enough."""
    old, new = column("s", "varchar(9)", default="x"), column("s", "varchar(9)", default="y")
    assert noted(old, new) == ("changed", "default 'x' -> 'y'")


def test_a_converted_value_that_does_not_fit_stops_the_run():
    """As everywhere (R10)."""
    old, new = column("s", "varchar(40)"), column("s", "char(10)")
    made = mapping(ID)
    pair = ColumnPair(old=old, new=new, converted=True)
    target = replace(made.target, columns=(*made.target.columns, new))
    found = columns_of(replace(made, target=target, pairs=(*made.pairs, pair)))
    change, note = next((one.change, one.note) for one in found if one.new == "s")
    assert change == "converted"
    assert "a value that does not fit stops the run" in note


def test_a_value_that_is_rounded_is_noted():
    """The server rounds it without an error, as a native ALTER does."""
    old, new = column("at", "datetime(6)"), column("at", "datetime")
    made = mapping(ID)
    target = replace(made.target, columns=(*made.target.columns, new))
    pair = ColumnPair(old=old, new=new, converted=True)
    found = columns_of(replace(made, target=target, pairs=(*made.pairs, pair)))
    (note,) = [one.note for one in found if one.new == "at"]
    assert note.endswith("one that is more exact is rounded or cut")


def test_another_expression_is_a_change():
    """The values of a generated column are computed anew."""
    old = column("g", generated="STORED", generation_expression="(`id` + 1)")
    made = mapping(ID)
    for expression, change in (("(`id` + 1)", "kept"), ("(`id` + 2)", "changed")):
        new = replace(old, generation_expression=expression)
        both = replace(
            made,
            source=replace(made.source, columns=(*made.source.columns, old)),
            target=replace(made.target, columns=(*made.target.columns, new)),
        )
        (found,) = [one for one in columns_of(both) if one.new == "g"]
        assert found.change == change

"""Which columns of two tables are compared, by which key, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.compare.column_matching import match
from spirit_py.errors import Refusal
from tests.kits.definitions import column, index, table

if TYPE_CHECKING:
    from spirit_py.table.schema import TableSchema

ID = column("id")
A = column("a")
PRIMARY = index("PRIMARY", "id")


def pairs(matching):
    """Return source name and target name of what is compared."""
    return [(pair.old.name, pair.new.name) for pair in matching.mapping.pairs]


def test_columns_go_together_by_name():
    """Order and case of the names do not matter; nothing is left out."""
    matching = match(table(ID, A, column("B")), table(column("b"), ID, A, name="u"))
    assert pairs(matching) == [("B", "b"), ("id", "id"), ("a", "a")]
    assert not list(matching.warnings())
    assert matching.mapping.key.name == "PRIMARY"


def test_a_renamed_column_is_paired_by_map():
    """--map pairs columns of different names, whatever their case."""
    matching = match(table(ID, A), table(ID, column("n")), renames=[("A", "N")])
    assert pairs(matching) == [("id", "id"), ("a", "n")]
    assert not list(matching.warnings())


def test_two_columns_that_swapped_their_names():
    """Each goes with the other's name."""
    both = table(ID, A, column("b"))
    assert pairs(match(both, both, renames=[("a", "b"), ("b", "a")])) == [
        ("id", "id"),
        ("b", "a"),
        ("a", "b"),
    ]


def test_a_name_that_is_taken_by_a_rename():
    """The source's column of that name has no partner then, and that is said."""
    matching = match(table(ID, A, column("b")), table(ID, column("b")), renames=[("a", "b")])
    assert pairs(matching) == [("id", "id"), ("a", "b")]
    assert matching.only_source == ("b",)


def test_columns_of_one_side_are_said():
    """What only one table has is not compared; a rename is suggested."""
    matching = match(table(ID, A), table(ID, column("z"), name="u"))
    assert pairs(matching) == [("id", "id")]
    assert list(matching.warnings()) == [
        "not compared: only s.t has a",
        "not compared: only s.u has z",
        "a column with another name in the target is compared with --map a=z",
    ]


@pytest.mark.parametrize(
    ("ignored", "renames"), [(["a"], []), (["A"], []), (["n"], [("a", "n")]), (["a"], [("a", "n")])]
)
def test_ignored_columns_are_said(ignored, renames):
    """A column is left out by the name that either table has for it."""
    target = table(ID, column("n") if renames else A)
    matching = match(table(ID, A), target, ignored=ignored, renames=renames)
    assert pairs(matching) == [("id", "id")]
    assert list(matching.warnings()) == [
        f"not compared, as --ignore-column asks: {ignored[0].lower()}"
    ]


def test_columns_computed_alike_are_not_read():
    """A generated column with the same expression follows from what is compared."""
    made = column("g", generated="VIRTUAL", generation_expression="`a` + 1")
    matching = match(table(ID, A, made), table(ID, A, made))
    assert pairs(matching) == [("id", "id"), ("a", "a")]
    assert matching.computed == ("g",)


@pytest.mark.parametrize(
    ("change", "ignored"),
    [
        ({"generation_expression": "`a` + 2"}, []),
        ({"column_type": "bigint", "data_type": "bigint"}, []),
        ({"generated": "", "generation_expression": ""}, []),
        ({}, ["a"]),
    ],
)
def test_columns_computed_otherwise_are_read(change, ignored):
    """Another expression or type, a stored value, or a base column left out: it is compared."""
    made = column("g", generated="VIRTUAL", generation_expression="`a` + 1")
    matching = match(table(ID, A, made), table(ID, A, replace(made, **change)), ignored=ignored)
    assert ("g", "g") in pairs(matching)
    assert not matching.computed


@pytest.mark.parametrize("generated", ["STORED", "VIRTUAL"])
def test_what_is_stored_and_not_compared_is_told(generated):
    """Computed by one expression, of columns of other types: a stored value may be another."""
    made = column("g", generated=generated, generation_expression="`a` + 1")
    wide = replace(A, column_type="bigint", data_type="bigint")
    matching = match(table(ID, A, made), table(ID, wide, made))
    assert matching.computed == ("g",)
    told = "".join(matching.warnings())
    assert ("not compared: g, because" in told) == (generated == "STORED")


def test_a_key_of_other_names():
    """The key is followed through --map."""
    target = table(column("nr"), A, index("PRIMARY", "nr"))
    matching = match(table(ID, A), target, renames=[("id", "nr")])
    assert matching.mapping.new_key_columns == ("nr",)


REFUSED: dict[str, tuple[TableSchema, TableSchema, dict[str, Any], str]] = {
    "no key": (table(ID, A, index("x", "id", unique=False)), table(ID, A), {}, "no primary key"),
    "no key there": (table(ID, A), table(ID, A, index("x", "a")), {}, "x (a)"),
    "nullable key": (
        table(ID, A, index("u", "id")),
        table(column("id", nullable=True), A, index("u", "id")),
        {},
        "no primary key",
    ),
    "key left out": (table(ID, A), table(ID, A), {"ignored": ["id"]}, "PRIMARY (id)"),
    "types": (
        table(ID, column("a", "varchar(3)")),
        table(ID, column("a", "bit(3)")),
        {},
        "varchar",
    ),
    "nothing": (
        table(ID, PRIMARY),
        table(A, index("PRIMARY", "a"), name="u"),
        {},
        "no column in common",
    ),
    "map, source": (table(ID), table(ID), {"renames": [("x", "id")]}, "s.t has no column x"),
    "map, target": (table(ID), table(ID), {"renames": [("id", "x")]}, "s.t has no column x"),
    "map, twice": (
        table(ID, A),
        table(ID, A),
        {"renames": [("id", "a"), ("a", "a")]},
        "names a column twice",
    ),
    "map, again": (
        table(ID, A),
        table(ID, A),
        {"renames": [("id", "a"), ("id", "id")]},
        "names a column twice",
    ),
    "ignored": (table(ID), table(ID), {"ignored": ["x"]}, "neither table has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_refused(name):
    """Every reason is named, with the option that helps."""
    source, target, options, part = REFUSED[name]
    with pytest.raises(Refusal) as raised:
        match(source, target, **options)
    assert part in " ".join((raised.value.message, *raised.value.details))
    assert raised.value.hint


def test_a_timestamp_compared_with_another_type():
    """The server's time zone is needed, and the key must hold no TIMESTAMP itself."""
    at = column("at", "timestamp")
    matching = match(table(ID, at), table(ID, column("at", "datetime")), time_zone="Europe/Berlin")
    assert matching.mapping.time_zone == "Europe/Berlin"
    text = match(
        table(ID, column("b", "varchar(40)")),
        table(ID, column("b", "datetime")),
        time_zone="Europe/Berlin",
    )
    assert text.mapping.time_zone == "Europe/Berlin"
    key = index("PRIMARY", "at")
    both = table(at, column("b", "timestamp"), key), table(at, column("b", "datetime"), key)
    assert match(*both, time_zone="+09:00").mapping.time_zone == "+09:00"
    with pytest.raises(Refusal, match="where the clock is set back"):
        match(*both, time_zone="Europe/Berlin")


def test_what_a_repair_computes_is_in_the_servers_zone():
    """Rows that are written need the zone of their server; rows that are read need none."""
    at, day = column("at", "timestamp"), column("g", "date", generated="STORED")
    key = index("PRIMARY", "at")
    both = (table(ID, at, day), table(ID, at, day))
    assert match(*both).mapping.time_zone == ""
    written = match(*both, written_in="Europe/Berlin").mapping
    assert written.time_zone == "Europe/Berlin"
    assert [pair.by_instant for pair in written.pairs] == [False, True]
    fixed = match(*both, written_in="+09:00").mapping
    assert (fixed.time_zone, fixed.pairs[1].by_instant) == ("+09:00", False)
    keyed = (table(at, day, key), table(at, day, key))
    assert match(*keyed, written_in="+09:00").mapping.time_zone == "+09:00"
    assert match(*keyed).mapping.time_zone == ""
    with pytest.raises(Refusal, match="clock is set back"):
        match(*keyed, written_in="SYSTEM")


def test_instants_are_kept_beside_a_converted_one():
    """In a zone that repeats an hour the text of a TIMESTAMP does not tell its instant."""
    x, y = column("x", "timestamp"), column("y", "timestamp")
    to = table(ID, column("x", "datetime"), y)
    mapping = match(table(ID, x, y), to, time_zone="Europe/Berlin").mapping
    assert [pair.by_instant for pair in mapping.pairs] == [False, False, True]

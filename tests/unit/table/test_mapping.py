"""Which column becomes which, by which key rows are known, and what the source guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.unique_keys import walkable
from tests.kits.definitions import column, index, table

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema

ID = column("id")


def build(source: TableSchema, target: TableSchema, clauses: str) -> TableMapping:
    """Map ``source`` to ``target`` as the clauses say."""
    return build_mapping(source, target, alter_of("s", "t", clauses), "Europe/Berlin")


def carried(mapping: TableMapping) -> dict[str, str]:
    """Return new name to old name of the carried columns, in the order of the new table."""
    return {pair.new.name: pair.old.name for pair in mapping.pairs}


def test_kept_and_added_columns():
    """A kept column keeps its data, an added one has none."""
    a = column("a")
    mapping = build(table(ID, a), table(ID, column("c", nullable=True), a), "ADD c INT AFTER id")
    assert carried(mapping) == {"id": "id", "a": "a"}
    assert not mapping.converted


def test_a_dropped_column_goes_nowhere():
    """A dropped column goes nowhere."""
    mapping = build(table(ID, column("a")), table(ID), "DROP a")
    assert carried(mapping) == {"id": "id"}


@pytest.mark.parametrize("clause", ["CHANGE A b INT", "RENAME COLUMN a TO b", "CHANGE `a` b INT"])
def test_a_renamed_column_keeps_its_data(clause):
    """A renamed column keeps its data, whatever the case of its old name in the statement."""
    mapping = build(table(ID, column("a")), table(ID, column("b")), clause)
    assert carried(mapping) == {"id": "id", "b": "a"}


def test_columns_that_swap_names_keep_their_data():
    """Two columns that swap their names keep each its data."""
    source = table(ID, column("a", "bigint"), column("b", "int"))
    target = table(ID, column("b", "bigint"), column("a", "int"))
    mapping = build(source, target, "RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    assert carried(mapping) == {"id": "id", "b": "a", "a": "b"}


def test_names_move_on_along_a_chain_of_changes():
    """Names move on along a chain; each old name is one before the statement."""
    source = table(ID, column("a"), column("b"), column("c"))
    target = table(ID, column("b"), column("c"), column("d"))
    mapping = build(source, target, "CHANGE a b INT, CHANGE b c INT, CHANGE c d INT")
    assert carried(mapping) == {"id": "id", "b": "a", "c": "b", "d": "c"}


def test_dropped_and_added_again():
    """A column that is dropped and added again under its name is a new one, without the data."""
    source = table(ID, column("a"))
    mapping = build(source, table(ID, column("a", nullable=True)), "DROP a, ADD a INT")
    assert carried(mapping) == {"id": "id"}


def test_renamed_onto_a_dropped_name():
    """A column may take the name of one that is dropped in the same statement."""
    source = table(ID, column("a"), column("b", "bigint"))
    mapping = build(source, table(ID, column("a", "bigint")), "DROP a, RENAME COLUMN b TO a")
    assert carried(mapping) == {"id": "id", "a": "b"}


def test_case_of_a_name_changes():
    """A name that only changes its case is the same column."""
    mapping = build(table(ID, column("a")), table(ID, column("A")), "CHANGE a A INT")
    assert carried(mapping) == {"id": "id", "A": "a"}


def test_unexplained_columns_are_refused():
    """Where definition and statement do not fit together nothing is guessed."""
    with pytest.raises(Refusal, match="cannot be followed"):
        build(table(ID, column("a")), table(ID), "ADD x INT")
    with pytest.raises(Refusal, match="neither from"):
        build(table(ID), table(ID, column("z", nullable=True)), "DROP y")


def test_a_generated_column_of_the_new_table_is_not_written():
    """A generated column of the new table is not written; one that becomes plain keeps values."""
    made = column("g", generated="STORED", generation_expression="(`id` + 1)")
    plain = column("g")
    assert carried(build(table(ID, made), table(ID, made), "FORCE")) == {"id": "id"}
    assert carried(build(table(ID, plain), table(ID, made), "MODIFY g INT AS (id+1)")) == {
        "id": "id"
    }
    mapping = build(table(ID, made), table(ID, plain), "MODIFY g INT")
    assert carried(mapping) == {"id": "id", "g": "g"}


def test_a_new_not_null_column_gets_the_implicit_default():
    """A new NOT NULL column without a default gets the type's implicit value by name."""
    new = (
        column("n", "int"),
        column("e", "enum('x','y')"),
        column("d", "datetime(3)"),
        column("j", "json"),
        column("given", "int", default="4"),
        column("computed", "int", extra="DEFAULT_GENERATED"),
        column("maybe", "int", nullable=True),
        column("made", "int", generated="VIRTUAL"),
        column("number", "int", auto_increment=True),
    )
    names = ", ".join(f"ADD {c.name} INT" for c in new)
    mapping = build(table(ID), table(ID, *new), names)
    assert {fill.column.name: fill.sql for fill in mapping.fills} == {
        "n": "0",
        "e": "1",
        "d": "'0000-00-00 00:00:00'",
        "j": "'null'",
    }
    assert mapping.insert_names == ("id", "n", "e", "d", "j")
    fills = tuple(fill.sql for fill in mapping.fills)
    assert fills == ("0", "1", "'0000-00-00 00:00:00'", "'null'")
    assert not mapping.converted


@pytest.mark.parametrize("kind", ["point", "geometry", "vector(3)"])
def test_a_type_without_an_implicit_value_is_refused(kind):
    """A type without an implicit default is refused when rows would need one."""
    with pytest.raises(Refusal, match="no value"):
        build(table(ID), table(ID, column("p", kind)), "ADD p POINT NOT NULL")


def keyed(*indexes, columns=None) -> TableSchema:
    """Return a table with these indexes over ``id``, ``u`` and ``v``."""
    return table(*(columns or (ID, column("u"), column("v"))), *indexes)


def test_primary_key_is_preferred():
    """Of several usable keys the primary one is taken."""
    both = keyed(index("a_u", "u"), index("PRIMARY", "id"))
    mapping = build(both, both, "FORCE")
    assert (mapping.key.name, mapping.new_key_columns) == ("PRIMARY", ("id",))


def test_a_replaced_primary_key_needs_a_unique_key_that_stays():
    """A primary key that is replaced is supported through a unique key that stays."""
    source = keyed(index("PRIMARY", "id"), index("u", "u"))
    target = keyed(index("PRIMARY", "v"), index("u", "u"))
    mapping = build(source, target, "DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
    assert (mapping.key.name, mapping.new_key_columns) == ("u", ("u",))
    assert [i.name for i in mapping.tightened] == ["PRIMARY"]


def test_the_same_columns_under_another_name():
    """A key counts by its columns, not by its name, and their order may differ."""
    source = keyed(index("PRIMARY", "u", "v"))
    target = keyed(index("PRIMARY", "id"), index("other", "v", "u"))
    mapping = build(source, target, "DROP PRIMARY KEY, ADD PRIMARY KEY (id), ADD UNIQUE (v, u)")
    assert (mapping.key.name, mapping.new_key_columns) == ("PRIMARY", ("u", "v"))


def test_a_renamed_key_column_is_followed():
    """A renamed key column is followed."""
    source = keyed(index("PRIMARY", "id", "u"))
    columns = (column("key_id"), column("u"), column("v"))
    target = keyed(index("PRIMARY", "key_id", "u"), columns=columns)
    mapping = build(source, target, "RENAME COLUMN id TO key_id")
    assert (mapping.key.columns, mapping.new_key_columns) == (("id", "u"), ("key_id", "u"))


def test_names_of_key_columns_swapped():
    """Key columns that swap names are compared by their data, not by their names."""
    source = keyed(index("PRIMARY", "u"), index("other", "id"))
    target = keyed(index("PRIMARY", "v"), index("other", "id"))
    mapping = build(source, target, "RENAME COLUMN u TO v, RENAME COLUMN v TO u")
    assert (mapping.key.name, mapping.new_key_columns) == ("PRIMARY", ("v",))
    trap = keyed(index("PRIMARY", "u"), index("other", "id"))
    assert build(source, trap, "RENAME COLUMN u TO v, RENAME COLUMN v TO u").key.name == "other"


@pytest.mark.parametrize(
    "target",
    [
        keyed(index("PRIMARY", "u", "id")),
        keyed(index("PRIMARY", "u"), index("k", "id", visible=False)),
        keyed(index("k", "id", unique=False)),
        keyed(index("k", "id(3)")),
        keyed(index("k", "(id)")),
        keyed(index("k", "id", visible=False)),
        table(column("id", generated="STORED"), column("u"), column("v"), index("k", "id")),
    ],
)
def test_without_a_usable_key_the_migration_is_refused(target):
    """Without an index that begins with the key, or without any unique key, it is refused."""
    with pytest.raises(Refusal, match="no key identifies") as refused:
        build(keyed(index("PRIMARY", "id")), target, "FORCE")
    assert "UNIQUE" in refused.value.hint


@pytest.mark.parametrize("nullable", ["u", "v"])
def test_nullable_unique_key_is_none(nullable):
    """A unique key over a nullable column does not identify rows."""
    columns = tuple(column(name, nullable=name == nullable) for name in ("id", "u", "v"))
    with pytest.raises(Refusal, match="no key"):
        build(
            keyed(index("k", "u", "v"), columns=columns),
            keyed(index("k", "u", "v"), columns=columns),
            "FORCE",
        )


def test_invisible_key_is_not_used():
    """A key that the optimizer may not use is none to copy by."""
    both = keyed(index("a", "u", visible=False), index("b", "id", "v"))
    assert build(both, both, "FORCE").key.name == "b"
    hidden = keyed(index("a", "u", visible=False))
    with pytest.raises(Refusal, match="no key"):
        build(hidden, keyed(index("a", "u")), "ALTER INDEX a VISIBLE")


def test_comparable_key_is_preferred():
    """Beside the primary key, one that Python compares as the server does is taken first."""
    columns = (column("id", "varchar(9)"), column("u"), column("v"))
    both = keyed(index("a", "id"), index("u", "u"), columns=columns)
    assert build(both, both, "FORCE").key.name == "u"
    clustered = keyed(index("PRIMARY", "id"), index("u", "u"), columns=columns)
    assert build(clustered, clustered, "FORCE").key.name == "PRIMARY"


def test_key_whose_order_stays_is_preferred():
    """A key whose collation changes is only taken where there is no other."""
    old = (column("id", "varchar(9)"), column("u", "varchar(9)"), column("v"))
    other = {"collation": "utf8mb4_bin", "pad_space": True}
    new = (column("id", "varchar(9)", **other), column("u", "varchar(9)"), column("v"))
    keys = (index("PRIMARY", "id"), index("u", "u"))
    mapping = build(keyed(*keys, columns=old), keyed(*keys, columns=new), "FORCE")
    assert mapping.key.name == "u"
    assert mapping.key_order_kept
    alone = build(keyed(keys[0], columns=old), keyed(keys[0], columns=new), "FORCE")
    assert alone.key.name == "PRIMARY"
    assert not alone.key_order_kept


def test_key_of_another_type_is_refused():
    """A key column that becomes another kind of value does not find its rows again."""
    source = table(column("id", "varchar(9)"), index("PRIMARY", "id"))
    target = table(column("id", "int"), index("PRIMARY", "id"))
    with pytest.raises(Refusal, match="no key"):
        build(source, target, "MODIFY id INT")


def test_a_widened_integer_key_still_finds_its_rows():
    """A wider integer key still finds its rows."""
    target = table(column("id", "bigint"), index("PRIMARY", "id"))
    mapping = build(table(ID), target, "MODIFY id BIGINT")
    assert not mapping.converted
    assert mapping.key_order_kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("timestamp", "datetime"),
        ("datetime", "timestamp"),
        ("timestamp", "varchar(30)"),
        ("varchar(30)", "datetime"),
        ("blob", "date"),
        ("enum('x')", "time"),
    ],
)
def test_a_timestamp_and_a_text_are_converted_in_the_servers_zone(old, new):
    """A TIMESTAMP on one side only, and a text, are converted in the server's time zone."""
    mapping = build(table(ID, column("a", old)), table(ID, column("a", new)), "MODIFY a DATETIME")
    assert mapping.time_zone == "Europe/Berlin"
    assert mapping.converted


def test_between_timestamps_no_time_zone_is_needed():
    """TIMESTAMP to a more precise TIMESTAMP is no conversion."""
    source = table(ID, column("a", "timestamp"))
    mapping = build(source, table(ID, column("a", "timestamp(6)")), "MODIFY a TIMESTAMP(6)")
    assert (mapping.time_zone, mapping.converted) == ("", False)


def test_timestamp_in_the_key_is_refused():
    """A TIMESTAMP in the key cannot be read in two time zones at once."""
    ts = column("ts", "timestamp")
    source = table(ts, column("a", "timestamp"), index("PRIMARY", "ts"))
    target = table(ts, column("a", "datetime"), index("PRIMARY", "ts"))
    with pytest.raises(Refusal, match="clock is set back"):
        build(source, target, "MODIFY a DATETIME")


CI = {"collation": "utf8mb4_0900_ai_ci"}
BIN = {"collation": "utf8mb4_bin", "pad_space": True}


def tightened(
    old: tuple, new: tuple, clauses: str = "FORCE", old_columns=None, new_columns=None
) -> list[str]:
    """Return the names of the tightened keys beside the primary one."""
    columns = old_columns or (column("u", "varchar(9)", **CI), column("v", "int", nullable=True))
    source = table(ID, *columns, index("PRIMARY", "id"), *old)
    target = table(ID, *(new_columns or columns), index("PRIMARY", "id"), *new)
    return [i.name for i in build(source, target, clauses).tightened]


def test_unchanged_unique_keys_are_guaranteed():
    """What the source enforces needs no look."""
    keys = (index("a", "u", "v"), index("b", "u(3)"), index("c", "(lower(`u`))"))
    assert tightened(keys, keys) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((), index("n", "u")),
        ((index("o", "u", unique=False),), index("n", "u")),
        ((index("o", "u", "v"),), index("n", "u")),
        ((index("o", "u"),), index("n", "u(3)")),
        ((index("o", "u(5)"),), index("n", "u(3)")),
        ((index("o", "u"),), index("n", "(lower(`u`))")),
        ((index("o", "(upper(`u`))"),), index("n", "(lower(`u`))")),
    ],
)
def test_a_key_that_rows_may_violate_is_named(old, new):
    """A unique key that rows of the source may violate is named."""
    assert tightened(old, (new,)) == ["n"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (index("o", "u"), index("n", "v", "u")),
        (index("o", "u(3)"), index("n", "u(5)")),
        (index("o", "u(3)"), index("n", "u")),
        (index("o", "u"), index("n", "id", "u")),
        (index("o", "(lower(`u`))"), index("n", "(lower(`u`))", "v")),
    ],
)
def test_wider_keys_are_guaranteed(old, new):
    """A key that only parts more rows than one of the source cannot be violated."""
    assert tightened((old,), (new,)) == []


def test_key_with_the_primary_key_in_it_is_guaranteed():
    """A unique key that contains the source's primary key cannot be violated."""
    assert tightened((), (index("n", "v", "id"),)) == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (column("u", "varchar(9)", **BIN), column("u", "varchar(9)", **CI), True),
        (column("u", "varchar(9)", **CI), column("u", "varchar(9)", **BIN), True),
        (column("u", "varchar(9)", **CI), column("u", "varchar(99)", **CI), False),
        (column("u", "varchar(9)", **CI), column("u", "char(9)", **CI), True),
        (column("u", "varchar(9)", **BIN), column("u", "char(9)", **BIN), False),
        (column("u", "varbinary(9)"), column("u", "binary(9)"), True),
        (column("u", "binary(9)"), column("u", "varbinary(9)"), False),
        (column("u", "int"), column("u", "bigint"), False),
        (column("u", "bigint"), column("u", "int"), False),
        (column("u", "int"), column("u", "int unsigned"), False),
        (column("u", "varchar(100)", **CI), column("u", "varchar(50)", **CI), False),
        (column("u", "varchar(100)", **BIN), column("u", "varchar(50)", **CI), True),
        (column("u", "varchar(100)", **BIN), column("u", "char(50)", **BIN), False),
        (column("u", "varchar(100)", **CI), column("u", "char(50)", **CI), True),
        (column("u", "varbinary(9)"), column("u", "varbinary(5)"), False),
        (column("u", "varbinary(9)"), column("u", "binary(5)"), True),
        (column("u", "binary(9)"), column("u", "binary(5)"), False),
        (column("u", "decimal(9,2)"), column("u", "decimal(4,2)"), False),
        (column("u", "decimal(9,2)"), column("u", "decimal(9,0)"), True),
        (column("u", "datetime(6)"), column("u", "datetime(3)"), True),
        (column("u", "datetime(3)"), column("u", "datetime(6)"), False),
        (column("u", "decimal(5,2)"), column("u", "decimal(5,1)"), True),
        (column("u", "enum('a','b')"), column("u", "enum('a','b','c')"), False),
    ],
)
def test_a_key_whose_values_may_become_equal_is_named(old, new, named):
    """A key over a column whose values may become equal is named, and no other."""
    key = (index("k", "u"),)
    found = tightened(key, key, old_columns=(old,), new_columns=(new,))
    assert bool(found) is named


@pytest.mark.parametrize(
    ("old", "new", "there", "found"),
    [
        (column("u"), column("u"), index("k", "u", "id", unique=False), True),
        (column("u"), column("u"), index("k", "id", "u", unique=False), False),
        (column("u", "varchar(9)", **CI), column("u", "varchar(9)", **CI), index("k", "u"), True),
        (column("u", "varchar(9)", **BIN), column("u", "varchar(9)", **CI), index("k", "u"), False),
        (column("u", "varchar(9)"), column("u", "varchar(9)"), index("k", "u(3)"), False),
        (column("u", "decimal(5,2)"), column("u", "decimal(5,1)"), index("k", "u"), False),
        (column("u", "timestamp"), column("u", "timestamp"), index("k", "u"), False),
        (column("u", "double"), column("u", "double"), index("k", "u"), False),
        (column("u"), column("u"), index("k", "(`u` + 1)"), False),
    ],
)
def test_index_by_whose_ranges_duplicates_are_searched(old, new, there, found):
    """Rows that the new key takes for equal must be in one range of it."""
    source = table(ID, old, index("PRIMARY", "id"), there)
    target = table(ID, new, index("PRIMARY", "id"), index("n", "u"))
    mapping = build(source, target, "FORCE")
    walk = walkable(source, target.indexes[-1], mapping.pairs)
    assert (walk is not None and (walk.name, walk.columns) == ("k", ("u",))) is found


def made(name: str, expression: str, kind: str = "int", **more: Any) -> Column:
    """Return a generated column."""
    more = {"nullable": True, "generated": "VIRTUAL"} | more
    return column(name, kind, generation_expression=expression, **more)


V, TS, FIXED = column("v"), column("ts", "timestamp"), column("f", "char(5)", **BIN)
OVER = made("u", "(`w` + 1)")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((V, made("u", "`v`")), (V, made("u", "(`v` DIV 10)"))),
        ((V, made("u", "`v`")), (V, made("u", "`v`", "smallint"))),
        ((V, made("u", "`v`", "text", **BIN)), (V, made("u", "`v`", "text", **CI))),
        ((V, made("w", "`v`"), OVER), (V, made("w", "-(`v`)"), OVER)),
        ((V, made("u", "`v`")), (column("v", "bigint"), made("u", "`v`"))),
        ((V, made("u", "`v`")), (V, column("u"))),
        ((TS, made("u", "cast(`ts` as date)", "date")),) * 2,
        ((TS, made("w", "`ts`", "date"), made("u", "`w`")),) * 2,
        ((V, made("u", "(`v` / 7)", "decimal(9,2)")),) * 2,
        ((V, made("u", "week(`v`)")),) * 2,
        ((FIXED, made("u", "lower(`f`)", "varchar(9)")),) * 2,
    ],
)  # fmt: skip
def test_a_key_that_is_computed_otherwise(old, new):
    """What the new table computes anew, in another way or with other settings, is no guarantee."""
    clauses = "DROP u, ADD u INT" if not new[-1].generated else "FORCE"
    columns = {"old_columns": old, "new_columns": new}
    assert tightened((index("k", "u"),), (index("k", "u"),), clauses, **columns) == ["k"]
    part = (index("k", "(`u` + 1)"),)
    assert tightened(part, part, clauses, **columns) == ["k"]


@pytest.mark.parametrize(
    "expression",
    [
        "(`v` % 10)",
        "(case when (`v` > 5) then 1 else NULL end)",
        "json_extract(`v`,_utf8mb4\\'$.a.now\\')",
        "cast(json_extract(`v`,_utf8mb4'$.a') as unsigned array)",
    ],
)
def test_a_key_that_is_computed_alike(expression):
    """A computation that no setting changes keeps the guarantee, and so no search is needed."""
    columns = (V, made("u", expression))
    for key in (index("k", "u"), index("k", f"({expression})")):
        assert tightened((key,), (key,), old_columns=columns, new_columns=columns) == []


def test_column_dropped_from_a_key():
    """Dropping a column leaves a narrower key, which rows may violate."""
    old = (column("u", "varchar(9)"), column("v"))
    found = tightened((index("k", "u", "v"),), (index("k", "u"),), "DROP v", old, old[:1])
    assert found == ["k"]


def test_a_new_auto_increment_key_cannot_be_violated():
    """A new AUTO_INCREMENT column numbers rows afresh and cannot be violated."""
    source = table(ID, index("u", "id"))
    target = table(ID, column("pk", auto_increment=True), index("u", "id"), index("PRIMARY", "pk"))
    mapping = build(source, target, "ADD pk INT AUTO_INCREMENT PRIMARY KEY")
    assert mapping.tightened == ()
    assert mapping.key.name == "u"


def test_an_expression_over_a_changed_column_is_another_key():
    """The same expression over a changed column is another key."""
    old = (column("u", "varchar(9)", **CI),)
    new = (column("u", "varchar(9)", **BIN),)
    keys = (index("k", "(lower(`u`))"),)
    assert tightened(keys, keys, "FORCE", old, new) == ["k"]


def test_a_conversion_by_text_is_in_what_is_selected():
    """A conversion by text is in what is selected, from whichever table; fills follow."""
    source = table(ID, column("f`x", "float"))
    target = table(ID, column("f`x", "varchar(40)"), column("n"))
    mapping = build(source, target, "MODIFY `f``x` VARCHAR(40), ADD n INT NOT NULL")
    assert mapping.insert_names == ("id", "f`x", "n")
    assert mapping.select_expressions == ("`id`", "CAST(`f``x` AS CHAR)", "0")
    assert mapping.pairs[1].value_from("`c0`") == "CAST(`c0` AS CHAR)"
    assert mapping.pairs[0].value_from("`c0`") == "`c0`"


@pytest.mark.parametrize(
    ("new", "selected"),
    [
        ("set('','q')", "CAST(`s` AS UNSIGNED)"),
        ("set('','q','r')", "CAST(`s` AS UNSIGNED)"),
        # What the server converts goes by the text, as in a native ALTER.
        ("set('q','')", "`s`"),
    ],
)
def test_a_set_with_an_empty_member_is_carried_by_its_number(new, selected):
    """Its text is that of the empty set too, and a SELECT would carry the text."""
    charset = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}
    old = column("s", "set('','q')", members=("", "q"), **charset)
    members = tuple(new.removeprefix("set('").removesuffix("')").split("','"))
    made = build(
        table(ID, old), table(ID, column("s", new, members=members, **charset)), f"MODIFY s {new}"
    )
    assert made.select_expressions == ("`id`", selected)


@pytest.mark.parametrize(
    ("old", "new", "selected"),
    [
        (
            ("enum", "0", "1", "2"),
            ("enum", "0", "1"),
            "CASE CAST(`e` AS UNSIGNED) WHEN 0 THEN '00' WHEN 3 THEN '??' ELSE `e` END",
        ),
        (
            ("set", "1", "a", "3"),
            ("set", "1", "bb"),
            "CASE CAST(`e` AS UNSIGNED) WHEN 4 THEN '???' ELSE `e` END",
        ),
        (("enum", "a", "2", "b"), ("enum", "2", "b"), "`e`"),
        (("enum", "1", "2"), ("varchar",), "`e`"),
    ],
)
def test_a_lost_member_that_is_a_number_becomes_a_text_that_no_member_is(old, new, selected):
    """The server would take the number as another member, without an error."""
    charset = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}
    (was, *kept), (kind, *members) = old, new
    made = build(
        table(ID, column("e", was, members=tuple(kept), **charset)),
        table(ID, column("e", kind, members=tuple(members), **charset)),
        "MODIFY e INT",
    )
    assert made.select_expressions == ("`id`", selected)


def test_conversion_that_cannot_be_copied():
    """A conversion that no SELECT makes as ALTER TABLE makes it is refused."""
    source = table(ID, column("a", "varchar(9)"))
    with pytest.raises(Refusal, match=r"varchar\(9\) to bit\(9\)"):
        build(source, table(ID, column("a", "bit(9)")), "MODIFY a BIT(9)")

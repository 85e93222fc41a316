"""UsualDefinitions that differ from those of most tables."""

from __future__ import annotations

from spirit_py.batch.changes import TableChange
from spirit_py.batch.plan import UsualDefinitions


def change(schema, table="t", alike="all"):
    """Return a change of a table."""
    return TableChange(
        schema=schema, table=table, clauses="FORCE", normalized=f"{schema}.{table}", alike=alike
    )


def shape(table, *columns):
    """Return a definition as SHOW CREATE TABLE has it."""
    lines = [*columns, f"CONSTRAINT `{table}_chk_1` CHECK (1)"]
    return f"CREATE TABLE `{table}` (\n  " + ",\n  ".join(lines) + "\n) ENGINE=InnoDB"


def differences(tables):
    """Return what differs, for each change of a dict from change to definition."""
    definitions = UsualDefinitions()
    for one, text in tables.items():
        definitions.add(one, text)
    return [definitions.differences(one) for one in tables]


def test_the_one_that_differs_is_named_with_its_lines():
    """What it has, and what it lacks."""
    usual = shape("t", "`id` int", "`v` int")
    other = shape("t", "`id` int", "`v` bigint")
    found = differences({change("a"): usual, change("b"): other, change("c"): usual})
    assert found == [(), ("has `v` bigint", "lacks `v` int"), ()]


def test_names_of_tables_do_not_count():
    """Shards of one schema have names of their own, and so have their constraints."""
    tables = {change("s", f"t_{n}"): shape(f"t_{n}", "`id` int") for n in range(4)}
    assert differences(tables) == [()] * 4


def test_without_a_majority_none_is_the_usual_one():
    """Two of two kinds each: nobody can say which is meant."""
    one, two = shape("t", "`id` int"), shape("t", "`id` bigint")
    tables = {change("a"): one, change("b"): two, change("c"): one, change("d"): two}
    assert differences(tables) == [()] * 4


def test_only_tables_that_are_meant_alike_are_compared():
    """A file may change tables of all kinds."""
    tables = {
        change("a", alike="x"): shape("t", "`id` int"),
        change("b", alike="x"): shape("t", "`id` int"),
        change("c", alike="x"): shape("t", "`id` int"),
        change("d", alike="y"): shape("t", "`other` int"),
    }
    assert differences(tables) == [()] * 4


def test_another_order_of_the_same_columns_is_a_difference():
    """Each line is there, in another place."""
    usual, other = shape("t", "`a` int", "`b` int"), shape("t", "`b` int", "`a` int")
    found = differences({change("a"): usual, change("b"): other, change("c"): usual})
    assert found[1] == ("the order of its columns or keys",)


def test_a_definition_is_kept_once():
    """Two hundred tables that are alike cost the memory of one."""
    definitions = UsualDefinitions()
    for number in range(200):
        definitions.add(change(f"s{number}"), "".join(["CREATE TABLE `t` (\n", "x" * 1000, "\n)"]))
    kept = {id(text) for text in definitions._of.values()}
    assert len(kept) == 1

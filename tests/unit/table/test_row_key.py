"""By which index the rows of a key are found in the new table, and whether versions linger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.applier.applier import SqlApplier
from spirit_py.applier.batch import Bounds, delete_keys
from spirit_py.checksum.query import SOURCE, TARGET, ComparisonPlan
from spirit_py.chunk.chunk import Chunk, KeyRange
from spirit_py.chunk.chunker import boundary_sql
from spirit_py.config import ConnectionOptions
from spirit_py.copier.copier import last_key_sql
from spirit_py.errors import Refusal
from spirit_py.statement import alter_of
from spirit_py.statement.index_definitions import deferrable_indexes
from spirit_py.table.build import build_mapping
from spirit_py.table.keys import KeyBound
from spirit_py.table.mapping import conflicting
from spirit_py.table.values import RenderedRow
from spirit_py.threads import StopSwitch
from tests.kits.definitions import column, index, table

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Index, TableSchema

COLUMNS = (column("a"), column("b"), column("c"))
PRIMARY = index("PRIMARY", "a", "b")


def keyed(*indexes: Index) -> TableSchema:
    """Return a table of the columns a, b and c."""
    return table(*COLUMNS, *indexes)


def mapped(
    *after: Index, before: Index = PRIMARY, target: TableSchema | None = None
) -> TableMapping:
    """Map a table to one with other indexes."""
    statement = alter_of("s", "t", "FORCE")
    return build_mapping(keyed(before), target or keyed(*after), statement, "+00:00")


@pytest.mark.parametrize(
    ("after", "found", "by_ranges", "lingers"),
    [
        ([index("PRIMARY", "a", "b")], "PRIMARY", True, False),
        ([index("PRIMARY", "b", "a")], "PRIMARY", True, False),
        ([index("PRIMARY", "a", "b", "c")], "PRIMARY", True, True),
        ([index("PRIMARY", "a", "c", "b")], "PRIMARY", True, True),
        ([index("PRIMARY", "b", "a", "c")], "PRIMARY", False, True),
        ([index("PRIMARY", "c", "a", "b"), index("k", "b", unique=False)], "k", False, True),
        (
            [index("PRIMARY", "b", "a", "c"), index("k", "a", "b", unique=False)],
            *("k", True, True),
        ),
        ([index("PRIMARY", "c", "a", "b"), index("ab", "a", "b")], "ab", True, False),
        ([index("PRIMARY", "a")], "PRIMARY", True, False),
        ([index("PRIMARY", "b")], "PRIMARY", False, False),
        ([index("PRIMARY", "a", "c")], "PRIMARY", True, True),
    ],
    ids=[
        *("the same", "the other order", "longer", "another between", "shared, turned"),
        *("plain index", "plain index in order", "unique beside it", "shorter", "its second"),
        "its first and another",
    ],
)
def test_rows_are_found_by_the_index_that_begins_with_the_key(after, found, by_ranges, lingers):
    """A unique index over the key comes first; only such a one replaces earlier versions."""
    lookup = mapped(*after).lookup
    assert (lookup.index.name, lookup.by_ranges, lookup.lingers) == (found, by_ranges, lingers)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ([index("PRIMARY", "c", "a", "b")], "no index of the new table begins"),
        ([index("k", "a", "b", unique=False)], "no unique key"),
    ],
)
def test_a_key_that_cannot_serve_is_refused_with_the_reason(after, why):
    """Each key of the source is named with what speaks against it, and the way out."""
    with pytest.raises(Refusal) as refused:
        mapped(*after)
    (detail,) = refused.value.details
    assert detail.startswith("key PRIMARY: ")
    assert why in detail
    assert "afterwards" in refused.value.hint


@pytest.mark.parametrize("members", [53, 54])
def test_a_set_whose_numbers_a_double_does_not_tell_apart_is_no_key(members):
    """The server compares a SET with a number as two DOUBLEs."""
    names = tuple(f"m{n}" for n in range(members))
    kind = f"set({','.join(names)})"
    schema = table(column("a", kind, members=names), column("b"), index("PRIMARY", "a"))
    statement = alter_of("s", "t", "FORCE")
    if members == 53:
        assert build_mapping(schema, schema, statement, "+00:00").key.name == "PRIMARY"
        return
    with pytest.raises(Refusal, match="no key") as refused:
        build_mapping(schema, schema, statement, "+00:00")
    assert "a SET of more than 53 members" in refused.value.details[0]


@pytest.mark.parametrize(
    "more",
    [
        column("n", auto_increment=True),
        column("n", extra="DEFAULT_GENERATED"),
        column("n", nullable=True),
    ],
    ids=["numbered", "computed default", "nullable"],
)
def test_a_unique_key_over_other_values_each_time_holds_no_row_once(more):
    """A chunk that is copied twice would be there twice under (a, b, n)."""
    target = table(*COLUMNS, more, index("PRIMARY", "a", "b", "n"))
    with pytest.raises(Refusal) as refused:
        build_mapping(keyed(PRIMARY), target, alter_of("s", "t", "ADD n INT"), "+00:00")
    assert "written twice" in refused.value.details[0]


def test_a_key_of_another_collation_must_stay_a_unique_key():
    """Found by a coarser collation, the row of another key would be deleted with it."""
    before = column("name", "varchar(9)", charset="utf8mb4", collation="utf8mb4_bin")
    after = column("name", "varchar(9)", charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
    source = table(before, COLUMNS[0], index("PRIMARY", "name"))
    target = table(after, COLUMNS[0], index("PRIMARY", "name", "a"))
    with pytest.raises(Refusal) as refused:
        build_mapping(source, target, alter_of("s", "t", "FORCE"), "+00:00")
    assert "compares differently" in refused.value.details[0]


def test_a_shorter_key_is_tightened_and_a_longer_one_is_not():
    """Two rows of one a may not both be in the new table: that is searched for before (R11)."""
    assert [one.name for one in mapped(index("PRIMARY", "a")).tightened] == ["PRIMARY"]
    assert not mapped(index("PRIMARY", "a", "b", "c")).tightened


def test_rows_of_different_keys_conflict_in_shorter_keys_alone():
    """What holds the whole key keeps different keys apart."""
    for parts, conflict in ((("a", "b", "c"), False), (("a", "c"), True), (("a",), True)):
        assert (conflicting(keyed(index("u", *parts)), ("a", "b")) is not None) is conflict


def test_a_delete_names_the_index_only_where_versions_linger():
    """The ordinary statement stays as it is; the other one must not read the whole table."""
    keys, bounds = ["(1, 2)"], Bounds(rows=10, packet=10_000)
    (plain,) = delete_keys(mapped(PRIMARY), keys, bounds)
    assert plain == "DELETE FROM `s`.`t` WHERE (`a`, `b`) IN ((1, 2))"
    (forced,) = delete_keys(mapped(index("PRIMARY", "b", "a", "c")), keys, bounds)
    assert forced == (
        "DELETE /*+ INDEX(`t` `PRIMARY`) */ FROM `s`.`t` WHERE (`a`, `b`) IN ((1, 2))"
    )


def test_a_row_whose_versions_linger_is_not_written_without_its_key():
    """A caller that forgets the key is stopped before anything is sent."""
    applier = SqlApplier(ConnectionOptions(), sessions=1, batch_rows=9, stop=StopSwitch())
    with pytest.raises(ValueError, match="0 keys of 1 rows"):
        applier.upsert_rows(mapped(index("PRIMARY", "a", "b", "c")), [RenderedRow("(1, 2, 3)")])


def test_the_last_key_is_read_by_an_index_that_begins_with_the_key():
    """Of another order it is not read: nothing is dropped then (R17)."""
    longer = mapped(index("PRIMARY", "a", "b", "c"))
    assert "FORCE INDEX (`PRIMARY`)" in last_key_sql(longer, KeyRange())
    assert not last_key_sql(mapped(index("PRIMARY", "b", "a", "c")), KeyRange())
    assert not last_key_sql(mapped(index("PRIMARY", "a")), KeyRange())


def test_rows_are_compared_by_ranges_only_where_an_index_has_them():
    """Otherwise each row is looked up, and no chunk reads the whole new table."""
    assert ComparisonPlan(mapping=mapped(index("PRIMARY", "a", "b", "c"))).aligned
    turned = ComparisonPlan(mapping=mapped(index("PRIMARY", "b", "a", "c")))
    assert not turned.aligned
    assert [pair.old.name for pair in turned.staged] == ["a", "b"]


def test_the_index_by_which_rows_are_found_is_not_deferred():
    """Without it each change would read the whole new table while rows are copied."""
    plain = index("k", "a", "b", unique=False)
    target = replace(
        table(*COLUMNS, index("PRIMARY", "c", "a", "b"), index("j", "c", unique=False), plain),
        create_sql="CREATE TABLE `t` (\n `a` int,\n KEY `j` (`c`),\n KEY `k` (`a`,`b`)\n)",
    )
    mapping = mapped(target=target)
    assert mapping.lookup.index == plain
    assert "k" in deferrable_indexes(target, mapping.lookup.index.name).kept
    assert "k" in deferrable_indexes(target).clauses


def test_a_nullable_key_serves_by_choice_and_only_without_another():
    """Rows with NULL in it are known by nothing; so the operator says that there are none."""
    free, kept = column("n", nullable=True), column("a")
    both = table(kept, free, index("n", "n"))
    statement = alter_of("s", "t", "FORCE")
    with pytest.raises(Refusal, match="no key identifies"):
        build_mapping(both, both, statement, "+00:00")
    mapping = build_mapping(both, both, statement, "+00:00", nullable_key=True)
    assert (mapping.key.name, mapping.lookup.lingers) == ("n", False)
    other = table(kept, free, index("n", "n"), index("a", "a"))
    assert build_mapping(other, other, statement, "+00:00", nullable_key=True).key.name == "a"


def test_ranges_of_a_nullable_key_leave_no_row_out_of_the_comparison():
    """A row with NULL is in the first chunk of both tables, and is no chunk's bound."""
    both = table(column("n", nullable=True), index("n", "n"))
    statement = alter_of("s", "t", "FORCE")
    mapping = build_mapping(both, both, statement, "+00:00", nullable_key=True)
    plan = ComparisonPlan(mapping=mapping)
    first = Chunk(number=0, target_rows=9, upper=KeyBound(literals=("5",)))
    for side in (SOURCE, TARGET):
        assert plan.where(side, first).endswith("OR `r`.`n` IS NULL)")
    assert "`n` IS NOT NULL" in boundary_sql(mapping, KeyRange(), 10)


@pytest.mark.parametrize(
    ("charset", "member", "usable"),
    [
        ("cp932", "\u332c", True),
        ("cp932", "\u3231", False),
        ("sjis", "?", False),
        ("sjis", "\u65e5", True),
        ("eucjpms", "\uff5e", False),
        ("tis620", "\ufffd", False),
        ("gbk", "a?", False),
        ("latin1", "?", True),
        ("utf8mb4", "?", True),
        ("armscii8", "a-b", False),
    ],
)
def test_a_member_that_its_text_may_not_lead_to_is_in_no_key(charset, member, usable):
    """No row is found by the text that the server shows for a code which Unicode does not have."""
    kind = column("e", f"enum('{member}')", charset=charset, collation=f"{charset}_bin")
    schema = table(kind, column("n"), index("PRIMARY", "e", "n"))
    statement = alter_of("s", "t", "FORCE")
    if usable:
        assert build_mapping(schema, schema, statement, "+00:00").key.name == "PRIMARY"
        return
    with pytest.raises(Refusal, match="no key") as refused:
        build_mapping(schema, schema, statement, "+00:00")
    assert f"a member in {charset} that Unicode does not lead to" in refused.value.details[0]
    # What is behind its swap already goes on, by another key where there is one.
    assert build_mapping(schema, schema, statement, "+00:00", begun=True).key.name == "PRIMARY"
    other = table(kind, column("n"), index("PRIMARY", "e", "n"), index("u", "n"))
    assert build_mapping(other, other, statement, "+00:00", begun=True).key.name == "u"

"""Cutting a table: by arithmetic and by looking boundaries up."""

from __future__ import annotations

import pytest

from spirit_py.chunk.chunk import KeyRange
from spirit_py.chunk.chunker import (
    CompositeChunker,
    OptimisticChunker,
    boundary_sql,
    ends_sql,
    make_chunker,
)
from tests.kits.chunks import ListedTable, between, bound, chunk, mapping, primary
from tests.kits.definitions import column

AUTO = column("id", "bigint", auto_increment=True)
PLAIN = column("id", "bigint")
MAX_UNSIGNED = 2**64 - 1


def optimistic(table: ListedTable) -> OptimisticChunker:
    """Return the arithmetic chunker of a table, with the server's estimate of its rows."""
    return OptimisticChunker(
        mapping(primary("id"), AUTO, estimated_rows=len(table.keys)), table.query
    )


def keys_of(table: ListedTable, each) -> list[int]:
    """Return the keys in a chunk or in a part of one."""
    return [
        key
        for key in table.keys
        if (each.lower is None or key > int(each.lower.literals[0]))
        and (each.upper is None or key <= int(each.upper.literals[0]))
    ]


def cut(table: ListedTable, chunker, rows: int) -> list[list[int]]:
    """Cut a table to the end, telling the chunker what it got; return the keys of each chunk."""
    found = []
    while (each := chunker.next_chunk(rows)) is not None:
        keys = keys_of(table, each)
        chunker.observed(each, len(keys))
        found.append(keys)
        assert len(found) < 1000
    return found


@pytest.mark.parametrize("kind", [OptimisticChunker, CompositeChunker])
@pytest.mark.parametrize(
    "keys",
    [
        [],
        [7],
        list(range(1, 101)),
        list(range(-50, 51)),
        [*range(100), *range(10**9, 10**9 + 100)],
        [MAX_UNSIGNED - n for n in range(100)],
        [2**63 - 1, 2**63, MAX_UNSIGNED],
        list(range(0, 100_000, 1000)),
        [*range(0, 100_000, 1000), *range(100_000, 100_500)],
    ],
    ids=["empty", "one", "dense", "negative", "gap", "top", "far", "sparse", "mixed"],
)
def test_every_row_is_in_exactly_one_chunk(kind, keys):
    """The chunks partition the table, whatever its keys; none is much above the size asked for."""
    table = ListedTable(keys)
    auto = kind is OptimisticChunker
    chunker = kind(
        mapping(primary("id"), AUTO if auto else PLAIN, estimated_rows=len(keys)), table.query
    )
    chunks = cut(table, chunker, 10)
    assert [key for each in chunks for key in each] == table.keys
    assert max(map(len, chunks)) <= 10
    assert chunker.finished
    assert chunker.next_chunk(10) is None


@pytest.mark.parametrize("kind", [OptimisticChunker, CompositeChunker])
@pytest.mark.parametrize(
    "keys",
    [
        list(range(1, 101)),
        [*range(100), *range(10**9, 10**9 + 100)],
        list(range(0, 100_000, 1000)),
        list(range(1, 26)),
    ],
    ids=["dense", "gap", "sparse", "end"],
)
def test_the_parts_of_a_chunk_divide_it(kind, keys):
    """Together they have the chunk's rows in the order of the walk, none many more than asked."""
    table = ListedTable(keys)
    auto = AUTO if kind is OptimisticChunker else PLAIN
    chunker = kind(mapping(primary("id"), auto, estimated_rows=len(keys)), table.query, part_rows=4)
    found = []
    while (each := chunker.next_chunk(10)) is not None:
        assert each.parts[0].lower == each.lower
        assert each.parts[-1].upper == each.upper
        for part in each.parts:
            assert not part.cuts
            rows = keys_of(table, part)
            assert len(rows) <= 4
            found += rows
        chunker.observed(each, len(keys_of(table, each)))
    assert found == table.keys


def test_the_cuts_of_a_looked_up_key_read_the_index_once():
    """One query for each part, each from where the last one ended."""
    table = ListedTable(list(range(1, 101)))
    chunker = CompositeChunker(mapping(primary("id"), PLAIN), table.query, part_rows=4)
    each = chunker.next_chunk(10)
    assert each is not None
    assert (each.cuts, each.upper) == ((bound(3), bound(6)), bound(10))
    assert [sql.partition(" WHERE ")[2] for sql in table.queries] == [
        "TRUE ORDER BY `id` LIMIT 1 OFFSET 2",
        "(`id` > 3) ORDER BY `id` LIMIT 1 OFFSET 2",
        "(`id` > 6) ORDER BY `id` LIMIT 1 OFFSET 3",
    ]


def test_dense_keys_are_cut_by_arithmetic():
    """Without gaps every boundary is computed: only the two ends are asked for."""
    table = ListedTable(list(range(1, 101)))
    assert len(cut(table, optimistic(table), 10)) == 10
    assert all("OFFSET" not in sql for sql in table.queries)


def test_a_gap_is_jumped_in_one_chunk():
    """A gap of 10^9 costs no chunk of its own."""
    table = ListedTable([*range(100), *range(10**9, 10**9 + 100)])
    assert len(cut(table, optimistic(table), 10)) == 20


def test_sparse_keys_are_looked_up():
    """Where one key in a thousand exists, chunks are full nevertheless, from the first."""
    table = ListedTable(list(range(0, 100_000, 1000)))
    chunks = cut(table, optimistic(table), 10)
    assert [len(each) for each in chunks] == [10] * 10


def test_arithmetic_learns_that_keys_have_become_sparse():
    """Dense keys first, sparse ones later: after a few small chunks boundaries are looked up."""
    table = ListedTable([*range(1000), *range(1000, 1_000_000, 1000)])
    chunker = OptimisticChunker(mapping(primary("id"), AUTO, estimated_rows=10**6), table.query)
    chunks = cut(table, chunker, 10)
    assert sum(1 for each in chunks if len(each) < 10) <= 3


def test_a_stale_estimate_of_no_rows_is_harmless():
    """A table that the server believes empty is cut all the same."""
    table = ListedTable(list(range(1, 101)))
    chunker = OptimisticChunker(mapping(primary("id"), AUTO, estimated_rows=0), table.query)
    assert len(cut(table, chunker, 10)) == 10


@pytest.mark.parametrize("added", [range(990, 1000), range(980, 990)])
def test_rows_added_before_the_first_key_meanwhile_are_cut(added):
    """The first key and the bound are read one after the other: the bound may be before it."""
    table = ListedTable(list(range(1000, 100_000, 1000)))
    chunker = optimistic(table)

    def query(sql):
        found = table.query(sql)
        if "MIN(" in sql and len(table.queries) == 1:
            table.keys[:0] = added
        return found

    chunker.query = query
    keys = [key for each in cut(table, chunker, 10) for key in each]
    assert keys == table.keys


def test_rows_added_at_the_end_meanwhile_are_cut_too():
    """The end is looked for at every cut, so a growing table has no giant last chunk."""
    table = ListedTable(list(range(1, 101)))
    chunker = optimistic(table)
    sizes = []
    while (each := chunker.next_chunk(10)) is not None:
        sizes.append(each)
        if len(table.keys) < 200:
            table.keys.append(table.keys[-1] + 1)
    assert sizes[-1].upper is None
    assert sizes[-1].lower is not None
    assert table.keys[-1] - int(sizes[-1].lower.literals[0]) <= 11


def test_chunk_numbers_go_on_after_a_restart():
    """A number is never used twice, so a fence or a commit cannot be taken for another."""
    table = ListedTable(list(range(1, 31)))
    chunker = optimistic(table)
    chunker.next_chunk(10)
    chunker.next_chunk(10)
    chunker.restart(bound(5))
    assert chunker.next_chunk(10) == chunk(2, 5, 15)


def test_only_one_auto_increment_integer_is_cut_by_arithmetic():
    """Every other key has its boundaries looked up."""
    ask = ListedTable([]).query
    auto = mapping(primary("id"), AUTO)
    both = mapping(primary("id", "n"), AUTO, column("n"))
    assert isinstance(make_chunker(auto, ask), OptimisticChunker)
    assert isinstance(make_chunker(mapping(primary("id"), PLAIN), ask), CompositeChunker)
    assert isinstance(make_chunker(both, ask), CompositeChunker)


def test_the_boundary_query_forces_the_index_and_its_order():
    """The index is forced, the walk is its order, the n-th row is at offset n - 1."""
    two = mapping(primary("a", "b", descending=("b",)), column("a"), column("b"))
    assert boundary_sql(two, KeyRange(lower=bound(1, 2)), 100) == (
        "SELECT `a`, `b` FROM `s`.`t` FORCE INDEX (`PRIMARY`)"
        " WHERE ((`a` > 1) OR (`a` = 1 AND `b` < 2))"
        " ORDER BY `a`, `b` DESC LIMIT 1 OFFSET 99"
    )


def test_an_invisible_index_is_made_usable():
    """Forcing an invisible index is an error unless the optimizer may use it."""
    hidden = mapping(primary("a", visible=False), column("a"))
    assert boundary_sql(hidden, KeyRange(), 1) == (
        "SELECT /*+ SET_VAR(optimizer_switch='use_invisible_indexes=on') */ `a`"
        " FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE TRUE ORDER BY `a` LIMIT 1 OFFSET 0"
    )


def test_the_text_of_the_ends_query():
    """The two ends of the index answer it."""
    auto = mapping(primary("id"), AUTO)
    both = "SELECT MIN(`id`), MAX(`id`) FROM `s`.`t` FORCE INDEX (`PRIMARY`)"
    assert ends_sql(auto, between(7, None)) == f"{both} WHERE (`id` > 7)"
    assert ends_sql(auto, between(7, 9)) == f"{both} WHERE (`id` > 7) AND (`id` <= 9)"
    assert ends_sql(auto, KeyRange()) == f"{both} WHERE TRUE"


def test_a_chunk_shows_its_range():
    """The text is for logs and for Spark's job description."""
    assert str(chunk(3, None, 10)) == "#3 (-inf; 10]"

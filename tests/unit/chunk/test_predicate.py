"""The exact text of range predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.chunk import Chunk, chunk_predicate, order_by, walk_directions
from tests.kits.chunks import bound, chunk, primary
from tests.kits.definitions import column

if TYPE_CHECKING:
    from spirit_py.table.keys import KeyBound

ID = (column("id"),)
ABC = (column("a"), column("b"), column("c"))
ASCENDING = (False, False, False)


def between(lower: KeyBound | None, upper: KeyBound | None) -> Chunk:
    """Return a chunk between two bounds."""
    return Chunk(number=0, lower=lower, upper=upper, target_rows=1)


def test_one_column_is_a_plain_range():
    """The lower bound is exclusive, the upper inclusive."""
    assert chunk_predicate(ID, chunk(0, 5, 9), (False,)) == "(`id` > 5) AND (`id` <= 9)"


def test_open_ends_leave_their_side_out():
    """The first chunk has no lower side, the last no upper side, a single chunk neither."""
    assert chunk_predicate(ID, chunk(0, None, 9), (False,)) == "(`id` <= 9)"
    assert chunk_predicate(ID, chunk(0, 5, None), (False,)) == "(`id` > 5)"
    assert chunk_predicate(ID, chunk(0, None, None), (False,)) == "TRUE"


def test_a_composite_key_is_written_out():
    """One OR term for each part, so that the range optimizer can read it."""
    wanted = (
        "((`a` > 1) OR (`a` = 1 AND `b` > 2) OR (`a` = 1 AND `b` = 2 AND `c` > 3))"
        " AND ((`a` < 4) OR (`a` = 4 AND `b` < 5) OR (`a` = 4 AND `b` = 5 AND `c` <= 6))"
    )
    assert chunk_predicate(ABC, between(bound(1, 2, 3), bound(4, 5, 6)), ASCENDING) == wanted


def test_descending_parts_turn_their_operators():
    """In a walk over (a, b DESC) the rows after (1, 2) have a smaller b."""
    wanted = "((`a` > 1) OR (`a` = 1 AND `b` < 2)) AND ((`a` < 4) OR (`a` = 4 AND `b` >= 5))"
    assert chunk_predicate(ABC[:2], between(bound(1, 2), bound(4, 5)), (False, True)) == wanted


def test_an_enum_is_compared_by_a_list_of_numbers():
    """MySQL reads no range of ``>`` on an ENUM, but does of ``IN`` with numbers."""
    enum = (column("e", "enum", members=("z", "y", "x", "w")), column("n"))
    wanted = (
        "((`e` IN (3, 4)) OR (`e` = 2 AND `n` > 7))"
        " AND ((`e` IN (0, 1, 2)) OR (`e` = 3 AND `n` <= 8))"
    )
    assert chunk_predicate(enum, between(bound(2, 7), bound(3, 8)), (False, False)) == wanted


def test_an_enum_alone_is_bounded_on_both_sides():
    """The upper bound itself belongs to the chunk; ordinal 0 is the first."""
    enum = (column("e", "enum", members=("z", "y")),)
    assert chunk_predicate(enum, between(bound(0), bound(1)), (False,)) == (
        "(`e` IN (1, 2)) AND (`e` IN (0, 1))"
    )


def test_nothing_comes_after_the_last_member():
    """An empty list is no SQL; it reads FALSE."""
    enum = (column("e", "enum", members=("z", "y")), column("n"))
    assert chunk_predicate(enum, between(bound(2, 7), None), (False, False)) == (
        "((FALSE) OR (`e` = 2 AND `n` > 7))"
    )


def test_a_small_set_lists_its_numbers_and_a_large_one_does_not():
    """A SET of eleven members has 2048 values; it is compared, which is right but slow."""
    small = (column("e", "set", members=("a", "b")),)
    large = (column("e", "set", members=tuple("abcdefghijk")),)
    assert chunk_predicate(small, between(bound(1), None), (False,)) == "(`e` IN (2, 3))"
    assert chunk_predicate(large, between(bound(1), None), (False,)) == "(`e` > 1)"


def test_names_are_quoted_and_may_be_the_new_tables():
    """A backquote in a name is doubled; the new table's names replace the source's."""
    odd = (column("a`b"),)
    assert chunk_predicate(odd, chunk(0, 1, None), (False,)) == "(`a``b` > 1)"
    assert chunk_predicate(odd, chunk(0, 1, None), (False,), ["new"]) == "(`new` > 1)"


def test_a_walk_begins_ascending():
    """An index whose first part descends is walked in reverse, which MySQL does as well."""
    assert walk_directions(primary("a", "b", descending=("b",))) == (False, True)
    assert walk_directions(primary("a", "b", descending=("a",))) == (False, True)
    assert walk_directions(primary("a", "b", descending=("a", "b"))) == (False, False)
    assert order_by(ABC[:2], (False, True)) == "`a`, `b` DESC"

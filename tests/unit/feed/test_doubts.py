"""The keys of rows that the server may not have as it logged them."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.binlog.cascades import DoubtfulKeys
from spirit_py.binlog.codec.rows import RowChange, RowImage
from spirit_py.binlog.events import Doubt


class Codec:
    """Renders keys."""

    @staticmethod
    def key_sql(key: tuple[Any, ...]) -> str:
        """Return the key as SQL."""
        return f"({key[0]})"


CODEC: Any = Codec()


def image(key: int) -> RowImage:
    """Return a row's image."""
    return RowImage(CODEC, (key,), b"")


def deleted(*keys: int) -> list[RowChange]:
    """Return deletes of rows."""
    return [RowChange("delete", image(key), None) for key in keys]


def cascade(keys: DoubtfulKeys, *of: int) -> int:
    """Let a cascade delete rows; return the number of its transaction."""
    keys.receive(deleted(*of), Doubt.CASCADED)
    keys.transaction_ended(cascaded=True)
    return keys.number


def test_keys_enter_at_the_end_of_a_transaction_with_a_cascade() -> None:
    """Of an update both keys; a transaction that comes again, or never, leaves none."""
    keys = DoubtfulKeys()
    keys.receive([RowChange("update", image(1), image(2))], Doubt.BESIDE)
    keys.receive(deleted(3), Doubt.CASCADED)
    assert not keys.since(0)
    keys.transaction_ended(cascaded=False)
    assert keys.literals() == ["(1)", "(2)", "(3)"]
    keys.receive(deleted(4), Doubt.CASCADED)
    keys.transaction_abandoned()
    keys.transaction_ended(cascaded=True)
    assert keys.literals() == ["(1)", "(2)", "(3)"]


@pytest.mark.parametrize("cascaded", [True, False])
def test_what_was_beside_counts_only_with_a_cascade(cascaded: bool) -> None:
    """The cascade may be of a table that is not followed."""
    keys = DoubtfulKeys()
    keys.receive(deleted(1), Doubt.BESIDE)
    keys.transaction_ended(cascaded=cascaded)
    assert keys.since(0) is cascaded


def test_a_key_that_comes_in_doubt_again_is_not_forgotten() -> None:
    """Only what was received before the rows were read is proven."""
    keys = DoubtfulKeys()
    first = cascade(keys, 1, 2)
    second = cascade(keys, 2, 3)
    keys.forget(first)
    assert keys.literals() == ["(2)", "(3)"]
    assert not keys.up_to(first)
    assert keys.since(first)
    keys.forget(second)
    assert keys.literals() == []
    assert not keys.since(0)


def test_a_change_in_no_doubt_brings_the_whole_row() -> None:
    """It leads to the true row, whatever was applied before."""
    keys = DoubtfulKeys()
    cascade(keys, 1, 2)
    keys.receive([RowChange("insert", None, image(1))], Doubt.NONE)
    assert keys.literals() == ["(2)"]


def test_where_a_row_may_remove_another_one_every_later_change_is_in_doubt() -> None:
    """The false row may be applied after a true one that was received later, and remove it."""
    keys = DoubtfulKeys(independent=False)
    keys.receive([RowChange("insert", None, image(1))], Doubt.NONE)
    keys.transaction_ended(cascaded=False)
    assert not keys.since(0)
    first = cascade(keys, 2)
    keys.receive([RowChange("insert", None, image(2))], Doubt.NONE)
    keys.receive([RowChange("insert", None, image(3))], Doubt.NONE)
    keys.transaction_ended(cascaded=False)
    keys.forget(first)
    assert keys.literals() == ["(2)", "(3)"]


def test_there_it_is_so_while_the_rows_in_doubt_are_not_all_known_too() -> None:
    """The false one may be among those that were not kept."""
    keys = DoubtfulKeys(1, independent=False)
    cascade(keys, 1, 2)
    number = keys.begin_comparison()
    keys.receive([RowChange("insert", None, image(3))], Doubt.NONE)
    keys.transaction_ended(cascaded=False)
    keys.forget(number)
    assert keys.literals() == ["(3)"]


def test_too_many_keys_are_settled_by_a_whole_comparison_alone() -> None:
    """R19: their number is bounded; while the comparison runs there is room for new ones."""
    keys = DoubtfulKeys(2)
    cascade(keys, 1, 2, 3)
    assert keys.literals() is None
    assert keys.up_to(keys.number)
    number = keys.begin_comparison()
    cascade(keys, 4)
    assert keys.literals() is None
    keys.forget(number)
    assert keys.literals() == ["(4)"]


def test_more_keys_in_one_transaction_than_are_kept_are_not_forgotten_with_it() -> None:
    """They are too many from its end on, and not before."""
    keys = DoubtfulKeys(2)
    keys.receive(deleted(*range(10)), Doubt.BESIDE)
    assert keys.literals() == []
    keys.transaction_ended(cascaded=True)
    assert keys.literals() is None
    assert not keys.since(keys.number)
    assert keys.since(keys.number - 1)

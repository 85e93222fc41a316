"""When a subscription may order and drop changes by ranges of the key."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.feed.ledger import VisibilityGate
from spirit_py.feed.subscription import (
    TableSubscription,
    has_second_unique,
    rows_are_independent,
)
from spirit_py.table.schema import Index, IndexPart
from tests.kits.definitions import column
from tests.kits.row_images import mapping

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping

WHOLE = IndexPart(column="ID")


@pytest.mark.parametrize(
    ("parts", "unique", "second"),
    [
        ((), True, False),
        ((WHOLE,), True, False),
        ((replace(WHOLE, descending=True),), True, False),
        ((replace(WHOLE, prefix=3),), False, False),
        ((IndexPart(column="v"),), False, False),
        ((IndexPart(column="v"),), True, True),
        ((WHOLE, IndexPart(column="v")), True, False),
        ((replace(WHOLE, prefix=3),), True, True),
        ((IndexPart(column=None, expression="`id` DIV 10"),), True, True),
        ((WHOLE, IndexPart(column=None, expression="`v`")), True, False),
    ],
    ids=[
        *("none", "the key's column", "the key's column descending", "prefix, not unique"),
        *("other, not unique", "other column", "key and other", "prefix of the key"),
        *("expression of the key", "key and expression"),
    ],
)
def test_only_a_unique_index_that_holds_the_whole_key_adds_nothing(parts, unique, second):
    """Rows of different keys never conflict in it; in a prefix or an expression they may."""
    found = mapping()
    if parts:
        more = Index(name="more", unique=unique, parts=parts)
        found = replace(found, target=replace(found.target, indexes=(*found.target.indexes, more)))
    assert has_second_unique(found) is second


def test_only_tables_with_independent_rows_are_divided() -> None:
    """Where one row's image may push another row out, all of them are applied as one state (R5)."""
    tight = mapping()
    text = column("id", "varchar(20)")
    assert rows_are_independent(mapping())
    assert not rows_are_independent(mapping(unique=("v",)))
    assert not rows_are_independent(replace(tight, tightened=(tight.key,)))
    tables = (
        (mapping(), True),
        (mapping(unique=("v",)), False),
        (mapping(key=text), True),
        (mapping(key=column("id", "double")), False),
    )
    for table, divisible in tables:
        assert subscribed(table).buffer.partitions.divisible is divisible


def subscribed(table: TableMapping) -> TableSubscription:
    """Follow a table on a server with GTIDs."""
    return TableSubscription(
        table,
        lock=threading.Condition(),
        unweighed=threading.Condition(),
        gate=VisibilityGate(has_gtids=True),
        wake=lambda: None,
    )


def test_weights_are_in_no_range_of_chunks() -> None:
    """R3, R4: chunks have no weights for bounds, so nothing is dropped or held by its range."""
    found = subscribed(mapping(key=column("id", "varchar(20)")))
    assert found.weights is not None
    assert not found.buffer.filters.by_range
    assert not found.buffer.filters.may_drop


def test_a_merging_table_has_no_use_for_weights() -> None:
    """R11: its changes wait aside for the end of their transaction, and the server joins them."""
    table = mapping(key=column("id", "varchar(20)"))
    found = subscribed(replace(table, tightened=(table.key,)))
    assert found.weights is None
    assert not found.buffer.weighed
    assert not found.buffer.comparable

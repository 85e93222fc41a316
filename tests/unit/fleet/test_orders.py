"""Which orders of operators count, of those that servers have."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spirit_py.batch.store import BatchTable, agreed
from spirit_py.config import ConnectionOptions, FleetOrders
from spirit_py.fleet.orders import where_to_meet
from spirit_py.fleet.records import FleetMember, FleetRecord, ServerRecords

NOW = time.time_ns() // 1_000_000


def order(number, **more):
    """Return orders of that many milliseconds ago."""
    return FleetOrders(number=NOW - number, **more)


KNOWN = order(1000)
PAUSE = order(10, paused=True)
ABORT = order(5, aborted=True)


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ([], KNOWN),
        ([FleetOrders()], KNOWN),
        ([KNOWN, FleetOrders(), FleetOrders()], KNOWN),
        # One server alone has begun.
        ([PAUSE], PAUSE),
        ([order(2000, paused=True)], KNOWN),
        # Of several, two must have it.
        ([PAUSE, KNOWN], KNOWN),
        ([PAUSE, FleetOrders()], KNOWN),
        ([PAUSE, PAUSE, KNOWN], PAUSE),
        ([ABORT, PAUSE, PAUSE, KNOWN], PAUSE),
        ([order(2000), order(2000), KNOWN], KNOWN),
        # From the future: a forged one would count for ever.
        ([order(-200_000_000, aborted=True)] * 2, KNOWN),
    ],
)
def test_the_latest_counts_that_two_servers_have(found, counts):
    """A row of one server alone may be forged (R26)."""
    assert agreed(found, KNOWN) == counts


@pytest.mark.parametrize(
    ("found", "new", "counts"),
    [
        # It began with what was known before the order was given to the only one that had begun.
        ([ABORT], [KNOWN], ABORT),
        ([ABORT], [FleetOrders()], ABORT),
        # All have begun since the last look, and one of them with the order of later.
        ([], [ABORT, KNOWN], ABORT),
        ([], [PAUSE, PAUSE, KNOWN], PAUSE),
        # Two that have begun before must agree, or one and a new one.
        ([ABORT, KNOWN], [KNOWN], KNOWN),
        ([KNOWN], [ABORT], KNOWN),
        ([ABORT, KNOWN], [ABORT], ABORT),
        ([], [ABORT, PAUSE], KNOWN),
    ],
)
def test_a_server_that_has_just_begun_speaks_against_no_order(found, new, counts):
    """An abort is obeyed that the only server has which could be given it."""
    assert agreed(found, KNOWN, new) == counts


def test_what_else_a_row_has_is_no_reason_to_differ():
    """Members come in as lists grow."""
    other = FleetOrders(**{**vars(PAUSE), "members": ("s1",)})
    assert agreed([PAUSE, other], KNOWN).paused


@pytest.mark.parametrize("wrong", [{"number": -1}, {"at_once": -1}, {"members": ("a b",)}])
def test_orders_that_cannot_be_are_refused(wrong):
    """A number below zero would stop a fleet without a word."""
    with pytest.raises(ValueError, match="of a fleet"):
        FleetOrders(**wrong)


def test_commands_with_lists_in_another_order_meet_on_one_server():
    """Their records have one name where each server has the schema of one name."""

    def part(name, schema="shop"):
        record = FleetRecord(
            store=BatchTable(schema, "_spirit_py_batch_a"), fleet="a", orders=KNOWN,
            coordinated=True, at_work=(), left=(),
        )  # fmt: skip
        reached = ConnectionOptions(host=name, port=3306, user="u")
        member = FleetMember(name=name, connection=reached, database="")
        return ServerRecords(member=member, table="", records=[record])

    parts = [part("s2"), part("s1"), part("s3")]
    assert where_to_meet(parts).member.name == "s1"
    assert where_to_meet(parts[::-1]).member.name == "s1"
    assert where_to_meet([part("s1", "shop_1"), part("s9", "shop_0")]).member.name == "s9"


@pytest.mark.parametrize(
    ("database", "table", "folds", "meant"),
    [
        ("shop", "orders", 0, True),
        ("", "", 0, True),
        ("SHOP", "Orders", 0, False),
        ("SHOP", "Orders", 1, True),
        ("shop", "ORDERS", 2, True),
        ("SHOP", "other", 1, False),
    ],
)
def test_a_server_that_keeps_no_capital_letters_finds_its_record(database, table, folds, meant):
    """Otherwise an order would pass by the server whose list has other letters."""

    class Server:
        def query(self, sql):
            assert sql == "SELECT @@GLOBAL.lower_case_table_names"
            return [(folds,)]

    reached = ConnectionOptions(host="db1", port=3306, user="u")
    member = FleetMember(name="s1", connection=reached, database=database)
    part = ServerRecords(member=member, table=table)
    session: Any = Server()
    assert part.is_meant(session, "shop", [("shop", "orders")]) is meant

"""Which servers beside this one may write a table, by what the server shows (R15)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.replication import APPLIES, RECEIVES
from spirit_py.preflight.checks import other_writers as module
from spirit_py.preflight.checks.other_writers import Surroundings, causes, may_write

MULTI = {"group_replication_single_primary_mode": "OFF"}
SINGLE = {"group_replication_single_primary_mode": "ON"}


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (Surroundings(variables=MULTI, role="PRIMARY"), "several primaries"),
        (Surroundings(variables=SINGLE, role="SECONDARY"), "a secondary"),
        (Surroundings(variables={"wsrep_on": "ON"}), "Galera"),
        (Surroundings(variables={}, channels=(("", ()),)), "the default replication channel"),
        (Surroundings(variables={}, channels=(("east", ()),)), "replication channel 'east'"),
    ],
)
def test_each_way_is_named(seen, cause):
    """Writes of another server may come in between, and the refusal says from where."""
    (found,) = causes(seen, "shop", "t")
    assert cause in found


@pytest.mark.parametrize(
    "seen",
    [
        Surroundings(variables={}),
        Surroundings(variables=MULTI),
        Surroundings(variables=SINGLE, role="PRIMARY"),
        Surroundings(variables=SINGLE, role="UNKNOWN"),
        Surroundings(variables={"wsrep_on": "OFF"}),
        Surroundings(variables={}, channels=(("east", (("REPLICATE_IGNORE_TABLE", "shop.t"),)),)),
    ],
)
def test_one_writer_is_no_trouble(seen):
    """A single primary, a server outside of its group, a channel that passes the table over."""
    assert list(causes(seen, "shop", "t")) == []


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ([], True),
        ([("REPLICATE_DO_TABLE", "shop.t")], True),
        ([("REPLICATE_DO_TABLE", "shop.T")], True),
        ([("REPLICATE_DO_TABLE", "shop.other")], False),
        ([("REPLICATE_IGNORE_TABLE", "shop.other")], True),
        ([("REPLICATE_IGNORE_TABLE", "shop.T")], True),
        ([("REPLICATE_WILD_DO_TABLE", "sh%.t")], True),
        ([("REPLICATE_WILD_DO_TABLE", "shop.__")], False),
        ([("REPLICATE_WILD_IGNORE_TABLE", "shop.%")], False),
        ([("REPLICATE_WILD_IGNORE_TABLE", r"sho\_.%")], True),
        ([("REPLICATE_DO_TABLE", "shop.t"), ("REPLICATE_IGNORE_TABLE", "shop.t")], True),
        ([("REPLICATE_DO_DB", "other")], True),
    ],
)
def test_a_channels_filters_are_applied_in_the_servers_order(filters, passes):
    """In the server's order; what is not sure lets the table pass."""
    assert may_write(filters, "shop", "t") is passes


@pytest.mark.parametrize(
    ("channel", "counts"),
    [("group_replication_applier", 0), ("group_replication_recovery", 0), ("east", 1), ("", 1)],
)
def test_a_group_s_own_channels_are_no_writers_without_performance_schema(channel, counts):
    """R15: they bring what the group's primary writes, which this server is."""
    row = ["x"] * 56
    row[RECEIVES], row[APPLIES], row[55] = "Yes", "Yes", channel
    session: Any = SimpleNamespace(query=lambda _: [tuple(row)])
    assert len(module._status_channels(session)) == counts

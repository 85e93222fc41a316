"""Which servers beside this one may write a table, by what the server shows (R15)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import Refusal, ServerFault
from spirit_py.migration.swap import old_tables
from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.grants import parse_grants
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


@pytest.mark.parametrize("role", ["PRIMARY", "SECONDARY"])
@pytest.mark.parametrize("begun", ["here", "elsewhere"])
def test_a_secondary_that_takes_writes_drops_nothing_of_its_group(role, begun, monkeypatch):
    """Its channels are the group's, and bring what the primary writes."""
    patched: dict[str, Any] = {
        "read_facts": lambda *_: ServerFacts(version="8.0", variables={}),
        "server_uuid": lambda _: "here",
        "begun_on": lambda *_: begun,
        "record_of": lambda *_: None,
        "_channels": lambda _: (),
        "role_in_group": lambda _: role,
        "CheckpointTable": lambda *_: SimpleNamespace(is_ours=lambda _: True),
    }
    for name, value in patched.items():
        monkeypatch.setattr(module, name, value)
    session: Any = None
    asked = partial(module.require_own_server, session, [("s", "t")])
    if (role, begun) == ("SECONDARY", "elsewhere"):
        with pytest.raises(Refusal, match="a secondary of its replication group"):
            asked()
    else:
        asked()


@pytest.mark.parametrize("more", ["", "innodb_read_only"])
def test_a_fence_excuses_no_other_setting(more, monkeypatch):
    """The source of a move may be read_only for its clients; innodb_read_only lets nobody write."""
    facts = ServerFacts(version="8.0", variables={"read_only": "ON", more: "ON"})
    for place in (module, old_tables):
        monkeypatch.setattr(place, "read_facts", lambda *_: facts)
    monkeypatch.setattr(module, "_is_left", lambda *_: True)
    super_user = parse_grants(["GRANT SUPER ON *.* TO `a`@`%`"], "`a`@`%`", partial_revokes=False)
    monkeypatch.setattr(module, "read_grants", lambda _: super_user)
    monkeypatch.setattr(old_tables, "replica_status", lambda _: [])
    monkeypatch.setattr(old_tables, "with_old_table", lambda *_: True)
    session: Any = None
    tables = [("s", "t")]
    asked = partial(
        module.require_own_server,
        session,
        tables,
        writes_only_here=True,
        fenced=True,
        noted=False,
    )
    if more:
        with pytest.raises(Refusal, match="innodb_read_only=ON"):
            asked()
        with pytest.raises(ServerFault, match="innodb_read_only=ON"):
            old_tables._require_writable(session, tables, fenced=True)
    else:
        asked()
        old_tables._require_writable(session, tables, fenced=True)

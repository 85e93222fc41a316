"""A replication channel into the server, on two real servers."""

from __future__ import annotations

import pytest

from spirit_py.config import MigrationConfig
from spirit_py.mysql.connect import connect
from spirit_py.preflight.checks import other_writers
from spirit_py.preflight.preflight import prepare
from tests.kits.connection import options_of
from tests.kits.replica import replicated_pair
from tests.kits.waiting import until


def found(server, **more):
    """Return the findings of the check for a table."""
    config = MigrationConfig(
        connection=options_of(server), database="rehearsed", table="w", alter="ADD c INT", **more
    )
    with connect(config.connection, role="test") as session:
        session.execute("CREATE DATABASE IF NOT EXISTS rehearsed")
        session.execute("CREATE TABLE IF NOT EXISTS rehearsed.w (id INT PRIMARY KEY)")
        (context,) = prepare(session, config)
        return list(other_writers.other_writers(context))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_running_channel_is_refused_without_writes_only_here():
    """The source has none; the replica has one, and a filter on the table or its end is enough."""
    with replicated_pair() as servers:
        assert found(servers.source) == []
        (finding,) = until(lambda: found(servers.replica), "the channel to run")
        assert "the default replication channel replicates to this server" in finding.cause
        assert "--writes-only-here" in finding.remedy
        assert found(servers.replica, writes_only_here=True) == []
        with connect(options_of(servers.replica), role="test") as session:
            session.execute("STOP REPLICA")
            assert found(servers.replica) == []
            session.execute("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (rehearsed.w)")
            session.execute("START REPLICA")
        assert found(servers.replica) == []

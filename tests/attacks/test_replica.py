"""One who may read the binlog (REPLICATION SLAVE): he registers as a replica, wherever he likes."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pymysql
import pytest

from tests.attacks.victim import SECRET
from tests.kits.greedy_server import GreedyServer
from tests.kits.held_command import assert_migrated

pytestmark = pytest.mark.timeout(400)
_COM_REGISTER_REPLICA = 0x15


@contextlib.contextmanager
def registered(server, user, password, host, port, number):
    """Be a replica in the source's list: it believes the address that it is told."""
    session: Any = pymysql.connect(host=server.host, port=server.port, user=user, password=password)
    name = host.encode()
    place = bytes([len(name)]) + name + b"\0\0" + struct.pack("<HII", port, 0, 0)
    session._execute_command(_COM_REGISTER_REPLICA, struct.pack("<I", number) + place)
    session._read_ok_packet()
    try:
        yield
    finally:
        session.close()


@pytest.mark.parametrize("more", [(), ("--max-lag", "1s")])
def test_no_login_is_sent_to_an_address_that_only_a_replica_has_named(victim, tmp_path, more):
    """He listens there, and asks for the password as it is: nobody comes (R26)."""
    victim.create_account("reader", "REPLICATION SLAVE ON *.*")
    with (
        GreedyServer() as listening,
        registered(
            victim.db.server, "reader", "guess", listening.host, listening.port, number=4711
        ),
        victim.migrating(tmp_path, *more) as (command, _),
    ):
        code = command.end()
    assert listening.heard == b""
    assert f"{listening.host}:{listening.port}" in command.said
    assert SECRET not in command.said
    if not code:
        assert_migrated(victim.db)
    else:
        assert code == 2
        assert more, command.said

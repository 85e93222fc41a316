"""How a dump ends decides whether it is opened again (R12)."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.errors import PositionNotFound


def ended(ending: bytes) -> BinlogConnection:
    """Return a connection whose dump has ended with a packet."""
    made: Any = BinlogConnection.__new__(BinlogConnection)
    made.options, made.place = SimpleNamespace(address="here"), None
    made._packets = SimpleNamespace(read=list, ending=ending)
    found: BinlogConnection = made
    return found


def test_an_error_of_the_server_is_told_as_such():
    """A purged binlog does not come back, so the stream is not merely lost."""
    text = b"#HY000Cannot replicate because the source purged required binary logs"
    with pytest.raises(PositionNotFound, match="purged required"):
        ended(b"\xff" + struct.pack("<H", 1236) + text).read()


def test_the_end_of_the_stream_is_a_loss():
    """A closed stream never means that everything was read."""
    with pytest.raises(StreamLost, match="ended the stream"):
        ended(b"\xfe").read()

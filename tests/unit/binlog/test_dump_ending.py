"""How a dump ends decides whether it is opened again (R12)."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, PositionNotFound


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


@pytest.mark.parametrize(
    ("number", "code", "hint"),
    [
        (3118, ErrorCode.ACCESS_DENIED, "locked"),
        (1045, ErrorCode.ACCESS_DENIED, "password"),
        # The driver's library may have a method that the feed's has not.
        *((one, ErrorCode.ACCESS_DENIED, "caching_sha2_password") for one in (1251, 2059, 2061)),
        (1227, ErrorCode.MISSING_PRIVILEGES, "GRANT REPLICATION SLAVE"),
    ],
)
def test_a_refused_login_is_no_missing_privilege(number: int, code: ErrorCode, hint: str) -> None:
    """An account that is locked, or whose password was rotated, needs no GRANT."""
    with pytest.raises(FeedFailure) as raised:
        ended(b"\xff" + struct.pack("<H", number) + b"#HY000no").read()
    assert raised.value.error_code is code
    assert hint in raised.value.hint

"""Statements of the binlog: status variables and character sets, from bytes of MySQL 9.7."""

from __future__ import annotations

import pytest

from spirit_py.binlog import writes
from spirit_py.binlog.events import Place, StatementSeen

PLACE = Place("b.000001", 100)
CHARSETS = {8: "latin1", 28: "gbk", 255: "utf8mb4", 13: "sjis", 10: "swe7", 63: "binary"}
STATUS = "0000000000012000a04500000000060373746404{}11150000000000000012ff00"
LATIN1, GBK = "08000800ff00", "1c001c00ff00"


def body(text: bytes, charset: str = LATIN1, schema: bytes = b"dbg") -> bytes:
    """Build the body of an event."""
    status = bytes.fromhex(STATUS.format(charset))
    head = b"\x0e\0\0\0" + bytes(4) + bytes([len(schema)]) + bytes(2)
    return head + len(status).to_bytes(2, "little") + status + schema + b"\0" + text


def parsed(data: bytes) -> StatementSeen:
    """Read the body of a QUERY event."""
    return writes.parse_query(data, CHARSETS, PLACE, prepared=False)


def test_a_query_event_gives_session_schema_and_text() -> None:
    """What the server wrote for a client that speaks utf8mb4."""
    data = bytes.fromhex(
        "0c000000000000000200002d000000000000012000a04500000000060373746404ff00ff00ff000c01783100"
        "11080000000000000012ff0014007831006372656174652064617461626173652078"
    )
    assert parsed(data) == StatementSeen(PLACE, "x1", "create database x", 12)
    assert writes.query_text(data) == b"create database x"


def test_a_statement_is_read_in_the_character_set_of_its_client() -> None:
    """R14: a name of a followed table is not to be missed."""
    found = parsed(body(b"TRUNCATE TABLE `t\xebst`", schema=b"d\xc3\xabb"))
    assert found == StatementSeen(PLACE, "d\u00ebb", "TRUNCATE TABLE `t\u00ebst`", 14)
    found = parsed(body(b"drop table `\xd6\xd0`", GBK))
    assert (found.sql, found.certain) == ("drop table `\u4e2d`", True)


def test_status_variables_are_cut_apart() -> None:
    """By code, up to the first that nobody knows."""
    found = writes.status_variables(bytes.fromhex(STATUS.format(LATIN1) + "630102"))
    assert list(found) == [0, 1, 6, 4, 17, 18]
    assert found[4] == bytes.fromhex(LATIN1)
    assert writes.status_variables(bytes.fromhex("63" + "0408000800ff00")) == {}


@pytest.mark.parametrize(
    ("mode", "plain_backslash", "ansi_quotes"),
    [(0, False, False), (1 << 20, True, False), (4, False, True)],
)
def test_the_mode_is_read(mode: int, plain_backslash: bool, ansi_quotes: bool) -> None:
    """NO_BACKSLASH_ESCAPES decides where strings end, ANSI_QUOTES what is one."""
    status = b"\1" + mode.to_bytes(8, "little")
    data = body(b"x").replace(bytes.fromhex("012000a04500000000"), status)
    found = parsed(data)
    assert (found.plain_backslash, found.ansi_quotes) == (plain_backslash, ansi_quotes)
    assert found.certain


def test_a_text_of_unknown_mode_is_not_certain() -> None:
    """Nobody knows what is a string in it."""
    data = body(b"x").replace(bytes.fromhex("012000a04500000000"), b"")
    assert not parsed(data[:11] + b"\x17\0" + data[13:]).certain


@pytest.mark.parametrize(
    ("raw", "charset", "expected"),
    [
        (b"abc", "", ("abc", "", True)),
        (b"abc", "sjis", ("abc", "", True)),
        (b"a`c", "swe7", ("a`c", "", False)),
        (b"\xe4\x80\x81", "latin1", ("\u00e4\u20ac\x81", "\u4001", True)),
        (b"\xe4\xb8\xad", "utf8mb4", ("\u4e2d", "", True)),
        (b"\xe4\xb8\xad", "binary", ("\u4e2d", "", True)),
        (b"\xc3\xa4", "cp1251", ("\u0413\u00a4", "\u00e4", True)),
        (b"`\x95\x5c`", "gbk", ("`\u661e`", "", True)),
        (b"`\x95\x5c`", "sjis", ("`\\x95\\`", "", False)),
        (b"\xc3\xa4", "", ("\\xc3\\xa4", "\u00e4", False)),
        (b"\x81\xff", "gbk", ("\\x81\\xff", "", False)),
    ],
)
def test_text_is_read_for_certain_or_said_not_to_be(
    raw: bytes, charset: str, expected: tuple[str, str, bool]
) -> None:
    """latin1 is cp1252 with its holes filled; a trail byte is no backslash; UTF-8 counts too."""
    assert writes.read_text(raw, charset) == expected

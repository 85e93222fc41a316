"""Event bodies, from bytes that MySQL 9.7 wrote."""

from __future__ import annotations

import zlib

import pytest
import zstandard

from spirit_py.binlog import wire
from spirit_py.errors import FeedFailure

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"


def test_a_gtid_event_gives_its_transaction() -> None:
    """Flags, then the uuid, then the number."""
    body = bytes.fromhex("0116e8969de4d311f1b00c02fc000000010100000000000000" + "02" + "00" * 16)
    assert wire.parse_gtid(body) == (UUID, 1)


@pytest.mark.parametrize(
    ("body", "tsid", "number"),
    [
        (
            "0278000000022ca1035902750291034d0322c503c1021804f10300000002"
            "04040" + "60c73706972697408080a0c0c7fc9d90b4eb36006",
            f"{UUID}:spirit",
            1,
        ),
        (
            "02a4000002022ca1035902750291034d0322c503c1021804f10300000002"
            "0408" + "06386c6f6e6765725f7461675f6e616d655f3132333435363738393061620804",
            f"{UUID}:longer_tag_name_1234567890ab",
            2,
        ),
    ],
)
def test_a_tagged_gtid_event_gives_uuid_tag_and_number(body: str, tsid: str, number: int) -> None:
    """The serialized message with its variable-length integers is read (design section 7)."""
    assert wire.parse_tagged_gtid(bytes.fromhex(body))[:2] == (tsid, number)


@pytest.mark.parametrize(
    ("tagged", "body", "committed_at"),
    [
        (
            False,
            (
                "01bbfc224ae80e11f1a8af02fc0000000102000000000000000201000000000000000200000000000000"
                "27d4ea10066106dc50620100"
            ),
            1795528541.787175,
        ),
        (
            True,
            (
                "027000000002ed02f1034494a1031c22c503a102bd0204f1030000000204040606617070"
                "08080a100c7f82ddea100661061091041283120b"
            ),
            1795528541.78957,
        ),
        # It came from another server: that one's commit follows, and the highest bit says so.
        (False, "00" * 42 + "0b0000000000800a000000000000", 11e-6),
        (False, "00" * 25, 0.0),
        (
            True,
            "0278000000022ca1035902750291034d0322c503c1021804f1030000000204040" + "60c737069726974",
            0.0,
        ),
    ],
)
def test_a_gtid_event_gives_the_moment_of_the_commit(
    tagged: bool, body: str, committed_at: float
) -> None:
    """To the microsecond, as a server of 9.7 has written the first two."""
    raw = bytes.fromhex(body)
    read = wire.parse_tagged_gtid(raw)[2] if tagged else wire.commit_time(raw)
    assert read == pytest.approx(committed_at, abs=1e-6)


def test_a_tagged_gtid_event_of_another_layout_is_refused() -> None:
    """A layout that is not known stops the feed instead of giving a wrong transaction."""
    with pytest.raises(FeedFailure):
        wire.parse_tagged_gtid(bytes.fromhex("0278000a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"))


def test_an_xa_prepare_event_names_its_transaction_as_the_statements_do() -> None:
    """The xid of the event equals the text of XA START and XA COMMIT in the binlog."""
    data = b"\x00" + (7).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"\x01\0\0\0" + b"g1b"
    assert wire.parse_xa_prepare(data) == (False, "X'6731',X'62',7")


def test_table_names_are_a_key() -> None:
    """The bytes of the names in a table map equal the key built from the names."""
    body = (
        b"\x6c\0\0\0\0\0\x01\0" + b"\x02s1\0" + b"\x03tab\0" + b"\x02\x03\x0f\x02\x14\x00\x02" * 3
    )
    assert wire.table_name(body) == wire.name_key("s1", "tab")
    assert wire.table_name(body) != wire.name_key("s1t", "ab")


def test_checksums_are_recognised() -> None:
    """The last four bytes are the CRC32 of the rest, or the event is damaged."""
    event = b"some event"
    whole = event + zlib.crc32(event).to_bytes(4, "little")
    assert wire.has_checksum(whole)
    assert not wire.has_checksum(whole[:-5] + b"!" + whole[-4:])


def _event(kind: int, body: bytes) -> bytes:
    return wire.HEADER.pack(0, kind, 1, wire.HEADER_SIZE + len(body), 0, 0) + body


def _payload(compression: int, data: bytes, size: int) -> bytes:
    field = bytes([2, 1, compression]) if compression < 251 else b"\x02\x03\xfc" + b"\xff\x00"
    return field + b"\x03\x03\xfd"[:2] + b"\xfc" + size.to_bytes(2, "little") + b"\x00" + data


@pytest.mark.parametrize("frames", [1, 3])
def test_a_compressed_payload_is_cut_into_its_events(frames: int) -> None:
    """Events come out one by one, also when they span several zstd frames."""
    events = [_event(30, bytes([n]) * 1000 * n) for n in range(1, 7)]
    joined = b"".join(events)
    step = -(-len(joined) // frames)
    compressed = b"".join(
        zstandard.compress(joined[at : at + step]) for at in range(0, len(joined), step)
    )
    assert list(wire.split_payload(_payload(0, compressed, len(joined)))) == events


def test_an_uncompressed_payload_is_cut_into_its_events() -> None:
    """The server falls back to this when compression does not pay."""
    events = [_event(19, b"map"), _event(30, b"rows")]
    joined = b"".join(events)
    assert list(wire.split_payload(_payload(255, joined, len(joined)))) == events


def test_a_truncated_payload_is_a_failure() -> None:
    """Half a transaction is never taken for a whole one."""
    compressed = zstandard.compress(_event(30, b"x" * 100)[:-7])
    with pytest.raises(FeedFailure):
        list(wire.split_payload(_payload(0, compressed, 119)))


def test_an_unknown_compression_is_a_failure() -> None:
    """A later server's compression stops the feed and is named."""
    with pytest.raises(FeedFailure, match="compression 7"):
        list(wire.split_payload(_payload(7, b"", 0)))

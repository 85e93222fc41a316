"""A dump is cut into the same events however its bytes arrive."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from spirit_py.binlog import packets
from spirit_py.binlog.packets import DumpPackets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 64
"""Bytes of the buffer in these tests."""


def packet(number: int, event: bytes, status: int = 0) -> bytes:
    """Build one packet."""
    payload = bytes([status]) + event
    return len(payload).to_bytes(3, "little") + bytes([number & 0xFF]) + payload


def events_of(random_: random.Random, count: int) -> list[bytes]:
    """Return events shorter than the buffer, as long as it, and longer."""
    sizes = [0, 1, 7, 20, SIZE - 6, SIZE - 5, SIZE - 4, SIZE, 3 * SIZE, 10 * SIZE + 1]
    return [random_.randbytes(random_.choice(sizes)) for _ in range(count)]


def arriving(data: bytes, sizes: Iterator[int]) -> Callable[[memoryview], int]:
    """Return a read that brings so many bytes each time at most, and none at the end."""
    at = 0

    def readinto(room: memoryview) -> int:
        nonlocal at
        assert len(room), "a read without room would look like the end"
        part = data[at : at + min(len(room), next(sizes))]
        room[: len(part)] = part
        at += len(part)
        return len(part)

    return readinto


def read_all(dump: DumpPackets) -> list[bytes]:
    """Read until the connection ends; copy the events, which are valid until the next call."""
    found: list[bytes] = []
    try:
        while True:
            found += [bytes(event) for event in dump.read()]
    except ConnectionError as error:
        assert "closed" in str(error)  # noqa: PT017 - what came before it is the result
    return found


@pytest.mark.parametrize("seed", range(50))
def test_events_are_cut_whatever_arrives_together(seed: int) -> None:
    """Bytes come one by one, or many packets at once; events may be larger than the buffer."""
    chance = random.Random(seed)
    events = events_of(chance, 300)
    data = b"".join(packet(number, event) for number, event in enumerate(events, 1))
    longest = chance.choice([1, 3, 50, 10_000])
    sizes = iter(lambda: chance.randint(1, longest), 0)
    assert read_all(DumpPackets(arriving(data, sizes), SIZE)) == events


def test_an_event_of_several_packets_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet of the greatest length is continued, by an empty one at last."""
    monkeypatch.setattr(packets, "_LENGTH", 0xFF)
    for length in (253, 254, 255, 509, 510, 600):
        event = random.Random(length).randbytes(length)
        payload = b"\0" + event
        parts = [payload[at : at + 0xFF] for at in range(0, len(payload) + 1, 0xFF)]
        large = b"".join(
            len(part).to_bytes(3, "little") + bytes([number]) + part
            for number, part in enumerate(parts, 2)
        )
        data = packet(1, b"before") + large + packet(2 + len(parts), b"behind")
        found = read_all(DumpPackets(arriving(data, iter(lambda: 10_000, 0)), SIZE))
        assert found == [b"before", event, b"behind"], length


def test_events_come_before_the_end_that_follows_them() -> None:
    """The last events are returned, then nothing, and the ending has its status."""
    data = packet(1, b"one") + packet(2, b"two") + packet(3, b"\x10\x27#HY000gone", 0xFF)
    dump = DumpPackets(arriving(data, iter(lambda: 10_000, 0)), SIZE)
    assert [bytes(event) for event in dump.read()] == [b"one", b"two"]
    assert dump.read() == []
    assert dump.ending == b"\xff\x10\x27#HY000gone"
    assert dump.read() == []


def test_a_packet_out_of_turn_breaks_the_connection() -> None:
    """Bytes that were lost are noticed by the packets' numbers, of a large packet too."""
    for event in (b"two", bytes(10 * SIZE)):
        data = packet(1, b"one") + packet(3, event)
        dump = DumpPackets(arriving(data, iter(lambda: 9, 0)), SIZE)
        assert [bytes(found) for found in dump.read()] == [b"one"]
        with pytest.raises(ConnectionError, match=r"packet 3 .* instead of packet 2"):
            dump.read()

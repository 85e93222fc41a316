"""The packets of a binlog dump, as views of a buffer that one read fills with dozens of events."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BUFFER_BYTES: Final = 1 << 18

_HEADER: Final = struct.Struct("<I")
_HEADER_BYTES: Final = 4
_LENGTH: Final = 0xFFFFFF
"""The bits of the length; a packet as long as that is continued by the next one."""


class DumpPackets:
    """Reads the events of a dump; ``readinto`` waits for bytes and returns their number."""

    def __init__(
        self, readinto: Callable[[memoryview], int | None], size: int = BUFFER_BYTES
    ) -> None:
        self._readinto = readinto
        self._buffer = bytearray(size)
        self._room = memoryview(self._buffer)
        self._view = self._room.toreadonly()
        self._at = self._end = 0
        #: The number of the next packet, modulo 256.
        self._number = 1
        self.ending = b""

    def read(self) -> list[memoryview]:
        """Wait for events, valid until the next call; none at the end. OSError when it is lost."""
        while not self.ending:
            if events := self._cut():
                return events
            if self._length() > len(self._buffer):
                return [self._large()]
            if not self.ending:
                self._receive()
        return []

    def _cut(self) -> list[memoryview]:
        events: list[memoryview] = []
        buffer, view, at, end = self._buffer, self._view, self._at, self._end
        number = self._number
        while end - at > _HEADER_BYTES:
            (header,) = _HEADER.unpack_from(buffer, at)
            length = header & _LENGTH
            stop = at + _HEADER_BYTES + length
            if stop > end or length == _LENGTH:
                break
            if header >> 24 != number:
                raise _wrong_number(header >> 24, number)
            if buffer[at + _HEADER_BYTES]:
                self.ending = bytes(view[at + _HEADER_BYTES : stop])
                break
            events.append(view[at + _HEADER_BYTES + 1 : stop])
            number = (number + 1) & 0xFF
            at = stop
        self._at, self._number = at, number
        return events

    def _length(self) -> int:
        if self._end - self._at < _HEADER_BYTES:
            return 0
        (header,) = _HEADER.unpack_from(self._buffer, self._at)
        return _HEADER_BYTES + int(header & _LENGTH)

    def _large(self) -> memoryview:
        event = bytearray()
        length = _LENGTH
        while length == _LENGTH:
            while self._end - self._at < _HEADER_BYTES:
                self._receive()
            (header,) = _HEADER.unpack_from(self._buffer, self._at)
            if header >> 24 != self._number:
                raise _wrong_number(header >> 24, self._number)
            self._number = (self._number + 1) & 0xFF
            self._at += _HEADER_BYTES
            length = header & _LENGTH
            self._append(event, length)
        return memoryview(event)[1:].toreadonly()

    def _append(self, event: bytearray, length: int) -> None:
        stop = min(self._end, self._at + length)
        at = len(event) + stop - self._at
        event += self._view[self._at : stop]
        length -= stop - self._at
        self._at = stop
        event += bytes(length)
        with memoryview(event) as room:
            while at < len(event):
                at += self._read(room[at:])

    def _receive(self) -> None:
        rest = self._end - self._at
        if self._at:
            self._buffer[:rest] = self._buffer[self._at : self._end]
            self._at, self._end = 0, rest
        self._end += self._read(self._room[self._end :])

    def _read(self, room: memoryview) -> int:
        count = self._readinto(room)
        if not count:
            raise ConnectionError("the server closed the connection")
        return count


def _wrong_number(found: int, wanted: int) -> ConnectionError:
    return ConnectionError(f"packet {found} of the binlog dump came instead of packet {wanted}")

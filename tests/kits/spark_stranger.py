"""Whoever reaches Spark's ports, and has no secret: asks for blocks, as an executor does."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LISTENS = "0A"
#: Kinds of frames, and of messages, of Spark's network library.
_FETCH, _FETCHED, _REQUEST, _ANSWER = 0, 1, 3, 4
_OPEN_BLOCKS, _STREAM = b"\x00", 3
_SECONDS = 5


class Port(NamedTuple):
    """Where a process listens."""

    host: str
    number: int

    @property
    def of_this_machine(self) -> bool:
        """Whether no other machine reaches it."""
        address = ipaddress.ip_address(self.host)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def listening(pids: Iterable[int]) -> list[Port]:
    """Return the TCP ports of processes."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(link.readlink()))
    found = []
    # Without IPv6 there is one table alone.
    for family in Path("/proc/net").glob("tcp*"):
        for line in family.read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and f"socket:[{words[9]}]" in sockets:
                host, number = words[1].split(":")
                found.append(Port(_address(host), int(number, 16)))
    return found


def _address(text: str) -> str:
    """Return an address of ``/proc/net``, whose words are in the machine's order of bytes."""
    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return str(ipaddress.ip_address(b"".join(words)))


def blocks(port: Port, names: Iterable[str]) -> Iterator[bytes]:
    """Ask for blocks without a secret; give the contents of those that are sent."""
    with (
        contextlib.suppress(OSError, EOFError),
        socket.create_connection(port, timeout=_SECONDS) as wire,
    ):
        for name in names:
            yield from _block(wire, name)


def _block(wire: socket.socket, name: str) -> Iterator[bytes]:
    wanted = _OPEN_BLOCKS + _text("app") + _text("stranger") + struct.pack(">i", 1) + _text(name)
    _send(wire, _REQUEST, struct.pack(">qi", 1, len(wanted)) + wanted)
    answer = _receive(wire)
    if answer[0] != _ANSWER or answer[13] != _STREAM:
        return
    stream, _count = struct.unpack_from(">qi", answer, 14)
    _send(wire, _FETCH, struct.pack(">qi", stream, 0))
    answer = _receive(wire)
    if answer[0] == _FETCHED:
        yield answer[13:]


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _send(wire: socket.socket, kind: int, body: bytes) -> None:
    wire.sendall(struct.pack(">qB", 9 + len(body), kind) + body)


def _receive(wire: socket.socket) -> bytes:
    (size,) = struct.unpack(">q", _exactly(wire, 8))
    return _exactly(wire, min(size, 1 << 24) - 8)


def _exactly(wire: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = wire.recv(size - len(read))
        if not more:
            raise EOFError
        read += more
    return read

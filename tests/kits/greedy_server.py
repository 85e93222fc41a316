"""A server that asks every client for its password as it is, as one who stands between would."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

_CAPABILITIES = 0x00080000 | 0x8000 | 0x200 | 0x1  # plugins, secure connection, protocol 4.1
_SALT = b"12345678" + b"abcdefghijkl\0"
_GREETING = (
    b"\x0a9.7.0\0"
    + (7).to_bytes(4, "little")
    + _SALT[:8]
    + b"\0"
    + (_CAPABILITIES & 0xFFFF).to_bytes(2, "little")
    + b"\xff\x02\0"
    + (_CAPABILITIES >> 16).to_bytes(2, "little")
    + bytes([len(_SALT)])
    + bytes(10)
    + _SALT[8:]
    + b"caching_sha2_password\0"
)
_SWITCH = b"\xfemysql_clear_password\0"
_FAST = b"\x02\0\0\x02\x01\x03"  # the password is cached
_OK = b"\0\0\0\x02\0\0\0"


class GreedyServer:
    """Offers no TLS, and asks for the plugin ``mysql_clear_password``; keeps what it hears.

    Args:
        file: accept any login, and answer the first statement by asking for this file.
    """

    def __init__(self, file: str = "") -> None:
        self.heard = b""
        self.callers = 0
        self._file = file
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, name="greedy-server")

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.callers += 1
            with client, contextlib.suppress(OSError):
                client.settimeout(5)
                self._say(client, 0, _GREETING)
                if not self._file:
                    self._say(client, 2, _SWITCH)
                    continue
                client.sendall(_FAST)
                self._say(client, 3, _OK)
                self._say(client, 1, b"\xfb" + self._file.encode())

    def _say(self, client: socket.socket, number: int, packet: bytes) -> None:
        """Send a packet and hear the answer."""
        client.sendall(len(packet).to_bytes(3, "little") + bytes([number]) + packet)
        self.heard += client.recv(4096)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

"""Named points of a migration, for tests that must know where it is, or must hold it there.

When ``SPIRIT_PY_POINTS`` names a Unix socket, :func:`reach` writes a line of JSON there and waits
for one byte from the listener. Executors on the same machine inherit the variable.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "SPIRIT_PY_POINTS"

_listener = os.environ.get(VARIABLE, "")


def reach(name: str) -> None:
    """Pass a point; wait there while a test listens and has not released the program."""
    if _listener:
        _announce(name)


def _announce(name: str) -> None:
    import contextlib
    import json
    import socket

    said = json.dumps({"point": name, "pid": os.getpid()})
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
        line.connect(_listener)
        line.sendall(said.encode() + b"\n")
        line.recv(1)

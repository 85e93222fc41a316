"""Named points of a migration, for tests that must know where it is, or must hold it there.

When ``SPIRIT_PY_POINTS`` names a Unix socket, :func:`reach` writes a line of JSON there and waits
for one byte from the listener. Executors on the same machine inherit the variable.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "SPIRIT_PY_POINTS"

#: Every point, in the order of a migration, and whether an executor reaches it.
POINTS: Final[dict[str, bool]] = {
    "batch.created": False,
    "batch.noting": False,
    "batch.noted": False,
    "revision.begun": False,
    "revision.made": False,
    "revision.versions_made": False,
    "revision.versions_noted": False,
    "revision.swapped": False,
    "preflight.done": False,
    "checkpoint.created": False,
    "create.built": False,
    "create.done": False,
    "create.triggers": False,
    "feed.started": False,
    "checkpoint.writing": False,
    "checkpoint.written": False,
    "chunk.dispatched": False,
    "chunk.executing": True,
    "chunk.part": True,
    "chunk.executed": True,
    "chunk.committed": False,
    "feed.flushing": False,
    "feed.flushed": False,
    "index.dropped": False,
    "index.begin": False,
    "index.building": False,
    "index.built": False,
    "drain.begun": False,
    "checksum.begin": False,
    "checksum.locked": False,
    "checksum.compare": False,
    "checksum.chunk": True,
    "checksum.repair": False,
    "cutover.begin": False,
    "cutover.lock": False,
    "cutover.locked": False,
    "cutover.rename": False,
    "cutover.renamed": False,
    "cutover.unlocked": False,
    "cleanup.checkpoint": False,
    "cleanup.old_table": False,
}

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

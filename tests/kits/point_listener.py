"""The other end of the program's named points (:mod:`spirit_py.points`)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

#: Bytes of the path of a socket, on Linux.
_LONGEST = 107
_JOIN_SECONDS = 10.0


@dataclass
class Hold:
    """A point at which the program is to be held.

    Attributes:
        nth: hold when it is reached for the nth time, from 1; with an empty point, any is counted.
        pid: the process that is held there, once it is.
    """

    point: str
    nth: int = 1
    pid: int = 0
    held: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let the program go on; safe to call again."""
        self.let_go.set()


class PointListener:
    """Hears every point that the processes of a run reach, and holds them at one.

    Args:
        path: the socket; in a folder of its own below /tmp where this path is too long for one.

    Attributes:
        path: the variable :data:`spirit_py.points.VARIABLE` names it to the program.
    """

    def __init__(self, path: Path) -> None:
        self._folder = ""
        if len(os.fsencode(path)) > _LONGEST:
            self._folder = tempfile.mkdtemp(prefix="spirit-py-points-", dir="/tmp")
            path = Path(self._folder, path.name[:8])
        self.path = path
        self.reached: list[str] = []
        self._hold: Hold | None = None
        self._lock = threading.Lock()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._thread = threading.Thread(target=self._accept, name="points", daemon=True)

    def hold(self, point: str, nth: int = 1) -> Hold:
        """Hold the program at a point that it has not reached yet."""
        with self._lock:
            self._hold = Hold(point, nth)
            return self._hold

    def hold_after(self, point: str, more: int) -> Hold:
        """Hold the program at a point when it is reached so many times more, from 1."""
        with self._lock:
            self._hold = Hold(point, self.reached.count(point) + more)
            return self._hold

    def count(self, point: str) -> int:
        """Count how often a point was reached."""
        with self._lock:
            return self.reached.count(point)

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), name="point", daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        """Note a point, and let the program go on from there, now or when its hold ends."""
        with contextlib.closing(line), contextlib.suppress(OSError, ValueError):
            said = json.loads(line.makefile("rb").readline())
            point = said["point"]
            with self._lock:
                self.reached.append(point)
                hold = self._hold
                number = self.reached.count(point)
                if hold is not None and not hold.point:
                    number = len(self.reached)
            if hold is not None and (hold.point or point, hold.nth) == (point, number):
                hold.pid = int(said["pid"])
                hold.held.set()
                hold.let_go.wait()
            line.sendall(b".")

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go whom it holds, and listen no more."""
        if self._hold is not None:
            self._hold.release()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(_JOIN_SECONDS)
        self.path.unlink(missing_ok=True)
        if self._folder:
            self.path.parent.rmdir()

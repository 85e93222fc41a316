"""`spirit-py watch` as a process of its own, and its lines."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from tests.kits.command import command_line, environment
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.mysql import Database


_WITH_ROOM = """
import os, resource, sys
room = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Watching:
    """One run of the command."""

    def __init__(
        self,
        db: Database,
        *arguments: str,
        scoped: bool = True,
        read: bool = True,
        into: tuple[Path, int] | None = None,
    ) -> None:
        """Start it; ``into`` is a file for its lines, and how many bytes the file may have."""
        command = command_line(db, "watch", *arguments)
        if not scoped:
            scope = command.index("--database")
            del command[scope : scope + 2]
        if into is not None:
            command = [sys.executable, "-c", _WITH_ROOM, str(into[1]), *command]
        place = contextlib.nullcontext(subprocess.PIPE) if into is None else into[0].open("wb")
        with place as stdout:
            self.process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=environment(db),
            )
        self.lines: list[dict[str, Any]] = []
        self.errors = ""
        self._threads = [
            threading.Thread(target=body, name=f"reading-{body.__name__}", daemon=True)
            for body in ((self._read_lines,) if read and into is None else ())
            + (self._read_errors,)
        ]
        for thread in self._threads:
            thread.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # A process that is killed may leave half a line, which nobody counts as printed.
            if line.endswith(b"\n"):
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line.decode()

    def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until the lines meet a condition."""
        until(lambda: condition(self.lines) or self.process.poll() is not None)
        until(lambda: condition(self.lines) or not self._threads[0].is_alive())
        assert condition(self.lines), (self.lines[-3:], self.errors)

    def started(self) -> Watching:
        """Wait until it follows."""
        self.until(bool)
        return self

    def ended(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(DEADLINE)
        for thread in self._threads:
            thread.join(DEADLINE)
        return code

    def interrupt(self) -> str:
        """End it as Ctrl-C does; return the position to go on from."""
        self.process.send_signal(signal.SIGINT)
        assert self.ended() == 130, self.errors
        assert (self.lines[-1]["kind"], self.lines[-1]["reason"]) == ("end", "interrupted")
        return str(self.lines[-1]["position"])

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(DEADLINE)
        self.process.kill()
        self.ended()
        for stream in filter(None, (self.process.stdout, self.process.stderr)):
            stream.close()


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    """Return the kinds of the lines between the first and the last."""
    return [line["kind"] for line in lines if line["kind"] not in {"start", "end"}]


def values(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of a row's columns by name."""
    return {column["name"]: column["value"] for column in columns}


def committed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the row events of complete transactions, as a consumer that keeps its place does."""
    found: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for line in lines:
        match line["kind"]:
            case "begin" | "restarted":
                rows = []
            case "insert" | "update" | "delete":
                rows.append(line)
            case "commit" | "xa_commit":
                found += rows
                rows = []
    return found

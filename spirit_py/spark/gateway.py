"""The JVM of Spark as a child process: detached from the terminal, and always ended."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.spark.launch import Launch

_START_SECONDS: Final = 60.0
END_SECONDS: Final = 3.0
"""How long a JVM may take to end."""
_POLL_SECONDS: Final = 0.02
#: Runs the command in "$@", then deletes the folder in $0.
_THEN_DELETE: Final = '"$@"; code=$?; rm -rf -- "$0"; exit $code'


class JavaProcess:
    """A JVM with a gateway for this Python, in a process session of its own.

    Args:
        launch: how it is started.
        scratch: the folder of its files, which is deleted when the JVM has ended. A shell does it,
            because a driver that is killed cannot.
        log: where the JVM's and the Python workers' output goes.
    """

    def __init__(self, launch: Launch, scratch: Path, log: Path) -> None:
        self._info = launch.info
        with log.open("wb") as output:
            # The JVM exits when this pipe breaks, so it cannot outlive the driver.
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _THEN_DELETE, str(scratch), *launch.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=launch.environ,
                start_new_session=True,
            )

    def wait_for_gateway(self) -> tuple[int, str]:
        """Wait until the JVM has written where its gateway listens; return port and secret.

        Raises:
            MigrationFailure: when the JVM left or did not answer.
        """
        info = self._info
        if not _wait(lambda: info.is_file() or self._popen.poll() is not None, _START_SECONDS):
            raise MigrationFailure(
                f"the JVM did not answer within {_START_SECONDS:.0f} s",
                error_code=ErrorCode.SPARK_FAILED,
            )
        if not info.is_file():
            raise MigrationFailure(
                f"the JVM left with code {self._popen.returncode}",
                error_code=ErrorCode.SPARK_FAILED,
            )
        content = info.read_bytes()
        info.unlink()
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()

    @property
    def running(self) -> bool:
        """Whether the JVM has not ended."""
        return self._popen.poll() is None

    def end(self, seconds: float = END_SECONDS) -> int | None:
        """Let the JVM and everything below it end; kill what does not.

        Args:
            seconds: how long the JVM may take.

        Returns:
            The JVM's exit code; None when it had to be killed.
        """
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        code = self._popen.poll()
        if not _wait(lambda: not self._members(), END_SECONDS):
            self.kill()
        return code

    def kill(self) -> None:
        """Kill the JVM and everything below it."""
        _wait(self._killed, END_SECONDS)
        self._popen.wait()
        self._close_input()

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()

    def _killed(self) -> bool:
        """Kill what is alive; return whether nothing is. A process may start another meanwhile."""
        alive = {self._popen.pid} if self._popen.poll() is None else set()
        alive |= self._members()
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return not alive

    def _members(self) -> set[int]:
        """Return the living processes of the JVM's session: executors and Python workers too."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                # pid (name) state ppid pgrp session: the name may hold spaces and brackets.
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self._popen.pid and state not in "ZX":
                    found.add(int(stat.parent.name))
        return found


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; False when it did not within ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(_POLL_SECONDS)
    return True

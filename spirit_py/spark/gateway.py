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

from spirit_py.errors import MigrationFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
_INFO_FILE: Final = "gateway"


class JavaProcess:
    """``spark-submit`` with a gateway for this Python, in a process session of its own.

    Args:
        home: The folder of Spark.
        conf: Spark settings; they show in the process list, so nothing secret (R20).
        environ: The whole environment of the JVM.
        log: Where the JVM's and the Python workers' output goes.
    """

    def __init__(
        self, home: str, conf: Mapping[str, str], environ: Mapping[str, str], log: Path
    ) -> None:
        command = [str(Path(home) / "bin" / "spark-submit")]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        environ = {
            **environ,
            "SPARK_HOME": home,
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(log.parent / _INFO_FILE),
        }
        with log.open("wb") as output:
            # The JVM exits when this pipe breaks, so it cannot outlive the driver.
            self._popen = subprocess.Popen(
                [*command, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environ,
                start_new_session=True,
            )

    def wait_for_gateway(self, folder: Path) -> tuple[int, str]:
        """Wait until the JVM has written where its gateway listens; return port and secret.

        Raises:
            MigrationFailure: when the JVM left or did not answer.
        """
        info = folder / _INFO_FILE
        if not _wait(lambda: info.is_file() or self._popen.poll() is not None, _START_SECONDS):
            raise MigrationFailure(f"the JVM did not answer within {_START_SECONDS:.0f} s")
        if not info.is_file():
            raise MigrationFailure(f"the JVM left with code {self._popen.returncode}")
        content = info.read_bytes()
        info.unlink()
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()

    def end(self) -> None:
        """Let the JVM and everything below it end; kill what does not."""
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_END_SECONDS)
        if not _wait(lambda: not self._members(), _END_SECONDS):
            self.kill()

    def kill(self) -> None:
        """Kill the JVM and everything below it."""
        for pid in {self._popen.pid, *self._members()}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait()
        _wait(lambda: not self._members(), _END_SECONDS)

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

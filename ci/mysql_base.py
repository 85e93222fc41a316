"""What every MySQL server for tests has in common, wherever it comes from."""

from __future__ import annotations

import contextlib
import functools
import random
import shlex
import socket
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

POLL = 0.02
START_TIMEOUT = 120.0
# Below the kernel's range for outgoing connections, so that a restart finds its port free.
PORTS = range(20000, 32000)
#: Tests may seed `random`, in all their processes alike: each would draw the same.
_DICE = random.SystemRandom()


class ServerError(RuntimeError):
    """A MySQL server could not be started, stopped or reached."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The options of a throwaway server; `extra` is appended, so it takes precedence.

    Attributes:
        keeps_all: whether a crash loses no commit and no event, by the server's settings: a run
            goes on after a restart of such a server only.
        durable: whether InnoDB waits for the disk. What it has written outlives a crash of the
            server without that; only a crash of the machine may lose it.
    """

    gtid: bool = True
    durable: bool = True
    keeps_all: bool = False
    buffer_pool: str = "256M"
    extra: tuple[str, ...] = ()
    survive_parent: bool = False

    def arguments(self, server_id: int) -> list[str]:
        """Return these options as mysqld arguments."""
        mode = "ON" if self.gtid else "OFF"
        return [
            "--mysqlx=OFF",
            "--secure-file-priv=",
            "--local-infile=ON",
            "--max-connections=500",
            "--log-bin=binlog",
            f"--server-id={server_id}",
            f"--gtid-mode={mode}",
            f"--enforce-gtid-consistency={mode}",
            f"--sync-binlog={1 if self.keeps_all else 0}",
            f"--innodb-flush-log-at-trx-commit={1 if self.keeps_all else 2}",
            f"--innodb-buffer-pool-size={self.buffer_pool}",
            "--performance-schema=ON",
            "--log-error-verbosity=2",
            *(() if self.durable else ("--innodb-flush-method=nosync",)),
            *self.extra,
        ]


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until the condition holds; return whether it did in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def free_port() -> int:
    """Return a local port that is free at the moment."""
    for port in _DICE.sample(PORTS, 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    message = f"200 ports tried between {PORTS.start} and {PORTS.stop}, all in use"
    raise ServerError(message)


def greeting(host: str, port: int) -> str | None:
    """Return the version a MySQL server greets with, or None while it does not answer."""
    try:
        with socket.create_connection((host, port), timeout=5) as link:
            packet = link.recv(256)
    except OSError:
        return None
    protocol_offset, protocol = 4, 10
    if len(packet) <= protocol_offset or packet[protocol_offset] != protocol:
        return None
    return packet[protocol_offset + 1 :].split(b"\0", 1)[0].decode("ascii", "replace")


class MySQLServer(ABC):
    """A MySQL server for tests: start, use host, port, user and password, stop."""

    #: Where the server comes from, for headers and messages.
    origin: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    user: str = "root"
    password: str = ""
    #: Only a server on this machine has these.
    socket: Path | None = None
    datadir: Path | None = None
    log: Path | None = None
    client: tuple[str, ...] = ("mysql",)

    @functools.cached_property
    def server_id(self) -> int:
        """Return what tells it from others where it replicates, the same after a restart."""
        return _DICE.randrange(1001, 2**31)

    @abstractmethod
    def start(self, options: ServerOptions | None = None) -> None:
        """Start and wait until the server greets over TCP."""

    @abstractmethod
    def stop(self) -> None:
        """Stop for good and remove all data; safe to call twice."""

    @abstractmethod
    def restart(self, *, extra: Sequence[str] = ()) -> None:
        """Stop cleanly and start again on the same data and port, with more options if given."""

    @abstractmethod
    def kill(self) -> None:
        """End the server at once, as a crash would; `resume` brings it back."""

    @abstractmethod
    def resume(self) -> None:
        """Start again after `kill`, on the same data and port."""

    @property
    def pid(self) -> int | None:
        """Return the server's process id where it runs on this machine."""
        return None

    @property
    def url(self) -> str:
        """Return the server as SPIRIT_PY_TEST_MYSQL would name it."""
        return f"mysql://{quote(self.user)}:{quote(self.password)}@{self.host}:{self.port}"

    def peer_address(self) -> tuple[str, int]:
        """Return host and port under which another server of the same provider reaches it."""
        return self.host, self.port

    def version(self) -> str:
        """Return the version the server greets with."""
        found = greeting(self.host, self.port)
        if found is None:
            message = f"no MySQL server answers at {self.host}:{self.port} ({self.origin})"
            raise ServerError(message)
        return found

    def client_command(self) -> str:
        """Return a shell line that opens a client on this server."""
        words = [*self.client, f"-h{self.host}", f"-P{self.port}", f"-u{self.user}"]
        return f"MYSQL_PWD={shlex.quote(self.password)} {shlex.join(words)}"

    def await_greeting(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until the server greets over TCP."""
        if not wait_until(lambda: greeting(self.host, self.port) is not None, timeout):
            message = (
                f"no MySQL server answered at {self.host}:{self.port} within {timeout:.0f} s "
                f"({self.origin})"
            )
            raise ServerError(message)


class NamedServer(MySQLServer):
    """A running server, named by a URL; it is used, never started or stopped."""

    def __init__(self, url: str, *, variable: str) -> None:
        """Read `mysql://user:password@host:port`; `variable` is named in messages."""
        parts = urlsplit(url)
        if parts.scheme != "mysql" or not parts.hostname or not parts.username:
            message = f"{variable} is not of the form mysql://user:password@host:port"
            raise ServerError(message)
        self.origin = f"named by {variable}"
        self.host = parts.hostname
        self.port = parts.port or 3306
        self.user = unquote(parts.username)
        self.password = unquote(parts.password or "")

    def start(self, options: ServerOptions | None = None) -> None:
        """Only check that the server answers; its owner sets its options."""
        del options
        self.await_greeting(timeout=30)

    def stop(self) -> None:
        """Do nothing: the server is not ours."""

    def restart(self, *, extra: Sequence[str] = ()) -> None:
        """Refuse: the server is not ours."""
        del extra
        self._refuse("restart")

    def kill(self) -> None:
        """Refuse: the server is not ours."""
        self._refuse("kill")

    def resume(self) -> None:
        """Refuse: the server is not ours."""
        self._refuse("start")

    def _refuse(self, verb: str) -> None:
        message = (
            f"cannot {verb} the server {self.host}:{self.port}, it is {self.origin}: "
            "unset the variable to test with a throwaway server"
        )
        raise ServerError(message)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file, so that of several processes only one fetches or initialises."""
    import fcntl

    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

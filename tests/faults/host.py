"""The servers that runs use, one after the other: throwaway ones, on a disk that can be full."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from mysql_base import ServerOptions
from mysql_local import LocalServer
from mysql_server import choose
from mysql_words import version_number
from tests.kits.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSWORD = "long enough for anybody"
APPLICATION, MIGRATOR = "app", "migrator"
DISK_MIB = 1500
_NAMESPACE = "SPIRIT_PY_FAULTS_NAMESPACE"
_DEFINER_RENAMED = (8, 2)
_EXTRA = (
    "--innodb-redo-log-capacity=100M",
    # As servers are by default: a crash loses nothing that was committed.
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--log-bin-trust-function-creators=ON",
)
_UNSHARE = ("unshare", "-Urm")
_ACCOUNTS = f"""
CREATE USER {APPLICATION}@'%' IDENTIFIED BY '{PASSWORD}';
CREATE USER {MIGRATOR}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON *.* TO {APPLICATION}@'%';
GRANT SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, REFERENCES, LOCK TABLES,
  CREATE TEMPORARY TABLES ON *.* TO {MIGRATOR}@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, CONNECTION_ADMIN, RELOAD
  ON *.* TO {MIGRATOR}@'%'"""


def in_own_namespace(arguments: Sequence[str]) -> bool:
    """Run this program again where it may mount a disk of its own; return when it is there.

    The mounts are gone with the last process of the namespace, however it ends.

    Returns:
        Whether there are such namespaces here; without them no disk can be full.
    """
    found = os.environ.get(_NAMESPACE)
    if found is None:
        probe = subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False)
        os.environ[_NAMESPACE] = found = "none" if probe.returncode else "own"
        if not probe.returncode:
            os.execvp("unshare", [*_UNSHARE, sys.executable, *arguments])  # noqa: S606 - in its place
    return found == "own"


class Host:
    """A small disk with a server on it, and a proxy before the server.

    Args:
        gtid: whether the server has GTIDs.
    """

    def __init__(self, *, gtid: bool) -> None:
        self.gtid = gtid
        self.disk = Path(tempfile.mkdtemp(prefix="spirit-py-disk-"))
        self.server: LocalServer
        self.proxy: TcpProxy
        self._more: tuple[str, ...] = ()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Mount, start, and create the accounts."""
        self._stack.callback(shutil.rmtree, self.disk, ignore_errors=True)
        if os.environ.get(_NAMESPACE) == "own":
            size = f"size={DISK_MIB}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(self.disk)], check=True)
            self._stack.callback(subprocess.run, ["umount", "-l", str(self.disk)], check=False)
        made = choose(outlives=True).make()
        assert isinstance(made, LocalServer)
        self.server = made
        before, tempfile.tempdir = tempfile.tempdir, str(self.disk)
        try:
            made.start(
                ServerOptions(
                    gtid=self.gtid,
                    buffer_pool="128M",
                    keeps_all=True,
                    extra=_EXTRA,
                )
            )
        finally:
            tempfile.tempdir = before
        self._stack.callback(made.stop)
        self.proxy = self._stack.enter_context(TcpProxy((made.host, made.port)))
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            for statement in _ACCOUNTS.split(";"):
                cursor.execute(statement)
            # For triggers whose definer is another account.
            renamed = version_number(self.version) >= _DEFINER_RENAMED
            privilege = "SET_ANY_DEFINER" if renamed else "SET_USER_ID"
            cursor.execute(f"GRANT {privilege} ON *.* TO {MIGRATOR}@'%'")
        return self

    @property
    def version(self) -> str:
        """The server's version."""
        return self.server.version()

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self._stack.close()

    def connect(self, user: str = "root", **given: Any) -> Any:
        """Open a session, past the proxy; autocommit."""
        server = self.server
        password = server.password if user == "root" else PASSWORD
        arguments: dict[str, Any] = {
            "host": server.host,
            "port": server.port,
            "user": user,
            "passwd": password,
            "charset": "utf8mb4",
            "autocommit": True,
            "connect_timeout": 10,
        }
        return MySQLdb.connect(**(arguments | given))

    def execute(self, *statements: str) -> None:
        """Run statements as root in a session of their own."""
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 20")
            for statement in statements:
                cursor.execute(statement)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a query as root in a session of its own."""
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def restart(self, *more: str) -> None:
        """Shut the server down in order, and start it with the options that it had, and more."""
        server = self.server
        server._end(signal.SIGTERM)
        self._more = more
        server._options = replace(server._options, extra=(*_EXTRA, *more))
        server.resume()

    def put_back(self) -> None:
        """Give the account its privileges back, and the server its options."""
        if self._more:
            self.restart()
        self.execute(f"GRANT TRIGGER ON *.* TO {MIGRATOR}@'%'")

    def recover(self) -> None:
        """Bring server and proxy back to what a run may expect."""
        if self.server.pid is None:
            self.server.resume()
        self.put_back()
        self.proxy.delay = self.proxy.up_delay = 0.0
        self.proxy.black_hole = False
        self.proxy.lose_reply(b"")
        self.proxy.start()
        self.execute(
            "SET GLOBAL super_read_only = OFF",
            "SET GLOBAL read_only = OFF",
            "SET GLOBAL max_connections = 500",
            "SET GLOBAL max_allowed_packet = 67108864",
            "SET GLOBAL innodb_flush_log_at_timeout = 1",
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            "SET GLOBAL sync_binlog = 1",
            "FLUSH BINARY LOGS",
        )
        latest = self.query("SHOW BINARY LOGS")[-1][0]
        self.execute(f"PURGE BINARY LOGS TO '{latest}'")

"""Commits that wait between binlog and visibility for as long as a test says.

With `rpl_semi_sync_source_wait_point=AFTER_SYNC`, the default, a semi-synchronous source writes a
transaction to the binlog, sends it to every reader of the binlog, and waits for a replica's
acknowledgement before the engine commits (manual, Semisynchronous Replication). Until then
no other session's SELECT sees its rows and `@@gtid_executed` does not contain it.

    stall.hold()        from now on every commit waits; what is in the binlog stays invisible
    stall.release()     the acknowledgement comes: all that waited becomes visible
"""

from __future__ import annotations

import contextlib
import functools
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import MySQLdb

from tests.kits import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer
    from tests.kits.tcp_proxy import TcpProxy

#: A source gives up on its replicas by itself after this long, in milliseconds: no server
#: stays stalled when a test dies.
GIVE_UP_MS = 60_000
#: What a test waits for comes within this time, or never; well below GIVE_UP_MS.
PATIENCE = 30.0
until = functools.partial(waiting.until, seconds=PATIENCE)
#: MySQL's name of the account with which the replica reads; its sessions are no leftovers.
REPLICA_USER = "semisync_replica"

_INSTALLED = "SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = %s"
_READERS = "SELECT processlist_id FROM performance_schema.threads WHERE processlist_user = %s"
_WAITING = (
    "SELECT processlist_id, processlist_state, COALESCE(processlist_info, '')"
    " FROM performance_schema.threads WHERE processlist_id IS NOT NULL"
    " AND (processlist_state LIKE 'Waiting for semi-sync ACK%%'"
    " OR processlist_state = 'waiting for handler commit')"
)


class Waiting(NamedTuple):
    """A session whose commit is held."""

    session: int
    state: str
    statement: str


class Admin:
    """A session of the stall's own on one server."""

    def __init__(self, server: MySQLServer) -> None:
        self.server = server
        self._session = MySQLdb.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            passwd=server.password,
            autocommit=True,
        )
        self._lock = threading.Lock()

    def run(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run one statement; threads take turns."""
        with self._lock, contextlib.closing(self._session.cursor()) as cursor:
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall())

    def install(self, plugin: str, library: str) -> bool:
        """Install a plugin; False when it is there already."""
        if self.run(_INSTALLED, plugin):
            return False
        self.run(f"INSTALL PLUGIN {plugin} SONAME '{library}'")
        return True

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class Stall(ABC):
    """Holds and releases the commits of one source."""

    #: What stands behind it, for the summary.
    topology: str

    def __init__(self, source: MySQLServer) -> None:
        self.source = source
        self.admin = Admin(source)
        self._installed = self.admin.install("rpl_semi_sync_source", "semisync_source.so")
        self.admin.run(f"SET GLOBAL rpl_semi_sync_source_timeout = {GIVE_UP_MS}")
        self.admin.run("SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON")

    @abstractmethod
    def hold(self) -> None:
        """From now on every commit on the source waits after it is in the binlog."""

    @abstractmethod
    def release(self) -> None:
        """Let all commits that wait become visible, and later ones too; safe to call again."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold commits for the length of a `with` block."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """Have no semi-sync at all for the length of a `with` block."""
        ((before,),) = self.admin.run("SELECT @@GLOBAL.rpl_semi_sync_source_enabled")
        self.admin.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        try:
            yield
        finally:
            self.admin.run(f"SET GLOBAL rpl_semi_sync_source_enabled = {before}")

    def waiting(self) -> list[Waiting]:
        """Return the sessions whose commits wait: one for the acknowledgement, others behind it."""
        return [Waiting(int(a), b, c) for a, b, c in self.admin.run(_WAITING)]

    def figures(self) -> dict[str, str]:
        """Return the source's own figures of semi-sync, to explain a commit that did not wait."""
        return dict(self.admin.run("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source%'"))

    def close(self) -> None:
        """Leave the source as it was."""
        self.admin.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        if self._installed:
            until(self._uninstalled, "UNINSTALL PLUGIN rpl_semi_sync_source")
        self.admin.close()

    def _uninstalled(self) -> bool:
        """Uninstall; refused while a dump thread still knows the plugin."""
        try:
            self.admin.run("UNINSTALL PLUGIN rpl_semi_sync_source")
        except MySQLdb.Error:
            return False
        return True


class LoneSource(Stall):
    """One server that waits for a replica there is not; released by ending semi-sync."""

    topology = "one server that waits for a replica it does not have"

    def hold(self) -> None:
        """Wait for a replica from now on."""
        self.admin.run("SET GLOBAL rpl_semi_sync_source_enabled = ON")

    def release(self) -> None:
        """Wait no more, which lets go all that waits."""
        self.admin.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")


class SourceAndReplica(Stall):
    """A source with a real replica, whose acknowledgements end with its receiver thread."""

    def __init__(
        self, source: MySQLServer, replica: MySQLServer, *, seen_at: tuple[str, int], topology: str
    ) -> None:
        """Make `replica` follow the source under the address `seen_at`."""
        self.topology = topology
        super().__init__(source)
        self.replica = Admin(replica)
        self._follow(*seen_at)
        self.admin.run("SET GLOBAL rpl_semi_sync_source_enabled = ON")
        until(self._replica_counts, "the replica's first acknowledgement")

    def _follow(self, host: str, port: int) -> None:
        password = self.admin.server.password
        self.admin.run(f"CREATE USER IF NOT EXISTS {REPLICA_USER} IDENTIFIED BY '{password}'")
        self.admin.run(f"GRANT REPLICATION SLAVE ON *.* TO {REPLICA_USER}")
        self.replica.install("rpl_semi_sync_replica", "semisync_replica.so")
        self.replica.run("STOP REPLICA")
        self.replica.run("SET GLOBAL rpl_semi_sync_replica_enabled = ON")
        self.replica.run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port},"
            f" SOURCE_USER = '{REPLICA_USER}', SOURCE_PASSWORD = '{password}',"
            " SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1"
        )
        self.replica.run("START REPLICA")

    def _replica_counts(self) -> bool:
        """Whether the source has a semi-synchronous replica."""
        found = self.admin.run("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_clients'")
        return int(found[0][1]) > 0

    def hold(self) -> None:
        """End the replica's receiver, once it acknowledges again what is written."""
        until(self._waits_for_replica, "the replica to have caught up")
        self.replica.run("STOP REPLICA IO_THREAD")

    def _waits_for_replica(self) -> bool:
        """Whether commits wait for an acknowledgement; not since one waited in vain."""
        return self.figures()["Rpl_semi_sync_source_status"] == "ON"

    def release(self) -> None:
        """Start the receiver, which gets and acknowledges what it missed."""
        self.replica.run("START REPLICA IO_THREAD")

    def close(self) -> None:
        """End the replication, and leave the source as it was."""
        self.replica.run("STOP REPLICA")
        self.replica.close()
        # The source notices a reader's end only when it next has something to send.
        for (reader,) in self.admin.run(_READERS, REPLICA_USER):
            with contextlib.suppress(MySQLdb.Error):
                self.admin.run(f"KILL {reader}")
        super().close()


class BehindProxy(SourceAndReplica):
    """A source with a real replica, whose packets a proxy holds.

    A receiver needs more than half a second to connect again. Were it ended for each hold of a load
    that is held many times a second, no commit would be acknowledged any more, until the source
    gives up.
    """

    def __init__(self, source: MySQLServer, replica: MySQLServer, *, proxy: TcpProxy) -> None:
        """Make `replica` follow the source through the proxy."""
        self._proxy = proxy
        late = f"acknowledgements {proxy.up_delay * 1000:.0f} ms late"
        topology = f"source and replica, {late}"
        super().__init__(source, replica, seen_at=proxy.address, topology=topology)

    def hold(self) -> None:
        """Hold all packets between the two, once commits wait for them."""
        until(self._waits_for_replica, "the replica to have caught up")
        self._proxy.black_hole = True

    def release(self) -> None:
        """Let them go on."""
        self._proxy.black_hole = False

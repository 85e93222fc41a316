"""A source and a replica of it, both servers of the test's own."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from MySQLdb import OperationalError, ProgrammingError

from mysql_server import SERVER_VARIABLE, ServerOptions, choose, running
from tests.fixtures.mysql import connect
from tests.kits.connection import options_of
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_server import MySQLServer

#: The account that runs the program; on the replica it comes by replication.
ACCOUNT = "migrator"


class ReplicatedPair:
    """A source and a replica of it, with a cursor on each."""

    def __init__(self, source: MySQLServer, replica: MySQLServer, sessions: tuple[Any, Any]):
        self.source, self.replica = source, replica
        self.at, self.of = (session.cursor() for session in sessions)
        self.named = f"{replica.host}:{replica.port}"
        self.options = replace(options_of(source), user=ACCOUNT)

    def follow(self, *, gtid: bool) -> None:
        """Let the replica follow, and wait until it has the program's account."""
        place = "SOURCE_AUTO_POSITION = 1"
        if not gtid:
            self.at.execute("SHOW BINARY LOGS")
            file, offset, *_ = self.at.fetchall()[-1]
            place = f"SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {offset}"
        password = self.source.password
        for user, grants in (
            ("follower", "REPLICATION SLAVE"),
            (ACCOUNT, "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, SELECT"),
        ):
            self.at.execute(f"CREATE USER {user} IDENTIFIED BY '{password}'")
            self.at.execute(f"GRANT {grants} ON *.* TO {user}")
        host, port = self.source.peer_address()
        self.of.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port},"
            f" SOURCE_USER = 'follower', SOURCE_PASSWORD = '{password}',"
            f" GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, {place}"
        )
        self.of.execute("START REPLICA")
        until(self.has_grants, "the account on the replica")

    def has_grants(self) -> bool:
        """Whether the program's account has arrived."""
        self.of.execute(
            "SELECT 1 FROM mysql.user WHERE User = %s AND Process_priv = 'Y'", [ACCOUNT]
        )
        return bool(self.of.fetchall())

    def listed(self) -> bool:
        """Whether the source knows the replica."""
        self.at.execute("SHOW REPLICAS")
        return bool(self.at.fetchall())

    def rows(self, where: str = "TRUE") -> int:
        """Count the rows that the replica has; none while it has no table, or no such column."""
        with contextlib.suppress(ProgrammingError, OperationalError):
            self.of.execute(f"SELECT COUNT(*) FROM r.t WHERE {where}")
            return int(self.of.fetchall()[0][0])
        return 0


@contextlib.contextmanager
def replicated_pair(*, gtid: bool = True, report_host: bool = False) -> Iterator[ReplicatedPair]:
    """Start a source and a replica of our own; a named server is not used."""
    provider = choose({k: v for k, v in os.environ.items() if k != SERVER_VARIABLE})
    numbers = [
        ServerOptions(gtid=gtid, durable=False, extra=(f"--server-id={n}",)) for n in (11, 12)
    ]
    if report_host:
        # Which has SHOW REPLICAS return more columns; the older servers do not know the name.
        for at, said in enumerate(("--loose-show-replica-auth-info", "--report-host=localhost")):
            numbers[at] = replace(numbers[at], extra=(*numbers[at].extra, said))
    with (
        running(numbers[0], provider=provider) as source,
        running(numbers[1], provider=provider) as replica,
        contextlib.closing(connect(source)) as first,
        contextlib.closing(connect(replica)) as second,
    ):
        made = ReplicatedPair(source, replica, (first, second))
        made.follow(gtid=gtid)
        yield made

"""Those who are attacked: a server of their own, a table, and the account that migrates it.

Each attacker of this folder has a login that exists in ordinary teams, and everything that he can
know without secrets: the program's source text, the names of schemas and tables, the numbers of
sessions. He is powerless if the migration does what it would do without him, or stops and says who
stands in its way; and if he gets neither its password nor anything done with its rights.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.fixtures.mysql import Database, connect
from tests.kits.held_command import fill, migration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mysql_server import MySQLServer
    from tests.kits.held_command import Command
    from tests.kits.point_listener import PointListener

MIGRATOR = "migrator"
#: What is looked for wherever an attacker can look.
SECRET = "Correct-Horse-Battery-9"
_ON_SCHEMA = (
    "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
    " CREATE TEMPORARY TABLES ON {schema}.*"
)
_ON_SERVER = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, RELOAD, CONNECTION_ADMIN ON *.*"
_ATTACKERS_PASSWORD = "guess"


class Victim:
    """A schema with a table, and what an attacker may and may not have.

    Attributes:
        db: a session of root, who sees whether an attack has had an effect.
        migrator: the schema as the program reaches it, with its own account.
    """

    def __init__(self, server: MySQLServer, name: str) -> None:
        self.db = Database(server, name)
        self._accounts: list[str] = []
        self.create_account(MIGRATOR, _ON_SCHEMA, _ON_SERVER, password=SECRET)
        reached = SimpleNamespace(
            host=server.host, port=server.port, user=MIGRATOR, password=SECRET
        )
        self.migrator: Any = SimpleNamespace(server=reached, name=name)
        fill(self.db)

    def create_account(self, name: str, *grants: str, password: str = _ATTACKERS_PASSWORD) -> None:
        """Create an account; ``{schema}`` in its grants is the schema of the victim."""
        self.db.execute(f"CREATE USER {name} IDENTIFIED BY '{password}'")
        self._accounts.append(name)
        for grant in grants:
            self.db.execute(f"GRANT {grant.format(schema=f'`{self.db.name}`')} TO {name}")

    def attacker(self, name: str, *grants: str, **more: Any) -> Any:
        """Create an account, and return a session of its."""
        self.create_account(name, *grants)
        return self.session(name, **more)

    def session(self, name: str, **more: Any) -> Any:
        """Return a session of an attacker, without a schema."""
        given = {"user": name, "passwd": _ATTACKERS_PASSWORD, "db": "", **more}
        opened = connect(self.db.server, **given)
        self.db._own.add(opened.thread_id())
        self.db._connections.append(opened)
        return opened

    @contextlib.contextmanager
    def migrating(
        self, folder: Path, *more: str, **given: Any
    ) -> Iterator[tuple[Command, PointListener]]:
        """Run the migration as its own account, with a listener on its points."""
        with migration(self.migrator, folder, *more, **given) as held:
            yield held

    def accounts(self) -> set[str]:
        """Return the names of all accounts of the server."""
        return {str(name) for (name,) in self.db.query("SELECT User FROM mysql.user")}

    def close(self) -> list[str]:
        """Drop accounts and schema; return what the program has left."""
        left = self.db.close()
        with contextlib.closing(connect(self.db.server)) as session, session.cursor() as cursor:
            for name in self._accounts:
                cursor.execute(f"DROP USER IF EXISTS {name}")
        return left


def run(session: Any, sql: str, parameters: Sequence[object] | None = None) -> list[Any]:
    """Run a statement of an attacker; return its rows."""
    with contextlib.closing(session.cursor()) as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

"""Plain sessions, as an application or an operator opens them: nothing of the program's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

if TYPE_CHECKING:
    from mysql_base import MySQLServer

SCHEMA = "spirit_py_bench"
TABLE = "t"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how to log in. Goes to other processes."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, server: MySQLServer) -> Self:
        """Return the address of a running server."""
        return cls(host=server.host, port=server.port, user=server.user, password=server.password)


class Session:
    """One autocommit session with the server's own settings."""

    def __init__(self, address: Address, schema: str = SCHEMA) -> None:
        """Log in."""
        where = {"db": schema} if schema else {}
        self._connection: Any = MySQLdb.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            passwd=address.password,
            autocommit=True,
            charset="utf8mb4",
            **where,
        )
        self._cursor: Any = self._connection.cursor()

    def execute(self, sql: str) -> int:
        """Run a statement; return how many rows it touched."""
        return int(self._cursor.execute(sql))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows."""
        self._cursor.execute(sql)
        return list(self._cursor.fetchall())

    def value(self, sql: str) -> Any:
        """Return the only value of the only row."""
        ((value,),) = self.query(sql)
        return value

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Use it as a context that ends the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the session."""
        self.close()

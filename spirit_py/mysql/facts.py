"""The server's version and settings, read once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.contracts import SqlSession

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# A TIMESTAMP can be written with its offset since then, whatever the session's time zone.
OLDEST = (8, 0, 19)
_ON = frozenset({"ON", "1", "YES", "TRUE"})


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """One server's ``VERSION()``, and its global variables by lower-case name.

    Attributes:
        chosen: session variables, and their values, that the operator chose in place of the
            server's; the variables have these values.
    """

    version: str
    variables: Mapping[str, str] = field(repr=False)
    chosen: tuple[tuple[str, str], ...] = ()

    def text(self, name: str) -> str:
        """Return a global variable's value; empty when the server has no such variable."""
        return self.variables.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """Return a global variable's value as a number."""
        value = self.variables.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else default

    def is_on(self, name: str) -> bool:
        """Return whether a global switch is on; a variable that is missing is off."""
        return self.text(name).upper() in _ON

    @property
    def mariadb(self) -> bool:
        """Whether this is MariaDB, which shares MySQL's protocol but not its binlog."""
        return "mariadb" in f"{self.version} {self.text('version_comment')}".lower()

    @property
    def uuid(self) -> str:
        """``@@server_uuid``."""
        return self.text("server_uuid")

    @property
    def gtid(self) -> bool:
        """Whether every transaction gets a GTID."""
        return self.text("gtid_mode").upper() == "ON"

    @property
    def time_zone(self) -> str:
        """``@@global.time_zone``: what ``TIMESTAMP`` is converted with by a native ALTER."""
        return self.text("time_zone")

    @property
    def sql_mode(self) -> str:
        """What a native ALTER runs under: the server's ``sql_mode``, or the one that is chosen."""
        return self.text("sql_mode")


def version_numbers(version: str) -> tuple[int, int, int]:
    """Return the numbers of a version such as ``8.4.2-commercial``; zeros when it has none."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def read_facts(session: SqlSession) -> ServerFacts:
    """Read the facts; needs no privilege."""
    version = str(session.query("SELECT VERSION()")[0][0])
    variables = {
        str(name).lower(): "" if value is None else str(value)
        for name, value in session.query("SHOW GLOBAL VARIABLES")
    }
    return ServerFacts(version=version, variables=variables)


def require_mysql(facts: ServerFacts) -> None:
    """Refuse any other server, before a statement that it might not understand.

    Raises:
        Refusal: naming the server's version.
    """
    if facts.mariadb:
        raise Refusal(
            f"the server is MariaDB ({facts.version}), not MySQL",
            hint="use a tool made for MariaDB: its GTIDs, binlog and online DDL are its own",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        )
    if version_numbers(facts.version) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise Refusal(
            f"the server is MySQL {facts.version}; MySQL {wanted} or later is needed",
            hint="upgrade the server, or use gh-ost or pt-online-schema-change",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        )

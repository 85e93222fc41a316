"""MySQL 8.0 or later, and not MariaDB, whose binlog and catalogue differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import Refusal

if TYPE_CHECKING:
    from spirit_py.mysql.facts import ServerFacts

# A TIMESTAMP can be written with its offset since then, whatever the session's time zone.
OLDEST = (8, 0, 19)


def require_mysql(facts: ServerFacts) -> None:
    """Refuse any other server. Runs before all other checks, whose queries it would not know.

    Raises:
        Refusal: naming the server's version.
    """
    if facts.mariadb:
        raise Refusal(
            f"the server is MariaDB ({facts.version}), not MySQL",
            hint="use a tool made for MariaDB: its GTIDs, binlog and online DDL are its own",
        )
    if facts.version_number < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise Refusal(
            f"the server is MySQL {facts.version}; MySQL {wanted} or later is needed",
            hint="upgrade the server, or use gh-ost or pt-online-schema-change",
        )

"""What an account must be allowed, so that a table it does not see is known not to be there.

The catalogue hides what an account has no privilege on. A hidden table is not an absent one: who
is told that nothing is left would start afresh, or forget what takes up the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import Refusal
from spirit_py.mysql.grants import grant_statement, read_grants
from spirit_py.sql import quote_identifier
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession

_PERFORMANCE_SCHEMA = "performance_schema"
NUMBERS: Final = ("PROCESS",)
"""What it takes to read information_schema.INNODB_TABLES."""


class Sight:
    """What the account of a session may do, asked once."""

    def __init__(self, session: SqlSession) -> None:
        self.account = str(session.query("SELECT CURRENT_USER()")[0][0])
        revokes = session.query("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")
        self._grants = read_grants(session, partial_revokes=bool(revokes and revokes[0][1] == "ON"))

    def missing(self, privileges: Iterable[str], schema: str, table: str = "") -> list[str]:
        """Name the privileges that are not held on all the tables beside one, or on a schema.

        Args:
            schema: empty for all of them.
            table: the source table; empty for all of the schema.
        """
        return [one for one in privileges if not self._has(one, schema, table)]

    def _has(self, privilege: str, schema: str, table: str) -> bool:
        if not schema:
            return self._grants.has_global(privilege)
        if not table:
            return self._grants.has(privilege, schema)
        names = AuxiliaryNames.of(table)
        beside = (names.new, names.old, names.checkpoint, names.sentinel, names.undone)
        return all(self._grants.has(privilege, schema, name) for name in beside)

    def grant(self, privileges: Iterable[str], schema: str) -> str:
        """Return the statement that grants privileges on a schema, or on all of them."""
        where = f"{quote_identifier(schema)}.*" if schema else "*.*"
        return grant_statement(privileges, where, self.account)

    def require(self, privileges: Iterable[str], schema: str, table: str, what: str) -> None:
        """Refuse an account that could not see, or not do, what is asked for.

        Raises:
            Refusal: with the GRANT that is missing.
        """
        missing = self.missing(privileges, schema, table)
        if missing:
            raise Refusal(
                f"account {self.account} lacks {', '.join(missing)} on the tables beside"
                f" {schema}.{table}: {what}",
                hint=self.grant(missing, schema),
            )

    def require_numbers(self) -> None:
        """Refuse an account that may not see the numbers of tables, which prove whose they are.

        Raises:
            Refusal: with the GRANT that is missing.
        """
        if missing := self.missing(NUMBERS, ""):
            raise Refusal(
                f"account {self.account} lacks {', '.join(missing)}: without it nothing proves"
                " which tables are this program's",
                hint=self.grant(missing, ""),
            )

    def require_sessions(self) -> None:
        """Refuse an account that may not see the sessions of an earlier run.

        Raises:
            Refusal: with the GRANT that is missing.
        """
        if not self._grants.has("SELECT", _PERFORMANCE_SCHEMA):
            raise Refusal(
                f"account {self.account} lacks SELECT on {_PERFORMANCE_SCHEMA}.*: a session of the"
                " abandoned run might still write",
                hint=self.grant(["SELECT"], _PERFORMANCE_SCHEMA),
            )

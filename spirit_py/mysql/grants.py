"""The account's privileges, from ``SHOW GRANTS``, which includes those of active roles.

The catalogue hides tables on which an account has no privilege. Without :meth:`Grants.require` a
run would take a hidden table for an absent one, and start afresh or leave it on the disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import like_regex, quote_identifier
from spirit_py.statement.lexer import SqlMode, Token, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.contracts import SqlSession

_ALL = frozenset({"ALL", "ALL PRIVILEGES"})
# ALL does not grant dynamic privileges at schema level, and these are global anyway.
_EVERYWHERE = "*"
IDENTITY_PRIVILEGES: Final = ("PROCESS",)
"""The privilege for information_schema.INNODB_TABLES, which proves which tables are ours."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One line of ``SHOW GRANTS``.

    Attributes:
        schema: ``*``, or a schema pattern with the wildcards ``%`` and ``_``.
        table: ``*``, or a table's name.
        privileges: in upper case, column privileges left out.
        revoked: a partial revoke of a global privilege.
    """

    schema: str
    table: str
    privileges: frozenset[str]
    revoked: bool = False


@dataclass(frozen=True, kw_only=True)
class Grants:
    """All grants of the session's account.

    Attributes:
        account: as ``CURRENT_USER()`` returns it.
        literal_schemas: ``partial_revokes`` is on: wildcards in schema names are plain letters.
    """

    lines: tuple[Grant, ...]
    account: str = ""
    literal_schemas: bool = False
    text: tuple[str, ...] = field(default=(), repr=False)

    def has_global(self, privilege: str) -> bool:
        """Return whether a privilege is held globally."""
        return any(
            grant.schema == _EVERYWHERE and _includes(grant, privilege)
            for grant in self.lines
            if not grant.revoked
        )

    def has(self, privilege: str, schema: str, table: str = _EVERYWHERE) -> bool:
        """Return whether a privilege is held on a table, or on all of a schema."""
        revoked = any(
            grant.revoked and grant.schema == schema and _includes(grant, privilege)
            for grant in self.lines
        )
        if not revoked and self.has_global(privilege):
            return True
        return any(
            self._matches(grant.schema, schema)
            and grant.table in {_EVERYWHERE, table}
            and _includes(grant, privilege)
            for grant in self.lines
            if not grant.revoked and grant.schema != _EVERYWHERE
        )

    def missing(
        self, privileges: Iterable[str], schema: str = "", tables: Iterable[str] = (_EVERYWHERE,)
    ) -> list[str]:
        """Return the privileges that are not held on all of these tables.

        Args:
            schema: empty for global privileges.
            tables: names of tables of the schema; all of it by default.
        """
        if not schema:
            return [one for one in privileges if not self.has_global(one)]
        names = tuple(tables)
        return [one for one in privileges if not all(self.has(one, schema, t) for t in names)]

    def grant(self, privileges: Iterable[str], schema: str = "") -> str:
        """Return the GRANT of privileges on a schema, or of global ones, ready to paste."""
        name, _, host = self.account.rpartition("@")
        to = f"{quote_identifier(name)}@{quote_identifier(host)}"
        return f"GRANT {', '.join(privileges)} ON {scope_of(schema)} TO {to};"

    def require(
        self,
        privileges: Iterable[str],
        schema: str,
        why: str,
        tables: Iterable[str] = (_EVERYWHERE,),
        *,
        instead: str = "",
    ) -> None:
        """Refuse an account that could not see, or not do, what is asked for.

        Args:
            instead: the alternative for an operator who does not want to grant that.

        Raises:
            Refusal: with the GRANT that is missing.
        """
        if missing := self.missing(privileges, schema, tables):
            raise Refusal(
                f"account {self.account} lacks {', '.join(missing)} on {scope_of(schema)}: {why}",
                hint=self.grant(missing, schema) + (f" or {instead}" if instead else ""),
                error_code=ErrorCode.MISSING_PRIVILEGES,
            )

    def _matches(self, pattern: str, schema: str) -> bool:
        if self.literal_schemas:
            return pattern == schema
        return re.fullmatch(like_regex(pattern), schema, re.DOTALL) is not None


def _includes(grant: Grant, privilege: str) -> bool:
    return privilege in grant.privileges or bool(grant.privileges & _ALL)


def scope_of(schema: str) -> str:
    """Return the scope of a GRANT, as it follows ON."""
    return f"{quote_identifier(schema)}.*" if schema else "*.*"


def read_grants(session: SqlSession) -> Grants:
    """Read the grants of the session's account; needs no privilege."""
    text = [str(row[0]) for row in session.query("SHOW GRANTS")]
    revokes = session.query("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")
    account = str(session.query("SELECT CURRENT_USER()")[0][0])
    return parse_grants(text, account, partial_revokes=[row[1] for row in revokes] == ["ON"])


def parse_grants(
    lines: Iterable[str], account: str = "", *, partial_revokes: bool = False
) -> Grants:
    """Read the text of ``SHOW GRANTS``; lines that grant a role or a proxy are left out."""
    text = tuple(lines)
    found = tuple(grant for line in text for grant in _grants_of(line))
    return Grants(lines=found, account=account, literal_schemas=partial_revokes, text=text)


def _grants_of(line: str) -> Iterator[Grant]:
    tokens = tokenize(line, SqlMode(no_backslash_escapes=True))
    words = [token.upper for token in tokens]
    if not words or words[0] not in {"GRANT", "REVOKE"} or "ON" not in words:
        return
    on = words.index("ON")
    privileges = frozenset(_privileges(tokens[1:on]))
    object_tokens = [t for t in tokens[on + 1 : on + 5] if not t.is_symbol(".")]
    if "PROXY" in privileges or object_tokens[0].upper in {"PROCEDURE", "FUNCTION", "LIBRARY"}:
        return
    yield Grant(
        schema=object_tokens[0].value,
        table=object_tokens[1].value,
        privileges=privileges,
        revoked=words[0] == "REVOKE",
    )


def _privileges(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Yield the privileges of a list; one with columns in parentheses is left out."""
    words: list[str] = []
    depth, columns = 0, False
    for token in tokens:
        if token.is_symbol("("):
            depth, columns = depth + 1, True
        elif token.is_symbol(")"):
            depth -= 1
        elif depth == 0 and token.is_symbol(","):
            if words and not columns:
                yield " ".join(words)
            words, columns = [], False
        elif depth == 0:
            words.append(token.upper)
    if words and not columns:
        yield " ".join(words)

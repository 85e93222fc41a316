"""What the account may do, from ``SHOW GRANTS``: privileges of active roles are in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.sql import quote_identifier
from spirit_py.statement.lexer import SqlMode, Token, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.contracts import SqlSession

_ALL = frozenset({"ALL", "ALL PRIVILEGES"})
# ALL does not grant dynamic privileges at schema level, and these are global anyway.
_EVERYWHERE = "*"


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
        literal_schemas: ``partial_revokes`` is on: wildcards in schema names are plain letters.
    """

    lines: tuple[Grant, ...]
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

    def _matches(self, pattern: str, schema: str) -> bool:
        if self.literal_schemas:
            return pattern == schema
        return re.fullmatch(_regex(pattern), schema, re.DOTALL) is not None


def _includes(grant: Grant, privilege: str) -> bool:
    return privilege in grant.privileges or bool(grant.privileges & _ALL)


def _regex(pattern: str) -> str:
    r"""Turn a schema pattern into a regular expression; ``\_`` and ``\%`` are plain letters."""
    return "".join(
        {"%": ".*", "_": "."}.get(piece, re.escape(piece.removeprefix("\\")))
        for piece in re.findall(r"\\.|.", pattern, re.DOTALL)
    )


def grant_statement(privileges: Iterable[str], where: str, account: str) -> str:
    """Return the GRANT that an account lacks, ready to paste.

    Args:
        where: what the privileges are on, quoted: a schema's or the whole server's tables.
        account: as ``CURRENT_USER()`` gives it.
    """
    name, _, host = account.rpartition("@")
    to = f"{quote_identifier(name)}@{quote_identifier(host)}"
    return f"GRANT {', '.join(privileges)} ON {where} TO {to};"


def read_grants(session: SqlSession, *, partial_revokes: bool) -> Grants:
    """Read the grants of the session's account; needs no privilege."""
    text = tuple(str(row[0]) for row in session.query("SHOW GRANTS"))
    return parse_grants(text, partial_revokes=partial_revokes)


def parse_grants(lines: Iterable[str], *, partial_revokes: bool = False) -> Grants:
    """Read the text of ``SHOW GRANTS``; lines that grant a role or a proxy say nothing here."""
    text = tuple(lines)
    found = tuple(grant for line in text for grant in _grants_of(line))
    return Grants(lines=found, literal_schemas=partial_revokes, text=text)


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

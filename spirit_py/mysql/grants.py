"""The account's privileges, and errors whose cause is that it lost one.

The catalogue hides tables without privileges: without :meth:`Grants.require` a run would take a
hidden table for an absent one. Errors of a privilege lost in a run have code and remedy of here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault
from spirit_py.mysql.faults import ACCESS_DENIED, TRIED_TOO_OFTEN, access_denied
from spirit_py.sql import is_like, quote_identifier, quote_table
from spirit_py.statement.lexer import SqlMode, Token, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.contracts import SqlSession

_ALL = frozenset({"ALL", "ALL PRIVILEGES"})
# ALL does not grant dynamic privileges at schema level, and these are global anyway.
_EVERYWHERE = "*"
_SEES_ALL: Final = ("SELECT", "TRIGGER")
_SEES_KEYS: Final = ("SELECT",)
_ACCOUNT: Final = "SELECT CURRENT_USER()/*!80016 , @@GLOBAL.partial_revokes */"
IDENTITY_PRIVILEGES: Final = ("PROCESS",)
"""The privilege for information_schema.INNODB_TABLES, which proves which tables are ours."""
HIDDEN: Final = "tables that are left there could be hidden from it"
"""Why an account must see the auxiliary tables of a migration."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One line of ``SHOW GRANTS``, without column privileges; the schema may be a pattern."""

    schema: str
    table: str
    privileges: frozenset[str]
    revoked: bool = False


@dataclass(frozen=True, kw_only=True)
class Grants:
    """All grants of ``CURRENT_USER()``; with ``literal_schemas`` wildcards are plain letters."""

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
        if any(
            (one.schema, one.table) == (schema, table) and _includes(one, privilege)
            for one in self.lines
            if not one.revoked
        ):
            return True
        counting = self._of_schema(schema)
        return bool(counting) and all(_includes(one, privilege) for one in counting)

    def missing(
        self, privileges: Iterable[str], schema: str = "", tables: Iterable[str] = (_EVERYWHERE,)
    ) -> list[str]:
        """Return the privileges that are not held on all of these tables, or globally."""
        if not schema:
            return [one for one in privileges if not self.has_global(one)]
        names = tuple(tables)
        return [one for one in privileges if not all(self.has(one, schema, t) for t in names)]

    def grant(self, privileges: Iterable[str], schema: str = "", table: str = "") -> str:
        """Return the GRANT on a table, a schema or globally, with what a wider name grants."""
        account, _, host = self.account.rpartition("@")
        to = f"{quote_identifier(account)}@{quote_identifier(host)}"
        given, scope = list(privileges), scope_of(schema, table)
        if schema and not table:
            pattern = self._pattern_of(schema)
            scope = scope_of(pattern)
            local = [one for one in self._of_schema(schema) if one.schema != pattern]
            held = {privilege for one in local for privilege in one.privileges}
            given += sorted(held - _ALL - set(given))
        return f"GRANT {', '.join(given)} ON {scope} TO {to};"

    @property
    def or_role(self) -> str:
        """What follows GRANTs where the account has a role, which may not be active; or nothing."""
        roles = any(line.startswith("GRANT") and " ON " not in line for line in self.text)
        return " (or SET DEFAULT ROLE ALL, if a granted role has it)" if roles else ""

    def require(
        self,
        privileges: Iterable[str],
        schema: str,
        why: str,
        tables: Iterable[str] = (_EVERYWHERE,),
        *,
        instead: str = "",
        alone: bool = False,
    ) -> None:
        """Raise a Refusal with the missing GRANT; ``alone``: for the one table, not its schema."""
        names = tuple(tables)
        if missing := self.missing(privileges, schema, names):
            table = names[0] if alone else ""
            scope = scope_of(schema, table)
            raise Refusal(
                f"account {self.account} lacks {', '.join(missing)} on {scope}: {why}",
                hint=self.grant(missing, schema, table)
                + self.or_role
                + (f" or {instead}" if instead else ""),
                error_code=ErrorCode.MISSING_PRIVILEGES,
            )

    def _of_schema(self, schema: str) -> list[Grant]:
        """Return the grants on a schema that count: of several names the most precise one."""
        whole = [
            one
            for one in self.lines
            if not one.revoked
            and (one.schema != _EVERYWHERE and one.table == _EVERYWHERE)
            and self._matches(one.schema, schema)
        ]
        return [one for one in whole if one.schema == self._pattern_of(schema)] or whole

    def _pattern_of(self, schema: str) -> str:
        if self.literal_schemas:
            return schema
        return schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")

    def _matches(self, pattern: str, schema: str) -> bool:
        if self.literal_schemas:
            return pattern == schema
        return is_like(schema, pattern)


def _includes(grant: Grant, privilege: str) -> bool:
    return privilege in grant.privileges or bool(grant.privileges & _ALL)


def scope_of(schema: str, table: str = "") -> str:
    """Return the scope of a GRANT, as it follows ON."""
    if table:
        return quote_table(schema, table)
    return f"{quote_identifier(schema)}.*" if schema else "*.*"


def read_grants(session: SqlSession) -> Grants:
    """Read the grants of the session's account; needs no privilege."""
    text = [str(row[0]) for row in session.query("SHOW GRANTS")]
    # SHOW VARIABLES takes milliseconds, and this is asked under the lock of a swap.
    ((account, *revokes),) = session.query(_ACCOUNT)
    return parse_grants(text, str(account), partial_revokes=any(map(int, revokes)))


def require_sight(
    session: SqlSession, tables: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]] = ()
) -> None:
    """Require, after a look at what is attached to tables, that all could be seen (R25).

    Without TRIGGER no triggers are shown; without any privilege, no keys, which alone count for
    ``others``. Raises MigrationFailure with the GRANT.
    """
    grants = read_grants(session)
    asked = [*((name, _SEES_ALL) for name in tables), *((name, _SEES_KEYS) for name in others)]
    for (schema, table), privileges in asked:
        if missing := grants.missing(privileges, schema, [table]):
            raise MigrationFailure(
                f"account {grants.account} lacks {', '.join(missing)} on {scope_of(schema)}:"
                f" triggers and foreign keys of {schema}.{table} may be hidden from it",
                hint=f"{grants.grant(missing, schema)} Then run the same command again",
                error_code=ErrorCode.MISSING_PRIVILEGES,
            )


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


#: The server does not let the account in (manual B.3.1): the password is wrong or has expired,
#: the host is not allowed, the account is locked.
_NOT_LET_IN: Final = frozenset({ACCESS_DENIED, 1130, 1698, 1820, 1862, 3118, TRIED_TOO_OFTEN})
#: The codes that give way: they say what was being done, not what has to be done now.
_SAYS_LESS: Final = frozenset({
    *(ErrorCode.SERVER_ERROR, ErrorCode.MIGRATION_FAILED, ErrorCode.COPY_FAILED),
    *(ErrorCode.CHECKPOINT_NOT_WRITTEN, ErrorCode.INDEX_BUILD_FAILED, ErrorCode.FEED_FAILED),
    *(ErrorCode.RUN_LOCK_LOST, ErrorCode.SWAP_NOT_MADE),
})  # fmt: skip
_LOG_IN_AGAIN: Final = (
    "the account's login was changed while the run worked: take the new password, or unlock it,"
    " then run the same command again"
)
_GRANT_AGAIN: Final = (
    "the account lacks a privilege, perhaps since the run began: grant it, then run the same"
    " command again, whose checks name every GRANT that is missing"
)


def access_remedy(fault: ServerFault) -> tuple[ErrorCode, str] | None:
    """Return code and remedy where the server refused the account; None for other faults."""
    if fault.code in _NOT_LET_IN:
        return ErrorCode.ACCESS_DENIED, _LOG_IN_AGAIN
    return (ErrorCode.MISSING_PRIVILEGES, _GRANT_AGAIN) if access_denied(fault) else None


def explain_access(error: BaseException) -> None:
    """Put code and remedy into an error of refused access, unless it has a more precise code."""
    if not isinstance(error, MigrationFailure) or error.error_code not in _SAYS_LESS:
        return
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if isinstance(one, ServerFault) and (remedy := access_remedy(one)):
            error.error_code, error.hint = remedy
            return
        seen.append(one)
        one = one.__cause__

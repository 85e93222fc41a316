"""The privileges that a move needs on each of its servers, asked for before all else.

Without them its first looks at an earlier run fail, and would say that a privilege was revoked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.mysql.grants import read_grants, scope_of
from spirit_py.preflight.check import Severity, refusal_of, refuse
from spirit_py.preflight.checks.privileges import privileges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.move.run import MoveRun, Opened
    from spirit_py.preflight.check import Finding

#: On the whole schema: a new table is made under a random name there. TRIGGER: to see triggers.
_ON_SCHEMA: Final = (
    *("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX"),
    *("TRIGGER", "LOCK TABLES", "CREATE TEMPORARY TABLES"),
)
_GLOBAL: Final = ("PROCESS", "REPLICATION CLIENT")
#: The binary log of the target is read.
_TO_FOLLOW: Final = ("REPLICATION SLAVE",)


def require_rights(run: MoveRun, opened: Sequence[Opened], theirs: Sequence[SqlSession]) -> None:
    """Raise a Refusal with all that the accounts of all servers lack, and the GRANTs for it."""
    lacking: list[Finding] = []
    for one in opened:
        where = f"on {one.run.config.shard}: " if one.run.config.shard else ""
        for finding in (each for context in one.contexts for each in privileges(context)):
            if finding.severity is Severity.REFUSAL:
                cause, code = f"{where}{finding.cause}", ErrorCode.MISSING_PRIVILEGES
                lacking.append(replace(finding, cause=cause, code=code))
    schemas = sorted({context.schema for context in opened[0].contexts})
    for way, there in zip(run.backs(), theirs, strict=True):
        name = way.config.shard if way.config.shards else ""
        where = f"the target {name}".rstrip()
        lacking += _on_target(there, schemas, where, follows=way.config.keep_old_current)
    if lacking:
        raise refusal_of(list(dict.fromkeys(lacking)), "the move")


def _on_target(
    there: SqlSession, schemas: Sequence[str], where: str, *, follows: object
) -> Iterator[Finding]:
    grants = read_grants(there)
    asked = [(schema, grants.missing(_ON_SCHEMA, schema)) for schema in schemas]
    asked.append(("", grants.missing((*_GLOBAL, *(_TO_FOLLOW if follows else ())))))
    missing = [(schema, found) for schema, found in asked if found]
    if missing:
        named = "; ".join(f"{', '.join(found)} on {scope_of(schema)}" for schema, found in missing)
        yield refuse(
            f"account {grants.account} lacks {named} of {where}",
            " ".join(grants.grant(found, schema) for schema, found in missing),
            code=ErrorCode.MISSING_PRIVILEGES,
        )

"""Which algorithm of the server changes a table at once: INSTANT, or INPLACE for metadata only.

INPLACE only for clauses of "Only Modifies Metadata" (manual 17.12.1), measured on 9.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.capabilities import most_row_versions
from spirit_py.mysql.faults import (
    access_denied,
    excused,
)
from spirit_py.mysql.tables.guard_column import file_bytes, row_versions
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.preflight.clauses import why_not_metadata_only
from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.statement import AlterStatement, Clause
    from spirit_py.table.schema import TableSchema

Algorithm = Literal["instant", "inplace", "native"]

_MODIFIERS: Final[dict[Algorithm, str]] = {
    "instant": "ALGORITHM=INSTANT",
    "inplace": "ALGORITHM=INPLACE, LOCK=NONE",
    "native": "ALGORITHM=COPY",
}
_WITHOUT_MODIFIERS = (ClauseKind.PARTITION_BY, ClauseKind.REMOVE_PARTITIONING)
#: On a copy, the other table's rows would come, or the other table be locked.
_NOT_ON_A_COPY: Final = frozenset({ClauseKind.EXCHANGE_PARTITION, ClauseKind.ADD_FOREIGN_KEY})


#: A table of so many bytes at most is copied in seconds, which gives it all its versions again,
#: when no more than this share of them is left.
REBUILT_BYTES: Final = 64 << 20
_LEFT: Final = 1 / 4


@dataclass(frozen=True, kw_only=True)
class ShortcutResult:
    """The result: ``algorithm`` is None without a change, ``attempts`` include waits for locks.

    ``unchanged``: the server made the ALTER, and the definition is the one from before.
    """

    algorithm: Algorithm | None = None
    reason: str
    attempts: int = 0
    unchanged: bool = False


def probe_shortcut(
    native: SqlSession,
    session: SqlSession,
    source: TableSchema,
    statement: AlterStatement,
    *,
    building: str,
    by_server: Clause | None = None,
    whole: bool = False,
) -> ShortcutResult:
    """Return which shortcut the server would take, by trying it on an empty copy of the table.

    A clause that only the server makes is refused where it does not work.
    """
    if by_server is not None and by_server.kind in _NOT_ON_A_COPY:
        return ShortcutResult(algorithm="inplace", reason="the server makes it itself")

    def refused(algorithm: Algorithm) -> str:
        if algorithm == "instant" and (statement.added or statement.dropped):
            used = row_versions(session, source.schema, source.name) or 0
            if used >= most_row_versions(str(session.query("SELECT @@version")[0][0])):
                return f"the table has {used} row versions already"
        new = NewTable(session, native, source, statement)
        return new.why_not(modifiers(algorithm, statement), building=building)

    return choose(source, statement, refused, by_server=by_server is not None, whole=whole)


def why_rebuilt(session: SqlSession, context: PreflightContext) -> str:
    """Return why a small table is copied where INSTANT would do; empty where it is not.

    Only a table with a primary key that nothing is attached to: others a copy may refuse.
    """
    source = context.source
    table = (source.schema, source.name)
    if source.primary_key is None or context.config.snapshot_guard == "on":
        return ""
    if not any(_takes_version(source, one) for one in context.statement.parsed):
        return ""
    used = row_versions(session, *table)
    most = most_row_versions(context.facts.version)
    if used is None or most - used > most * _LEFT:
        return ""
    # Statistics may be old; the file is as large as it is.
    sizes = file_bytes(session, [table])[table]
    if not sizes or sum(sizes) > REBUILT_BYTES:
        return ""
    # What the account may not see may be attached.
    if excused(lambda: keys_around(session, *table), (None,), access_denied):
        return ""
    if list_triggers(session, *table):
        return ""
    return (
        f"{most - used} of {most} row versions are left, each INSTANT takes one, and a copy of so"
        " small a table gives all of them again"
    )


def _takes_version(source: TableSchema, clause: Clause) -> bool:
    """Return whether a clause takes a row version: columns that are VIRTUAL take none."""
    if clause.kind is ClauseKind.ADD_COLUMN:
        return " as(" not in clause.body
    if clause.kind is not ClauseKind.DROP_COLUMN or not source.has_column(clause.name):
        return False
    return not source.column(clause.name).generated


def choose(
    source: TableSchema,
    statement: AlterStatement,
    refused: Callable[[Algorithm], str],
    *,
    by_server: bool,
    whole: bool,
) -> ShortcutResult:
    """Choose by what the server refuses; Refusal where only the server makes it, and does not.

    What it does at once comes first. ``whole``: then what it does online, then its copy.
    """
    if by_server and not whole:
        if why := refused("inplace"):
            raise _not_made(statement, "in place", why)
        return ShortcutResult(algorithm="inplace", reason="the server makes it itself")
    found = _choose(source, statement, refused)
    if found.algorithm is not None or not whole:
        return found
    if not statement.of_kind(*_WITHOUT_MODIFIERS) and not refused("inplace"):
        return ShortcutResult(
            algorithm="inplace", reason="the server builds the table anew while writes go on"
        )
    if why := refused("native"):
        raise _not_made(statement, "by a copy", why)
    return ShortcutResult(algorithm="native", reason="the server copies the rows, and writes wait")


def _choose(
    source: TableSchema, statement: AlterStatement, refused: Callable[[Algorithm], str]
) -> ShortcutResult:
    if statement.of_kind(*_WITHOUT_MODIFIERS):
        return ShortcutResult(reason="partitioning is changed: the table is rebuilt")
    instant = refused("instant")
    if not instant:
        return ShortcutResult(algorithm="instant", reason="the server changes this instantly")
    if rebuild := why_not_metadata_only(source, statement):
        return ShortcutResult(reason=f"{instant}; INPLACE is not tried: {rebuild}")
    if inplace := refused("inplace"):
        return ShortcutResult(reason=f"{instant} {inplace}")
    return ShortcutResult(algorithm="inplace", reason="it only touches metadata")


def _not_made(statement: AlterStatement, how: str, why: str) -> Refusal:
    return Refusal(
        f"the server does not make {statement.clauses!r} {how}: {why}",
        hint="correct the statement",
        error_code=ErrorCode.DEFINITION_REFUSED,
    )


def modifiers(algorithm: Algorithm, statement: AlterStatement) -> str:
    """Return what is asked of the server; the grammar takes nothing beside partitions."""
    return "" if statement.of_kind(*_WITHOUT_MODIFIERS) else _MODIFIERS[algorithm]

"""Clauses about partitions that only the server makes: what they take away, and what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.partitions import named, partitions_of
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.clauses import TAKES_ROWS, made_by_server, why_copied
from spirit_py.sql import identifier_list, quote_table
from spirit_py.statement import ClauseKind
from spirit_py.units import counted, human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.mysql.tables.partitions import PartitionSize
    from spirit_py.statement import Clause
    from spirit_py.table.names import Name

#: Rows that are counted at most, and the milliseconds for it.
_COUNTED: Final = 10_000
_COUNT_MS: Final = 2000


def partitions(context: PreflightContext) -> Findings:
    """Refuse a clause that takes rows unless that was asked for, and what it cannot be made of."""
    clause = made_by_server([context])
    if clause is None or clause.kind is ClauseKind.ADD_FOREIGN_KEY:
        return
    exchange = clause.kind is ClauseKind.EXCHANGE_PARTITION
    found = partitions_of(context.session, context.schema, context.table, smallest=exchange)
    if clause.kind is not ClauseKind.ADD_PARTITION:
        yield from _refused(context, clause, found)
    if clause.kind in TAKES_ROWS:
        yield from _taken(context, clause, [one for one in found if named(clause, [one.name])])
    if exchange:
        yield from _exchanged(context, clause, clause.other)


def _refused(context: PreflightContext, clause: Clause, found: Sequence[PartitionSize]) -> Findings:
    names = [one.name for one in found]
    known = {name.lower() for name in names}
    unknown = [name for name in clause.partitions if name.lower() not in known]
    if not found:
        yield refuse(
            f"{context.source.full_name} has no partitions", "name a table that has partitions"
        )
    elif unknown:
        yield refuse(
            f"{context.source.full_name} has no partition {', '.join(unknown)}; it has"
            f" {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}",
            "correct the name; where an earlier run has dropped it already, nothing is left to do",
        )
    yield from made_by_no_copy(context, clause)


def made_by_no_copy(context: PreflightContext, clause: Clause) -> Findings:
    """Refuse options that ask for a copy, for a clause that only the server makes."""
    if reason := why_copied([context]):
        yield refuse(
            f"{clause.text!r} is made by the server alone, and not by a copy: {reason}",
            "leave that option out, and give each such clause in a command of its own",
            code=ErrorCode.CLAUSE_NOT_SUPPORTED,
        )


def _taken(context: PreflightContext, clause: Clause, parts: Sequence[PartitionSize]) -> Findings:
    if not parts:
        return
    gives = clause.kind is ClauseKind.EXCHANGE_PARTITION
    goes = f"{clause.text!r} {'gives' if gives else 'deletes'} {_rows_of(context, parts)}"
    goes += f" ({human_bytes(sum(one.size for one in parts))}) of {context.source.full_name}"
    if gives:
        goes += f" to {'.'.join(clause.other)}"
    if context.config.allow_data_loss:
        kept = "; --drop-old-after keeps none of them" if context.config.drop_old_after else ""
        yield warn(f"{goes}{kept}")
    else:
        yield refuse(
            goes, "add --allow-data-loss if that is what you want", code=ErrorCode.ROWS_WOULD_GO
        )


def _rows_of(context: PreflightContext, parts: Sequence[PartitionSize]) -> str:
    """Count few rows; the server's estimate of small tables may be old."""
    table = f"{context.source.quoted} PARTITION ({identifier_list(one.name for one in parts)})"
    try:
        ((rows,),) = context.session.query(
            f"SELECT /*+ MAX_EXECUTION_TIME({_COUNT_MS}) */ COUNT(*) FROM"
            f" (SELECT 1 FROM {table} LIMIT {_COUNTED + 1}) AS few"
        )
    except ServerFault as error:
        if error.code != STATEMENT_TIMED_OUT:
            raise
        rows = _COUNTED + 1
    if rows <= _COUNTED:
        return counted(int(rows), "row")
    return f"about {human_count(max(rows, sum(one.rows for one in parts)))} rows"


def _exchanged(context: PreflightContext, clause: Clause, other: Name) -> Findings:
    table = read_table(context.session, *other)
    if table is None:
        yield refuse(f"there is no table {'.'.join(other)}", "check the name")
    elif clause.validation != "WITHOUT" and table.estimated_rows:
        yield warn(
            f"the server reads all rows of {quote_table(*other)} (about"
            f" {human_count(table.estimated_rows)}) while writes to both tables wait",
            "WITHOUT VALIDATION leaves that out, where it is certain that they fit",
        )

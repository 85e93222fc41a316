"""Which clauses change only metadata, and which surely lead to a copy."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.classes import replace
from spirit_py.estimates import likely_sizes
from spirit_py.statement import ClauseKind
from spirit_py.table.conversions import is_timestamp
from spirit_py.table.expressions import evaluated_in_zone, reads_time, repeats_hours
from spirit_py.table.keys import TEMPORALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.preflight.check import PreflightContext
    from spirit_py.statement import AlterStatement, Clause
    from spirit_py.table.schema import TableSchema

TAKES_ROWS: Final = frozenset(
    {ClauseKind.DROP_PARTITION, ClauseKind.TRUNCATE_PARTITION, ClauseKind.EXCHANGE_PARTITION}
)
"""The clauses with which rows leave the table."""
_BY_VALUES: Final = re.compile(r"\n/\*!\d+ +PARTITION BY (?:RANGE|LIST)\b")
_ALWAYS = frozenset({
    ClauseKind.DROP_INDEX, ClauseKind.RENAME_INDEX, ClauseKind.ALTER_INDEX,
    ClauseKind.RENAME_COLUMN, ClauseKind.ALTER_COLUMN, ClauseKind.DROP_CHECK,
    ClauseKind.DROP_CONSTRAINT, ClauseKind.DROP_FOREIGN_KEY,
})  # fmt: skip
_OPTIONS = frozenset({
    "comment", "auto_increment", "character set", "collate", "max_rows", "min_rows",
    "avg_row_length", "pack_keys", "checksum", "delay_key_write", "autoextend_size",
    "stats_persistent", "stats_auto_recalc", "stats_sample_pages",
})  # fmt: skip
_VARIABLE = re.compile(r"(varchar|varbinary)\((\d+)\)(?: (.*))?\Z", re.DOTALL)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_REBUILDS = frozenset({
    "first", "after", "unique", "primary", "key", "as", "generated", "check",
    "auto_increment", "collate", "character", "charset", "binary", "ascii", "unicode",
})  # fmt: skip


def why_not_metadata_only(source: TableSchema, statement: AlterStatement) -> str:
    """Return the first clause that may change more than metadata; empty when none does."""
    for clause in statement.parsed:
        if not _metadata_only(source, clause):
            return f"{clause.text!r} may rebuild the table or an index"
    return ""


def _metadata_only(source: TableSchema, clause: Clause) -> bool:
    if clause.kind in {ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN}:
        return _same_but_longer(source, clause)
    return clause.name in _OPTIONS if clause.kind is ClauseKind.OPTION else clause.kind in _ALWAYS


def _same_but_longer(source: TableSchema, clause: Clause) -> bool:
    """Return whether a VARCHAR or VARBINARY only gets longer: no other length byte, same NULL."""
    found = _VARIABLE.match(clause.body)
    if found is None or not source.has_column(clause.name):
        return False
    column, attributes = source.column(clause.name), _STRING.sub("''", f" {found[3] or ''} ")
    return (
        column.data_type == found[1]
        and int(found[2]) >= (column.length or 0)
        and (" not null " in attributes) == (not column.nullable)
        and not set(attributes.replace("(", " ( ").split()) & _REBUILDS
    )


def made_by_server(contexts: Sequence[PreflightContext]) -> Clause | None:
    """Return the clause that the server makes itself, and no copy would.

    Partitions by values of RANGE or LIST are added without a copy (manual 17.12.1).
    """
    clauses = contexts[0].statement.parsed
    alone = {*TAKES_ROWS, ClauseKind.ADD_FOREIGN_KEY}
    if len(clauses) == 1 and clauses[0].kind in alone:
        return clauses[0]
    if [one.kind for one in clauses] != [ClauseKind.ADD_PARTITION] or contexts[0].found is None:
        return None
    by_values = _BY_VALUES.search(contexts[0].found.create_sql)
    return clauses[0] if by_values and not why_copied(contexts) else None


_MARKED: Final = frozenset({ClauseKind.EXCHANGE_PARTITION, ClauseKind.ADD_FOREIGN_KEY})


def made_once(contexts: Sequence[PreflightContext]) -> bool:
    """Return whether a run that is killed has to be known: made again, it undoes or does more.

    A foreign key is proved anew, and dropped where that fails, if an earlier run has added it.
    """
    by_server = made_by_server(contexts)
    marked = by_server is not None and by_server.kind in _MARKED
    return len(contexts) == 1 and (marked or bool(contexts[0].statement.second_time))


#: The server may shorten a value, and nothing compares it afterwards.
_CHANGES_VALUES: Final = (ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN, ClauseKind.CONVERT)


def made_natively(contexts: Sequence[PreflightContext]) -> bool:
    """Return whether the server makes the ALTER, even by a copy for which writes wait."""
    context, most = contexts[0], contexts[0].config.native
    if not most or context.found is None or made_by_server(contexts) or why_copied(contexts):
        return False
    small = sum(likely_sizes(context.found)) <= most
    changes = context.statement.of_kind(*_CHANGES_VALUES)
    return small and not changes and native_zone(context) != ""


#: They compute nothing, whatever they name.
_TIMELESS: Final = _ALWAYS - {ClauseKind.ALTER_COLUMN} | {
    ClauseKind.DROP_COLUMN, ClauseKind.DROP_PRIMARY_KEY, ClauseKind.FORCE, ClauseKind.OPTION,
    ClauseKind.REMOVE_PARTITIONING, ClauseKind.VALIDATION, ClauseKind.ALTER_CHECK,
    ClauseKind.ALTER_CONSTRAINT,
}  # fmt: skip
_INDEXES: Final = {ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE, ClauseKind.ADD_PRIMARY_KEY}
_EXPRESSION: Final = re.compile(r"[(,] ?\(")
#: A column without a time of its own, or with that of the ALTER.
_NO_TIME: Final = re.compile(
    r"(?:(?:datetime|date|time|year)(?:\(\d\))?"
    r"|timestamp(?:\(\d\))?(?: (?:default|on update) current_timestamp(?:\(\d?\))?)*)"
    r"(?: not null| null| default null)*(?: first| after \S+)?"
)


def native_zone(context: PreflightContext) -> str:
    """Return the time zone in which the server may copy the rows itself; empty where in none.

    Its copy of a TIMESTAMP goes through local time: where a clock is set back, two instants become
    one (9.7.4). In UTC they stay, but then nothing else may compute with times (R22).
    """
    source, dropped = context.source, context.statement.dropped
    zone = context.facts.time_zone
    kept = (one for one in source.columns if one.name.lower() not in dropped)
    if not any(map(is_timestamp, kept)) or not repeats_hours(context.facts.zone):
        return zone
    computed = evaluated_in_zone(source, ()) or any(
        _computes(source, clause) for clause in context.statement.parsed
    )
    return "" if computed else "+00:00"


def why_not_native(context: PreflightContext) -> str:
    """Return why ``--native`` leaves rows to the copy, where the time zone is it; else empty."""
    most, found = context.config.native, context.found
    if context.statement.of_kind(*_CHANGES_VALUES):
        return ""
    if not most or found is None or sum(likely_sizes(found)) > most or native_zone(context):
        return ""
    return (
        "--native does nothing here: the server's own copy takes each TIMESTAMP through its time"
        f" zone {context.facts.time_zone}, which may repeat an hour, and something computes with"
        " times"
    )


def _computes(source: TableSchema, clause: Clause) -> bool:
    """Return whether what a clause makes may depend on the time zone."""
    if clause.kind in _TIMELESS or _NO_TIME.fullmatch(clause.body):
        return False
    if clause.kind in _INDEXES and not _EXPRESSION.search(clause.body):
        return False
    times = {one.name.lower() for one in source.columns if one.data_type in TEMPORALS}
    words = {clause.name.lower(), *re.findall(r"\w+", clause.body)}
    # A name that holds a blank is no word.
    odd = any(not name.isidentifier() for name in times)
    return odd or reads_time(source, clause.body) or not times.isdisjoint(words)


def as_begun(contexts: Sequence[PreflightContext]) -> tuple[PreflightContext, ...]:
    """Return the contexts of a copy that has begun, whatever the server could do instead."""
    begun = partial(replace, native=0, no_shortcut=True)
    return tuple(replace(one, config=begun(one.config)) for one in contexts)


_NEVER_IN_PLACE: Final = frozenset({
    ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE, ClauseKind.ADD_PRIMARY_KEY,
    ClauseKind.DROP_PRIMARY_KEY, ClauseKind.PARTITION_BY, ClauseKind.REMOVE_PARTITIONING,
    ClauseKind.REORGANIZE_PARTITION, ClauseKind.COALESCE_PARTITION, ClauseKind.FORCE,
})  # fmt: skip


def copy_is_certain(contexts: Sequence[PreflightContext]) -> bool:
    """Return whether rows are copied, as far as that shows without asking the server."""
    if made_by_server(contexts) or made_natively(contexts):
        return False
    return bool(why_copied(contexts) or certainly_copied(contexts[0].statement))


def certainly_copied(statement: AlterStatement) -> str:
    """Return a clause that no server makes in place without a rebuild; empty without one."""
    return next((one.text for one in statement.parsed if one.kind in _NEVER_IN_PLACE), "")


def why_not_in_place(context: PreflightContext) -> str:
    """Return which clause no server makes in place, and why ``--native`` does not; else empty."""
    if clause := certainly_copied(context.statement):
        why = f"{clause!r} is neither INSTANT nor a change of metadata alone"
        return "; ".join(filter(None, (why, why_not_native(context))))
    return ""


def why_copied(contexts: Sequence[PreflightContext], tables: int = 0) -> str:
    """Return why the options have the rows copied (``tables``: 0 for all); empty if they do not."""
    config, tables = contexts[0].config, tables or len(contexts[0].altered)
    if config.modes.keep:
        return "--keep leaves rows out, which no change in place does"
    if config.no_shortcut:
        return "INSTANT and INPLACE were switched off"
    if config.keep_old_current:
        return "--keep-old-current needs the old table"
    if tables > 1:
        return (
            "several tables change at one moment only when they are copied"
            f"{', and --native does nothing' if config.native else ''}; a change that MySQL"
            " can make in place needs a command of its own"
        )
    if config.defer_cutover:
        return "--defer-cutover leaves the moment of the change to the operator"
    if config.drop_old_after and (lost := _lost_in_place(contexts[0])):
        return f"--drop-old-after asks for an old table, and the values of {lost} are dropped"
    return ""


def _lost_in_place(context: PreflightContext) -> str:
    if context.found is None:
        return ""
    dropped = (
        one for one in context.source.columns if one.name.lower() in context.statement.dropped
    )
    return next((one.name for one in dropped if not one.generated), "")

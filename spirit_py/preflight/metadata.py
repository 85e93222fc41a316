"""Which clauses change only metadata when they run INPLACE (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from spirit_py.statement import AlterStatement, Clause
    from spirit_py.table.schema import TableSchema

_ALWAYS = frozenset(
    {
        ClauseKind.DROP_INDEX,
        ClauseKind.RENAME_INDEX,
        ClauseKind.ALTER_INDEX,
        ClauseKind.RENAME_COLUMN,
        ClauseKind.ALTER_COLUMN,
        ClauseKind.DROP_CHECK,
        ClauseKind.DROP_CONSTRAINT,
        ClauseKind.DROP_FOREIGN_KEY,
    }
)
_OPTIONS = frozenset(
    {
        *("comment", "auto_increment", "character set", "collate", "max_rows", "min_rows"),
        *("avg_row_length", "pack_keys", "checksum", "delay_key_write", "autoextend_size"),
        *("stats_persistent", "stats_auto_recalc", "stats_sample_pages"),
    }
)
_VARIABLE = re.compile(r"(varchar|varbinary)\((\d+)\)(?: (.*))?\Z", re.DOTALL)
_REBUILDS = frozenset(
    {
        *("first", "after", "unique", "primary", "key", "as", "generated", "check"),
        *("auto_increment", "collate", "character", "charset", "binary", "ascii", "unicode"),
    }
)


def why_not_metadata_only(source: TableSchema, statement: AlterStatement) -> str:
    """Return the first clause that may change more than metadata; empty when none does."""
    for clause in statement.parsed:
        if not _metadata_only(source, clause):
            return f"{clause.text!r} may rebuild the table or an index"
    return ""


def _metadata_only(source: TableSchema, clause: Clause) -> bool:
    if clause.kind in {ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN}:
        return _same_but_longer(source, clause)
    if clause.kind is ClauseKind.OPTION:
        return clause.name in _OPTIONS
    return clause.kind in _ALWAYS


def _same_but_longer(source: TableSchema, clause: Clause) -> bool:
    """Return whether a definition only lengthens a VARCHAR or VARBINARY.

    The server itself refuses INPLACE when the length needs another byte. But it changes NULL to
    NOT NULL or back INPLACE by a rebuild, so that is excluded here.
    """
    found = _VARIABLE.match(clause.body)
    if found is None or not source.has_column(clause.name):
        return False
    column, attributes = source.column(clause.name), f" {found[3] or ''} "
    words = set(attributes.replace("(", " ( ").split())
    return (
        column.data_type == found[1]
        and int(found[2]) >= (column.length or 0)
        and (" not null " in attributes) == (not column.nullable)
        and not words & _REBUILDS
    )

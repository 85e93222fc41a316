"""Clauses that are not supported, each with its reason and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal

if TYPE_CHECKING:
    from spirit_py.statement.cursor import Cursor


class _Rule(NamedTuple):
    words: tuple[str, ...]
    reason: str
    hint: str


_ALONE = "run it natively as a statement of its own"
_PARTS = "it removes or moves rows, and the copy would bring them back"
_MAINTENANCE = "it maintains partitions and changes no definition"
_REBUILDS = "it maintains single partitions, and the copy would rebuild all of them"
_WHOLE = "write REBUILD PARTITION ALL to rebuild all of them, or run it natively"
_TABLESPACE = "it exchanges the file under the table, which no copy can follow"
_KEYS = "it has no effect on InnoDB"
_HEATWAVE = "it loads another engine and changes no definition"

_RULES = (
    _Rule(("ALGORITHM",), "the program chooses the algorithm", "leave ALGORITHM out"),
    _Rule(("LOCK",), "the program chooses how to lock", "leave LOCK out"),
    *(
        _Rule((verb, what), _TABLESPACE, _ALONE)
        for verb in ("DISCARD", "IMPORT")
        for what in ("TABLESPACE", "PARTITION")
    ),
    *(_Rule((verb, "PARTITION"), _PARTS, _ALONE) for verb in ("DROP", "TRUNCATE", "EXCHANGE")),
    *(_Rule((verb, "PARTITION"), _MAINTENANCE, _ALONE) for verb in ("ANALYZE", "CHECK", "REPAIR")),
    *(_Rule((verb, "PARTITION"), _REBUILDS, _WHOLE) for verb in ("OPTIMIZE", "REBUILD")),
    *(_Rule((verb, "KEYS"), _KEYS, "leave it out") for verb in ("ENABLE", "DISABLE")),
    *(_Rule((word,), _HEATWAVE, _ALONE) for word in ("SECONDARY_LOAD", "SECONDARY_UNLOAD")),
    _Rule(
        ("ORDER", "BY"),
        "InnoDB keeps rows in the order of the primary key, whatever is asked for here",
        "leave ORDER BY out",
    ),
)


def refuse_clause(cursor: Cursor) -> None:
    """Raise for a clause whose head is one of the rules; the cursor does not move.

    Raises:
        Refusal: with the clause, the reason and what to do.
    """
    for words, reason, hint in _RULES:
        if cursor.starts_with(*words):
            raise Refusal(
                f"{' '.join(words)} is not possible here: {reason}",
                hint=hint,
                error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
            )


def foreign_key(cursor: Cursor) -> Refusal:
    """Refuse a new foreign key, in each of its forms.

    Only while both tables are locked can rows be compared with a parent that changes, which takes
    as long as the table is large; without the comparison, rows without a parent would be let in.
    """
    return Refusal(
        f"a foreign key cannot be added: {cursor.excerpt()!r}; the rows would have to be compared"
        " with the parent's while both tables are locked",
        hint="leave it out, and add it with a native ALTER TABLE of its own afterwards: it copies"
        " the table and keeps writers out, or, with SET foreign_key_checks=0 in that session, it"
        " changes only metadata once the columns have an index, and compares no row",
        error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
    )


def table_rename(cursor: Cursor) -> Refusal:
    """Refuse to rename the table."""
    return Refusal(
        f"the table cannot be renamed on the way: {cursor.excerpt()!r}",
        hint="run RENAME TABLE afterwards: it changes metadata only",
        error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
    )


def other_engine(value: str) -> Refusal:
    """Refuse an engine that is not InnoDB."""
    return Refusal(
        f"ENGINE={value} is not possible: only InnoDB lets the swap be proved and undone",
        hint="keep ENGINE=InnoDB, or run the ALTER natively",
        error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
    )


def unknown_clause(cursor: Cursor) -> Refusal:
    """Refuse an unknown clause."""
    return Refusal(
        f"the clause is not understood: {cursor.excerpt()!r}",
        hint="check the spelling against the server's manual, or run the ALTER natively",
        error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
    )

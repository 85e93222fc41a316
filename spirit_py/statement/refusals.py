"""Which clauses are refused, and what their operator does instead (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.statement.lexer import not_understood

if TYPE_CHECKING:
    from spirit_py.statement.cursor import Cursor


_ALONE = "run it natively as a statement of its own"
_APART = "give it in a command of its own"
_PARTS = "rows go with it, and it stands alone in its statement"
_MAINTENANCE = "it maintains partitions and changes no definition"
_REBUILDS = "it maintains single partitions, and the copy would rebuild all of them"
_WHOLE = "write REBUILD PARTITION ALL to rebuild all of them, or run it natively"
_TABLESPACE = "it exchanges the file under the table, which no copy can follow"
_KEYS = "it has no effect on InnoDB"
_ENGINES = "it is about other engines"
_HEATWAVE = "it loads another engine and changes no definition"

#: The first words of a clause, why it is refused, and the hint.
_RULES: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("ALGORITHM",), "the program chooses the algorithm", "leave ALGORITHM out"),
    (("LOCK",), "the program chooses how to lock", "leave LOCK out"),
    *(
        ((verb, what), _TABLESPACE, _ALONE)
        for verb in ("DISCARD", "IMPORT")
        for what in ("TABLESPACE", "PARTITION")
    ),
    *(((verb, "PARTITION"), _PARTS, _APART) for verb in ("DROP", "TRUNCATE", "EXCHANGE")),
    *(((verb, "PARTITION"), _MAINTENANCE, _ALONE) for verb in ("ANALYZE", "CHECK", "REPAIR")),
    *(((verb, "PARTITION"), _REBUILDS, _WHOLE) for verb in ("OPTIMIZE", "REBUILD")),
    *(((verb, "KEYS"), _KEYS, "leave it out") for verb in ("ENABLE", "DISABLE")),
    *(((word,), _HEATWAVE, _ALONE) for word in ("SECONDARY_LOAD", "SECONDARY_UNLOAD")),
    *(
        ((word,), _ENGINES, "leave it out")
        for word in ("UNION", "INSERT_METHOD", "CONNECTION", "STORAGE")
    ),
    (("PASSWORD",), _KEYS, "leave it out"),
    (("START", "TRANSACTION"), "it belongs to CREATE TABLE ... SELECT alone", "leave it out"),
    (
        ("ORDER", "BY"),
        "InnoDB keeps rows in the order of the primary key, whatever is asked for here",
        "leave ORDER BY out",
    ),
)


def refuse_clause(cursor: Cursor) -> None:
    """Raise for a clause whose head is one of the rules; the cursor does not move."""
    for words, reason, hint in _RULES:
        if cursor.starts_with(*words):
            raise not_supported(f"{' '.join(words)} is not possible here: {reason}", hint)


def not_supported(message: str, hint: str) -> Refusal:
    """Refuse a clause that the server would take, and this program does not."""
    return Refusal(message, hint=hint, error_code=ErrorCode.CLAUSE_NOT_SUPPORTED)


def foreign_key(cursor: Cursor) -> Refusal:
    """Refuse a new foreign key with other clauses: the server adds it to the table that is."""
    return not_supported(
        f"a foreign key is added by an ALTER of its own: {cursor.excerpt()!r}",
        "leave it out, and afterwards run ADD CONSTRAINT name FOREIGN KEY (...) REFERENCES t (...)"
        " in a command of its own: the server adds it at once, and every row is looked at",
    )


def unknown_clause(cursor: Cursor) -> Refusal:
    """Refuse an unknown clause."""
    return not_understood(
        f"the clause is not understood: {cursor.excerpt()!r}",
        "check the spelling against the server's manual, or run the ALTER natively",
    )

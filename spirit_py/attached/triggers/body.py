"""Which columns a trigger's body names, and which of them the ALTER takes away (pure).

A body is read in the ``sql_mode`` of its trigger. ``NEW.c`` and ``OLD.c`` are columns of the
trigger's table. Elsewhere a name is taken for a column of that table only if the body names the
table too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.statement.lexer import SqlMode, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.attached.triggers.model import Trigger
    from spirit_py.statement import AlterStatement
    from spirit_py.statement.lexer import Token
    from spirit_py.table.mapping import TableMapping

_ROWS: Final = frozenset({"NEW", "OLD"})
_EXCERPT: Final = 60


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A column that a body names, and that the new table does not have under that name.

    Attributes:
        fate: what the ALTER does to the column.
        line: of the body, from 1; ``column`` is the character in it, from 1.
        excerpt: the line there.
    """

    trigger: Trigger
    written: str
    fate: str
    line: int
    column: int
    excerpt: str

    def __str__(self) -> str:
        """Show the place for an operator."""
        return (
            f"{self.trigger.label} names {self.written}, which the ALTER {self.fate}: line"
            f" {self.line}, column {self.column} of its body: {self.excerpt}"
        )


def changed_by(statement: AlterStatement) -> dict[str, str]:
    """Return what :func:`changed_names` will, as far as the statement says, before it is run."""
    renamed = {
        old: f"renames to {new}" for old, new in statement.renames.items() if old != new.lower()
    }
    return dict.fromkeys(statement.dropped - statement.added, "drops") | renamed


def changed_names(mapping: TableMapping) -> dict[str, str]:
    """Return the columns that a name no longer stands for, in lower case, with what happens."""
    kept = {pair.new.name.lower(): pair.old.name.lower() for pair in mapping.pairs}
    renamed = {pair.old.name.lower(): pair.new.name for pair in mapping.pairs}
    there = {column.name.lower() for column in mapping.target.columns}
    found = {}
    for column in mapping.source.columns:
        name = column.name.lower()
        if name in there and kept.get(name, name) == name:
            continue
        found[name] = f"renames to {renamed[name]}" if name in renamed else "drops"
    return found


def mentions(trigger: Trigger, changed: Mapping[str, str]) -> Iterator[Mention]:
    """Yield each mention of a column whose name stands for something else, or nothing, now.

    Args:
        changed: as :func:`changed_names` returns it.

    Raises:
        Refusal: the body cannot be read.
    """
    if not changed:
        return
    tokens = _tokens(trigger)
    table = trigger.table.lower()
    queried = any(
        token.is_identifier and token.value.lower() == table and not _is_of_row(tokens, at)
        for at, token in enumerate(tokens)
    )
    for at, token in enumerate(tokens):
        if not token.is_identifier or token.value.lower() not in changed:
            continue
        of_row = _is_of_row(tokens, at)
        if of_row or (queried and not _is_variable(tokens, at)):
            written = f"{tokens[at - 2].value}.{token.value}" if of_row else token.value
            yield _mention(trigger, token, written, changed[token.value.lower()])


def _tokens(trigger: Trigger) -> tuple[Token, ...]:
    try:
        return tokenize(trigger.text, SqlMode.of(trigger.sql_mode), executed=True)
    except Refusal as error:
        raise Refusal(
            f"{trigger.label} of {trigger.schema}.{trigger.table}: its body cannot be read:"
            f" {error.message}",
            hint="the ALTER drops or renames columns, and the body may name one: create the"
            " trigger anew in plain words",
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        ) from error


def _is_of_row(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a name stands behind ``NEW.`` or ``OLD.``."""
    if at < 2 or not tokens[at - 1].is_symbol("."):
        return False
    row = tokens[at - 2]
    return row.is_identifier and row.value.upper() in _ROWS and not _is_variable(tokens, at - 2)


def _is_variable(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a name is that of a user variable."""
    return at > 0 and tokens[at - 1].is_symbol("@")


def _mention(trigger: Trigger, token: Token, written: str, fate: str) -> Mention:
    before = trigger.text[: token.start]
    start = before.rfind("\n") + 1
    line = trigger.text[start:].split("\n", 1)[0]
    column = token.start - start + 1
    cut = max(0, min(column - 1 - _EXCERPT // 2, len(line) - _EXCERPT))
    return Mention(
        trigger=trigger,
        written=written,
        fate=fate,
        line=before.count("\n") + 1,
        column=column,
        excerpt=line[cut : cut + _EXCERPT].strip(),
    )

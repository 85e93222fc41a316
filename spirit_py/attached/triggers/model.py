"""A trigger as the server keeps it, and the columns that its body names (pure)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.sql import quote_identifier
from spirit_py.statement.lexer import SqlMode, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.statement import AlterStatement
    from spirit_py.statement.lexer import Token
    from spirit_py.table.mapping import TableMapping

#: Latin-1 stands for bytes where a text must hold them: each character is one byte.
BYTES = "latin-1"

Spellings: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """One trigger, with all that decides what it does; ``order`` counts from 1.

    ``body`` and ``spellings``, names as they are quoted, are in ``character_set_client``, one
    character a byte (:data:`BYTES`); ``text`` is Unicode, where binary literals are not exact.
    """

    schema: str
    name: str
    table: str
    timing: str
    event: str
    order: int
    user: str
    host: str
    sql_mode: str
    character_set_client: str
    collation_connection: str
    database_collation: str
    body: str
    text: str
    spellings: Spellings = ()

    @property
    def label(self) -> str:
        """The name, with timing and event, for messages."""
        return self.listed.label

    @property
    def listed(self) -> Listed:
        """What the catalogue lists of it."""
        return Listed(self.name, self.timing, self.event, self.text, self.sql_mode)

    @property
    def essence(self) -> tuple[object, ...]:
        """What a copy under another name, or at another place in the order, has in common."""
        return (
            *(self.schema, self.timing, self.event, self.user, self.host, self.sql_mode),
            *(self.character_set_client, self.collation_connection, self.database_collation),
            self.body,
        )

    @property
    def turn(self) -> tuple[str, str]:
        """Timing and event: triggers that share them fire one after the other."""
        return self.timing, self.event

    def quoted(self, name: str) -> str:
        """Return a name, quoted, in ``character_set_client``, one character a byte."""
        return quote_identifier(name) if name.isascii() else dict(self.spellings)[name]

    def spells(self, name: str) -> bool:
        """Whether ``character_set_client`` has the letters of a name."""
        return name.isascii() or name in dict(self.spellings)


class Listed(NamedTuple):
    """A trigger as the catalogue lists it; enough to see what its body names."""

    name: str
    timing: str
    event: str
    text: str
    sql_mode: str

    @property
    def label(self) -> str:
        """The name, with timing and event, for messages."""
        return f"trigger {self.name} ({self.timing} {self.event})"

    def tokens(self) -> tuple[Token, ...]:
        """Return the tokens of the body; raise a Refusal where it cannot be read."""
        return tokenize(self.text, SqlMode.of(self.sql_mode), executed=True)


class Placed(NamedTuple):
    """Where a trigger is."""

    schema: str
    name: str
    table: str


@dataclass(frozen=True, kw_only=True)
class TriggerNote:
    """The names of a trigger that a swap moves; ``temporary`` is that of its copy."""

    schema: str
    table: str
    name: str
    temporary: str


@dataclass(frozen=True, kw_only=True)
class TriggerMove:
    """A trigger of a table that is swapped out, and the temporary name of its copy."""

    trigger: Trigger
    temporary: str

    @property
    def original(self) -> Placed:
        """Where it is before the swap, and again after it."""
        return Placed(self.trigger.schema, self.trigger.name, self.trigger.table)

    @property
    def note(self) -> TriggerNote:
        """Its names."""
        at = self.original
        return TriggerNote(schema=at.schema, table=at.table, name=at.name, temporary=self.temporary)


def moves_of(triggers: tuple[Trigger, ...], token: str) -> tuple[TriggerMove, ...]:
    """Return the moves of a swap's triggers, in order; a random ``token`` makes temporary names."""
    ordered = sorted(triggers, key=lambda one: (one.schema, one.table, one.turn, one.order))
    numbers = itertools.count(1)
    return tuple(
        TriggerMove(trigger=one, temporary=f"_spirit_py_{token}_{next(numbers)}") for one in ordered
    )


_ROWS: Final = frozenset({"NEW", "OLD"})
_EXCERPT: Final = 60


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A column that a body names and the new table lacks; line and column count from 1."""

    trigger: Trigger
    written: str
    fate: str
    line: int
    column: int
    excerpt: str

    def __str__(self) -> str:
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
    """Yield each mention of a column in :func:`changed_names`; Refusal for an unreadable body."""
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
        return trigger.listed.tokens()
    except Refusal as error:
        raise Refusal(
            f"{trigger.label} of {trigger.schema}.{trigger.table}: its body cannot be read:"
            f" {error.message}",
            hint="the ALTER drops or renames columns, and the body may name one: create"
            " the trigger again in simpler SQL",
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        ) from error


def _is_of_row(tokens: tuple[Token, ...], at: int) -> bool:
    if at < 2 or not tokens[at - 1].is_symbol("."):
        return False
    row = tokens[at - 2]
    return row.is_identifier and row.value.upper() in _ROWS and not _is_variable(tokens, at - 2)


def _is_variable(tokens: tuple[Token, ...], at: int) -> bool:
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

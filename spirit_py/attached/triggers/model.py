"""A trigger as the server keeps it (pure)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from spirit_py.statement.lexer import SqlMode, tokenize

if TYPE_CHECKING:
    from spirit_py.statement.lexer import Token

#: Latin-1 stands for bytes where a text must hold them: each character is one byte.
BYTES = "latin-1"

Spellings: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """One trigger, with all that decides what it does.

    Attributes:
        table: the table it is on.
        timing: ``BEFORE`` or ``AFTER``.
        event: ``INSERT``, ``UPDATE`` or ``DELETE``.
        order: its place among those of the same timing and event, from 1.
        user: the definer's name; ``host`` is the other half.
        body: the statement in ``character_set_client``, one character a byte (:data:`BYTES`).
        text: the statement as the catalogue shows it, in Unicode: binary literals are not exact.
        spellings: names with characters beyond ASCII, in ``character_set_client`` as the body.
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
        return f"trigger {self.name} ({self.timing} {self.event})"

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

    def spelled(self, name: str) -> str:
        """Return a name in ``character_set_client``, one character a byte."""
        return name if name.isascii() else dict(self.spellings)[name]

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
        """Return the tokens of the body.

        Raises:
            Refusal: it cannot be read.
        """
        return tokenize(self.text, SqlMode.of(self.sql_mode), executed=True)


class Placed(NamedTuple):
    """Where a trigger is."""

    schema: str
    name: str
    table: str


@dataclass(frozen=True, kw_only=True)
class TriggerNote:
    """The names of a trigger that a swap moves.

    Attributes:
        temporary: the name of its copy until the original is dropped.
    """

    schema: str
    table: str
    name: str
    temporary: str


@dataclass(frozen=True, kw_only=True)
class TriggerMove:
    """A trigger of a table that is swapped out.

    Attributes:
        trigger: as it is on the table before the swap, and after it on the one in its place.
        temporary: the name of its copy until the original is dropped.
    """

    trigger: Trigger
    temporary: str

    @property
    def original(self) -> Placed:
        """Where it is before the swap, and again after it."""
        return Placed(self.trigger.schema, self.trigger.name, self.trigger.table)

    @property
    def note(self) -> TriggerNote:
        """Its names."""
        return TriggerNote(
            schema=self.trigger.schema,
            table=self.trigger.table,
            name=self.trigger.name,
            temporary=self.temporary,
        )


def moves_of(triggers: tuple[Trigger, ...], token: str) -> tuple[TriggerMove, ...]:
    """Return the moves of a swap's triggers, in their order.

    Args:
        token: random and of this try alone; it makes the temporary names.
    """
    ordered = sorted(triggers, key=lambda one: (one.schema, one.table, one.turn, one.order))
    numbers = itertools.count(1)
    return tuple(
        TriggerMove(trigger=one, temporary=temporary_name(token, next(numbers))) for one in ordered
    )


def temporary_name(token: str, number: int) -> str:
    """Return the name of a temporary trigger."""
    return f"_spirit_py_{token}_{number}"

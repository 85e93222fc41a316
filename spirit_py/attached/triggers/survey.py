"""Read the triggers that a swap takes along, and require that the new table can have them (R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.triggers.body import mentions
from spirit_py.attached.triggers.catalogue import read_places, read_triggers
from spirit_py.attached.triggers.model import TriggerMove, moves_of
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spirit_py.attached.triggers.model import Trigger
    from spirit_py.contracts import SqlSession
    from spirit_py.table.swap import Swap

RECREATE = "drop the trigger, and create it for the changed table in the moment of your choice"


def trigger_moves(
    session: SqlSession, swaps: Iterable[Swap], token: str
) -> tuple[TriggerMove, ...]:
    """Return the moves of the triggers of all tables that are swapped out.

    Args:
        token: as of :func:`~spirit_py.attached.triggers.model.moves_of`.

    Raises:
        SpiritError: there are triggers of another session on a table that is swapped in, or one
            cannot be written down again.
    """
    found: list[Trigger] = []
    for swap in swaps:
        if strange := read_places(session, [(swap.schema, swap.new)]):
            raise MigrationFailure(
                f"trigger {strange[0].name} is on {swap.schema}.{swap.new}, not by this program",
                hint=f"drop the triggers of {swap.new}, then run the same command again",
                error_code=ErrorCode.TRIGGER_NOT_KEPT,
            )
        found += read_triggers(session, *swap.name, also=(swap.new, swap.old))
    return moves_of(tuple(found), token)


def keepable(
    moves: Iterable[TriggerMove], changed: Callable[[tuple[str, str]], Mapping[str, str]]
) -> None:
    """Require that no body names a column that the swap takes away.

    Args:
        changed: returns, for schema and name of a table, what
            :func:`~spirit_py.attached.triggers.body.changed_names` does.

    Raises:
        MigrationFailure: with each place.
    """
    places = [
        str(mention)
        for move in moves
        for mention in mentions(move.trigger, changed((move.trigger.schema, move.trigger.table)))
    ]
    if places:
        raise MigrationFailure(
            "a trigger that was created meanwhile cannot be kept",
            hint=RECREATE,
            details=tuple(places),
            error_code=ErrorCode.TRIGGER_NOT_KEPT,
        )

"""Auxiliary tables that are there already are somebody's: they are never touched.

A sentinel that was made by hand is a wish of the operator, not a leftover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.preflight.finding import refuse, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse when a name is taken by a table that is not this program's own."""
    names = context.names
    if context.config.keep_old_current and _existing(context, (names.undone,)):
        yield refuse(
            f"table {names.undone} exists: a revert needs the name",
            f"see what it holds; drop or rename {names.undone} if it is what an earlier revert"
            " left",
        )
    taken = _existing(context, (names.new, names.old, names.checkpoint, names.sentinel))
    if names.sentinel in taken:
        taken.remove(names.sentinel)
        yield warn(f"table {names.sentinel} exists: the swap waits until somebody drops it")
    ours = names.checkpoint in taken and is_ours(context)
    for name in sorted(taken):
        if name == names.old:
            yield refuse(
                f"table {name} exists: the swap needs the name",
                "see what it holds: behind a swap it is the only copy of the rows from before;"
                f" DROP TABLE {name} when nobody needs it",
            )
        elif not ours:
            yield refuse(
                f"table {name} exists, and there is no checkpoint that says it is of this program",
                f"see who made it; drop or rename {name}",
            )


def is_ours(context: PreflightContext) -> bool:
    """Tell whether the auxiliary tables were made by this program for this table.

    The proof is the mark of the checkpoint table; whether its row can be read is another matter.
    """
    return CheckpointStore(context.schema, context.names.checkpoint).is_ours(context.session)


def _existing(context: PreflightContext, names: tuple[str, ...]) -> set[str]:
    rows = context.session.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
        f" AND TABLE_NAME IN ({', '.join(['%s'] * len(names))})",
        (context.schema, *names),
    )
    return {str(row[0]) for row in rows}

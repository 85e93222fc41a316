"""What is said of the tables that an earlier run left (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.checkpoint.decision import TableFound
    from spirit_py.checkpoint.record import TableProgress

_SHOWN: Final = 200


def may_hold_rows(schema: str, table: str) -> str:
    """Return why a new table may hold what no other table holds."""
    return (
        f"the swap of {schema}.{table} was begun by an earlier run, and may have been undone by"
        f" hand: then {AuxiliaryNames.of(table).new} holds what the application wrote in between"
    )


def see_what_it_holds(schema: str, table: str) -> str:
    """Return what to do with such a table."""
    new = AuxiliaryNames.of(table).new
    return f"see what {schema}.{new} holds that {schema}.{table} does not; then drop or rename it"


def seen(table: TableFound, progress: TableProgress) -> str:
    """Return what is there under the three names, and what is known of it."""
    names = AuxiliaryNames.of(table.table)
    if table.changed_here:
        source = "is the table that this migration made"
        if table.source_shape != progress.target_shape:
            source += ", with a definition that somebody changed since"
    elif not table.source_shape:
        source = "is gone"
    elif table.source_shape == progress.target_shape != progress.source_shape:
        source = (
            "has the new definition, and is not the table that this migration made: somebody else"
            " has changed it"
        )
    else:
        source = "is not the table that this migration made"
    new = _whose(names.new, table.new_shape, "that this migration made", ours=table.new_is_ours)
    old = _whose(names.old, table.old_shape, "from before the swap", ours=table.old_is_ours)
    return f"{progress} {source}, {new}, {old}"


def _whose(name: str, shape: str, which: str, *, ours: bool) -> str:
    if not shape:
        return f"{name} is not there"
    return f"{name} is the table {which}" if ours else f"{name} is not the table {which}"


def shortened(text: str) -> str:
    """Cut a long statement."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."

"""Whether the tables of a swap exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.cutover.outcome import ExistingTables
from spirit_py.errors import CutoverFailure
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.swap import Swap


def existing(session: SqlSession, swap: Swap) -> ExistingTables:
    """Return which tables of a swap exist."""
    # lower_case_table_names=1 stores names in lower case, whatever was asked for.
    names = [swap.table, swap.new, swap.old]
    found = {name.lower() for name in existing_tables(session, swap.schema, names)}
    return ExistingTables(
        source=swap.table.lower() in found,
        new=swap.new.lower() in found,
        old=swap.old.lower() in found,
    )


def check_names(session: SqlSession, swaps: Sequence[Swap]) -> None:
    """Check that the tables exist, and that no table has an old table's name.

    Raises:
        CutoverFailure: naming the table.
    """
    for swap in swaps:
        found = existing(session, swap)
        if found.old:
            raise CutoverFailure(
                f"the table {quote_table(swap.schema, swap.old)} exists already",
                hint="rename or drop it, then run the same command again",
                error_code=ErrorCode.NAME_TAKEN,
            )
        for there, name in ((found.source, swap.table), (found.new, swap.new)):
            if not there:
                raise CutoverFailure(
                    f"the table {quote_table(swap.schema, name)} is gone",
                    hint="another session has renamed or dropped it: find out before running again",
                )

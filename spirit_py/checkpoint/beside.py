"""Drop what stands beside a table where it is proven to be ours, and nothing else (R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.words import may_hold_rows, see_what_it_holds
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import drop_if, is_one_of
from spirit_py.mysql.tables.new_table import drop_building, drop_sentinel
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession


def drop_beside(session: SqlSession, schema: str, table: str) -> str:
    """Drop the new table, the sentinel and the checkpoint beside a table, never the old table.

    The checkpoint goes last: it holds the proof of the others. Without one of ours nothing is
    touched. Neither is anything where the new table may have been in the table's place: it may
    hold the only copy of what the application wrote since.

    Returns:
        What was there and is not ours, for the operator; empty for nothing.
    """
    names, store = AuxiliaryNames.of(table), CheckpointTable(schema, table)
    if not store.is_ours(session):
        return ""
    made = read_proofs(session, schema, table)
    if made.swap_begun and is_one_of(session, schema, names.new, made.new):
        return (
            f"{schema}.{names.new} stays, and its checkpoint: {may_hold_rows(schema, table)};"
            f" {see_what_it_holds(schema, table)}"
        )
    drop_building(session, schema, table, made.building)
    kept = ""
    if not drop_if(session, schema, names.new, made.new) and read_table(session, schema, names.new):
        kept = (
            f"{schema}.{names.new} stays: nothing proves that this program made it; see who did,"
            " and drop it when nobody needs it"
        )
    drop_sentinel(session, schema, names.sentinel)
    store.drop(session)
    return kept

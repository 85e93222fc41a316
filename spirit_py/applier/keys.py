"""Deletes by keys that the new table equates differently: the server converts the keys too.

A literal of the old value does not always find the new one: a column that pads, or that is of
another type or collation, holds something else than what the literal says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.applier.batch import insert_rows
from spirit_py.applier.stage import (
    as_stored,
    converting_zone,
    drop_stage,
    make_stage,
    number_column,
    source_table,
    stage_table,
    target_table,
)
from spirit_py.applier.verdicts import TRUNCATED, judge_warnings
from spirit_py.mysql.lost_values import DEPRECATED
from spirit_py.sql import identifier_list, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping


def needed(mapping: TableMapping) -> bool:
    """Tell whether a literal of an old key may miss its row in the new table."""
    return not mapping.key_order_kept


def delete(session: SqlSession, mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> None:
    """Delete the rows of these keys of the source from the new table."""
    names = identifier_list(mapping.key.columns)
    stage = make_stage(session, mapping, "keys", names=names, table=source_table(mapping))
    with as_stored(session):
        for statement in insert_rows(f"{stage} ({names})", keys, bounds, mapping):
            session.execute(statement)
            judge_warnings(session, mapping, allowed=(DEPRECATED, TRUNCATED))
    convert(session, mapping)
    with converting_zone(session, mapping):
        session.execute(delete_converted(mapping))
    drop_stage(session, mapping, "new_keys")
    drop_stage(session, mapping, "keys")


def convert(session: SqlSession, mapping: TableMapping) -> None:
    """Convert the staged keys to the new key's types, in a staging table of their own."""
    names = identifier_list(mapping.new_key_columns)
    converted = make_stage(session, mapping, "new_keys", names=names, table=target_table(mapping))
    by_old = {pair.old.name.lower(): pair for pair in mapping.pairs}
    values = ", ".join(
        by_old[name.lower()].value_from(quote_identifier(name)) for name in mapping.key.columns
    )
    number = number_column(mapping)
    with converting_zone(session, mapping):
        session.execute(
            f"INSERT INTO {converted} ({number}, {names})"
            f" SELECT {number}, {values} FROM {stage_table(mapping, 'keys')}"
        )
        judge_warnings(session, mapping)


def delete_converted(mapping: TableMapping, *, but: str = "") -> str:
    """Give the statement that deletes the rows of the converted keys.

    Without aliases, which a multi-table DELETE looks for in the session's default schema.

    Args:
        but: a flag of the staged keys; those that have it stay.
    """
    target, converted = target_table(mapping), stage_table(mapping, "new_keys")
    which = converted
    if but:
        keys, number = stage_table(mapping, "keys"), number_column(mapping)
        which = (
            f"{keys} STRAIGHT_JOIN {converted}"
            f" ON {converted}.{number} = {keys}.{number} AND NOT {keys}.{but}"
        )
    return f"DELETE {target} FROM {which} STRAIGHT_JOIN {target} ON {found(mapping)}"


def found(mapping: TableMapping) -> str:
    """Say when a row of the new table has a converted key."""
    target, converted = target_table(mapping), stage_table(mapping, "new_keys")
    return " AND ".join(
        f"{target}.{quote_identifier(name)} = {converted}.{quote_identifier(name)}"
        for name in mapping.new_key_columns
    )

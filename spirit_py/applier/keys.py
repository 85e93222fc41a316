"""Deletes by keys whose type the new table changes: the server converts the keys too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.applier.batch import insert_rows
from spirit_py.applier.stage import (
    converting_zone,
    drop_stage,
    source_table,
    stage_table,
    target_table,
)
from spirit_py.applier.verdicts import judge_warnings
from spirit_py.sql import identifier_list, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping


def needed(mapping: TableMapping) -> bool:
    """Tell whether a key column is converted."""
    key = {name.lower() for name in mapping.key.columns}
    return any(pair.converted and pair.old.name.lower() in key for pair in mapping.pairs)


def delete(session: SqlSession, mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> None:
    """Delete the rows of these keys of the source from the new table."""
    stage = stage_table(mapping, "keys")
    session.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage}")
    session.execute(
        f"CREATE TEMPORARY TABLE {stage} ENGINE=InnoDB"
        f" SELECT {identifier_list(mapping.key.columns)} FROM {source_table(mapping)} LIMIT 0"
    )
    for statement in insert_rows(stage, keys, bounds, mapping):
        session.execute(statement)
        judge_warnings(session, mapping)
    _delete_matching(session, mapping, stage)
    drop_stage(session, mapping, "keys")


def delete_staged(session: SqlSession, mapping: TableMapping) -> None:
    """Delete the keys of the rows that are staged whole."""
    _delete_matching(session, mapping, stage_table(mapping))


def _delete_matching(session: SqlSession, mapping: TableMapping, stage: str) -> None:
    """Convert staged keys to the new key's types, and delete the rows that have them."""
    converted = stage_table(mapping, "new_keys")
    names = identifier_list(mapping.new_key_columns)
    session.execute(f"DROP TEMPORARY TABLE IF EXISTS {converted}")
    session.execute(
        f"CREATE TEMPORARY TABLE {converted} ENGINE=InnoDB"
        f" SELECT {names} FROM {target_table(mapping)} LIMIT 0"
    )
    with converting_zone(session, mapping):
        session.execute(
            f"INSERT INTO {converted} SELECT {identifier_list(mapping.key.columns)} FROM {stage}"
        )
        judge_warnings(session, mapping)
    target = target_table(mapping)
    match = " AND ".join(
        f"{target}.{quote_identifier(name)} = {converted}.{quote_identifier(name)}"
        for name in mapping.new_key_columns
    )
    # Without aliases, which a multi-table DELETE looks for in the session's default schema.
    session.execute(f"DELETE {target} FROM {converted} STRAIGHT_JOIN {target} ON {match}")
    drop_stage(session, mapping, "new_keys")

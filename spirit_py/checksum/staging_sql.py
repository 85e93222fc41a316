"""Source values converted by the server, as a native ALTER converts them (pure).

They go as literals into the TEMPORARY table ``..._old``, and from it into ``..._new``. ``INSERT ...
SELECT`` from the source at REPEATABLE READ would take shared next-key locks (measured; R1 forbids
it) and not read the snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.checksum.query import SOURCE, UNFIT, forced_table, stage_column, stage_table
from spirit_py.sql import PiecedRow, quote_identifier
from spirit_py.table.keys import INTEGERS, TEXT_TYPES
from spirit_py.table.schema import type_sql
from spirit_py.table.temporal import UTC_OFFSET
from spirit_py.table.values import float_limit, float_literal, row_introducer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from spirit_py.checksum.query import ComparisonPlan, Selection
    from spirit_py.table.schema import Column

ROW_NUMBER: Final = "_spirit_py_row"
"""The column with a row's number, from 1, in the old-typed table where values may be unfit."""
_STATEMENT_CHARACTERS: Final = 512 * 1024
_DEFAULT: Final = {"timestamp": " DEFAULT 0"}
"""Without one, a server with implicit defaults gives ON UPDATE CURRENT_TIMESTAMP to the first."""
_QUOTED: Final = frozenset({"date", "time", "datetime", "timestamp"})


def create_stage(plan: ComparisonPlan, side: str) -> str:
    """Render the staging table with the ``old`` or ``new`` types, and columns for unfit values."""
    keys = [
        f"{stage_column('k', n)} {type_sql(column)} NOT NULL{_DEFAULT.get(column.data_type, '')}"
        for n, column in enumerate(plan.mapping.key_columns)
    ]
    types = [_old_type(p.old) if side == "old" else type_sql(p.new) for p in plan.staged]
    carried = [f"{stage_column('c', place)} {kind} NULL" for place, kind in enumerate(types)]
    primary = ", ".join(stage_column("k", place) for place in range(len(keys)))
    if plan.unfit and side == "old":
        carried.append(f"`{ROW_NUMBER}` INT NOT NULL")
        primary = f"`{ROW_NUMBER}`"
    elif plan.unfit:
        carried.append(f"`{UNFIT}` TEXT CHARACTER SET ascii NULL")
    columns = ", ".join([*keys, *carried, f"PRIMARY KEY ({primary})"])
    return (
        f"CREATE TEMPORARY TABLE {stage_table(plan.mapping, side)} ({columns})"
        " ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
    )


def drop_stage(plan: ComparisonPlan, side: str) -> str:
    """Drop a staging table. Unlike TRUNCATE this ends no transaction (manual 15.3.3)."""
    return f"DROP TEMPORARY TABLE IF EXISTS {stage_table(plan.mapping, side)}"


def _old_type(column: Column) -> str:
    """Render the type in which a source value is staged: of JSON its text, which alone is exact."""
    return "longtext CHARACTER SET utf8mb4" if column.data_type == "json" else type_sql(column)


def select_staged(plan: ComparisonPlan, rows: Selection) -> str:
    """Select key and staged columns of some rows in the form that :func:`fill_stage` takes."""
    columns = [*plan.mapping.key_columns, *(pair.old for pair in plan.staged)]
    selected = ", ".join(
        _exactly(column, f"`r`.{quote_identifier(column.name)}") for column in columns
    )
    return f"SELECT {selected} FROM {forced_table(plan, SOURCE)} WHERE {plan.where(SOURCE, rows)}"


def select_lossless(columns: Sequence[Column]) -> list[str]:
    """Render the columns of a table so that :func:`row_literals` can write their values."""
    return [_exactly(column, quote_identifier(column.name)) for column in columns]


def row_literals(columns: Sequence[Column], row: Sequence[Any]) -> list[str]:
    """Render a row of :func:`select_lossless` for columns of the very same types."""
    return [
        f"{row_introducer(column.charset)}X'{value.hex()}'"
        if column.charset is not None and column.data_type in TEXT_TYPES and value is not None
        else _literal(column, value)
        for column, value in zip(columns, row, strict=True)
    ]


def lossless_text(column: Column) -> str:
    """Render the expression for a value's literal, as :func:`row_literals` writes it; not JSON.

    NULL for a value that is longer than ``max_allowed_packet`` takes.
    """
    name = quote_identifier(column.name)
    value, kind = _selected(column, name), column.data_type
    if kind in {"float", "double"}:
        value = f"CONCAT({value}, IF(LOCATE('e', {value}), '', 'e0'))"
    elif kind == "timestamp":
        # The session that writes it may have another zone than '+00:00'; zero is in none.
        value = f"CONCAT('''', {value}, IF({value} = 0, '''', '{UTC_OFFSET}'''))"
    elif kind in _QUOTED:
        value = f"CONCAT('''', {value}, '''')"
    elif column.charset is not None and kind in TEXT_TYPES:
        value = f"CONCAT('{row_introducer(column.charset)}X''', {value}, '''')"
    elif value.startswith("HEX("):
        value = f"CONCAT('X''', {value}, '''')"
    return f"IF({name} IS NULL, 'NULL', {value})"


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _selected(column: Column, name: str) -> str:
    kind = column.data_type
    if kind in INTEGERS:
        return f"CAST({name} AS {'UNSIGNED' if column.unsigned else 'SIGNED'})"
    if kind in {"enum", "set", "bit", "year"}:
        return f"CAST({name} AS UNSIGNED)"
    if kind in {"float", "double"}:
        limit, value = float_limit(column), f"CAST({name} AS DOUBLE)"
        if limit is None:
            return value
        text = float_literal(limit)
        return f"GREATEST(-{text}, LEAST({value}, {text}))"
    return name if kind in _QUOTED or kind == "decimal" else f"HEX({name})"


def _exactly(column: Column, name: str) -> str:
    """Select a value; of text, bytes and documents the bytes, which are half of what HEX() is."""
    selected = _selected(column, name)
    return f"CAST({name} AS BINARY)" if selected.startswith("HEX(") else selected


def fill_stage(plan: ComparisonPlan, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Render the statements that put rows of :func:`select_staged` into the old-typed table.

    A row that is too long for a statement goes in pieces. Each row has a key of its own, or a
    number: REPLACE replaces none, and is not among the writes of others
    (:mod:`spirit_py.throttle.latency`).
    """
    columns = [*plan.mapping.key_columns, *(pair.old for pair in plan.staged)]
    head = f"REPLACE INTO {stage_table(plan.mapping, 'old')} VALUES "
    batch: list[str] = []
    size = 0
    for number, row in enumerate(rows, 1):
        values = ", ".join(_literal(c, v) for c, v in zip(columns, row, strict=True))
        if plan.unfit:
            values += f", {number}"
        if batch and size + len(values) > _STATEMENT_CHARACTERS:
            yield head + ", ".join(batch)
            batch, size = [], 0
        if len(values) > _STATEMENT_CHARACTERS:
            pieced = PiecedRow(f"({values})")
            yield from pieced.fill(_STATEMENT_CHARACTERS)
            yield head + pieced.text
            yield pieced.forget()
            continue
        batch.append(f"({values})")
        size += len(values)
    if batch:
        yield head + ", ".join(batch)


def _literal(column: Column, value: Any) -> str:
    if value is None:
        return "NULL"
    kind = column.data_type
    if kind in {"float", "double"}:
        text = _text(value)
        return text if "e" in text else f"{text}e0"
    if kind in _QUOTED:
        return f"'{_text(value)}'"
    if kind == "json":
        return f"_utf8mb4 X'{value.hex()}'"
    if column.charset is not None and kind not in {"enum", "set"}:
        return f"{row_introducer(column.charset)}X'{value.hex()}'"
    if kind in INTEGERS or kind in {"enum", "set", "bit", "year", "decimal"}:
        return _text(value)
    return f"X'{value.hex()}'"


def convert_stage(
    plan: ComparisonPlan, places: Collection[int] | None = None, verb: str = "REPLACE"
) -> str:
    """Render the statement in which the server converts ``places``, or all; others stay NULL."""
    mapping = plan.mapping
    names = [stage_column("k", n) for n in range(len(mapping.key_columns))]
    values = list(names)
    for place, pair in enumerate(plan.staged):
        if places is None or place in places:
            names.append(stage_column("c", place))
            values.append(pair.value_from(names[-1]))
    old, new = stage_table(mapping, "old"), stage_table(mapping, "new")
    order = f" ORDER BY `{ROW_NUMBER}`" if plan.unfit else ""
    return f"{verb} INTO {new} ({', '.join(names)}) SELECT {', '.join(values)} FROM {old}{order}"


def empty_old(plan: ComparisonPlan) -> str:
    """Take all rows out of the old-typed table, without ending a transaction as TRUNCATE would."""
    return f"DELETE FROM {stage_table(plan.mapping, 'old')}"


def take_back(plan: ComparisonPlan) -> str:
    """Take the rows that are in the old-typed table out of the new-typed one."""
    # Without aliases: a DELETE of an alias wants a default schema.
    return f"DELETE {stage_table(plan.mapping, 'new')} FROM {_both(plan)}"


def mark_unfit(plan: ComparisonPlan, places: Collection[int], numbers: Collection[int]) -> str:
    """Record the places of values that do not fit; set these to NULL: such a key finds no row."""
    old, new = stage_table(plan.mapping, "old"), stage_table(plan.mapping, "new")
    gone = ", ".join(f"{new}.{stage_column('c', place)} = NULL" for place in places)
    return (
        f"UPDATE {_both(plan)} SET {new}.`{UNFIT}` = '{','.join(map(str, places))}', {gone}"
        f" WHERE {old}.`{ROW_NUMBER}` IN ({', '.join(map(str, numbers))})"
    )


def _both(plan: ComparisonPlan) -> str:
    old, new = stage_table(plan.mapping, "old"), stage_table(plan.mapping, "new")
    keys = [stage_column("k", place) for place in range(len(plan.mapping.key_columns))]
    on = " AND ".join(f"{new}.{key} = {old}.{key}" for key in keys)
    return f"{old} STRAIGHT_JOIN {new} ON {on}"

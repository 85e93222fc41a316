"""Changes of keys that cannot be compared: in their order, many in one transaction (R6).

Of equal keys the last change counts, and only the server knows which keys are equal. So
neighbouring changes of one kind share a statement, and all of them a transaction: a commit for each
statement took longer than the writes. What must be staged is staged before the transaction, once
for all of its statements, which then read a range of the staged rows each.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING

from spirit_py.applier import direct, stage
from spirit_py.applier import keys as staged_keys
from spirit_py.applier.verdicts import TRUNCATED, judge_fault
from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.values.lost_values import DEPRECATED
from spirit_py.sql import identifier_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import KeyedChange, SqlSession
    from spirit_py.table.mapping import TableMapping


def write(
    session: SqlSession,
    mapping: TableMapping,
    changes: Sequence[KeyedChange],
    bounds: Bounds,
    *,
    staged: bool,
) -> None:
    """Write changes in their order, all or none.

    Args:
        staged: rows go through a staging table.

    Raises:
        ValueLost: a value does not fit unchanged (R10).
    """
    numbered = list(enumerate(changes, 1))
    converted = staged_keys.needed(mapping)
    if staged:
        _stage_rows(session, mapping, numbered, bounds)
    if converted:
        _stage_keys(session, mapping, numbered, bounds)
    with stage.whole(session):
        for deleted, run in groupby(numbered, key=lambda one: one[1].row is None):
            part = list(run)
            within = f"BETWEEN {part[0][0]} AND {part[-1][0]}"
            if deleted and converted:
                staged_keys.delete_found(session, mapping, within=within)
            elif deleted:
                direct.delete(session, mapping, [change.key for _, change in part], bounds)
            elif staged:
                stage.write_stage(session, mapping, within=within)
            else:
                _replace(session, mapping, [c.row.sql for _, c in part if c.row], bounds)
    for kind, made in (("rows", staged), ("keys", converted), ("new_keys", converted)):
        if made:
            stage.drop_stage(session, mapping, kind)


def _stage_rows(
    session: SqlSession,
    mapping: TableMapping,
    numbered: Sequence[tuple[int, KeyedChange]],
    bounds: Bounds,
) -> None:
    """Stage the rows, each with its number."""
    rows = [(number, change.row) for number, change in numbered if change.row]
    texts = [stage.behind(str(number), row.sql) for number, row in rows]
    allowed = (DEPRECATED, TRUNCATED) if any(row.staged for _, row in rows) else (DEPRECATED,)
    with as_stored(session):
        made = stage.make_row_stage(session, mapping)
        into = f"{made} ({stage.number_column(mapping)}, {stage.old_names(mapping)})"
        stage.fill(session, mapping, into, texts, bounds, allowed=allowed)


def _stage_keys(
    session: SqlSession,
    mapping: TableMapping,
    numbered: Sequence[tuple[int, KeyedChange]],
    bounds: Bounds,
) -> None:
    """Stage the deleted keys as the new table has them, each with its number."""
    names, number = identifier_list(mapping.key.columns), stage.number_column(mapping)
    table = stage.source_table(mapping)
    texts = [stage.behind(str(n), change.key) for n, change in numbered if not change.row]
    with as_stored(session):
        made = stage.make_stage(session, mapping, "keys", names=names, table=table)
        stage.fill(session, mapping, f"{made} ({number}, {names})", texts, bounds)
    staged_keys.convert(session, mapping)


def _replace(
    session: SqlSession, mapping: TableMapping, rows: Sequence[str], bounds: Bounds
) -> None:
    """Write rows directly.

    Raises:
        ValueLost: names the row; its number is one of this statement.
    """
    try:
        direct.replace(session, mapping, rows, bounds, nullcontext)
    except ServerFault as fault:
        raise judge_fault(fault, mapping, rows) from fault

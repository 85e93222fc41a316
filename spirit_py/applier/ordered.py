"""Changes by keys that only the server can compare: deletes, and changes in their order (R6).

Of equal keys the last change counts. Neighbouring changes of one kind share a statement, and all of
them a transaction: a commit for each took longer than the writes. A literal of the old value may
miss the new one, where a column pads, or has another type or collation.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING

from spirit_py.applier import stage
from spirit_py.applier.batch import own_rows
from spirit_py.applier.workers import TRUNCATED, judge_warnings
from spirit_py.errors import ServerFault, ValueLost
from spirit_py.mysql.evaluation import as_stored, evaluating
from spirit_py.mysql.lost_values import DEPRECATED, VALUE_ERRORS
from spirit_py.sql import identifier_list, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.values import KeyedChange


def write(
    session: SqlSession,
    mapping: TableMapping,
    changes: Sequence[KeyedChange],
    bounds: Bounds,
    *,
    staged: bool,
) -> None:
    """Write changes in their order, all or none, through a staging table if ``staged`` (R10)."""
    numbered = list(enumerate(changes, 1))
    converted = not mapping.key_order_kept
    number = stage.number_column(mapping)
    if staged:
        rows = [(n, change.row) for n, change in numbered if change.row]
        texts = [stage.behind(str(n), row.sql) for n, row in rows]
        allowed = (DEPRECATED, TRUNCATED) if any(row.staged for _, row in rows) else (DEPRECATED,)
        with as_stored(session):
            made = stage.make_row_stage(session, mapping)
            into = f"{made} ({number}, {stage.old_names(mapping)})"
            stage.fill(session, mapping, into, texts, bounds, allowed=allowed)
    if converted:
        names, key = identifier_list(mapping.key.columns), mapping.key_columns
        texts = [stage.behind(str(n), change.key) for n, change in numbered if not change.row]
        with as_stored(session):
            made = stage.make_stage(session, mapping, "keys", columns=key, of=mapping.source)
            stage.fill(session, mapping, f"{made} ({number}, {names})", texts, bounds)
        convert(session, mapping)
    with stage.whole(session):
        for deleted, run in groupby(numbered, key=lambda one: one[1].row is None):
            part = list(run)
            within = f"BETWEEN {part[0][0]} AND {part[-1][0]}"
            if deleted and converted:
                delete_found(session, mapping, within=within)
            elif deleted:
                stage.delete(session, mapping, [change.key for _, change in part], bounds)
            elif staged:
                stage.write_stage(session, mapping, within=within)
            else:
                texts = [change.row.sql for _, change in part if change.row]
                stage.replace(session, mapping, texts, bounds, nullcontext)
    for kind, there in (("rows", staged), ("keys", converted), ("new_keys", converted)):
        if there:
            stage.drop_stage(session, mapping, kind)


def delete(session: SqlSession, mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> None:
    """Delete the rows of these keys of the source from the new table."""
    names = identifier_list(mapping.key.columns)
    with as_stored(session):
        key = mapping.key_columns
        made = stage.make_stage(session, mapping, "keys", columns=key, of=mapping.source)
        stage.fill(session, mapping, f"{made} ({names})", keys, bounds)
    convert(session, mapping)
    delete_found(session, mapping)
    stage.drop_stage(session, mapping, "new_keys")
    stage.drop_stage(session, mapping, "keys")


def convert(
    session: SqlSession, mapping: TableMapping, kind: str = "keys", into: str = "new_keys"
) -> None:
    """Convert staged keys to the new key's types, without keys that do not fit these (R10)."""
    names, key = identifier_list(mapping.new_key_columns), mapping.new_key
    with as_stored(session):
        converted = stage.make_stage(session, mapping, into, columns=key, of=mapping.target)
    values = ", ".join(p.value_from(quote_identifier(p.old.name)) for p in mapping.key_pairs)
    number, staged = stage.number_column(mapping), stage.stage_table(mapping, kind)
    insert = f"INSERT INTO {converted} ({number}, {names})"
    statement = f"{insert} SELECT {number}, {values} FROM {staged}"
    with evaluating(session, mapping):
        if _converted(session, mapping, statement):
            return
        session.execute(f"DELETE FROM {converted}")
        ((low, high),) = session.query(f"SELECT MIN({number}), MAX({number}) FROM {staged}")
        ranges = [(int(low), int(high))]
        while ranges:
            low, high = ranges.pop()
            within = f" WHERE {number} BETWEEN {low} AND {high}"
            if _converted(session, mapping, statement + within):
                continue
            session.execute(f"DELETE FROM {converted}{within}")
            if low < high:
                middle = (low + high) // 2
                ranges += [(low, middle), (middle + 1, high)]


def _converted(session: SqlSession, mapping: TableMapping, statement: str) -> bool:
    """Run a conversion; False when a key does not fit: some keys may be converted then."""
    try:
        session.execute(statement)
        judge_warnings(session, mapping)
    except (ServerFault, ValueLost) as error:
        if isinstance(error, ServerFault) and error.code not in VALUE_ERRORS:
            raise
        return False
    return True


def delete_found(session: SqlSession, mapping: TableMapping, *, within: str = "") -> None:
    """Delete the rows of the converted keys; see :func:`delete_converted`."""
    with evaluating(session, mapping):
        session.execute(delete_converted(mapping, within=within))


def delete_converted(mapping: TableMapping, *, but: str = "", within: str = "") -> str:
    """Return the statement that deletes the rows of the converted keys, but for flagged ones.

    Without aliases, which a multi-table DELETE looks for in the session's default schema.
    """
    target, converted = mapping.target.quoted, stage.stage_table(mapping, "new_keys")
    which = converted
    if but:
        spellings, number = stage.stage_table(mapping, "spellings"), stage.number_column(mapping)
        which = (
            f"{spellings} STRAIGHT_JOIN {converted}"
            f" ON {converted}.{number} = {spellings}.{number} AND NOT {spellings}.{but}"
        )
    where = f" WHERE {converted}.{stage.number_column(mapping)} {within}" if within else ""
    on = f"{found(mapping)}{own_rows(mapping)}"
    return f"DELETE {target} FROM {which} STRAIGHT_JOIN {target} ON {on}{where}"


def found(mapping: TableMapping, into: str = "new_keys") -> str:
    """Return the condition that a row of the new table has a converted key."""
    target, converted = mapping.target.quoted, stage.stage_table(mapping, into)
    names = map(quote_identifier, mapping.new_key_columns)
    return " AND ".join(f"{target}.{name} = {converted}.{name}" for name in names)

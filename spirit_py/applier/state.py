"""One whole state of the source, applied at once to a table whose rows may meet (R11, R21).

An apparent duplicate may be a value that moves between rows. So one transaction deletes the keys of
all pending changes, then inserts the latest images: a row that cannot be inserted is a duplicate
that the source had. Where the new table equates keys otherwise, it may have any spelling of a key,
because the copy read ahead: all are deleted. Not a *fresh* one, which the source did not have
before: what the new table has there is another row.

Where several sources share the new table (``mapping.owned``), nothing but a source's own rows is
ever deleted, and no verb writes over others: a row that cannot be inserted then has a key of
another source's row, whatever unique key that is (R15). That one may be about to go: rows may
change their source, and each source is followed by itself. So RowsMeet is for now; what the
source's own changes delete is deleted at once, for the others.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from spirit_py.applier import ordered, stage
from spirit_py.applier.batch import own_rows
from spirit_py.applier.workers import judge_warnings
from spirit_py.errors import DuplicateForUnique, RowsMeet, ServerFault
from spirit_py.mysql.evaluation import as_stored, evaluating
from spirit_py.mysql.faults import DUPLICATE_ENTRY
from spirit_py.sql import identifier_list, quote_identifier
from spirit_py.table.conversions import is_timestamp
from spirit_py.table.keys import TEMPORALS
from spirit_py.table.values import key_select_expressions, row_key_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Index
    from spirit_py.table.values import KeyedChange
_EXAMPLES: Final = 10
_STAGES: Final = ("keys", "rows", "spellings", "new_keys")
_DIGEST_BYTES: Final = 16


def write(
    session: SqlSession,
    mapping: TableMapping,
    parts: Iterable[Sequence[KeyedChange]],
    bounds: Bounds,
    *,
    complete: bool,
    again: bool = False,
) -> bool:
    """Stage changes, and write the resulting state in one transaction.

    Unless it is ``complete``, as at the end of a transaction, conflicting rows are written over;
    return whether any may have been. ``again``: it may have been written already, by an attempt
    whose answer was lost. Raises DuplicateForUnique.
    """
    _stage(session, mapping, parts, bounds)
    ordered.convert(session, mapping, "spellings" if mapping.key_merging else "keys")
    over = again and mapping.key_merging
    all_keys = again or not mapping.key_merging
    delete = ordered.delete_converted(mapping, but="" if all_keys else _fresh(mapping))
    try:
        _write(session, mapping, [delete], _insert(mapping, "INSERT"))
    except ServerFault as fault:
        if fault.code != DUPLICATE_ENTRY:
            raise
        if mapping.owned is not None:
            _write_over_own(session, mapping, delete)
        elif complete:
            raise _named(session, mapping, delete, fault) from fault
        else:
            _write(session, mapping, [delete], _insert(mapping, "REPLACE"))
        over = True
    for kind in _STAGES:
        stage.drop_stage(session, mapping, kind)
    return over


def _stage(
    session: SqlSession,
    mapping: TableMapping,
    parts: Iterable[Sequence[KeyedChange]],
    bounds: Bounds,
) -> None:
    """Stage all rows by number, and for each key, as the server compares it, the latest number."""
    number, key = stage.number_column(mapping), identifier_list(mapping.key.columns)
    of, columns, olds = mapping.source, mapping.key_columns, stage.old_names(mapping)
    # Times are named because of ``ON UPDATE CURRENT_TIMESTAMP``, which a stage has as its table.
    times = [quote_identifier(one.name) for one in columns if one.data_type in TEMPORALS]
    same = "".join(f", {name} = {name}" for name in times)
    latest = f" ON DUPLICATE KEY UPDATE {number} = VALUES({number}){same}"
    last = 0
    with as_stored(session):
        rows = stage.make_row_stage(session, mapping)
        keys = stage.make_stage(session, mapping, "keys", columns=columns, of=of, primary=key)
        if mapping.key_merging:
            _make_spellings(session, mapping)
        for part in parts:
            numbered = list(enumerate(part, last + 1))
            last += len(numbered)
            texts = [stage.behind(str(n), c.key) for n, c in numbered]
            stage.fill(session, mapping, f"{keys} ({number}, {key})", texts, bounds, tail=latest)
            if mapping.key_merging:
                # The first change of each spelling decides whether it is fresh.
                marks = [f"{n}, X'{_digest_of(c.key)}', {c.fresh:d}" for n, c in numbered]
                texts = [stage.behind(m, c.key) for m, c in zip(marks, part, strict=True)]
                spellings = stage.stage_table(mapping, "spellings")
                into = f"{spellings} ({number}, {_digest(mapping)}, {_fresh(mapping)}, {key})"
                first = f" ON DUPLICATE KEY UPDATE {number} = {spellings}.{number}"
                stage.fill(session, mapping, into, texts, bounds, tail=first)
            texts = [stage.behind(str(n), c.row.sql) for n, c in numbered if c.row]
            stage.fill(session, mapping, f"{rows} ({number}, {olds})", texts, bounds)


def _make_spellings(session: SqlSession, mapping: TableMapping) -> None:
    kind, same = "spellings", _digest(mapping)
    more = f"{same} BINARY({_DIGEST_BYTES}) NOT NULL DEFAULT ''"
    more += f", {_fresh(mapping)} BOOLEAN NOT NULL DEFAULT FALSE"
    columns, of = mapping.key_columns, mapping.source
    stage.make_stage(session, mapping, kind, columns=columns, of=of, primary=same, more=more)


def _fresh(mapping: TableMapping) -> str:
    return stage.number_column(mapping, "_spirit_py_fresh")


def _digest(mapping: TableMapping) -> str:
    return stage.number_column(mapping, "_spirit_py_spelling")


def _digest_of(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _write(session: SqlSession, mapping: TableMapping, deletes: Iterable[str], insert: str) -> None:
    with stage.whole(session), evaluating(session, mapping):
        for delete in deletes:
            session.execute(delete)
        session.execute(insert)
        judge_warnings(session, mapping)


def _write_over_own(session: SqlSession, mapping: TableMapping, delete: str) -> None:
    """Write over rows of the same source alone; RowsMeet where another's is in the way.

    A value of a unique key may be one that a row of the source gives up later.
    """
    rows, target = stage.stage_table(mapping, "rows"), mapping.target.quoted
    olds = {pair.new.name.lower(): quote_identifier(pair.old.name) for pair in mapping.pairs}
    deletes = [delete]
    for index in other_keys(mapping):
        named = [
            (f"{target}.{quote_identifier(name)}", f"{rows}.{olds[name.lower()]}")
            for name in index.columns
        ]
        # Without the index the server compares local times, of which two instants may have one.
        named += [
            (f"UNIX_TIMESTAMP({new})", f"UNIX_TIMESTAMP({old})")
            for name, (new, old) in zip(index.columns, named, strict=True)
            if is_timestamp(mapping.target.column(name))
        ]
        on = " AND ".join(f"{new} = {old}" for new, old in named)
        deletes.append(
            f"DELETE {target} FROM {_staged(mapping)} STRAIGHT_JOIN {target}"
            f" ON {on}{own_rows(mapping)}"
        )
    try:
        _write(session, mapping, deletes, _insert(mapping, "INSERT"))
    except ServerFault as fault:
        if fault.code != DUPLICATE_ENTRY:
            raise
        # Two sources may each wait for a row that the other has deleted.
        with stage.whole(session), evaluating(session, mapping):
            for statement in deletes:
                session.execute(statement)
        raise RowsMeet(
            f"a row of {mapping.source.full_name} on one source has a key of another source's row:"
            f" {fault.text}",
            hint="the sources' rows must differ in every unique key of the table: remove one of the"
            " rows, then run the same command again: it resumes",
        ) from fault


def other_keys(mapping: TableMapping) -> list[Index]:
    """Return the unique keys of the new table, but that by which a row is found."""
    key = mapping.lookup.index
    return [one for one in mapping.target.indexes if one.unique and one != key]


def _insert(mapping: TableMapping, verb: str) -> str:
    rows = stage.stage_table(mapping, "rows")
    carried = [f"{rows}.{quote_identifier(pair.old.name)}" for pair in mapping.pairs]
    values = [pair.value_from(name) for pair, name in zip(mapping.pairs, carried, strict=True)]
    return (
        f"{verb} INTO {mapping.target.quoted} ({identifier_list(mapping.insert_names)})"
        f" SELECT {', '.join([*values, *(fill.sql for fill in mapping.fills)])}"
        f" FROM {_staged(mapping)}"
    )


def _staged(mapping: TableMapping) -> str:
    """Return where the staged rows come from: the latest of each key, if it is kept."""
    rows, keys = stage.stage_table(mapping, "rows"), stage.stage_table(mapping, "keys")
    number = stage.number_column(mapping)
    return f"{keys} STRAIGHT_JOIN {rows} ON {rows}.{number} = {keys}.{number}{_kept(mapping)}"


def _kept(mapping: TableMapping) -> str:
    """Return the condition, to follow others, that a staged row is kept."""
    rows = stage.stage_table(mapping, "rows")
    return "" if mapping.keep is None else f" AND {mapping.keep.condition(rows)}"


def _named(
    session: SqlSession, mapping: TableMapping, delete: str, fault: ServerFault
) -> DuplicateForUnique:
    """Build the error that names the rows left over; they are inserted again, and rolled back."""
    ordered.convert(session, mapping, _with_keys(mapping), into="row_keys")
    try:
        with stage.whole(session):
            with evaluating(session, mapping):
                session.execute(delete)
                session.execute(_insert(mapping, "INSERT IGNORE"))
                said = session.warnings() if session.warning_count else []
            texts = [text for _, code, text in said if code == DUPLICATE_ENTRY]
            rows = session.query(_left_over(mapping))
            raise _error(mapping, [row_key_sql(mapping.key_columns, row) for row in rows], texts)
    except DuplicateForUnique as error:
        return error
    except ServerFault:
        return _error(mapping, [], [fault.text])


def _left_over(mapping: TableMapping) -> str:
    keys = stage.stage_table(mapping, "keys")
    converted, number = stage.stage_table(mapping, "row_keys"), stage.number_column(mapping)
    own = stage.stage_table(mapping, _with_keys(mapping))
    old = ", ".join(f"{own}.{quote_identifier(name)}" for name in mapping.key.columns)
    new = f"{mapping.target.quoted}.{quote_identifier(mapping.new_key_columns[0])}"
    return (
        f"SELECT {', '.join(key_select_expressions(mapping.key_columns))} FROM (SELECT {old}"
        f" FROM {_staged(mapping)}"
        f" STRAIGHT_JOIN {converted} ON {converted}.{number} = {keys}.{number}"
        f" LEFT JOIN {mapping.target.quoted} ON {ordered.found(mapping, 'row_keys')}"
        f" WHERE {new} IS NULL) AS left_over"
    )


def _with_keys(mapping: TableMapping) -> str:
    """Return the staging table with the keys of the rows; generated ones are no part of a row."""
    return "rows" if set(mapping.key_pairs) <= set(mapping.pairs) else "keys"


def _error(mapping: TableMapping, keys: Sequence[str], texts: Sequence[str]) -> DuplicateForUnique:
    count = max(len(keys), len(texts))
    details = [*texts[:_EXAMPLES], *(f"key {key}" for key in keys)]
    if len(keys) == len(texts):
        details = [f"key {key}: {text}" for key, text in zip(keys, texts, strict=True)]
    return DuplicateForUnique(
        f"{count} rows of {mapping.source.full_name} are duplicates for a new"
        f" unique key of {mapping.target.name}",
        hint="remove the duplicates, then run the same command again: it resumes",
        details=tuple(details[: 2 * _EXAMPLES]),
    )

"""How rows are written: through a temporary table of the old column types (R10), or as literals.

Through the table the server converts them as the copy does; a literal may be converted otherwise.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.applier.batch import delete_keys, insert_rows, replace_rows, upsert_tail, upsert_verb
from spirit_py.applier.workers import TRUNCATED, UNDEFINED_CHARACTER, judge_warnings
from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import as_stored, evaluating, set_back
from spirit_py.mysql.faults import SYNTAX_ERROR
from spirit_py.mysql.lost_values import DEPRECATED
from spirit_py.sql import identifier_list, quote_identifier, quote_table
from spirit_py.table.conversions import has_empty_member
from spirit_py.table.schema import type_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema
    from spirit_py.table.values import RenderedRow


def old_names(mapping: TableMapping) -> str:
    """Return the quoted columns of a row image, in order."""
    return identifier_list(column.name for column in mapping.imaged)


def values_of(mapping: TableMapping) -> str:
    """Render what a SELECT of the source gives for :func:`old_names`: the stored values."""
    names = ((column, quote_identifier(column.name)) for column in mapping.imaged)
    # A SELECT carries the text of a SET, which the empty set has too.
    return ", ".join(
        f"CAST({name} AS UNSIGNED)" if has_empty_member(column) else name for column, name in names
    )


def stage_table(mapping: TableMapping, kind: str = "rows") -> str:
    """Return the quoted name of a session's staging table."""
    return quote_table(mapping.target.schema, f"_spirit_py_stage_{kind}")


def number_column(mapping: TableMapping, name: str = "_spirit_py_number") -> str:
    """Return the quoted column that numbers the rows of a staging table, in the order they came."""
    taken = {column.name.lower() for column in (*mapping.source.columns, *mapping.target.columns)}
    while name in taken:
        name += "_"
    return quote_identifier(name)


def make_stage(
    session: SqlSession,
    mapping: TableMapping,
    kind: str,
    *,
    columns: Sequence[Column],
    of: TableSchema,
    primary: str = "",
    more: str = "",
) -> str:
    """Create an empty staging table of a table's columns, inside :func:`as_stored`.

    Its rows are numbered. Where the source is on another server, by the types of its columns.
    """
    stage = stage_table(mapping, kind)
    number = f"{number_column(mapping)} BIGINT UNSIGNED NOT NULL"
    number += f" DEFAULT 0, PRIMARY KEY ({primary})" if primary else " AUTO_INCREMENT PRIMARY KEY"
    if more:
        number += f", {more}"
    made = f" SELECT {identifier_list(one.name for one in columns)} FROM {of.quoted} LIMIT 0"
    if mapping.apart and of is mapping.source:
        empty, made = "NOT NULL" if primary else "NULL", ""
        defined = (f"{quote_identifier(one.name)} {type_sql(one)} {empty}" for one in columns)
        number = ", ".join([number, *defined])
    session.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage}")
    session.execute(
        f"CREATE TEMPORARY TABLE {stage} ({number}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC{made}"
    )
    return stage


def make_row_stage(session: SqlSession, mapping: TableMapping) -> str:
    """Create an empty staging table of the old columns, inside :func:`as_stored`."""
    return make_stage(session, mapping, "rows", columns=mapping.imaged, of=mapping.source)


def fill_stage(
    session: SqlSession, mapping: TableMapping, rows: Sequence[RenderedRow], bounds: Bounds
) -> None:
    """Put rows into a new staging table; only the number 0 of an ENUM needs a lenient mode."""
    texts = [row.sql for row in rows]
    allowed = (DEPRECATED, TRUNCATED) if any(row.staged for row in rows) else (DEPRECATED,)
    with as_stored(session):
        stage = make_row_stage(session, mapping)
        fill(session, mapping, f"{stage} ({old_names(mapping)})", texts, bounds, allowed=allowed)


def fill(
    session: SqlSession,
    mapping: TableMapping,
    into: str,
    texts: Sequence[str],
    bounds: Bounds,
    *,
    tail: str = "",
    allowed: tuple[int, ...] = (DEPRECATED, TRUNCATED),
) -> None:
    """Put rows into a staging table, inside :func:`as_stored`; ``allowed`` warnings are no loss."""
    for statement in insert_rows(into, texts, bounds, mapping, tail):
        session.execute(statement)
        judge_warnings(session, mapping, allowed=allowed)


def write_stage(session: SqlSession, mapping: TableMapping, *, within: str = "") -> None:
    """Write the staged rows over others, in order; ``within`` is a condition on their numbers."""
    selected = ", ".join(mapping.select_expressions)
    where = f" WHERE {number_column(mapping)} {within}" if within else ""
    statement = (
        f"{upsert_verb(mapping)} INTO {mapping.target.quoted}"
        f" ({identifier_list(mapping.insert_names)}) SELECT {selected} FROM {stage_table(mapping)}"
        f"{where} ORDER BY {number_column(mapping)}{upsert_tail(mapping)}"
    )
    with evaluating(session, mapping):
        session.execute(statement)
        judge_warnings(session, mapping)


def in_source(
    session: SqlSession, mapping: TableMapping, key: str, *, as_staged: bool = False
) -> bool:
    """Return whether the source has a row of this key.

    ``as_staged``: the staged row, in all columns of the new table, by their own collations: never
    fewer rows than are the same.
    """
    source, staged = mapping.source.quoted, stage_table(mapping)
    names = ", ".join(f"{source}.{quote_identifier(name)}" for name in mapping.key.columns)
    joined = ""
    if as_staged:
        columns = (quote_identifier(column.name) for column in mapping.imaged)
        same = " AND ".join(f"{source}.{name} <=> {staged}.{name}" for name in columns)
        joined = f" JOIN {staged} ON {same}"
    return bool(session.query(f"SELECT 1 FROM {source}{joined} WHERE ({names}) IN ({key}) LIMIT 1"))


def behind(first: str, row: str) -> str:
    """Put more literals in front of those of ``(literal, ...)``."""
    return f"({first}, {row[1:]}"


def drop_stage(session: SqlSession, mapping: TableMapping, kind: str = "rows") -> None:
    """Drop a staging table."""
    session.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage_table(mapping, kind)}")


@contextlib.contextmanager
def whole(session: SqlSession) -> Iterator[None]:
    """Commit everything that the context does, or nothing.

    Without START TRANSACTION, which would unlock the cutover's tables (manual 15.3.6, LOCK TABLES);
    and never back to autocommit before a rollback, because that commits. A session that cannot be
    set back is closed: what is written in it later would be lost with it.
    """
    end = ["SET SESSION autocommit = 1"]
    try:
        session.execute("SET SESSION autocommit = 0")
        yield
        session.execute("COMMIT")
    except BaseException:
        end.insert(0, "ROLLBACK")
        raise
    finally:
        with contextlib.suppress(ServerFault):
            set_back(session, *end)


_HARMLESS: Final = (DEPRECATED, UNDEFINED_CHARACTER, SYNTAX_ERROR)


def delete(session: SqlSession, mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> None:
    """Delete the rows of these keys; an older server warns of the hint's syntax."""
    for statement in delete_keys(mapping, keys, bounds):
        with evaluating(session, mapping):
            session.execute(statement)
            judge_warnings(session, mapping, allowed=_HARMLESS)


def replace(
    session: SqlSession,
    mapping: TableMapping,
    rows: Sequence[str],
    bounds: Bounds,
    judged: Callable[[], AbstractContextManager[None]],
) -> None:
    """Write rows over others; ``judged`` is the context of each statement and its warnings."""
    for statement in replace_rows(mapping, rows, bounds):
        with evaluating(session, mapping), judged():
            session.execute(statement)
            judge_warnings(session, mapping)

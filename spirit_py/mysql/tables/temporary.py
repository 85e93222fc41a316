"""Read the definition of a session's temporary table, which the catalogue does not show.

``SHOW COLUMNS`` and ``SHOW INDEX`` lack expressions and SRIDs: these are in ``SHOW CREATE TABLE``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from spirit_py.mysql.tables.definition import (
    column_of,
    indexes_of,
    show_create,
    with_members,
)
from spirit_py.sql import quote_table
from spirit_py.table.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import Column

TEMPORARY: Final = "CREATE TEMPORARY TABLE "
_LINE: Final = re.compile(r"^  `((?:[^`]|``)+)` (.*?),?$", re.MULTILINE)
_GENERATED: Final = re.compile(r" GENERATED ALWAYS AS \((.*?)\) (?:VIRTUAL|STORED)")
_DEFAULT: Final = re.compile(
    r" DEFAULT (?:(CURRENT_TIMESTAMP(?:\(\d\))?)|\((.*?)\)(?= COMMENT '| /\*!|$))"
)
_SRID: Final = re.compile(r" /\*!80003 SRID (\d+) \*/")
_HIDDEN: Final = "!hidden!"
_DIGITS: Final = re.compile(r"\((\d+)(?:,(\d+))?\)")
_INTEGERS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19}
_FLOATS: Final = {"float": 12, "double": 22}
_LOBS: Final = {
    **dict.fromkeys(("tinytext", "tinyblob"), 255),
    **dict.fromkeys(("text", "blob"), 65_535),
    **dict.fromkeys(("mediumtext", "mediumblob"), 16_777_215),
    **dict.fromkeys(("longtext", "longblob"), 4_294_967_295),
}
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_TEMPORAL: Final = frozenset({"time", "datetime", "timestamp"})


def read_temporary(session: SqlSession, schema: str, table: str) -> TableSchema:
    """Return the definition of a temporary table of the session; its sizes are 0."""
    created = show_create(session, schema, table)
    quoted = quote_table(schema, table)
    lines = {name.replace("``", "`"): text for name, text in _LINE.findall(created)}
    pads = _collations(session)
    rows = [
        row
        for row in session.query(f"SHOW FULL COLUMNS FROM {quoted}")
        if not str(row[0]).startswith(_HIDDEN)
    ]
    columns = tuple(
        with_members(session, schema, table, _column(row, place, lines.get(str(row[0]), ""), pads))
        for place, row in enumerate(rows, start=1)
    )
    numbered = any(column.auto_increment for column in columns)
    return TableSchema(
        schema=schema,
        name=table,
        engine="InnoDB",
        columns=columns,
        indexes=indexes_of(list(_index_rows(session, quoted))),
        auto_increment=1 if numbered else None,
        create_sql=created.replace(TEMPORARY, "CREATE TABLE ", 1),
    )


def _collations(session: SqlSession) -> dict[str, tuple[str, str]]:
    rows = session.query(
        "SELECT COLLATION_NAME, CHARACTER_SET_NAME, PAD_ATTRIBUTE"
        " FROM information_schema.COLLATIONS"
    )
    return {str(name): (str(charset), str(pad)) for name, charset, pad in rows}


def _index_rows(session: SqlSession, quoted: str) -> Iterator[tuple[Any, ...]]:
    rows = session.query(f"SHOW INDEX FROM {quoted}")
    for row in sorted(rows, key=lambda row: (row[2] != "PRIMARY", str(row[2]), int(row[3]))):
        yield row[2], row[1], row[4], row[14], row[7], row[5], row[13], row[10]


def _column(
    row: tuple[Any, ...], place: int, line: str, pads: dict[str, tuple[str, str]]
) -> Column:
    name, column_type, collation, nullable, _, default, extra, _, comment = row
    column_type = str(column_type)
    data_type = re.split(r"[ (]", column_type, maxsplit=1)[0].lower()
    charset, pad = pads.get(str(collation), (None, None))
    extra = "" if str(extra or "") == "NULL" else str(extra or "")
    computed = _DEFAULT.search(line)
    if computed is not None and not _GENERATED.search(line):
        default = computed[1] or computed[2]
        extra = f"DEFAULT_GENERATED {extra}".rstrip()
    generated = _GENERATED.search(line)
    srid = _SRID.search(line)
    digits, decimals = _numbers(data_type, column_type)
    return column_of(
        (
            name,
            place,
            data_type,
            column_type,
            nullable,
            charset,
            collation,
            pad,
            _length(data_type, column_type),
            digits,
            decimals,
            digits if data_type in _TEMPORAL else None,
            default,
            extra,
            generated[1] if generated else "",
            srid[1] if srid else None,
            comment,
        )
    )


def _length(data_type: str, column_type: str) -> int | None:
    if data_type in _LOBS:
        return _LOBS[data_type]
    found = _DIGITS.search(column_type)
    return int(found[1]) if data_type in _SIZED and found else None


def _numbers(data_type: str, column_type: str) -> tuple[int | None, int | None]:
    found = _DIGITS.search(column_type)
    if data_type in _TEMPORAL:
        return (int(found[1]) if found else 0), None
    if data_type in _INTEGERS:
        more = data_type == "bigint" and "unsigned" in column_type
        return _INTEGERS[data_type] + more, 0
    if data_type in _FLOATS:
        return (int(found[1]), int(found[2])) if found and found[2] else (_FLOATS[data_type], None)
    if data_type == "decimal" and found:
        return int(found[1]), int(found[2] or 0)
    if data_type == "bit":
        return (int(found[1]) if found else 1), None
    return None, None

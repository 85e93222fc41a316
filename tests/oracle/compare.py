"""Every column of every row, rendered by the server without loss, and compared as a multiset."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.oracle.rawlog import OracleError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Query = Callable[[str], list[tuple[Any, ...]]]

Row = tuple[tuple[str, Any], ...]

_EXAMPLES = 6
_HEX = frozenset(
    {
        "char",
        "varchar",
        "tinytext",
        "text",
        "mediumtext",
        "longtext",
        "binary",
        "varbinary",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
        "vector",
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_TEXT = frozenset(
    {
        "tinyint",
        "smallint",
        "mediumint",
        "int",
        "bigint",
        "decimal",
        "date",
        "datetime",
        "timestamp",
        "time",
    }
)


def quoted(name: str) -> str:
    """Quote an identifier."""
    return "`" + name.replace("`", "``") + "`"


def columns(query: Query, schema: str, table: str) -> list[tuple[str, str]]:
    """Return name and data type of every column in table order."""
    found = query(
        "SELECT COLUMN_NAME, LOWER(DATA_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA ="
        f" X'{schema.encode().hex()}' AND TABLE_NAME = X'{table.encode().hex()}'"
        " ORDER BY ORDINAL_POSITION"
    )
    return [(str(name), str(kind)) for name, kind in found]


def rows(query: Query, schema: str, table: str, ignore: Collection[str] = ()) -> Counter[Row]:
    """Return the rows of a table as a multiset of rendered values, invisible columns included.

    The session must be at time zone +00:00 and may have any other settings.
    """
    place = f"{quoted(schema)}.{quoted(table)}"
    wanted = [(name, kind) for name, kind in columns(query, schema, table) if name not in ignore]
    names: list[str] = []
    expressions: list[str] = []
    for name, kind in wanted:
        for label, expression in _renderings(query, place, name, kind):
            names.append(label)
            expressions.append(expression)
    found = query(f"SELECT {', '.join(expressions)} FROM {place}")
    return Counter(tuple(zip(names, row, strict=True)) for row in found)


def _renderings(query: Query, place: str, name: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield labels and SQL expressions that together tell any two values of a column apart."""
    column = quoted(name)
    if kind in _HEX:
        yield name, f"HEX({column})"
    elif kind in _TEXT:
        yield name, f"CAST({column} AS CHAR)"
    elif kind in {"float", "double"}:
        # The nearest double's shortest text, and so the exact value; -0 shows its sign.
        yield name, f"CAST(CAST({column} AS DOUBLE) AS CHAR)"
    elif kind in {"enum", "set"}:
        yield name, f"HEX({column})"
        yield f"{name} (number)", f"CAST({column}+0 AS CHAR)"
    elif kind in {"bit", "year"}:
        yield name, f"CAST({column}+0 AS CHAR)"
    elif kind == "json":
        yield name, f"HEX(CAST({column} AS CHAR CHARACTER SET utf8mb4))"
        paths = sorted(_paths_of(query, place, column))
        for at in range(0, len(paths), 50):
            texts = (f"_utf8mb4 X'{path.encode().hex()}'" for path in paths[at : at + 50])
            types = (f"JSON_TYPE(JSON_EXTRACT({column}, {text}))" for text in texts)
            yield f"{name} (types)", f"CONCAT_WS(',', {', '.join(types)})"
    else:
        raise OracleError(f"the oracle has no rendering for type {kind} of column {name}")


def _paths_of(query: Query, place: str, column: str) -> set[str]:
    """Return every path in a JSON column: its text does not tell DECIMAL 1.0 from DOUBLE 1.0."""
    found: set[str] = set()
    for (text,) in query(f"SELECT CAST({column} AS CHAR) FROM {place} WHERE {column} IS NOT NULL"):
        found.update(_paths("$", json.loads(text)))
    return found


def _paths(prefix: str, value: Any) -> Iterator[str]:
    yield prefix
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(f"{prefix}.{json.dumps(key, ensure_ascii=False)}", inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(f"{prefix}[{number}]", inner)


def assert_equal_rows(expected: Counter[Row], actual: Counter[Row]) -> None:
    """Compare two tables' rows.

    Raises:
        OracleError: with counts and examples of rows lost and rows too many or changed.
    """
    lost, extra = expected - actual, actual - expected
    if not lost and not extra:
        return
    summary = (
        f"{expected.total()} rows expected, {actual.total()} found,"
        f" {lost.total()} lost or changed, {extra.total()} extra or changed"
    )
    lines = [summary]
    lines += [f"  - {_shown(row, extra)}" for row in list(lost)[:_EXAMPLES]]
    lines += [f"  + {_shown(row, lost)}" for row in list(extra)[:_EXAMPLES]]
    raise OracleError("\n".join(lines))


def _shown(row: Row, others: Counter[Row]) -> str:
    """Show a row shortly: its first column and what differs from its nearest counterpart."""
    nearest = max(
        others,
        key=lambda other: sum(a == b for a, b in zip(row, other, strict=False)),
        default=None,
    )
    parts = [f"{name}={_short(value)}" for name, value in row[:1]]
    for position, (name, value) in enumerate(row):
        if position and (
            nearest is None or position >= len(nearest) or nearest[position] != row[position]
        ):
            parts.append(f"{name}={_short(value)}")
    return ", ".join(parts[:8])


def _short(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def definition(query: Query, schema: str, table: str) -> str:
    """Return SHOW CREATE TABLE without the table's name, counter and names of CHECK constraints.

    How often a table was altered shows in nothing: the snapshot guard alters the new one twice.

    A CHECK constraint's name is unique in its schema, so a new table cannot take its source's;
    they are listed by name, so here they are sorted by what they say.
    """
    text = str(query(f"SHOW CREATE TABLE {quoted(schema)}.{quoted(table)}")[0][1])
    _create, newline, rest = text.partition("\n")
    rest = re.sub(r"(\n?\) ENGINE=\w+) AUTO_INCREMENT=\d+", r"\1", rest)
    rest = re.sub(r"  CONSTRAINT `(?:[^`]|``)*` CHECK", "  CONSTRAINT CHECK", rest)
    # Each ALTER makes the server write expressions again, -(5) for -5 and -5 for -(5).
    rest = re.sub(r"-\((\d+(?:\.\d+)?)\)", r"-\1", rest)
    lines = [line.removesuffix(",") for line in rest.split("\n")]
    checks = sorted(line for line in lines if line.startswith("  CONSTRAINT CHECK"))
    rest = "\n".join(line for line in lines if line not in checks)
    return "\n".join(["CREATE TABLE" + newline + rest, *checks])

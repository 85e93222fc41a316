"""Triggers and foreign keys as the server's own catalogue has them, and rows without a parent.

Read from ``information_schema`` alone. A schema's name in them is written as ``{schema}``, so that
what belongs to a twin can be compared with what belongs to the schema.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.oracle.case import other
from tests.oracle.compare import quoted
from tests.oracle.rawlog import OracleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.oracle.compare import Query

_TRIGGER = (
    *("TRIGGER_SCHEMA", "TRIGGER_NAME", "EVENT_OBJECT_SCHEMA", "EVENT_OBJECT_TABLE"),
    *("EVENT_MANIPULATION", "ACTION_TIMING", "ACTION_ORDER", "ACTION_STATEMENT", "SQL_MODE"),
    *("DEFINER", "CHARACTER_SET_CLIENT", "COLLATION_CONNECTION", "DATABASE_COLLATION"),
)
_KEY = (
    *("k.CONSTRAINT_SCHEMA", "k.CONSTRAINT_NAME", "k.TABLE_NAME", "k.COLUMN_NAME"),
    *("k.ORDINAL_POSITION", "k.REFERENCED_TABLE_SCHEMA", "k.REFERENCED_TABLE_NAME"),
    *("k.REFERENCED_COLUMN_NAME", "r.UNIQUE_CONSTRAINT_NAME", "r.UPDATE_RULE", "r.DELETE_RULE"),
)

Found = dict[tuple[str, str], dict[str, str]]


def schemas(query: Query, schema: str) -> list[str]:
    """Return the schemas of a case that exist."""
    listed = ", ".join(_hex(name) for name in (schema, other(schema)))
    found = query(
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"
        f" WHERE SCHEMA_NAME IN ({listed}) ORDER BY 1"
    )
    return [str(name) for (name,) in found]


def neutral(text: str, schema: str) -> str:
    """Return a text that does not depend on the schema's name."""
    return text.replace(other(schema), "{other}").replace(schema, "{schema}")


def triggers(query: Query, schema: str) -> Found:
    """Return the fields of every trigger in the schemas, by schema and name."""
    rows = query(
        f"SELECT {', '.join(_TRIGGER)} FROM information_schema.TRIGGERS"
        f" WHERE TRIGGER_SCHEMA IN ({_listed(query, schema)})"
    )
    return {
        (row["TRIGGER_SCHEMA"], row["TRIGGER_NAME"]): row for row in _dicts(_TRIGGER, rows, schema)
    }


def foreign_keys(query: Query, schema: str) -> Found:
    """Return every foreign key from and to the schemas, by the child's schema and its name."""
    listed = _listed(query, schema)
    rows = query(
        f"SELECT {', '.join(_KEY)} FROM information_schema.KEY_COLUMN_USAGE k"
        " JOIN information_schema.REFERENTIAL_CONSTRAINTS r ON r.TABLE_NAME = k.TABLE_NAME AND"
        " r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME"
        f" WHERE k.REFERENCED_TABLE_NAME IS NOT NULL AND (k.CONSTRAINT_SCHEMA IN ({listed})"
        f" OR k.REFERENCED_TABLE_SCHEMA IN ({listed}))"
        " ORDER BY k.CONSTRAINT_SCHEMA, k.CONSTRAINT_NAME, k.ORDINAL_POSITION"
    )
    found: Found = {}
    for row in _dicts(_KEY, rows, schema):
        key = found.setdefault((row["k.CONSTRAINT_SCHEMA"], row["k.CONSTRAINT_NAME"]), {})
        position = row.pop("k.ORDINAL_POSITION")
        for name in ("k.COLUMN_NAME", "k.REFERENCED_COLUMN_NAME"):
            key[f"{name} {position}"] = row.pop(name)
        key.update(row)
    return found


def assert_equal(what: str, expected: Found, actual: Found) -> None:
    """Compare triggers or foreign keys.

    Raises:
        OracleError: with the first that is missing, too many or different in a field.
    """
    if missing := sorted(set(expected) - set(actual)):
        raise OracleError(f"{what} missing: {missing}; there are {sorted(actual)}")
    if extra := sorted(set(actual) - set(expected)):
        raise OracleError(f"{what} too many: {extra}: {[actual[name] for name in extra]}")
    for name, fields in expected.items():
        if fields != actual[name]:
            differing = {
                field: (fields.get(field), actual[name].get(field))
                for field in sorted(set(fields) | set(actual[name]))
                if fields.get(field) != actual[name].get(field)
            }
            raise OracleError(f"{what} {name}: must be, and is: {differing}")


def assert_no_orphan(query: Query, schema: str) -> None:
    """Look at every row of every child for its parent.

    Raises:
        OracleError: when a row has none.
    """
    for columns in _columns(query, schema).values():
        child, parent = columns[0]["child"], columns[0]["parent"]
        on = " AND ".join(f"c.{quoted(c['column'])} = p.{quoted(c['referenced'])}" for c in columns)
        given = " AND ".join(f"c.{quoted(c['column'])} IS NOT NULL" for c in columns)
        none = f"p.{quoted(columns[0]['referenced'])} IS NULL"
        ((count,),) = query(
            f"SELECT COUNT(*) FROM {child} c LEFT JOIN {parent} p ON {on} WHERE {given} AND {none}"
        )
        if int(count):
            raise OracleError(f"{count} rows of {child} have no parent in {parent}")


def _columns(query: Query, schema: str) -> Mapping[tuple[str, str], list[dict[str, str]]]:
    """Return the columns of each foreign key, with the quoted places of child and parent."""
    rows = query(
        "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME,"
        " REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"
        f" AND CONSTRAINT_SCHEMA IN ({_listed(query, schema)}) ORDER BY ORDINAL_POSITION"
    )
    found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for owner, name, child_in, child, column, parent_in, parent, referenced in rows:
        found[owner, name].append(
            {
                "child": f"{quoted(child_in)}.{quoted(child)}",
                "parent": f"{quoted(parent_in)}.{quoted(parent)}",
                "column": column,
                "referenced": referenced,
            }
        )
    return found


def _dicts(
    names: tuple[str, ...], rows: list[tuple[Any, ...]], schema: str
) -> list[dict[str, str]]:
    return [
        dict(zip(names, (neutral(str(value), schema) for value in row), strict=True))
        for row in rows
    ]


def _listed(query: Query, schema: str) -> str:
    return ", ".join(_hex(name) for name in schemas(query, schema))


def _hex(text: str) -> str:
    return f"_utf8mb4 X'{text.encode().hex()}'"

"""Read counters of the whole server, as SHOW GLOBAL STATUS has them.

Every account may read them, and they are there without performance_schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession


def read_status(session: SqlSession, names: Iterable[str]) -> dict[str, float]:
    """Return the values of these variables, by their names in lower case.

    One that the server does not have, or whose value is no number, is left out.
    """
    listed = ", ".join(string_literal(name) for name in names)
    rows = session.query(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
    found: dict[str, float] = {}
    for name, value in rows:
        try:
            found[str(name).lower()] = float(value)
        except ValueError:
            continue
    return found


def unknown_counters(session: SqlSession, names: Iterable[str]) -> list[str]:
    """Return those of these names, sorted, that are no counters of the server."""
    asked = sorted(names)
    known = read_status(session, asked) if asked else {}
    return [name for name in asked if name.lower() not in known]

"""The program as a library on a test's schema: its arguments, and a table to change."""

from __future__ import annotations

from typing import Any

ROWS = 3000


def arguments(db: Any, **more: Any) -> dict[str, Any]:
    """Return the arguments that reach a test's schema."""
    return {
        "host": db.server.host,
        "port": db.server.port,
        "user": db.server.user,
        "password": db.server.password,
        "database": db.name,
        **more,
    }


def fill_rows(db: Any, statement: str, rows: int = ROWS) -> None:
    """Insert rows by one statement, in which ``{n}`` is a table of the numbers from 1 on as i."""
    numbers = f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})"
    db.execute(f"SET SESSION cte_max_recursion_depth = {rows + 1}")
    db.execute(statement.format(n=numbers + " SELECT i FROM n) AS numbers"))

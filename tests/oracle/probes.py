"""Statements that show triggers and foreign keys at work, on a schema and on its twin.

The same statement must end alike on both: the same error, or as many rows. What a trigger or a
cascade then wrote is compared with all other rows afterwards. A probe proves nothing unless its
effect is seen, so each one names the tables that it must change (``-- @changes``) or the error
that it must get (``-- @refused``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import MySQLdb

from tests.oracle import compare
from tests.oracle.case import other, place
from tests.oracle.rawlog import OracleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracle.case import Probe

    Run = Callable[[str], list[tuple[Any, ...]]]


def fire(run: Run, schema: str, probes: Sequence[Probe]) -> None:
    """Run the probes in a session whose schema this is.

    Raises:
        OracleError: when one does not do what it is there for.
    """
    for probe in probes:
        before = [_rows(run, schema, table) for table in probe.changes]
        error = _error(run, place(probe.statement, schema))
        if (error[0] if error else 0) != probe.refused:
            wanted = f"error {probe.refused}" if probe.refused else "no error"
            raise OracleError(f"{schema}: {probe.statement}: {wanted} expected, and got {error}")
        for table, rows in zip(probe.changes, before, strict=True):
            if _rows(run, schema, table) == rows:
                raise OracleError(f"{schema}: {probe.statement} changed nothing in {table}")


def _error(run: Run, statement: str) -> tuple[Any, ...] | None:
    try:
        run(statement)
    except MySQLdb.Error as error:
        return error.args
    return None


def _rows(run: Run, schema: str, table: str) -> object:
    """Return the rows of a table, which may be ``{other}.name``."""
    name = table.removeprefix("{other}.")
    return compare.rows(run, other(schema) if name != table else schema, name)

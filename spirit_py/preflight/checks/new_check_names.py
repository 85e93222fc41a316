"""Names of CHECK constraints that the server makes from the table's: they may become too long."""

from __future__ import annotations

from typing import Final

from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.table.names import MAX_IDENTIFIER

_NAMES: Final = """
SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE CONSTRAINT_TYPE = 'CHECK' AND CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s ORDER BY 1"""


def check(context: PreflightContext) -> Findings:
    """Refuse a name with which the swap would fail; a native ALTER fails with the same error.

    The server accepts it in the new table, whose own name is shorter.
    """
    new = context.names.new
    for (found,) in context.session.query(_NAMES, (context.schema, new)):
        if not str(found).startswith(f"{new}_chk_"):
            continue
        name = context.table + str(found)[len(new) :]
        if len(name) > MAX_IDENTIFIER:
            yield refuse(
                f"a CHECK constraint would be called {name}, which has more than {MAX_IDENTIFIER}"
                " characters (error 1059)",
                "name it in the ALTER: ADD CONSTRAINT name CHECK (...)",
            )

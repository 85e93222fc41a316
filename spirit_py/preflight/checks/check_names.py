"""Names of CHECK constraints, which are unique in a schema."""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.tables.new_table import names_of_checks
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.table.names import MAX_IDENTIFIER


def check_constraints(context: PreflightContext) -> Findings:
    """Warn of names that the swap cannot bring back, refuse names that would become too long."""
    new, old = context.names.new, context.names.old
    for name, copy in names_of_checks(context.session, context.source).items():
        if not copy.startswith(f"{new}_chk_"):
            yield warn(
                f"CHECK constraint {name} will be called {copy}: its name is taken while"
                " the old table exists",
            )
        elif max(len(new), len(old)) + len(name) - len(context.table) > MAX_IDENTIFIER:
            yield refuse(
                f"CHECK constraint {name} would get a name of more than {MAX_IDENTIFIER}"
                " characters when its table is renamed",
                "drop it and add it again under a shorter name",
            )


_NAMES: Final = """
SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE CONSTRAINT_TYPE = 'CHECK' AND CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s ORDER BY 1"""


def new_check_names(context: PreflightContext) -> Findings:
    """Refuse a name that fails at the swap: the new table's own name is shorter."""
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

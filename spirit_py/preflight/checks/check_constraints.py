"""Names of CHECK constraints: unique in a schema, so the copy needs others."""

from __future__ import annotations

from spirit_py.mysql.tables.new_table import names_of_checks
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.table.names import MAX_IDENTIFIER


def check(context: PreflightContext) -> Findings:
    """Warn of names that the swap cannot bring back, refuse names that would become too long."""
    new, old = context.names.new, context.names.old
    for name, copy in names_of_checks(context.session, context.source).items():
        if not copy.startswith(f"{new}_chk_"):
            yield warn(
                f"CHECK constraint {name} will be called {copy}: its name is taken while the old"
                " table is there",
            )
        elif max(len(new), len(old)) + len(name) - len(context.table) > MAX_IDENTIFIER:
            yield refuse(
                f"CHECK constraint {name} would get a name of more than {MAX_IDENTIFIER}"
                " characters when its table is renamed",
                "drop it and add it again under a shorter name",
            )

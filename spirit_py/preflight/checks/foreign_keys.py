"""Foreign keys in either direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.check import Findings, PreflightContext, refuse

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

# INNODB_FOREIGN shows every key, also of tables that the account may not see; it needs PROCESS.
_KEYS = """
SELECT ID, FOR_NAME, REF_NAME FROM information_schema.INNODB_FOREIGN
WHERE FOR_NAME = %s OR REF_NAME = %s"""
_VISIBLE_KEYS = """
SELECT CONSTRAINT_NAME, TABLE_NAME, REFERENCED_TABLE_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE (CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s)
   OR (UNIQUE_CONSTRAINT_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s)"""


def all_foreign_keys(session: SqlSession, schema: str, table: str) -> list[tuple[str, str, str]]:
    """Return name, child and parent of every foreign key of a table; needs PROCESS."""
    name = f"{schema}/{table}"
    return session.query(_KEYS, (name, name))


def check(context: PreflightContext) -> Findings:
    """Refuse a table that refers to others or is referred to.

    A key that refers to the table would refer to ``_t_old`` after the swap, and before MySQL 9.6
    cascades write no events for the child.
    """
    if context.grants.has_global("PROCESS"):
        rows = all_foreign_keys(context.session, context.schema, context.table)
    else:
        rows = context.session.query(_VISIBLE_KEYS, (context.schema, context.table) * 2)
    for name, child, parent in rows:
        yield refuse(
            f"foreign key {name} ties {child} to {parent}",
            "drop the foreign key (a change of metadata only), migrate, and add it again",
        )

"""INSTANT, INPLACE or copy: what is expected, and how certain that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.tables.guard_column import row_versions
from spirit_py.plan.model import Method
from spirit_py.preflight.certain import certainly_copied, why_copied
from spirit_py.preflight.instant import Altered, why_not_inplace, why_not_instant

if TYPE_CHECKING:
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.schema import TableSchema


def method_of(context: PreflightContext, target: TableSchema | None, tables: int) -> Method:
    """Return how a table will be changed.

    Args:
        target: the new definition; None where it is not known.
        tables: how many are changed by the statement.
    """
    if reason := why_copied([context], tables):
        return Method(algorithm="copy", certain=True, why=reason)
    if clause := certainly_copied(context.statement):
        why = f"{clause!r} is neither INSTANT nor a change of metadata alone"
        return Method(algorithm="copy", certain=True, why=why)
    if target is None:
        why = "the server will be asked: it changes the table at once where it can"
        return Method(algorithm="unknown", certain=False, why=why)
    altered = Altered(
        source=context.source,
        target=target,
        statement=context.statement,
        version=context.facts.version,
        row_versions=row_versions(context.session, context.schema, context.table),
        referenced=_referenced(context),
    )
    instant = why_not_instant(altered)
    if not instant:
        why = "the server is expected to change only its dictionary"
        return Method(algorithm="instant", certain=False, why=why)
    inplace = why_not_inplace(altered)
    if not inplace:
        why = f"not INSTANT: {instant}; in place it is expected to touch only metadata"
        return Method(algorithm="inplace", certain=False, why=why)
    why = f"not INSTANT: {instant}; INPLACE is not used: {inplace}"
    return Method(algorithm="copy", certain=False, why=why)


def _referenced(context: PreflightContext) -> frozenset[str]:
    """Return the columns that foreign keys of other tables refer to, in lower case.

    None is known to an account that may not read them, which the plan refuses for that.
    """
    table = (context.schema, context.table)
    try:
        keys = keys_around(context.session, *table)
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return frozenset()
    return frozenset(
        column.lower() for key in keys if key.parent == table for column in key.parent_columns
    )

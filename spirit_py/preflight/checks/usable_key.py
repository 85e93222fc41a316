"""A key that identifies every row, to copy in its order and to delete by."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a table without a unique key over whole NOT NULL columns.

    Whether the ALTER keeps one is seen on the new table (:mod:`spirit_py.table.build`).
    """
    source = context.source
    if not any(i.visible for i in source.not_null_unique_indexes()):
        yield refuse(
            f"table {source.name} has neither a primary key nor a unique key over NOT NULL"
            " columns: its rows cannot be told apart",
            "add a primary key natively first",
        )

"""A key that identifies every row, to copy in its order and to delete by."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a table without a unique key over whole NOT NULL columns.

    One with nullable columns serves by choice. Whether the ALTER keeps one is seen on the new table
    (:mod:`spirit_py.table.unique_keys`).
    """
    source = context.source
    if any(i.visible for i in source.not_null_unique_indexes()):
        return
    nullable = [i.name for i in source.nullable_unique_indexes() if i.visible]
    if nullable and context.config.allow_nullable_unique_key:
        return
    remedy = "add a primary key natively first"
    if nullable:
        remedy += (
            f"; or, if no row ever has NULL in the key {', '.join(nullable)}, use"
            " --allow-nullable-unique-key: such a row stops the run"
        )
    yield refuse(
        f"table {source.name} has neither a primary key nor a unique key over NOT NULL"
        " columns: its rows cannot be told apart",
        remedy,
    )

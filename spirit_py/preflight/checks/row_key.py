"""The key that identifies rows."""

from __future__ import annotations

from spirit_py.errors import NullInKey
from spirit_py.mysql.duplicates import refuse_null_keys, ruled_out
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def usable_key(context: PreflightContext) -> Findings:
    """Refuse a table without a unique key over whole NOT NULL columns, or a nullable by choice."""
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


def nullable_key(context: PreflightContext) -> Findings:
    """Refuse a row with NULL in the key; warn where neither the ALTER nor a CHECK rules it out."""
    mapping = context.mapping
    pairs = [pair for pair in mapping.key_pairs if pair.old.nullable]
    if not pairs:
        return
    try:
        refuse_null_keys(context.session, mapping)
    except NullInKey as error:
        yield refuse(error.message, "give these rows a value first", error.details)
    checked = ruled_out(context.session, mapping.source)
    open_ = [p.old.name for p in pairs if p.new.nullable and p.old.name.lower() not in checked]
    if open_:
        yield warn(
            f"nothing rules out NULL in {', '.join(open_)} of the key {mapping.key.name}, that"
            " identifies rows: the first row with NULL there stops the run",
            f"ADD CHECK ({open_[0]} IS NOT NULL) before, or make it NOT NULL in this ALTER",
        )

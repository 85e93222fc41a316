"""A key with nullable columns, by choice: no row has NULL in it, and something rules it out."""

from __future__ import annotations

from spirit_py.errors import NullInKey
from spirit_py.mysql.duplicates import refuse_null_keys, ruled_out
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def check(context: PreflightContext) -> Findings:
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
            f"nothing rules out NULL in {', '.join(open_)} of the key {mapping.key.name}, by which"
            " rows are told apart: the first row with NULL there stops the run",
            f"ADD CHECK ({open_[0]} IS NOT NULL) before, or make it NOT NULL in this ALTER",
        )

"""Whether older snapshots can be kept from reading half a copy (:mod:`spirit_py.cutover.guard`)."""

from __future__ import annotations

from spirit_py.mysql.tables.guard_column import why_server_cannot, why_table_cannot
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn

_ROW_FORMAT = """
SELECT ROW_FORMAT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""


def snapshot_guard(context: PreflightContext) -> Findings:
    """Refuse (``on``) or warn (``auto``) where the new table takes no instant column."""
    target, mode = context.mapping.target, context.config.snapshot_guard
    if mode == "off":
        return
    found = context.session.query(_ROW_FORMAT, (target.schema, target.name))
    why = why_server_cannot(context.facts.version) or why_table_cannot(
        target, str(found[0][0] or "") if found else ""
    )
    if not why:
        return
    text = f"the snapshot guard is not possible for {context.schema}.{context.table}: {why}"
    if mode == "on":
        yield refuse(text, "leave out --snapshot-guard on, and let no dump run during the swap")
    else:
        yield warn(
            f"{text}; a transaction that began before the swap and reads the table first after it"
            " (mysqldump --single-transaction) finds rows missing: let none run during the swap"
        )

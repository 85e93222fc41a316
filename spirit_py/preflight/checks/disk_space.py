"""Room for a second copy of the table, for the binary log of the copy, and for sorting indexes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from spirit_py.estimates import likely_sizes
from spirit_py.mysql.facts import data_folder
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.checks.names import is_ours
from spirit_py.preflight.index_deferral import expected_bytes
from spirit_py.statement import ClauseKind
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement import AlterStatement

_SIZES = """
SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_SMALL = 1 << 30
_ADDING = {ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE, ClauseKind.ADD_PRIMARY_KEY}


def disk_space(context: PreflightContext) -> Findings:
    """Refuse a disk that is too small; warn where it is not this machine's (``auto.cnf``)."""
    source = context.source
    data = index = 0
    if is_ours(context):
        # What an earlier run has written already.
        context.session.execute("SET SESSION information_schema_stats_expiry = 0")
        for written in context.session.query(_SIZES, (context.schema, context.names.new)):
            data, index = (int(size or 0) for size in written)
    share = share_written(context)
    rows, indexes = (int(size * share) for size in likely_sizes(source))
    table = max(0, rows - data) + max(0, indexes - index)
    binlog = max(0, rows - data) if context.facts.is_on("log_bin") else 0
    needed = f"{human_bytes(table)} for the new table and {human_bytes(binlog)} for the binary log"
    room = free_bytes(context.facts)
    if room is None:
        if table >= _SMALL:
            yield warn(
                "the server's free disk space cannot be seen from here; the migration needs"
                f" about {needed}"
            )
    elif room < table + binlog:
        yield _lacking(context, share)(
            f"the server has {human_bytes(room)} free where about {needed} are needed",
            "free disk space, or purge binary logs",
        )
    else:
        yield from _check_sort_files(context, room - table - binlog)


def _lacking(context: PreflightContext, share: float) -> Callable[[str, str], Finding]:
    """Return how missing room is told: which share of the rows --keep leaves may not be known."""
    return warn if context.config.modes.keep and share == 1.0 else refuse


def added_indexes(context: PreflightContext) -> Findings:
    """Refuse a disk that is too small for the new table because of the indexes that it gets."""
    room = free_bytes(context.facts)
    # Of a run that begins: nothing is written yet.
    if room is None or not adds_indexes(context.statement):
        return
    share = share_written(context)
    rows, indexes = (int(size * share) for size in likely_sizes(context.source))
    names = [one.name for one in context.mapping.target.indexes if one.name != "PRIMARY"]
    wanted = int(share * expected_bytes(context.session, context.mapping, names))
    binlog = rows if context.facts.is_on("log_bin") else 0
    if wanted > indexes and room < rows + wanted + binlog:
        yield _lacking(context, share)(
            f"the server has {human_bytes(room)} free where about"
            f" {human_bytes(rows + wanted)} for the new table with its new indexes and"
            f" {human_bytes(binlog)} for the binary log are needed",
            "free disk space, or purge binary logs",
        )


def adds_indexes(statement: AlterStatement) -> bool:
    """Return whether a statement adds an index or a key."""
    return any(one.kind in _ADDING for one in statement.parsed)


def _check_sort_files(context: PreflightContext, left: int) -> Findings:
    _, size = likely_sizes(context.source)
    if context.config.defer_indexes == "off" or not size:
        return
    facts = context.facts
    folder = Path(facts.text("innodb_tmpdir") or facts.text("tmpdir").split(":")[0])
    try:
        shared = folder.stat().st_dev == Path(facts.text("datadir")).stat().st_dev
        room = left if shared else shutil.disk_usage(folder).free
    except OSError:
        return
    if room < size:
        yield warn(
            "indexes that are built after the copy are sorted in files of up to"
            f" {human_bytes(size)} in {folder}, which then has {human_bytes(max(0, room))} free",
            "free disk space, set innodb_tmpdir to another folder, or use --defer-indexes off",
        )


def free_bytes(facts: ServerFacts) -> int | None:
    """Return the free bytes of the data directory; None when it is not on this machine."""
    folder = data_folder(facts.text("datadir"), facts.uuid)
    try:
        return None if folder is None else shutil.disk_usage(folder).free
    except OSError:
        return None

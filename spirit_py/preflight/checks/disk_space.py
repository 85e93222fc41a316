"""Room for a second copy of the table, for the binary log of the copy, and for sorting indexes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from spirit_py.estimates import likely_sizes
from spirit_py.mysql.facts import data_folder
from spirit_py.preflight.check import (
    Finding,
    Findings,
    PreflightContext,
    Severity,
    refuse,
    warn,
)
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.checks.names import is_ours
from spirit_py.preflight.clauses import (
    as_begun,
    certainly_copied,
    made_natively,
    why_copied,
    why_not_metadata_only,
)
from spirit_py.preflight.index_deferral import expected_bytes
from spirit_py.statement import ClauseKind
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement import AlterStatement

_SIZES = """
SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_SMALL = 1 << 30
#: Of a table, and with blanks of a partition.
_ELSEWHERE = re.compile(r" DATA DIRECTORY ?=")
_ADDING = {ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE, ClauseKind.ADD_PRIMARY_KEY}


def disk_space(context: PreflightContext) -> Findings:
    """Refuse a disk that is too small; warn where it is not this machine's (``auto.cnf``).

    Warn, too, where it is not known yet whether there will be a copy: :func:`new_table` refuses.
    """
    if not made_natively([context]):
        yield from _second_copy(context, *written_before(context))
    elif why_not_metadata_only(context.source, context.statement):
        yield from _second_copy(context)


def lacking_room(context: PreflightContext) -> Finding | None:
    """Return that there is no room for a second copy; None where there is, or it is not seen."""
    unseen = free_bytes(context.facts) is None or _ELSEWHERE.search(context.source.create_sql)
    return None if unseen else next(_second_copy(context), None)


def _second_copy(context: PreflightContext, data: int = 0, index: int = 0) -> Findings:
    # A copy by the server is in no binary log.
    native = made_natively([context])
    share = share_written(context)
    rows, indexes, logged = (int(size * share) for size in written_bytes(context))
    table = max(0, rows - data) + max(0, indexes - index)
    binlog = int(logged * max(0, rows - data) / rows) if rows and not native else 0
    room = free_bytes(context.facts)
    if room is None:
        if table >= _SMALL:
            yield warn(
                "the server's free disk space cannot be seen from here; the migration needs"
                f" about {_parts(table, binlog)}"
            )
        return
    binlog = yield from _binlog_apart(context, share, binlog)
    if room < table + binlog:
        perhaps = ", if the rows have to be copied" if _may_do_without(context) else ""
        yield _lacking(context, share)(
            f"the server has {human_bytes(room)} free where about {_parts(table, binlog)} are"
            f" needed{perhaps}",
            "free disk space, or purge binary logs",
        )
    elif not native:
        yield from _check_sort_files(context, room - table - binlog)


def _parts(table: int, binlog: int) -> str:
    logged = f" and {human_bytes(binlog)} for the binary log" if binlog else ""
    return f"{human_bytes(table)} for the new table{logged}"


def written_before(context: PreflightContext) -> tuple[int, int]:
    """Return the bytes of rows and of indexes that an earlier run has written already."""
    if not is_ours(context):
        return 0, 0
    context.session.execute("SET SESSION information_schema_stats_expiry = 0")
    found = context.session.query(_SIZES, (context.schema, context.names.new))
    data, index = found[0] if found else (0, 0)
    return int(data or 0), int(index or 0)


def written_bytes(context: PreflightContext) -> tuple[int, int, int]:
    """Return the bytes that a copy of all rows writes: of rows, of indexes, of the binary log.

    Neither that nor, if the ALTER says so, the new table has the compressed pages of the source.
    """
    rows, indexes = likely_sizes(context.source)
    times = context.source.unzipped(context.facts.number("innodb_page_size", 16 << 10))
    logs = context.facts.is_on("log_bin") and not context.config.connection.unlogged
    logged = int(rows * times) if logs else 0
    if _unzips(context):
        rows, indexes = int(rows * times), int(indexes * times)
    return rows, indexes, logged


def _unzips(context: PreflightContext) -> bool:
    """Return whether an ALTER makes a table of compressed pages one of others."""
    options = context.statement.of_kind(ClauseKind.OPTION)
    given = {one.name: one.body for one in options}
    if kind := given.get("row_format"):
        return kind != "compressed"
    written = "ROW_FORMAT=COMPRESSED" in context.source.create_sql
    return given.get("key_block_size") == "0" and not written


def _lacking(context: PreflightContext, share: float) -> Callable[[str, str], Finding]:
    """Return how missing room is told: that of the folders of a DATA DIRECTORY is not known."""
    elsewhere = _ELSEWHERE.search(context.source.create_sql)
    return warn if elsewhere or _is_unsure(context, share) else refuse


def _is_unsure(context: PreflightContext, share: float) -> bool:
    """Return whether no room may be needed, or less: --keep leaves a share that is not known."""
    return _may_do_without(context) or bool(context.config.modes.keep and share == 1.0)


def _may_do_without(context: PreflightContext) -> bool:
    return not why_copied([context]) and not certainly_copied(context.statement)


def _binlog_apart(
    context: PreflightContext, share: float, binlog: int
) -> Generator[Finding, None, int]:
    """Look at a binary log on a disk of its own; return its bytes on the disk of the tables."""
    apart = free_for_binlog(context.facts)
    if apart is None:
        return binlog
    if apart < binlog:
        # What the tables lack is another matter.
        yield (warn if _is_unsure(context, share) else refuse)(
            f"the disk of the binary log has {human_bytes(apart)} free where about"
            f" {human_bytes(binlog)} are needed",
            "free disk space there, or purge binary logs",
        )
    return 0


def new_table(context: PreflightContext) -> Findings:
    """Refuse a disk that is too small for the new table, also because of indexes that it gets.

    Now that no change in place has taken its place: of a run that begins, nothing is written yet.
    """
    (context,) = as_begun([context])
    room = free_bytes(context.facts)
    if room is None:
        return
    if not adds_indexes(context.statement):
        yield from (one for one in _second_copy(context) if one.severity is Severity.REFUSAL)
        return
    share = share_written(context)
    rows, indexes, binlog = (int(size * share) for size in written_bytes(context))
    names = [one.name for one in context.mapping.target.indexes if one.name != "PRIMARY"]
    wanted = int(share * expected_bytes(context.session, context.mapping, names))
    if free_for_binlog(context.facts) is not None:
        binlog = 0
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


def free_for_binlog(facts: ServerFacts) -> int | None:
    """Return the free bytes of a disk that has the binary log alone; None without, or unknown."""
    base = facts.text("log_bin_basename")
    folder = data_folder(facts.text("datadir"), facts.uuid) if base else None
    try:
        if folder is None or folder.stat().st_dev == Path(base).parent.stat().st_dev:
            return None
        return shutil.disk_usage(Path(base).parent).free
    except OSError:
        return None


def free_bytes(facts: ServerFacts) -> int | None:
    """Return the free bytes of the data directory; None when it is not on this machine."""
    folder = data_folder(facts.text("datadir"), facts.uuid)
    try:
        return None if folder is None else shutil.disk_usage(folder).free
    except OSError:
        return None

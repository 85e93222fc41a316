"""Drop auxiliary tables and old ones that are proven to be ours, and no others (R24).

DROP TABLE frees all blocks at once and slows commits (docs/gentleness.md), so a large partitioned
table is emptied first, a partition at a time.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.attached.record import AttachmentsNote
from spirit_py.checkpoint.earlier_run import cannot_be_read, may_hold_rows, see_what_it_holds
from spirit_py.checkpoint.examination import members
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import LeftAfterChange, SpiritError
from spirit_py.locks.look import LockedBy
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import WOULD_WAIT, excused, takes_no_writes
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.retry import PATIENCE, retrying
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import (
    as_noted,
    drop_if,
    drop_unreferenced,
    identities,
    is_one_of,
)
from spirit_py.mysql.tables.new_table import drop_sentinel, drop_tables
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.names import AuxiliaryNames, is_building_name, is_trial_name, lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.threads import StopSwitch

_BESIDE = """
SELECT TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND LEFT(TABLE_NAME, CHAR_LENGTH(%s)) = %s AND TABLE_TYPE = 'BASE TABLE'"""
#: Below that the whole table is dropped at once, bytes.
_LARGE: Final = 1 << 30
_PARTITIONS: Final = """
SELECT PARTITION_NAME, SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL
GROUP BY PARTITION_NAME ORDER BY 2 DESC, 1"""


def drop_left_behind(
    session: SqlSession, record: CheckpointRecord, besides: Collection[tuple[str, str]]
) -> list[str]:
    """Drop the auxiliary tables of a replaced record's other tables; return a line about each."""
    return [_drop_one(session, table) for table in members(session, record) if table not in besides]


def _drop_one(session: SqlSession, table: tuple[str, str]) -> str:
    name = ".".join(table)
    if busy := take_from_others(session, table):
        return f"what the earlier migration of {name} left is kept: {busy}"
    try:
        kept = drop_auxiliary(session, *table)
    finally:
        session.query("SELECT RELEASE_LOCK(%s)", (lock_name("migration", *table),))
    done = f"dropped what the earlier migration of {name} left, which was to change in the same run"
    return f"{done}; {kept}" if kept else done


def take_from_others(session: SqlSession, table: tuple[str, str]) -> str:
    """Take the lock of a table's migration for the life of the session; return who has it."""
    lock = lock_name("migration", *table)
    # The server may take a moment to end the session of a run that has ended just now.
    if take_named_lock(session, lock, timeout=1):
        return ""
    holder = named_lock_holder(session, lock)
    return f"a process works on {'.'.join(table)} now ({whose(session, holder)})"


def drop_auxiliary(
    session: SqlSession,
    schema: str,
    table: str,
    *,
    still_deferred: bool = False,
    noted: bool = False,
) -> str:
    """Drop the new table, the sentinel and the checkpoint beside a table, never the old table.

    ``still_deferred``: the sentinel stays, for a run that begins afresh in the place of another;
    ``noted``: so does the checkpoint table, whose rows it replaces.
    The checkpoint, which proves the others, goes last. Nothing is dropped without it, nor while
    foreign keys may refer to the new table, nor where that may have been in the table's place and
    hold the application's rows. Returns what is not ours, for the operator.
    """
    names, checkpoint = AuxiliaryNames.of(table), CheckpointTable(schema, table)
    if not checkpoint.is_ours(session):
        return ""
    if checkpoint.has(session, AttachmentsNote):
        return (
            f"{schema}.{names.new} stays, and its checkpoint: a swap was stopped half-way, and"
            " foreign keys may refer to it: the same command, or spirit-py cleanup, settles them"
        )
    if why := checkpoint.unreadable(session):
        return "; ".join(cannot_be_read(schema, table, why))
    proofs = read_proofs(session, schema, table)
    if proofs.swap_begun and is_one_of(session, schema, names.new, proofs.new):
        return (
            f"{schema}.{names.new} stays, and its checkpoint: {may_hold_rows(schema, table)};"
            f" {see_what_it_holds(schema, table)}"
        )
    dropped = drop_if(session, schema, names.new, proofs.new)
    kept = ""
    if not dropped and read_table(session, schema, names.new):
        kept = (
            f"{schema}.{names.new} stays: nothing proves that this program made it; see who did,"
            " and drop it when it is not needed"
        )
    if not still_deferred:
        drop_sentinel(session, schema, names.sentinel)
    drop_checkpoint(session, (schema, table), noted=noted)
    return kept


def drop_checkpoint(session: SqlSession, table: tuple[str, str], *, noted: bool = False) -> None:
    """Drop what only the checkpoint leads to, then the checkpoint itself unless ``noted``.

    That is the table of the requests, and a trial of the definition whose own DROP has failed.
    LeftAfterChange where it leads to foreign keys and triggers that a swap has not settled.
    """
    checkpoint = CheckpointTable(*table)
    if checkpoint.is_ours(session):
        if checkpoint.has(session, AttachmentsNote):
            raise LeftAfterChange(
                f"{checkpoint} stays: the swap is done, and its foreign keys and triggers are not"
                " settled",
                hint="run the same command again, which settles them first",
                error_code=ErrorCode.KEYS_AND_TRIGGERS_UNSETTLED,
            )
        drop_building(session, *table, read_proofs(session, *table).building)
    RequestQueue(*table).drop(session)
    if not noted:
        checkpoint.drop(session)


def drop_old_table(
    options: ConnectionOptions,
    schema: str,
    table: str,
    *,
    proof: Identity,
    stop: StopSwitch,
    lock_wait: int = 5,
    attempts: int = 8,
    patience: float = PATIENCE,
    backups: float = 0.0,
    before_each: Callable[[], object] = lambda: None,
    last_look: Callable[[Session], object] | None = None,
) -> str:
    """Drop a table that no migration needs any more; return why one of this name still exists.

    Each try has a session of its own, to survive a restart. Another table of this name stays (R24).
    ``lock_wait`` is in seconds for readers of the table, ``patience`` for a server that is away,
    ``backups`` for a backup or a global lock in front; ``before_each`` is called before a partition
    is emptied, and may wait. ``last_look`` is called when the table is locked, which lasts until a
    partition or the table is dropped: what it raises with the code of an archive is raised, and
    what is left of the table stays.
    """
    points.reach("cleanup.old_table")

    def drop() -> str:
        with connect(options, role="drop", lock_wait_timeout=lock_wait) as session:
            looked = last_look if is_one_of(session, schema, table, proof) else None

            def locked() -> None:
                if looked is not None:
                    session.execute(f"LOCK TABLES {quote_table(schema, table)} WRITE")
                    looked(session)

            def rested() -> None:
                # Who waits for all locks, as a backup does, holds up every writer of the server.
                session.execute("UNLOCK TABLES")
                before_each()
                locked()

            locked()
            free_partitions(session, schema, table, proof, before_each=rested)
            if drop_if(session, schema, table, proof) or not read_table(session, schema, table):
                return ""
        return "nothing proves that it is the table that was swapped out: see who created it"

    try:
        until, kept = time.monotonic() + backups, LockedBy((options, ()), defines=True)
        again = retrying(
            stop,
            attempts=attempts,
            patience=patience,
            passing=takes_no_writes,
            locked=lambda: time.monotonic() < until and kept(),
        )
        return str(again(drop))
    except SpiritError as error:
        if error.error_code is ErrorCode.ARCHIVE_FAILED:
            raise
        return error.message


def free_partitions(
    session: SqlSession,
    schema: str,
    table: str,
    proof: Identity,
    *,
    before_each: Callable[[], object],
    large: int = _LARGE,
) -> int:
    """Empty all partitions but the smallest of a table above ``large`` bytes; return how many.

    The largest goes first. The smallest keeps its number, which still proves the table (R24); those
    that an earlier drop has emptied have other numbers, and are passed over.
    """
    found = session.query(_PARTITIONS, (schema, table))
    if sum(int(size or 0) for _, size in found) < large:
        return 0
    emptied = as_noted(session, schema, table, proof, [str(name) for name, _ in found])[:-1]
    for name in emptied:
        before_each()
        if not is_one_of(session, schema, table, proof):
            break
        session.execute(
            f"ALTER TABLE {quote_table(schema, table)} TRUNCATE PARTITION {quote_identifier(name)}"
        )
    return len(emptied)


def begun_building(session: SqlSession, schema: str, table: str, building: str) -> list[str]:
    """Return what a killed run had begun to build or to try: tables of a random name, and no rows.

    None of them ever has rows, or is older than the checkpoint table; whoever can write to that may
    have noted another table's name, which is as random as that of a month (R26). Which is older,
    InnoDB's numbers tell: those of :meth:`CheckpointTable.harden` stay, and the time does not.
    """
    if not is_building_name(table, building):
        return []
    found = [str(name) for (name,) in session.query(_BESIDE, (schema, building, building))]
    found = [
        name for name in found if name.lower() == building.lower() or is_trial_name(building, name)
    ]
    if not found:
        return []
    checkpoint = (schema, AuxiliaryNames.of(table).checkpoint)
    known = identities(session, [checkpoint, *((schema, name) for name in found)])
    begun = min(known[checkpoint].numbers, default=math.inf)
    return [
        name
        for name in found
        if min(known[schema, name].numbers, default=0) > begun
        and not _has_rows(session, schema, name)
    ]


def _has_rows(session: SqlSession, schema: str, name: str) -> bool:
    """Return whether a table has a row, committed or not yet."""
    look = f"SELECT 1 FROM {quote_table(schema, name)} LIMIT 1 FOR SHARE NOWAIT"
    return bool(excused(lambda: session.query(look), True, {WOULD_WAIT}))


def drop_building(session: SqlSession, schema: str, table: str, building: str) -> None:
    """Drop what a killed run had begun to build or to try."""
    # Where there is none, the right to drop it is not needed.
    found = begun_building(session, schema, table, building)
    trials = [name for name in found if is_trial_name(building, name)]
    for name in found:
        if name not in trials:
            drop_unreferenced(session, schema, name)
    drop_tables(session, schema, trials)

"""The drop of tables that a swap put out of place, once nothing holds it back.

The space of a large table is freed piece by piece before that. DROP TABLE deletes the table's files
in one go. The server itself holds up nobody meanwhile (since 8.0.23 it does not look through the
buffer pool), but the file system may: where it frees many blocks, and above all where it is mounted
with ``discard``, every commit that waits for the disk waits too (docs/gentleness.md has figures).
SQL cannot shrink a file. A partitioned table has one for each partition, and TRUNCATE PARTITION
deletes one of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.checkpoint.proofs import noted_proof
from spirit_py.errors import SpiritError
from spirit_py.events.swap import OldTableDropped
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.retry import PATIENCE, retrying
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import as_noted, drop_if, is_one_of
from spirit_py.pace import Work
from spirit_py.sql import quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.job import Job
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.stop import StopSwitch
    from spirit_py.table.names import Name

#: Between two questions whether a drop may begin.
_PACE_SECONDS: Final = 0.2
#: Between two partitions of a large table.
_REST_SECONDS: Final = 1.0


def drop_swapped_out(job: Job, tables: Iterable[Name], direction: Direction) -> list[str]:
    """Drop the tables that a swap put out of place; never raises for one that cannot be dropped.

    Each waits until nothing holds the drop back.

    Args:
        tables: schema and name of each table that was swapped.

    Returns:
        The names of the tables that could not be dropped, each of which was reported.

    Raises:
        SpiritError: a stop, while it waited.
    """
    left = []
    for source in tables:
        name = direction.swapped_out(source[1])
        await_pace(job, f"drop of {name}")
        noted = partial(noted_proof, table=source, proof=direction.outgoing)
        try:
            why = drop_old_table(
                job.config.connection,
                source[0],
                name,
                proof=job.step("cleanup", noted),
                stop=job.stop,
                before_each=partial(_between_partitions, job, name),
            )
        except SpiritError as error:
            why = error.message
        if why:
            left.append(name)
            job.remark(f"table {name}", why)
        else:
            dropped = f"{source[0]}.{name}"
            job.tell(OldTableDropped(dropped=dropped))
    return left


def await_pace(job: Job, what: str) -> None:
    """Wait until nothing holds back a drop.

    Raises:
        SpiritError: a stop.
    """
    while reason := job.pace.reason(Work.DROP):
        job.show(f"{reason} ({what})")
        job.stop.wait(_PACE_SECONDS)
        job.stop.check()
    job.show("")


def _between_partitions(job: Job, name: str) -> None:
    """Leave the disk to others for a moment, and longer where something holds back the drop."""
    job.stop.wait(_REST_SECONDS)
    await_pace(job, f"drop of {name}")


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
    before_each: Callable[[], object] = lambda: None,
) -> str:
    """Drop a table that no migration needs any more.

    The swap is done, so a failure is returned, never raised. Each try has a session of its own, so
    that a restart of the server is survived, and waits ``lock_wait`` seconds for readers that still
    have the table open.

    Args:
        patience: seconds for which the server may be away.
        before_each: called before a partition of a large table is emptied; may wait.
        proof: the table's identity; another table of its name stays (R24).

    Returns:
        An empty string, or why there is still a table of this name.
    """
    points.reach("cleanup.old_table")

    def drop() -> str:
        with connect(options, role="drop", lock_wait_timeout=lock_wait) as session:
            free_partitions(session, schema, table, proof, before_each=before_each)
            if drop_if(session, schema, table, proof) or not read_table(session, schema, table):
                return ""
        return "nothing proves that it is the table that was swapped out: see who made it"

    try:
        again = retrying(stop, attempts=attempts, patience=patience, passing=takes_no_writes)
        return str(again(drop))
    except SpiritError as error:
        return error.message


#: Below that the whole table is dropped at once, bytes.
_LARGE: Final = 1 << 30
_PARTITIONS: Final = """
SELECT PARTITION_NAME, SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL
GROUP BY PARTITION_NAME ORDER BY 2 DESC, 1"""


def free_partitions(
    session: SqlSession,
    schema: str,
    table: str,
    proof: Identity,
    *,
    before_each: Callable[[], object],
    large: int = _LARGE,
) -> int:
    """Empty all partitions of a large table but the smallest, the largest first.

    The smallest keeps its number, by which the table is still proven to be the one (R24). Those
    that an earlier drop has emptied have other numbers, and are passed over.

    Args:
        before_each: called before each partition; may wait.
        large: bytes from which on it is worth it.

    Returns:
        How many partitions were emptied.
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

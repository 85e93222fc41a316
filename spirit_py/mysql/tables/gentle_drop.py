"""Free the space of a large table piece by piece, before it is dropped.

DROP TABLE deletes the table's files in one go. The server itself holds up nobody meanwhile (since
8.0.23 it does not look through the buffer pool), but the file system may: where it frees many
blocks, and above all where it is mounted with ``discard``, every commit that waits for the disk
waits for that as well (docs/gentleness.md has figures). SQL cannot shrink a file. A partitioned
table has one for each partition, and TRUNCATE PARTITION deletes one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.mysql.tables.identity import as_noted, is_one_of
from spirit_py.sql import quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Identity

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

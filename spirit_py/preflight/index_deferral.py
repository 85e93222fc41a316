"""When the secondary indexes of a new table are built after the copy: ``--defer-indexes auto``.

Where they are larger than :data:`POOL_SHARE` of the buffer pool, since a row then reads and writes
a page of most of them, or the build is brief (:data:`BRIEF_BYTES`, :data:`NARROW_BYTES`). Never
where another server replicates from this one: it would apply the build as one statement, and fall
behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
from spirit_py.errors import Refusal, ServerFault
from spirit_py.estimates import index_bytes
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.replication import in_replication_group, readers_of_binlog
from spirit_py.mysql.tables.deferred_indexes import index_sizes
from spirit_py.statement.index_definitions import deferrable_indexes
from spirit_py.units import counted, human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spirit_py.config import IndexMode
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Index

POOL_SHARE: Final = 1 / 8
"""Part of the buffer pool above which indexes are deferred at once (docs/decisions.md)."""
BRIEF_BYTES: Final = 1 << 30
"""Measured: 440 MiB were built in one second; the migration took 0.8 times as long."""
NARROW_BYTES: Final = 8 << 30
"""The same where indexes are a part of the rows (:data:`NARROW_SHARE`), so that reading these once
costs little beside an entry for each. Measured: 4 million rows, 1 GiB, and a random index of 60 MiB
are copied in 22 s and the index is built in 4 s; with the index in place the copy takes 68 s."""
NARROW_SHARE: Final = 1 / 32
FALLING_SHARE: Final = POOL_SHARE / 4
_WORTH_BYTES: Final = 16 << 20
_PAGE: Final = 16 << 10


@dataclass(frozen=True, kw_only=True)
class IndexDeferral:
    """The indexes that may be built after the copy; ``may_fall``: only if it becomes slow.

    ``kept``: names of those that would be, but for what replicates from the server.
    """

    clauses: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = False
    may_fall: bool = False
    kept: tuple[str, ...] = ()
    why: str = ""


def deferral(
    session: SqlSession, mode: IndexMode, facts: ServerFacts, mapping: TableMapping
) -> IndexDeferral:
    """Return which indexes of the new table are deferred by ``--defer-indexes``, and why."""
    if mode == "off":
        return IndexDeferral(why="--defer-indexes off")
    try:
        found = deferrable_indexes(mapping.target, mapping.lookup.index.name)
    except Refusal as error:
        return IndexDeferral(why=error.message)
    if not found.clauses:
        stay = "; ".join(f"{name} stays: {why}" for name, why in found.kept.items())
        return IndexDeferral(why=stay or "there are only unique ones")
    if mode == "on":
        return IndexDeferral(clauses=found.clauses, at_once=True, why="--defer-indexes on")
    others: list[str] = []

    def who_replicates() -> str:
        others.append(what_replicates(session))
        return others[-1]

    at_once, may_fall, why = automatic(
        indexes=expected_bytes(session, mapping, found.clauses),
        data=mapping.source.data_bytes,
        pool=facts.number("innodb_buffer_pool_size", 1),
        who_replicates=who_replicates,
    )
    clauses = found.clauses if at_once or may_fall else {}
    kept = tuple(found.clauses) if any(others) else ()
    return IndexDeferral(clauses=clauses, at_once=at_once, may_fall=may_fall, kept=kept, why=why)


def automatic(
    *, indexes: int, data: int, pool: int, who_replicates: Callable[[], str]
) -> tuple[bool, bool, str]:
    """Return whether to defer at once, whether to be ready for it, and why; sizes are bytes."""
    sizes = f"about {human_bytes(indexes)}, of {human_bytes(pool)} of buffer pool"
    narrow = indexes >= NARROW_SHARE * data
    brief = data + indexes <= (NARROW_BYTES if narrow else BRIEF_BYTES)
    if indexes <= _WORTH_BYTES or (indexes <= FALLING_SHARE * pool and not brief):
        return False, False, f"they are small: {sizes}"
    if others := who_replicates():
        return False, False, f"{others} would apply the build as one statement: {sizes}"
    if indexes > POOL_SHARE * pool:
        return True, False, f"they are large for the buffer pool: {sizes}"
    if brief:
        return True, False, f"the build is brief: {sizes}"
    return False, True, f"they are likely to stay in memory: {sizes}"


def what_replicates(session: SqlSession) -> str:
    """Return what may replicate from the server; empty for nothing."""
    try:
        if in_replication_group(session):
            return "the other members of the replication group"
        count = readers_of_binlog(session)
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return "a replica that this account may not see"
    return f"{counted(count, 'replica')}, or other readers of the binary log," if count else ""


def expected_bytes(session: SqlSession, mapping: TableMapping, names: Iterable[str]) -> int:
    """Estimate the size of indexes of the new table, in bytes.

    From those of the source with the same columns; from the columns' width without such a one, and
    where the server has not counted the source's pages since its rows came.
    """
    source, target = mapping.source, mapping.target
    sizes = index_sizes(session, (source.schema, source.name)) if source.row_bytes else {}
    renamed = {pair.new.name.lower(): pair.old.name.lower() for pair in mapping.pairs}
    there = {_parts(one, {}): sizes[one.name] for one in source.indexes if one.name in sizes}
    found = [index for name in names if (index := target.index(name)) is not None]
    # The server counts pages, which are smaller on disk if the new table's are compressed, too.
    zipped = 1.0
    if source.unzipped(_PAGE) > 1 < target.unzipped(_PAGE):
        ((page,),) = session.query("SELECT @@innodb_page_size")
        zipped = target.unzipped(int(page))
    known = {parts: int(size / zipped) for parts, size in there.items()}
    return sum(known.get(_parts(one, renamed)) or index_bytes(target, one, source) for one in found)


def _parts(index: Index, renamed: Mapping[str, str]) -> tuple[tuple[str, int | None], ...]:
    found = ((part.column or "", part.prefix) for part in index.parts)
    return tuple((renamed.get(column.lower(), column.lower()), prefix) for column, prefix in found)

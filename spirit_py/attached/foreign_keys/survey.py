"""Read the foreign keys that a swap concerns, and decide how each of them moves (R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_of, keys_to, visible_keys_to
from spirit_py.attached.record import KeyMove
from spirit_py.mysql.tables.definition import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.record import Name, Places
    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import Index


def concerned(session: SqlSession, tables: Iterable[Name]) -> frozenset[ForeignKey]:
    """Return the foreign keys of some tables, and those to them."""
    return frozenset(
        key for table in tables for key in (*keys_of(session, *table), *keys_to(session, *table))
    )


def concerned_now(session: SqlSession, tables: Iterable[Name]) -> frozenset[ForeignKey]:
    """Return those of :func:`concerned` that the account may see; quick enough under a lock.

    INNODB_FOREIGN, which has the others, reads every key of the server: 25 ms for 3000 of them
    (measured). A child that is made meanwhile stops the feed, whoever may see it.
    """
    return frozenset(
        key
        for table in tables
        for key in (*keys_of(session, *table), *visible_keys_to(session, *table))
    )


def moves(
    session: SqlSession,
    keys: Iterable[ForeignKey],
    places: Places,
    carried: Callable[[ForeignKey], ForeignKey | None],
    token: str,
) -> tuple[KeyMove, ...]:
    """Return how each key moves; in an order that is the same for the same keys.

    Args:
        carried: returns a key as a native ALTER leaves it; None for one that it drops.
        token: random hexadecimal digits, for the temporary names.
    """
    found = []
    for number, key in enumerate(sorted(keys, key=lambda key: (*key.child, key.name)), start=1):
        after = carried(key)
        indexes = () if after is None else _generated(session, places.new(after.child), after)
        found.append(
            KeyMove(
                before=key,
                after=after,
                temporary=f"_spirit_py_{token}_{number}",
                indexes=tuple(indexes),
            )
        )
    return tuple(found)


def _generated(session: SqlSession, child: Name, key: ForeignKey) -> Iterator[str]:
    """Yield the indexes that the server would replace by one of the key's name."""
    table = read_table(session, *child)
    wanted = [column.lower() for column in key.columns]
    for index in table.indexes if table is not None else ():
        columns = _plain(index)
        if columns and columns == wanted[: len(columns)]:
            yield index.name


def _plain(index: Index) -> Sequence[str]:
    """Return the columns of an index of the kind that the server makes for a key."""
    plain = index.kind.upper() == "BTREE" and not index.unique
    descending = any(part.descending for part in index.parts)
    return [column.lower() for column in index.columns] if plain and not descending else []

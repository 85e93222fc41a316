"""The reverse feed: what is written to the table as it is now goes into the old one."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.checkpoint.record import digest_of
from spirit_py.checkpoint.reverse import ReverseTable
from spirit_py.errors import Refusal, SchemaChanged, ServerFault
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import NO_SUCH_TABLE
from spirit_py.mysql.tables.definition import read_shape, read_table, shape_of
from spirit_py.mysql.tables.guard_column import drop_guard_columns
from spirit_py.table.names import AuxiliaryNames
from spirit_py.table.reverse import Losses, ReverseChanges, reverse_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.stop import StopSwitch
    from spirit_py.table.build import ColumnChanges
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_LOG = logging.getLogger(__name__)


def plan_way_back(
    migration: TableMapping, changes: ColumnChanges, server_time_zone: str
) -> ReverseTable:
    """Say, before anything is copied, what the way back of one table would be.

    Args:
        migration: the migration's mapping, from the source to the new table.
        changes: what the statement does to columns.

    Raises:
        Refusal: when there is none, with the reason.
    """
    source, target = migration.source, migration.target
    reverse = ReverseChanges.of(source, target, changes)
    # The names are those after the swap, for whatever is said about them.
    names = AuxiliaryNames.of(source.name)
    mapping = reverse_mapping(
        replace(target, name=source.name),
        replace(source, name=names.old),
        reverse,
        server_time_zone,
    )
    name = f"{source.schema}.{source.name}"
    return ReverseTable(
        schema=source.schema,
        table=source.name,
        old=names.old,
        undone=names.undone,
        renames=tuple(sorted(reverse.renames.items())),
        added=tuple(sorted(reverse.added)),
        dropped=tuple(sorted(reverse.dropped)),
        losses=tuple(Losses.of(mapping).lines(name)),
    )


def with_shapes(session: SqlSession, table: ReverseTable) -> ReverseTable:
    """Note the definitions right after the swap, so that a later process finds the same."""
    now, old = _both(session, table)
    return replace(table, now_shape=_digest(now), old_shape=_digest(old))


def mappings_of(session: SqlSession, tables: Sequence[ReverseTable]) -> tuple[TableMapping, ...]:
    """Build the ways back from the tables as they are.

    Raises:
        SchemaChanged: when a definition is not the one that was noted.
        Refusal: when there is none, with the reason.
    """
    require_definitions(session, tables)
    for table in tables:
        drop_guard_columns(session, table.schema, table.old)
    time_zone = read_facts(session).time_zone
    return tuple(
        reverse_mapping(*_both(session, table), table.changes, time_zone) for table in tables
    )


def require_definitions(session: SqlSession, tables: Sequence[ReverseTable]) -> None:
    """Compare the definitions with those right after the swap; quick enough under a lock.

    The feed sees DDL of the new tables; of the old ones only this does.

    Raises:
        SchemaChanged: when one is not the same, or its table is gone.
    """
    for table in tables:
        for name, noted in ((table.table, table.now_shape), (table.old, table.old_shape)):
            try:
                found = digest_of(read_shape(session, table.schema, name), name)
            except ServerFault as fault:
                if fault.code != NO_SUCH_TABLE:
                    raise
                found = ""
            if noted and found != noted:
                raise SchemaChanged(
                    f"somebody changed the definition of {table.schema}.{name} since the swap",
                    hint="the table stays as it is; compare it with the old one by hand",
                )


def _both(session: SqlSession, table: ReverseTable) -> tuple[TableSchema, TableSchema]:
    """Read both definitions."""
    found = []
    for name in (table.table, table.old):
        schema = read_table(session, table.schema, name)
        if schema is None:
            raise Refusal(
                f"there is no way back: table {table.schema}.{name} does not exist",
                hint="the swap back needs both the table and its old one",
            )
        found.append(schema)
    return found[0], found[1]


def _digest(table: TableSchema) -> str:
    return digest_of(shape_of(table), table.name)


class Following:
    """Feed and applier of one way back; a context that closes both.

    Args:
        stop: gets the fault that ends the way back; never the application's or the caller's.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        mappings: Sequence[TableMapping],
        *,
        options: FeedOptions,
        stop: StopSwitch,
    ) -> None:
        self.mappings = tuple(mappings)
        self._stack = contextlib.ExitStack()
        with self._stack:
            self.applier = SqlApplier(
                connection,
                sessions=options.apply_threads,
                batch_rows=options.batch_rows,
                stop=stop,
                judge_first=True,
            )
            self._stack.callback(_quietly, "the applier", self.applier.close)
            self.feed: ChangeFeed = ChangeFeed(
                BinlogSource(connection, options), self.applier, options=options, stop=stop
            )
            self._stack.callback(_quietly, "the reverse feed", self.feed.close)
            for mapping in self.mappings:
                self.feed.add_subscription(mapping, copied=True)
            self._stack = self._stack.pop_all()

    def start(self, position: str) -> None:
        """Follow from a position on.

        Raises:
            PositionNotFound: when the binlog no longer reaches it.
        """
        self.feed.start_from_position(position)
        self.feed.set_watermark_optimization(enabled=False)

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close both."""
        self._stack.close()


def _quietly(what: str, close: Callable[[], None]) -> None:
    """Close a part; a failure is logged and hides nothing."""
    try:
        close()
    except Exception:
        _LOG.exception("could not close %s", what)

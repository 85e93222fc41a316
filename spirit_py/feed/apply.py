"""From a batch of taken changes to the applier: sorted, in parts of bounded size."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from spirit_py.contracts import KeyedChange
from spirit_py.errors import ValueLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.contracts import Applier, SqlSession
    from spirit_py.feed.partitions import Pending
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

PART_BYTES: Final = 4 << 20
"""Bytes of row images that are rendered as SQL together; the text takes twice as much (R19)."""


class BatchApplier:
    """Applies batches of changes: one partition's, or one consistent state of a whole table.

    A batch holds one change for each key (R5). Its deletes are applied first, because in the new
    table a deleted key may be the key of another row; the deletes, and then the upserts, may run in
    any order. Only a queue's batch, with several changes of a key, is applied in order, a part in a
    transaction.
    """

    def __init__(self, applier: Applier, *, threads: int, batch_rows: int) -> None:
        self._applier = applier
        self._batch_rows = batch_rows
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="spirit-feed-part")

    def apply(
        self,
        mapping: TableMapping,
        batch: Sequence[Pending],
        *,
        in_order: bool,
        session: SqlSession | None,
        spread: bool = True,
    ) -> None:
        """Apply a batch and wait for it; with ``session`` everything runs there.

        Args:
            spread: threads of the pool apply its parts side by side, not the caller's alone.
        """
        rows = self._batch_rows
        if in_order:
            for part in _parts(batch, rows):
                self._applier.write_in_order(mapping, [_keyed(c) for c in part], session)
            return
        kinds = ([c for c in batch if c.deleted], [c for c in batch if not c.deleted])
        runs = [sorted(kind, key=attrgetter("key")) for kind in kinds]
        alone = not spread or session is not None or len(batch) <= rows
        for run in runs:
            calls = (partial(self._write, mapping, part, session) for part in _parts(run, rows))
            if alone:
                for call in calls:
                    call()
            else:
                self._in_parallel(calls)

    def _in_parallel(self, calls: Iterable[Callable[[], None]]) -> None:
        """Run calls on the pool; wait for all, then raise the first fault."""
        futures = [self._pool.submit(call) for call in calls]
        faults = [fault for future in futures if (fault := future.exception()) is not None]
        if faults:
            raise faults[0]

    def _write(
        self, mapping: TableMapping, changes: Sequence[Pending], session: SqlSession | None
    ) -> None:
        """Render changes of one kind as SQL, and write them."""
        if changes[0].deleted:
            keys = [change.image.key_sql for change in changes]
            self._applier.delete_keys(mapping, keys, session)
        else:
            rows = [change.image.render() for change in changes]
            if mapping.lookup.lingers:
                keys = [change.image.key_sql for change in changes]
                self._applier.upsert_rows(mapping, rows, session, keys)
            else:
                self._applier.upsert_rows(mapping, rows, session)

    def apply_state(
        self,
        mapping: TableMapping,
        batch: Sequence[Pending],
        *,
        complete: bool,
        session: SqlSession | None,
    ) -> bool:
        """Apply a batch at once; return whether rows were written over others.

        Args:
            complete: the batch ends with a transaction of the source.
        """

        def parts() -> Iterator[list[KeyedChange]]:
            return ([_keyed(c) for c in part] for part in _parts(batch, self._batch_rows))

        return self._applier.write_state(mapping, parts, session, complete=complete)

    def apply_what_counts(
        self, mapping: TableMapping, batch: Sequence[Pending], *, in_order: bool
    ) -> None:
        """Apply a batch change by change, but for images that no longer are the source's.

        An image that does not fit into the new table is skipped if the source has another row by
        now, because that change follows in the binlog. The image's transaction must be visible.

        Raises:
            ValueLost: the source still has a row that does not fit.
        """
        for change in batch if in_order else sorted(batch, key=lambda one: not one.deleted):
            try:
                self._write(mapping, [change], None)
            except ValueLost as lost:
                image = change.image
                if not self._applier.superseded(mapping, image.key_sql, image.render()):
                    lost.details = (*lost.details, f"the row has the key {image.key_sql}")
                    raise
                _log.info(
                    "%s: a value did not fit, and was changed meanwhile: passed over",
                    mapping.source.name,
                )

    def interrupt(self) -> None:
        """End what runs."""
        self._applier.interrupt()

    def close(self) -> None:
        """End the pool's threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _keyed(change: Pending) -> KeyedChange:
    row = None if change.deleted else change.image.render()
    return KeyedChange(change.image.key_sql, row, change.fresh)


def _parts(changes: Sequence[Pending], rows: int) -> Iterator[Sequence[Pending]]:
    """Cut changes into parts of at most so many rows, and about :data:`PART_BYTES`."""
    first = size = 0
    for at, change in enumerate(changes):
        if at > first and (at - first >= rows or size + change.size > PART_BYTES):
            yield changes[first:at]
            first, size = at, 0
        size += change.size
    if changes:
        yield changes[first:]

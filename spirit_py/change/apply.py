"""From taken changes to the applier: in order for the queue, in parallel for the map."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.change.buffer import Pending
    from spirit_py.contracts import Applier, SqlSession
    from spirit_py.table.mapping import TableMapping


class BatchApplier:
    """Applies batches of changes.

    Changes of the map have one key each, so deletes and upserts may run in any order and in
    parallel (R5); changes of the queue run one after the other, in order.
    """

    def __init__(self, applier: Applier, *, threads: int, batch_rows: int) -> None:
        self._applier = applier
        self._batch_rows = batch_rows
        self._threads = max(1, threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="spirit-feed-apply")

    def apply(
        self,
        mapping: TableMapping,
        batch: Sequence[Pending],
        *,
        in_order: bool,
        session: SqlSession | None,
    ) -> None:
        """Apply a batch and wait for it; with ``session`` everything runs there."""
        if in_order:
            for deleted, run in groupby(batch, key=lambda change: change.deleted):
                self._write(mapping, list(run), deleted=deleted, session=session)
            return
        deletes = [change for change in batch if change.deleted]
        upserts = [change for change in batch if not change.deleted]
        if session is not None or len(batch) <= self._batch_rows:
            self._write(mapping, deletes, deleted=True, session=session)
            self._write(mapping, upserts, deleted=False, session=session)
            return
        self._in_parallel(
            partial(self._write, mapping, part, deleted=deleted)
            for deleted, changes in ((True, deletes), (False, upserts))
            for part in _parts(sorted(changes, key=_key), self._batch_rows)
        )

    def _in_parallel(self, calls: Iterable[Callable[[], None]]) -> None:
        """Run calls on the pool; wait for all, then raise the first fault."""
        futures = [self._pool.submit(call) for call in calls]
        faults = [fault for future in futures if (fault := future.exception()) is not None]
        if faults:
            raise faults[0]

    def _write(
        self,
        mapping: TableMapping,
        changes: Sequence[Pending],
        *,
        deleted: bool,
        session: SqlSession | None = None,
    ) -> None:
        """Write changes of one kind."""
        if not changes:
            return
        if deleted:
            keys = [change.image.key_sql for change in changes]
            self._applier.delete_keys(mapping, keys, session)
        else:
            rows = [change.image.render() for change in changes]
            self._applier.upsert_rows(mapping, rows, session)

    def verify(self, mapping: TableMapping, session: SqlSession) -> None:
        """Prove under the table lock that no new UNIQUE key pushed a row out (R11)."""
        self._applier.verify(mapping, session)

    def interrupt(self) -> None:
        """End what runs."""
        self._applier.interrupt()

    def close(self) -> None:
        """End the pool's threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _key(change: Pending) -> tuple[object, ...]:
    return change.image.key


def _parts(changes: Sequence[Pending], size: int) -> Iterable[Sequence[Pending]]:
    """Cut changes into parts."""
    return (changes[at : at + size] for at in range(0, len(changes), size))

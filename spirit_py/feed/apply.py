"""From a batch of taken changes to the applier: weighed, sorted, in parts of bounded size.

A text's weight costs server and driver about a microsecond for a key of 36 characters, where a
whole change costs 40 (measured).
"""

from __future__ import annotations

import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ValueLost
from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, AtWork, Work
from spirit_py.table.values import KeyedChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import Applier, Clock, SqlSession
    from spirit_py.feed.partitions import Pending
    from spirit_py.feed.shared import Shared
    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)
_SKIPPED: Final = "%s: a value did not fit, and was changed meanwhile: skipped"

PART_BYTES: Final = 4 << 20
"""Bytes of row images that are rendered as SQL together; the text takes twice as much (R19)."""


class Appliers:
    """How many sessions apply at a time, at most ``most``: found by a knee while changes wait.

    Its seconds are those of work, so that a trial goes on where the next changes come. Thread-safe.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = max(1, most)
        least = min(FIRST_TASKS, self.most)
        self.knee = Knee(least, least=least, of="apply session")
        self.knee.begin(0.0, least, sparing=False)
        self._clock = clock
        #: Notified when one has ended: whose parts wait for their turn looks again then.
        self.turn = threading.Condition()
        self._at_work, self._busy, self._worked = AtWork(), 0, 0.0

    @property
    def tasks(self) -> int:
        """How many may work now."""
        return min(self.most, self.knee.tasks)

    @property
    def full(self) -> bool:
        """Whether as many work as may."""
        return self._busy >= self.tasks

    def begin(self) -> float:
        """Note that one more works; return the time, for :meth:`end`."""
        with self.turn:
            self._busy += 1
            return self._count()

    def end(self, rows: int, began: float, *, ready: int) -> None:
        """Note that one has ended, and how many changes it applied; 0 if that says nothing.

        As many more as are ``ready`` could work.
        """
        with self.turn:
            seconds = self._clock() - began
            self._worked += seconds / self._busy
            done = self._at_work.done(rows, seconds, began)
            most = max(self.tasks, min(self.most, self._busy + ready))
            self._busy -= 1
            self.knee.working = self._busy
            if rows:
                self.knee.done(self._worked, Work.APPLY, done, most)
            self.turn.notify_all()

    def rest(self) -> None:
        """Note that one has found nothing to do."""
        with self.turn:
            self._count()

    def _count(self) -> float:
        now = self._clock()
        self._at_work.count(self._busy, now)
        self.knee.working = self._busy
        return now


class BatchApplier:
    """Applies batches of changes: one partition's, or one consistent state of a whole table.

    A batch has one change for each key (R5); deletes come first, because a deleted key may be
    another row's in the new table. A queue's batch has several, and is applied in order. Where
    columns keep their values (:attr:`TableMapping.kept`), a row anew may have none of another row.
    """

    def __init__(self, applier: Applier, appliers: Appliers, *, batch_rows: int) -> None:
        self._applier = applier
        self._appliers = appliers
        self._batch_rows = batch_rows
        self._pool = ThreadPoolExecutor(appliers.most, thread_name_prefix="spirit-feed-part")

    def apply(
        self,
        mapping: TableMapping,
        batch: Sequence[Pending],
        *,
        in_order: bool,
        session: SqlSession | None,
        spread: bool = True,
    ) -> None:
        """Apply a batch and wait, all in ``session`` if any; ``spread``: parts at the same time."""
        rows = self._batch_rows
        if in_order:
            for part in _parts(batch, rows):
                self._applier.write_in_order(mapping, [_keyed(c) for c in part], session)
            return
        alone = not spread or session is not None or len(batch) <= rows
        for kind, write in (
            (_deletes(mapping, batch), self._delete),
            ([c for c in batch if not c.deleted], self._write),
        ):
            parts = _parts(sorted(kind, key=attrgetter("key")), rows)
            if alone:
                for part in parts:
                    write(mapping, part, session)
            else:
                self._spread(partial(write, mapping, session=None), list(parts))

    def _spread(
        self, write: Callable[[Sequence[Pending]], None], parts: Sequence[Sequence[Pending]]
    ) -> None:
        """Write parts in as many sessions as may work; raise the first fault, after the others."""
        appliers, left = self._appliers, list(reversed(parts))
        turn, at_work = appliers.turn, 0

        def work() -> None:
            nonlocal at_work
            with turn:
                while turn.wait_for(lambda: not left or not appliers.full) and left:
                    part = left.pop()
                    at_work += 1
                    rows, began = len(part), appliers.begin()
                    turn.release()
                    try:
                        write(part)
                    except BaseException:
                        rows = 0
                        raise
                    finally:
                        turn.acquire()
                        at_work -= 1
                        appliers.end(rows, began, ready=len(left))
                appliers.rest()

        try:
            futures = [self._pool.submit(work) for _ in range(min(len(parts), appliers.most))]
        except BaseException:
            # What the caller gives back may be written by others: nothing of it is any more.
            with turn:
                left.clear()
                turn.wait_for(lambda: not at_work)
            raise
        faults = [fault for each in futures if (fault := each.exception()) is not None]
        if faults:
            raise faults[0]

    def _write(
        self, mapping: TableMapping, changes: Sequence[Pending], session: SqlSession | None
    ) -> None:
        rows = [change.image.render() for change in changes]
        if mapping.deletes_first:
            keys = [change.image.key_sql for change in changes]
            self._applier.upsert_rows(mapping, rows, session, keys)
        else:
            self._applier.upsert_rows(mapping, rows, session)

    def _delete(
        self, mapping: TableMapping, changes: Sequence[Pending], session: SqlSession | None
    ) -> None:
        keys = [change.image.key_sql for change in changes]
        self._applier.delete_keys(mapping, keys, session)

    def apply_state(
        self,
        mapping: TableMapping,
        batch: Sequence[Pending],
        *,
        complete: bool,
        session: SqlSession | None,
    ) -> bool:
        """Apply a batch at once; return whether rows were overwritten."""

        def parts() -> Iterator[list[KeyedChange]]:
            return ([_keyed(c) for c in part] for part in _parts(batch, self._batch_rows))

        return self._applier.write_state(mapping, parts, session, complete=complete)

    def apply_what_counts(
        self, mapping: TableMapping, batch: Sequence[Pending], *, in_order: bool
    ) -> None:
        """Apply change by change; skip an image that does not fit if the source's row has changed.

        ValueLost if it has not. The image's transaction must be visible.
        """
        for change in batch if in_order else sorted(batch, key=lambda one: not one.deleted):
            try:
                if deletes := _deletes(mapping, [change]):
                    self._delete(mapping, deletes, None)
                if not change.deleted:
                    self._write(mapping, [change], None)
            except ValueLost as lost:
                image = change.image
                if not self._applier.superseded(mapping, image.key_sql, image.render()):
                    lost.details = (*lost.details, f"the row has the key {image.key_sql}")
                    raise
                _log.info(_SKIPPED, mapping.source.name)

    def interrupt(self) -> None:
        """End what runs."""
        self._applier.interrupt()

    def close(self) -> None:
        """End the pool's threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _deletes(mapping: TableMapping, batch: Sequence[Pending]) -> Sequence[Pending]:
    return [one for one in batch if one.deleted or (one.anew and mapping.kept)]


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


BATCH_ROWS: Final = 4000
"""Changes that get their weights together."""
_GATHER: Final = 0.02
"""Seconds in which more changes may come, so that few questions are asked."""
_POLL: Final = 0.2


class Weigher:
    """The thread that asks for weights, without the lock, and the calls that wait for it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        #: Notified, under the mutex, of changes whose keys have no weights yet.
        self.arrived = threading.Condition(shared.mutex)
        self._handed_on = threading.Condition(shared.mutex)
        self._urgent = threading.Event()

    def run(self, stopping: threading.Event) -> None:
        """Body of the thread: weigh batch after batch; ends at once where nothing is weighed."""
        if all(each.weights is None for each in self._shared.subscriptions):
            return
        while not stopping.is_set():
            with self.arrived:
                if not self._waiting():
                    self.arrived.wait(1.0)
                    continue
                ready = any(len(each.buffer.unweighed) >= BATCH_ROWS for each in self._waiting())
            if not ready:
                self._urgent.wait(_GATHER)
            self._urgent.clear()
            for subscription in self._waiting():
                self._weigh(subscription)

    def _waiting(self) -> Sequence[TableSubscription]:
        return [each for each in self._shared.subscriptions if each.buffer.unweighed]

    def _weigh(self, subscription: TableSubscription) -> None:
        weights, buffer = subscription.weights, subscription.buffer
        assert weights is not None  # noqa: S101 - for the type checker
        with self.arrived:
            keys = buffer.to_weigh(BATCH_ROWS)
        distinct = list(dict.fromkeys(keys))
        known = dict(zip(distinct, self._shared.stream.weigh(weights, distinct), strict=True))
        with self.arrived:
            buffer.take_weights([known[key] for key in keys])
            self._handed_on.notify_all()

    def wake(self) -> None:
        """Wake every thread that waits; called under the feed's lock."""
        self.arrived.notify_all()
        self._handed_on.notify_all()

    def finish(self, subscriptions: Sequence[TableSubscription], seconds: float = math.inf) -> bool:
        """Wait until all that was received before is in partitions; False after ``seconds``."""
        deadline = self._shared.clock() + seconds
        with self._handed_on:
            goals = [(each.buffer, each.buffer.entered) for each in subscriptions]
            while True:
                goals = [(b, goal) for b, goal in goals if b.entered - len(b.unweighed) < goal]
                left = deadline - self._shared.clock()
                if not goals or left <= 0 or self._shared.over:
                    return not goals
                self._urgent.set()
                self._handed_on.wait(min(left, _POLL))

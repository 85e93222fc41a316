"""Changes of one table that are received and not applied yet (pure; R3 to R6).

They wait in partitions: **maps** with the latest image of each key, or one **queue** in binlog
order. While the copy runs a change is

- *dropped* when a later chunk is sure to read it (R3): comparable keys above the high watermark of
  their lane, with GTIDs, in a table whose new form has no second unique key;
- *held* while a chunk that may have read an older row is in flight (R4);
- *held*, without GTIDs, until its transaction is proven to be visible to new readers.

**Merging tables** take whole states of the source, after the copy: changes are set aside until
their transaction ends, then all pending ones are taken at once. With a **second unique key** a
chunk that read too early may write a value to its old owner and remove the new one by REPLACE. So
every change waits for all chunks dispatched before it, and then restores the removed row.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from spirit_py.classes import InitVar, dataclass
from spirit_py.feed.partitions import Partitions, Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.binlog.codec.rows import RowImage
    from spirit_py.chunk.watermark import WatermarkTracker
    from spirit_py.feed.ledger import Epoch, VisibilityProofs
    from spirit_py.feed.partitions import Key, Partition

ENTRY_BYTES: Final = 200
"""What one pending change costs in addition to its row image."""
KEY_BYTES: Final = 100
"""What the weights of a key cost in addition to their bytes."""

_pending = partial(tuple.__new__, Pending)


class Manner(enum.Enum):
    """How a batch is to be applied."""

    OVER = "over others"
    """Each image by itself, over rows that it conflicts with."""
    STATE = "a state"
    """All at once: it is everything up to the end of a transaction."""
    PART = "part of a state"
    """All at once, but there was no room to wait for the end of a transaction."""


@dataclass
class Counters:
    """What became of the changes of one table."""

    received: int = 0
    applied: int = 0
    deduplicated: int = 0
    dropped: int = 0


@dataclass
class Filters:
    """The watermark filters of one table, until the copy is finished; ``proofs`` without GTIDs."""

    tracker: WatermarkTracker
    may_drop: bool
    by_range: bool
    proofs: VisibilityProofs | None = None
    active: bool = True

    def stamp(self) -> int:
        """Return the stamp of a change that comes now."""
        return self.tracker.dispatched if self.proofs is None else self.proofs.begun

    def drops(self, key: tuple[object, ...]) -> bool:
        """Return whether a change of this key may be dropped now."""
        return self.may_drop and self.active and self.tracker.above_high(key)

    def holds(self, change: Pending) -> bool:
        """Return whether a change must wait."""
        if not self.active:
            return False
        dispatched: int | None = change.stamp
        if self.proofs is not None:
            dispatched = self.proofs.dispatched_at(change.stamp)
        if dispatched is None:
            return True
        return self.tracker.held(change.key) if self.by_range else dispatched > self.tracker.settled


@dataclass(kw_only=True, eq=False)
class ChangeBuffer:
    """The pending changes of one table. Not thread-safe: the feed calls it under its lock.

    A change is *waiting*, then *taken*, then applied or given back; a newer one of its key may wait
    meanwhile. ``weighed`` keys are comparable once they have weights. ``exact``: all writes to a
    merging table are older than the end of the pending changes, which are then taken as one state.
    ``overwrites`` counts its batches that may have removed a row.
    """

    comparable: bool
    filters: Filters
    weighed: bool = False
    divisible: InitVar[bool] = False
    merging: bool = False
    key_merging: bool = False

    def __post_init__(self, divisible: bool) -> None:
        self.exact = False
        self.manner = Manner.OVER
        self.overwrites = 0
        self._aside: list[Pending] = []
        self._cut = False
        self.unweighed: deque[Pending] = deque()
        self.entered = 0
        self.counters = Counters()
        self.partitions = Partitions(ordered=not self.comparable, divisible=divisible)
        self.bytes = self.pending = 0

    def add_all(self, changes: Iterable[tuple[RowImage, bool, bool]], epoch: Epoch) -> int:
        """Take in changes in order; return how many stay.

        Each is an image, whether it is deleted, and whether it is fresh; a delete: whether the next
        one is of the same row.
        """
        filters = self.filters
        add: Callable[[Pending], Pending | None]
        add = self._aside.append if self.merging else self.partitions.add
        if self.weighed:
            add = self.unweighed.append
        drops = filters.drops if filters.active and self.comparable and filters.may_drop else None
        stamp = filters.stamp()
        received = kept = size = 0
        exact, weighed = self.exact, self.weighed
        for image, deleted, fresh in changes:
            received += 1
            if drops is not None and drops(image.key):
                continue
            weight = image.size + ENTRY_BYTES
            key = image.key
            first = fresh and (weighed or (exact and not deleted))
            earlier = add(_pending((image, deleted, epoch, stamp, weight, first, key, False)))
            kept += 1
            size += weight
            if earlier is not None:
                self._replaced(earlier)
        self.counters.received += received
        self.counters.dropped += received - kept
        epoch.pending += kept
        self.pending += kept
        self.bytes += size
        if self.weighed:
            self.entered += kept
        return kept

    def to_weigh(self, most: int) -> list[Key]:
        """Return the keys of the first changes without weights; one more than so many, at most."""
        first = list(islice(self.unweighed, most + 1))
        if len(first) > most and not (first[-2].deleted and first[-2].fresh):
            first.pop()
        return [change.image.key for change in first]

    def take_weights(self, keys: Sequence[Key]) -> None:
        """Let the first changes without weights wait in their partitions, by comparable keys.

        Those of one row go together: a delete that were applied alone would take what is kept.
        """
        more = 0
        moved: Key | None = None
        for key in keys:
            image, deleted, epoch, stamp, size, fresh, _, _ = self.unweighed.popleft()
            weight = sum(len(part) for part in key if type(part) is bytes) + KEY_BYTES
            more += weight
            change = _pending((image, deleted, epoch, stamp, size + weight, False, key, False))
            same_row = moved == key
            moved = key if deleted and fresh else None
            if (earlier := self.partitions.add(change, same_row=same_row)) is not None:
                self._replaced(earlier)
        self.bytes += more

    def transaction_ended(self) -> None:
        """Note that the transaction being received is complete: its changes may be taken."""
        self._cut = False
        if self._aside:
            self._take_over()

    def transaction_abandoned(self) -> None:
        """Note that the transaction being received comes again from its beginning, or never."""
        aside, self._aside = self._aside, []
        for change in aside:
            self._replaced(change)
        if self._cut:
            # Part of it was taken: its fresh keys may be in the new table by now.
            self.exact = False
            self.overwrites += 1

    def cut(self) -> None:
        """Allow an incomplete transaction to be taken, when the buffers are full."""
        if self._aside and not self.partitions.waiting:
            self._take_over()
            self._cut = True

    def _take_over(self) -> None:
        aside, self._aside = self._aside, []
        for change in aside:
            earlier = self.partitions.add(change)
            if earlier is not None:
                self._replaced(earlier)
                if earlier.fresh != change.fresh:
                    self.partitions.add(change._replace(fresh=earlier.fresh))

    def _replaced(self, change: Pending) -> None:
        change.epoch.pending -= 1
        self.pending -= 1
        self.bytes -= change.size
        self.counters.deduplicated += 1

    def take(self, partition: Partition, rows: int, size: int) -> Sequence[Pending]:
        """Take changes that need not wait, within bounds; all of an exact merging table's."""
        self.manner = Manner.OVER
        if self.merging and self.exact:
            self.manner = Manner.PART if self._cut else Manner.STATE
            rows = size = sys.maxsize
        holds = self.filters.holds if self.filters.active else None
        batch = self.partitions.take(partition, holds, rows, size)
        if self.merging and batch and self.manner is Manner.OVER:
            self.overwrites += 1
        return batch

    def applied(self, partition: Partition) -> None:
        """Note that what was taken is applied."""
        batch = partition.taken
        for change in batch:
            change.epoch.pending -= 1
        self.pending -= len(batch)
        self.bytes -= sum(change.size for change in batch)
        self.counters.applied += len(batch)
        self.partitions.applied(partition)

    def give_back(self, partition: Partition) -> None:
        """Let what was taken, and may be committed, wait again; newer changes of a key win."""
        if self.key_merging and self.manner is not Manner.OVER:
            partition.taken = [change._replace(fresh=False) for change in partition.taken]
            self.overwrites += 1
        for change in self.partitions.give_back(partition):
            self._replaced(change)

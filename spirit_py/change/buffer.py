"""Changes of one table that are received and not applied yet (pure; R3 to R6).

Two stores behind one interface. The **map** keeps the latest image for each key, where Python's
key equality is the server's. The **queue** keeps every change in binlog order, for all other
keys. While the copy runs, three filters decide about a change:

- *drop* it when a later chunk is sure to read it (R3): comparable keys above the high
  watermark, on a server with GTIDs, in a table whose new form has no second unique key;
- *hold* it while a chunk that may have read an older row is in flight (R4);
- *hold* it, without GTIDs, until its transaction is proven to be visible to new readers.

**Second unique keys.** A chunk that read before a unique value moved writes the value to its
old owner and REPLACE removes the new owner, wherever that row is. So in a table with a second
unique key every change waits for all chunks dispatched before it, not only for the one around
its key, and nothing is dropped: then the removed row always has an image that comes later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.change.codec import RowImage
    from spirit_py.change.ledger import Epoch
    from spirit_py.change.visibility import VisibilityProofs
    from spirit_py.chunk.watermark import WatermarkTracker

ENTRY_BYTES: Final = 200
"""What one pending change costs beside its row image."""


class Pending(NamedTuple):
    """One change that is not applied yet.

    Attributes:
        image: the row to write, or the row that is deleted.
        stamp: when it came, counted in dispatched chunks or in visibility proofs.
    """

    image: RowImage
    deleted: bool
    epoch: Epoch
    stamp: int
    size: int


@dataclass
class Counters:
    """What became of the changes of one table."""

    received: int = 0
    applied: int = 0
    deduplicated: int = 0
    dropped: int = 0


@dataclass
class Filters:
    """The watermark filters of one table; see the module.

    Attributes:
        tracker: the chunks dispatched and committed.
        may_drop: changes above the high watermark may be dropped.
        by_range: keys are compared with the chunks in flight; otherwise dispatches are counted.
        proofs: proofs of visibility, on a server without GTIDs; None with GTIDs.
        active: False once the copy is finished: nothing is dropped or held.
    """

    tracker: WatermarkTracker
    may_drop: bool
    by_range: bool
    proofs: VisibilityProofs | None = None
    active: bool = True

    def stamp(self) -> int:
        """Give the stamp of a change that comes now."""
        return self.tracker.dispatched if self.proofs is None else self.proofs.begun

    def drops(self, key: tuple[object, ...]) -> bool:
        """Tell whether a change of this key may be dropped now."""
        return self.may_drop and self.active and self.tracker.above_high(key)

    def holds(self, change: Pending) -> bool:
        """Tell whether a change must wait."""
        if not self.active:
            return False
        dispatched: int | None = change.stamp
        if self.proofs is not None:
            dispatched = self.proofs.dispatched_at(change.stamp)
        if dispatched is None:
            return True
        if self.by_range:
            return self.tracker.held(change.image.key)
        return dispatched > self.tracker.settled


@dataclass
class ChangeBuffer:
    """The pending changes of one table. Not thread-safe: the feed calls it under its lock.

    A change is *waiting*, then *taken* for applying, then settled or given back. While a change
    is taken a newer one of the same key may wait; at most one batch is taken at a time.

    Attributes:
        bytes: counted for waiting and taken changes.
    """

    comparable: bool
    filters: Filters
    counters: Counters = field(default_factory=Counters)
    bytes: int = 0
    _latest: dict[tuple[object, ...], Pending] = field(default_factory=dict)
    _queue: deque[Pending] = field(default_factory=deque)
    _taken: int = 0

    @property
    def waiting(self) -> int:
        """Changes that wait to be taken."""
        return len(self._latest) + len(self._queue)

    @property
    def pending(self) -> int:
        """Changes that are not applied, those being applied included."""
        return self.waiting + self._taken

    def add(self, image: RowImage, epoch: Epoch, *, deleted: bool) -> bool:
        """Take in one change; False when it was dropped."""
        self.counters.received += 1
        filters = self.filters
        if not self.comparable:
            size = image.size + ENTRY_BYTES
            self._queue.append(Pending(image, deleted, epoch, filters.stamp(), size))
        else:
            key = image.key
            if filters.active and filters.drops(key):
                self.counters.dropped += 1
                return False
            size = image.size + ENTRY_BYTES
            earlier = self._latest.get(key)
            self._latest[key] = Pending(image, deleted, epoch, filters.stamp(), size)
            if earlier is not None:
                self._forget(earlier)
                self.counters.deduplicated += 1
        epoch.pending += 1
        self.bytes += size
        return True

    def _forget(self, change: Pending) -> None:
        change.epoch.pending -= 1
        self.bytes -= change.size

    def take(self, rows: int, size: int) -> list[Pending]:
        """Take changes that need not wait, up to a number and about a size in bytes.

        From the queue in order, up to the first one that must wait.
        """
        batch: list[Pending] = []
        room = size
        for change in self._ready():
            batch.append(change)
            room -= change.size
            if len(batch) >= rows or room <= 0:
                break
        if self.comparable:
            for change in batch:
                del self._latest[change.image.key]
        else:
            for _ in batch:
                self._queue.popleft()
        self._taken += len(batch)
        return batch

    def _ready(self) -> Iterator[Pending]:
        """Give the changes that need not wait."""
        holds = self.filters.holds
        if self.comparable:
            changes = self._latest.values()
            yield from changes if not self.filters.active else (c for c in changes if not holds(c))
            return
        for change in self._queue:
            if holds(change):
                return
            yield change

    def settled(self, batch: list[Pending]) -> None:
        """Note that a taken batch is applied."""
        for change in batch:
            self._forget(change)
        self._taken -= len(batch)
        self.counters.applied += len(batch)

    def give_back(self, batch: list[Pending]) -> None:
        """Let a taken batch wait again; a newer change of a key wins."""
        self._taken -= len(batch)
        if not self.comparable:
            self._queue.extendleft(reversed(batch))
            return
        for change in batch:
            if self._latest.setdefault(change.image.key, change) is not change:
                self._forget(change)
                self.counters.deduplicated += 1

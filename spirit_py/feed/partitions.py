"""The partitions of one table's keys, which are applied independently (pure; R5 to R7).

docs/change-feed.md has the rules ("Order"). Each is a range of keys, of which at most one batch is
being applied; nothing of a child is applied before its parents have ended. A round sets the *quota*
of each partition to the changes that wait in it now, and is *done* for it once these are applied,
or held. Not thread-safe.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.binlog.codec.rows import RowImage
    from spirit_py.feed.ledger import Epoch

Key: TypeAlias = tuple[Any, ...]

SPLIT_ROWS: Final = 4000
"""Waiting changes below which a partition is not worth a worker of its own."""
MERGE_ROWS: Final = SPLIT_ROWS // 4
"""Waiting changes of two neighbours up to which one worker is enough for both."""
PARTS_PER_WORKER: Final = 4
"""Partitions to aim at for each worker, so that none is idle while one is slow."""
_NUMBER: Final = attrgetter("number")
_SAMPLE: Final = 255
"""Keys that are sampled to find a median."""


class Pending(NamedTuple):
    """One change that is not applied yet.

    ``stamp``: when it was received, in dispatched chunks or visibility proofs. ``fresh``: the new
    table has no row of this key. ``key`` is comparable in Python, but in a queue the image's own.
    ``anew``: what the new table has of this key is the row of a delete that this one replaced.
    """

    image: RowImage
    deleted: bool
    epoch: Epoch
    stamp: int
    size: int
    fresh: bool
    key: Key
    anew: bool = False


def _anew(change: Pending, earlier: Pending) -> tuple[Pending, Pending]:
    """Return a change of another row than the earlier one of its key, and what it replaces.

    It is pending in the first of both epochs: from behind a delete that is not applied, nothing
    would say that the row is another one.
    """
    first, other = sorted((earlier.epoch, change.epoch), key=_NUMBER)
    return change._replace(anew=True, epoch=first), earlier._replace(epoch=other)


class Partition:
    """The changes of a range of keys, from ``low`` on (None in the first partition).

    ``waiting`` are the latest change of each key or, in a queue, all in order; ``quota`` of them
    are requested, by round ``asked``. Round ``finished`` is done. ``parents`` are still applying.
    """

    __slots__ = (
        "_ending", "asked", "finished", "low", "parents", "quota", "taken", "turn", "waiting",
    )  # fmt: skip

    def __init__(self, low: Key | None, waiting: dict[Key, Pending] | deque[Pending]) -> None:
        self.low = low
        self.waiting = waiting
        self.taken: Sequence[Pending] = ()
        self.parents: frozenset[Partition] = frozenset()
        self.quota = self.asked = self.finished = self.turn = 0
        self._ending = 0

    @property
    def ready(self) -> bool:
        """Whether a worker may take from it."""
        return self.quota > 0 and not self.taken and not self.parents

    @property
    def running(self) -> frozenset[Partition]:
        """Return the partitions that must end before a child with keys of theirs may begin."""
        return frozenset((self,)) if self.taken else self.parents

    def applies_within(self, low: Key | None, high: Key | None) -> bool:
        """Return whether keys from ``low`` up to ``high`` are among those being applied."""
        keys = [change.key for change in self.taken]
        return (low is None or low <= max(keys)) and (high is None or min(keys) < high)

    def ask(self, number: int) -> None:
        """Request everything that waits now."""
        self.quota = len(self.waiting)
        self.asked = number
        self.check_round()

    def check_round(self) -> None:
        """Note the round as done, if it is."""
        if not self.quota and not self.taken and not self.parents:
            self.finished = self.asked

    def begin(self, batch: Sequence[Pending], *, more: bool) -> None:
        """Note the changes taken, and whether more may be taken in this round."""
        self.taken = batch
        self.quota = max(0, self.quota - len(batch)) if more else 0
        self._ending = 0 if self.quota else self.asked
        self.check_round()

    def end(self, *, failed: bool) -> None:
        """Note that what was taken is applied, or was given back."""
        self.taken = ()
        if failed:
            self.quota = 0
        self.finished = max(self.finished, self._ending)
        self.check_round()

    def changes(self) -> Iterable[Pending]:
        """Return what waits."""
        return self.waiting.values() if isinstance(self.waiting, dict) else self.waiting


class Partitions:
    """The partitions of one table. One class because all of its calls change one list."""

    def __init__(self, *, ordered: bool, divisible: bool) -> None:
        if ordered and divisible:
            raise ValueError("a queue is one partition")
        self.ordered = ordered
        self.divisible = divisible
        self.live: list[Partition] = [Partition(None, deque() if ordered else {})]
        self._lows: list[Key] = []
        self._running: set[Partition] = set()
        self._turns = 0
        self.splits = self.merges = 0

    @property
    def waiting(self) -> int:
        """Changes that wait to be taken."""
        return sum(len(each.waiting) for each in self.live)

    @property
    def running(self) -> int:
        """The number of partitions being applied, including those that were divided since."""
        return len(self._running)

    def route(self, key: Key) -> Partition:
        """Return the partition that a key is in."""
        return self.live[bisect_right(self._lows, key)]

    def add(self, change: Pending, *, same_row: bool = False) -> Pending | None:
        """Let a change wait; return the earlier one of its key that it replaces.

        ``same_row``: that one is the delete of the same UPDATE, which spells the key otherwise.
        """
        if self.ordered:
            self.live[0].waiting.append(change)  # type: ignore[union-attr]
            return None
        key = change.key
        waiting: Any = self.live[bisect_right(self._lows, key)].waiting
        earlier: Pending | None = waiting.get(key)
        if earlier is not None and (earlier.anew if same_row else earlier.deleted or earlier.anew):
            change, earlier = _anew(change, earlier)
        waiting[key] = change
        return earlier

    def take(
        self, partition: Partition, holds: Callable[[Pending], bool] | None, rows: int, size: int
    ) -> Sequence[Pending]:
        """Take changes that need not wait, within bounds; of a queue up to the first that must."""
        if partition.taken or partition.parents:
            raise ValueError("a batch of this partition is being applied")
        batch: list[Pending] = []
        room = size
        full = False
        for change in self._free(partition, holds):
            batch.append(change)
            room -= change.size
            if len(batch) >= rows or room <= 0:
                full = True
                break
        waiting: Any = partition.waiting
        for change in batch:
            if self.ordered:
                waiting.popleft()
            else:
                del waiting[change.key]
        self._turns += 1
        partition.turn = self._turns
        partition.begin(batch, more=full)
        if batch:
            self._running.add(partition)
        return batch

    def _free(
        self, partition: Partition, holds: Callable[[Pending], bool] | None
    ) -> Iterator[Pending]:
        for change in partition.changes():
            if holds is None or not holds(change):
                yield change
            elif self.ordered:
                return

    def applied(self, partition: Partition) -> None:
        """Note that what was taken is applied."""
        self._ended(partition, failed=False)

    def give_back(self, partition: Partition) -> list[Pending]:
        """Let what was taken wait again; return the changes of which a newer one waits already."""
        batch = partition.taken
        late: list[Pending] = []
        if self.ordered:
            partition.waiting.extendleft(reversed(batch))  # type: ignore[union-attr]
        else:
            for change in batch:
                waiting: Any = self.route(change.key).waiting
                newer = waiting.setdefault(change.key, change)
                if newer is not change:
                    newer, replaced = newer._replace(fresh=newer.fresh and change.fresh), change
                    # What this one was to remove may still be there.
                    if change.anew or change.deleted:
                        newer, replaced = _anew(newer, change)
                    late.append(replaced)
                    waiting[newer.key] = newer
        self._ended(partition, failed=True)
        return late

    def _ended(self, partition: Partition, *, failed: bool) -> None:
        partition.end(failed=failed)
        self._running.discard(partition)
        for child in self.live:
            if partition in child.parents:
                child.parents -= {partition}
                child.check_round()

    def ask(self, number: int, *, insist: bool) -> bool:
        """Request what waits now, if ``insist`` or no round is open; return whether any does."""
        for each in self.live:
            if insist or not each.quota:
                each.ask(number)
        return any(each.quota for each in self.live)

    def give_up(self) -> None:
        """Cancel all requests; batches being applied still finish."""
        for each in self.live:
            each.quota = 0
            each.check_round()

    def done(self, number: int) -> bool:
        """Return whether a round that was requested with ``insist`` is done."""
        return all(each.finished >= number for each in self.live)

    def ready(self) -> Iterator[Partition]:
        """Return the partitions that a worker may take from."""
        return (each for each in self.live if each.ready)

    def balance(self, workers: int) -> None:
        """Merge neighbours that are idle, split partitions that are hot."""
        if not self.divisible:
            return
        self._merge_idle()
        share = max(SPLIT_ROWS, self.waiting // (max(1, workers) * PARTS_PER_WORKER))
        place = 0
        while place < len(self.live):
            if len(self.live[place].waiting) <= share or not self.split(self.live[place]):
                place += 1

    def unite(self) -> Partition:
        """Merge all partitions, for a flush in one session; none may be being applied."""
        while len(self.live) > 1:
            self.merge(self.live[0], self.live[1])
        return self.live[0]

    def _merge_idle(self) -> None:
        place = 0
        while place + 1 < len(self.live):
            one, other = self.live[place : place + 2]
            idle = not (one.taken or other.taken)
            if idle and len(one.waiting) + len(other.waiting) <= MERGE_ROWS:
                self.merge(one, other)
            else:
                place += 1

    def split(self, partition: Partition) -> bool:
        """Divide a partition at the median of its waiting keys; False when it has one key only."""
        waiting: Any = partition.waiting
        step = max(1, len(waiting) // _SAMPLE)
        sample = sorted(islice(waiting, 0, None, step))
        if len(sample) < 2:
            return False
        self.split_at(partition, sample[len(sample) // 2])
        return True

    def split_at(self, partition: Partition, key: Key) -> None:
        """Divide a partition: keys from ``key`` on go to the second child."""
        halves: tuple[dict[Key, Pending], dict[Key, Pending]] = ({}, {})
        for change in partition.changes():
            halves[change.key >= key][change.key] = change
        children = [Partition(partition.low, halves[0]), Partition(key, halves[1])]
        for child in children:
            child.quota = min(partition.quota, len(child.waiting))
            child.asked, child.finished = partition.asked, partition.finished
        self._replace(children, (partition,))
        self.splits += 1

    def merge(self, one: Partition, other: Partition) -> None:
        """Make one partition of two neighbours."""
        child = Partition(one.low, {**one.waiting, **other.waiting})  # type: ignore[dict-item]
        child.quota = one.quota + other.quota
        child.asked = max(one.asked, other.asked)
        child.finished = min(one.finished, other.finished)
        self._replace([child], (one, other))
        self.merges += 1

    def _replace(self, children: list[Partition], parents: tuple[Partition, ...]) -> None:
        place = self.live.index(parents[0])
        if self.live[place : place + len(parents)] != list(parents) or not self.divisible:
            raise ValueError("these partitions are not neighbours, or must stay whole")
        running = frozenset[Partition]().union(*(each.running for each in parents))
        self.live[place : place + len(parents)] = children
        self._lows = [each.low for each in self.live if each.low is not None]
        for number, child in enumerate(children, place):
            high = self.live[number + 1].low if number + 1 < len(self.live) else None
            child.parents = frozenset(
                each for each in running if each.applies_within(child.low, high)
            )
            child.check_round()

"""One table's side of the feed: its buffer, its watermarks, and the wait for visibility."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.cascades import DoubtfulKeys
from spirit_py.chunk.chunk import walk_directions
from spirit_py.chunk.watermark import Rest, WatermarkTracker
from spirit_py.classes import KW_ONLY, InitVar, dataclass
from spirit_py.feed.buffer import ChangeBuffer, Counters, Filters
from spirit_py.feed.ledger import VisibilityProofs
from spirit_py.table.keys import comparable
from spirit_py.table.mapping import conflicting
from spirit_py.table.values import KeyWeights, weighable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.binlog.codec.rows import RowChange, RowImage
    from spirit_py.binlog.events import Doubt, Table
    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.watermark import CopiedSoFar
    from spirit_py.feed.ledger import Epoch, VisibilityGate
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

_LOOK_SECONDS: Final = 0.2


@dataclass(eq=False)
class TableSubscription:
    """A followed table; implements :class:`spirit_py.contracts.Subscription`.

    The feed's ``lock`` guards everything here. ``wake`` is called when held changes may have been
    released. ``room``: bytes of changes that may still be applied, None for no bound.
    """

    mapping: TableMapping
    _: KW_ONLY
    lock: threading.Condition
    unweighed: threading.Condition
    gate: VisibilityGate
    wake: Callable[[], None]
    rests: InitVar[Sequence[Rest]] = (Rest(),)

    def __post_init__(self, rests: Sequence[Rest]) -> None:
        self._waits: dict[int, str] = {}
        ordered = comparable(self.mapping.key_columns)
        weighed = not ordered and may_be_weighed(self.mapping)
        #: The questions for the weights of keys; None where they are not compared by weight.
        self.weights = KeyWeights(self.mapping.key_columns) if weighed else None
        by_range = ordered and not (self.mapping.merging or has_second_unique(self.mapping))
        self.tracker = WatermarkTracker(walk_directions(self.mapping.key), rests)
        filters = Filters(
            tracker=self.tracker,
            may_drop=by_range and self.gate.has_gtids,
            by_range=by_range,
            proofs=None if self.gate.has_gtids else VisibilityProofs(),
            active=bool(rests),
        )
        self.buffer = ChangeBuffer(
            comparable=ordered or weighed,
            filters=filters,
            weighed=weighed,
            divisible=(ordered or weighed) and rows_are_independent(self.mapping),
            merging=self.mapping.merging,
            key_merging=self.mapping.key_merging,
        )
        self.in_doubt = DoubtfulKeys(independent=rows_are_independent(self.mapping))
        self._doubts = 0
        #: Changes of the table were not in the stream, and it was not compared since.
        self.has_unread_changes = False
        self._pinned: list[Epoch] = []
        self.room: int | None = None
        self._held = False

    def dispatch(self, chunk: Chunk) -> str:
        """Raise a high watermark; return the GTID set that the chunk must wait for (R3)."""
        with self.lock:
            self.tracker.dispatch(chunk)
            wait = self.gate.unproven()
            self._waits[chunk.number] = wait
            return wait

    def committed(self, chunk: Chunk, rows: int = 0) -> None:
        """Note that a dispatched chunk has committed (R4): what it waited for is visible."""
        with self.lock:
            self.tracker.committed(chunk, rows)
            self.gate.prove(self._waits.pop(chunk.number, ""))
            if self.buffer.filters.proofs is not None:
                self.buffer.filters.proofs.prune(self.tracker.settled)
        self.wake()

    def copied(self) -> CopiedSoFar:
        """Return what is copied; rows and chunks are those of this run."""
        with self.lock:
            return self.tracker.copied()

    def copy_finished(self) -> None:
        """Note that every chunk has committed: nothing is held or dropped any more."""
        with self.lock:
            self.buffer.filters.active = False
        self.wake()

    @contextlib.contextmanager
    def applies_bounded(self, limit: int, stop: StopSwitch) -> Iterator[None]:
        """Let about so many bytes of changes be applied meanwhile; a flush would wait for more.

        Batches that run end first; raises what ``stop`` was given instead, as one may hang.
        """
        try:
            with self.lock:
                self.room = 0
                while self.buffer.partitions.running:
                    stop.check()
                    self.lock.wait(_LOOK_SECONDS)
                self.room = limit
            yield
        finally:
            with self.lock:
                self.room, self._held = None, False
            self.wake()

    @property
    def may_apply(self) -> bool:
        """Whether changes may be applied now; called under the feed's lock."""
        return not self._held and (self.room is None or self.room > 0)

    def hold_applies(self, *, held: bool) -> None:
        """Hold back applying, or go on; otherwise batches would wait behind a lock's request.

        Within :meth:`applies_bounded` alone: who asks for it late holds nothing for good.
        """
        with self.lock:
            held = held and self.room is not None
            changed, self._held = self._held != held, held
        if changed and not held:
            self.wake()

    def claim(self) -> int:
        """Begin to wait for what is executed now; return the argument of :meth:`trust`."""
        return -1 if self.buffer.filters.active else self._doubts

    def trust(self, claim: int) -> None:
        """Note that everything executed at a claim is received: states are exact from now on."""
        if claim == self._doubts and not (self.buffer.filters.active or self.has_unread_changes):
            self.buffer.exact = True

    def write_over(self) -> None:
        """Note that rows of the new table may be newer than the pending changes."""
        with self.lock:
            self._doubt()
            self.buffer.overwrites += self.mapping.merging

    def note_unread(self, epoch: Epoch) -> None:
        """Note that changes of the table were not in the stream; called under the feed's lock.

        No state of a merging table is exact before a comparison, so the safe position stays.
        """
        self.has_unread_changes = True
        self._doubt()
        if self.mapping.merging:
            epoch.pending += 1
            self._pinned.append(epoch)

    def compared(self) -> None:
        """Note that the whole table was compared, and is equal to the source."""
        with self.lock:
            self.has_unread_changes = False
            for epoch in self._pinned:
                epoch.pending -= 1
            self._pinned.clear()

    def _doubt(self) -> None:
        self._doubts += 1
        self.buffer.exact = False

    def receive(self, changes: Sequence[RowChange], epoch: Epoch, doubt: Doubt) -> None:
        """Take in row changes, in order; called under the feed's lock."""
        self.buffer.add_all(_images(changes), epoch)
        self.in_doubt.receive(changes, doubt)
        if self.buffer.unweighed:
            self.unweighed.notify()


class Subscriptions:
    """The subscriptions of a feed; what it adds up is read under the feed's lock.

    Several may be of one table, each for the rows that another target keeps.
    """

    def __init__(self) -> None:
        #: The subscriptions of each followed table.
        self.by_table: dict[Table, list[TableSubscription]] = {}

    def __iter__(self) -> Iterator[TableSubscription]:
        return (one for each in self.by_table.values() for one in each)

    def add(self, subscription: TableSubscription) -> None:
        """Add one."""
        self.by_table.setdefault(_table(subscription.mapping), []).append(subscription)

    def of(self, mapping: TableMapping | None) -> list[TableSubscription]:
        """Return those of a mapping, found by its table and what it keeps; or all of them."""
        if mapping is None:
            return list(self)
        found = self.by_table.get(_table(mapping), ())
        return [one for one in found if one.mapping.keep == mapping.keep]

    @property
    def mappings(self) -> list[TableMapping]:
        """The mappings of all tables."""
        return [one.mapping for one in self]

    @property
    def bytes(self) -> int:
        """Bytes in the buffers."""
        return sum(one.buffer.bytes for one in self)

    @property
    def pending(self) -> int:
        """Changes that are received and not applied."""
        return sum(one.buffer.pending for one in self)

    def totals(self) -> Counters:
        """Return what became of the changes of all tables."""
        counted = [one.buffer.counters for one in self]
        return Counters(
            received=sum(one.received for one in counted),
            applied=sum(one.applied for one in counted),
            deduplicated=sum(one.deduplicated for one in counted),
            dropped=sum(one.dropped for one in counted),
        )


def _table(mapping: TableMapping) -> Table:
    return mapping.source.schema, mapping.source.name


def _images(changes: Sequence[RowChange]) -> Iterator[tuple[RowImage, bool, bool]]:
    """Yield upserts of new keys, deletes of old ones: image, whether a delete, whether new (R6).

    A delete is new where the next change is that of the same row: an UPDATE of its key.
    """
    for _, before, after in changes:
        if after is None:
            if before is not None:
                yield before, True, False
            continue
        known = before is not None and before.key == after.key
        if before is not None and not known:
            yield before, True, True
        yield after, False, not known


def has_second_unique(mapping: TableMapping) -> bool:
    """Return whether rows of different chunk keys may conflict in a unique index."""
    return conflicting(mapping.target, mapping.new_key_columns) is not None


def may_be_weighed(mapping: TableMapping) -> bool:
    """Return whether the latest of all texts of one weight is what the new table holds.

    Not where the new table equates keys otherwise: it may then hold each of these texts.
    """
    return weighable(mapping.key_columns) and mapping.key_order_kept and not mapping.merging


def rows_are_independent(mapping: TableMapping) -> bool:
    """Return whether writing one row of the new table can never touch another one."""
    return mapping.key_order_kept and not (mapping.merging or has_second_unique(mapping))

"""Which received transactions a reader may not see yet, and what is safe to resume from (pure).

Every pending change counts in the epoch of the latest transaction that changed its key, a prepared
XA transaction in that of its prepare. The safe position is the end of the last epoch of which, as
of all before it, nothing is pending.

A commit reaches the binlog before it becomes visible. With GTIDs a chunk waits for what the
:class:`VisibilityGate` names. Without, a transaction of our own becomes visible after every one
before it in the binlog (``binlog_order_commits``): it proves all that was received when it began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.position import GtidSet
from spirit_py.classes import dataclass, field

if TYPE_CHECKING:
    from spirit_py.binlog.events import Frontier, Place


EPOCH_TRANSACTIONS: Final = 64


@dataclass(slots=True, eq=False)
class Epoch:
    """Consecutive transactions, the ``number``-th; buffers count ``pending`` changes directly.

    ``until``: the Unix time of the last one on its server; 0 for not known.
    """

    gained: Frontier
    pending: int = 0
    closed: bool = False
    transactions: int = 0
    until: float = 0.0
    number: int = 0


class Ledger:
    """The positions of one stream; not thread-safe. Everything before ``start`` is safe."""

    def __init__(self, start: Frontier) -> None:
        self._safe = start
        self._received_at = self._safe_at = 0.0
        self._undecided: dict[str, Epoch] = {}
        #: The position up to which all transactions were received completely.
        self.received = start.copy()
        self.in_transaction = False
        self._epochs: deque[Epoch] = deque([Epoch(start.empty())])

    @property
    def current(self) -> Epoch:
        """The epoch that changes of the transaction being received belong to."""
        return self._epochs[-1]

    @property
    def undecided(self) -> int:
        """How many XA transactions with rows of ours wait for their decision."""
        return len(self._undecided)

    def began(self) -> None:
        """Note that a transaction with rows begins."""
        self.in_transaction = True
        self.current.transactions += 1

    def abandoned(self) -> None:
        """Note that the transaction being received is sent again from its beginning, or never."""
        self.in_transaction = False

    def committed(self, place: Place) -> None:
        """Note that a transaction is complete, or that the stream advanced between two."""
        self.received.advance(place)
        self.current.gained.advance(place)
        # A writer may have set the time of an event, but not that of its commit.
        if happened := place.committed_at or place.executed_at:
            self._received_at = self.current.until = happened
        self.in_transaction = False
        if self.current.transactions >= EPOCH_TRANSACTIONS:
            self.seal()

    def absorb(self, unlogged: Frontier | None) -> None:
        """Take what is in no log for received, so that nobody waits for it."""
        if unlogged is not None and not self.received.reaches(unlogged):
            self.received.absorb(unlogged)
            self.current.gained.absorb(unlogged)

    def prepared(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is prepared: its rows belong to the current epoch."""
        self.current.pending += 1
        self._undecided[xid] = self.current
        self.committed(place)

    def epoch_of(self, xid: str) -> Epoch | None:
        """Return the epoch of a prepared XA transaction with rows of ours; None for another one."""
        return self._undecided.get(xid)

    def decided(self, xid: str) -> None:
        """Note that an XA transaction is decided, and its rows are buffered or dropped."""
        if (epoch := self._undecided.pop(xid, None)) is not None:
            epoch.pending -= 1

    def seal(self) -> None:
        """Close the current epoch, so that it can become safe; also inside a transaction."""
        self.current.closed = True
        self._epochs.append(Epoch(self._safe.empty(), number=self.current.number + 1))

    def settle(self) -> None:
        """Move the safe position past every epoch of the done prefix."""
        if self.current.pending == 0:
            self.seal()
        while self._epochs[0].closed and self._epochs[0].pending == 0:
            epoch = self._epochs.popleft()
            self._safe.absorb(epoch.gained)
            self._safe_at = epoch.until or self._safe_at

    @property
    def behind_seconds(self) -> float:
        """The time from what the safe position points at to what was received; 0 if unknown."""
        return max(0.0, self._received_at - self._safe_at) if self._safe_at else 0.0

    def safe_text(self) -> str:
        """Return the safe position as text."""
        return self._safe.text()


class VisibilityGate:
    """What chunks must wait for: all that is received and not proven visible. Not thread-safe.

    A chunk's commit proves it. So no chunk writes an older row over an applied change.
    """

    def __init__(self, *, has_gtids: bool) -> None:
        self.has_gtids = has_gtids
        self._unproven = GtidSet()

    def received(self, place: Place) -> None:
        """Note a transaction whose rows are about to be taken in, or that is complete."""
        if self.has_gtids and place.tsid:
            self._unproven.add(place.tsid, place.number)

    def unproven(self) -> str:
        """Return the set to wait for; empty when there is nothing to wait for."""
        return str(self._unproven)

    def prove(self, gtids: str) -> None:
        """Note that a set of transactions is visible to every new reader."""
        if gtids:
            self._unproven.subtract(GtidSet.parse(gtids))


@dataclass
class VisibilityProofs:
    """The proofs of one table. ``begun`` is the stamp of a change that is received now."""

    begun: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)

    def begin(self) -> int:
        """Begin a proof of everything received so far; return its number."""
        self.begun += 1
        return self.begun

    def end(self, number: int, dispatched: int) -> None:
        """End a proof: everything stamped before it is visible to the next chunk dispatched."""
        self._ended.append((number, dispatched))

    def dispatched_at(self, stamp: int) -> int | None:
        """Return how many chunks may have read too early; None while there is no proof."""
        place = bisect_right(self._ended, stamp, key=lambda proof: proof[0])
        return self._ended[place][1] if place < len(self._ended) else None

    def prune(self, settled: int) -> None:
        """Forget proofs that a later one implies: all their chunks have committed."""
        done = bisect_right(self._ended, settled, key=lambda proof: proof[1])
        if done > 1:
            last = self._ended[done - 1]
            self._ended[:done] = [(last[0], 0)]

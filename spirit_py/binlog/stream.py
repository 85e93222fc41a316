"""The interface of a feed to one kind of source, such as a MySQL server's binlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.binlog.events import Event, Place, Table
    from spirit_py.binlog.position import Frontier
    from spirit_py.contracts import Origin, SqlSession
    from spirit_py.errors import FeedFailure
    from spirit_py.progress import Retention
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.weights import KeyWeights


class Stream(Protocol):
    """One kind of source: its positions, its events, and what the server has executed.

    ``begin`` or ``resume`` first, then ``run`` in the reader thread; ``executed`` and
    ``prove_visible`` from other threads; ``close`` ends ``run``. One interface because what is read
    and what is asked are of one server, whose past both must know.
    """

    #: Transactions have identifiers that a reader of the source can wait for (R3).
    has_gtids: bool
    #: Table names differ in more than case.
    ignore_case: bool

    def begin(self, mappings: Sequence[TableMapping]) -> Frontier:
        """Choose a place that cannot miss a commit (R2), and open the stream there."""

    def resume(
        self,
        mappings: Sequence[TableMapping],
        position: str,
        settled: str = "",
        *,
        pass_hidden: bool = False,
    ) -> Frontier:
        """Open the stream at a position; raises PositionNotFound.

        Called before this run writes: earlier writes to the new tables are not its own.

        Args:
            settled: the place after the earlier run's last write to a new table, at or after
                ``position``; empty where that is not known.
            pass_hidden: see :meth:`passes`.
        """

    def unknown_decision(self, xid: str, place: Place) -> FeedFailure | None:
        """Return the error for an XA COMMIT of a transaction that was never seen prepared (R8).

        None where that cannot have changed a followed table unseen.
        """

    def passes(self, place: Place) -> bool:
        """Return whether a change there that cannot be read may be passed over.

        Only one that was committed, and visible, before the stream was resumed.
        """

    @property
    def written_by_others(self) -> AbstractSet[Table]:
        """The new tables that were written to between ``settled`` and ``resume``.

        The set is complete once everything that was executed at ``resume`` is received.
        """

    def run(self, emit: Callable[[Event], bool], heard: Callable[[], None]) -> None:
        """Emit events until closed; reconnects by itself."""

    def executed(self, session: SqlSession | None = None) -> Frontier:
        """Ask for everything that is committed and visible now; in the given session, if any."""

    def has_executed(self, received: Any, session: SqlSession) -> bool:
        """Return whether the source has executed, visibly, all of what was received (R25)."""

    def look(self) -> None:
        """Look whether the source has kept its past, and still logs; nothing where it is away.

        Raises:
            HistoryLost: it may have lost commits, or its log is off, or is another one (R25).
        """

    @property
    def origin(self) -> Origin:
        """What positions are of: the source's life and its log, to be known again (R25)."""

    def position_here(self, session: SqlSession) -> str:
        """Return the opaque position after everything that ``session`` finds executed."""

    def prove_visible(self, gtids: str) -> None:
        """Return once everything received before the call is visible to new readers.

        Args:
            gtids: transactions received and not known to be visible; empty without GTIDs.
        """

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[ComparableKey]:
        """Return the comparable forms of keys, in order, with the server's weights (R6).

        Called by one thread, not the reader's; waits while the server is away.
        """

    def retention(self) -> Retention | None:
        """Ask how far the history reaches from the place that is read; None when unknown."""

    @property
    def reconnects(self) -> int:
        """How often the stream was opened again."""

    @property
    def traffic(self) -> tuple[int, int, int]:
        """Bytes received, those of them passed over as not followed, and of these our own."""

    @property
    def trouble(self) -> str:
        """Why the stream is not open now; empty while it is."""

    def close(self) -> None:
        """End ``run`` and every session."""

"""The architecture on one page: how the parts of a migration meet.

Only the two composition roots pick concrete classes: :mod:`spirit_py.migration`, and
:mod:`spirit_py.compare` for ``spirit-py checksum``. Life of the parts in a migration::

    source.add_subscription(mapping) -> subscription        (before start)
    source.start()                                          positions R2
    loop:  chunk = chunker.next_chunk(rows)                  driver only
           visibility = subscription.dispatch(chunk)         R3, atomic with the drop filter
           ... a task copies the chunk ...
           subscription.committed(chunk)                     R4
    subscription.copy_finished(); source.end_watermark_optimization()
    source.catch_up()                                        drain
    checksum (repairs inside ``with source.applies_paused()``)
    cutover: source.flush(); ``with source.applies_paused()``: lock, source.block_wait(), source
    .flush_under_table_lock(lock session), source.all_changes_flushed, RENAME, source.stop(), unlock
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.watermark import CopiedSoFar
    from spirit_py.events.event import Event
    from spirit_py.progress import FeedStatistics
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Swap
    from spirit_py.table.values import KeyedChange, RenderedRow
    from spirit_py.threads import StopSwitch


Clock: TypeAlias = "Callable[[], float]"
"""Monotonic time in seconds; tests replace it."""


class SqlSession(Protocol):
    """What a session of the server can do; see :class:`spirit_py.mysql.session.Session`."""

    id: int
    address: str
    origin: str
    """The secret of all sessions of the same options (:mod:`spirit_py.mysql.own_sessions`)."""

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Run a statement without a result; return the affected rows."""

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with a result; return its rows."""

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement."""

    def warnings(self) -> list[tuple[str, int, str]]:
        """Level, code and text of the last statement's warnings."""

    def close(self) -> None:
        """Close the session; safe to call again."""


class Applier(Protocol):
    """The one write path into new tables for changes and repairs (R5, R10).

    Blocking and thread-safe. Transient faults are retried; one that persists is raised as a
    :class:`~spirit_py.errors.SpiritError`. With ``session`` (the cutover's locking session)
    everything runs in that session and nothing is retried on another connection.
    """

    def upsert_rows(
        self,
        mapping: TableMapping,
        rows: Sequence[RenderedRow],
        session: SqlSession | None = None,
        keys: Sequence[str] = (),
    ) -> int:
        """Write row images with multi-row REPLACE, in bounded statements; return their number.

        ``keys``, one for each row, are deleted first where older versions of rows linger.
        """

    def delete_keys(
        self, mapping: TableMapping, keys: Sequence[str], session: SqlSession | None = None
    ) -> int:
        """Delete by key; each key is ``(literal, ...)`` of the *old* key columns in key order."""

    def write_in_order(
        self, mapping: TableMapping, changes: Sequence[KeyedChange], session: SqlSession | None
    ) -> None:
        """Apply changes in their order, of any keys, in one transaction."""

    def write_state(
        self,
        mapping: TableMapping,
        parts: Callable[[], Iterable[Sequence[KeyedChange]]],
        session: SqlSession | None = None,
        *,
        complete: bool,
    ) -> bool:
        """Apply a state of the source in one transaction; return whether it wrote over other rows.

        ``parts`` returns the changes in order, anew for every attempt. ``complete``: the state ends
        with a transaction of the source, so nothing is written over other rows. Raises
        DuplicateForUnique for rows that the new table cannot hold together.
        """

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Repair the rows of these keys, inside ``with source.applies_paused()``; count them."""

    def superseded(self, mapping: TableMapping, key: str, row: RenderedRow) -> bool:
        """Whether the source's row has changed since a visible image; ServerFault if unknown.

        False where the image fits nowhere, and cannot be compared.
        """

    def interrupt(self) -> None:
        """Kill the statements that run now; their calls raise, and so do later ones."""


class Subscription(Protocol):
    """One source table's side of the change feed, as the copier sees it. Thread-safe, no I/O."""

    def dispatch(self, chunk: Chunk) -> str:
        """Raise its lane's high watermark to the chunk's upper bound, before it is handed out.

        Returns the GTID set, or nothing, that its session must wait for before it reads (R3):
        transactions of dropped rows that are not yet known to be visible.
        """

    def committed(self, chunk: Chunk, rows: int = 0) -> None:
        """Note that a dispatched chunk has committed: its changes may be applied (R4)."""

    def copied(self) -> CopiedSoFar:
        """Return what is copied; rows and chunks are those of this run."""

    def copy_finished(self) -> None:
        """Note that every chunk has committed: nothing is held or dropped any more."""


@dataclass(frozen=True)
class Origin:
    """The server life and log file of a position, by their start in Unix time (R25)."""

    started: int = 0
    file: str = ""
    created: int = 0


class ChangeSource(Protocol):
    """A stream of row changes from the source, applied to the new tables.

    It follows its tables, and was started; at last ``close``. Positions are opaque text. Faults of
    the stream reach the stop switch and are raised again by the blocking calls. One interface
    because copy, checksum and cutover share one feed.
    """

    def has_unread_changes(self, mapping: TableMapping) -> bool:
        """Return whether changes were passed over and not compared since; after ``block_wait``."""

    def compared(self, mapping: TableMapping) -> None:
        """Note that a comparison of the whole table, from its beginning, found no difference."""

    @property
    def origin(self) -> Origin:
        """What the position is of. No I/O."""

    def position(self) -> str:
        """Return the position that is safe to resume from (R7); empty before the first. No I/O."""

    def flush(self) -> None:
        """Apply until the backlog is trivial; raise ``ChangesNotFlushed`` if it does not shrink."""

    def flush_under_table_lock(self, session: SqlSession, only: TableMapping | None = None) -> None:
        """Apply everything, or everything of one table, through the session that locks it.

        Called inside ``with applies_paused()``, which does not hold it back. Nothing is lost by a
        failure. Raises ChangesNotFlushed when the backlog is above the limit for such a flush.
        """

    def block_wait(self, timeout: float | None = None, session: SqlSession | None = None) -> None:
        """Wait until every change committed and visible at call time has been received.

        Reads the server's executed position in a session of its own, or in ``session``, whose
        faults are raised as they are. With the table locked this proves that nothing is missing
        (R15). Raises :class:`~spirit_py.errors.FeedFailure` on timeout or when the feed is not live
        (R12). ``timeout`` in seconds; None limits only a standstill.
        """

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive and apply until the backlog is trivial, for as long as that takes; under no lock.

        Waits for reconnects and server restarts; calls ``tell`` with the reason, and "" at the end.
        """

    def apply_executed(self, stop: StopSwitch, tell: Callable[[str], None]) -> None:
        """Receive and apply what is executed now; waits as :meth:`catch_up`; ``stop`` ends this."""

    def position_here(self, session: SqlSession) -> str:
        """Return the place after everything that is executed now, read through ``session``.

        One or two short statements, also after ``stop``. Under the session's table lock, a feed
        from there gets exactly that table's later changes. Empty where no feed could start there.
        """

    def pending(self) -> int:
        """Count changes received and not yet applied."""

    def all_changes_flushed(self, only: TableMapping | None = None) -> bool:
        """Return whether every received change is applied, and no transaction is half received.

        With ``only``, a locked table, open transactions do not count: they cannot hold its changes.
        """

    def write_over(self, mapping: TableMapping) -> None:
        """Note that a repair read newer rows than what is applied next.

        Changes of :attr:`TableMapping.merging` are written over others until a ``block_wait``.
        """

    def overwrites(self, mapping: TableMapping) -> int:
        """Count what may have pushed a row out of a merging new table; 0 for others.

        A checksum proves the table only if this is the same before it and at the swap.
        """

    def flushed_often(self, seconds: float | None = None) -> AbstractContextManager[None]:
        """Apply every few hundred milliseconds inside, or every so many seconds; may be nested.

        Snapshots before a swap then lag little, and little differs in those of a comparison.
        """

    def applies_paused(self, *, patient: bool = True) -> AbstractContextManager[None]:
        """Hold back all applying while the context is open; running batches finish first.

        Where a backup delays that it is waited for, or, if not ``patient``, FeedFailure.
        """

    def expect_own_ddl(self, session_id: int, sql: str) -> None:
        """Let this statement of this session pass: the cutover's RENAME; called in each try.

        From its event on, the feed takes nothing more, and every later proof fails.
        """

    def forget_own_ddl(self) -> None:
        """Let it pass no more: the try has ended, and another session may get its number (R24)."""

    def stop(self) -> None:
        """Apply nothing more; at once, without I/O, safe to repeat; after the RENAME (R15)."""

    def statistics(self) -> FeedStatistics:
        """Return the counters. No I/O."""

    def close(self) -> None:
        """Stop the threads and close the sessions, within seconds; safe to call again."""


class SwappedAlong(Protocol):
    """A small table of the caller that is exchanged in the RENAME of a migration."""

    @property
    def swap(self) -> Swap:
        """The names that are exchanged."""

    def prepare(self, session: SqlSession) -> None:
        """Make the new table, before each lock request; raise a Refusal if that is impossible."""

    def prove(self, session: SqlSession) -> None:
        """Prove quickly under the lock that both tables are the prepared ones; else a Refusal."""


class Reporter(Protocol):
    """Shows the operator what is going on."""

    def start(self) -> None:
        """Begin to show."""

    def event(self, event: Event) -> None:
        """Show one thing that happened."""

    def progress(self, snapshot: Any) -> None:
        """Show a :class:`spirit_py.progress.MigrationStatus`."""

    def stop(self) -> None:
        """End the display and leave the terminal clean."""


class QuietReporter:
    """The base of a :class:`Reporter` that has no beginning, no figures, or no end to show."""

    def start(self) -> None:
        """Do nothing."""

    def progress(self, snapshot: Any) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

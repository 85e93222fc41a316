"""One moment for all readers: the table lock under which their snapshots open (R15's sibling).

Writers of the source wait while the lock is held, so this is short: the changes are flushed
before the lock is asked for, the last of them under it, then every reader opens its snapshot
(which takes no table lock itself; measured: it sees all that the lock's session wrote) and the
lock goes. While the lock is asked for, new writers queue behind it, so one request waits a
second or so and then steps back, with growing pauses between.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ChangesNotFlushed, ChecksumFailure, MigrationFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.locks import TableLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.checksum.result import ChecksumOptions
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource
    from spirit_py.mysql.session import Session
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
#: Requests that wait equally long, before the wait is doubled.
_SAME_WAIT: Final = 3
_FLUSH_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class LockFigures:
    """What one snapshot cost the application. Milliseconds."""

    waited_ms: float
    held_ms: float
    attempts: int


@dataclass(frozen=True, kw_only=True)
class SnapshotLock:
    """Takes the table lock for a moment.

    Attributes:
        target: None when the new table is on the source's server.
        feed: None when nobody applies changes: two tables are compared as they are.
        on_wait: told what is waited for before each request, and an empty text at the end.
    """

    mapping: TableMapping
    source: ConnectionOptions
    target: ConnectionOptions | None
    feed: ChangeSource | None
    options: ChecksumOptions
    stop: StopSwitch
    on_wait: Callable[[str], None]

    def take(self, open_snapshots: Callable[[], None]) -> LockFigures:
        """Call ``open_snapshots`` while both tables stand still and are up to date.

        Raises:
            ChecksumFailure: when the lock was not to be had.
        """
        pause = _FIRST_PAUSE
        longest = 0.0
        last: MigrationFailure | None = None
        for attempt in range(1, self.options.lock_attempts + 1):
            self.stop.check()
            allowed = self._allowed(attempt)
            self.on_wait(f"the table lock of its snapshot (request {attempt})")
            try:
                waited, held = self._attempt(open_snapshots, allowed)
            except (ServerFault, ChangesNotFlushed) as error:
                if isinstance(error, ServerFault) and disposition(error) is not Disposition.RETRY:
                    raise
                last = error
                longest = max(longest, allowed * 1000.0)
                if self.stop.wait(pause):
                    self.stop.check()
                pause = min(_LONGEST_PAUSE, pause * 2)
            else:
                self.on_wait("")
                return LockFigures(waited_ms=max(longest, waited), held_ms=held, attempts=attempt)
        name = f"{self.mapping.source.schema}.{self.mapping.source.name}"
        reason = last.message if last is not None else "no attempt was allowed"
        raise ChecksumFailure(
            f"the checksum could not lock {name} for its snapshot: {reason}",
            hint="end the long transactions on the table, then run the same command again",
        ) from last

    def _allowed(self, attempt: int) -> int:
        """Give the seconds that a request, from 1, may wait: new writers wait behind it."""
        return min(self.options.lock_wait_timeout, 1 << ((attempt - 1) // _SAME_WAIT))

    def _attempt(self, open_snapshots: Callable[[], None], allowed: int) -> tuple[float, float]:
        """Try once; give the milliseconds waited and held."""
        if self.feed is not None:
            self.feed.flush()
            self.feed.block_wait(_FLUSH_SECONDS)
        # LOCK TABLES may hold the new table while it queues for the source: nothing of ours
        # may want to write there meanwhile.
        with contextlib.ExitStack() as stack:
            if self.feed is not None:
                stack.enter_context(self.feed.applies_paused())
            locks = stack.enter_context(self._sessions(allowed))
            waited = 0.0
            began: float | None = None
            try:
                for lock, _ in locks:
                    lock.acquire()
                    waited += lock.waited_ms
                    began = began or time.monotonic()
                self._under_lock(locks, open_snapshots)
                for lock, _ in locks:
                    lock.verify()
                    lock.release()
                held = (time.monotonic() - (began or time.monotonic())) * 1000
            finally:
                for _, session in locks:
                    session.close()
        return waited, held

    def _under_lock(
        self, locks: list[tuple[TableLock, Session]], open_snapshots: Callable[[], None]
    ) -> None:
        """Bring the new table up to date, then open the snapshots."""
        if self.feed is not None:
            session = locks[0][1]
            self.feed.block_wait(_FLUSH_SECONDS)
            self.feed.flush_under_table_lock(session)
            if not self.feed.all_changes_flushed():
                raise ChangesNotFlushed(
                    "changes were left after the flush under the lock",
                    hint="run the same command again when the load is lower",
                )
        open_snapshots()

    @contextlib.contextmanager
    def _sessions(self, allowed: int) -> Iterator[list[tuple[TableLock, Session]]]:
        """Open the locking sessions, one for each server."""
        source = (self.mapping.source.schema, self.mapping.source.name)
        target = (self.mapping.target.schema, self.mapping.target.name)
        wanted: list[tuple[ConnectionOptions, dict[str, Any]]]
        if self.target is None:
            # Only with a feed is the new table written, and that through this session.
            readable = [source] if self.feed is not None else [source, target]
            wanted = [(self.source, {"tables": [source, target], "read_only": readable})]
        else:
            wanted = [
                (self.source, {"tables": [source], "read_only": [source]}),
                (self.target, {"tables": [target], "read_only": [target]}),
            ]
        with contextlib.ExitStack() as stack:
            locks: list[tuple[TableLock, Session]] = []
            for options, tables in wanted:
                session = connect(
                    options,
                    role="checksum-lock",
                    lock_wait_timeout=allowed,
                )
                stack.callback(session.close)
                locks.append((TableLock(session, **tables), session))
            yield locks

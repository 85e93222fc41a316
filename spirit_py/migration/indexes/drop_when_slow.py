"""Drop indexes in the middle of the copy when it has become slow because of them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.errors import SpiritError
from spirit_py.events.copy import IndexesDropped
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import retrying
from spirit_py.threads import Background

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from spirit_py.migration.checkpoints import Checkpoints
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.run import Run

WINDOW: Final = 5.0
"""Seconds over which the rate of inserted rows is measured."""
FALL: Final = 3.0
"""How many times slower than in its best window the copy is when the indexes are dropped."""
_WINDOWS: Final = 2
_LOOK_SECONDS: Final = 0.5
_LOCK_WAIT: Final = 3
_ATTEMPTS: Final = 4


@dataclass
class FallingRate:
    """Whether rows are inserted much more slowly than in the best window (no I/O)."""

    best: float = 0.0
    slow: int = 0
    _since: float | None = field(default=None, init=False)
    _rows: int = field(default=0, init=False)

    def observe(self, now: float, rows: int, *, waits: bool) -> bool:
        """Note the rows copied; return whether the rate fell for good. Waits do not count."""
        if self._since is None or waits:
            self._since, self._rows = now, rows
            return False
        if now - self._since < WINDOW:
            return False
        rate = (rows - self._rows) / (now - self._since)
        self._since, self._rows = now, rows
        self.best = max(self.best, rate)
        self.slow = self.slow + 1 if rate * FALL <= self.best else 0
        return self.slow >= _WINDOWS


@contextlib.contextmanager
def dropping_when_slow(
    run: Run, pair: CopiedPair, checkpoints: Checkpoints | None
) -> Iterator[None]:
    """Watch the copy of a table in the context; drop its indexes if it becomes slow.

    At once where a resumed run defers them, and the earlier one did not.
    """
    if pair.plan.at_once and not pair.plan.left_out:
        leave_out(run, pair, checkpoints)
    if not pair.plan.may_fall or pair.deferred:
        yield
        return

    def watch(ended: threading.Event) -> None:
        rate = FallingRate()
        while not ended.wait(_LOOK_SECONDS):
            rows, waits = pair.speed()
            if rate.observe(time.monotonic(), rows, waits=waits):
                why = f"inserted {FALL:.0f} times more slowly than before"
                run.tell(
                    IndexesDropped(
                        table=pair.name,
                        indexes=list(pair.plan.deferred.names),
                        reason=f"rows are {why}",
                        why=why,
                        listed=str(pair.plan.deferred),
                    )
                )
                leave_out(run, pair, checkpoints)
                return

    with Background("falling-rate", watch):
        yield


def leave_out(run: Run, pair: CopiedPair, checkpoints: Checkpoints | None) -> None:
    """Drop the indexes of a table with rows, if possible; the record has both definitions first."""
    deferred = pair.plan.deferred

    def drop() -> None:
        with connect(run.config.connection, role="index", lock_wait_timeout=_LOCK_WAIT) as session:
            deferred.drop(session)

    pair.deferred = deferred
    if checkpoints is not None and not checkpoints.note():
        pair.deferred = pair.plan.none
        run.warn(f"the indexes {deferred} stay: the checkpoint cannot be written now")
        return
    try:
        retrying(run.stop, attempts=_ATTEMPTS)(drop)
    except SpiritError as error:
        run.stop.check()
        run.warn(f"the indexes {deferred} of {deferred.table} stay: {error.message}")

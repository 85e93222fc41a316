"""One try of a cutover: its sessions, its proofs, its times."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import Clock
    from spirit_py.mysql.locks.table import TableLock
    from spirit_py.mysql.locks.watch import LockWatch
    from spirit_py.mysql.session import Session


class TryFailed(Exception):
    """A try was given up cleanly: nothing is locked, nothing was renamed, the feed goes on."""


@dataclass(kw_only=True)
class Attempt:
    """What is known of the try that is under way.

    Attributes:
        session: the locking session.
        fence: the named lock that this session holds as long as it can do anything.
        server: ``server_uuid`` of its server.
        held_from: when the table lock was got; None before.
        position: the feed's safe position, everything being applied.
        answer_lost: the answer to RENAME was lost; the session is closed.
        after_rename: the place behind the RENAME; empty when it was not noted.
        steps_ms: milliseconds of each step under the lock.
        held_ms: milliseconds that the lock was held.
    """

    number: int
    session: Session
    fence: str
    server: str
    watch: LockWatch
    lock: TableLock
    clock: Clock
    held_from: float | None = None
    position: str = ""
    answer_lost: bool = False
    after_rename: str = ""
    steps_ms: dict[str, float] = field(default_factory=dict)
    held_ms: float = 0.0

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step under the lock."""
        began = self.clock()
        try:
            yield
        finally:
            self.steps_ms[name] = (self.clock() - began) * 1000

    def held_for(self) -> float:
        """Return the seconds for which the lock has been held; 0 before."""
        return 0.0 if self.held_from is None else self.clock() - self.held_from

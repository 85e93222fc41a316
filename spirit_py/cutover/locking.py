"""The session that locks and renames, and the named lock (fence) that shows whether it ended."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
import threading
from typing import TYPE_CHECKING, Final

from spirit_py.cutover.rename import end_locking_session
from spirit_py.locks.named import take_named_lock
from spirit_py.locks.table import open_lock_session
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.cutover.plan import CutoverPlan
    from spirit_py.mysql.session import Session

_LOG = logging.getLogger(__name__)
_END_SECONDS: Final = 10.0
_TURN_SECONDS: Final = 0.0005


def open_locking_session(
    opened: contextlib.ExitStack, plan: CutoverPlan, *, wait: int
) -> tuple[Session, str]:
    """Open the locking session, new in each try, and take its fence; ``opened`` ends both.

    Args:
        wait: seconds that each table may be waited for.
    """
    session = open_lock_session(
        plan.connection,
        role="cutover",
        wait=wait,
        hold=plan.limits.lock_hold,
        # A DELETE of several tables with aliases asks for a default database.
        database=plan.swaps[0].schema,
    )
    fence = lock_name("cutover", secrets.token_hex(8))
    opened.callback(_end, plan.connection, session, fence, min(_END_SECONDS, plan.limits.look))
    take_named_lock(session, fence)
    return session, fence


def _end(connection: ConnectionOptions, session: Session, fence: str, patience: float) -> None:
    """Close the locking session, and wait until the server has ended it too.

    A session that lost its connection while it waited for the lock would still get it.
    """
    lost = not session.alive()
    session.close()
    if lost and not end_locking_session(connection, fence=fence, patience=patience):
        _LOG.warning("could not see whether session %d has ended", session.id)


class _SwitchInterval:
    """The interpreter's switch interval: one value for all swaps that happen at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._usual = 0.0

    def enter(self) -> None:
        with self._lock:
            if not self._users:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_TURN_SECONDS)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._usual)


_SWITCH_INTERVAL: Final = _SwitchInterval()


@contextlib.contextmanager
def quick_turns() -> Iterator[None]:
    """Switch threads quickly, so that a thread with an answer from the server runs soon.

    Otherwise a computing thread, such as the feed's reader, keeps the interpreter for 5 ms each
    time, and about ten answers are waited for under the lock. The last swap of those that happen
    at the same time sets the usual interval again.
    """
    _SWITCH_INTERVAL.enter()
    try:
        yield
    finally:
        _SWITCH_INTERVAL.leave()

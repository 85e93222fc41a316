"""Finds out on a new connection what became of a session that was lost, and of its RENAME (R15)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.cutover.names import existing
from spirit_py.cutover.verdict import NO_ANSWER, Evidence, Verdict, judge
from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.locks.named import named_lock_holder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.cutover.plan import Swap

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = {Verdict.END_SESSION: 0.02, Verdict.LOOK_AGAIN: 0.5}
_READ_TIMEOUT: Final = 10


def look(options: ConnectionOptions, *, fence: str, swaps: Sequence[Swap]) -> Evidence:
    """Look once, on a new connection; NO_ANSWER where that is impossible.

    The tables are only looked at when the fence is free. A session that still holds it is
    killed: no other can hold that name.
    """
    try:
        with connect(options, role="look", read_timeout=_READ_TIMEOUT) as session:
            server = str(session.value("SELECT @@server_uuid"))
            holder = named_lock_holder(session, fence)
            if holder is not None:
                kill_session(session, holder)
                return Evidence(server=server, fence=holder)
            return Evidence(server=server, tables=tuple(existing(session, swap) for swap in swaps))
    except ServerFault as fault:
        _LOG.info("cannot look at the tables: %s", fault.message)
        return NO_ANSWER


def end_locking_session(
    options: ConnectionOptions, *, fence: str, patience: float, clock: Clock = time.monotonic
) -> bool:
    """See to it that the session that took the fence has ended; False when that is not known."""
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        evidence = look(options, fence=fence, swaps=())
        if evidence.server is not None and evidence.fence is None:
            return True
        if clock() >= deadline:
            return False
        sleeper.wait(_PAUSE_SECONDS[Verdict.END_SESSION])


def find_outcome(
    options: ConnectionOptions,
    *,
    fence: str,
    server: str,
    swaps: Sequence[Swap],
    patience: float,
    clock: Clock = time.monotonic,
) -> Verdict:
    """Look until the outcome is known; UNKNOWN when it is not within ``patience`` seconds.

    A stop request does not end this: the operator needs the answer.

    Args:
        fence: the named lock that the lost session held.
        server: ``server_uuid`` of the server that was sent the RENAME.
    """
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        verdict = judge(look(options, fence=fence, swaps=swaps), server=server)
        if verdict not in _PAUSE_SECONDS:
            return verdict
        if clock() >= deadline:
            return Verdict.UNKNOWN
        sleeper.wait(_PAUSE_SECONDS[verdict])

"""Sends the RENAME, once, in the session that holds the lock, and finds out its outcome (R15)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.cutover.names import existing
from spirit_py.cutover.plan import TryFailed
from spirit_py.cutover.verdict import NO_ANSWER, Evidence, Verdict, judge
from spirit_py.errors import OutcomeUnknown, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.locks.named import named_lock_holder
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.cutover.plan import CutoverPlan, Swap
    from spirit_py.mysql.session import Session

_LOG = logging.getLogger(__name__)
_KILLED_PAUSE: Final = 0.02
_NO_ANSWER_PAUSE: Final = 0.5
_READ_TIMEOUT: Final = 10


def rename(session: Session, plan: CutoverPlan, *, fence: str, server: str) -> bool:
    """Rename all tables in one statement; when its answer is lost, find out whether it was done.

    Args:
        session: closed when the answer is lost.
        fence: the named lock that the session holds.
        server: ``server_uuid`` of its server.

    Returns:
        True when the answer came; False when it was lost and the tables prove the swap.

    Raises:
        ServerFault: the server refused.
        TryFailed: it is proven that it was not done, and that nothing can do it any more.
        OutcomeUnknown: neither could be proven.
    """
    moves = ", ".join(
        f"{quote_table(swap.schema, before)} TO {quote_table(swap.schema, after)}"
        for swap in plan.swaps
        for before, after in ((swap.table, swap.old), (swap.new, swap.table))
    )
    points.reach("cutover.rename")
    try:
        session.execute(f"RENAME TABLE {moves}")
    except ServerFault as fault:
        if disposition(fault, committing=True) is not Disposition.UNKNOWN:
            raise
        lost: BaseException = fault
    except BaseException as interruption:
        # A second SIGINT while the driver waited: the server has received the statement.
        lost = interruption
    else:
        return True
    plan.message(f"the answer to RENAME was lost ({lost}); looking at the tables")
    session.close()
    verdict = find_outcome(
        plan.connection,
        fence=fence,
        server=server,
        swaps=plan.swaps,
        patience=plan.limits.look,
        clock=plan.clock,
    )
    if verdict is Verdict.NOT_DONE:
        raise TryFailed(f"the connection was lost before RENAME took effect: {lost}") from lost
    if verdict is not Verdict.DONE:
        swap = plan.swaps[0]
        raise OutcomeUnknown(
            f"the answer to RENAME was lost, and whether it was done could not be seen: {lost}",
            hint="look at the tables: the swap is done if"
            f" {quote_table(swap.schema, swap.old)} exists and"
            f" {quote_table(swap.schema, swap.new)} does not; else nothing has changed",
        ) from lost
    return False


def find_outcome(
    options: ConnectionOptions,
    *,
    fence: str,
    server: str,
    swaps: Sequence[Swap],
    patience: float,
    clock: Clock = time.monotonic,
) -> Verdict:
    """Query until the outcome is known; UNKNOWN when it is not within ``patience`` seconds.

    A stop request does not end this: the operator needs the answer.

    Args:
        fence: the named lock that the lost session held.
        server: ``server_uuid`` of the server that was sent the RENAME.
    """
    for evidence in _looks(options, fence, swaps, patience, clock):
        verdict = judge(evidence, server=server)
        if verdict not in {Verdict.END_SESSION, Verdict.LOOK_AGAIN}:
            return verdict
    return Verdict.UNKNOWN


def end_locking_session(options: ConnectionOptions, *, fence: str, patience: float) -> bool:
    """Wait until the session that took the fence has ended; False when that is not known."""
    looks = _looks(options, fence, (), patience, time.monotonic)
    return any(evidence.server and evidence.fence is None for evidence in looks)


def _looks(
    options: ConnectionOptions, fence: str, swaps: Sequence[Swap], patience: float, clock: Clock
) -> Iterator[Evidence]:
    """Yield what is seen, again and again, for ``patience`` seconds; at least once."""
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        evidence = look(options, fence=fence, swaps=swaps)
        yield evidence
        if clock() >= deadline:
            return
        sleeper.wait(_NO_ANSWER_PAUSE if evidence is NO_ANSWER else _KILLED_PAUSE)


def look(options: ConnectionOptions, *, fence: str, swaps: Sequence[Swap]) -> Evidence:
    """Query once, on a new connection; NO_ANSWER where that is impossible.

    The tables are read only when the fence is free. A session that still holds it is killed: only
    the locking session takes a lock of that name.
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

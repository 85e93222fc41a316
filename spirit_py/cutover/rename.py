"""Sends the RENAME, once, in the session that holds the lock, and returns when it is done (R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.cutover.outcome import find_outcome
from spirit_py.cutover.plan import TryFailed
from spirit_py.cutover.verdict import Verdict
from spirit_py.errors import OutcomeUnknown, ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from spirit_py.cutover.plan import CutoverPlan, Swap
    from spirit_py.mysql.session import Session


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
        # A second SIGINT while the driver waited: the server has its statement all the same.
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
        raise _unknown(plan.swaps[0], lost) from lost
    return False


def _unknown(swap: Swap, lost: BaseException) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the answer to RENAME was lost, and whether it was done could not be seen: {lost}",
        hint="look at the tables: the swap is done if"
        f" {quote_table(swap.schema, swap.old)} exists and"
        f" {quote_table(swap.schema, swap.new)} does not; else nothing has changed",
    )

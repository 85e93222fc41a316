"""Sends the RENAME, once, in the session that holds the lock; knows afterwards what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.cutover.attempt import Attempt, TryFailed
from spirit_py.cutover.look import find_outcome
from spirit_py.cutover.verdict import Verdict
from spirit_py.errors import OutcomeUnknown, ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.cutover.plan import Swap


def rename(
    attempt: Attempt,
    connection: ConnectionOptions,
    swaps: Sequence[Swap],
    *,
    patience: float,
    message: Callable[[str], None],
) -> None:
    """Rename all tables of a try in one statement; when its answer is lost, find out.

    Args:
        connection: how to reach the server for a look, when the try's session is gone.
        patience: seconds to look for the outcome.

    Raises:
        ServerFault: the server refused.
        TryFailed: it is proven that it was not done, and that nothing can do it any more.
        OutcomeUnknown: neither could be proven.
    """
    moves = ", ".join(
        f"{quote_table(swap.schema, before)} TO {quote_table(swap.schema, after)}"
        for swap in swaps
        for before, after in ((swap.table, swap.old), (swap.new, swap.table))
    )
    points.reach("cutover.rename")
    try:
        attempt.session.execute(f"RENAME TABLE {moves}")
    except ServerFault as fault:
        if disposition(fault, committing=True) is not Disposition.UNKNOWN:
            raise
        lost: BaseException = fault
    except BaseException as interruption:
        # A second SIGINT while the driver waited: the server has its statement all the same.
        lost = interruption
    else:
        return
    message(f"the answer to RENAME was lost ({lost}); looking at the tables")
    attempt.answer_lost = True
    attempt.session.close()
    verdict = find_outcome(
        connection,
        fence=attempt.fence,
        server=attempt.server,
        swaps=swaps,
        patience=patience,
        clock=attempt.clock,
    )
    if verdict is Verdict.NOT_DONE:
        raise TryFailed(f"the connection was lost before RENAME took effect: {lost}") from lost
    if verdict is not Verdict.DONE:
        raise _unknown(swaps[0], lost) from lost


def _unknown(swap: Swap, lost: BaseException) -> OutcomeUnknown:
    """Build the error of a swap that may have happened."""
    return OutcomeUnknown(
        f"the answer to RENAME was lost and what came of it was not to be seen: {lost}",
        hint="look at the tables: the swap is done if"
        f" {quote_table(swap.schema, swap.old)} exists and"
        f" {quote_table(swap.schema, swap.new)} does not; else nothing has changed",
    )

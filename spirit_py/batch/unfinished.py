"""What the migration of a table will do with what an earlier one has left beside it; read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Wanted, decide
from spirit_py.checkpoint.look import look
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.migration.resuming import statement_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import PreflightContext


def what_becomes_of_it(
    session: SqlSession, config: MigrationConfig, contexts: Sequence[PreflightContext]
) -> str:
    """Return what is done with it, for the plan.

    Raises:
        Refusal: the operator must look, or agree to drop what is copied.
        ServerFault: what is there could not be examined.
        FeedFailure: nor could the binlog.
    """
    tables = [(context.schema, context.table) for context in contexts]
    wanted = Wanted(
        statement=statement_of(contexts), max_age=config.checkpoint_max_age, modes=config.modes
    )
    decision = decide(look(session, config.connection, tables), wanted)
    if isinstance(decision, Refuse | GiveUp):
        raise Refusal(decision.reason, hint=decision.hint, error_code=ErrorCode.CANNOT_RESUME)
    if isinstance(decision, Afresh):
        if decision.throws_away and not config.start_afresh:
            raise Refusal(
                f"an unfinished migration would be dropped: {decision.reason}",
                hint=f"to carry on with it: {decision.instead}; to drop it: --start-afresh",
                error_code=ErrorCode.CANNOT_RESUME,
            )
        return f"copied afresh: {decision.reason}" if decision.reason else "copied"
    return f"carried on: {decision.reason}"

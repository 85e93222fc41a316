"""The first screen of a migration: its plan in short, as far as it costs next to nothing.

Whether the server changes the table in place is decided after it, and reported then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spirit_py.errors import SpiritError
from spirit_py.events import EventName
from spirit_py.plan import brief_plan, brief_text

if TYPE_CHECKING:
    from spirit_py.checkpoint.decision import Afresh, Resume
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext

_log = logging.getLogger(__name__)


def show_plan(
    run: Run,
    session: Session,
    contexts: tuple[PreflightContext, ...],
    decision: Resume | Afresh,
) -> None:
    """Report what will happen; a plan that cannot be made hinders nothing."""
    try:
        plan = brief_plan(session, run.config, contexts, decision, run.report.warnings)
    except SpiritError:
        _log.debug("the plan could not be made", exc_info=True)
        return
    run.tell(EventName.PLAN_MADE, brief_text(plan), plan=plan.to_dict())

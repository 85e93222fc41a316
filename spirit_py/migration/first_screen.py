"""The first screen of a migration: its plan in short, as far as it costs next to nothing.

A terminal shows a dozen lines or two, with the new definition as a diff; a log gets one line. No
row is read for it: no sample, no search for duplicates. Whether the server changes the table in
place is decided after it, and reported then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spirit_py.events.run import PlanMade
from spirit_py.plan import brief_plan, brief_text, screen_of
from spirit_py.plan.text import STYLES

if TYPE_CHECKING:
    from spirit_py.checkpoint.decision import Afresh, Resume
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext

_log = logging.getLogger(__name__)


def show_plan(
    run: Run,
    contexts: tuple[PreflightContext, ...],
    decision: Resume | Afresh,
) -> None:
    """Report what will happen; a plan that cannot be made hinders nothing."""
    try:
        plan = brief_plan(run.config, contexts, decision, run.report.warnings)
    except Exception:
        # Whatever it is: the plan is for reading, and the migration does not need it.
        _log.debug("the plan could not be made", exc_info=True)
        return
    deferred = any(table.indexes is not None and table.indexes.deferred for table in plan.tables)
    screen = [(line.text, STYLES[line.style]) for line in screen_of(plan)]
    run.tell(
        PlanMade(plan=plan.to_dict(), said=brief_text(plan), shown=screen, builds_indexes=deferred)
    )

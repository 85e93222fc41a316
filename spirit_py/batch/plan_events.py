"""The plan of a batch as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.events.batch import BatchPlanned, TablePlanned
from spirit_py.events.run import Summary

if TYPE_CHECKING:
    from spirit_py.batch.plan import BatchPlan
    from spirit_py.events.event import Tell


def tell_plan(plan: BatchPlan, tell: Tell) -> None:
    """Report the plan, table by table."""
    tell(
        BatchPlanned(
            said=plan.counts(),
            tables=len(plan.tables),
            refused=len(plan.refused),
            left=len(plan.left),
        )
    )
    for one in plan.tables:
        first, *others = one.lines()
        tell(
            TablePlanned(
                said=first.strip(),
                table=f"{one.change.schema}.{one.change.table}",
                action=one.action,
                refusals=list(one.refusals),
            )
        )
        for line in others:
            tell(Summary(said=line))
    for line in plan.remarks():
        tell(Summary(said=line))

"""The plan of a batch: that of each of its tables, with totals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.batch.plan import plan_batch
from spirit_py.plan import Plan, make_plan
from spirit_py.plan.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.batch.plan import BatchPlan, PlannedTable
    from spirit_py.config import BatchConfig
    from spirit_py.plan.model import TablePlan
    from spirit_py.stop import StopSwitch


def plan_of_batch(
    config: BatchConfig, *, stop: StopSwitch | None = None, sample: bool = True
) -> Plan:
    """Return the plan of a batch; write nothing.

    Raises:
        Refusal: the server cannot be used, or what is asked for is not clear.
        ServerFault: the connection was lost.
    """
    batch = plan_batch(config)
    made = [
        (planned, make_plan(planned.change.config(config.each), stop=stop, sample=sample))
        for planned in batch.tables
        if not (planned.done or planned.passed)
    ]
    plans = [plan for _, plan in made]
    known = {note.cause for plan in plans for note in plan.refusals}
    first = plans[0] if plans else Plan(server=config.each.connection.address)
    return replace(
        first,
        together=False,
        tables=tuple(_shown(planned, one) for planned, plan in made for one in plan.tables),
        replicas=tuple(dict.fromkeys(line for plan in plans for line in plan.replicas)),
        pace=tuple(dict.fromkeys(line for plan in plans for line in plan.pace)),
        warnings=_without_repetition(note for plan in plans for note in plan.warnings),
        refusals=(
            *_without_repetition(note for plan in plans for note in plan.refusals),
            *_of_batch(batch, known),
        ),
        batch=tuple(_lines(batch)),
    )


def _shown(planned: PlannedTable, plan: TablePlan) -> TablePlan:
    return replace(plan, differs=planned.differs)


def _without_repetition(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return notes of one cause once; with the first of its tables."""
    found: dict[tuple[str, str], Note] = {}
    for note in notes:
        found.setdefault((note.cause, note.remedy), note)
    return tuple(found.values())


def _of_batch(batch: BatchPlan, known: set[str]) -> Iterator[Note]:
    """Yield the refusals that only a batch has."""
    for planned in batch.refused:
        cause = planned.refusals[0]
        if not any(cause == one or one in planned.refusals for one in known) and not (
            cause.endswith("nothing was written") and known
        ):
            remedy = next((x for x in planned.refusals if x.startswith("hint: ")), "")
            yield Note(cause=cause, remedy=remedy.removeprefix("hint: "), table=str(planned.change))


def _lines(batch: BatchPlan) -> Iterator[str]:
    done = [str(one.change) for one in batch.tables if one.done or one.passed]
    if done:
        yield f"{len(done)} table(s) done by an earlier run: {', '.join(done)}"
    yield from (
        f"{one}, which an earlier run was to change and has not, is not among them"
        for one in batch.lost
    )
    yield from batch.room

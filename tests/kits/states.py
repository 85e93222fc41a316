"""What cannot be in the state of a run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from spirit_py.phases import AFTER_SWAP, TRANSITIONS, Phase
from spirit_py.status.report import REVERTED

if TYPE_CHECKING:
    from spirit_py.migration.state import State


def validate(state: State) -> list[str]:
    """Return what cannot be, a line each; empty where the state is sound."""
    report, passed = state.report, [phase for phase, _ in state.phases.history]
    way = [*passed, state.phase]
    made = ("done", REVERTED)
    swapped = not (AFTER_SWAP - {Phase.DONE}).isdisjoint(way)
    broken = {
        "the phases do not begin with the first one": way[0] is not Phase.PREFLIGHT,
        "a phase follows that may not": any(
            later not in TRANSITIONS[earlier] for earlier, later in pairwise(way)
        ),
        "seconds of a phase are below zero": any(spent < 0 for _, spent in state.phases.history),
        "rows are copied of no table": Phase.COPY in way and not report.tables,
        "rows are copied, and no algorithm says so": (
            Phase.COPY in way and report.algorithm != "copy"
        ),
        "a swap was made without a comparison": report.cutover_attempts > 0 and not state.clean_at,
        "a table is changed in place and copied": state.altered and Phase.COPY in way,
        "an outcome is known and not known": state.altering and state.altered,
        "it is done, and its last phase is not": (
            report.outcome in made and state.phase is not Phase.DONE
        ),
        "it is reverted, and its outcome is another": report.outcome == "done" and report.reverted,
        "it is done, and can be resumed": report.outcome in made and report.resumable,
        "it is done, and has an error": report.outcome in (*made, "rehearsed") and report.error,
        "a dry run has swapped": report.outcome == "rehearsed" and swapped,
        "it was reverted before it was swapped": report.reverted and not swapped,
        "the tables are changed, and it is not known": (
            report.outcome in made and not state.changed
        ),
    }
    return [why for why, so in broken.items() if so]

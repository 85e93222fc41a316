"""What a run knows of its migration: one frozen state, and all that changes it (pure).

Parts report what happened. Most of it is an event, which people and programs see
(:mod:`spirit_py.events`); what only the run itself needs is a :class:`Fact`. :func:`apply` returns
the state after either, and is the only place where a state is made of another one. The owner is a
:class:`spirit_py.migration.journal.Journal`. Report, display, ``status`` and the decisions of
operators' requests are functions of the state, and of the figures that parts count themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from spirit_py.events.checksum import ChecksumDone
from spirit_py.events.copy import (
    BinlogExpires,
    CheckpointWritten,
    FeedBegun,
    IndexesBuilt,
    IndexesDropped,
)
from spirit_py.events.run import (
    AlgorithmChosen,
    PhaseEntered,
    PlanMade,
    ResumeDecided,
    StatementRead,
    Warned,
)
from spirit_py.phases import AFTER_SWAP, TRANSITIONS, Phase, PhaseLog, with_index_build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.events.event import Event
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.status.report import MigrationReport

#: A wait that goes on after so short a break is the same wait.
_SAME_WAIT_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What is waited for.

    Attributes:
        what: for display; empty for nothing.
        began: when the wait began, and ``ended`` when the last one did, on the monotonic clock.
    """

    what: str = ""
    began: float = float("-inf")
    ended: float = float("-inf")

    def then(self, what: str, now: float) -> Wait:
        """Return what is waited for from now on."""
        new = what and not self.what and now - self.ended > _SAME_WAIT_SECONDS
        return Wait(
            what=what,
            began=now if new else self.began,
            ended=now if self.what and not what else self.ended,
        )

    def seconds(self, now: float) -> float | None:
        """Return for how long it was waited; None where nothing is waited for."""
        return now - self.began if self.what else None


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a migration is, and what was decided. Times are of the monotonic clock, in seconds.

    Attributes:
        report: what the report says so far; nobody changes it but :func:`apply`.
        began: when the run began.
        phases: those that were entered.
        planned: the phases that the run goes through if it must copy.
        estimates: the server's estimates of the sources' rows.
        copied_before: rows and chunks of tables that earlier runs have copied as a whole.
        clean_at: when the last clean comparison of each table ended, by ``schema.table``.
        built: part of the indexes of one table that is built; None where the server does not show
            it.
        binlog_left: seconds for which the server keeps what a stopped run would read first.
        waits: what is waited for now.
        checkpoint_at: when the last checkpoint was written; None before the first.
        resumable: a record that can be resumed from is in the checkpoint table.
        swapped_before: an earlier run has swapped the tables.
        altering: a change in place was sent, or is about to be, and its outcome is not known yet.
        altered: it was made; set when ``altering`` ends.
        undeferred: an operator wants the swap not to wait for a sentinel of ours.
        postponements: how often an operator has postponed the swap, each counted once its sentinel
            is there.
        changed: the tables are changed; what proves that is dropped later.
        leaving: the teardown has begun.
    """

    report: MigrationReport
    began: float = 0.0
    phases: PhaseLog = field(default_factory=PhaseLog)
    planned: tuple[Phase, ...] = ()
    estimates: Mapping[Name, int] = field(default_factory=dict)
    copied_before: Mapping[Name, tuple[int, int]] = field(default_factory=dict)
    clean_at: Mapping[str, float] = field(default_factory=dict)
    built: float | None = None
    binlog_left: float | None = None
    waits: Wait = field(default_factory=Wait)
    checkpoint_at: float | None = None
    resumable: bool = False
    swapped_before: bool = False
    altering: bool = False
    altered: bool = False
    undeferred: bool = False
    postponements: int = 0
    changed: bool = False
    leaving: bool = False

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self.phases.current

    @property
    def table(self) -> str:
        """The table that every event is about; empty where there are several."""
        return self.report.tables[0] if len(self.report.tables) == 1 else ""

    def checkpoint_age(self, now: float) -> float | None:
        """Return the seconds since the last checkpoint; None before the first."""
        return None if self.checkpoint_at is None else now - self.checkpoint_at


class Fact:
    """Something that happened, and that only the run itself needs to know."""


@dataclass(frozen=True)
class WaitsFor(Fact):
    """What is waited for now; empty for nothing."""

    what: str


@dataclass(frozen=True)
class IndexBuildPlanned(Fact):
    """Whether indexes are built after the copy is decided."""

    built: bool


@dataclass(frozen=True)
class IndexesLaidDown(Fact):
    """What is done with the indexes of one table, as the report says it."""

    said: str


@dataclass(frozen=True)
class IndexesTried(Fact):
    """A build of indexes has ended, in whatever way."""

    seconds: float
    tries: int


@dataclass(frozen=True)
class IndexesUnderWay(Fact):
    """The part that is built; None where the server does not show it."""

    built: float | None


@dataclass(frozen=True)
class TableCopiedBefore(Fact):
    """An earlier run has copied all rows of a table."""

    table: Name
    rows: int
    chunks: int


@dataclass(frozen=True)
class RecordStays(Fact):
    """A record that can be resumed from is in the checkpoint table."""


@dataclass(frozen=True)
class Rehearsed(Fact):
    """What a migration costs was measured, while the new tables were there."""

    figures: dict[str, Any]
    lines: list[str]


@dataclass(frozen=True)
class Swapped(Fact):
    """The cutover has ended with a swap."""

    result: CutoverResult


@dataclass(frozen=True)
class TablesChanged(Fact):
    """The tables are changed; told again by a run that carries on after that."""


@dataclass(frozen=True)
class OldTablesLeft(Fact):
    """Old tables that stay, in the operator's hands."""

    tables: list[str]


@dataclass(frozen=True)
class Reverted(Fact):
    """A revert was made."""


@dataclass(frozen=True)
class BinlogReaches(Fact):
    """For how long the server keeps what a stopped run would read first; None for ever."""

    seconds: float | None


@dataclass(frozen=True)
class AlterSent(Fact):
    """A change in place is sent, or about to be."""


@dataclass(frozen=True)
class AlterAnswered(Fact):
    """The outcome of a change in place is known."""

    made: bool


@dataclass(frozen=True)
class SwapPostponed(Fact):
    """An operator has postponed the swap; its sentinel is there."""


@dataclass(frozen=True)
class SwapWanted(Fact):
    """Whether an operator wants the swap not to wait for a sentinel of ours."""

    wanted: bool


@dataclass(frozen=True)
class TeardownBegun(Fact):
    """The run ends: what it keeps or drops is decided next."""


@dataclass(frozen=True)
class StaysResumable(Fact):
    """The run ends, and the same command carries on."""


@dataclass(frozen=True)
class Counted(Fact):
    """What parts have counted, by the names of the report."""

    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Concluded(Fact):
    """The run has come to its end: ``done`` or ``rehearsed``."""

    outcome: str


@dataclass(frozen=True)
class Broken(Fact):
    """An error has ended the run."""

    error: BaseException


def apply(state: State, happened: Event | Fact, now: float) -> State:
    """Return the state after something happened; the same where it changes nothing.

    Raises:
        IllegalTransition: a phase is entered that may not follow.
    """
    return _after(happened, state, now)


@singledispatch
def _after(_happened: Event | Fact, state: State, _now: float) -> State:
    return state


def _reported(state: State, **changes: Any) -> State:
    return replace(state, report=replace(state.report, **changes))


# -- what is to be done


@_after.register
def _(read: StatementRead, state: State, _now: float) -> State:
    schema, table = read.names[0]
    versions = {**state.report.versions, "mysql": read.mysql}
    return replace(
        _reported(
            state,
            schema=schema,
            table=table,
            tables=list(read.tables),
            statement=read.statement,
            versions=versions,
        ),
        estimates=dict(read.estimates),
    )


@_after.register
def _(made: PlanMade, state: State, _now: float) -> State:
    # What the new tables show in the end may differ; it is the phase's line of steps until then.
    return replace(state, planned=with_index_build(state.planned, built=made.builds_indexes))


@_after.register
def _(decided: ResumeDecided, state: State, _now: float) -> State:
    resumes = decided.decision == "resume"
    said = f"carrying on: {decided.reason}" if resumes else decided.said
    reported = _reported(
        state, runs=decided.number, rows_copied_before=decided.rows_copied, resumed=said
    )
    if not resumes:
        return reported
    return replace(_reported(reported, algorithm="copy"), swapped_before=decided.swapped)


@_after.register
def _(chosen: AlgorithmChosen, state: State, _now: float) -> State:
    return _reported(state, algorithm=chosen.algorithm, reason=chosen.reason)


@_after.register
def _(planned: IndexBuildPlanned, state: State, _now: float) -> State:
    return replace(state, planned=with_index_build(state.planned, built=planned.built))


@_after.register
def _(laid: IndexesLaidDown, state: State, _now: float) -> State:
    return _reported(state, indexes_plan=[*state.report.indexes_plan, laid.said])


# -- its course


@_after.register
def _(entered: PhaseEntered, state: State, now: float) -> State:
    waits = replace(state.waits, what="", ended=float("-inf"))
    phases = state.phases.entered(Phase(entered.phase), now)
    return replace(state, phases=phases, waits=waits, built=None)


@_after.register
def _(waits: WaitsFor, state: State, now: float) -> State:
    return replace(state, waits=state.waits.then(waits.what, now))


@_after.register
def _(begun: FeedBegun, state: State, _now: float) -> State:
    return _reported(state, start_position=begun.position)


@_after.register
def _(reaches: BinlogReaches, state: State, _now: float) -> State:
    return replace(state, binlog_left=reaches.seconds)


@_after.register
def _(copied: TableCopiedBefore, state: State, _now: float) -> State:
    before = {**state.copied_before, copied.table: (copied.rows, copied.chunks)}
    return replace(state, copied_before=before)


@_after.register
def _(_dropped: IndexesDropped, state: State, _now: float) -> State:
    return replace(state, planned=with_index_build(state.planned))


@_after.register
def _(tried: IndexesTried, state: State, _now: float) -> State:
    report = state.report
    return _reported(
        state,
        index_build_seconds=report.index_build_seconds + round(tried.seconds, 3),
        index_build_tries=report.index_build_tries + tried.tries,
    )


@_after.register
def _(under_way: IndexesUnderWay, state: State, _now: float) -> State:
    return replace(state, built=under_way.built)


@_after.register
def _(built: IndexesBuilt, state: State, _now: float) -> State:
    names = [f"{built.table}.{name}" for name in built.indexes]
    return _reported(state, indexes_deferred=[*state.report.indexes_deferred, *names])


@_after.register
def _(done: ChecksumDone, state: State, now: float) -> State:
    return replace(state, clean_at={**state.clean_at, done.table: now})


@_after.register
def _(_written: CheckpointWritten, state: State, now: float) -> State:
    return replace(state, checkpoint_at=now, resumable=True)


@_after.register
def _(_stays: RecordStays, state: State, _now: float) -> State:
    return replace(state, resumable=True)


# -- the change of the tables


@_after.register
def _(_sent: AlterSent, state: State, _now: float) -> State:
    return replace(state, altering=True)


@_after.register
def _(answered: AlterAnswered, state: State, _now: float) -> State:
    return replace(state, altering=False, altered=answered.made)


@_after.register
def _(_postponed: SwapPostponed, state: State, _now: float) -> State:
    return replace(state, postponements=state.postponements + 1)


@_after.register
def _(wanted: SwapWanted, state: State, _now: float) -> State:
    return replace(state, undeferred=wanted.wanted)


@_after.register
def _(swapped: Swapped, state: State, now: float) -> State:
    result = swapped.result
    return _reported(
        state,
        cutover_attempts=result.attempts,
        checksum_age_seconds=round(now - min(state.clean_at.values()), 3),
        lock_wait_ms=round(result.lock_wait_ms, 3),
        lock_held_ms=round(result.lock_held_ms, 3),
        cutover_steps_ms={name: round(ms, 3) for name, ms in result.steps_ms.items()},
        attached=list(result.attached),
        sessions_killed=list(result.killed),
        snapshot_guard=result.guard,
        snapshots_before_swap=list(result.snapshots),
        final_position=result.position,
    )


@_after.register
def _(_changed: TablesChanged, state: State, _now: float) -> State:
    return replace(state, changed=True)


@_after.register
def _(left: OldTablesLeft, state: State, _now: float) -> State:
    return _reported(state, old_table=", ".join(left.tables))


@_after.register
def _(_reverted: Reverted, state: State, _now: float) -> State:
    return _reported(state, reverted=True)


# -- its end


@_after.register(Warned)
@_after.register(BinlogExpires)
def _(warned: Warned | BinlogExpires, state: State, _now: float) -> State:
    """Note a warning; throttlers are made again for the swap, and warn again: once is enough."""
    warnings = state.report.warnings
    if warned.text in warnings:
        return state
    return _reported(state, warnings=[*warnings, warned.text])


@_after.register
def _(rehearsed: Rehearsed, state: State, _now: float) -> State:
    return _reported(state, rehearsal=rehearsed.figures, rehearsal_lines=rehearsed.lines)


@_after.register
def _(_begun: TeardownBegun, state: State, _now: float) -> State:
    return replace(state, leaving=True)


@_after.register
def _(_stays: StaysResumable, state: State, _now: float) -> State:
    return _reported(state, resumable=True)


@_after.register
def _(counted: Counted, state: State, now: float) -> State:
    phases = {name: round(spent, 3) for name, spent in state.phases.seconds(now).items()}
    spent = round(now - state.began, 3)
    return _reported(state, **counted.figures, phases=phases, seconds=spent)


@_after.register
def _(concluded: Concluded, state: State, _now: float) -> State:
    return _reported(state, outcome=concluded.outcome)


@_after.register
def _(broken: Broken, state: State, _now: float) -> State:
    report = replace(state.report)
    report.note_failure(broken.error)
    return replace(state, report=report)


def validate(state: State) -> list[str]:
    """Return what cannot be, a line each; empty where the state is sound."""
    report, passed = state.report, [phase for phase, _ in state.phases.history]
    way = [*passed, state.phase]
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
            report.outcome == "done" and state.phase is not Phase.DONE
        ),
        "it is done, and can be resumed": report.outcome == "done" and report.resumable,
        "it is done, and has an error": report.outcome in ("done", "rehearsed") and report.error,
        "a dry run has swapped": report.outcome == "rehearsed" and swapped,
        "it was reverted before it was swapped": report.reverted and not swapped,
        "the tables are changed, and it is not known": (
            report.outcome == "done" and not state.changed
        ),
    }
    return [why for why, so in broken.items() if so]

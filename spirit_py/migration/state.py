"""What a run knows of its migration: one frozen state, and all that changes it (pure).

Parts report an event (:mod:`spirit_py.events`) or a :class:`Fact`; :func:`apply` returns the state
after it, by two tables: :data:`ENTERS` for the report, :data:`KEEPS` for the state. The owner is a
:class:`spirit_py.migration.figures.Journal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass, field, replace
from spirit_py.events.copy import (
    BinlogExpires,
    CheckpointWritten,
    ChecksumDone,
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
from spirit_py.events.swap import ArchiveBegun, ArchiveProved
from spirit_py.migration import facts
from spirit_py.migration.facts import PlainFact
from spirit_py.phases import Phase, PhaseLog, with_index_build
from spirit_py.status.report import REVERTED, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.events.event import Event
    from spirit_py.migration.facts import Fact
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.names import Name

#: A wait that goes on after so short a break is the same wait.
_SAME_WAIT_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What is waited for, empty for nothing; ``began`` and ``ended`` are on the monotonic clock."""

    what: str = ""
    began: float = float("-inf")
    ended: float = float("-inf")

    def then(self, what: str, now: float) -> Wait:
        """Return what is waited for from now on."""
        new = what and not self.what and now - self.ended > _SAME_WAIT_SECONDS
        ended = now if self.what and not what else self.ended
        return Wait(what=what, began=now if new else self.began, ended=ended)

    def seconds(self, now: float) -> float | None:
        """Return for how long it was waited; None where nothing is waited for."""
        return now - self.began if self.what else None


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a migration is, and what was decided. Times are of the monotonic clock, in seconds.

    ``report`` is changed by :func:`apply` only. ``planned`` phases are those of a copy, which is
    ``resumable`` once a record for that is in the checkpoint table. ``copied_before`` has rows and
    chunks of tables that earlier runs copied as a whole, ``clean_at`` the end of each table's last
    clean comparison. ``built`` is the part of one table's indexes, None where the server does not
    show it; ``binlog_left`` is for what a stopped run would read first. ``held_up`` is what a lock
    waits for because of others, empty where none does; the seconds are those without a request, or
    in vain. ``altering``: a change in place may be sent, and its outcome is not known; then
    ``altered``: it was made, and ``unproven``: a foreign key is, whose rows are looked at.
    ``uncopied``: only the server makes the change.
    ``undeferred``: an operator wants the swap to wait for no sentinel of
    ours; each of ``postponements`` counts once its sentinel is there. ``changed`` tables are so
    before the proof is dropped; ``leaving``: the teardown has begun.
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
    held_up: str = ""
    held_up_seconds: float = 0.0
    checkpoint_at: float | None = None
    resumable: bool = False
    swapped_before: bool = False
    altering: bool = False
    altered: bool = False
    unproven: bool = False
    uncopied: bool = False
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


def _resumed(decided: ResumeDecided, _report: MigrationReport) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "runs": decided.number,
        "rows_copied_before": decided.rows_copied,
        "resumed": decided.said,
    }
    if decided.decision == "resume":
        changes |= {"resumed": f"resumed: {decided.reason}", "algorithm": "copy"}
    return changes


def _warned(warned: Warned | BinlogExpires, report: MigrationReport) -> dict[str, Any]:
    return {} if warned.text in report.warnings else {"warnings": [*report.warnings, warned.text]}


def _swapped(swapped: facts.Swapped, _report: MigrationReport) -> dict[str, Any]:
    result = swapped.result
    return {
        "cutover_attempts": result.attempts,
        "lock_wait_ms": round(result.lock_wait_ms, 3),
        "lock_held_ms": round(result.lock_held_ms, 3),
        "cutover_steps_ms": {name: round(ms, 3) for name, ms in result.steps_ms.items()},
        "attached": list(result.attached),
        "sessions_killed": list(result.killed),
        "snapshot_guard": result.guard,
        "snapshots_before_swap": list(result.snapshots),
        "final_position": result.position,
    }


ENTERS: Final[Mapping[type | PlainFact, Callable[[Any, MigrationReport], dict[str, Any]]]] = {
    StatementRead: lambda read, report: {
        "schema": read.names[0][0],
        "table": read.names[0][1],
        "tables": list(read.tables),
        "statement": read.statement,
        "versions": {**report.versions, "mysql": read.mysql},
    },
    ResumeDecided: _resumed,
    AlgorithmChosen: lambda chosen, _: {"algorithm": chosen.algorithm, "reason": chosen.reason},
    facts.IndexesLaidDown: lambda laid, report: {"indexes_plan": [*report.indexes_plan, laid.said]},
    FeedBegun: lambda begun, _: {"start_position": begun.position},
    facts.IndexesTried: lambda tried, report: {
        "index_build_seconds": report.index_build_seconds + round(tried.seconds, 3),
        "index_build_tries": report.index_build_tries + tried.tries,
    },
    IndexesBuilt: lambda built, report: {
        "indexes_deferred": [
            *report.indexes_deferred,
            *(f"{built.table}.{name}" for name in built.indexes),
        ]
    },
    facts.Swapped: _swapped,
    facts.OldTablesLeft: lambda left, _: {"old_table": ", ".join(left.tables)},
    ArchiveBegun: lambda begun, report: {"tables": report.tables or [begun.archived]},
    ArchiveProved: lambda proved, report: {
        "archived": [*report.archived, facts.of_archive(proved)]
    },
    PlainFact.REVERTED: lambda _, __: {"reverted": True},
    Warned: _warned,
    BinlogExpires: _warned,
    facts.Rehearsed: lambda made, _: {"rehearsal": made.figures, "rehearsal_lines": made.lines},
    PlainFact.STAYS_RESUMABLE: lambda _, __: {"resumable": True},
    facts.Counted: lambda counted, _: counted.figures,
    facts.Concluded: lambda concluded, report: {
        "outcome": REVERTED if report.reverted else concluded.outcome
    },
    facts.Broken: lambda broken, _: failure_of(broken.error),
}
"""What is entered into the report when something happens: its fields, with their new values."""


def _counted(_counted: facts.Counted, state: State, now: float) -> dict[str, Any]:
    phases = {name: round(spent, 3) for name, spent in state.phases.seconds(now).items()}
    return {"report": replace(state.report, phases=phases, seconds=round(now - state.began, 3))}


def _aged(_swapped: facts.Swapped, state: State, now: float) -> dict[str, Any]:
    age = round(now - min(state.clean_at.values()), 3)
    return {"report": replace(state.report, checksum_age_seconds=age)}


def _with_copied(
    before: Mapping[Name, tuple[int, int]], copied: facts.TableCopiedBefore
) -> dict[Name, tuple[int, int]]:
    """Return the rows and chunks of earlier runs with those of a table, or of a shard of it."""
    rows, chunks = before.get(copied.table, (0, 0))
    return {**before, copied.table: (rows + copied.rows, chunks + copied.chunks)}


KEEPS: Final[Mapping[type | PlainFact, Callable[[Any, State, float], dict[str, Any]]]] = {
    StatementRead: lambda read, _, __: {"estimates": dict(read.estimates)},
    PlanMade: lambda made, state, _: {
        "planned": with_index_build(state.planned, built=made.builds_indexes)
    },
    ResumeDecided: lambda decided, _, __: {"swapped_before": decided.swapped},
    facts.IndexBuildPlanned: lambda planned, state, _: {
        "planned": with_index_build(state.planned, built=planned.built)
    },
    IndexesDropped: lambda _, state, __: {"planned": with_index_build(state.planned)},
    PhaseEntered: lambda entered, state, now: {
        "phases": state.phases.entered(Phase(entered.phase), now),
        "waits": replace(state.waits, what="", ended=float("-inf")),
        "built": None,
    },
    facts.WaitsFor: lambda waits, state, now: {"waits": state.waits.then(waits.what, now)},
    facts.LockHeldUp: lambda held, state, _: {
        "held_up": held.what,
        "held_up_seconds": state.held_up_seconds + held.seconds,
    },
    facts.BinlogReaches: lambda reaches, _, __: {"binlog_left": reaches.seconds},
    facts.TableCopiedBefore: lambda copied, state, _: {
        "copied_before": _with_copied(state.copied_before, copied)
    },
    facts.IndexesUnderWay: lambda under_way, _, __: {"built": under_way.built},
    ChecksumDone: lambda done, state, now: {"clean_at": {**state.clean_at, done.table: now}},
    CheckpointWritten: lambda _, __, now: {"checkpoint_at": now, "resumable": True},
    PlainFact.RECORD_STAYS: lambda _, __, ___: {"resumable": True},
    PlainFact.ALTER_SENT: lambda _, __, ___: {"altering": True},
    facts.AlterAnswered: lambda answered, _, __: {"altering": False, "altered": answered.made},
    PlainFact.ONLY_BY_SERVER: lambda _, __, ___: {"uncopied": True},
    PlainFact.KEY_UNPROVEN: lambda _, __, ___: {"unproven": True},
    PlainFact.SWAP_POSTPONED: lambda _, state, __: {"postponements": state.postponements + 1},
    facts.SwapWanted: lambda wanted, _, __: {"undeferred": wanted.wanted},
    facts.Swapped: _aged,
    PlainFact.TABLES_CHANGED: lambda _, __, ___: {"changed": True},
    PlainFact.TEARDOWN_BEGUN: lambda _, __, ___: {"leaving": True},
    facts.Counted: _counted,
}
"""What the state keeps when something happens: its fields, with their new values."""


def apply(state: State, happened: Event | Fact, now: float) -> State:
    """Return the state after something happened; IllegalTransition where a phase may not follow."""
    kind = happened if isinstance(happened, PlainFact) else type(happened)
    if enters := ENTERS.get(kind):
        state = replace(state, report=replace(state.report, **enters(happened, state.report)))
    if keeps := KEEPS.get(kind):
        state = replace(state, **keeps(happened, state, now))
    return state

"""The phases of a migration, the legal transitions between them, and their timing (pure).

The caller passes ``now`` (seconds of a monotonic clock), so nothing here reads a clock.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


class Phase(enum.StrEnum):
    """Where a migration is. Values are stable: reports and checkpoints hold them."""

    PREFLIGHT = "preflight"
    SHORTCUT = "shortcut"
    CREATE = "create"
    COPY = "copy"
    INDEX = "index"
    DRAIN = "drain"
    ANALYZE = "analyze"
    CHECKSUM = "checksum"
    SENTINEL = "sentinel"
    CUTOVER = "cutover"
    KEEP = "keep"
    ARCHIVE = "archive"
    GRACE = "grace"
    CLEANUP = "cleanup"
    DONE = "done"

    @property
    def shown(self) -> str:
        """Its name for people."""
        return "in place" if self is Phase.SHORTCUT else self.value


AFTER_SWAP = frozenset({Phase.KEEP, Phase.ARCHIVE, Phase.GRACE, Phase.CLEANUP, Phase.DONE})
"""The phases in which the tables are swapped."""
_AFTER_SWAP = AFTER_SWAP - {Phase.DONE}
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    # A resumed run begins with the copy, or with the cleanup after the swap of an earlier run.
    # To another server nothing is changed in place.
    Phase.PREFLIGHT: frozenset({Phase.SHORTCUT, Phase.CREATE, Phase.COPY}) | _AFTER_SWAP,
    Phase.SHORTCUT: frozenset({Phase.CREATE, Phase.DONE}),
    Phase.CREATE: frozenset({Phase.COPY}),
    Phase.COPY: frozenset({Phase.INDEX, Phase.DRAIN}),
    Phase.INDEX: frozenset({Phase.DRAIN}),
    Phase.DRAIN: frozenset({Phase.ANALYZE}),
    Phase.ANALYZE: frozenset({Phase.CHECKSUM}),
    Phase.CHECKSUM: frozenset({Phase.SENTINEL, Phase.CUTOVER, Phase.DONE}),
    Phase.SENTINEL: frozenset({Phase.CHECKSUM, Phase.CUTOVER}),
    Phase.CUTOVER: frozenset({Phase.SENTINEL, Phase.CHECKSUM}) | _AFTER_SWAP,
    # A revert leaves nothing to clean up.
    Phase.KEEP: frozenset({Phase.GRACE, Phase.CLEANUP, Phase.DONE}),
    # Of a table that no migration has changed nothing is dropped.
    Phase.ARCHIVE: frozenset({Phase.GRACE, Phase.CLEANUP, Phase.DONE}),
    Phase.GRACE: frozenset({Phase.CLEANUP, Phase.DONE}),
    Phase.CLEANUP: frozenset({Phase.DONE}),
    Phase.DONE: frozenset(),
}


def planned_phases(
    *, defers: bool, keeps_current: bool, archives: bool, has_grace: bool, rehearses: bool
) -> tuple[Phase, ...]:
    """Return the phases of a run that copies; whether indexes are built is decided later."""
    # The rest is declared in the order of a run.
    left_out = {Phase.PREFLIGHT, Phase.SHORTCUT, Phase.INDEX, Phase.DONE}
    chosen = {
        Phase.SENTINEL: defers,
        Phase.KEEP: keeps_current,
        Phase.ARCHIVE: archives,
        Phase.GRACE: has_grace,
    }
    left_out |= {phase for phase, taken in chosen.items() if not taken}
    if rehearses:
        left_out |= {Phase.CUTOVER, Phase.ARCHIVE, Phase.CLEANUP}
    return tuple(phase for phase in Phase if phase not in left_out)


def with_index_build(planned: Iterable[Phase], *, built: bool = True) -> tuple[Phase, ...]:
    """Return planned phases with the build of indexes in its place, or without it."""
    return tuple(
        each
        for phase in planned
        if phase is not Phase.INDEX
        for each in ((phase, Phase.INDEX) if built and phase is Phase.COPY else (phase,))
    )


class IllegalTransition(RuntimeError):
    """A phase was entered out of order: a bug. The message carries the history."""


@dataclass(frozen=True, kw_only=True)
class PhaseLog:
    """The phases passed so far, with the seconds spent in each."""

    current: Phase = Phase.PREFLIGHT
    entered_at: float = 0.0
    history: tuple[tuple[Phase, float], ...] = ()

    def entered(self, phase: Phase, now: float) -> PhaseLog:
        """Return the log after ``phase`` was entered; IllegalTransition unless in TRANSITIONS."""
        if phase not in TRANSITIONS[self.current]:
            story = " -> ".join([*(p.value for p, _ in self.history), self.current.value])
            step = f"from {self.current.value} to {phase.value}"
            raise IllegalTransition(f"cannot go {step}; so far: {story}")
        passed = (self.current, now - self.entered_at)
        return PhaseLog(current=phase, entered_at=now, history=(*self.history, passed))

    def seconds(self, now: float) -> dict[str, float]:
        """Return the seconds spent in each phase entered so far, the current one included."""
        spent: dict[str, float] = {}
        for phase, seconds in [*self.history, (self.current, now - self.entered_at)]:
            spent[phase.value] = spent.get(phase.value, 0.0) + seconds
        spent.pop(Phase.DONE.value, None)
        return spent

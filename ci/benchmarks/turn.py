"""The figures of one turn of one contender, and the medians of several."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.application import Latency


@dataclass(kw_only=True)
class Turn:
    """One contender, once.

    Attributes:
        seconds: from the command's start to its end; of a statement, its length.
        phases: seconds by phase, in order; of ours with ``start`` and ``end`` of the process.
        cpu: seconds by kind of process.
        phase_cpu: the same for each phase.
        server_threads: the server's seconds by what its threads do.
        first_row: seconds until the new table had a row.
        last_row: seconds until it had as many rows as the table.
        size: bytes of the table that it made, indexes included.
        sent: bytes that the server sent to anyone meanwhile.
        before, during: the application's writes.
        phase_writes: the same for each phase.
        rows: rows in the new table by time, thinned out.
        failed: how it failed; its figures count for nothing then.
    """

    contender: str
    round: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    phase_cpu: dict[str, dict[str, float]] = field(default_factory=dict)
    server_threads: dict[str, float] = field(default_factory=dict)
    first_row: float | None = None
    last_row: float | None = None
    size: int = 0
    sent: int = 0
    before: Latency | None = None
    during: Latency | None = None
    phase_writes: dict[str, Latency] = field(default_factory=dict)
    rows: list[tuple[float, int]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    failed: str = ""

    @property
    def program_cpu(self) -> float:
        """CPU seconds of the program and everything that it started, the server left out."""
        return sum(self.cpu.get(kind, 0.0) for kind in ("driver", "jvm", "workers", "tool"))


def in_turns(names: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """Return the order of each round: each contender once, and each round begun by another one."""
    order = []
    for number in range(rounds):
        first = number % len(names)
        order += [(number, name) for name in (*names[first:], *names[:first])]
    return order


def of(turns: Sequence[Turn], contender: str) -> list[Turn]:
    """Return the turns of a contender that did not fail."""
    return [turn for turn in turns if turn.contender == contender and not turn.failed]


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def spread(values: Iterable[float]) -> float:
    """Return how far the largest lies above the smallest, as a share of the median."""
    found = list(values)
    middle = statistics.median(found) if found else 0.0
    return (max(found) - min(found)) / middle if middle else 0.0


def of_phases(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the median seconds of each phase, in order."""
    names = dict.fromkeys(name for turn in turns for name in turn.phases)
    return {name: median(turn.phases.get(name) for turn in turns) or 0.0 for name in names}


def of_cpu(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the median CPU seconds of each kind of process."""
    kinds = dict.fromkeys(kind for turn in turns for kind in turn.cpu)
    return {kind: median(turn.cpu.get(kind) for turn in turns) or 0.0 for kind in kinds}


def of_writes(turns: Sequence[Turn], span: str, name: str) -> float | None:
    """Return the median of a figure of the application's writes, ``before`` or ``during``."""
    return median(getattr(getattr(turn, span), name, None) for turn in turns)

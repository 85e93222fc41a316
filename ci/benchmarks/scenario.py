"""A scenario, its goals, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mysql_base import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.application import Load
    from benchmarks.tables import Table
    from benchmarks.turn import Turn
    from mysql_base import MySQLServer

#: The application's own figure before the change began.
BEFORE = "before"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much to measure.

    Attributes:
        rows: instead of each scenario's own; 0 for those.
        buffer_pool: likewise.
        server: more options of mysqld.
        variants: the program with other options, as further contenders.
    """

    rounds: int
    threads: int
    rows: int = 0
    buffer_pool: str = ""
    server: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def options(self, buffer_pool: str = "2G") -> ServerOptions:
        """Return the options of a server that is measured."""
        return ServerOptions(
            buffer_pool=self.buffer_pool or buffer_pool,
            keeps_all=True,
            extra=("--innodb-redo-log-capacity=2G", *self.server),
        )


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One comparison. Ratios are what counts: both sides were measured in one run.

    Attributes:
        ours, peer: medians, in ``unit``.
        goal: the largest ratio that is good enough; None without a goal.
    """

    name: str
    ours: float
    peer: float
    against: str
    unit: str = "s"
    goal: float | None = None

    @property
    def ratio(self) -> float:
        """Ours against the other's."""
        return self.ours / self.peer if self.peer else float("inf")

    @property
    def missed(self) -> bool:
        """Whether there is a goal, and it is not reached."""
        return self.goal is not None and self.ratio > self.goal


@dataclass(kw_only=True)
class Outcome:
    """The result of a scenario.

    Attributes:
        turns: of a scenario whose contenders take turns, all of them.
        took: seconds of the scenario, loading included.
    """

    scenario: str
    rows: int
    figures: list[Figure]
    turns: list[Turn] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    took: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the scenario failed, or any turn in it."""
        noted = any(name.startswith("FAILED") for name in self.notes)
        return noted or any(turn.failed for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Something to measure, on a server of its own.

    Attributes:
        title: what it is, in one line.
        rows: unless others are asked for.
        minutes: what a run with three rounds takes at that size, on 2 cores.
        measure: measures it, given the server, the rows and the sizes.
        buffer_pool: of the server.
    """

    name: str
    title: str
    rows: int
    minutes: float
    measure: Callable[[MySQLServer, int, Sizes], Outcome]
    buffer_pool: str = "2G"

    def rows_of(self, sizes: Sizes) -> int:
        """Return the rows to measure with."""
        return sizes.rows or self.rows

    def expected_minutes(self, sizes: Sizes) -> float:
        """Return about how long it takes."""
        return self.minutes * self.rows_of(sizes) / self.rows * (1 + sizes.rounds) / 4


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure that the contenders' turns are brought down to.

    Attributes:
        of: one of :data:`benchmarks.whole.FIGURES`.
        against: the contender that ours is measured against, :data:`BEFORE`, or with a
            ``target`` what that is.
        limit: the largest ratio that is good enough.
        target: what ours is measured against where no contender gives it, at ``rows`` rows.
    """

    of: str
    against: str
    limit: float | None = None
    target: float | None = None
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Whole changes of a table, by contenders that take turns.

    Attributes:
        alter: what every contender does; the table is the same after it, or ``restore`` is run
            before each turn.
        load: what the application does meanwhile; None for nothing.
        slots: how many rows are copied at once; 0 for as many as were asked for.
    """

    table: Table
    contenders: Sequence[str]
    goals: Sequence[Goal]
    alter: str = "ENGINE=InnoDB"
    restore: str = ""
    load: Load | None = None
    slots: int = 0
    options: tuple[str, ...] = ()

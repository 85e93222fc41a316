"""How many rows a second a copy makes on a server of so many cores (pure).

Two bounds hold: the time that each session takes for a transaction, and the cores. The model adds
them in the fourth power, as neither is reached where the other is near: threads for the log, purge
and dirty pages use the same cores. Each further busy core makes all CPU time longer by the same
share, so that there is a rate that no number of cores exceeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_POWER: Final = 4
_ROUNDS: Final = 30
#: Factors by which the fit changes one parameter, the largest first.
_STEPS: Final = (2.0, 1.4, 1.15, 1.05, 1.02, 1.005)
#: The share of the best rate that is enough, and the sessions for each core that are tried.
_ENOUGH: Final = 0.95
_MOST_SESSIONS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The parameters.

    Attributes:
        row: seconds of the server's CPU for each row, with one busy core.
        transaction: the same for each transaction beside its rows.
        commit: seconds for which a session waits in each transaction, without CPU.
        contention: the share by which each further busy core makes the CPU time longer.
    """

    row: float = 6e-6
    transaction: float = 5e-4
    commit: float = 1e-3
    contention: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is measured or predicted: transactions of ``rows``; seconds added to each of them."""

    cores: int
    sessions: int
    rows: int
    round_trip: float = 0.0
    commit: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Rows a second, and seconds of the server's CPU for each row."""

    rate: float
    cpu: float


def expect(costs: Costs, setting: Setting) -> Speed:
    """Return what the model expects."""
    alone = cpu = costs.row * setting.rows + costs.transaction
    # Who comes while a group of commits waits, waits for its end first.
    groups = 1.5 - 0.5 / setting.sessions
    waits = setting.round_trip + groups * (costs.commit + setting.commit)
    rate = 0.0
    for _ in range(_ROUNDS):
        bounds = (cpu + waits) / setting.sessions, cpu / setting.cores
        rate = sum(bound**_POWER for bound in bounds) ** (-1 / _POWER)
        busy = min(setting.cores, max(1.0, rate * cpu))
        cpu = (cpu + alone * (1 + costs.contention * (busy - 1))) / 2
    return Speed(rate=rate * setting.rows, cpu=cpu / setting.rows)


def errors(costs: Costs, measured: Sequence[tuple[Setting, Speed]]) -> list[tuple[float, float]]:
    """Return how far the model is from each rate and CPU: 0.1 where it expects a tenth more."""
    found = [(expect(costs, setting), seen) for setting, seen in measured]
    return [(each.rate / seen.rate - 1, each.cpu / seen.cpu - 1) for each, seen in found]


def fit(measured: Sequence[tuple[Setting, Speed]]) -> Costs:
    """Return the parameters with the least squares of the logarithms of rates and CPU.

    One parameter at a time is made larger or smaller while that helps, in smaller and smaller
    steps. What no point shows becomes small, not zero.
    """

    def squares(costs: Costs) -> float:
        return sum(math.log1p(each) ** 2 for pair in errors(costs, measured) for each in pair)

    found, before = Costs(), math.inf
    for step in _STEPS:
        while (least := squares(found)) < before:
            before = least
            for name in (field.name for field in fields(Costs)):
                values = (getattr(found, name) * factor for factor in (1.0, step, 1 / step))
                tried = [replace(found, **{name: max(1e-9, value)}) for value in values]
                found = min(tried, key=squares)
        before = math.inf
    return found


def best(costs: Costs, cores: int, rows: int) -> tuple[int, Speed]:
    """Return the smallest number of sessions with nearly the best rate, and what it makes."""
    every = range(1, _MOST_SESSIONS * cores + 1)
    speeds = [expect(costs, Setting(cores=cores, sessions=each, rows=rows)) for each in every]
    enough = _ENOUGH * max(each.rate for each in speeds)
    return next(pair for pair in enumerate(speeds, 1) if pair[1].rate >= enough)

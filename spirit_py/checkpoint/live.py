"""What a running migration shows of itself, and what operators have set (pure).

Both are rows of the checkpoint table. Nothing secret is in them (R20).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

STALE_SECONDS: Final = 10.0
"""Age of the figures from which on a process that holds its lock may hang; they are written every
second or two."""


@dataclass(frozen=True, kw_only=True)
class LiveFigures:
    """The figures of a running migration; what is not known is None. Seconds and bytes.

    Attributes:
        host: the machine that the process runs on, ``pid`` its number there.
        table: the one that is copied or compared now.
        fraction: progress of the phase's own work, 0.0 to 1.0.
        eta: seconds until the phase's own work ends.
        feed_lag: seconds between a change on the server and its receipt.
        binlog_left: seconds for which the server keeps what the change feed reads next; None for
            ever, or where it was not asked.
        tasks: how many tasks may work at a time now.
        waiting_for: what the migration waits for; empty when it does not wait.
        paused: who has paused it; empty when nobody has.
        settings: those that ``spirit-py ctl set`` changes, as it spells them.
    """

    host: str
    pid: int
    program: str
    phase: str
    table: str
    elapsed: float
    phase_elapsed: float
    rows: int | None = None
    rows_total: int | None = None
    fraction: float | None = None
    rate: float | None = None
    eta: float | None = None
    chunk_rows: int | None = None
    chunk_seconds: float | None = None
    pending: int | None = None
    buffered_bytes: int | None = None
    feed_lag: float | None = None
    binlog_left: float | None = None
    tasks: int | None = None
    waiting_for: str = ""
    note: str = ""
    paused: str = ""
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StandingOrders:
    """What operators have set and the next run keeps to.

    Attributes:
        paused: who has paused the migration; empty when nobody has.
        settings: what was set, by name, as ``spirit-py ctl set`` spells it.
        over: what the command line asked for when that was set, by name: a command line that asks
            for something else by now is newer, and counts.
        undeferred: the swap is not to wait for the operator, whatever the command line asks for.
    """

    paused: str = ""
    undeferred: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)

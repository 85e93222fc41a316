"""What a running migration shows of itself, and what operators have set (pure).

Both are rows of the checkpoint table. Nothing secret is in them (R20).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spirit_py.progress import MigrationProgress

STALE_SECONDS: Final = 10.0
"""Age of its figures from which on a process that holds its lock may hang; they are written every
second or two."""

REVERT: Final = "revert"
"""The phase of a ``spirit-py revert`` that works in the place of a process that has ended."""


@dataclass(frozen=True, kw_only=True)
class LiveFigures(MigrationProgress):
    """The figures of a running migration.

    Attributes:
        host: the machine that the process runs on, ``pid`` its number there.
        run: the token of its run, by which its sessions are known.
        paused: who has paused it; empty when nobody has.
        settings: those that ``spirit-py ctl set`` changes, as it spells them.
    """

    host: str
    pid: int
    run: str
    program: str
    phase: str
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

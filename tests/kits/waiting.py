"""Waiting for what a server, a thread or a process brings about."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that anything may take on a busy machine.
DEADLINE = 120.0
#: The longest pause between two looks, in seconds: each look is a statement, and costs CPU.
LONGEST_PAUSE = 0.1


def until(
    condition: Callable[[], Any],
    what: str = "the condition",
    seconds: float = DEADLINE,
    pause: float = 0.01,
    longest: float = LONGEST_PAUSE,
) -> Any:
    """Wait until a condition returns something true, and return that.

    Args:
        pause: between the first two looks, in seconds; later ones are longer, a quarter each.
        longest: of those, unless the first one is longer; 0 where all are to be alike.

    Raises:
        AssertionError: naming ``what``, when it does not come in time.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(pause)
        pause = max(pause, min(1.25 * pause, longest))
    return found


def state(pid: int) -> str:
    """Return the state letter of a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to read its code."""
    return state(pid) not in {"", "Z"}

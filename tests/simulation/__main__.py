"""``python -m tests.simulation``: play worlds, and show the first that goes wrong.

Usage: ``python -m tests.simulation [RUNS [SEED]] [--plant NAME] [--seconds S]``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.planted import PLANTED, planted
from tests.simulation.shrink import shrunk
from tests.simulation.world import drawn, play


def main() -> int:
    """Play worlds of consecutive seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("runs", type=int, nargs="?", default=1000)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--plant", choices=sorted(PLANTED), default="")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    # What the program logs is in the story where it matters.
    logging.disable(logging.CRITICAL)
    with planted(given.plant):
        return _play(given.runs, given.seed, given.seconds)


def _play(runs: int, first: int, seconds: float) -> int:
    began, until = time.process_time(), time.monotonic() + seconds
    steps = played = 0
    for seed in range(first, first + runs):
        if time.monotonic() > until:
            break
        played += 1
        outcome = play(seed, drawn(seed))
        steps += outcome.steps
        if outcome.wrong:
            _show(seed, outcome.wrong)
            return 1
    spent = time.process_time() - began
    print(f"{played} worlds from seed {first}, {steps} steps, {played / spent:.1f} a CPU second")
    return 0


def _show(seed: int, wrong: str) -> None:
    """Show the simplest schedule that goes wrong in the same way."""
    plan = drawn(seed)
    choices = shrunk(seed, plan)
    story = play(seed, plan, given=choices, telling=True)
    print(f"seed {seed}: {wrong}")
    print(f"simplest schedule: {plan}, choices {choices}; it ends with: {story.wrong}")
    for number, line in enumerate(story.story, 1):
        print(f"{number:4d} {line}")


sys.exit(main())

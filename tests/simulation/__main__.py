"""``python -m tests.simulation``: play worlds, and show the first that goes wrong.

Usage: ``python -m tests.simulation [RUNS [SEED]] [--plant NAME] [--seconds S] [--procs N]
[--all] [--moves | --keeps | --requests | --revokes | --reverts | --uniques]``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import itertools
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from greenlet import GreenletExit

from tests.simulation.planted import bugs, plant

if TYPE_CHECKING:
    from tests.simulation.world import Plan

#: Worlds between two collections of garbage.
_GARBAGE: Final = 50
#: Worlds of one kind only.
_KINDS: Final = {
    "moves": "moves between two servers only",
    "keeps": "migrate --keep only",
    "requests": "runs that operators ask things of",
    "revokes": "a right is taken from the account of each, and given back",
    "reverts": "the old table follows the new one, and may be swapped back",
    "uniques": "a unique key is added",
}


@dataclass(kw_only=True)
class Played:
    """What was played.

    Attributes:
        spent: seconds of CPU.
        happened: in how many worlds each accident, or act of others, had an effect.
    """

    worlds: int = 0
    steps: int = 0
    failed: int = 0
    spent: float = 0.0
    happened: Counter[str] = field(default_factory=Counter)

    def add(self, other: Played) -> None:
        """Add what another process has played."""
        self.worlds += other.worlds
        self.steps += other.steps
        self.failed += other.failed
        self.spent += other.spent
        self.happened += other.happened


def main() -> int:
    """Play worlds of consecutive seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("runs", type=int, nargs="?", default=1000)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--plant", choices=sorted(bugs()), default="")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--procs", type=int, default=1, help="processes; 0 for one of each core")
    parser.add_argument("--plain", action="store_true", help="show a world as it was drawn")
    parser.add_argument("--all", action="store_true", help="go on behind a world that goes wrong")
    kinds = parser.add_mutually_exclusive_group()
    for kind, what in _KINDS.items():
        kinds.add_argument(
            f"--{kind}", dest="kind", action="store_const", const=kind, default="", help=what
        )
    parser.add_argument(
        "--exhaustive",
        type=int,
        metavar="STRIDE",
        help="walk the small worlds, at every so many places, in place of drawn ones",
    )
    given = parser.parse_args()
    if given.procs == 1 or given.exhaustive:
        played = _play_here(given)
    else:
        played = _play_in_processes(given, given.procs or os.cpu_count() or 1)
    if played.happened:
        print(
            "so many had", ", ".join(f"{what}: {n}" for what, n in sorted(played.happened.items()))
        )
    print(
        f"{played.worlds} worlds from seed {given.seed}, {played.steps} steps,"
        f" {played.failed} went wrong,"
        f" {played.spent:.1f} s of CPU: {played.worlds / max(played.spent, 0.001):.1f} a second"
    )
    return 1 if played.failed else 0


def _play_here(given: argparse.Namespace) -> Played:
    # What the program logs is in the story where it matters.
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = _unraisable
    # Before the program is imported.
    plant(given.plant)
    from tests.simulation.world import play  # noqa: F401

    # What is imported stays. A world's garbage is collected between two worlds.
    gc.freeze()
    gc.disable()
    return _walk(given) if given.exhaustive else _play(given)


def _collect() -> None:
    """Free what worlds have left; what stays, such as statements that are known, stays for good."""
    gc.collect()
    gc.freeze()


def _walk(given: argparse.Namespace) -> Played:
    """Play small worlds in their order; every one, or those of a share of the places."""
    from tests.simulation.exhaustive import played as play_script
    from tests.simulation.exhaustive import walked

    began, until = time.process_time(), time.monotonic() + given.seconds
    played = Played()
    for script in walked(given.exhaustive):
        if time.monotonic() > until:
            print(f"cut short before {script}")
            break
        if played.worlds % _GARBAGE == 0:
            _collect()
        outcome = play_script(script)
        played.worlds += 1
        played.steps += outcome.steps
        if outcome.wrong:
            played.failed += 1
            print(f"{script}: {outcome.wrong}")
            for number, line in enumerate(play_script(script, telling=True).story, 1):
                print(f"{number:4d} {line}")
            if not given.all:
                break
    played.spent = time.process_time() - began
    return played


def _play_in_processes(given: argparse.Namespace, number: int) -> Played:
    """Give each process a range of the seeds; show what they found in the order of the ranges."""
    ends = [given.seed + given.runs * part // number for part in range(number + 1)]
    parts = [
        argparse.Namespace(**{**vars(given), "seed": first, "runs": end - first})
        for first, end in itertools.pairwise(ends)
    ]
    played = Played()
    with multiprocessing.get_context("fork").Pool(number) as pool:
        for part, said in pool.imap(_play_apart, parts):
            print(said, end="")
            played.add(part)
    return played


def _play_apart(given: argparse.Namespace) -> tuple[Played, str]:
    """Play in a process of its own; return what it has to show, too."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        played = _play_here(given)
    return played, shown.getvalue()


def _unraisable(raised: Any) -> None:
    """Be silent about the threads of a killed process: their clean-up is cut short."""
    if raised.exc_type is not GreenletExit:
        sys.__unraisablehook__(raised)


def _play(given: argparse.Namespace) -> Played:
    from tests.simulation.world import drawn, play

    began, until = time.process_time(), time.monotonic() + given.seconds
    played = Played()
    for seed in range(given.seed, given.seed + given.runs):
        if time.monotonic() > until:
            break
        if played.worlds % _GARBAGE == 0:
            _collect()
        plan = drawn(seed, given.kind)
        outcome = play(seed, plan)
        played.worlds += 1
        played.steps += outcome.steps
        played.happened.update(outcome.happened)
        if outcome.wrong:
            played.failed += 1
            _show(seed, plan, outcome.wrong, plain=given.plain)
            if not given.all:
                break
    played.spent = time.process_time() - began
    return played


def _show(seed: int, plan: Plan, wrong: str, *, plain: bool) -> None:
    """Show the simplest schedule that goes wrong in the same way, or only how the world ended."""
    if plain:
        print(f"seed {seed}: {wrong}")
        return
    from tests.simulation.shrink import shrunk
    from tests.simulation.world import play

    choices = shrunk(seed, plan)
    story = play(seed, plan, given=choices, telling=True)
    print(f"seed {seed}: {wrong}")
    print(f"simplest schedule: {plan}, choices {choices}; it ends with: {story.wrong}")
    for number, line in enumerate(story.story, 1):
        print(f"{number:4d} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.simulation``: play worlds, and show the first that goes wrong.

Usage: ``python -m tests.simulation [RUNS [SEED]] [--plant NAME] [--seconds S] [--procs N]
[--all] [--moves | --keeps | --requests | --revokes | --reverts | --uniques]``.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from greenlet import GreenletExit

from tests.simulation.planted import bugs, plant

if TYPE_CHECKING:
    from tests.simulation.world import Plan

#: Worlds between two collections of garbage.
_GARBAGE: Final = 50
#: Worlds of one kind only.
_KINDS: Final = ("moves", "keeps", "requests", "revokes", "reverts", "uniques")
#: The last line of a process.
_FIGURES: Final = re.compile(
    r"(\d+) worlds from seed \d+, (\d+) steps, (\d+) went wrong, ([0-9.]+) s of CPU"
)


@dataclass(kw_only=True)
class Played:
    """What one process has played.

    Attributes:
        spent: seconds of CPU.
    """

    worlds: int = 0
    steps: int = 0
    failed: int = 0
    spent: float = 0.0


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
    parser.add_argument("--moves", action="store_true", help="moves between two servers only")
    parser.add_argument("--keeps", action="store_true", help="migrate --keep only")
    parser.add_argument("--requests", action="store_true", help="runs that operators ask things of")
    parser.add_argument("--revokes", action="store_true", help="a right is taken from the account")
    parser.add_argument("--reverts", action="store_true", help="the old table follows the new one")
    parser.add_argument("--uniques", action="store_true", help="a unique key is added")
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
    more = ["--seconds", str(given.seconds)]
    more += ["--plant", given.plant] if given.plant else []
    more += ["--all"] if given.all else []
    more += ["--plain"] if given.plain else []
    more += ["--moves"] if given.moves else []
    more += ["--keeps"] if given.keeps else []
    more += ["--requests"] if given.requests else []
    more += ["--revokes"] if given.revokes else []
    more += ["--reverts"] if given.reverts else []
    more += ["--uniques"] if given.uniques else []
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.simulation", str(end - first), str(first), *more],
            stdout=subprocess.PIPE,
            text=True,
        )
        for first, end in itertools.pairwise(ends)
    ]
    played = Played()
    for process in processes:
        said, _ = process.communicate()
        *found, last = said.splitlines()
        print(*found, sep="\n", end="\n" if found else "")
        figures = _FIGURES.match(last)
        if figures is None:
            raise RuntimeError(f"a process has ended with: {last}")
        played.worlds += int(figures[1])
        played.steps += int(figures[2])
        played.failed += int(figures[3])
        played.spent += float(figures[4])
    return played


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
        plan = drawn(seed, **{kind: getattr(given, kind) for kind in _KINDS})
        outcome = play(seed, plan)
        played.worlds += 1
        played.steps += outcome.steps
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


sys.exit(main())

"""Seeded migrations under a random workload, each with a fault at a named point and a resume.

python ci/faults.py --runs 200            a new seed; all faults in turn
python ci/faults.py --seed 4711           repeat one run
python ci/faults.py --runs 50 --repair off any difference that the checksum finds is a failure
python ci/faults.py --runs 50 --keep       all that can be are migrations with --keep
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seeded_runs import carry_out, end_on_sigterm, parser
from tests.faults.draw import FAULTS, draw
from tests.faults.hooks import BUGS
from tests.faults.host import Host, in_own_namespace
from tests.faults.run import Verdict, run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from tests.faults.hooks import Bug


def main(argv: Sequence[str]) -> int:
    """Carry out the runs; return 0 if all of them passed."""
    asked = _parser().parse_args(argv)
    has_disk = in_own_namespace([str(Path(__file__).resolve()), *argv])
    end_on_sigterm()
    if asked.prove:
        return _prove(asked.workers)
    repair = {"on": True, "off": False}.get(asked.repair)
    first = random.randrange(10**6) * len(FAULTS) if asked.seed is None else asked.seed
    if not has_disk:
        lack = "faults: no namespaces here (unshare -Urm): "
        if os.environ.get("SPIRIT_PY_LANE"):
            raise SystemExit(f"{lack}this lane needs a disk that can be full")
        print(f"{lack}full disks are left out, the next seeds are drawn")
    seeds = _seeds_of(asked.fault, asked.point, first, asked.runs, has_disk=has_disk)
    print(
        f"faults: {len(seeds)} runs from SEED={seeds[0]}, repair {asked.repair},"
        f" {asked.workers} at a time",
        flush=True,
    )
    began = time.monotonic()
    jobs = [Job(seed, repair, asked.bug, keep=asked.keep) for seed in seeds]
    verdicts = _all_runs(jobs, asked.workers)
    again = "make faults" + " KEEP=1" * asked.keep
    return _summary(verdicts, time.monotonic() - began, of=len(jobs), again=again)


def _seeds_of(fault: str, point: str, first: int, runs: int, *, has_disk: bool) -> list[int]:
    """Return the next seeds that draw a fault, a point, or both, where they are named."""
    if fault and fault not in {each.name for each in FAULTS}:
        raise SystemExit(f"no fault is named {fault}: {', '.join(each.name for each in FAULTS)}")
    drawn = (draw(seed) for seed in range(first, first + _SEARCHED))
    drawn = (each for each in drawn if has_disk or not each.fault.needs_disk)
    found = (d.seed for d in drawn if fault in {"", d.fault.name} and point in {"", d.point})
    seeds = list(itertools.islice(found, runs))
    if not seeds:
        raise SystemExit(f"no run here of {fault or 'a fault'} at {point or 'a point'}")
    return seeds


_SEARCHED = 200_000
#: What a run reports for a bug that loses rows: messages of checksum, journals or reader.
_SIGNS = ("still differ in", "rows are wrong", "differences", "incomplete copy")


class Job(NamedTuple):
    """One run to carry out."""

    seed: int
    repair: bool | None = None
    bug: str = ""
    keep: bool = False


_TRIES = 3
#: With so many runs a fault, each must have struck.
_SEVERAL = 5
#: Of so many runs two thirds must have; one in a hundred does not reach its point.
_MANY = 10


def _prove(workers: int) -> int:
    """Plant bugs in the program, each where it has an effect; every one must be caught.

    A worker that outlives its killed driver for a moment may repair the damage, so a bug that was
    not caught is planted again in the next run in which it has an effect.
    """
    left = dict(BUGS)
    for number in range(_TRIES):
        jobs = [Job(_seed_of(bug, number), repair=False, bug=name) for name, bug in left.items()]
        for verdict in _all_runs(jobs, workers):
            if any(sign in verdict.problem for sign in _SIGNS):
                del left[verdict.bug]
            else:
                print(f"not caught in try {number + 1}: {verdict.bug} ({verdict.what})")
        if not left:
            break
    print(f"{len(BUGS) - len(left)} of {len(BUGS)} planted bugs were caught")
    return 1 if left else 0


def _seed_of(bug: Bug, number: int) -> int:
    """Return a seed in whose run the bug has an effect, the first for number 0."""
    harmed = (seed for seed in itertools.count() if bug.harms(draw(seed, repair=False)))
    return next(itertools.islice(harmed, number, None))


def _all_runs(jobs: list[Job], workers: int) -> list[Verdict]:
    """Carry out the runs, each process with servers of its own."""
    return carry_out(jobs, _worker, workers=workers, show=lambda each: print(each, flush=True))


@contextlib.contextmanager
def _worker() -> Iterator[Callable[[Job], Verdict]]:
    """Yield a function that carries out a run; a server is started when a run first needs it."""
    with contextlib.ExitStack() as stack:
        hosts: dict[bool, Host] = {}

        def one(job: Job) -> Verdict:
            gtid = draw(job.seed).gtid
            if gtid not in hosts:
                hosts[gtid] = stack.enter_context(Host(gtid=gtid))
            host = hosts[gtid]
            return run(job.seed, host, repair=job.repair, keep=job.keep, bug=job.bug)

        yield one


def _summary(
    verdicts: list[Verdict], seconds: float, *, of: int, again: str = "make faults"
) -> int:
    """Print the drawn faults and their results; return the exit code.

    Args:
        of: runs that there were to be; one without a verdict fails the whole. So does, where every
            fault was to be drawn five times, one that never struck; and if nearly none struck of
            several, or in a lane.
    """
    drawn = Counter(verdict.fault for verdict in verdicts)
    struck = Counter(verdict.fault for verdict in verdicts if verdict.struck)
    bad = [verdict for verdict in verdicts if verdict.problem]
    print("\nfault                      drawn  struck  failed")
    for name in sorted(drawn):
        failed = sum(verdict.fault == name for verdict in bad)
        print(f"{name:<26} {drawn[name]:>5} {struck[name]:>7} {failed:>7}")
    repaired = sum(verdict.repaired for verdict in verdicts)
    writes = sum(verdict.acknowledged for verdict in verdicts)
    print(
        f"\n{len(verdicts)} runs in {seconds:.0f} s: {len(bad)} failed, {writes} acknowledged"
        f" writes, {repaired} chunks repaired"
    )
    for verdict in bad:
        print(f"again: {again} SEED={verdict.seed}   ({verdict.what})")
    if lost := of - len(verdicts):
        print(f"{lost} of {of} runs gave no verdict: their processes died")
    many = of >= _SEVERAL * len(FAULTS)
    never = sorted(name for name in drawn if many and not struck[name])
    if never:
        print(f"drawn and never struck: {', '.join(never)}")
    few = struck.total() * 3 < of * 2 if of >= _MANY else not struck
    if few:
        print(f"{struck.total()} of {of} struck: the others prove nothing about faults")
    # One of the usual gate may miss its point, as one in a hundred does.
    few &= of >= _SEVERAL or bool(os.environ.get("SPIRIT_PY_LANE"))
    return 1 if bad or lost or never or few else 0


def _parser() -> argparse.ArgumentParser:
    made = parser("faults.py", __doc__)
    made.add_argument("--repair", choices=["on", "off", "both"], default="both")
    made.add_argument("--fault", default="", help="only runs with this fault")
    made.add_argument("--point", default="", help="only runs with a fault at this point")
    made.add_argument("--prove", action="store_true", help="check that planted bugs are caught")
    made.add_argument("--keep", action="store_true", help="leave rows out in all runs that can")
    made.add_argument("--bug", default="", help="a bug for the program, to prove the harness")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Seeded moves between servers, each with a fault at a named point; half are reverted.

python ci/fault_moves.py --runs 200     a new seed; all faults in turn
python ci/fault_moves.py --seed 4711    repeat one run
python ci/fault_moves.py --runs 7 --rows 2000000 --workers 1    at size, 8 clients that write
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seeded_runs import carry_out, end_on_sigterm, parser
from tests.faults.moves import FAULTS, Verdict, all_sides, run
from tests.kits.moving import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


#: Of so many runs one must have struck, of so many half: three of four reach their points.
_SEVERAL, _MANY = 5, 20


def main(argv: Sequence[str]) -> int:
    """Carry out the runs; return 0 if all of them passed."""
    options = parser("fault_moves", __doc__)
    options.add_argument("--rows", type=int, default=ROWS, help="of each table")
    asked = options.parse_args(argv)
    end_on_sigterm()
    first = random.randrange(10**6) if asked.seed is None else asked.seed
    seeds = range(first, first + asked.runs)
    print(f"moves: {len(seeds)} runs from SEED={first}, {asked.workers} at a time", flush=True)
    began = time.monotonic()
    verdicts = carry_out(
        seeds,
        partial(_worker, asked.rows),
        workers=asked.workers,
        show=lambda each: print(each, flush=True),
    )
    return _summary(verdicts, time.monotonic() - began, of=len(seeds))


@contextlib.contextmanager
def _worker(rows: int) -> Iterator[Callable[[int], Verdict]]:
    """Yield a function that carries out a run, between servers of this process's own."""
    with all_sides() as sides:
        yield lambda seed: run(seed, sides, rows)


def _summary(verdicts: Sequence[Verdict], seconds: float, *, of: int) -> int:
    """Print what was drawn and what came of it; return the exit code."""
    struck = Counter(each.drawn.fault for each in verdicts if each.struck)
    wrong = [each for each in verdicts if each.problem]
    for fault in FAULTS:
        print(f"  {struck[fault]:4}  {fault}")
    reverted = sum(each.drawn.reverts for each in verdicts)
    sharded = sum(each.drawn.sharded for each in verdicts)
    merging = sum(each.drawn.merging for each in verdicts)
    print(
        f"{len(verdicts)} of {of} moves in {seconds:.0f} s, {reverted} of them reverted,"
        f" {sharded} to two targets, {merging} from two sources, {struck.total()} struck,"
        f" {sum(each.writes for each in verdicts)} writes: {len(wrong)} went wrong"
    )
    for each in wrong:
        print(f"again: make fault-moves SEED={each.drawn.seed}")
    count = struck.total()
    few = not of or (of >= _SEVERAL and not count) or (of >= _MANY and count * 2 < of)
    if few:
        print(f"{count} of {of} struck: the others prove nothing about faults")
    return 1 if wrong or few or len(verdicts) < of else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

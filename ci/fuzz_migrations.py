"""Random tables, changes, writers and settings; each compared with a native ALTER.

python ci/fuzz_migrations.py --runs 500     consecutive seeds, the first one new
python ci/fuzz_migrations.py --seed 4711    repeat one run, and minimise it if it fails
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pytest

from mysql_server import ServerOptions, running
from seeded_runs import carry_out, end_on_sigterm, parser
from spirit_py.config import SparkConfig
from spirit_py.migration.swap import deferral
from spirit_py.spark.engine import SparkEngine
from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict, judge, too_few_right
from tests.fuzz.shrink import shrink
from tests.kits.cases import migrate, small_chunks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

SLOTS = 2
#: The program's zone is neither the server's nor any writer's.
ZONE = "XYZ-11:15"
LOOK_SECONDS = 0.1
_SHOWN = 400


def main(argv: Sequence[str]) -> int:
    """Carry out the runs; return 0 if all of them passed."""
    asked = _parser().parse_args(argv)
    end_on_sigterm()
    first = random.randrange(10**6) if asked.seed is None else asked.seed
    seeds = list(range(first, first + asked.runs))
    print(f"fuzz-migrations: {len(seeds)} runs from SEED={first}", flush=True)
    began = time.monotonic()
    worker = functools.partial(_worker, shrinks=asked.shrink)
    verdicts = carry_out(seeds, worker, workers=asked.workers, show=_show)
    kinds = Counter(verdict.kind for verdict in verdicts)
    spent = time.monotonic() - began
    print(f"\n{len(verdicts)} runs in {spent:.0f} s: {dict(kinds.most_common())}")
    bad = [verdict for verdict in verdicts if verdict.finding]
    for verdict in bad:
        print(f"again: make fuzz-migrations SEED={verdict.scenario.seed}   ({verdict.kind})")
    if few := too_few_right(verdicts):
        print("fewer than half are right: the others prove little")
    return 1 if bad or few or len(verdicts) < len(seeds) else 0


def _show(verdict: Verdict) -> None:
    """Print one line, and all details of a failure."""
    text = verdict.text.replace("\n", " ")[:_SHOWN]
    print(f"{verdict.scenario.seed}: {verdict.kind} in {verdict.seconds:.1f} s {text}", flush=True)
    if verdict.finding:
        print(verdict.story(), flush=True)


@contextlib.contextmanager
def _worker(*, shrinks: bool) -> Iterator[Callable[[int], Verdict]]:
    """Yield a function that carries out the run of a seed, on this process's server and Spark."""
    os.environ["TZ"] = ZONE
    time.tzset()
    with player() as play:

        def one(seed: int) -> Verdict:
            verdict: Verdict = play(draw(seed))
            # A run that failed by chance cannot be minimised: its first verdict counts.
            return shrink(verdict, play) if verdict.finding and shrinks else verdict

        yield one


@contextlib.contextmanager
def player() -> Any:
    """Yield a player of scenarios, with a server and Spark for the duration of a `with` block."""
    small_chunks(pytest.MonkeyPatch())
    deferral._LOOK_SECONDS = LOOK_SECONDS  # type: ignore[misc]  # noqa: SLF001
    engine = SparkEngine(SparkConfig(spark_master=f"local[{SLOTS},4]", threads=SLOTS))
    with (
        running(ServerOptions(gtid=True)) as server,
        tempfile.TemporaryDirectory(prefix="spirit-py-fuzz-") as folder,
    ):
        engine.start()
        engine.context()
        try:
            with contextlib.redirect_stdout(open(os.devnull, "w")):  # noqa: PTH123
                yield functools.partial(
                    judge,
                    server=server,
                    migrate=functools.partial(
                        migrate, engine=engine, folder=Path(folder), archives=True
                    ),
                )
        finally:
            engine.stop()


def _parser() -> argparse.ArgumentParser:
    made = parser("fuzz_migrations.py", __doc__)
    made.add_argument("--no-shrink", dest="shrink", action="store_false", help="only report")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

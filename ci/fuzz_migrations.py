"""Random tables, changes, writers and settings; each judged against what the server itself does.

python ci/fuzz_migrations.py --runs 500     seeds from a fresh one on
python ci/fuzz_migrations.py --seed 4711    one run again, and made smaller if it fails
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import os
import queue
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mysql_server import ServerOptions, running
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.migration import deferral
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.settings import SparkOptions
from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.shrink import shrink
from tests.kits.cases import FIRST_ROWS, migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOTS = 2
#: The program's zone is neither the server's nor any writer's.
ZONE = "XYZ-11:15"
LOOK_SECONDS = 0.1
_SHOWN = 400


def main(argv: Sequence[str]) -> int:
    """Carry out the runs; 0 when every one of them was right."""
    asked = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    first = random.randrange(10**6) if asked.seed is None else asked.seed
    seeds = list(range(first, first + asked.runs))
    print(f"fuzz-migrations: {len(seeds)} runs from SEED={first}", flush=True)
    began = time.monotonic()
    verdicts = _all_runs(seeds, min(asked.workers, len(seeds)), shrinks=asked.shrink)
    kinds = Counter(verdict.kind for verdict in verdicts)
    spent = time.monotonic() - began
    print(f"\n{len(verdicts)} runs in {spent:.0f} s: {dict(kinds.most_common())}")
    bad = [verdict for verdict in verdicts if verdict.finding]
    for verdict in bad:
        print(f"again: make fuzz-migrations SEED={verdict.scenario.seed}   ({verdict.kind})")
    return 1 if bad or len(verdicts) < len(seeds) else 0


def _all_runs(seeds: Sequence[int], workers: int, *, shrinks: bool) -> list[Verdict]:
    """Share the runs among processes, each with a server and a Spark of its own."""
    context = multiprocessing.get_context("spawn")
    todo: Any = context.Queue()
    done: Any = context.Queue()
    for seed in seeds:
        todo.put(seed)
    processes = [
        context.Process(target=_work, args=(todo, done, shrinks), name=f"fuzz-{number}")
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    verdicts: list[Verdict] = []
    try:
        while len(verdicts) < len(seeds):
            try:
                verdict = done.get(timeout=5)
            except queue.Empty:
                if not any(process.is_alive() for process in processes):
                    break
                continue
            verdicts.append(verdict)
            _show(verdict)
    finally:
        for process in processes:
            process.join(0.1 if len(verdicts) < len(seeds) else 60)
            process.terminate()
            process.join(60)
            process.kill()
    return verdicts


def _show(verdict: Verdict) -> None:
    """Print a line, and the whole story of a finding."""
    text = verdict.text.replace("\n", " ")[:_SHOWN]
    print(f"{verdict.scenario.seed}: {verdict.kind} in {verdict.seconds:.1f} s {text}", flush=True)
    if verdict.finding:
        print(verdict.story(), flush=True)


def _work(todo: Any, done: Any, shrinks: bool) -> None:
    """Carry out runs until there are none left."""

    def end(number: int, _: object) -> None:
        # Nobody reads any more once this process is told to end.
        done.cancel_join_thread()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    os.environ["TZ"] = ZONE
    time.tzset()
    with contextlib.ExitStack() as stack:
        play = stack.enter_context(player())
        while True:
            try:
                seed = todo.get(timeout=1)
            except queue.Empty:
                return
            verdict = play(draw(seed))
            if verdict.finding and shrinks:
                # What made it fail may have been chance: the first verdict counts all the same.
                verdict = shrink(verdict, play)
            done.put(verdict)


@contextlib.contextmanager
def player() -> Any:
    """Give what plays scenarios, on a server and a Spark for the length of a `with` block."""
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    defaults["first_rows"] = FIRST_ROWS
    deferral._LOOK_SECONDS = LOOK_SECONDS  # type: ignore[misc]  # noqa: SLF001
    engine = SparkEngine(SparkOptions(master=f"local[{SLOTS},4]", threads=SLOTS))
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
                    migrate=functools.partial(migrate, engine=engine, folder=Path(folder)),
                )
        finally:
            engine.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz_migrations.py", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how many [default: 1]")
    parser.add_argument("--seed", type=int, help="the first seed [default: a new one]")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="only report")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

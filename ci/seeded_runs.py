"""Shared by `faults.py` and `fuzz_migrations.py`: seeded runs, distributed over processes."""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import signal
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_Job = TypeVar("_Job")
_Verdict = TypeVar("_Verdict")

_JOIN_SECONDS = 60.0


def parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every such script."""
    made = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--runs", type=int, default=1, help="how many [default: 1]")
    made.add_argument("--seed", type=int, help="the first seed [default: a new one]")
    made.add_argument("--workers", type=int, default=2, help="runs at a time")
    return made


def end_on_sigterm() -> None:
    """Turn SIGTERM into SystemExit, so that every `finally` block is executed, and to its end.

    Who ends a whole group of processes sends it to each, and each sends it to those that it ends.
    """
    _end_on_first(lambda: None)


def _end_on_first(before: Callable[[], object]) -> None:
    """Leave with SystemExit at the first SIGTERM, after a call, and ignore all later ones."""

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        before()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def carry_out(
    jobs: Sequence[_Job],
    worker: Callable[[], AbstractContextManager[Callable[[_Job], _Verdict]]],
    *,
    workers: int,
    show: Callable[[_Verdict], None],
) -> list[_Verdict]:
    """Distribute the jobs over processes, and show each verdict as it arrives.

    Args:
        worker: entered once in each process, it yields the function that carries out a job there.
            Like the jobs and the verdicts it is pickled.

    Returns:
        The verdicts in order of arrival; fewer than jobs if every process has died.
    """
    context = multiprocessing.get_context("spawn")
    todo: Any = context.Queue()
    done: Any = context.Queue()
    for job in jobs:
        todo.put(job)
    processes = [
        context.Process(target=_work, args=(todo, done, worker), name=f"worker-{number}")
        for number in range(min(workers, len(jobs)))
    ]
    for process in processes:
        process.start()
    verdicts: list[_Verdict] = []
    try:
        while len(verdicts) < len(jobs):
            try:
                verdict = done.get(timeout=5)
            except queue.Empty:
                if not any(process.is_alive() for process in processes):
                    break
                continue
            verdicts.append(verdict)
            show(verdict)
    finally:
        for process in processes:
            process.join(0.1 if len(verdicts) < len(jobs) else _JOIN_SECONDS)
            process.terminate()
            process.join(_JOIN_SECONDS)
            process.kill()
    return verdicts


def _work(todo: Any, done: Any, worker: Callable[[], Any]) -> None:
    """Carry out jobs until there are none left."""
    # The queue has no reader any more once this process is terminated.
    _end_on_first(done.cancel_join_thread)
    with worker() as carry_out_one:
        while True:
            try:
                job = todo.get(timeout=1)
            except queue.Empty:
                return
            done.put(carry_out_one(job))

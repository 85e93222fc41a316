"""The contenders that change the table in turns, and how each is started."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import recording, tools
from benchmarks.sessions import SCHEMA, TABLE, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.meter import Meter, Metered
    from benchmarks.sessions import Address
    from benchmarks.turn import Turn

#: With options behind its name, ``spirit-py`` is a contender of its own.
OURS = "spirit-py"
TAGGED, AGGRESSIVE = f"{OURS} --tag-own-writes", f"{OURS} --aggressive"
COPY, INPLACE = "ALGORITHM=COPY", "ALGORITHM=INPLACE"
THREADS = "plain threads"
AGGREGATE = "SQL aggregate"
NOTHING = "no migration"
#: Seconds for which the application is alone in a turn without a migration.
_ALONE_SECONDS = 15.0
#: Figures of the report that are kept with a turn.
_REPORTED = (
    "chunks", "rows_copied", "changes_received", "changes_applied", "peak_buffered_bytes",
    "backpressure_seconds", "checksum_passes", "chunks_repaired", "lock_wait_ms", "lock_held_ms",
)  # fmt: skip


@dataclass(kw_only=True)
class Task:
    """What every contender of a scenario is given.

    Attributes:
        options: more options for the program's command line.
        recorded: the program's own statements, for plain threads.
    """

    address: Address
    alter: str
    threads: int
    options: tuple[str, ...] = ()
    recorded: recording.Recording | None = None


@dataclass(kw_only=True)
class Ran:
    """The figures that a contender itself reports.

    Attributes:
        began: when the first phase began, in monotonic seconds.
        table: the table that it made.
    """

    seconds: float
    phases: dict[str, float] = field(default_factory=dict)
    began: float = 0.0
    table: str = TABLE
    notes: dict[str, Any] = field(default_factory=dict)


class Failed(RuntimeError):
    """A contender did not change the table."""


def environ_of(password: str) -> dict[str, str]:
    """Return the program's environment, in which it reads no options of whoever runs it."""
    return os.environ | {"SPIRIT_PY_NO_DEFAULTS": "1", "SPIRIT_PY_PASSWORD": password}


def ours(task: Task, meter: Meter) -> Ran:
    """Run the command line as an operator does."""
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder) / "report.json", Path(folder) / "log"
        command = [sys.executable, "-m", "spirit_py", "migrate"]
        command += ["--host", task.address.host, "--port", str(task.address.port)]
        command += ["--user", task.address.user, "--database", SCHEMA, "--table", TABLE]
        command += ["--alter", task.alter, "--threads", str(task.threads), "--no-shortcut"]
        command += ["--report-json", str(report), "--log-format", "json", *task.options]
        environ = environ_of(task.address.password)
        began = time.monotonic()
        # The log's clock is the wall clock.
        offset = began - time.time()
        seconds = _run(command, log, meter, "driver", environ)
        said: dict[str, Any] = json.loads(report.read_text())
        return Ran(
            seconds=seconds,
            phases=whole_phases(seconds, said["phases"], _first_line(log) + offset - began),
            began=began,
            notes={name: said[name] for name in _REPORTED if name in said},
        )


def whole_phases(seconds: float, phases: Mapping[str, float], start: float) -> dict[str, float]:
    """Add the time before the first phase and after the last to the report's phases."""
    start = max(0.0, min(start, seconds - sum(phases.values())))
    end = max(0.0, seconds - start - sum(phases.values()))
    return {"start": round(start, 3), **phases, "end": round(end, 3)}


def ours_with(options: Sequence[str]) -> Callable[[Task, Meter], Ran]:
    """Return the program with more options."""

    def run(task: Task, meter: Meter) -> Ran:
        return ours(replace(task, options=(*task.options, *options)), meter)

    return run


def nothing(_task: Task, _meter: Meter) -> Ran:
    """Leave the application alone."""
    began = time.monotonic()
    time.sleep(_ALONE_SECONDS)
    return Ran(seconds=time.monotonic() - began, began=began)


def native(algorithm: str) -> Callable[[Task, Meter], Ran]:
    """Return a contender that lets the server change the table by itself."""

    def run(task: Task, _meter: Meter) -> Ran:
        with Session(task.address) as session:
            began = time.monotonic()
            session.execute(f"ALTER TABLE {TABLE} {task.alter}, {algorithm}")
            seconds = time.monotonic() - began
        return Ran(seconds=seconds, phases={"rebuild": seconds}, began=began)

    return run


def plain_threads(task: Task, _meter: Meter) -> Ran:
    """Run the program's own statements again, without the program."""
    if task.recorded is None or not task.recorded.statements:
        raise Failed("the program's statements were not recorded")
    began = time.monotonic()
    phases = recording.replay(task.address, task.recorded, task.threads)
    return Ran(
        seconds=sum(phases.values()),
        phases=phases,
        began=began,
        table="_t_new",
        notes={"statements": task.recorded.statements},
    )


def bare_aggregate(task: Task, _meter: Meter) -> Ran:
    """Compare the table with itself in plain SQL; the checksum is measured against it.

    Each connection reads an equal part of the keys, without snapshot and lock. The hash leaves
    NULLs out, and does not show which row differs. The same table is read twice, as the checksum
    reads two equal ones.
    """
    from concurrent.futures import ThreadPoolExecutor

    with Session(task.address) as session:
        columns = session.query(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA ="
            f" '{SCHEMA}' AND TABLE_NAME = '{TABLE}' ORDER BY ORDINAL_POSITION"
        )
        ((first, last),) = session.query(f"SELECT MIN(id), MAX(id) FROM {TABLE}")
    listed = ", ".join(f"`{name}`" for (name,) in columns)
    step = (int(last) - int(first)) // task.threads + 1

    def run(number: int) -> None:
        low = int(first) + number * step
        with Session(task.address) as own:
            for _ in range(2):
                own.query(
                    f"SELECT COUNT(*), BIT_XOR(UNHEX(SHA2(CONCAT_WS(',', {listed}), 256)))"
                    f" FROM {TABLE} FORCE INDEX (PRIMARY) WHERE id >= {low} AND id < {low + step}"
                )

    began = time.monotonic()
    with ThreadPoolExecutor(task.threads) as pool:
        list(pool.map(run, range(task.threads)))
    seconds = time.monotonic() - began
    return Ran(seconds=seconds, phases={"checksum": seconds}, began=began)


def tool(which: tools.Tool) -> Callable[[Task, Meter], Ran]:
    """Return a contender that is another program."""

    def run(task: Task, meter: Meter) -> Ran:
        with tempfile.TemporaryDirectory() as folder:
            call = tools.Call(
                address=task.address, alter=task.alter, threads=task.threads, folder=Path(folder)
            )
            command = tools.prepare(which, call)
            began = time.monotonic()
            seconds = _run(command, Path(folder) / "log", meter, "tool", dict(os.environ))
        return Ran(seconds=seconds, began=began)

    return run


def _run(
    command: Sequence[str], log: Path, meter: Meter, kind: str, environ: Mapping[str, str]
) -> float:
    """Run a program to its end; return the seconds.

    Raises:
        Failed: when it ended with an error; with its last lines of output.
    """
    with log.open("wb") as said:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT)
        meter.add(process.pid, kind)
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    seconds = time.monotonic() - began
    if code:
        lines = log.read_text(errors="replace").splitlines()[-15:]
        raise Failed(f"{Path(command[0]).name} ended with {code}:\n" + "\n".join(lines))
    return seconds


def _first_line(log: Path) -> float:
    """Return the wall clock's time of the first line that has one."""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            return datetime.fromisoformat(json.loads(line)["time"]).timestamp()
    return 0.0


KNOWN: dict[str, Callable[[Task, Meter], Ran]] = {
    OURS: ours,
    NOTHING: nothing,
    COPY: native(COPY),
    INPLACE: native(INPLACE),
    THREADS: plain_threads,
    AGGREGATE: bare_aggregate,
    **{each.name: tool(each) for each in tools.TOOLS},
}


def known(name: str) -> Callable[[Task, Meter], Ran]:
    """Return a contender by its name, which may be the program's with options behind it."""
    program, *options = shlex.split(name)
    return ours_with(options) if program == OURS else KNOWN[name]


def spans(ran: Ran) -> dict[str, tuple[float, float]]:
    """Return when each phase began and ended, in monotonic seconds."""
    at, found = ran.began, {}
    for name, spent in ran.phases.items():
        found[name] = (at, at + spent)
        at += spent
    return found


def fill(turn: Turn, ran: Ran, metered: Metered) -> None:
    """Enter the figures of the contender and of the meter into a turn."""
    turn.seconds = round(ran.seconds, 3)
    turn.phases = {name: round(spent, 3) for name, spent in ran.phases.items()}
    turn.notes |= ran.notes
    turn.cpu, turn.server_threads = metered.cpu, metered.server
    turn.phase_cpu = {name: metered.cpu_between(*span) for name, span in spans(ran).items()}

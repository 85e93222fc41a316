"""The time that ``spirit-py plan`` says beside the time that the migration takes, for three tables.

A narrow table of two million rows, one with four random indexes, and a wide one; each is planned
and then migrated, from the command line, with the same options, on an otherwise idle server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.contenders import environ_of
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address
from benchmarks.tables import INDEXED, SYSBENCH, TEXT_KEY, WIDE
from benchmarks.whole import say, settle

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

#: Name, table, and rows of it where the narrow one has two million.
TABLES: Final = (
    ("narrow", SYSBENCH, 1.0),
    ("indexed", INDEXED, 0.4),
    ("text key", TEXT_KEY, 0.3),
    ("wide", WIDE, 0.06),
)
#: Planned and real time may differ by so much.
GOAL: Final = 1.3


def planned_and_real(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Plan and migrate each table; the ratio is the larger time by the smaller one."""
    address = Address.of(server)
    figures, notes = [], {}
    for name, table, share in TABLES:
        say(f"plan: loading {name}")
        table.create(address, int(rows * share))
        settle(address, purge=server.datadir is not None)
        plan = _run("plan", server, sizes, "--format", "json")["tables"][0]["time"]
        real = _run("migrate", server, sizes)
        seconds = sum(real["phases"].values())
        ratio = max(plan["seconds"], seconds) / max(0.01, min(plan["seconds"], seconds))
        phases = {each["phase"]: each["seconds"] for each in plan["phases"]}
        took = {one: round(spent, 1) for one, spent in real["phases"].items()}
        say(f"plan: {name}: planned {plan['seconds']:.1f} s {phases}, took {seconds:.1f} s {took}")
        notes[name] = f"{plan['sample_rows']} rows of sample in {plan['sample_seconds']:.1f} s"
        figures.append(
            Figure(
                name=f"planned, {name}",
                ours=ratio,
                peer=1.0,
                against=f"planned {plan['seconds']:.1f} s, took {seconds:.1f} s",
                goal=GOAL,
                unit="",
            )
        )
    return Outcome(scenario="plan", rows=rows, figures=figures, notes=notes)


def run_program(command: str, server: MySQLServer, sizes: Sizes, *words: str) -> str:
    """Run a command about the benchmark's table to its end; return what it has written."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "spirit_py", command),
            *("--host", f"{server.host}:{server.port}", "--user", server.user),
            *("--database", SCHEMA, "--table", TABLE, "--threads", str(sizes.threads), *words),
        ],
        env=environ_of(server.password),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.stderr[-2000:]}")
    return done.stdout


def _run(command: str, server: MySQLServer, sizes: Sizes, *more: str) -> dict[str, Any]:
    """Run a command; return its JSON, or its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ("--alter", "ENGINE=InnoDB", "--no-shortcut")
        recorded = more or ("--report-json", str(report))
        said = run_program(command, server, sizes, *words, *recorded)
        text = said if command == "plan" else report.read_text()
        found: dict[str, Any] = json.loads(text)
        return found

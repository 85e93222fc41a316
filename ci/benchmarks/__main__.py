"""Measure whole migrations, the feed, the swap and the decoder, each beside its peers.

Whatever is compared takes turns in one run, several rounds, and medians are compared, because a
machine does other things as well. docs/benchmarks.md describes each scenario.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mysql_server
from benchmarks import table, tools, turn
from benchmarks.contenders import OURS
from benchmarks.scenario import Figure, Outcome, Sizes
from benchmarks.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.scenario import Scenario
    from mysql_server import Provider

#: CPU seconds of the program and Spark for a million rows beyond the start.
_CPU_GOAL = 0.7
_MILLION = 1e6


def main() -> int:
    """Run the scenarios that were asked for."""
    asked = _arguments()
    # Like Ctrl-C: settings of a server that is named are restored, and what runs is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sizes = Sizes(
        rows=asked.rows,
        rounds=asked.rounds,
        threads=asked.threads,
        buffer_pool=asked.buffer_pool,
        server=(*(_NOT_DURABLE if asked.not_durable else ()), *asked.set),
        variants=tuple(f"{OURS} {options}" for options in asked.variant),
    )
    # The move needs two servers of its own, so all of them are all but that where one is named.
    named = os.environ.get(mysql_server.SERVER_VARIABLE)
    usual = [name for name in SCENARIOS if not (named and name == "move")]
    chosen = [SCENARIOS[name] for name in asked.only or usual]
    if asked.list:
        print("\n".join(listing(chosen, sizes)))
        return 0
    provider = mysql_server.choose()
    print(provider)
    others = ", ".join(each.name for each in tools.found()) or "none"
    print(f"other tools on the PATH, of {', '.join(each.name for each in tools.TOOLS)}: {others}")
    minutes = sum(each.expected_minutes(sizes) for each in chosen)
    print(f"{len(chosen)} scenarios, about {minutes:.0f} minutes on 2 cores", flush=True)
    about: dict[str, str] = {}
    began, outcomes = time.monotonic(), []
    for each in chosen:
        outcome, about = _run(each, sizes, provider)
        outcomes.append(outcome)
        print("\n".join(table.lines(outcome)), flush=True)
        # Kept after every scenario: a run is long.
        _write(asked.json, outcomes, sizes, about, time.monotonic() - began)
    beyond = cpu_beyond_the_start(outcomes)
    if beyond:
        print("\n".join(["== between idle and long", *table.figures([beyond])]))
    _write(asked.json, outcomes, sizes, about, time.monotonic() - began)
    print(f"the whole run took {(time.monotonic() - began) / 60:.1f} minutes; see {asked.json}")
    if asked.picture:
        from benchmarks import picture

        if picture.draw(outcomes, asked.picture):
            print(f"drawn in {asked.picture}")
    return 1 if any(each.failed for each in outcomes) else 0


#: Where no commit waits, whatever the server's settings.
_IN_MEMORY: Final = ("tmpfs", "ramfs")
#: Later options of mysqld take precedence.
_NOT_DURABLE: Final = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="ci/bench", description=__doc__)
    rows, rounds = os.environ.get("BENCH_ROWS", "0"), os.environ.get("BENCH_ROUNDS", "3")
    parser.add_argument("--list", action="store_true", help="name the scenarios and their length")
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), metavar="NAME")
    parser.add_argument(
        "--rows", type=int, default=int(rows), help="instead of each one's own; also BENCH_ROWS"
    )
    parser.add_argument("--rounds", type=int, default=int(rounds), help="also BENCH_ROUNDS")
    parser.add_argument("--threads", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument(
        "--buffer-pool", default="", metavar="SIZE", help="of the server, instead of each one's own"
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="OPTIONS",
        help="spirit-py with more options as a further contender, such as --variant='--nice 0.5';"
        " repeatable",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="--OPTION=VALUE",
        help="one more mysqld option, as in --set=--innodb-log-writer-threads=ON; repeatable",
    )
    parser.add_argument(
        "--not-durable",
        action="store_true",
        help="no commit waits for the disk: sync_binlog=0, innodb_flush_log_at_trx_commit=2",
    )
    parser.add_argument("--json", type=Path, default=Path("bench.json"))
    parser.add_argument("--picture", type=Path, default=Path("bench.png"))
    parser.add_argument("--no-picture", dest="picture", action="store_const", const=None)
    asked = parser.parse_args()
    if os.environ.get(mysql_server.SERVER_VARIABLE) and (
        asked.buffer_pool or asked.set or asked.not_durable
    ):
        parser.error(
            f"the server that {mysql_server.SERVER_VARIABLE} names keeps its own settings: leave"
            " out --buffer-pool, --set and --not-durable"
        )
    return asked


def listing(scenarios: Sequence[Scenario], sizes: Sizes) -> list[str]:
    """Return a line for each scenario, and how long all of them take."""
    said = [f"{'':18}{'rows':>11}{'minutes':>9}  on 2 cores"]
    for each in scenarios:
        rows, minutes = each.rows_of(sizes), each.expected_minutes(sizes)
        said.append(f"{each.name:18}{rows:>11,}{minutes:9.1f}  {each.title}")
    whole = sum(each.expected_minutes(sizes) for each in scenarios)
    return [*said, f"{'all':18}{'':>11}{whole:9.1f}"]


def _run(scenario: Scenario, sizes: Sizes, provider: Provider) -> tuple[Outcome, dict[str, str]]:
    """Measure one scenario on a server of its own; return what is known of that, too."""
    began, rows = time.monotonic(), scenario.rows_of(sizes)
    options = sizes.options(scenario.buffer_pool)
    with mysql_server.running(options, provider=provider) as server:
        about = {"mysql": server.version(), "data_in": file_system(server.datadir)}
        if about["data_in"] in _IN_MEMORY and not set(_NOT_DURABLE) <= set(sizes.server):
            raise SystemExit(
                f"{server.datadir} is in memory ({about['data_in']}), where a commit that waits for"
                " the disk costs nothing: name a folder of a disk in TMPDIR, or add --not-durable"
            )
        try:
            outcome = scenario.measure(server, rows, sizes)
        except (Exception, SystemExit) as error:
            # The scenarios after it are still measured.
            traceback.print_exc()
            failed = {"FAILED": f"{type(error).__name__}: {error}"}
            outcome = Outcome(scenario=scenario.name, rows=rows, figures=[], notes=failed)
        outcome.took = round(time.monotonic() - began, 1)
        return outcome, about


def file_system(folder: Path | None) -> str:
    """Return the kind of file system that a folder is in; of a server elsewhere it is unknown."""
    if folder is None:
        return ""
    asked = ["stat", "--file-system", "--format=%T", str(folder)]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def cpu_beyond_the_start(outcomes: Sequence[Outcome]) -> Figure | None:
    """Return the CPU of program and Spark for a million rows more, between two idle scenarios.

    Spark's start is in neither: threads of the program copy both.
    """
    found = {each.scenario: each for each in outcomes}
    if not {"idle", "long"} <= found.keys():
        return None
    idle, long = found["idle"], found["long"]
    used = [
        turn.median(made.program_cpu for made in turn.of(each.turns, OURS)) for each in (idle, long)
    ]
    if used[0] is None or used[1] is None or long.rows <= idle.rows:
        return None
    return Figure(
        name="CPU for a million rows more",
        ours=max(0.0, (used[1] - used[0]) * _MILLION / (long.rows - idle.rows)),
        peer=_CPU_GOAL,
        against=f"{_CPU_GOAL} s",
        goal=1.0,
    )


def _write(
    path: Path, outcomes: Sequence[Outcome], sizes: Sizes, about: dict[str, str], seconds: float
) -> None:
    """Write everything as JSON."""
    beyond = cpu_beyond_the_start(outcomes)
    found = {
        "machine": _machine() | about,
        "sizes": asdict(sizes),
        "seconds": round(seconds, 1),
        "scenarios": [_as_json(each) for each in outcomes],
        "across": [_figure(beyond)] if beyond else [],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def _as_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON's own types."""
    return asdict(outcome) | {"figures": [_figure(each) for each in outcome.figures]}


def _figure(figure: Figure) -> dict[str, Any]:
    """Return a figure with its ratio."""
    return asdict(figure) | {"ratio": round(figure.ratio, 3), "missed": figure.missed}


def _machine() -> dict[str, Any]:
    """Return on what this was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


if __name__ == "__main__":
    sys.exit(main())

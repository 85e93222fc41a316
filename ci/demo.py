"""Migrate a million rows under live writes; verify the result with the writers' journals."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mysql_server
import workload
from mysql_base import ServerError, ServerOptions
from mysql_debian import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_base import MySQLServer

SCHEMA = "shop"
SLOTS = 2
#: Rows that a writer has at least when it begins; it deletes some.
_ROWS_EACH = 100
ALTER = (
    "ADD COLUMN note VARCHAR(200), MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,"
    " ADD INDEX customer (customer)"
)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The result of the comparison with the journal."""

    rows: int
    lost: int
    extra: int
    changed: int

    @property
    def clean(self) -> bool:
        """Whether table and journal agree."""
        return not (self.lost or self.extra or self.changed)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is asked for; a run that could prove nothing is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument(
        "--rate", type=float, default=600.0, help="transactions a second, all writers"
    )
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="writing before and after the migration"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(words)
    if asked.writers < 1 or asked.rate <= 0:
        parser.error("without a writer, or at no rate, nothing is proved")
    if not _ROWS_EACH * asked.writers <= asked.rows <= workload.MOST_ROWS:
        parser.error(
            f"--rows is from {_ROWS_EACH} for each writer to {workload.MOST_ROWS:,},"
            f" not {asked.rows:,}"
        )
    return asked


def main() -> int:
    """Run the demo; return 0 if nothing was lost."""
    asked = arguments()
    try:
        return _on_a_server(asked)
    except (FetchError, ServerError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _on_a_server(asked: argparse.Namespace) -> int:
    """Run it on a throwaway server."""
    # A server that is named for the tests may have a schema of that name.
    named = mysql_server.SERVER_VARIABLE
    provider = mysql_server.choose({k: v for k, v in os.environ.items() if k != named})
    print(f"== {provider}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spirit-py-demo-"))
        with at_work("starting it on an empty data folder"):
            options = ServerOptions(buffer_pool="512M")
            server = stack.enter_context(mysql_server.running(options, provider=provider))
        return demonstrate(server, Path(folder), asked)


@contextlib.contextmanager
def at_work(what: str, *, every: float = 5.0) -> Iterator[None]:
    """Print what is done, and every few seconds for how long already."""
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not over.wait(every):
            print(f"==   {time.monotonic() - began:.0f} s", flush=True)

    print(f"== {what}", flush=True)
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def demonstrate(server: MySQLServer, folder: Path, asked: argparse.Namespace) -> int:
    """Load, write, migrate, continue to write, compare, report."""
    began = time.monotonic()
    with at_work(f"loading {asked.rows:,} rows into {SCHEMA}.{workload.TABLE} (seed {asked.seed})"):
        workload.load(server, SCHEMA, asked.rows)
    application = workload.Application(
        server,
        SCHEMA,
        rows=asked.rows,
        folder=folder,
        writers=asked.writers,
        rate=asked.rate,
        seed=asked.seed,
    )
    print(
        f"== {asked.writers} writers start: insert, update, delete, move unique values and keys",
        flush=True,
    )
    application.start()
    try:
        time.sleep(asked.seconds)
        started = time.monotonic()
        code, report = migrate(server, folder / "report.json")
        ended = time.monotonic()
        print(f"== writing for another {asked.seconds:.0f} s after the swap", flush=True)
        time.sleep(asked.seconds)
    finally:
        application.stop()
    if code:
        print(f"demo FAILED: spirit-py ended with {code}", file=sys.stderr)
        return 1
    with at_work("comparing every row with the writers' journal"):
        proof = compare(server, asked.rows, [writer.journal for writer in application.writers])
    show(application, proof, report, (started, ended))
    print(f"{'whole demo':<44}{time.monotonic() - began:>10.0f} s")
    during = application.acknowledged(lambda t: started <= t <= ended)
    wrong = {
        "writes are lost": not proof.clean or application.failures() or report["chunks_repaired"],
        "no write fell into the migration": not during,
        "the table is as before": not altered(server),
    }
    found = [what for what, is_so in wrong.items() if is_so]
    print(f"demo FAILED: {', '.join(found)}" if found else "demo: nothing lost, nothing changed")
    return 1 if found else 0


def altered(server: MySQLServer) -> bool:
    """Whether the table has all that :data:`ALTER` asks for."""
    connection = workload.connect(server, SCHEMA)
    cursor = connection.cursor()
    cursor.execute(f"SHOW CREATE TABLE {workload.TABLE}")
    ((_, text),) = cursor.fetchall()
    connection.close()
    return all(one in text for one in ("`note` varchar(200)", "`id` bigint", "KEY `customer` ("))


def migrate(server: MySQLServer, report: Path) -> tuple[int, dict[str, Any]]:
    """Run ``spirit-py migrate`` as a user would; return its exit code and report."""
    command = [
        str(Path(sys.executable).with_name("spirit-py")),
        "migrate",
        "--host",
        f"{server.host}:{server.port}",
        "--user",
        server.user,
        "--database",
        SCHEMA,
        "--table",
        workload.TABLE,
        "--alter",
        ALTER,
        # Named, so that Spark is started for a table that threads of the command could copy alone.
        "--spark-master",
        f"local[{SLOTS}]",
        "--report-json",
        str(report),
    ]
    shown = " ".join(f'"{word}"' if " " in word else word for word in ["spirit-py", *command[1:-2]])
    print(f"== {shown}", flush=True)
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, "SPIRIT_PY_NO_DEFAULTS": "1", "SPIRIT_PY_PASSWORD": server.password},
    )
    found = json.loads(report.read_text()) if report.exists() else {}
    return done.returncode, found


def compare(server: MySQLServer, rows: int, journals: list[Path]) -> Proof:
    """Compare the table with the replayed journals, row by row and value by value."""
    expected = workload.expected_rows(rows, journals)
    actual = workload.actual_rows(server, SCHEMA)
    return Proof(
        rows=len(actual),
        lost=len(expected.keys() - actual.keys()),
        extra=len(actual.keys() - expected.keys()),
        changed=sum(expected[key] != actual[key] for key in expected.keys() & actual.keys()),
    )


def show(
    application: workload.Application,
    proof: Proof,
    report: dict[str, Any],
    span: tuple[float, float],
) -> None:
    """Print the proof."""
    started, ended = span
    lines: list[tuple[str, object]] = [
        ("rows in the table", f"{proof.rows:,}"),
        (
            "writes acknowledged before the migration",
            f"{application.acknowledged(lambda t: t < started):,}",
        ),
        (
            "writes acknowledged during the migration",
            f"{application.acknowledged(lambda t: started <= t <= ended):,}",
        ),
        (
            "writes acknowledged after the swap",
            f"{application.acknowledged(lambda t: t > ended):,}",
        ),
        ("writes failed", len(application.failures())),
        ("rows lost", proof.lost),
        ("rows extra", proof.extra),
        ("rows changed", proof.changed),
        ("chunks repaired", report["chunks_repaired"]),
        (
            "longest write without a migration",
            f"{1000 * application.longest_stall(0, started):.0f} ms",
        ),
        (
            "longest write during the migration",
            f"{1000 * application.longest_stall(started, ended):.0f} ms",
        ),
        ("lock held by the cut-over", f"{report['lock_held_ms']:.0f} ms"),
    ]
    print()
    for name, value in lines:
        print(f"{name:<44}{value!s:>12}")
    for failure in application.failures():
        print(f"FAILED {failure}")


if __name__ == "__main__":
    sys.exit(main())

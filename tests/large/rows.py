"""Tables of millions of rows: memory that does not grow with them, and little work done again.

Takes many minutes and gigabytes, so pytest collects it only by name: ci/lane-large.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kits.command import command_line, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.mysql import Database

FEWER, MORE = 2_000_000, 20_000_000
#: Peaks of the larger table against those of the smaller (what the program must show).
GROWTH = 1.10
#: Seconds of work that a killed run may cost.
AGAIN = 60.0
PATIENCE = 1500.0
MIB = 1 << 20


def fill(db: Database, rows: int) -> None:
    """Make the table ``t`` with so many rows, without filling the binlog."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(60) NOT NULL)")
    db.execute("SET SESSION cte_max_recursion_depth = 1000000, sql_log_bin = 0")
    step = min(rows, 500_000)
    for first in range(0, rows, step):
        db.execute(
            "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            f" WHERE i < {step}) SELECT {first} + i, i * 3, CONCAT('a row, and its number ', i)"
            " FROM n"
        )
        db.execute("COMMIT")
    db.execute("ANALYZE TABLE t")


class Migration:
    """``spirit-py migrate`` in processes of its own, with their memory watched.

    Attributes:
        peaks: bytes that all processes of a kind had together at most.
    """

    def __init__(self, db: Database, folder: Path) -> None:
        self.file, self.log = folder / "report.json", folder / "log"
        words = [
            *(
                "--no-shortcut",
                "--no-repair",
                "--table",
                "t",
                "--alter",
                "MODIFY a BIGINT NOT NULL",
            ),
            *("--threads", "2", "--report-json", str(self.file)),
            # Named, because fewer rows would be copied by threads before Spark is there.
            *("--spark-master", "local[2]"),
        ]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command_line(db, "migrate", *words),
                env=environment(db),
                stdout=output,
                stderr=output,
            )
        self.peaks: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        """Look at the memory of all processes of the session, several times a second."""
        while not self._ended.wait(0.2):
            for kind, size in memory_of(self.process.pid).items():
                self.peaks[kind] = max(size, self.peaks.get(kind, 0))

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition while it runs."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def report(self) -> dict[str, Any]:
        """Wait for a good end; return the report."""
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found

    def kill(self) -> None:
        """Kill everything that belongs to it."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def migration(db: Database, folder: Path) -> Iterator[Migration]:
    """Run the command, and leave nothing of it behind."""
    running = Migration(db, folder)
    try:
        yield running
    finally:
        running.kill()


def memory_of(driver: int) -> dict[str, int]:
    """Return the bytes that the driver, its JVM and its workers have now.

    Pages that forked workers share are counted once (proportional set size).
    """
    found: dict[str, int] = {}
    for pid in descendants(driver):
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            program = (folder / "cmdline").read_bytes().split(b"\0")[0]
            kind = "driver" if pid == driver else "JVM" if b"java" in program else "workers"
            for line in (folder / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    found[kind] = found.get(kind, 0) + int(line.split()[1]) * 1024
    return found


def descendants(pid: int) -> list[int]:
    """Return a process and all that it started, and they started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The parent is the second field behind the name, which stands in parentheses.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for known in found:
        found += children.get(known, [])
    return found


@pytest.mark.timeout(3600)
def test_memory_does_not_grow_with_the_rows(
    db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Driver, JVM and workers need for ten times the rows what they needed for the rows."""
    peaks = []
    for rows in (FEWER, MORE):
        folder = tmp_path / str(rows)
        folder.mkdir()
        fill(db, rows)
        with migration(db, folder) as running:
            report = running.report()
        assert report["rows_copied"] == report["checksum_rows"] == rows
        peaks.append(running.peaks)
        with capsys.disabled():
            shown = ", ".join(
                f"{kind} {size / MIB:.0f} MiB" for kind, size in sorted(running.peaks.items())
            )
            sys.stdout.write(f"\n{rows} rows in {report['seconds']:.0f} s: {shown}\n")
        db.execute("DROP TABLE t")
    small, large = peaks
    assert set(small) == set(large) == {"driver", "JVM", "workers"}
    assert {
        kind: large[kind] / small[kind] for kind in small if large[kind] > GROWTH * small[kind]
    } == {}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rows", [FEWER, MORE])
def test_little_is_copied_again_after_a_kill(
    db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: int
) -> None:
    """Killed at 50 %, the next run copies at most a minute of work again, and says from where."""
    fill(db, rows)
    with migration(db, tmp_path) as first:
        first.until(lambda: new_table(db))
        began = time.monotonic()
        first.until(lambda: (db.query("SELECT MAX(id) FROM _t_new")[0][0] or 0) >= rows // 2)
        first.kill()
        spent = time.monotonic() - began
    copied = db.query("SELECT COUNT(*) FROM _t_new")[0][0]
    with migration(db, tmp_path) as second:
        report = second.report()
    again = copied - report["rows_copied_before"]
    with capsys.disabled():
        sys.stdout.write(
            f"\nkilled after {copied} of {rows} rows and {spent:.0f} s: {again} rows copied again,"
            f" {again / copied * spent:.0f} s of work; it said: {report['resumed']}\n"
        )
    assert report["runs"] == 2
    assert again / copied * spent <= AGAIN
    found = db.query("SELECT COUNT(*), SUM(a = MOD(id - 1, 500000) * 3 + 3) FROM t")
    assert [int(number) for number in found[0]] == [rows, rows]


def new_table(db: Database) -> bool:
    """Return whether there is a new table."""
    return bool(db.query("SHOW TABLES LIKE '\\_t\\_new'"))

"""``spirit-py migrate`` as a process that tests can hold at its points."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

from spirit_py import points
from tests.kits.command import command_line, environment
from tests.kits.point_listener import PointListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.kits.point_listener import Hold

ROWS = 3000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
PATIENCE = 240.0


def fill(db: Database, rows: int = ROWS) -> Database:
    """Create the table ``t`` with a few thousand rows of computable content."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(50))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {rows}) SELECT i, i * 3, CONCAT('row ', i) FROM n"
    )
    return db


def assert_migrated(db: Database) -> None:
    """Every row is there with the new definition, and nothing else is."""
    assert sorted(row[0] for row in db.query("SHOW TABLES")) == ["t"]
    found = db.query(
        "SELECT COUNT(*), SUM(a = id * 3), SUM(b = CONCAT('row ', id)), SUM(z = 5) FROM t"
    )
    assert tuple(int(number) for number in found[0]) == (ROWS,) * 4


class Command:
    """``spirit-py migrate`` as a process, which can be held at its points."""

    def __init__(
        self,
        db: Database,
        listener: PointListener,
        folder: Path,
        *more: str,
        alter: str = ALTER,
        hooks: str = "small-chunks",
        copies: bool = True,
    ) -> None:
        run = len(list(folder.glob("*.log")))
        self.report_file, self.log = folder / f"{run}.json", folder / f"{run}.log"
        words = [
            *("--table", "t", "--alter", alter, "--report-json", str(self.report_file), *more),
            *(("--no-shortcut", "--no-repair", "--threads", "2") if copies else ()),
        ]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command_line(db, "migrate", *words, hooks=hooks),
                env=environment(db, **{points.VARIABLE: str(listener.path)}),
                stdout=output,
                stderr=output,
            )

    def wait_held(self, hold: Hold) -> None:
        """Wait until the program stands at the point."""
        self.until(hold.held.is_set, f"{hold.point} was not reached")

    def until(self, condition: Callable[[], object], otherwise: str) -> None:
        """Wait for a condition while the command runs."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None or condition(), f"ended: {self.said}"
            assert time.monotonic() < deadline, f"{otherwise}: {self.said}"
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        return self.process.wait(PATIENCE)

    @property
    def said(self) -> str:
        """What it wrote so far."""
        return self.log.read_text(errors="replace")

    def finish(self) -> dict[str, Any]:
        """Wait for a good end; return the report."""
        assert self.end() == 0, self.said
        found: dict[str, Any] = json.loads(self.report_file.read_text())
        return found

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def migration(
    db: Database, folder: Path, *more: str, **given: Any
) -> Iterator[tuple[Command, PointListener]]:
    """Run the command with a listener on its points."""
    with PointListener(folder / "points") as listener:
        command = Command(db, listener, folder, *more, **given)
        try:
            yield command, listener
        finally:
            command.close()

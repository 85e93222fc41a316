"""Lists of servers: schemas that stand for servers, and commands for all of them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from tests.kits.command import MINUTE, command_line, environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kits.batch import Shards


class Listed:
    """A list of servers, one for each shard: ``s1``, ``s2`` and so on, in two regions."""

    def __init__(self, made: Shards, folder: Path) -> None:
        self.made, self.db = made, made.db
        self.names = [f"s{number}" for number, _ in enumerate(made.schemas, 1)]
        self.file = folder / "servers.txt"
        self.report = folder / "report.json"
        self.write(self.names)

    def write(self, names: Sequence[str], *, more: str = "") -> None:
        """Write the list with these servers, in this order; ``more`` are other lines."""
        where = f"{self.db.server.host}:{self.db.server.port}"
        lines = [
            f"mysql://{where}/{self.made.schemas[self.names.index(name)]} name={name}"
            f" region={'eu' if self.names.index(name) % 2 else 'us'}"
            for name in names
        ]
        self.file.write_text("\n".join([*lines, more]) + "\n")

    def words(self, command: str, *more: str, hooks: str = "") -> list[str]:
        """Return the words of a command for all servers."""
        line = command_line(self.db, command, hooks=hooks)
        at = line.index("--host")
        listed = ("--fleet" if command == "ctl" else "--servers", str(self.file))
        user = ("--user", self.db.server.user)
        return [*line[:at], *user, *listed, *more]

    def start(self, *more: str, hooks: str = "", **variables: str) -> subprocess.Popen[str]:
        """Start ``spirit-py migrate`` for all servers."""
        chosen = ("--yes", "--report-json", str(self.report), "--log-format", "json")
        return subprocess.Popen(
            self.words("migrate", "--table", "orders", *chosen, *more, hooks=hooks),
            env=environment(self.db, **variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a command for all servers to its end."""
        return subprocess.run(
            self.words(command, *more),
            env=environment(self.db),
            capture_output=True,
            text=True,
            timeout=4 * MINUTE,
            check=False,
        )

    def migrate(self, *more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Run ``spirit-py migrate`` for all servers; return its report, and its events."""
        return self.end(self.start(*more))

    def end(self, process: subprocess.Popen[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Wait for the end of a command; return its report, and its events."""
        _, said = process.communicate(timeout=5 * MINUTE)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        assert self.report.exists(), said
        report: dict[str, Any] = json.loads(self.report.read_text())
        assert report["exit_code"] == process.returncode, said
        return report, events

    @staticmethod
    def states(report: dict[str, Any]) -> dict[str, str]:
        """Return the state of each server."""
        return {one["name"]: one["state"] for one in report["servers"]}


def named(events: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the events of a name."""
    return [one for one in events if one["event"] == name]

"""One change on eight servers: the whole command, beside the schedule of the single runs.

Schemas of one server stand for the servers, one at a time: two would share its cores, and what is
measured is what the coordinator adds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import environ_of
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from benchmarks.whole import say
from spirit_py.command_config import BatchConfig, FleetConfig, FleetServer
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.fleet.waves import seconds_of

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

_SERVERS = 8
_AT_ONCE = 1
_CHANGE = ("--table", TABLE, "--alter", "FORCE", "--no-shortcut", "--threads", "1")


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Measure each server's part alone, and all of them as a fleet, in turns; seconds."""
    address = Address.of(server)
    SYSBENCH.create(address, rows)
    schemas = [f"{SCHEMA}_{number}" for number in range(1, _SERVERS + 1)]
    with Session(address) as session:
        for schema in schemas:
            session.execute(f"DROP DATABASE IF EXISTS {schema}")
            session.execute(f"CREATE DATABASE {schema}")
            session.execute(f"CREATE TABLE {schema}.{TABLE} LIKE {SCHEMA}.{TABLE}")
            session.execute(f"INSERT INTO {schema}.{TABLE} SELECT * FROM {SCHEMA}.{TABLE}")
            session.query(f"ANALYZE TABLE {schema}.{TABLE}")
    ways = {"single runs": _singly, "fleet": _together}
    seen: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for number in range(sizes.rounds):
            for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
                seen[name].append(ways[name](server, schemas))
                say(f"fleet: {name}: {seen[name][-1]:.1f} s")
    finally:
        with Session(address) as session:
            for schema in schemas:
                session.execute(f"DROP DATABASE {schema}")
    return Outcome(
        scenario="fleet",
        rows=rows,
        figures=[
            Figure(
                name="seconds of eight servers, one at a time",
                ours=statistics.median(seen["fleet"]),
                peer=statistics.median(seen["single runs"]),
                against="the schedule of the single runs",
                unit="s",
                goal=1.15,
            )
        ],
    )


def _singly(server: MySQLServer, schemas: list[str]) -> float:
    """Run each alone; return the seconds that they come to by the fleet's schedule."""
    alone = {
        name: _seconds(server, "--host", _host(server), "--database", name) for name in schemas
    }
    return seconds_of(_fleet(schemas), alone)


def _together(server: MySQLServer, schemas: list[str]) -> float:
    """Run all as a fleet; return the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "servers.txt"
        lines = (f"mysql://{_host(server)}/{name} name={name}\n" for name in schemas)
        listed.write_text("".join(lines))
        chosen = ("--servers", str(listed), "--servers-at-once", str(_AT_ONCE), "--yes")
        return _seconds(server, *chosen)


def _fleet(names: list[str]) -> FleetConfig:
    each = MigrationConfig(connection=ConnectionOptions(), database="")
    servers = (FleetServer(name=name, batch=BatchConfig(each=each)) for name in names)
    return FleetConfig(servers=tuple(servers), asked="", at_once=_AT_ONCE)


def _host(server: MySQLServer) -> str:
    return f"{server.host}:{server.port}"


def _seconds(server: MySQLServer, *words: str) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "spirit_py", "migrate", "--user", server.user),
            *_CHANGE,
            *words,
        ],
        env=environ_of(server.password),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"migrate failed: {done.stderr[-2000:]}")
    return time.monotonic() - began

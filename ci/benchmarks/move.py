"""A table to another server: ``spirit-py move``, beside ``mysqldump | mysql``.

The dump follows no change, compares nothing and switches nothing. Both servers are on this machine.
"""

from __future__ import annotations

import json
import os
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
from benchmarks.tables import SYSBENCH, WIDE
from benchmarks.whole import say, settle
from mysql_base import NamedServer
from mysql_server import running

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

#: A wide row is as long as so many of the others.
_WIDE_SHARE = 20
_GOAL = 0.5


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Measure both ways, in turns, with many small rows and with wide ones; seconds."""
    if isinstance(server, NamedServer):  # The target would be the same one.
        raise SystemExit("move: it needs two servers of its own")
    address = Address.of(server)
    figures = []
    with running(sizes.options()) as target:
        there = Address.of(target)
        for name, table, count in (
            ("small rows", SYSBENCH, rows),
            ("wide rows", WIDE, max(1000, rows // _WIDE_SHARE)),
        ):
            seen: dict[str, list[float]] = {"move": [], "copy": [], "dump": []}
            for number in range(sizes.rounds):
                for way in ("move", "dump")[:: 1 if number % 2 == 0 else -1]:
                    table.create(address, count)
                    settle(address, purge=server.datadir is not None)
                    with Session(there, schema="") as session:
                        session.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
                        session.execute(f"CREATE DATABASE {SCHEMA}")
                    began = time.monotonic()
                    if way == "move":
                        seen["copy"].append(_move(server, target, sizes))
                    else:
                        _dump(server, target)
                    seen[way].append(time.monotonic() - began)
                    say(f"move: {name}: {way} in {seen[way][-1]:.1f} s")
            peer = statistics.median(seen["dump"])
            figures += [
                Figure(
                    name=f"{what}, {name}",
                    ours=statistics.median(seen[key]),
                    peer=peer,
                    against="mysqldump | mysql",
                    unit="s",
                    goal=_GOAL,
                )
                for key, what in (("copy", "copy"), ("move", "whole command"))
            ]
    return Outcome(scenario="move", rows=rows, figures=figures)


def _move(server: MySQLServer, target: MySQLServer, sizes: Sizes) -> float:
    """Move the table; return the seconds of the copy."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "spirit_py", "move", "--tables", f"{SCHEMA}.{TABLE}"),
                *("--host", f"{server.host}:{server.port}", "--user", server.user),
                *("--target-host", f"{target.host}:{target.port}", "--target-user", target.user),
                *("--threads", str(sizes.threads), "--report-json", str(report)),
            ],
            env=environ_of(server.password) | {"SPIRIT_PY_TARGET_PASSWORD": target.password},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"move failed: {done.stderr[-2000:]}")
        return float(json.loads(report.read_text())["phases"]["copy"])


def _dump(server: MySQLServer, target: MySQLServer) -> None:
    """Dump the table, and load it as it comes."""
    client = list(target.client)
    dump = [*client[:-1], str(Path(client[-1]).with_name("mysqldump"))]
    options = ("--single-transaction", "--set-gtid-purged=OFF", SCHEMA, TABLE)
    with subprocess.Popen(
        [*dump, *_login(server), *options],
        env={**os.environ, "MYSQL_PWD": server.password},
        stdout=subprocess.PIPE,
    ) as dumping:
        loaded = subprocess.run(
            [*client, *_login(target), SCHEMA],
            env={**os.environ, "MYSQL_PWD": target.password},
            stdin=dumping.stdout,
            check=False,
        )
    if loaded.returncode or dumping.returncode:
        raise SystemExit("mysqldump | mysql failed")


def _login(server: MySQLServer) -> tuple[str, ...]:
    return ("-h", server.host, "-P", str(server.port), "-u", server.user)

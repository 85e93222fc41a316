"""The longest write through what the server changes itself, with a SELECT of a minute in front.

The nightly rotation of a partitioned table, an old partition dropped and a new one added, and a
foreign key: the program waits until the SELECT has ended, and the application goes on meanwhile.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from benchmarks.application import Application, Load
from benchmarks.plans import run_program
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from benchmarks.whole import WARM, say

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

LOAD: Final = Load(writers=8, rate=300.0, on_schedule=True)
SELECT_SECONDS: Final = 60.0
MOST_MS: Final = 100.0
_NUMBERS: Final = 1 << 30


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Measure the longest write through each change, milliseconds."""
    address = Address.of(server)
    SYSBENCH.create(address, rows)
    rotation = (
        f"PARTITION BY RANGE (id) (PARTITION old VALUES LESS THAN ({rows // 10}),"
        f" PARTITION now VALUES LESS THAN ({_NUMBERS}))"
    )
    new = f"ADD PARTITION (PARTITION next VALUES LESS THAN ({_NUMBERS + rows}))"
    changes = (
        ("the partition that is dropped", (rotation,), "DROP PARTITION old", "--allow-data-loss"),
        ("the partition that is added", (), new, ""),
        (
            "the foreign key",
            ("REMOVE PARTITIONING", "ADD COLUMN parent INT, ADD INDEX (parent)"),
            "ADD CONSTRAINT fk FOREIGN KEY (parent) REFERENCES parent (id)",
            "",
        ),
    )
    with Session(address) as session:
        session.execute("CREATE TABLE parent (id INT PRIMARY KEY)")
    figures = []
    for name, before, alter, option in changes:
        with Session(address) as session:
            for clauses in before:
                session.execute(f"ALTER TABLE {TABLE} {clauses}")
        with Application(address, SYSBENCH, rows, LOAD) as application:
            longest, alone = _changed(application, server, sizes, alter, option)
        say(f"in-place: {name}: {longest:.0f} ms; {alone:.0f} ms without it")
        figures.append(
            Figure(
                name=f"longest write: {name}",
                ours=longest,
                peer=MOST_MS,
                against="100 ms",
                unit="ms",
                goal=1.0,
            )
        )
        figures.append(
            Figure(
                name=f"longest write: {name}",
                ours=longest,
                peer=alone,
                against="without it",
                unit="ms",
            )
        )
    return Outcome(scenario="in-place", rows=rows, figures=figures)


def _changed(
    application: Application, server: MySQLServer, sizes: Sizes, alter: str, option: str
) -> tuple[float, float]:
    """Change the table behind a SELECT; return the longest write, and of as long a time before."""
    address = Address.of(server)
    # Its first sessions connect, and are slow.
    time.sleep(WARM + SELECT_SECONDS)
    before = time.monotonic()
    reader = threading.Thread(target=_long_select, args=(address,))
    reader.start()
    _await_select(address)
    began = time.monotonic()
    run_program("migrate", server, sizes, "--alter", alter, *([option] if option else []))
    ended = time.monotonic()
    reader.join()
    if ended - began < SELECT_SECONDS / 2:
        raise SystemExit(f"in-place: {alter} did not wait for the SELECT")
    longest = application.longest_ms((began, ended + 1.0))
    return longest, application.latency((before - SELECT_SECONDS, before)).longest


def _await_select(address: Address) -> None:
    """Wait until the SELECT has the table open."""
    with Session(address) as session:
        while not session.query(
            "SELECT 1 FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'TABLE'"
            f" AND OBJECT_NAME = '{TABLE}' AND LOCK_TYPE = 'SHARED_READ'"
        ):
            time.sleep(0.05)


def _long_select(address: Address) -> None:
    with Session(address) as session:
        session.query(f"SELECT SLEEP({SELECT_SECONDS}) FROM {TABLE} LIMIT 1")

"""Four of five rows leave a table: ``--keep``, with an archive too, beside DELETEs by the key.

The other way is what pt-archiver does with ``--limit 1000``: it reads a thousand rows in the order
of the key, writes them to a file, deletes them in one transaction, and goes on behind them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from benchmarks.plans import run_program
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from benchmarks.whole import say, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

_CHUNK = 1000
_FILE_BYTES = f"""
SELECT FILE_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = '{SCHEMA}/{TABLE}'"""


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Purge the same table in both ways, in turns; seconds, binlog and the file that is left."""
    address = Address.of(server)
    gone = rows * 4 // 5
    ways: dict[str, Callable[[int], Any]] = {
        "ours": lambda last: run_program("migrate", server, sizes, "--keep", f"id > {last}"),
        "archived": lambda last: _archived(server, sizes, last),
        "deletes": lambda last: _delete(address, last),
    }
    seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for number in range(sizes.rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            SYSBENCH.create(address, rows)
            settle(address, purge=server.datadir is not None)
            with Session(address) as session:
                # Numbers have gaps.
                last = session.value(
                    f"SELECT id FROM {TABLE} ORDER BY id LIMIT 1 OFFSET {gone - 1}"
                )
                before = _binlog(session)
                began = time.monotonic()
                ways[name](last)
                seconds = time.monotonic() - began
                written = (_binlog(session) - before) / (1 << 20)
                size = float(session.value(_FILE_BYTES)) / (1 << 20)
                left = session.value(f"SELECT COUNT(*) FROM {TABLE}")
            if left != rows - gone:
                raise SystemExit(f"purge: {name} left {left} rows of {rows - gone}")
            say(f"purge: {name}: {seconds:.1f} s, {written:.0f} MiB of binlog, {size:.0f} MiB left")
            seen[name].append((seconds, written, size))
    ours, archived, peer = (
        [statistics.median(one[place] for one in seen[name]) for place in range(3)] for name in ways
    )
    about = ("seconds", "s", 0.1), ("binlog", "MiB", 0.2), ("file that is left", "MiB", None)
    return Outcome(
        scenario="purge",
        rows=rows,
        figures=[
            Figure(name=name, ours=mine, peer=theirs, against="deletes", unit=unit, goal=goal)
            for (name, unit, goal), mine, theirs in zip(about, ours, peer, strict=True)
        ]
        + [
            Figure(
                name="seconds, with an archive that is proved",
                ours=archived[0],
                peer=peer[0],
                against="deletes",
                unit="s",
                goal=0.1,
            )
        ],
    )


def _archived(server: MySQLServer, sizes: Sizes, last: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = ("--keep", f"id > {last}", "--archive-to", folder)
        run_program("migrate", server, sizes, *words)


def _binlog(session: Session) -> int:
    session.execute("FLUSH BINARY LOGS")
    return sum(int(row[1]) for row in session.query("SHOW BINARY LOGS"))


def _delete(address: Address, gone: int) -> None:
    with tempfile.TemporaryFile("w") as file, Session(address) as session:
        last = 0
        while last < gone:
            rows = session.query(
                f"SELECT * FROM {TABLE} WHERE id > {last} AND id <= {gone}"
                f" ORDER BY id LIMIT {_CHUNK}"
            )
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
            upper = rows[-1][0]
            session.execute(f"DELETE FROM {TABLE} WHERE id > {last} AND id <= {upper}")
            last = upper

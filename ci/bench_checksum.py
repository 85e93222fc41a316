"""The checksum on Spark next to the bare SQL aggregate over the same two tables.

The bare aggregate is what one would type to compare two tables by hand, on as many connections:
each takes an equal part of the keys and asks both tables for ::

    SELECT COUNT(*), BIT_XOR(UNHEX(SHA2(CONCAT_WS(',', id, k, c, pad), 256))) FROM t WHERE ...

It keeps no snapshot and no lock, does not tell NULL from nothing or ``('a,b', 'c')`` from
``('a', 'b,c')``, counts nothing a second time, and cannot say which row differs. The checksum's
figure has all of that in it: cutting chunks, the gang, the lock, the count.
"""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.mysql.connect import connect
from spirit_py.sql import identifier_list, quote_table
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.spark.engine import SparkEngine
    from spirit_py.table.mapping import TableMapping


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Round by round, in seconds; the results have what the checksum says of itself.

    Attributes:
        cold: the first checksum of a fresh Spark, whose Python workers had to be started.
        megabytes: data of both tables, as the server estimates it.
    """

    cold: ChecksumResult
    checksums: list[ChecksumResult]
    bare: list[float]
    megabytes: float

    @property
    def seconds(self) -> list[float]:
        """Seconds of each checksum, the gathering of its tasks included."""
        return [each.seconds for each in self.checksums]

    def notes(self) -> dict[str, Any]:
        """Return what else is worth knowing."""
        results, total = self.checksums, statistics.median(self.seconds)
        gathered = statistics.median(each.gather_seconds for each in results)
        bare = statistics.median(self.bare)
        rows = results[-1].rows
        return {
            "rows_per_second": round(rows / total),
            "megabytes_per_second": round(self.megabytes / total, 1),
            "bare_rows_per_second": round(rows / bare),
            "gathering_seconds": round(gathered, 2),
            "gathering_seconds_with_cold_workers": round(self.cold.gather_seconds, 2),
            "ratio_without_gathering": round((total - gathered) / bare, 3),
            "lock_held_ms": [round(each.lock_held_ms, 1) for each in results],
            "chunks": results[-1].chunks,
        }


def measure(
    options: ConnectionOptions,
    mapping: TableMapping,
    engine: SparkEngine,
    *,
    threads: int,
    rounds: int,
) -> Measured:
    """Fill the new table of a mapping, then compare it in turns."""
    with connect(options, role="bench") as session:
        _fill(session, mapping)
        span = _span(session, mapping)
        megabytes = _megabytes(session, mapping)
    cold = _checksum(options, mapping, engine)
    _bare(options, mapping, threads, span)
    checksums: list[ChecksumResult] = []
    bare: list[float] = []
    for number in range(rounds):
        for ours in (True, False) if number % 2 else (False, True):
            if ours:
                checksums.append(_checksum(options, mapping, engine))
            else:
                bare.append(_bare(options, mapping, threads, span))
    return Measured(cold=cold, checksums=checksums, bare=bare, megabytes=megabytes)


def _fill(session: Session, mapping: TableMapping) -> None:
    """Copy the rows, and give the server statistics of both tables."""
    names = identifier_list(pair.new.name for pair in mapping.pairs)
    target = quote_table(mapping.target.schema, mapping.target.name)
    source = quote_table(mapping.source.schema, mapping.source.name)
    session.execute(f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}")
    session.query(f"ANALYZE TABLE {source}, {target}")


def _span(session: Session, mapping: TableMapping) -> tuple[int, int]:
    """Return the smallest and the largest key."""
    source = quote_table(mapping.source.schema, mapping.source.name)
    ((first, last),) = session.query(f"SELECT MIN(id), MAX(id) FROM {source}")
    return int(first), int(last)


def _megabytes(session: Session, mapping: TableMapping) -> float:
    """Return the size of the rows of both tables."""
    session.execute("SET SESSION information_schema_stats_expiry = 0")
    ((size,),) = session.query(
        "SELECT SUM(DATA_LENGTH) / 1e6 FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN (%s, %s)",
        (mapping.source.schema, mapping.source.name, mapping.target.name),
    )
    return float(size)


def _checksum(
    options: ConnectionOptions, mapping: TableMapping, engine: SparkEngine
) -> ChecksumResult:
    """Compare as a migration does; nobody writes meanwhile."""
    checker = Checker(
        mapping=mapping,
        source=options,
        engine=engine,
        stop=StopSwitch(),
        options=ChecksumOptions(),
    )
    result = checker.run()
    if result.differences:
        raise SystemExit(f"the tables of the benchmark differ in {result.differences} rows")
    return result


def _bare(
    options: ConnectionOptions, mapping: TableMapping, threads: int, span: tuple[int, int]
) -> float:
    """Run the bare aggregate over both tables; return the seconds, connecting not included."""
    tables = [quote_table(each.schema, each.name) for each in (mapping.source, mapping.target)]
    columns = identifier_list(pair.new.name for pair in mapping.pairs)
    first, last = span
    step = (last - first) // threads + 1
    sessions = [connect(options, role="bench") for _ in range(threads)]
    together = threading.Barrier(threads + 1)

    def run(number: int) -> list[tuple[Any, ...]]:
        low = first + number * step
        together.wait()
        return [
            sessions[number].query(
                f"SELECT COUNT(*), HEX(BIT_XOR(UNHEX(SHA2(CONCAT_WS(',', {columns}), 256))))"
                f" FROM {table} FORCE INDEX (PRIMARY) WHERE id >= {low} AND id < {low + step}"
            )[0]
            for table in tables
        ]

    try:
        with ThreadPoolExecutor(threads) as pool:
            found = [pool.submit(run, number) for number in range(threads)]
            together.wait()
            began = time.perf_counter()
            answers = [each.result() for each in found]
            seconds = time.perf_counter() - began
    finally:
        for session in sessions:
            session.close()
    if any(one != other for one, other in answers):
        raise SystemExit("the bare aggregate found a difference")
    return seconds

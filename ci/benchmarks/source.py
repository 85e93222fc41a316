"""Spark's data source beside Spark's JDBC reader, on one table in one session of Spark.

The JDBC driver is Debian's MariaDB Connector/J (package libmariadb-java), needed here alone. Both
read every column of every row, and hash it: what they read must be the same. Both read two parts of
the key at once, without TLS, and each begins every other round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address
from benchmarks.tables import SYSBENCH, TEXT_KEY
from benchmarks.whole import say

if TYPE_CHECKING:
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

_JAR: Final = Path("/usr/share/java/mariadb-java-client.jar")
_SLOTS: Final = 2
#: Halves of a text key that begins with a random hexadecimal digit.
_HALVES: Final = ["id < '8'", "id >= '8'"]


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Read a table with an integer key, and one with a text key, in both ways, in turns."""
    if not _JAR.exists():
        raise SystemExit(f"source: {_JAR} is missing: apt-get install libmariadb-java")
    address = Address.of(server)
    figures = []
    for name, table, goal in (("integer key", SYSBENCH, 1 / 1.5), ("text key", TEXT_KEY, 1 / 3)):
        table.create(address, rows)
        seen = _read(server, sizes.rounds, numbered=table is SYSBENCH)
        say(f"source: {name}: {seen}")
        if len(set(seen["hashes"])) != 1:
            raise SystemExit(f"source: {name}: the two did not read the same")
        figures.append(
            Figure(
                name=name,
                ours=statistics.median(seen["spirit"]),
                peer=statistics.median(seen["jdbc"]),
                against="JDBC",
                unit="s",
                goal=goal,
            )
        )
    return Outcome(scenario="source", rows=rows, figures=figures)


def _read(server: MySQLServer, rounds: int, *, numbered: bool) -> dict[str, Any]:
    """Run :func:`main` in a process of its own, with Spark's class path."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "rounds": rounds,
            "numbered": numbered,
            "folder": folder,
        }
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.source", json.dumps(asked)],
            env={
                **os.environ,
                "MYSQL_PWD": server.password,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(__file__).parents[2]}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"source: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Read the table in both ways so many times, after one that does not count."""
    from pyspark.sql import SparkSession

    import spirit_py

    spark = (
        SparkSession.builder.master(f"local[{_SLOTS}]")
        .config("spark.driver.extraClassPath", str(_JAR))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", asked["folder"])
        .getOrCreate()
    )
    spirit_py.register_source(spark)
    where = {"host": asked["host"], "port": str(asked["port"]), "user": asked["user"]}
    ours = spark.read.format("spirit").options(
        **where, table=f"{SCHEMA}.{TABLE}", partitions=str(_SLOTS), ssl_mode="DISABLED"
    )
    url = (
        f"jdbc:mysql://{asked['host']}:{asked['port']}/{SCHEMA}"
        "?useSSL=false&allowPublicKeyRetrieval=true&serverTimezone=UTC"
    )
    login = {
        "driver": "org.mariadb.jdbc.Driver",
        "user": asked["user"],
        "password": os.environ["MYSQL_PWD"],
    }
    fetched = login | {"fetchsize": "10000"}
    if asked["numbered"]:
        low, high = (
            spark.read.format("jdbc")
            .options(url=url, query=f"SELECT MIN(id) AS low, MAX(id) AS high FROM {TABLE}", **login)
            .load()
            .collect()[0]
        )
        parts: dict[str, Any] = {
            "column": "id",
            "lowerBound": low,
            "upperBound": high,
            "numPartitions": _SLOTS,
        }
    else:
        parts = {"predicates": _HALVES}
    peer = partial(spark.read.jdbc, url, TABLE, properties=fetched, **parts)
    ways = (("spirit", ours.load), ("jdbc", peer))
    seen: dict[str, Any] = {"spirit": [], "jdbc": [], "hashes": []}
    for number in range(asked["rounds"] + 1):
        for name, load in ways[:: 1 if number % 2 == 0 else -1]:
            began = time.monotonic()
            frame = load()
            # JDBC fills CHAR with spaces.
            texts = ", '|', ".join(f"rtrim(string({column}))" for column in frame.columns)
            (row,) = frame.selectExpr(f"bit_xor(xxhash64(concat({texts})))", "count(*)").collect()
            if number:
                seen[name].append(round(time.monotonic() - began, 3))
            seen["hashes"].append(f"{row[0]} {row[1]}")
    return seen


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))

"""Spark's data source beside Spark's JDBC reader, on one table in one session of Spark.

The JDBC driver is Debian's MariaDB Connector/J (package libmariadb-java), needed here alone. Both
read every column of every row, and hash it: what they read must be the same.
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
        **where, table=f"{SCHEMA}.{TABLE}", partitions=str(_SLOTS)
    )
    url = f"jdbc:mysql://{asked['host']}:{asked['port']}/{SCHEMA}"
    peer = spark.read.format("jdbc").options(
        url=f"{url}?useSSL=false&allowPublicKeyRetrieval=true&serverTimezone=UTC",
        driver="org.mariadb.jdbc.Driver",
        dbtable=TABLE,
        user=asked["user"],
        password=os.environ["MYSQL_PWD"],
        fetchsize="10000",
    )
    if asked["numbered"]:
        low, high = (
            spark.read.format("jdbc")
            .options(
                url=f"{url}?useSSL=false&allowPublicKeyRetrieval=true",
                driver="org.mariadb.jdbc.Driver",
                query=f"SELECT MIN(id) AS low, MAX(id) AS high FROM {TABLE}",
                user=asked["user"],
                password=os.environ["MYSQL_PWD"],
            )
            .load()
            .collect()[0]
        )
        peer = peer.options(
            partitionColumn="id",
            lowerBound=str(low),
            upperBound=str(high),
            numPartitions=str(_SLOTS),
        )
    seen: dict[str, Any] = {"spirit": [], "jdbc": [], "hashes": []}
    for number in range(asked["rounds"] + 1):
        for name, reader in (("spirit", ours), ("jdbc", peer)):
            began = time.monotonic()
            frame = reader.load()
            # JDBC fills CHAR with spaces.
            texts = ", '|', ".join(f"rtrim(string({column}))" for column in frame.columns)
            (row,) = frame.selectExpr(f"bit_xor(xxhash64(concat({texts})))", "count(*)").collect()
            if number:
                seen[name].append(round(time.monotonic() - began, 3))
            seen["hashes"].append(f"{row[0]} {row[1]}")
    return seen


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))

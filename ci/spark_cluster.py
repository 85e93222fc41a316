"""A standalone Spark master with workers on this machine, from the jars that came with PySpark.

As a library: `with SparkCluster(workers=2) as cluster: ... cluster.url`.
As a program: `python ci/spark_cluster.py --workers 2` runs one until it is ended.

Master and workers get an environment of their own, without the driver's variables: what executors
need must come through Spark, as on separate machines. They ask for a secret, which is in their
configuration file, and encrypt what they send.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any, Self

from mysql_base import free_port, wait_until

START_SECONDS = 120.0
#: No proxy of the environment reaches this machine's own ports.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_KEPT = ("PATH", "JAVA_HOME", "LANG", "LC_ALL")


class ClusterError(RuntimeError):
    """The cluster did not start."""


class SparkCluster:
    """A master and some workers; a context manager.

    Args:
        workers: how many.
        cores: of each worker.

    Attributes:
        conf: the value for SPIRIT_PY_SPARK_CONF, with the secret.
    """

    def __init__(self, *, workers: int = 2, cores: int = 2) -> None:
        self.workers: list[subprocess.Popen[bytes]] = []
        self._size, self._cores = workers, cores
        self._port, self._web = free_port(), free_port()
        self._home = Path(tempfile.mkdtemp(prefix="spirit-py-cluster-"))
        self._stack = contextlib.ExitStack()
        self.conf = f"spark.authenticate.secret={secrets.token_hex(32)}"

    @property
    def url(self) -> str:
        """The value for `--spark-master`."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def alive(self) -> int:
        """The number of workers that the master knows to be alive."""
        return int(self._state().get("aliveworkers", 0))

    def _state(self) -> dict[str, Any]:
        """Ask the master for its state; empty while it does not answer."""
        try:
            with _DIRECT.open(f"http://127.0.0.1:{self._web}/json/", timeout=5) as page:
                found: dict[str, Any] = json.load(page)
        except (OSError, ValueError):
            return {}
        return found

    def __enter__(self) -> Self:
        """Start, and wait until every worker is registered."""
        self._stack.callback(shutil.rmtree, self._home, ignore_errors=True)
        settings = ("spark.authenticate=true", "spark.network.crypto.enabled=true", self.conf)
        (self._home / "spark-defaults.conf").write_text(
            "\n".join(settings).replace("=", " ") + "\n"
        )
        address = ("--host", "127.0.0.1", "--port", str(self._port))
        self._start("master.Master", *address, "--webui-port", str(self._web))
        for number in range(self._size):
            self.workers.append(self._worker(number))
        if not wait_until(lambda: self.alive == self._size, START_SECONDS):
            logs = "".join(f.read_text(errors="replace")[-2000:] for f in self._home.glob("*.log"))
            self._stack.close()
            raise ClusterError(f"only {self.alive} of {self._size} workers started:\n{logs}")
        return self

    def __exit__(self, *_: object) -> None:
        """End every process of the cluster, executors included."""
        self._stack.close()

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        limits = ("--cores", str(self._cores), "--memory", "2g", "--webui-port", "0")
        folder = ("--work-dir", str(self._home / f"work-{number}"))
        return self._start("worker.Worker", "--host", "127.0.0.1", *limits, *folder, self.url)

    def _start(self, part: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process of the cluster in a session of its own."""
        import pyspark

        home = Path(pyspark.__file__).parent
        environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environ |= {"SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}
        environ |= {"SPARK_CONF_DIR": str(self._home), "SPARK_DAEMON_MEMORY": "256m"}
        number = len(list(self._home.glob("*.log")))
        with (self._home / f"{number}-{part}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{part}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=self._home,
                start_new_session=True,
            )
        self._stack.callback(end, process)
        return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of the cluster and every process that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> int:
    """Run a cluster until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2, help="of each worker")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with SparkCluster(workers=asked.workers, cores=asked.cores) as cluster:
        print(f"SPIRIT_PY_SPARK_CONF={cluster.conf}", flush=True)
        print(f"--spark-master {cluster.url}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Spark's JVM as a child process: its command, its environment, its end.

A :func:`private` Spark is started without ``spark-submit``, which costs 0.4 s of CPU for another
JVM, and 0.5 s as two workers compile PySpark.
"""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import spirit_py
from spirit_py.classes import dataclass
from spirit_py.config import is_secret_of_spark
from spirit_py.errors import SparkFailure
from spirit_py.spark.java import without_secrets
from spirit_py.spark.settings import embedded, shows_ui, single_machine
from spirit_py.threads import members_of_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.config import SparkConfig
    from spirit_py.spark.java import Java

#: Variables that steer Spark, or hold its secrets (R20).
_UNWANTED: Final = frozenset(
    {
        *("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE"),
        *("SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_TESTING"),
        "SPARK_TRACEBACK_WITH_LOCALS",
    }
)
_SPARK_PLACES: Final = frozenset(
    {"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_EXECUTOR_DIRS"}
)
_SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
#: The first that is set decides in which encoding the JVM writes names of files.
_LOCALES: Final = ("LC_ALL", "LC_CTYPE", "LANG")
_UNICODE: Final = "C.UTF-8"
#: Little memory, and no files of jps and jstat; a quick start, where no rows are computed.
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
_QUICK_START: Final = "-XX:TieredStopAtLevel=1"
#: As Spark's JavaModuleOptions, without the vector module.
_OPENED: Final = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect"),
    *("java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic"),
    *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
    *("java.base/sun.security.action", "java.base/sun.util.calendar"),
    "java.security.jgss/sun.security.krb5",
)
LAUNCHER_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The command of a JVM, without secrets (R20), its environment, and its gateway's file."""

    command: tuple[str, ...]
    environ: dict[str, str]
    info: Path


def private(config: SparkConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether only this process uses this Spark: no cluster, web interface or setting."""
    alone = embedded(config) and not config.spark_ui
    return alone and not config.spark_conf and not environ.get(_SUBMIT_OPTIONS)


def launch(
    config: SparkConfig,
    conf: Mapping[str, str],
    java: Java,
    *,
    bundled: Path,
    scratch: Path,
    environ: Mapping[str, str] = os.environ,
) -> Launch:
    """Return how the JVM is started with ``conf`` from ``bundled``, PySpark's own Spark."""
    info = scratch / "gateway"
    kept = environment(config, environ)
    kept |= {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)}
    quick = () if config.writes_files else (_QUICK_START,)
    own = (
        *_JVM_OPTIONS,
        *quick,
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
    )
    if private(config, environ):
        package = Path(spirit_py.__file__).parent
        code = scratch / "code"
        code.mkdir()
        (code / package.name).symlink_to(package, target_is_directory=True)
        path = os.pathsep.join(filter(None, [str(code), kept.get("PYTHONPATH", "")]))
        kept |= {"PYTHONHASHSEED": "0", "PYTHONPATH": path}
        options = (*own, f"-Djava.io.tmpdir={scratch}", *LAUNCHER_OPTIONS)
        heap = f"-Xmx{conf['spark.driver.memory']}"
        properties = (f"-D{name}={value}" for name, value in conf.items())
        command = (java.program, "-cp", f"{bundled}/jars/*", heap, *options, *properties, _GATEWAY)
        return Launch(command=command, environ=kept, info=info)
    if single_machine(config) or shows_ui(config):
        # Spark's only way to say where its web interface listens.
        kept["SPARK_LOCAL_IP"] = "127.0.0.1"
    kept[_SUBMIT_OPTIONS] = " ".join(filter(None, [*own, kept.get(_SUBMIT_OPTIONS, "")]))
    home = kept.setdefault("SPARK_HOME", str(bundled))
    # What a file system is told, and all secrets, reach the JVM with the context's settings,
    # through its gateway: every user of the machine reads a command.
    shown = {
        name: value
        for name, value in conf.items()
        if not (name.startswith("spark.hadoop.") or is_secret_of_spark(name))
    }
    given = tuple(word for name, value in shown.items() for word in ("--conf", f"{name}={value}"))
    submit = str(Path(home) / "bin" / "spark-submit")
    return Launch(command=(submit, *given, "pyspark-shell"), environ=kept, info=info)


def environment(config: SparkConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the JVM's environment without secrets; a local run uses PySpark's own Spark.

    In the locale C a folder could be called by ASCII letters only; this program takes UTF-8 there.
    """
    drop = _UNWANTED | (_SPARK_PLACES if single_machine(config) else frozenset())
    kept = {name: value for name, value in without_secrets(environ).items() if name not in drop}
    named = next(filter(None, (kept.get(name) for name in _LOCALES)), "")
    # That of this process is C, too, where the machine lacks the one that is named.
    if {named, locale.setlocale(locale.LC_CTYPE)} & {"", "C", "POSIX"}:
        kept["LC_ALL"] = _UNICODE
    return kept


_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
#: Runs the command in "$@", then deletes the folder in $0.
_THEN_DELETE: Final = '"$@"; code=$?; rm -rf -- "$0"; exit $code'


class JavaProcess:
    """A JVM in a process session of its own; a shell deletes ``scratch`` when it has ended.

    It gets the files that are ``kept`` open, under their numbers.
    """

    def __init__(
        self, launch: Launch, scratch: Path, log: Path, *, kept: Sequence[int] = ()
    ) -> None:
        self._info = launch.info
        with log.open("wb") as output:
            # The JVM exits when this pipe breaks, so it cannot outlive the driver.
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _THEN_DELETE, str(scratch), *launch.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=launch.environ,
                start_new_session=True,
                pass_fds=kept,
            )

    def wait_for_gateway(self) -> tuple[int, str]:
        """Wait until the JVM has written where its gateway listens; return port and secret."""
        info = self._info
        if not _wait(lambda: info.is_file() or self._popen.poll() is not None, _START_SECONDS):
            raise SparkFailure(f"the JVM did not answer within {_START_SECONDS:.0f} s")
        if not info.is_file():
            raise SparkFailure(f"the JVM exited with code {self._popen.returncode}")
        content = info.read_bytes()
        info.unlink()
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()

    @property
    def running(self) -> bool:
        """Whether the JVM has not ended."""
        return self._popen.poll() is None

    def end(self) -> None:
        """Let the JVM and its children end, or kill them."""
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_END_SECONDS)
        if not _wait(lambda: not self._members(), _END_SECONDS):
            self.kill()

    def kill(self) -> None:
        """Kill the JVM and everything below it."""
        _wait(self._killed, _END_SECONDS)
        self._popen.wait()
        self._close_input()

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()

    def _killed(self) -> bool:
        """Kill what is alive until nothing is; a process may start another meanwhile."""
        alive = {self._popen.pid} if self._popen.poll() is None else set()
        alive |= self._members()
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return not alive

    def _members(self) -> set[int]:
        return set(members_of_session(self._popen.pid))


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(_POLL_SECONDS)
    return True

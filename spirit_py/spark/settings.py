"""Spark's settings, its log configuration, and the package that is shipped to executors."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import spirit_py
from spirit_py.config import SECRETS_OF_SPARK
from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from spirit_py.config import SparkConfig

_LOCAL: Final = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?$")
#: Spark's own masters, and those of cluster managers.
_MASTER: Final = re.compile(
    r"local(\[(\*|0*[1-9]\d*)(\s*,\s*0*[1-9]\d*)?\])?"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|[a-z][a-z0-9+.-]*://\S+"
)
#: Spark or a cluster manager makes their secret.
_MAKES_SECRETS: Final = re.compile(r"local|local\[.*|yarn|k8s:.*")
_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - its name
_STAY_OFF: Final = {
    "spark.speculation": "two attempts at one chunk would run at a time",
    "spark.dynamicAllocation.enabled": "Spark refuses tasks that begin together with it",
}
VERBOSE_LOG: Final = Path("spirit-py-spark.log")
"""Spark's log in the working folder, where ``--verbose`` asks for it."""
#: Heap of the driver's JVM: each task builds a group of rows of a file in memory.
_FOR_MESSAGES, _FOR_FILES = "512m", "2g"
#: Tries of one task. ``local[n]`` alone means one.
_TASK_TRIES: Final = 4


def embedded(config: SparkConfig) -> bool:
    """Return whether the tasks run on this machine, below the driver's own JVM."""
    return not config.spark_master or _LOCAL.match(config.spark_master) is not None


def single_machine(config: SparkConfig) -> bool:
    """Return whether all processes run on this machine: also ``local-cluster``."""
    return embedded(config) or config.spark_master.startswith("local-cluster[")


def master(config: SparkConfig) -> str:
    """Return the master for Spark."""
    return config.spark_master or f"local[{local_slots(config)},{_TASK_TRIES}]"


def local_slots(config: SparkConfig) -> int:
    """Return how many tasks can run at a time: as Spark has slots for the master."""
    named = _LOCAL.match(config.spark_master)
    if named is None:
        return config.threads
    if named[2] is None:
        return 1
    limit = (os.cpu_count() or 1) if named[2] == "*" else int(named[2])
    return max(1, min(config.threads, limit))


def settings(config: SparkConfig, scratch: Path) -> dict[str, str]:
    """Return the Spark settings: ours, overridden by the operator's.

    Raises `UsageFault` for unknown ones, speculation (R18), and a lack of a secret: executors get
    the server's password (R26).
    """
    _require_known(config)
    ours = {
        "spark.master": master(config),
        "spark.app.name": "spirit-py",
        "spark.ui.enabled": "true" if config.spark_ui else "false",
        "spark.ui.showConsoleProgress": "false",
        **dict.fromkeys(_STAY_OFF, "false"),
        "spark.python.worker.reuse": "true",
        "spark.task.maxFailures": str(_TASK_TRIES),
        "spark.python.task.killTimeout": "500ms",
        "spark.locality.wait": "0s",
        # Otherwise a folder of our name in the current directory would be imported.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.driver.memory": _FOR_FILES if config.writes_files else _FOR_MESSAGES,
        "spark.ui.killEnabled": "false",
        "spark.redaction.regex": SECRETS_OF_SPARK,
        _AUTHENTICATE: "true",
    }
    if not config.spark_ui:
        # Keep the JVM's memory from growing with the table.
        kept = {"Jobs": 50, "Stages": 50, "Tasks": 1000, "DeadExecutors": 10}
        ours |= {f"spark.ui.retained{what}": str(count) for what, count in kept.items()}
    if single_machine(config):
        # A local run needs no name service, and opens no port to the network.
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(scratch),
        }
    else:
        ours |= {"spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true"}
    if single_machine(config) and not embedded(config):
        ours[_SECRET] = secrets.token_hex(32)
    if not embedded(config):
        ours["spark.cores.max"] = str(config.threads)
    merged = {**ours, **dict(config.spark_conf)}
    for name, why in _STAY_OFF.items():
        if merged[name].lower() != "false":
            raise UsageFault(f"{name} must stay off: {why}", hint=f"leave --spark-conf {name} out")
    _require_authentication(config, merged)
    if shows_ui(config) and not single_machine(config) and "spark.driver.host" not in merged:
        raise UsageFault(
            "--spark-ui listens on this machine's loopback address alone, so on a cluster Spark has"
            " to be told where its executors find the driver",
            hint="add --spark-conf spark.driver.host=ADDRESS",
        )
    return merged


def shows_ui(config: SparkConfig) -> bool:
    """Return whether Spark opens its web interface."""
    asked = dict(config.spark_conf).get("spark.ui.enabled", str(config.spark_ui))
    return asked.lower() == "true"


def unprotected(config: SparkConfig) -> str:
    """Return what the operator has to know of a cluster that asks for no secret; empty if not."""
    given = dict(config.spark_conf)
    if given.get(_AUTHENTICATE, "true").lower() != "true":
        return (
            f"Spark's ports ask for no secret ({_AUTHENTICATE}=false): whoever reaches them can"
            " read the server's password"
        )
    if given.get("spark.network.crypto.enabled", "true").lower() != "true":
        return (
            "Spark encrypts nothing (spark.network.crypto.enabled=false): whoever listens on the"
            " network can read the server's password"
        )
    return ""


def _require_authentication(config: SparkConfig, merged: dict[str, str]) -> None:
    asked = merged[_AUTHENTICATE].lower() == "true"
    if not asked and single_machine(config):
        raise UsageFault(
            f"{_AUTHENTICATE} must stay on: every user of this machine could read the password",
            hint=f"leave --spark-conf {_AUTHENTICATE} out",
        )
    if asked and _SECRET not in merged and not _MAKES_SECRETS.fullmatch(merged["spark.master"]):
        raise UsageFault(
            f"the cluster {merged['spark.master']} needs a secret, or whoever reaches Spark's ports"
            " can read the server's password",
            hint=f"set SPIRIT_PY_SPARK_CONF={_SECRET}=... as on its master and workers, where"
            f" {_AUTHENTICATE} and spark.network.crypto.enabled are true; in a network where"
            f" everyone may know the password, --spark-conf {_AUTHENTICATE}=false",
        )


def _require_known(config: SparkConfig) -> None:
    if config.spark_master and not _MASTER.fullmatch(config.spark_master):
        raise UsageFault(
            f"--spark-master {config.spark_master!r} is not a Spark master",
            hint="write local[4], spark://host:7077, yarn or k8s://..., or leave it out",
        )
    for key, value in config.spark_conf:
        if key == "spark.master":
            raise UsageFault(
                "--spark-conf spark.master would override --spark-master",
                hint=f"give --spark-master {value}",
            )
        if not key.startswith("spark."):
            raise UsageFault(
                f"--spark-conf {key} is not a Spark setting: their names begin with spark.",
                hint="check its name in Spark's manual",
            )


def open_verbose_log() -> int:
    """Open the log of ``--verbose``, to append; OSError for a link, or another user's file."""
    opened = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(VERBOSE_LOG, opened, 0o600)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
        return handle
    os.close(handle)
    raise PermissionError(errno.EACCES, "it is no file of the user who runs spirit-py")


def log4j_properties(config: SparkConfig, target: Path) -> str:
    """Render Spark's log configuration: everything to a file, nothing to the terminal."""
    return (
        f"rootLogger.level = {'info' if config.verbose else 'warn'}\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "appender.file.type = File\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {target}\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex\n"
    )


def ship_package(scratch: Path) -> Path:
    """Write a zip of this package, so that executors run exactly the driver's code."""
    package = Path(spirit_py.__file__).parent
    target = scratch / "spirit_py.zip"
    # A file of an archive of sources may be dated before 1980.
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, Path(package.name) / source.relative_to(package))
    return target

"""The versions of the program and of what it runs on."""

from __future__ import annotations

import platform
from typing import Final

from spirit_py import __version__
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import client_version
from spirit_py.spark.java import require_java
from spirit_py.status.report import installed

_LIBRARIES: Final = ("pyspark", "mysqlclient", "mysql-replication", "click", "rich")


def runtime_versions() -> dict[str, str]:
    """Return what runs here, by name; what cannot be found says why. Takes a second for Java."""
    found = {"spirit-py": __version__, "Python": platform.python_version(), "Java": _java()}
    found |= {name: installed(name) for name in _LIBRARIES}
    return found | {"MySQL client library": client_version()}


def _java() -> str:
    try:
        return require_java().banner.splitlines()[0]
    except Refusal as refusal:
        return f"not usable: {refusal.message}"

"""System packages that the driver and Spark need, and the commands that install them (pure)."""

from __future__ import annotations

import re
import shlex
from typing import Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure

OLDEST_JAVA: Final = 17
"""Of Spark 4 (Spark documentation, Overview)."""

DRIVER: Final = "mysqlclient>=2.2"

JAVA: Final = (
    f"install a Java runtime {OLDEST_JAVA} or later with the command for this system, or point"
    " JAVA_HOME at one"
)
CLIENT_LIBRARY: Final = (
    "install the library that mysqlclient was built with, with the command for this system; or"
    " build mysqlclient again: pip install --force-reinstall --no-binary mysqlclient mysqlclient"
)
_SYSTEMS: Final = ("Debian, Ubuntu", "Fedora", "macOS")
_INSTALL: Final = ("apt-get install -y", "dnf install -y", "brew install")


def _commands(*packages: str) -> tuple[str, ...]:
    return tuple(
        f"{system}: {install} {names}"
        for system, install, names in zip(_SYSTEMS, _INSTALL, packages, strict=True)
    )


JAVA_COMMANDS: Final = _commands("default-jre-headless", "java-21-openjdk-headless", "openjdk@21")
LIBRARY_COMMANDS: Final = _commands("libmariadb3", "mariadb-connector-c", "mysql-client")
_BUILD: Final = _commands(
    "gcc libc6-dev pkg-config python3-dev default-libmysqlclient-dev",
    "gcc pkgconf-pkg-config python3-devel mariadb-connector-c-devel",
    "pkgconf mysql-client",
)
_PIPX: Final = re.compile(r"/pipx/venvs/([^/]+)/?$")


def driver_commands(*, prefix: str, python: str) -> tuple[str, ...]:
    """Return the commands that build the driver; by :data:`sys.prefix` pipx is known."""
    return (*_BUILD, f"then: {install_command(prefix, python)} '{DRIVER}'")


def install_command(prefix: str, python: str) -> str:
    """Return the command that adds a Python package to this installation."""
    by_pipx = _PIPX.search(prefix)
    return (
        f"pipx inject {shlex.quote(by_pipx[1])}"
        if by_pipx
        else f"{shlex.quote(python)} -m pip install"
    )


def broken_library(error: BaseException) -> BaseException:
    """Return an error that names a library that cannot be loaded; any other as it is."""
    if not isinstance(error, ImportError) or (error.name or "").startswith("spirit_py"):
        return error
    return MigrationFailure(
        f"a library of this installation cannot be loaded: {error}",
        hint="install the package that the message names again, or all of spirit-py; a libssl or"
        " libcrypto of another version is the system's",
        error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
    )

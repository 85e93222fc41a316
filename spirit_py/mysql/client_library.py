"""The driver, and the client library that it was built with."""

from __future__ import annotations

import sys
from typing import Any

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import CLIENT_LIBRARY, driver_commands, library_commands


def load_driver() -> Any:
    """Import the driver.

    Raises:
        Refusal: it is not installed, or its client library is missing or is another than it was
            built with; with the commands that install it.
    """
    try:
        import MySQLdb
    except ModuleNotFoundError as error:
        if error.name != "MySQLdb":
            raise _unusable(error) from error
        raise _not_installed() from error
    except (ImportError, AttributeError, OSError, SystemError) as error:
        # A driver of two versions, or one whose library was replaced, fails in any of these ways.
        raise _unusable(error) from error
    return MySQLdb


def client_version() -> str:
    """Return the client library's version, or why there is none."""
    try:
        return str(load_driver().get_client_info())
    except Refusal as refusal:
        return f"not usable: {refusal.message}"


def _not_installed() -> Refusal:
    return Refusal(
        "the MySQL driver mysqlclient is not installed: it is built on this machine, with a"
        " compiler and the MySQL client library",
        hint="run the command for this system, then the last one; spirit-py explain"
        f" {ErrorCode.CLIENT_LIBRARY_MISSING} says how to do without a compiler",
        details=driver_commands(prefix=sys.prefix, python=sys.executable),
        error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
    )


def _unusable(error: Exception) -> Refusal:
    return Refusal(
        f"the MySQL client library cannot be loaded: {error}",
        hint=CLIENT_LIBRARY,
        details=library_commands(),
        error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
    )

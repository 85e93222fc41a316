"""The driver, and the client library that it was built with."""

from __future__ import annotations

from typing import Any

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.system_packages import CLIENT_LIBRARY


def load_driver() -> Any:
    """Import the driver.

    Raises:
        Refusal: its client library is missing, or is another than it was built with.
    """
    try:
        import MySQLdb
    except ImportError as error:
        raise Refusal(
            f"the MySQL client library cannot be loaded: {error}",
            hint=CLIENT_LIBRARY,
            error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
        ) from error
    return MySQLdb


def client_version() -> str:
    """Return the client library's version, or why there is none."""
    try:
        return str(load_driver().get_client_info())
    except Refusal as refusal:
        return f"not usable: {refusal.message}"

"""Server and account of a framework's own connection, as arguments of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What the drivers call it, and what we do.
_ALIKE: Final = {
    "host": "host",
    "port": "port",
    "unix_socket": "socket",
    "user": "user",
    "passwd": "password",
    "password": "password",
    "ssl_mode": "ssl_mode",
    "read_default_file": "defaults_file",
}
_TLS: Final = ("ca", "capath", "cert", "key")
#: Drivers that check the name in the certificate unless they are told not to.
_CHECKING: Final = frozenset({"pymysql", "aiomysql", "asyncmy"})


def arguments_of(driver: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the same server, account and TLS.

    Args:
        driver: its name, such as ``mysqldb`` or ``pymysql``.
        given: the keyword arguments with which the driver connects.
    """
    named = {ours: given[theirs] for theirs, ours in _ALIKE.items() if theirs in given}
    found = {name: value for name, value in named.items() if value not in {None, ""}}
    tls = given.get("ssl")
    if isinstance(tls, dict):
        found |= {f"ssl_{name}": tls[name] for name in _TLS if tls.get(name)}
        if driver in _CHECKING and tls.get("ca") and tls.get("check_hostname", True):
            found.setdefault("ssl_mode", "VERIFY_IDENTITY")
        if not found.keys() & {"ssl_ca", "ssl_capath", "ssl_mode"}:
            found["ssl_mode"] = "REQUIRED"
    elif tls:
        found.setdefault("ssl_mode", "REQUIRED")
    if "socket" in found:
        found.pop("host", None)
        found.pop("port", None)
    if "port" in found:
        found["port"] = int(found["port"])
    return found

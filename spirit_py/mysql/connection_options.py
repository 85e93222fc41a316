"""Join what option files, a URL and the command line say of a connection (R20)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from spirit_py.config import ConnectionOptions
from spirit_py.errors import UsageFault
from spirit_py.mysql.tls.files import TLS_PATHS, read_material
from spirit_py.mysql.tls.modes import SSL_MODES, VERIFYING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS: Final = ("host", "user", "password", "socket")
_NUMBERS: Final = frozenset({"port", "connect-timeout"})


def connection_options(
    stored: Mapping[str, str], given: Mapping[str, object] | None = None
) -> ConnectionOptions:
    """Build a connection's options; what was ``given`` on the command line wins; or UsageFault."""
    explicit = {name: value for name, value in (given or {}).items() if value is not None}
    fields: dict[str, Any] = {name: stored[name] for name in _TEXTS if name in stored}
    for option in _NUMBERS.intersection(stored):
        fields[option.replace("-", "_")] = _number(stored, option)
    # A socket of the file must not override a host of the command line.
    if explicit.get("host") or explicit.get("port"):
        fields.pop("socket", None)
    server = {name: value for name, value in explicit.items() if not name.startswith("ssl_")}
    return dataclasses.replace(ConnectionOptions(**_tls(stored, explicit)), **(fields | server))


def names_tls(stored: Mapping[str, str], given: Mapping[str, object]) -> bool:
    """Return whether the file or the command line has an option about TLS."""
    named = [*stored, *(name.replace("_", "-") for name, value in given.items() if value)]
    return any(name in {"ssl-mode", *TLS_PATHS} for name in named)


def _tls(stored: Mapping[str, str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    mode = str(explicit.get("ssl_mode") or _stored_mode(stored))
    paths = {name: explicit.get(name.replace("-", "_")) or stored.get(name) for name in TLS_PATHS}
    material = read_material({name: str(path) for name, path in paths.items() if path})
    if mode in VERIFYING and not material.authorities:
        raise UsageFault(
            f"--ssl-mode {mode} without --ssl-ca: there is nothing to verify the certificate by",
            hint="pass --ssl-ca with the authority's certificate; those that this machine trusts"
            " are often in /etc/ssl/certs/ca-certificates.crt",
        )
    return {"ssl_mode": mode, "tls": material}


def _stored_mode(stored: Mapping[str, str]) -> str:
    mode = stored.get("ssl-mode", "").upper()
    if mode and mode not in SSL_MODES:
        raise UsageFault(
            f"ssl-mode={stored['ssl-mode']} in the option file is unknown",
            hint=f"one of {', '.join(SSL_MODES)}",
        )
    return mode


def _number(stored: Mapping[str, str], option: str) -> int:
    try:
        return int(stored[option])
    except ValueError:
        raise UsageFault(
            f"{option}={stored[option]} in the option file is not a number",
            hint="check the option files, or pass --no-defaults",
        ) from None


_SCHEMES: Final = ("mysql", "mysql+mysqldb", "mysql2", "mariadb")
_PARAMETERS: Final = ("socket", "ssl-mode", "ssl-ca", "ssl-capath", "ssl-cert", "ssl-key")
_HINT: Final = "write mysql://user:password@host:3306/schema, special characters as %XX"


def read_dsn(text: str) -> dict[str, str]:
    """Return a URL's options by option-file names, and ``database``; errors never show it (R20)."""
    try:
        parts = urlsplit(text)
        port = parts.port
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise UsageFault("--dsn is no URL that can be read", hint=_HINT) from None
    if parts.scheme not in _SCHEMES:
        raise UsageFault(f"--dsn begins with {parts.scheme or 'no scheme'!r}", hint=_HINT)
    schema = unquote(parts.path.removeprefix("/"))
    if "/" in schema or parts.fragment:
        raise UsageFault("--dsn has more than a schema after the host", hint=_HINT)
    found = {
        "host": parts.hostname or "",
        "port": str(port or ""),
        "user": unquote(parts.username or ""),
        "database": schema,
        **_options(parameters),
    }
    given = {name: value for name, value in found.items() if value}
    return given if parts.password is None else given | {"password": unquote(parts.password)}


def _options(parameters: dict[str, str]) -> dict[str, str]:
    named = {name.replace("_", "-").lower(): value for name, value in parameters.items()}
    if unknown := sorted(set(named) - set(_PARAMETERS)):
        raise UsageFault(
            f"--dsn has an unknown parameter: {unknown[0]}",
            hint=f"known are {', '.join(_PARAMETERS)}",
        )
    if (mode := named.get("ssl-mode", "").upper()) and mode not in SSL_MODES:
        raise UsageFault(
            f"--dsn: ssl-mode={mode} is unknown", hint=f"one of {', '.join(SSL_MODES)}"
        )
    return named

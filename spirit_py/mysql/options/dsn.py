"""A connection as a URL: ``mysql://user:password@host:3306/schema?ssl-mode=REQUIRED`` (pure)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from spirit_py.errors import UsageFault
from spirit_py.mysql.tls.modes import SSL_MODES

_SCHEMES: Final = ("mysql", "mysql+mysqldb", "mysql2", "mariadb")
_PARAMETERS: Final = ("socket", "ssl-mode", "ssl-ca", "ssl-capath", "ssl-cert", "ssl-key")
_HINT: Final = "write mysql://user:password@host:3306/schema, special characters as %XX"


def read_dsn(text: str) -> dict[str, str]:
    """Return the options that a URL gives, by their names in an option file, and ``database``.

    What is wrong is named without the URL, which may hold a password (R20).

    Raises:
        UsageFault: it is no such URL, or has an unknown parameter.
    """
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
    """Return the parameters; underscores count as dashes.

    Raises:
        UsageFault: for one that means nothing here.
    """
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

"""The certificate of a test's server, set while it runs, and connections that verify it."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mysql_server import SERVER_VARIABLE, ServerOptions, choose, running
from spirit_py.config import ConnectionOptions, TlsMaterial
from tests.kits.connection import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mysql_server import MySQLServer
    from tests.fixtures.mysql import Database
    from tests.kits.certificates import Authority, Signed

_VARIABLES = ("ssl_ca", "ssl_cert", "ssl_key")


def named(host: str) -> str:
    """Return a host as a certificate names it."""
    with contextlib.suppress(ValueError):
        return f"IP:{ipaddress.ip_address(host)}"
    return f"DNS:{host}"


def material(authority: Path | None = None, client: Signed | None = None) -> TlsMaterial:
    """Return the contents of an authority's file and of a client certificate with its key."""
    return TlsMaterial(
        authorities=authority.read_bytes() if authority else b"",
        certificate=client.certificate.read_bytes() if client else b"",
        key=client.key.read_bytes() if client else b"",
    )


def verifying(db: Database, mode: str, authority: Path | None = None) -> ConnectionOptions:
    """Return the options that reach a test's server in a mode."""
    return replace(options_of(db.server), ssl_mode=mode, tls=material(authority))


class ServerTls:
    """What a running server shows, which may be changed at any time.

    The server writes the files itself: it may be in a container.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._made = 0
        names = ", ".join(f"@@GLOBAL.{name}" for name in _VARIABLES)
        ((*before, folder, data),) = db.query(
            f"SELECT {names}, @@GLOBAL.secure_file_priv, @@GLOBAL.datadir"
        )
        self._before = tuple(before)
        self._folder = folder or data

    def show(self, certificate: Signed, authority: Authority) -> None:
        """Show this certificate from now on, and accept clients of the authority."""
        shown = (authority.file, certificate.certificate, certificate.key)
        self._set(tuple(self._written(path) for path in shown))

    def reset(self) -> None:
        """Show what the server showed at first."""
        self._set(self._before)

    def _written(self, path: Path) -> str:
        self._made += 1
        target = f"{self._folder.rstrip('/')}/{self._db.name}-{self._made}.pem"
        text = path.read_text()
        self._db.query(f"SELECT {json.dumps(text)} INTO DUMPFILE '{target}'")
        return target

    def _set(self, values: tuple[Any, ...]) -> None:
        for name, value in zip(_VARIABLES, values, strict=True):
            self._db.execute(f"SET GLOBAL {name} = %s", (value,))
        self._db.execute("ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR")


@contextlib.contextmanager
def server_tls(db: Database) -> Iterator[ServerTls]:
    """Change what the server shows, for the length of a ``with`` block."""
    tls = ServerTls(db)
    try:
        yield tls
    finally:
        tls.reset()


@contextlib.contextmanager
def server_without_tls() -> Iterator[MySQLServer]:
    """Start a server of our own that offers no TLS; a named server is not used."""
    provider = choose({k: v for k, v in os.environ.items() if k != SERVER_VARIABLE})
    with running(ServerOptions(extra=("--tls-version=",)), provider=provider) as server:
        yield server

"""How the program reaches a test's server, and accounts that may do less than root."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spirit_py.config import ConnectionOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSWORD = "secret-Pw-1"


def options_of(server: Any) -> ConnectionOptions:
    """Return the options that reach a server as root."""
    return ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )


def connection_options(db: Any, proxy: Any = None) -> ConnectionOptions:
    """Return the options that reach the server of a test's schema, through a proxy if given."""
    host, port = proxy.address if proxy else (db.server.host, db.server.port)
    return replace(options_of(db.server), host=host, port=port, connect_timeout=5)


def make_account(db: Any, name: str, *grants: str) -> ConnectionOptions:
    """Create an account with these grants; the caller drops it. ``{db}`` is the schema."""
    db.execute(f"DROP USER IF EXISTS {name}; CREATE USER {name} IDENTIFIED BY '{_PASSWORD}'")
    for grant in grants:
        db.execute(f"GRANT {grant.format(db=f'`{db.name}`')} TO {name}")
    return replace(options_of(db.server), user=name, password=_PASSWORD)


def granted(schema: str) -> str:
    """Return how a GRANT names this schema alone, on a server without partial_revokes."""
    return "`" + schema.replace("_", "\\_") + "`.*"


@contextlib.contextmanager
def account(db: Any, *grants: str) -> Iterator[ConnectionOptions]:
    """Have an account with these grants for the length of a ``with`` block."""
    name = f"u{db.name[2:14]}"
    try:
        yield make_account(db, name, *grants)
    finally:
        db.execute(f"DROP USER IF EXISTS {name}")

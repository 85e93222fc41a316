"""Real tables for the integration tests: made, mapped, and reached as the program does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.config import ConnectionOptions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping


def options(db) -> ConnectionOptions:
    """Return the options that reach the test's server."""
    server = db.server
    return ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )


def open_session(db, role: str = "test") -> Session:
    """Open a session with the program's settings."""
    return connect(options(db), database=db.name, role=role)


def map_table(
    db, alter: str = "ENGINE=InnoDB", *, table: str = "t", time_zone: str = "+00:00"
) -> TableMapping:
    """Create ``_t_new`` beside ``t``, apply the ALTER to it, and give the mapping."""
    db.execute(f"CREATE TABLE `_{table}_new` LIKE `{table}`")
    db.execute(f"ALTER TABLE `_{table}_new` {alter}")
    with open_session(db) as session:
        source = read_table(session, db.name, table)
        target = read_table(session, db.name, f"_{table}_new")
    assert source is not None
    assert target is not None
    return build_mapping(source, target, alter_of(db.name, table, alter), time_zone)

"""Real tables for the integration tests: made, mapped, and reached as the program does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import build_mapping
from tests.kits.connection import connection_options

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping


def tables(db: Any) -> list[str]:
    """Return the names of all tables of a test's schema, in order."""
    return sorted(name for (name,) in db.query("SHOW TABLES"))


def open_session(db: Any, role: str = "test") -> Session:
    """Open a session with the program's settings."""
    return connect(connection_options(db), database=db.name, role=role)


def map_table(
    db: Any, alter: str = "ENGINE=InnoDB", *, table: str = "t", time_zone: str = "+00:00"
) -> TableMapping:
    """Create ``_t_new`` like ``t``, apply the ALTER to it, and return the mapping."""
    db.execute(f"CREATE TABLE `_{table}_new` LIKE `{table}`")
    db.execute(f"ALTER TABLE `_{table}_new` {alter}")
    return read_mapping(connection_options(db), db.name, alter, table=table, time_zone=time_zone)


def read_mapping(
    options: ConnectionOptions,
    schema: str,
    alter: str,
    *,
    table: str = "t",
    time_zone: str = "+00:00",
) -> TableMapping:
    """Return the mapping of ``t`` to ``_t_new``, which are there already."""
    with connect(options, role="test") as session:
        source = read_table(session, schema, table)
        target = read_table(session, schema, f"_{table}_new")
    assert source is not None
    assert target is not None
    return build_mapping(source, target, alter_of(schema, table, alter), time_zone)

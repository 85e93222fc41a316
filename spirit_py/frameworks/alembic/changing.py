"""One ALTER of one table, in the middle of an Alembic migration."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from alembic import context

from spirit_py.errors import UsageFault
from spirit_py.frameworks.connecting import arguments_of
from spirit_py.frameworks.online import (
    FrameworkSession,
    change,
    is_empty,
    look_around,
    prepared,
    size_of,
)
from spirit_py.frameworks.policy import Policy, split_settings
from spirit_py.statement import changed_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alembic.ddl.impl import DefaultImpl
    from sqlalchemy.engine import Connection, Engine

#: Below Alembic's own logger, which its alembic.ini shows.
_log: Final = logging.getLogger("alembic.spirit_py")
_SECTION: Final = "spirit_py"
_NOTE: Final = "-- spirit-py changes the table online; this is the plain statement."


def policy_of(impl: DefaultImpl) -> Policy:
    """Return the team's policy for tables that nobody asks to change online."""
    return split_settings(_settings(impl))[0]


def change_online(impl: DefaultImpl, statement: str, options: Mapping[str, Any]) -> None:
    """Change a table online; print the plain statement in offline mode (``--sql``).

    An empty table is changed by the plain statement, which is quicker.

    Raises:
        SpiritError: it has failed; ``alembic upgrade`` again carries on.
    """
    if impl.as_sql:
        impl.static_output(f"{_NOTE}\n{statement}{impl.command_terminator}")
        return
    connection = _connection(impl)
    session = FrameworkSession(connection.connection.dbapi_connection)
    around = look_around(session)
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    if table is not None and is_empty(session, *table):
        session.query(statement)
        return
    _, settings = split_settings(_settings(impl))
    told = settings | {name: value for name, value in options.items() if value is not None}
    arguments = _arguments(connection, told) | told
    signals = str(arguments.pop("handle_signals", "")).lower() in {"true", "1", "yes", "on"}
    config = prepared(session, arguments, around, statement)
    change(session, config, _log, handle_signals=signals)


def sql_mode_of(impl: DefaultImpl) -> str:
    """Return the mode by whose rules statements are quoted; empty in offline mode."""
    if impl.as_sql:
        return ""
    return look_around(FrameworkSession(_connection(impl).connection.dbapi_connection)).sql_mode


def goes_online(impl: DefaultImpl, statement: str) -> bool:
    """Return whether the policy sends a statement of Alembic's own through this program."""
    policy = policy_of(impl)
    if not policy.chooses_any or impl.as_sql:
        return False
    session = FrameworkSession(_connection(impl).connection.dbapi_connection)
    around = look_around(session)
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    if table is None or is_empty(session, *table):
        return False
    rows, size = size_of(session, *table)
    return policy.chooses(*table, rows=rows, size=size)


def _connection(impl: DefaultImpl) -> Connection:
    connection = impl.connection
    if connection is None:
        raise RuntimeError("Alembic has no connection")
    return connection


def _settings(impl: DefaultImpl) -> dict[str, Any]:
    """Return the settings of alembic.ini and of env.py."""
    return {**_section(), **(impl.context_opts.get(_SECTION) or {})}


def _section() -> dict[str, str]:
    """Return the section of alembic.ini; empty where Alembic runs without a file."""
    config = getattr(context, "config", None)
    if config is None:
        return {}
    found = config.get_section(_SECTION) or {}
    of_all = config.file_config.defaults()
    return {name: value for name, value in found.items() if name not in of_all}


def _arguments(connection: Connection, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to reach the server of Alembic's connection, by its URL and ``connect_args``."""
    engine = connection.engine
    return arguments_of(str(engine.dialect.driver), _given(engine, told), told)


def _given(engine: Engine, told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keyword arguments with which the driver connects.

    Raises:
        UsageFault: it cannot be seen how, and the settings do not say what that means for TLS.
    """
    # SQLAlchemy keeps them in the function that connects, and nowhere else.
    creator = engine.pool._creator  # noqa: SLF001
    if inspect.isfunction(creator) and creator.__module__ == "sqlalchemy.engine.create":
        given = inspect.getclosurevars(creator).nonlocals.get("cparams")
        if given is not None and not list(engine.dialect.dispatch.do_connect):
            return cast("Mapping[str, Any]", given)
    if "ssl_mode" not in told:
        raise UsageFault(
            "the engine connects by a function of its own (creator, pool, or the event do_connect),"
            " which does not show how",
            hint="say it among the settings of spirit_py: ssl_mode, and what else it adds to the"
            " URL (ssl_ca, password)",
        )
    return cast("Mapping[str, Any]", engine.dialect.create_connect_args(engine.url)[1])

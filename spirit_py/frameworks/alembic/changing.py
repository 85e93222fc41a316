"""One ALTER of one table, in the middle of an Alembic migration."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from alembic import context
from sqlalchemy import event

from spirit_py.errors import UsageFault
from spirit_py.frameworks import online
from spirit_py.frameworks.connecting import arguments_of
from spirit_py.frameworks.policy import split_settings
from spirit_py.frameworks.revision import Revision
from spirit_py.frameworks.steps import VersionChange, as_text, is_auxiliary
from spirit_py.statement import changed_table, defined_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from alembic.ddl.impl import DefaultImpl
    from sqlalchemy.engine import Connection, Engine


#: Below Alembic's own logger, which its alembic.ini shows.
_log: Final = logging.getLogger("alembic.spirit_py")
_log.addFilter(online.escaped)
_SECTION: Final = "spirit_py"
_migrations: WeakKeyDictionary[Connection, _Migrations] = WeakKeyDictionary()
#: The revisions that the step of a command takes from and to the version table.
_scopes: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
#: Up to the name of the table, before which there may be that of its schema.
_WRITES: Final = (
    r"\s*(?:INSERT|REPLACE|UPDATE|DELETE)(?:\s+(?:IGNORE|INTO|FROM))*\s+(?:(?:`[^`]+`|\w+)\.)?"
)
_QUOTED: Final = re.compile(r"'([^']*)'")


def change_online(impl: DefaultImpl, statement: str, options: Mapping[str, Any]) -> None:
    """Change a table online; print the plain statement in offline mode (``--sql``).

    An empty table is changed by the plain statement, which is quicker. After a SpiritError
    ``alembic upgrade`` again resumes; so it does after one of :func:`execute`.
    """
    if impl.as_sql:
        impl.static_output(f"{online.PLAIN_NOTE}\n{statement}{impl.command_terminator}")
        return
    session = session_of(impl)
    around = online.look_around(session)
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    revision = revision_of(impl)
    if revision.takes_all and table is not None:
        revision.online(online.OnlineChange.of(table, statement, _told(impl, options)))
        return
    goes_on = table is not None and revision.resumes(table, statement)
    if table is None or (online.is_empty(session, *table) and not goes_on):
        named = defined_table(statement, around.schema, sql_mode=around.sql_mode)
        revision.plainly(named or ("", ""), statement, lambda: session_of(impl).query(statement))
        return
    revision.flush()
    revision.online(online.OnlineChange.of(table, statement, _told(impl, options)))
    revision.flush()


def execute(impl: DefaultImpl, statement: str, plainly: Callable[[], Any]) -> Any:
    """Execute a statement of Alembic's own: as it does, or online where the settings say so."""
    session, revision = session_of(impl), revision_of(impl)
    around = online.look_around(session)
    table = defined_table(statement, around.schema, sql_mode=around.sql_mode)
    if revision.takes_all:
        changed = changed_table(statement, around.schema, sql_mode=around.sql_mode)
        revision.gather(
            statement, changed and online.OnlineChange.of(changed, statement, _told(impl, {}))
        )
        return None
    policy, _ = split_settings(_settings(impl))
    large = online.chosen(session, around, statement, policy, revision.resumes)
    if table is None:
        return plainly()
    if large is None:
        return revision.plainly(table, statement, plainly)
    connection = _connection(impl)
    if not connection.in_transaction():
        # As by a statement that is sent at once: so a closed connection is noticed.
        connection.exec_driver_sql("DO 0")
    revision.online(online.OnlineChange.of(table, statement, _told(impl, {})))
    return None


def _told(impl: DefaultImpl, options: Mapping[str, Any]) -> dict[str, Any]:
    _, settings = split_settings(_settings(impl))
    told = settings | {name: value for name, value in options.items() if value is not None}
    return _arguments(_connection(impl), told) | told


def session_of(impl: DefaultImpl) -> online.FrameworkSession:
    """Return the session of Alembic's connection."""
    return online.FrameworkSession(_connection(impl).connection.dbapi_connection)


def revision_of(impl: DefaultImpl) -> Revision:
    """Return the migration that runs on Alembic's connection."""
    connection = _connection(impl)
    ((database,),) = session_of(impl).query("SELECT DATABASE()")
    schema = str(impl.context_opts.get("version_table_schema") or "")
    versions = "" if schema == database else schema, _versions(impl)
    migrations = _migrations.get(connection)
    if migrations is None:
        migrations = _migrations[connection] = _Migrations(connection)
    found = migrations.known.get((database, *versions))
    if found is None:
        found = migrations.known[database, *versions] = Revision(
            session=partial(session_of, impl),
            scope=lambda: _scopes.get(connection, ""),
            history=partial(_noted, impl, versions),
            log=_log,
            versions=versions,
            finish="alembic stamp REVISION",
            settle=online.settle_by(lambda: _told(impl, {}), _log),
            alone=lambda: connection not in _scopes,
        )
    migrations.present = found
    return found


class _Migrations:
    """Those of one connection, by its schema and their version table; events are of one of them."""

    def __init__(self, connection: Connection) -> None:
        self.known: dict[tuple[Any, ...], Revision] = {}
        self.present: Revision
        event.listen(connection, "before_cursor_execute", lambda *sent: self.present.flush(sent[2]))
        event.listen(connection, "commit", lambda *_: self.present.flush())
        event.listen(connection, "rollback", lambda *_: _rolled_back(self.present))
        event.listen(connection, "after_cursor_execute", self._executed)

    def _executed(self, connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
        """Look for what the framework has noted; not where rows may wait to be read one by one.

        Nor after a statement of a revision, whose transaction it would commit.
        """
        versions = connection.dialect.identifier_preparer.quote(self.present.versions[1])
        noting = rf"{_WRITES}`?{re.escape(versions)}`?(?![\w$.])"
        if cursor.description is None and re.match(noting, statement, re.IGNORECASE):
            self.present.noted()


def begin(impl: DefaultImpl) -> None:
    """Finish what an earlier command has left; its revisions are told apart by their names."""
    connection, running = _connection(impl), None
    _scopes[connection] = ""
    # Without env.py there is none.
    with contextlib.suppress(Exception):
        running = context.get_context()
    if running is not None and running.impl is impl:
        given: Any = running
        # Alembic calls it for the steps of a command, and says nowhere else which one runs.
        given._migrations_fn = partial(_following, connection, given._migrations_fn)  # noqa: SLF001
    revision_of(impl).finish_earlier()


def _following(connection: Connection, given: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    try:
        for step in given(*arguments):
            # Not those on which they depend, whose branches may go on.
            names = {*step.from_revisions_no_deps, *step.to_revisions_no_deps}
            _scopes[connection] = ",".join(sorted(names))
            yield step
    finally:
        # What a program asks of the connection from now on is of no migration.
        _scopes.pop(connection, None)
        for one in _migrations[connection].known.values():
            one.end()


def _noted(impl: DefaultImpl, versions: tuple[str, str], scope: str) -> list[tuple[Any, ...]]:
    """Return the versions that are noted, of the names of a step alone where it is known."""
    rows = online.rows_of(session_of(impl), *versions, "version_num", "ORDER BY 1")
    return [row for row in rows if not scope or as_text(row[0]) in scope.split(",")]


def _rolled_back(revision: Revision) -> None:
    """Carry out what waits: MySQL rolls back no DDL. Not after an exception, nor its failure."""
    if sys.exc_info()[0] is None and not revision.failed:
        revision.flush()
    else:
        revision.give_up()


def is_ours(impl: DefaultImpl, schema: str | None, table: str) -> bool:
    """Return whether a table, of which no model knows, is one of a change that is under way."""
    session = session_of(impl)
    schema = schema or online.look_around(session).schema
    return is_auxiliary(session, (schema, table), revision_of(impl).versions)


def take_version(impl: DefaultImpl, construct: Any, text: str) -> bool:
    """Take what Alembic notes of a whole migration, or False; only revisions are quoted in it."""
    table = getattr(construct, "table", None)
    if table is None or table.name != _versions(impl):
        return False
    sql = {
        "insert": "INSERT INTO {table} (version_num) VALUES (%s)",
        "update": "UPDATE {table} SET version_num = %s WHERE version_num = %s",
        "delete": "DELETE FROM {table} WHERE version_num = %s",
    }[construct.__visit_name__]
    revision = revision_of(impl)
    return revision.version(VersionChange(sql=sql, parameters=tuple(_QUOTED.findall(text))))


def _versions(impl: DefaultImpl) -> str:
    return str(impl.context_opts.get("version_table") or "alembic_version")


def _connection(impl: DefaultImpl) -> Connection:
    connection = impl.connection
    if connection is None:
        raise RuntimeError("Alembic has no connection")
    return connection


def _settings(impl: DefaultImpl) -> dict[str, Any]:
    given = impl.context_opts.get(_SECTION) or {}
    config = getattr(context, "config", None)
    if config is None:
        return dict(given)
    found = config.get_section(_SECTION) or {}
    of_all = config.file_config.defaults()
    return {name: value for name, value in found.items() if name not in of_all} | dict(given)


def _arguments(connection: Connection, told: Mapping[str, Any]) -> dict[str, Any]:
    engine = connection.engine
    return arguments_of(str(engine.dialect.driver), _given(engine, told), told)


def _given(engine: Engine, told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with which the driver connects; UsageFault where TLS is unclear."""
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
            hint="add it to the settings of spirit_py: ssl_mode, and what else it adds to the"
            " URL (ssl_ca, password)",
        )
    return cast("Mapping[str, Any]", engine.dialect.create_connect_args(engine.url)[1])

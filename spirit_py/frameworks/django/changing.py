"""One statement of a schema editor: sent to the server as it is, or carried out online."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date, time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db.migrations.executor import MigrationExecutor
from django.db.transaction import TransactionManagementError
from django.utils.timezone import now

from spirit_py.frameworks import online
from spirit_py.frameworks.connecting import arguments_of
from spirit_py.frameworks.policy import split_settings
from spirit_py.frameworks.revision import Revision
from spirit_py.frameworks.steps import VersionChange
from spirit_py.statement import changed_table, defined_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

    Execute = Callable[..., None]
    #: Each migration, and whether it is undone.
    Plan: TypeAlias = Sequence[tuple[Any, bool]]
    _Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

_log: Final = logging.getLogger(__name__)
_log.addFilter(online.escaped)
_VERSIONS: Final = "django_migrations"
_INSERTS: Final = re.compile(rf"INSERT INTO `{_VERSIONS}` ", re.IGNORECASE)
_revisions: WeakKeyDictionary[Any, Revision] = WeakKeyDictionary()
_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def execute_online(
    editor: BaseDatabaseSchemaEditor,
    plainly: Execute,
    sql: object,
    params: _Params = (),
    *,
    asked: Mapping[str, Any] | None = None,
) -> None:
    """Execute a statement of a schema editor: online, or as the editor does it.

    ``plainly`` is the editor's own way, which also collects the SQL for ``sqlmigrate``; ``asked``
    is None where the settings decide. After a SpiritError ``manage.py migrate`` again resumes.
    """
    connection: Any = editor.connection
    if not is_mysql(connection):
        plainly(sql, params)
        return
    if not editor.collect_sql and revision_of(connection).takes_all:
        _gather(editor, str(sql), params, asked or {})
        return
    table = _goes_online(editor, sql, params, asked=asked is not None)
    if editor.collect_sql:
        if table is not None:
            editor.collected_sql.append(online.PLAIN_NOTE)
        plainly(sql, params)
        return
    if table is None:
        _plainly(editor, plainly, sql, params)
        return
    require_no_transaction(connection, ".".join(table))
    told = _told(connection, asked or {})
    revision_of(connection).online(online.OnlineChange.of(table, _text(editor, sql, params), told))


def require_no_transaction(connection: Any, what: str) -> None:
    """Raise inside ``atomic()``: what its caller has written would be committed."""
    if connection.in_atomic_block:
        raise TransactionManagementError(
            f"{what} cannot be changed online inside a transaction, whose locks"
            " would hold back the swap: take the change out of atomic()"
        )


def is_mysql(connection: Any) -> bool:
    """Return whether a connection of Django's is one to MySQL; MariaDB has the same vendor."""
    return connection.vendor == "mysql" and not connection.mysql_is_mariadb


def _gather(
    editor: BaseDatabaseSchemaEditor, sql: str, params: _Params, asked: Mapping[str, Any]
) -> None:
    connection: Any = editor.connection
    around = online.look_around(_session_of(connection))
    table = changed_table(sql, around.schema, sql_mode=around.sql_mode)
    change = None
    if table is not None:
        change = online.OnlineChange.of(table, _text(editor, sql, params), _told(connection, asked))
    revision_of(connection).gather(sql, change)


def _told(connection: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    _, options = split_settings(_settings())
    told = options | {name: value for name, value in asked.items() if value is not None}
    # PyMySQL may be installed in the place of mysqlclient, and checks more.
    driver = str(connection.Database.__name__).lower()
    return arguments_of(driver, connection.get_connection_params(), told) | told


def names_again(
    editor: BaseDatabaseSchemaEditor,
    ask: Callable[..., list[str]],
    model: Any,
    *of: Any,
    **more: Any,
) -> list[str]:
    """Return the names of a model's keys and indexes, as they were before the same statement.

    From them Django derives what it drops and adds again.
    """
    connection: Any = editor.connection

    def plainly() -> list[str]:
        return ask(model, *of, **more | _excluding(connection, partial(ask, model), more))

    if _is_apart(editor):
        return plainly()
    revision = revision_of(connection)
    revision.flush()
    kinds = [(name, sorted(one) if isinstance(one, set) else one) for name, one in more.items()]
    found = revision.again((model._meta.db_table, of, sorted(kinds)), plainly)  # noqa: SLF001
    # Such a name Django would not quote.
    return [one for one in found if "`" not in one]


def _excluding(
    connection: Any, ask: Callable[..., list[str]], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the names of CHECK constraints to leave out, with those that copies gave to them."""
    names = set(more.get("exclude") or ())
    if not (more.get("check") and names and is_mysql(connection)):
        return {}
    there = set(ask(check=True))
    others = {online.other_name(one) for one in names - there}
    return {"exclude": names | (others & there)}


def default_again(editor: BaseDatabaseSchemaEditor, ask: Callable[..., Any], field: Any) -> Any:
    """Return the default of a field, of a function what it was before the same statement."""
    changing = callable(field.default) if field.has_default() else _is_time_of_now(field)
    if not changing or _is_apart(editor):
        return ask(field)

    def plainly() -> Any:
        value = ask(field)
        return str(value) if isinstance(value, (date, time)) else value

    asked = field.model._meta.db_table, field.column  # noqa: SLF001
    return revision_of(editor.connection).again(asked, plainly)


def _is_time_of_now(field: Any) -> bool:
    return bool(getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False))


def _is_apart(editor: BaseDatabaseSchemaEditor) -> bool:
    """Return whether what an editor does makes no steps."""
    connection: Any = editor.connection
    if editor.collect_sql or connection.in_atomic_block or not is_mysql(connection):
        return True
    connection.ensure_connection()
    return revision_of(connection).takes_all


def revision_of(connection: Any) -> Revision:
    """Return the migration that runs on a connection of Django's."""
    found = _revisions.get(connection)
    if found is None:
        found = Revision(
            session=partial(_session_of, connection),
            scope=partial(_application, connection),
            history=partial(_applied, connection),
            log=_log,
            versions=("", _VERSIONS),
            finish="manage.py migrate --fake APP MIGRATION",
            settle=online.settle_by(lambda: _told(connection, {}), _log),
            # Django runs a migration without its command, too, and says nowhere that it does.
            alone=lambda: False,
        )
        _revisions[connection] = found
        connection.set_autocommit = partial(_set_autocommit, found, connection.set_autocommit)
        # Django's own context takes away the last one, whose ever it is.
        connection.execute_wrappers.insert(0, partial(_following, found))
    return found


def _following(
    revision: Revision, execute: Callable[..., Any], sql: str, params: Any, *more: Any
) -> Any:
    """Carry out what waits before the connection is asked anything else."""
    if _INSERTS.match(sql) and revision.has_noted(tuple(map(str, params or ()))[:2]):
        return None
    revision.flush(sql)
    result = execute(sql, params, *more)
    # What looks for it commits: neither among an application's own rows, nor in its transaction.
    noting = _VERSIONS in sql and sql.lstrip()[:6].upper() != "SELECT"
    if noting and not more[-1]["connection"].in_atomic_block:
        revision.noted()
    return result


def _set_autocommit(
    revision: Revision, given: Execute, autocommit: Any, *more: Any, **by: Any
) -> None:
    """Carry out what waits before ``atomic()`` begins, such as that of RunPython."""
    if not (autocommit or revision.takes_all):
        revision.flush()
    given(autocommit, *more, **by)


def noting(connection: Any, rows: Sequence[tuple[str, str]]) -> list[VersionChange]:
    """Return what Django writes when it notes migrations; a row is application and name."""
    applied = str(connection.ops.adapt_datetimefield_value(now()))
    sql = "INSERT INTO {table} (app, name, applied) VALUES (%s, %s, %s)"
    return [VersionChange(sql=sql, parameters=(app, name, applied)) for app, name in rows]


def forgetting(connection: Any, rows: Sequence[tuple[str, str]]) -> list[VersionChange]:
    """Return what Django deletes when it has undone migrations: the rows that there are."""
    there = _applied(connection)
    sql = "DELETE FROM {table} WHERE app = %s AND name = %s"
    return [VersionChange(sql=sql, parameters=row) for row in rows if row in there]


def begin(connection: Any, plan: Plan) -> None:
    """Have a command's migrations told apart by their applications, in the order they happen.

    What an earlier one has left is finished, but for inside ``atomic()``, which that would commit.
    """
    _plans[connection] = plan
    if plan and not any(backwards for _, backwards in plan):
        # Django takes them in the order of all migrations, whatever that of the plan.
        executor = MigrationExecutor(connection)
        full = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
        places = {one: place for place, (one, _) in enumerate(full)}
        _plans[connection] = sorted(plan, key=lambda one: places.get(one[0], len(places)))
    if not connection.in_atomic_block:
        revision_of(connection).finish_earlier()


def _application(connection: Any) -> str:
    """Return the application of the migration that runs: the first that is not noted.

    One that replaces others is noted by their names, and by its own when the command ends.
    """
    there = set(_applied(connection))
    coming = (
        str(one.app_label)
        for one, backwards in _plans.get(connection, ())
        if _is_noted(one, there) is backwards
    )
    return next(coming, "")


def _is_noted(migration: Any, there: set[tuple[Any, ...]]) -> bool:
    names = [(migration.app_label, migration.name)], migration.replaces
    return any(one and there.issuperset(one) for one in names)


def _applied(connection: Any, application: str = "") -> list[tuple[Any, ...]]:
    rows = online.rows_of(_session_of(connection), "", _VERSIONS, "app, name", "ORDER BY id")
    return [row for row in rows if application in {"", row[0]}]


def _session_of(connection: Any) -> online.FrameworkSession:
    return online.FrameworkSession(connection.connection)


def _plainly(
    editor: BaseDatabaseSchemaEditor, plainly: Execute, sql: object, params: _Params
) -> None:
    connection: Any = editor.connection
    connection.ensure_connection()
    around = online.look_around(_session_of(connection))
    table = defined_table(str(sql), around.schema, sql_mode=around.sql_mode)
    if table is None or connection.in_atomic_block:
        plainly(sql, params)
        return
    revision_of(connection).plainly(table, _text(editor, sql, params), lambda: plainly(sql, params))


def _goes_online(
    editor: BaseDatabaseSchemaEditor, sql: object, params: _Params, *, asked: bool
) -> tuple[str, str] | None:
    statement = str(sql)
    policy, _ = split_settings(_settings())
    if not asked and not policy.chooses_any:
        return None
    connection: Any = editor.connection
    connection.ensure_connection()
    session = _session_of(connection)
    around = online.look_around(session)

    def resumes(table: tuple[str, str], _: str) -> bool:
        text = _text(editor, sql, params)
        return not _is_apart(editor) and revision_of(connection).resumes(table, text)

    if not asked:
        return online.chosen(session, around, statement, policy, resumes)
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    if table is None or editor.collect_sql or resumes(table, statement):
        return table
    return None if online.is_empty(session, *table) else table


def _text(editor: BaseDatabaseSchemaEditor, sql: object, params: _Params) -> str:
    quote_value = cast("Any", editor).quote_value

    def literal(value: object) -> object:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"X'{bytes(value).hex()}'"
        return quote_value(value)

    if params is None:
        return str(sql)
    if isinstance(params, Mapping):
        return str(sql) % {name: literal(value) for name, value in params.items()}
    return str(sql) % tuple(map(literal, params))


def _settings() -> dict[str, Any]:
    return dict(getattr(settings, "SPIRIT_PY", None) or {})

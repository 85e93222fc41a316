"""One statement of a schema editor: sent to the server as it is, or carried out online."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from django.conf import settings
from django.db.transaction import TransactionManagementError

from spirit_py.frameworks.connecting import arguments_of
from spirit_py.frameworks.online import (
    FrameworkSession,
    change,
    is_empty,
    look_around,
    prepared,
    size_of,
)
from spirit_py.frameworks.policy import split_settings
from spirit_py.statement import changed_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

    Execute = Callable[..., None]
    _Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

_log: Final = logging.getLogger(__name__)
_NOTE: Final = "-- spirit-py changes the table online; this is the plain statement."


def execute_online(
    editor: BaseDatabaseSchemaEditor,
    plainly: Execute,
    sql: object,
    params: _Params = (),
    *,
    asked: Mapping[str, Any] | None = None,
) -> None:
    """Execute a statement of a schema editor: online, or as the editor does it.

    Args:
        plainly: the editor's own way, which also collects the SQL for ``sqlmigrate``.
        asked: options of a migration that asks for it; None where the settings decide.

    Raises:
        SpiritError: it has failed; ``manage.py migrate`` again carries on.
    """
    connection: Any = editor.connection
    table = _goes_online(editor, str(sql), asked=asked is not None)
    if table is None:
        plainly(sql, params)
        return
    if editor.collect_sql:
        editor.collected_sql.append(_NOTE)
        plainly(sql, params)
        return
    if connection.in_atomic_block:
        raise TransactionManagementError(
            f"{table[0]}.{table[1]} cannot be changed online inside a transaction, whose locks"
            " would hold back the swap: take the change out of atomic()"
        )
    session = FrameworkSession(connection.connection)
    _, options = split_settings(_settings())
    told = options | {name: value for name, value in (asked or {}).items() if value is not None}
    arguments = arguments_of("mysqldb", connection.get_connection_params(), told) | told
    signals = bool(arguments.pop("handle_signals", False))
    config = prepared(session, arguments, look_around(session), _text(editor, sql, params))
    change(session, config, _log, handle_signals=signals)


def _goes_online(
    editor: BaseDatabaseSchemaEditor, statement: str, *, asked: bool
) -> tuple[str, str] | None:
    """Return the table that a statement changes online; None where it is sent as it is."""
    policy, _ = split_settings(_settings())
    if not asked and not policy.chooses_any:
        return None
    connection: Any = editor.connection
    connection.ensure_connection()
    session = FrameworkSession(connection.connection)
    around = look_around(session)
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    if asked and editor.collect_sql:
        return table
    if table is None or is_empty(session, *table):
        return None
    if asked:
        return table
    rows, size = size_of(session, *table)
    return table if policy.chooses(*table, rows=rows, size=size) else None


def _text(editor: BaseDatabaseSchemaEditor, sql: object, params: _Params) -> str:
    """Return the statement that the server would get."""
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

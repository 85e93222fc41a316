"""Django's MySQL backend; it changes large tables online where the setting ``SPIRIT_PY`` says so.

The names of module and class are Django's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.backends.mysql import base
from django.db.backends.mysql.schema import DatabaseSchemaEditor

from spirit_py.frameworks.django.changing import execute_online

if TYPE_CHECKING:
    from collections.abc import Sequence


class OnlineSchemaEditor(DatabaseSchemaEditor):
    """Django's own for MySQL; also a mixin for the schema editor of another MySQL engine."""

    def execute(self, sql: Any, params: Sequence[Any] | None = ()) -> None:
        """Execute a statement; a change of a large table goes online."""
        execute_online(self, self.execute_plainly, sql, params)

    def execute_plainly(self, sql: Any, params: Sequence[Any] | None = ()) -> None:
        """Execute a statement as Django does."""
        super().execute(sql, params)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to MySQL."""

    SchemaEditorClass = OnlineSchemaEditor

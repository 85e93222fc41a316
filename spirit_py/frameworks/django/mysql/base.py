"""Django's MySQL backend, with large tables online where ``SPIRIT_PY`` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.backends.mysql import base
from django.db.backends.mysql.schema import DatabaseSchemaEditor

from spirit_py.frameworks.django.changing import (
    default_again,
    execute_online,
    names_again,
    revision_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class OnlineSchemaEditor(DatabaseSchemaEditor):
    """Django's own for MySQL; also a mixin for the schema editor of another MySQL engine."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send what Django has put off, and carry out what waits; nothing after an exception."""
        if self.collect_sql:
            super().__exit__(kind, value, traceback)
            return
        revision = revision_of(self.connection)
        try:
            super().__exit__(kind, value, traceback)
            if kind is None:
                revision.flush()
        except BaseException:
            # The connection may be used for something else.
            revision.give_up()
            raise
        if kind is not None:
            revision.give_up()

    def execute(self, sql: Any, params: Sequence[Any] | None = ()) -> None:
        """Execute a statement; a change of a large table goes online."""
        execute_online(self, self.execute_plainly, sql, params)

    def execute_plainly(self, sql: Any, params: Sequence[Any] | None = ()) -> None:
        """Execute a statement as Django does."""
        super().execute(sql, params)

    def effective_default(self, field: Any) -> Any:
        """Return the default of a field, after a stop the same."""
        return default_again(self, super().effective_default, field)

    def _constraint_names(self, model: Any, *of: Any, **more: Any) -> list[str]:
        given: Any = super()
        return names_again(self, given._constraint_names, model, *of, **more)  # noqa: SLF001


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to MySQL."""

    SchemaEditorClass = OnlineSchemaEditor

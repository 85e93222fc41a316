"""Migration operations: a change by clauses, and Django's own operations carried out online."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from weakref import WeakKeyDictionary

from django.db import connections, router
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.fields import FieldOperation
from django.db.migrations.operations.models import AlterTogetherOptionOperation
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import pre_migrate

from spirit_py.errors import Refusal
from spirit_py.frameworks.django.changing import (
    begin,
    default_again,
    execute_online,
    forgetting,
    is_mysql,
    names_again,
    noting,
    require_no_transaction,
    revision_of,
)
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.state import ProjectState

    from spirit_py.frameworks.django.changing import Plan
    from spirit_py.frameworks.steps import VersionChange


class Online(Operation):
    """Django's own operations, whose changes of tables go online whatever the tables' size.

    State and reverse are those of the operations, as is all on other databases than MySQL.
    ``options`` are of :func:`spirit_py.migrate`, before those of the setting ``SPIRIT_PY``; they
    may also be keyword arguments.
    """

    serialization_expand_args: ClassVar[list[str]] = ["operations"]

    # Django's migration writer knows arguments of this kind alone.
    def __init__(
        self,
        operations: Operation | Sequence[Operation],
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.operations = [operations] if isinstance(operations, Operation) else list(operations)
        self.options = {**(options or {}), **more}

    @property
    def reversible(self) -> bool:  # type: ignore[override]
        """Whether all operations are."""
        return all(one.reversible for one in self.operations)

    @property
    def reduces_to_sql(self) -> bool:  # type: ignore[override]
        """Whether all operations do."""
        return all(one.reduces_to_sql for one in self.operations)

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        """Return the class, the operations and the options, for the migration writer."""
        given: dict[str, Any] = {"operations": self.operations}
        return type(self).__name__, [], given | ({"options": self.options} if self.options else {})

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Have each operation change the state."""
        for one in self.operations:
            one.state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Carry the operations out, one after another."""
        with _online(schema_editor, self.options):
            for one in self.operations:
                to_state = from_state.clone()
                one.state_forwards(app_label, to_state)
                one.database_forwards(app_label, schema_editor, from_state, to_state)
                from_state = to_state

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,  # noqa: ARG002 - Django's signature
        to_state: ProjectState,
    ) -> None:
        """Undo the operations, the last one first."""
        states = [to_state]
        for one in self.operations:
            state = states[-1].clone()
            one.state_forwards(app_label, state)
            states.append(state)
        with _online(schema_editor, self.options):
            for number, one in reversed(list(enumerate(self.operations))):
                one.database_backwards(app_label, schema_editor, states[number + 1], states[number])

    def references_model(self, name: str, app_label: str) -> bool:
        """Return whether one of the operations does."""
        return any(one.references_model(name, app_label) for one in self.operations)

    def references_field(self, model_name: str, name: str, app_label: str) -> bool:
        """Return whether one of the operations does."""
        return any(one.references_field(model_name, name, app_label) for one in self.operations)

    def describe(self) -> str:
        """Describe the operations, for ``migrate --plan``."""
        return "; ".join(one.describe() for one in self.operations) + " (online)"

    @property
    def migration_name_fragment(self) -> str | None:  # type: ignore[override]
        """The fragment of the first operation."""
        return self.operations[0].migration_name_fragment if self.operations else None


class AtomicMigration:
    """All changes of a migration happen at one moment, with Django's note of it, or never.

    All tables are copied, and swapped with Django's own table of migrations by one RENAME. What
    reads in between sees the tables as they were. What does not change an existing table is
    refused, and nothing is done then. ``sqlmigrate`` prints plain SQL, and other databases than
    MySQL are changed as ever. The attribute ``spirit_py`` has options, as of :class:`Online`.
    """

    spirit_py: ClassVar[Mapping[str, Any]] = {}

    def apply(
        self, project_state: Any, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> Any:
        """Carry the operations out, and note the migration."""
        given: Any = self
        rows = list(given.replaces) or [(given.app_label, given.name)]
        run = partial(super().apply, project_state, schema_editor, collect_sql)  # type: ignore[misc]
        return self._whole(run, schema_editor, collect_sql, partial(noting, rows=rows))

    def unapply(
        self, project_state: Any, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> Any:
        """Undo the operations, and the note."""
        given: Any = self
        rows = [*given.replaces, (given.app_label, given.name)]
        run = partial(super().unapply, project_state, schema_editor, collect_sql)  # type: ignore[misc]
        return self._whole(run, schema_editor, collect_sql, partial(forgetting, rows=rows))

    def _whole(
        self,
        run: Callable[[], Any],
        editor: BaseDatabaseSchemaEditor,
        collect_sql: bool,
        noted: Callable[[Any], list[VersionChange]],
    ) -> Any:
        connection = editor.connection
        if collect_sql or not is_mysql(connection):
            return run()
        require_no_transaction(connection, f"what {self} changes")
        _require_apart(cast("Any", self).operations)
        MigrationRecorder(connection).ensure_schema()
        revision = revision_of(connection)
        with _asked(editor, dict(self.spirit_py)):
            with revision.as_a_whole():
                state = run()
                _send_late(editor)
            for one in noted(connection):
                revision.version(one)
            revision.flush()
        return state


def _require_apart(operations: Sequence[Operation]) -> None:
    """Refuse two operations on one field: the second would look for names of the first."""
    seen: set[tuple[str, str]] = set()
    for one in _flat(operations):
        if isinstance(one, FieldOperation):
            names = {one.name_lower, getattr(one, "new_name_lower", one.name_lower)}
            touched = {(one.model_name_lower, name) for name in names}
        elif isinstance(one, AlterTogetherOptionOperation):
            touched = {(one.name_lower, "")}
        else:
            continue
        models = {model for model, name in seen if not name}
        again = [
            (model, name)
            for model, name in touched
            if (model, name) in seen
            or model in models
            or (not name and model in {found for found, _ in seen})
        ]
        if again:
            model, name = again[0]
            raise Refusal(
                f"two operations of the migration change {'.'.join(filter(None, (model, name)))},"
                " and the second one needs what the first one has not made yet",
                hint="give the second one a migration of its own",
            )
        seen |= touched


def _flat(operations: Sequence[Operation]) -> Iterator[Operation]:
    for one in operations:
        inner = getattr(one, "operations", None) or getattr(one, "state_operations", None)
        if inner:
            yield from _flat(inner)
        else:
            yield one


def _finish_earlier(using: str, plan: Plan | None = None, **_: Any) -> None:
    connection = connections[using]
    # Django sends the signal, with the one plan of a command, for each application.
    if is_mysql(connection) and (plan is None or plan is not _seen.get(connection)):
        connection.ensure_connection()
        begin(connection, plan or ())
        _seen[connection] = plan


_seen: Final[WeakKeyDictionary[Any, Plan | None]] = WeakKeyDictionary()
pre_migrate.connect(_finish_earlier, dispatch_uid="spirit_py")


class SpiritAlter(Online):
    """One online ALTER TABLE by its clauses, with what it means for Django's models.

    On other databases than MySQL the state operations are carried out instead; nothing is where the
    routers allow no migration of the app, or of the one model of the state operations.

    Args:
        table: the table's name in the database.
        reverse: the clauses that undo it; empty where nothing does.
        options: as of :class:`Online`.
        hints: for the routers, as ``RunSQL`` has them; ``model_name`` takes precedence over that of
            the state operations.
    """

    serialization_expand_args: ClassVar[list[str]] = ["state_operations"]
    reduces_to_sql = True
    references_field = Operation.references_field

    def __init__(  # noqa: PLR0917
        self,
        table: str,
        clauses: str,
        reverse: str = "",
        state_operations: Sequence[Operation] = (),
        options: Mapping[str, Any] | None = None,
        hints: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(state_operations, options, **more)
        self.table = table
        self.clauses = clauses
        self.reverse = reverse
        self.state_operations = self.operations
        self.hints = dict(hints or {})

    @property
    def reversible(self) -> bool:  # type: ignore[override]
        """Whether there are clauses that undo it."""
        return bool(self.reverse)

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        """Return the class and the arguments, for the migration writer."""
        names = ("reverse", "state_operations", "options", "hints")
        given = {name: value for name in names if (value := getattr(self, name))}
        return type(self).__name__, [self.table, self.clauses], given

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: ProjectState
    ) -> None:
        """Change the table."""
        if not self._altered(app_label, schema_editor, self.clauses):
            super().database_forwards(app_label, schema_editor, *states)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: ProjectState
    ) -> None:
        """Change the table back."""
        if not self._altered(app_label, schema_editor, self.reverse):
            super().database_backwards(app_label, schema_editor, *states)

    def _altered(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, clauses: str
    ) -> bool:
        """Change the table where the routers allow it; return False on another database."""
        if not is_mysql(schema_editor.connection):
            return False
        hints = self._model_name() | self.hints
        if router.allow_migrate(schema_editor.connection.alias, app_label, **hints):
            with _online(schema_editor, self.options):
                statement = f"ALTER TABLE {quote_identifier(self.table)} {clauses}"
                schema_editor.execute(statement, params=None)
        return True

    def _model_name(self) -> dict[str, str]:
        names = {
            getattr(one, "model_name_lower", None) or getattr(one, "name_lower", "")
            for one in self.state_operations
        }
        name = names.pop() if len(names) == 1 else ""
        return {"model_name": name} if name else {}

    def references_model(self, name: str, app_label: str) -> bool:  # noqa: ARG002 - Django's
        """Return True: squashing moves no operation on a model across clauses it cannot read."""
        return True

    def describe(self) -> str:
        """Describe the change, for ``migrate --plan``."""
        return f"ALTER TABLE {self.table} {self.clauses} (online)"

    @property
    def migration_name_fragment(self) -> str | None:  # type: ignore[override]
        """The table's name."""
        return f"alter_{self.table.lower()}"


@contextlib.contextmanager
def _online(editor: BaseDatabaseSchemaEditor, options: dict[str, Any]) -> Iterator[None]:
    """Have the editor's statements go online, with those put off, such as an index."""
    if not is_mysql(editor.connection):
        yield
        return
    late = len(editor.deferred_sql)
    with _asked(editor, options):
        yield
        _send_late(editor, late)
        revision = revision_of(editor.connection)
        if not editor.collect_sql and not revision.takes_all:
            revision.flush()


@contextlib.contextmanager
def _asked(editor: BaseDatabaseSchemaEditor, options: dict[str, Any]) -> Iterator[None]:
    """Have each statement of the context ask to go online; nothing waits after an exception."""
    given: Any = editor
    outer = dict(vars(given))
    plainly = getattr(editor, "execute_plainly", editor.execute)
    given.execute = partial(execute_online, editor, plainly, asked=options)
    if not hasattr(editor, "execute_plainly") and "execute" not in outer:
        given.effective_default = partial(default_again, editor, editor.effective_default)
        given._constraint_names = partial(names_again, editor, given._constraint_names)  # noqa: SLF001
    try:
        yield
    except BaseException:
        revision_of(editor.connection).give_up()
        raise
    finally:
        for name in ("execute", "effective_default", "_constraint_names"):
            vars(given).pop(name, None)
            if name in outer:
                setattr(given, name, outer[name])


def _send_late(editor: BaseDatabaseSchemaEditor, number: int = 0) -> None:
    late = editor.deferred_sql[number:]
    del editor.deferred_sql[number:]
    for statement in late:
        editor.execute(statement, None)

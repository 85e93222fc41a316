"""``op.spirit_alter``, ``op.online_alter_table``, and Alembic's own operations on large tables."""

from __future__ import annotations

import contextlib
import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

import alembic.util
import sqlalchemy as sa
from alembic.autogenerate import comparators
from alembic.ddl.mysql import MySQLImpl
from alembic.operations import BatchOperations, MigrateOperation, Operations
from alembic.operations.batch import BatchOperationsImpl
from alembic.operations.ops import DropTableOp, ModifyTableOps
from sqlalchemy.schema import DDLElement
from sqlalchemy.sql.dml import UpdateBase

from spirit_py.errors import Refusal
from spirit_py.frameworks.alembic import changing
from spirit_py.frameworks.online import look_around
from spirit_py.sql import quote_identifier
from spirit_py.statement import parse_statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alembic.autogenerate.api import AutogenContext
    from alembic.ddl.impl import DefaultImpl
    from alembic.operations.ops import UpgradeOps
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy import Executable

    from spirit_py.options.commands import MigrationArguments


def text_of(construct: Executable | str, impl: DefaultImpl) -> str:
    """Return the statement that the server would get; empty for what is no DDL or text."""
    dialect, connection = impl.dialect, impl.connection
    if isinstance(construct, str):
        construct = sa.text(construct)
    if not isinstance(construct, (DDLElement, sa.TextClause)):
        return ""
    if isinstance(construct, sa.TextClause) and construct.compile().params:
        return ""
    # The schemas are those that the connection is told to use in their place.
    other = connection and connection.get_execution_options().get("schema_translate_map")
    more = {"schema_translate_map": other, "render_schema_translate": True} if other else {}
    text = str(construct.compile(dialect=dialect, **more)).strip()
    doubled = getattr(dialect.identifier_preparer, "_double_percents", False)
    return text.replace("%%", "%") if doubled else text


def joined(statements: Iterable[str], schema: str, table: str, *, sql_mode: str) -> str:
    """Return one ALTER TABLE of statements, quoted by the session's ``sql_mode``; or Refusal."""
    clauses = []
    for text in statements:
        (one,) = parse_statement(text, schema or "-", sql_mode=sql_mode)
        if one.table != table:
            raise Refusal(
                f"{text!r} changes table {one.table}, not {table}",
                hint="change each table in a block of its own",
            )
        clauses.append(one.clauses)
    name = ".".join(quote_identifier(part) for part in (schema, table) if part)
    return f"ALTER TABLE {name} {', '.join(clauses)}"


class HasContext(Protocol):
    """Alembic's ``op``, as the module or as an object."""

    def get_context(self) -> MigrationContext:
        """Return the context of the migration."""


@Operations.register_operation("spirit_alter")
@Operations.register_operation("online_alter_table")
class SpiritAlterOp(MigrateOperation):
    """One ALTER TABLE, online; ``options`` take precedence over those of the settings."""

    def __init__(
        self, table_name: str, clauses: str, *, schema: str | None, options: MigrationArguments
    ) -> None:
        self.table_name = table_name
        self.clauses = clauses
        self.schema = schema
        self.options = options

    @classmethod
    def spirit_alter(
        cls,
        operations: Operations,
        table_name: str,
        clauses: str,
        *,
        schema: str | None = None,
        **options: Any,
    ) -> None:
        """Change a table online: ``op.spirit_alter("orders", "ADD COLUMN note VARCHAR(200)")``."""
        given: Any = options
        operations.invoke(cls(table_name, clauses, schema=schema, options=given))

    @classmethod
    def online_alter_table(
        cls, operations: Operations, table_name: str, *, schema: str | None = None, **options: Any
    ) -> contextlib.AbstractContextManager[BatchOperations]:
        """Change a table online by the operations of the block, which become one ALTER."""
        return online_alter_table(operations, table_name, schema=schema, **options)


@Operations.implementation_for(SpiritAlterOp)
def _run(operations: Operations, operation: SpiritAlterOp) -> None:
    impl = operations.get_context().impl
    other = _is_other(impl)
    quote = impl.dialect.identifier_preparer.quote if other else quote_identifier
    named = [name for name in (operation.schema, operation.table_name) if name]
    statement = f"ALTER TABLE {'.'.join(map(quote, named))} {operation.clauses}"
    if other:
        impl.execute(sa.text(statement.replace(":", r"\:")))
    else:
        changing.change_online(impl, statement, operation.options)


def _is_other(impl: DefaultImpl) -> bool:
    """Return whether the database is another one than MySQL, and changed as Alembic does it."""
    return impl.dialect.name != "mysql" or bool(getattr(impl.dialect, "is_mariadb", False))


def spirit_alter(
    operations: HasContext,
    table_name: str,
    clauses: str,
    *,
    schema: str | None = None,
    **options: Unpack[MigrationArguments],
) -> None:
    """Change a table online by what follows ``ALTER TABLE t``; ``op.spirit_alter`` with types.

    ``options`` are of :func:`spirit_py.migrate`. After a SpiritError ``alembic upgrade`` again
    resumes. On another database than MySQL the ALTER is sent as it is.
    """
    operation = SpiritAlterOp(table_name, clauses, schema=schema, options=options)
    Operations(operations.get_context()).invoke(operation)


@contextlib.contextmanager
def online_alter_table(
    operations: HasContext,
    table_name: str,
    *,
    schema: str | None = None,
    **options: Unpack[MigrationArguments],
) -> Iterator[BatchOperations]:
    """Collect Alembic's own operations on a table; at the end they are made by one online ALTER.

    After an exception nothing is changed, nor after an empty block. ``options`` are those of
    :func:`spirit_py.migrate`. After a SpiritError ``alembic upgrade`` again resumes. On another
    database than MySQL it is Alembic's own ``batch_alter_table``.
    """
    migration = operations.get_context()
    impl = migration.impl
    if _is_other(impl):
        with Operations(migration).batch_alter_table(table_name, schema=schema) as batch:
            yield batch
        return
    recorded: list[str] = []

    def record(construct: Executable | str, *_: Any, **__: Any) -> None:
        recorded.append(text_of(construct, impl))

    recorder = copy.copy(impl)
    recorder._exec = record  # type: ignore[method-assign] # noqa: SLF001 - Alembic has no other way
    collected = _Collected(Operations(migration), table_name, schema)
    yield BatchOperations(migration, impl=collected)
    for name, arguments, settings in collected.batch:
        getattr(recorder, name)(*arguments, **settings)
    if recorded:
        mode = "" if impl.as_sql else look_around(changing.session_of(impl)).sql_mode
        changing.change_online(
            impl, joined(recorded, schema or "", table_name, sql_mode=mode), options
        )


@contextlib.contextmanager
def atomic_revision(operations: HasContext) -> Iterator[None]:
    """Have all changes of the block happen at one moment, with the revision's version, or never.

    All tables of the block are copied, whatever their size; they and Alembic's version table are
    swapped by one RENAME after the function has returned. The block is the whole of the function,
    and sees the tables as they were. Offline mode (``--sql``) prints plain SQL, and on another
    database than MySQL the block is carried out as ever.

    Raises:
        Refusal: a statement does not change an existing table; then nothing is changed.
        SpiritError: it has failed; ``alembic upgrade`` again resumes.
    """
    impl = operations.get_context().impl
    if impl.as_sql or _is_other(impl):
        yield
        return
    with changing.revision_of(impl).as_a_whole():
        yield


class _Collected(BatchOperationsImpl):
    """The operations of a block, which are never applied by making the table anew."""

    def __init__(self, operations: Operations, table_name: str, schema: str | None) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            operations,
            table_name=table_name,
            schema=schema,
            recreate="never",
            copy_from=None,
            table_args=(),
            table_kwargs={},
            reflect_args=(),
            reflect_kwargs={},
            naming_convention=None,
            partial_reordering=(),
        )


class OnlineMySQLImpl(MySQLImpl):
    """Takes the place of Alembic's own for MySQL; without thresholds it does nothing else."""

    __dialect__ = "mysql"

    @property
    def is_apart(self) -> bool:
        """Whether no session of MySQL is asked: MariaDB may have this dialect, too."""
        return self.as_sql or getattr(self.dialect, "is_mariadb", False)

    def _exec(self, construct: Executable | str, *more: Any, **settings: Any) -> Any:
        statement = "" if self.is_apart else text_of(construct, self)
        plainly = partial(super()._exec, construct, *more, **settings)
        if isinstance(construct, UpdateBase) and not self.is_apart:
            text = str(construct.compile(dialect=self.dialect))
            return None if changing.take_version(self, construct, text) else plainly()
        return changing.execute(self, statement, plainly) if statement else plainly()

    def start_migrations(self) -> None:
        """Finish what a revision has left whose process ended right after its swap."""
        super().start_migrations()
        if not self.is_apart and self.connection is not None:
            changing.begin(self)


#: Since 1.18 Alembic calls its own comparison after those without a priority; before, first.
_AFTER: Final[dict[str, Any]] = (
    {"priority": alembic.util.DispatchPriority.LAST}
    if hasattr(alembic.util, "DispatchPriority")
    else {}
)


@comparators.dispatch_for("schema", **_AFTER)
def _leave_out_ours(autogenerate: AutogenContext, found: UpgradeOps, _: object) -> None:
    """Leave our own tables out of what autogenerate drops, as no model has them."""
    impl = autogenerate.migration_context.impl
    if not isinstance(impl, OnlineMySQLImpl) or impl.is_apart:
        return
    dropped = {(one.schema, one.table_name) for one in found.ops if isinstance(one, DropTableOp)}
    ours = {name for name in dropped if changing.is_ours(impl, *name)}
    found.ops = [
        one
        for one in found.ops
        if not (
            isinstance(one, DropTableOp | ModifyTableOps) and (one.schema, one.table_name) in ours
        )
    ]

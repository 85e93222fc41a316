"""Run one change online while a framework's connection waits.

The framework's open transaction is committed first, as any ALTER TABLE would; its session is kept
alive, because it writes down that the migration is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.api.commands import cleanup, migration_config_of, run_of
from spirit_py.api.values import flag_value
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, SpiritError, Stopped
from spirit_py.locks.named import GONE_SECONDS
from spirit_py.mysql.evaluation import ZERO_MODES, without_modes
from spirit_py.options.commands import CleanupArguments, MigrationArguments
from spirit_py.sql import quote_identifier
from spirit_py.statement import ClauseKind, changed_table, parse_statement
from spirit_py.statement.rewrite import with_constraints
from spirit_py.units import one_line

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Iterator, Mapping

    from spirit_py.api.running import Running
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SwappedAlong
    from spirit_py.frameworks.policy import Policy
    from spirit_py.progress import MigrationStatus
    from spirit_py.statement import AlterStatement, Clause
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.names import Name

    Settle = Callable[[Name, bool | None], None]

_ALIVE_SECONDS: Final = 20.0
_CANCELLED_SECONDS: Final = 1.0
_AGAIN: Final = "the source table is intact; run the same command again: it resumes"
_PASSES_OVER: Final = (
    "run the same command again: it waits for what is left of drop_old_after, archives what is to"
    " be archived, and passes over what is made"
)
#: ER_XAER_RMFAIL
_IN_XA: Final = 1399
_SIZE: Final = (
    "SELECT COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH + INDEX_LENGTH, 0)"
    " FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)

#: A session's sql_select_limit holds where a statement has no limit.
NO_LIMIT: Final = f"LIMIT {2**64 - 1}"
_CONSTRAINTS: Final = (
    "SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS"
    f" WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s {NO_LIMIT}"
)
_MOST_NAMINGS: Final = 64
#: These may name a constraint of any type.
_NAMING_ANY: Final = (ClauseKind.DROP_CONSTRAINT, ClauseKind.ALTER_CONSTRAINT)
_NAMING_CHECKS: Final = (ClauseKind.DROP_CHECK, ClauseKind.ALTER_CHECK, *_NAMING_ANY)

_TIMESTAMPS: Final = (
    "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
    f" WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND DATA_TYPE = 'timestamp' {NO_LIMIT}"
)
_DEFINING: Final = (
    *(ClauseKind.ADD_COLUMN, ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN),
    *(ClauseKind.ALTER_COLUMN, ClauseKind.ADD_CHECK, ClauseKind.ADD_PARTITION),
    *(ClauseKind.PARTITION_BY, ClauseKind.REORGANIZE_PARTITION),
)
#: What means something by the session's time zone, beside the columns that are TIMESTAMPs already.
_ZONED: Final = r"timestamp|\bnow\b|localtime|\bcur(?:date|time)|\bcurrent_|unixtime"

#: What ``utf8mb4`` without a collation means.
_COLLATION: Final = "default_collation_for_utf8mb4"
_COLLATED: Final = (
    *(ClauseKind.ADD_COLUMN, ClauseKind.MODIFY_COLUMN, ClauseKind.CHANGE_COLUMN),
    ClauseKind.CONVERT,
)
#: In the normal form; the name may be a string.
_CHARSET: Final = r"\bchar(?:acter)? ?set "
_QUOTED: Final = re.compile(rf"({_CHARSET})'(utf8mb4)'|'[^']*'|`[^`]*`", re.IGNORECASE)
_UTF8MB4: Final = re.compile(
    rf"\A(?!.*\bcollate\b).*{_CHARSET}utf8mb4\b", re.IGNORECASE | re.DOTALL
)

GONE_BY_ITSELF: Final = (
    "where its machine is lost, its session ends by itself, within four minutes if it changed a"
    " table online; at once by KILL {0}"
)
"""Said of the session, by its number, that holds the lock of the steps."""

PLAIN_NOTE: Final = "-- spirit-py changes the table online; this is the plain statement."
"""What is printed before a statement that is only shown."""


class FrameworkSession:
    """The framework's own session (a DB-API connection), used past its bookkeeping."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; ``%s`` stands for a parameter."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql, parameters or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def commit(self) -> None:
        """End the open transaction and its metadata locks; Refusal for an XA branch."""
        try:
            self.query("COMMIT")
        except Exception as error:
            if error.args[:1] != (_IN_XA,):
                raise
            raise Refusal(
                "the framework's connection is in an XA transaction, and MySQL allows no"
                " ALTER TABLE inside of one",
                hint="run migrations without two-phase commit: USE_TWOPHASE = False in env.py",
            ) from error

    def keep_alive(self) -> None:
        """Have the server not close the session for idling; MigrationFailure if it is lost."""
        try:
            self.query("SELECT 1")
        except Exception as error:
            raise MigrationFailure(
                f"the framework's own connection was lost: {error}",
                hint="run it again: the change resumes",
            ) from error


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """What the framework's session knows about itself.

    ``chosen_mode`` is the ``sql_mode`` where it is not the server's: the table is changed under it.
    ``server_uuid`` is the server that the change must reach, too; ``unlike`` are settings that give
    a TIMESTAMP or utf8mb4 another meaning than the server's own, ``logged`` is ``sql_log_bin``.
    """

    schema: str
    sql_mode: str
    chosen_mode: str | None
    server_uuid: str
    unlike: tuple[str, ...] = ()
    logged: bool = True


@dataclass(frozen=True, kw_only=True)
class OnlineChange:
    """A statement that changes one table, with the library's arguments for an online change."""

    table: tuple[str, str]
    statement: str
    arguments: Mapping[str, Any]
    handle_signals: bool = False

    @classmethod
    def of(
        cls, table: tuple[str, str], statement: str, settings: Mapping[str, Any]
    ) -> OnlineChange:
        """Return the change as a framework's settings have it; UsageFault for a wrong one."""
        arguments = dict(settings)
        signals = flag_value("handle_signals", arguments.pop("handle_signals", False))
        return cls(table=table, statement=statement, arguments=arguments, handle_signals=signals)


def look_around(session: FrameworkSession) -> SessionFacts:
    """Return the facts of a session."""
    ((schema, own, general, uuid, zone, of_all, system, explicit, collation, logged),) = (
        session.query(
            "SELECT DATABASE(), @@SESSION.sql_mode, @@GLOBAL.sql_mode, @@server_uuid,"
            " @@SESSION.time_zone, @@GLOBAL.time_zone, @@system_time_zone,"
            " @@SESSION.explicit_defaults_for_timestamp = @@GLOBAL.explicit_defaults_for_timestamp,"
            " @@SESSION.default_collation_for_utf8mb4 = @@GLOBAL.default_collation_for_utf8mb4,"
            " @@SESSION.sql_log_bin"
        )
    )
    unlike = {
        "time_zone": _zone(str(zone), str(system)) != _zone(str(of_all), str(system)),
        "explicit_defaults_for_timestamp": not explicit,
        _COLLATION: not collation,
    }
    return SessionFacts(
        schema=str(schema or ""),
        sql_mode=str(own),
        chosen_mode=None if own == general else str(own),
        server_uuid=str(uuid),
        unlike=tuple(name for name, differs in unlike.items() if differs),
        logged=bool(logged),
    )


def _zone(zone: str, system: str) -> str:
    """Return a time zone by one name for UTC."""
    meant = (system if zone.upper() == "SYSTEM" and system == "UTC" else zone).upper()
    return "+00:00" if meant == "UTC" else meant


def rows_of(
    session: FrameworkSession, schema: str, table: str, what: str, more: str = ""
) -> list[tuple[Any, ...]]:
    """Return the rows of a table; none where it is not there. No schema is the session's."""
    if not session.query(
        "SELECT 1 FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = COALESCE(NULLIF(%s, ''), DATABASE()) AND TABLE_NAME = %s",
        (schema, table),
    ):
        return []
    name = ".".join(quote_identifier(part) for part in (schema, table) if part)
    return session.query(f"SELECT {what} FROM {name} {more}")


def is_empty(session: FrameworkSession, schema: str, table: str) -> bool:
    """Return whether a table has no rows, or is not there: a plain ALTER does for it."""
    return not rows_of(session, schema, table, "1", "LIMIT 1")


def chosen(
    session: FrameworkSession,
    around: SessionFacts,
    statement: str,
    policy: Policy,
    resumes: Callable[[Name, str], bool] = lambda *_: False,
) -> Name | None:
    """Return the table that a statement changes, where the settings send it online unasked.

    So it goes, too, where it ``resumes`` online.
    """
    if not policy.chooses_any:
        return None
    table = changed_table(statement, around.schema, sql_mode=around.sql_mode)
    if table is None or resumes(table, statement):
        return table
    if is_empty(session, *table):
        return None
    # By the server's own and fresh estimate.
    ((kept, lower_case),) = session.query(
        "SELECT @@SESSION.information_schema_stats_expiry, @@GLOBAL.lower_case_table_names"
    )
    session.query("SET SESSION information_schema_stats_expiry = 0")
    try:
        found = session.query(_SIZE, table)
    finally:
        session.query(f"SET SESSION information_schema_stats_expiry = {int(kept)}")
    rows, size = map(int, found[0]) if found else (0, 0)
    alike = int(lower_case) != 0
    return table if policy.chooses(*table, rows=rows, size=size, letters_alike=alike) else None


def prepared(
    session: FrameworkSession, arguments: Mapping[str, Any], around: SessionFacts, *statements: str
) -> MigrationConfig:
    """Return the configuration of a change, on the server of the framework's session.

    The open transaction is committed whatever becomes of the change: what the framework has noted
    of earlier steps stays. Raises UsageFault, or Refusal where it cannot be committed here.
    """
    session.commit()
    options = dict(arguments)
    modes_from = ""
    if around.chosen_mode is not None and "sql_mode" not in options:
        # These two options exclude each other.
        zeros = flag_value("allow_zero_dates", options.pop("allow_zero_dates", None) or False)
        taken = ZERO_MODES if zeros else ()
        options["sql_mode"] = without_modes(around.chosen_mode, taken)
        modes_from = "the settings of the framework's connection, such as its init_command"
    statement = ";\n".join(_with_present_names(session, around, one) for one in statements)
    options |= {"statement": statement, "database": around.schema}
    # A project's settings are defaults for many tables: none is refused for another that it needs.
    config = migration_config_of(also=MigrationArguments.__annotations__, **options)
    connection = replace(config.connection, server_uuid=around.server_uuid)
    return replace(config, connection=connection, modes_from=modes_from)


def _with_present_names(session: FrameworkSession, around: SessionFacts, statement: str) -> str:
    """Return the statement with the names that CHECK constraints have by now, after copies."""
    try:
        (alter,) = parse_statement(statement, around.schema, sql_mode=around.sql_mode)
    except (Refusal, ValueError):
        return statement
    if alter.of_kind(ClauseKind.EXCHANGE_PARTITION):
        raise Refusal(
            f"a revision cannot make {alter.clauses!r}: made again after a stop, it would bring"
            " the rows back, and no definition shows that it was made",
            hint="run it by spirit-py migrate, outside of the revision",
            error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
        )
    _require_alike(session, around, alter)
    naming = alter.of_kind(*_NAMING_CHECKS)
    if not naming:
        return statement
    present: dict[bool, set[str]] = {True: set(), False: set()}
    for name, of_type in session.query(_CONSTRAINTS, (alter.schema, alter.table)):
        present[str(of_type) == "CHECK"].add(str(name).lower())
    names = [_present_name(one, present[True], present[False]) for one in naming]
    return with_constraints(alter, names, sql_mode=around.sql_mode).sql


def _require_alike(session: FrameworkSession, around: SessionFacts, alter: AlterStatement) -> None:
    """Refuse what would be something else in a session of the program's own (R26)."""
    apart = "" if around.logged else "sql_log_bin"
    if _COLLATION in around.unlike:
        texts = [one.normalized for one in alter.of_kind(*_COLLATED)]
        texts.append(" ".join(one.normalized for one in alter.of_kind(ClauseKind.OPTION)))
        bare = (_QUOTED.sub(lambda it: (it[1] or "") + (it[2] or "''"), one) for one in texts)
        if any(map(_UTF8MB4.search, bare)):
            apart = _COLLATION
    of_times = [one for one in around.unlike if one != _COLLATION]
    if of_times and alter.of_kind(*_DEFINING):
        found = session.query(_TIMESTAMPS, (alter.schema, alter.table))
        zoned = re.compile(
            "|".join((_ZONED, *(rf"\b{re.escape(str(c))}\b" for (c,) in found))), re.IGNORECASE
        )
        if any(zoned.search(f"{one.name} {one.text}") for one in alter.of_kind(*_DEFINING)):
            apart = of_times[0]
    if apart:
        raise Refusal(
            f"the session of the framework has another {apart} than the server, and"
            f" {alter.clauses!r} would mean something else online",
            hint=f"have the connection that migrates not set {apart} (by an event on connecting,"
            " env.py, or init_connect), or change the table by the plain statement",
        )


def _present_name(clause: Clause, checks: Collection[str], others: Collection[str]) -> str:
    name, other = clause.name, other_name(clause.name)
    if name.lower() in checks or other.lower() not in checks:
        return name
    if clause.kind in _NAMING_ANY and name.lower() in others:
        raise Refusal(
            f"{clause.text!r} may mean {other!r} or {name!r}: a copy renames CHECK constraints, and"
            " the table has a constraint of another type, too",
            hint="write DROP CHECK or ALTER CHECK, or DROP INDEX or DROP FOREIGN KEY",
            error_code=ErrorCode.CLAUSE_NOT_SUPPORTED,
        )
    return other


def other_name(name: str) -> str:
    """Return the name that a copy gives to a constraint."""
    return name[1:] if name.startswith("_") and len(name) > 1 else f"_{name}"


def namings(statement: str, around: SessionFacts) -> Iterator[str]:
    """Yield a statement, and it with the names that copies give to its CHECK constraints."""
    yield statement
    for alter in parse_statement(statement, around.schema, sql_mode=around.sql_mode):
        ways = ((one.name, other_name(one.name)) for one in alter.of_kind(*_NAMING_CHECKS))
        for names in itertools.islice(itertools.product(*ways), 1, _MOST_NAMINGS):
            yield with_constraints(alter, names, sql_mode=around.sql_mode).sql


def escaped(record: logging.LogRecord) -> bool:
    """Escape what a text of the server could do to a terminal: a filter of our loggers."""
    record.msg, record.args = one_line(record.getMessage()), ()
    return True


def settle_by(arguments: Callable[[], Mapping[str, Any]], log: logging.Logger) -> Settle:
    """Return what finishes the migration of a table whose process ended after the RENAME.

    It settles what is attached, and drops the old tables proven to be ours, unless they are kept.
    Where nothing says whether they are to be, they are, and it is no warning.
    """

    def settle(table: Name, keep: bool | None) -> None:
        given = arguments()
        known = CleanupArguments.__annotations__
        schema, name = table
        options = {key: value for key, value in given.items() if key in known}
        drops = keep is False
        for line in cleanup(**options | {"database": schema, "table": name, "drop_old": drops}):
            (log.warning if keep else log.info)("spirit-py: %s", line)

    return settle


def change(
    session: FrameworkSession,
    config: MigrationConfig,
    log: logging.Logger,
    *,
    handle_signals: bool = False,
    along: SwappedAlong | None = None,
) -> MigrationReport:
    """Run the change to its end, keeping the session alive; the same change again resumes."""
    if config.dry_run:
        raise Refusal(
            "dry_run changes nothing, and the framework would record the change as done",
            hint="rehearse with spirit-py migrate --dry-run",
        )
    session.commit()
    running = run_of(config, handle_signals=handle_signals, along=along)
    try:
        with _gone_soon(session):
            report = _run(session, running, log)
    except (KeyboardInterrupt, Interrupted, asyncio.CancelledError) as interrupt:
        raise _say_interrupted(running) from interrupt
    except SpiritError as failure:
        if failure.hint:
            # A traceback ends with the next step.
            failure.add_note(f"hint: {one_line(failure.hint)}")
        raise
    for line in report.summary():
        log.info("spirit-py: %s", line)
    return report


@contextlib.contextmanager
def _gone_soon(session: FrameworkSession) -> Iterator[None]:
    """Have the server end a session whose machine is lost: it holds the lock of the steps (R18)."""
    ((usual,),) = session.query("SELECT @@SESSION.wait_timeout")
    session.query(f"SET SESSION wait_timeout = {min(int(usual), GONE_SECONDS)}")
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            session.query(f"SET SESSION wait_timeout = {int(usual)}")


class Left(SystemExit, KeyboardInterrupt):
    """A signal ended the change: the framework's command ends with this code, and no traceback.

    A program that catches KeyboardInterrupt catches it, too. It is known whether it was ``made``.
    """

    made = False


def _say_interrupted(run: Running[MigrationReport, MigrationStatus]) -> Left:
    """Write the command's two lines to standard error; return what ends it."""
    error: SpiritError = Interrupted(signal.SIGINT, hint=_AGAIN)
    line, made = error.message, False
    try:
        line = f"{line} when the change was made: {run.report.headline()}"
        error.hint, made = _PASSES_OVER, True
    except SpiritError as failure:
        # The run was stopped by the interrupt: that is what the reader knows of.
        error = error if isinstance(failure, Stopped) else failure
        line = error.message
    except RuntimeError:
        # A second interrupt did not wait for its end, and what was sent may still be made.
        error.hint = "run the same command again: it looks at the table, and resumes or passes over"
    hint = f"hint: {one_line(error.hint)}\n" if error.hint else ""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error: {one_line(line)}\n{hint}")
        sys.stderr.flush()
    left = Left(error.exit_code)
    left.made = made
    return left


def _require_not_cancelled() -> None:
    """Raise where the task of asyncio was cancelled, as by asyncio.run at the first Ctrl-C.

    Nothing is awaited while a change runs, so it would be felt at the next question alone.
    """
    with contextlib.suppress(RuntimeError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


def _run(
    session: FrameworkSession, run: Running[MigrationReport, MigrationStatus], log: logging.Logger
) -> MigrationReport:
    with run as running:
        shown = time.monotonic()
        while (event := running.next_event(_CANCELLED_SECONDS)) is not None or running.running:
            _require_not_cancelled()
            if event is not None and event.is_shown(verbose=False):
                log.info("spirit-py: %s", event.line)
            if time.monotonic() - shown >= _ALIVE_SECONDS:
                shown = time.monotonic()
                session.keep_alive()
        return running.report

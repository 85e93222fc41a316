"""Open sessions: one function, one set of session settings (design section 8, R10)."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import AnotherServer, Refusal, ServerFault
from spirit_py.mysql import evaluation
from spirit_py.mysql.facts import ServerFacts, require_mysql
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, connection_refusal, excused, server_fault
from spirit_py.mysql.lost_values import MOST_WARNINGS
from spirit_py.mysql.own_sessions import claim, refuse_when_taken_over, shown_run
from spirit_py.mysql.session import Session, probe
from spirit_py.mysql.tls.driver import pinning, tls_arguments, verify_again
from spirit_py.mysql.tls.modes import TLS_FAULT, attempts, connecting_host, next_may_do
from spirit_py.sql import string_literal
from spirit_py.system_packages import CLIENT_LIBRARY, LIBRARY_COMMANDS, driver_commands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tls.modes import TlsAttempt


def load_driver() -> Any:
    """Import the driver; if it is not usable raise a Refusal with the commands that install it."""
    try:
        import MySQLdb
    except ModuleNotFoundError as error:
        if error.name != "MySQLdb":
            raise _unusable(error) from error
        raise Refusal(
            "the MySQL driver mysqlclient is not installed: it is built on this machine, with a"
            " compiler and the MySQL client library",
            hint="run the command for this system, then the last one; spirit-py explain"
            f" {ErrorCode.CLIENT_LIBRARY_MISSING} says how to do without a compiler",
            details=driver_commands(prefix=sys.prefix, python=sys.executable),
            error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
        ) from error
    except (ImportError, AttributeError, OSError, SystemError) as error:
        # A driver of two versions, or one whose library was replaced, fails in any of these ways.
        raise _unusable(error) from error
    if MySQLdb.__name__ != "MySQLdb":
        raise Refusal(
            f"{MySQLdb.__name__} is in the place of mysqlclient (install_as_MySQLdb)",
            hint="leave that call out of the program, whose own connections may use that driver by"
            " its name, as in mysql+pymysql://; and see that mysqlclient is installed",
            error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
        )
    return MySQLdb


def client_version() -> str:
    """Return the client library's version, or why there is none."""
    try:
        return str(load_driver().get_client_info())
    except Refusal as refusal:
        return f"not usable: {refusal.message}"


def _unusable(error: Exception) -> Refusal:
    return Refusal(
        f"the MySQL client library cannot be loaded: {error}",
        hint=CLIENT_LIBRARY,
        details=LIBRARY_COMMANDS,
        error_code=ErrorCode.CLIENT_LIBRARY_MISSING,
    )


# All of these exist from 8.0 to 9.7 and need no privilege.
# What every session needs to change its table and to answer, whatever the server's globals are;
# none of these changes what an ALTER does. A limit of DEFAULT would be the server's global one.
_NATIVE_SETTINGS: Final = (
    "NAMES utf8mb4",
    *("SESSION transaction_read_only=0", "SESSION autocommit=1"),
    *("SESSION completion_type=NO_CHAIN", "SESSION sql_big_selects=1"),
    *("SESSION sql_select_limit=18446744073709551615", "SESSION sql_quote_show_create=1"),
    *("SESSION max_execution_time=0", "SESSION lc_messages='en_US'"),
)
_SETTINGS: Final = (
    *_NATIVE_SETTINGS,
    *("SESSION time_zone='+00:00'", "SESSION transaction_isolation='READ-COMMITTED'"),
    *("SESSION foreign_key_checks=0", "SESSION unique_checks=1", "SESSION sql_notes=1"),
    *("SESSION sql_auto_is_null=0", "SESSION sql_safe_updates=0"),
    # Without a limit: a list of keys that exceeds it is read from end to end, with a warning.
    "SESSION range_optimizer_max_mem_size=0",
    *("SESSION group_concat_max_len=1048576", "SESSION information_schema_stats_expiry=0"),
    # A counter or comment that is set by a copy would give our table another number (R24).
    "SESSION old_alter_table=0",
    *("SESSION net_read_timeout=600", "SESSION net_write_timeout=600"),
)
_UNKNOWN_SETTING: Final = 1193
#: What Percona XtraDB Cluster says under pxc_strict_mode=ENFORCING.
_UNKNOWN_ERROR: Final = 1105
# Setting these needs SESSION_VARIABLES_ADMIN, so they are only set where they differ.
_RESTRICTED: Final = {
    "binlog_row_image": "FULL",
    "innodb_strict_mode": "1",
    # It refuses to copy the definition, and to move the keys, of a table that is there without one.
    "sql_require_primary_key": "0",
}


def connect(
    options: ConnectionOptions,
    *,
    database: str = "",
    role: str,
    lock_wait_timeout: int = 30,
    innodb_lock_wait_timeout: int = 3,
    wait_timeout: int = 28_800,
    read_timeout: int = 0,
    native: bool = False,
    asks_for_lock: bool = False,
) -> Session:
    """Open a session with the program's settings, whatever the server's globals are. Seconds.

    ``role`` is shown in ``performance_schema.user_variables_by_thread``. After ``read_timeout`` an
    answer counts as lost (error 2013), while the server goes on; 0 for never. ``native``: with the
    server's ``sql_mode``, time zone and checks, for the ALTER itself (R10). ``asks_for_lock``: it
    is about to take the run's advisory lock; others are refused when another run has it.

    Raises MigrationFailure when another run has taken the migration over, AnotherServer (R14), or
    a ServerFault; :func:`connect_first` explains the one of a first session.
    """
    connection = _open(options, role, database=database, read_timeout=read_timeout)
    session = Session(connection, role=role, address=options.address, origin=options.origin)
    try:
        probe(session.fileno())
        _prepare(
            session,
            native=native,
            timeouts=(
                f"SESSION lock_wait_timeout={int(lock_wait_timeout)}",
                f"SESSION innodb_lock_wait_timeout={int(innodb_lock_wait_timeout)}",
                f"SESSION wait_timeout={int(wait_timeout)}",
            ),
            options=options,
        )
        if options.label and not asks_for_lock:
            refuse_when_taken_over(session, options.label)
    except ServerFault as fault:
        with session:
            refuse_others_than_mysql(session, fault)
        raise
    except BaseException:
        session.close()
        raise
    return session


def refuse_others_than_mysql(session: SqlSession, fault: ServerFault) -> None:
    """Refuse a server by its name that has not understood a session's first statements."""
    if fault.code not in {_UNKNOWN_SETTING, _UNKNOWN_ERROR}:
        return
    version, comment = session.query("SELECT VERSION(), @@version_comment")[0]
    require_mysql(
        ServerFacts(version=str(version), variables={"version_comment": str(comment or "")})
    )
    if "Percona-XtraDB-Cluster" in fault.text:
        raise Refusal(
            f"the server is in a Percona XtraDB Cluster, which prohibits GET_LOCK: {fault.text}",
            hint="change the table with the cluster's own means (wsrep_OSU_method); LOCK TABLES of"
            " the swap is prohibited there, too",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        ) from fault


def connect_first(
    options: ConnectionOptions,
    *,
    role: str,
    read_timeout: int = 0,
    lock_wait_timeout: int = 30,
    target: bool = False,
) -> Session:
    """Open the first session of a command; if no server is reached, a Refusal has the remedy."""
    try:
        return connect(
            options, role=role, read_timeout=read_timeout, lock_wait_timeout=lock_wait_timeout
        )
    except ServerFault as fault:
        raise connection_refusal(fault, options, target=target) from fault


def another_server(address: str, *, found: str, wanted: str) -> AnotherServer:
    """Return the error for another server at the same address (R14)."""
    return AnotherServer(
        f"another server answers at {address}: {found}, not {wanted}",
        hint="run the same command again on the present primary: it resumes"
        " if that one has all GTIDs of the first one",
    )


def identity(options: ConnectionOptions, role: str) -> tuple[str, ...]:
    """Return the SET assignments that show a session's role and run; they prove nothing."""
    said = (f"@spirit_py_role={string_literal(role)}",)
    return (*said, shown_run(options.label)) if options.label else said


def _prepare(
    session: Session, *, native: bool, timeouts: tuple[str, ...], options: ConnectionOptions
) -> None:
    said = identity(options, session.role)
    session.execute(_settings(options.settings, native, timeouts, said))
    server = session.value("SELECT @@GLOBAL.server_uuid")
    if options.server_uuid not in {"", server}:
        raise another_server(options.address, found=str(server), wanted=options.server_uuid)
    if options.unlogged:
        write_no_log(session)
    claim(session.query, session.id, origin=options.origin, label=options.label)
    if native:
        return
    _restrict(session, options.settings)
    # If the account may; a list of warnings that is cut short is detected (R10).
    sql = f"SET SESSION max_error_count={MOST_WARNINGS}"
    excused(lambda: session.execute(sql), 0, {ACCESS_NEEDS_PRIVILEGE})


def _settings(
    given: tuple[tuple[str, str], ...],
    native: bool,
    timeouts: tuple[str, ...],
    said: tuple[str, ...],
) -> str:
    # Statements are read under the global mode; init_connect may have set another one.
    settings = (*_NATIVE_SETTINGS, "SESSION sql_mode=@@GLOBAL.sql_mode") if native else _SETTINGS
    evaluated = () if native else _evaluation(given)
    return "SET " + ", ".join((*settings, *evaluated, *timeouts, *said))


def write_no_log(session: SqlSession) -> None:
    """Let nothing that a session writes reach the binlog; Refusal where the account may not."""
    try:
        session.execute("SET SESSION sql_log_bin=0")
    except ServerFault as fault:
        if fault.code != ACCESS_NEEDS_PRIVILEGE:
            raise
        raise Refusal(
            "the account may not write past the binary log of the replica, as a rehearsal there"
            " does",
            hint="GRANT SESSION_VARIABLES_ADMIN, CONNECTION_ADMIN ON *.* to it there",
            error_code=ErrorCode.MISSING_PRIVILEGES,
        ) from fault


def _restrict(session: Session, settings: tuple[tuple[str, str], ...]) -> None:
    """Set what may need a privilege; without it, a run has the server's, which preflight judges."""
    wanted, question = _restricted(settings)
    present = session.query(question)[0]
    given = dict(settings)
    for (name, value), found in zip(wanted, present, strict=True):
        if str(found) != value:
            setting = partial(session.execute, f"SET SESSION {name}={value}")
            excused(setting, 0, () if name in given else {ACCESS_NEEDS_PRIVILEGE})


def _restricted(settings: tuple[tuple[str, str], ...]) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the settings that may need a privilege, and the query of what they are now."""
    wanted = {**_RESTRICTED, **{name: value for name, value in settings if name in _RESTRICTED}}
    return tuple(wanted.items()), "SELECT " + ", ".join(f"@@SESSION.{name}" for name in wanted)


def evaluate_with(session: Session, settings: Iterable[tuple[str, str]]) -> None:
    """Apply to an open session the settings under which it evaluates expressions."""
    settings = tuple(settings)
    session.execute("SET " + ", ".join(_evaluation(settings)))
    _restrict(session, settings)


def _evaluation(settings: Iterable[tuple[str, str]]) -> list[str]:
    given = {name: value for name, value in settings if name not in _RESTRICTED}
    mode = evaluation.kept_for_others(given.pop("sql_mode", evaluation.STRICT_SQL_MODE))
    dates = given.pop(evaluation.DATE_SQL_MODE, evaluation.date_mode(""))
    return [
        f"{evaluation.OWN_SQL_MODE}={mode}",
        f"SESSION sql_mode={mode}",
        f"{evaluation.DATE_SQL_MODE}={evaluation.kept_for_others(dates)}",
        *(
            f"SESSION {name}={value if value.isdigit() else string_literal(value)}"
            for name, value in given.items()
        ),
    ]


def _open(options: ConnectionOptions, role: str, *, database: str, read_timeout: int) -> Any:
    arguments = _arguments(options) | {"read_timeout": read_timeout}
    if database:
        arguments["db"] = database
    where = f"{role} session at {options.address}"
    *others, last = attempts(options)
    for attempt in others:
        try:
            return _log_in(options, attempt, arguments, where)
        except ServerFault as fault:
            if not next_may_do(attempt, fault.code, fault.text):
                raise
    return _log_in(options, last, arguments, where)


def _log_in(
    options: ConnectionOptions, attempt: TlsAttempt, arguments: dict[str, Any], where: str
) -> Any:
    """Log in; once more where the server has another certificate since it was verified."""
    shown = tls_arguments(options, attempt)
    try:
        return _driver_connection(arguments | shown, where)
    except ServerFault as fault:
        if fault.code != TLS_FAULT or not pinning(attempt):
            raise
        verify_again(options, attempt)
        # Not with what was verified last: another thread may have met the same renewal.
        if (renewed := tls_arguments(options, attempt)) == shown:
            raise
    return _driver_connection(arguments | renewed, where)


def _driver_connection(arguments: dict[str, Any], where: str) -> Any:
    driver = load_driver()
    try:
        return driver.connect(**arguments)
    except driver.Error as error:
        raise server_fault(error, where=where) from error


def _arguments(options: ConnectionOptions) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "user": options.user,
        "passwd": options.password,
        "connect_timeout": options.connect_timeout,
        "charset": "utf8mb4",
        "use_unicode": True,
        "autocommit": True,
        "binary_prefix": True,
        "multi_statements": False,
        # A server may ask for any file of this machine, in answer to any statement.
        "local_infile": 0,
        "conv": _conversions(),
    }
    if options.socket:
        return arguments | {"unix_socket": options.socket}
    return arguments | {"host": connecting_host(options), "port": options.port}


def _conversions() -> dict[Any, Any]:
    load_driver()
    from MySQLdb.constants import FIELD_TYPE
    from MySQLdb.converters import conversions

    encoders = {kind: encode for kind, encode in conversions.items() if not isinstance(kind, int)}
    integers = ("TINY", "SHORT", "LONG", "LONGLONG", "INT24", "YEAR")
    texts = ("DECIMAL", "NEWDECIMAL", "FLOAT", "DOUBLE", "DATE", "TIME", "DATETIME", "TIMESTAMP")
    decoders: dict[int, Any] = {getattr(FIELD_TYPE, name): int for name in integers}
    decoders |= {getattr(FIELD_TYPE, name): str for name in texts}
    return encoders | decoders

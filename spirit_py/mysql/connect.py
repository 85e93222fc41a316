"""Open sessions: one function, one set of session settings (design section 8, R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.mysql.session import Session

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions

STRICT_SQL_MODE = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
PROGRAM_NAME = "spirit-py"


def connect(
    options: ConnectionOptions,
    *,
    database: str = "",
    role: str,
    lock_wait_timeout: int = 30,
    innodb_lock_wait_timeout: int = 3,
    wait_timeout: int = 28_800,
) -> Session:
    """Open a session with the program's settings, whatever the server's globals are.

    Args:
        role: What the session is for (``chunk``, ``apply``, ``lock``, ...); a connection
            attribute, so that an operator sees it in ``performance_schema``.
        lock_wait_timeout: Seconds to wait for a metadata lock.
        innodb_lock_wait_timeout: Seconds to wait for a row lock.
        wait_timeout: Seconds that the session may idle.

    Raises:
        MySQLdb.Error: as the driver raises it; see :mod:`spirit_py.mysql.faults`.
    """
    import MySQLdb

    arguments: dict[str, Any] = {
        "user": options.user,
        "passwd": options.password,
        "connect_timeout": options.connect_timeout,
        "charset": "utf8mb4",
        "use_unicode": True,
        "autocommit": True,
        "conv": {},
    }
    if options.socket:
        arguments["unix_socket"] = options.socket
    else:
        arguments |= {"host": options.host, "port": options.port}
    if database:
        arguments["db"] = database
    if options.ssl:
        arguments["ssl"] = dict(options.ssl)
    if options.ssl_mode:
        arguments["ssl_mode"] = options.ssl_mode
    session = Session(MySQLdb.connect(**arguments), role=role, address=options.address)
    try:
        session.execute(
            f"SET SESSION sql_mode='{STRICT_SQL_MODE}', time_zone='+00:00',"
            " transaction_isolation='READ-COMMITTED', foreign_key_checks=0, unique_checks=1,"
            f" lock_wait_timeout={lock_wait_timeout},"
            f" innodb_lock_wait_timeout={innodb_lock_wait_timeout},"
            f" wait_timeout={wait_timeout}, binlog_row_image=FULL,"
            " group_concat_max_len=1048576, sql_safe_updates=0, sql_select_limit=DEFAULT,"
            " autocommit=1, innodb_strict_mode=1"
        )
    except BaseException:
        session.close()
        raise
    return session

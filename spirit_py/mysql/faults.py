"""Classify errors of the server and the client library: retry, outcome unknown, fatal."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.tls.modes import TLS_FAULT, TLS_REQUIRED, explain_tls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from spirit_py.config import ConnectionOptions

T = TypeVar("T")
U = TypeVar("U")

TOO_MANY_CONNECTIONS: Final = 1040
#: Further sessions are refused, of all accounts or of one; the last also stands for other limits.
_ACCOUNT_LIMIT: Final = 1226
_RAISE_LIMIT: Final = (
    "SHOW CREATE USER CURRENT_USER() has the account's limits, most of which count for an hour:"
    " take it away (ALTER USER ... WITH MAX_QUERIES_PER_HOUR 0, or the one that is named), then run"
    " the same command again"
)
#: No memory for a further session, no thread (OUT_OF_RESOURCES, CANT_CREATE_THREAD).
_NO_RESOURCES: Final = frozenset({1041, 1135})
_TOO_MANY: Final = frozenset({TOO_MANY_CONNECTIONS, 1203, _ACCOUNT_LIMIT}) | _NO_RESOURCES
ACCESS_DENIED: Final = 1045
SYNTAX_ERROR: Final = 1064
NO_SUCH_TABLE: Final = 1146
ABSENT_TABLE: Final = frozenset({NO_SUCH_TABLE, 1109, 1049})
"""No such table; information_schema has a number of its own for that, and so has a schema that
is not there."""
NO_SUCH_COLUMN: Final = 1054
NO_SUCH_KEY: Final = 1176
TABLE_EXISTS: Final = 1050
DUPLICATE_ENTRY: Final = 1062
LOCK_WAIT_TIMEOUT: Final = 1205
DEADLOCK: Final = 1213
NAMED_DEADLOCK: Final = 3058
ACCESS_NEEDS_PRIVILEGE: Final = 1227
INTERRUPTED: Final = 1317
STATEMENT_TIMED_OUT: Final = 3024
WOULD_WAIT: Final = 3572
"""A row that is locked, for NOWAIT."""
NO_SUCH_THREAD: Final = 1094
TRIED_TOO_OFTEN: Final = 3955
"""The account is locked for a time after too many wrong passwords (FAILED_LOGIN_ATTEMPTS)."""
NO_METHOD: Final = frozenset({1251, 2059, 2061})
"""Its authentication: not supported, plugin cannot be loaded, plugin refused to go on."""
OTHER_METHOD: Final = "use an account with caching_sha2_password, or TLS"


class Disposition(enum.Enum):
    """What to do after an error."""

    RETRY = "retry"
    """The statement had no effect, or has none that running it again would change."""
    UNKNOWN = "unknown"
    """The connection was lost while the statement ran: it may or may not have taken effect."""
    FATAL = "fatal"
    """Running it again would fail again."""


LOST: Final = frozenset({
    *(1053, 1079),  # server shutdown in progress, complete
    1152,  # aborted connection
    *(1158, 1159),  # network: error, timeout reading
    *(1160, 1161),  # network: error, timeout writing
    1927,  # connection was killed, as reported by the client library
    2006,  # server has gone away
    2012,  # error in server handshake
    2013,  # lost connection during query
    2026,  # TLS error, which is how a connection under TLS breaks
    2027,  # malformed packet
    2055,  # lost connection at a system call
    3169,  # session was killed
    4031,  # disconnected for inactivity
    *(4081, 4082),  # disconnected for its memory, of all sessions or of one (measured on 9.7.4)
    5014,  # TLS read failed in the client library
})  # fmt: skip
#: The plugin of the replication group rolled the transaction back during commit.
_TAKEN_BACK: Final = 3101
_OFFLINE: Final = 3032  # offline_mode=ON, which has ended the sessions that there were
_CANNOT_CONNECT: Final = frozenset({2002, 2003, 2005, _OFFLINE})
_AWAY: Final = LOST | _CANNOT_CONNECT | _TOO_MANY
_TRANSIENT: Final = frozenset({
    *_TOO_MANY,
    LOCK_WAIT_TIMEOUT,
    DEADLOCK,
    INTERRUPTED,
    1412,  # table definition has changed, retry the transaction
    1606,  # cannot open the table of a trigger: what a killed DROP TRIGGER may report
    *(1613, 1614),  # XA branch rolled back: took too long, deadlock
    1615,  # prepared statement needs to be prepared again
    STATEMENT_TIMED_OUT,
    NAMED_DEADLOCK,
    _TAKEN_BACK,
    WOULD_WAIT,
})  # fmt: skip
#: What limits one transaction, whose row of many megabytes may be the only one.
_TOO_LARGE: Final = {
    1197: "max_binlog_cache_size",
    3100: "group_replication_transaction_size_limit",
}
#: The account may not do it (manual B.3.1).
_NOT_ALLOWED: Final = frozenset({
    *(1044, 1142, 1143, 1370),  # to this schema, table, column, routine
    *(ACCESS_DENIED, ACCESS_NEEDS_PRIVILEGE),
    1095,  # owner of the thread
    1141,  # no such grant
    1410,  # may not create users with GRANT
    1698,  # access denied, without a password
    3530,  # role not granted
    3879,  # access denied by a partial revoke
    TRIED_TOO_OFTEN,
})  # fmt: skip
#: A login that fails as often as it is repeated, until somebody changes account or server.
_REFUSED_LOGIN: Final = frozenset({
    ACCESS_DENIED,
    *(1129, 1130),  # this host is blocked (max_connect_errors), may not log in
    *NO_METHOD,
    1698,
    1862,  # password expired
    3118,  # account locked
    *(TLS_REQUIRED, TRIED_TOO_OFTEN),
})  # fmt: skip
_UNKNOWN_COMMIT: Final = 1180
#: The binary log cannot be written. With binlog_error_action=ABORT_SERVER the server ends after
#: this answer, and its recovery commits what the log has already.
_LOG_FAILED: Final = 1598
#: A statement, and the result of a function.
PACKET_TOO_SMALL: Final = frozenset({1153, 1301})
RAISE_PACKET: Final = (
    "raise max_allowed_packet on the server (at most 1 GiB), then run the same command again"
)
_READ_ONLY: Final = frozenset({1290, 1792, 1836})
_DISK_FULL: Final = frozenset({3, 1021, 1026, 1114, _LOG_FAILED})
#: Any error of an engine, under a number of its own.
_OF_ENGINE: Final = 1030
_NO_SPACE: Final = re.compile(r"error 28\b|No space left")


def disposition(error: BaseException, *, committing: bool = False) -> Disposition:
    """Return what to do after an error; of COMMIT and DDL (``committing``) a loss is UNKNOWN."""
    if not isinstance(error, ServerFault):
        return Disposition.FATAL
    if error.code == _UNKNOWN_COMMIT or (
        committing and (error.code in LOST or error.code == _LOG_FAILED)
    ):
        return Disposition.UNKNOWN
    if error.code in LOST or error.code in _CANNOT_CONNECT or error.code in _TRANSIENT:
        return Disposition.RETRY
    return Disposition.FATAL


def connection_lost(error: BaseException) -> bool:
    """Return whether the error means that the session is lost, with its locks and transaction."""
    return isinstance(error, ServerFault) and error.code in LOST


def not_now(error: BaseException | None) -> bool:
    """Return whether a lock did not come in time, or the statement that waits for it was ended."""
    return isinstance(error, ServerFault) and error.code in {LOCK_WAIT_TIMEOUT, INTERRUPTED}


def server_away(error: BaseException) -> bool:
    """Return whether the server cannot be used now; an ended session counts as unreachable."""
    return isinstance(error, ServerFault) and error.code in _AWAY


def too_large(error: BaseException) -> bool:
    """Return whether a transaction is larger than the server allows; smaller ones may pass."""
    return isinstance(error, ServerFault) and error.code in _TOO_LARGE


def takes_no_writes(error: BaseException) -> bool:
    """Return whether the server is read-only: a replica, or a primary that is being demoted."""
    return isinstance(error, ServerFault) and error.code in _READ_ONLY


def access_denied(error: BaseException) -> bool:
    """Return whether the server refused because of the account's privileges."""
    return isinstance(error, ServerFault) and error.code in _NOT_ALLOWED


def fatal(error: BaseException) -> bool:
    """Return whether the same statement would fail again."""
    return disposition(error) is Disposition.FATAL


def is_verdict(fault: ServerFault) -> bool:
    """Return whether it is about the statement: not about the server's state, or the moment."""
    return fatal(fault) and not fault.hint


def excused(
    work: Callable[[], T], otherwise: U, when: Callable[[ServerFault], bool] | Collection[int]
) -> T | U:
    """Return what ``work`` does; ``otherwise`` after a fault of such a kind, or such a code."""
    try:
        return work()
    except ServerFault as fault:
        if not (when(fault) if callable(when) else fault.code in when):
            raise
        return otherwise


def refuses_sessions(fault: ServerFault) -> bool:
    """Return whether a server has no room for a further session, if this came instead of one."""
    return fault.code in _TOO_MANY


def login_refused(error: BaseException) -> bool:
    """Return whether a server refused the login: each further try may lock the account."""
    return isinstance(error, ServerFault) and error.code in _REFUSED_LOGIN


def login_counted(error: BaseException) -> bool:
    """Return whether a server counts a failed login or handshake (``max_connect_errors``)."""
    return login_refused(error) or (isinstance(error, ServerFault) and error.code == TLS_FAULT)


def server_fault(error: Exception, *, where: str) -> ServerFault:
    """Return our error for the driver's; ``where`` is role and server, never a statement."""
    code, text = 0, str(error)
    if error.args and isinstance(error.args[0], int):
        code = error.args[0]
        text = str(error.args[1]) if len(error.args) > 1 else text
    text = text.strip() or type(error).__name__
    return ServerFault(code, text, where=where, hint=_hint(code, text))


def _hint(code: int, text: str) -> str:
    if code in _READ_ONLY:
        return (
            "this server takes no writes: run again against the primary, or here once its disk is"
            " not full any more, for which some services set read_only; on the source of a move"
            " read_only may stay ON where the account has CONNECTION_ADMIN, super_read_only never"
        )
    if code in PACKET_TOO_SMALL:
        return RAISE_PACKET
    if code in _DISK_FULL or (code == _OF_ENGINE and _NO_SPACE.search(text)):
        return "free disk space on the server, then run the same command again"
    if code == _OF_ENGINE:
        return "see the server's error log for the cause, then run the same command again"
    if code in _TOO_LARGE:
        return f"where transactions are larger than {_TOO_LARGE[code]}, raise it on the server"
    if code == _TAKEN_BACK:
        return (
            "see in performance_schema.replication_group_members whether the server is in its group"
            " still, then run the same command again: another member's transaction may have come"
            f" first; where transactions are larger than {_TOO_LARGE[3100]}, raise it"
        )
    if code == _ACCOUNT_LIMIT:
        return _RAISE_LIMIT
    if code in LOST or code in _CANNOT_CONNECT or code in _TRANSIENT:
        return "when the server answers again, run the same command again"
    return ""


# Error numbers, cause and remedy; {text}, {host} and {user} are filled in.
_CONNECTION_FAULTS: Final = (
    ((2002, 2003), "no server answers there",
     "check --host and --port (or --socket), and that the server runs"),
    ((2005,), "the host {host} is unknown", "check --host, and DNS"),
    ((2006, 2012, 2013), "the server closed the connection before it was established",
     "check that this is a MySQL server, and its error log"),
    ((TOO_MANY_CONNECTIONS, 1203), "{text}",
     "wait, or raise max_connections or the account's limits"),
    (tuple(_NO_RESOURCES), "{text}", "wait, or see the memory and the threads of its machine"),
    ((_ACCOUNT_LIMIT,), "{text}", _RAISE_LIMIT),
    ((_OFFLINE,), "{text}", "wait until it has offline_mode=OFF again"),
    # The server's words are the same for all of these.
    ((ACCESS_DENIED, 1698), "the server does not accept user {user} with this password",
     ("check --user and --password, and what the account requires: TLS (--ssl-mode REQUIRED),"
      " or a client certificate (--ssl-cert and --ssl-key)")),
    ((1044, 1142), "{text}", "grant user {user} the privileges that the README lists"),
    ((1049,), "{text}", "check --database; names may be case-sensitive"),
    ((1129,), "the server has blocked this host after too many failed connections",
     "run TRUNCATE TABLE performance_schema.host_cache on the server"),
    ((1130,), "the server does not accept connections from this host",
     "create the account {user} for this host"),
    (tuple(NO_METHOD), "the account's authentication method is not available: {text}",
     OTHER_METHOD),
    ((1820, 1862), "{text}", "give the account a new password with ALTER USER"),
    ((3118, TRIED_TOO_OFTEN), "{text}", "unlock the account with ALTER USER ... ACCOUNT UNLOCK"),
    ((TLS_REQUIRED,), "the server requires TLS",
     "pass --ssl-mode REQUIRED; or VERIFY_CA with --ssl-ca, to verify the server, too"),
)  # fmt: skip
_EXPLANATIONS: Final = {
    code: (cause, remedy) for codes, cause, remedy in _CONNECTION_FAULTS for code in codes
}
_CONNECTION_CODES: Final = {
    TLS_REQUIRED: ErrorCode.TLS_FAILED,
    **dict.fromkeys(
        (1044, ACCESS_DENIED, 1130, 1142, 1698, 1820, 1862, 3118, TRIED_TOO_OFTEN, *NO_METHOD),
        ErrorCode.ACCESS_DENIED,
    ),
}


#: Nothing says whether the account has a password.
_NO_PASSWORD: Final = (
    "the server does not accept user {user}, and no password was given",
    (
        "give --password without a value, to be asked for it, or write it to an option file;"
        " check --user, too, and what the account requires: TLS (--ssl-mode REQUIRED), or a client"
        " certificate (--ssl-cert and --ssl-key)"
    ),
)
_OF_TARGET: Final = re.compile(r"--(?=(?:host|port|socket|user|password|database|ssl-\w+)\b)")


def connection_refusal(
    error: ServerFault, options: ConnectionOptions, *, target: bool = False
) -> Refusal:
    """Explain why the first connection failed; ``target``: by the ``--target`` options."""
    code = _CONNECTION_CODES.get(error.code, ErrorCode.CANNOT_CONNECT)
    if error.code == TLS_FAULT or (error.code in LOST and options.tls.certificate):
        code = ErrorCode.TLS_FAILED
        cause, remedy = explain_tls(error.text, options.host)
    else:
        unexplained = (f"{{text}} (error {error.code})", "see the server's error log")
        explained = _EXPLANATIONS.get(error.code, unexplained)
        if error.code in {ACCESS_DENIED, 1698} and not options.password:
            explained = _NO_PASSWORD
        user = options.user or "(none given)"
        cause, remedy = (p.format(text=error.text, host=options.host, user=user) for p in explained)
    hint = _OF_TARGET.sub("--target-", remedy) if target else remedy
    return Refusal(f"cannot connect to {options.address}: {cause}", hint=hint, error_code=code)

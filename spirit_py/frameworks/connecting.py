"""Server, account and TLS of a framework's own connection, as arguments of the library.

A change must not be made over a weaker connection, nor in a session where its statement means
something else. So each setting of the driver is carried over, harmless, or refused by name (R26).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from spirit_py.config import LOCALHOST
from spirit_py.errors import ServerFault, SpiritError, UsageFault
from spirit_py.mysql.faults import Disposition, disposition

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIKE: Final = {
    "host": "host",
    "port": "port",
    "unix_socket": "socket",
    "user": "user",
    "passwd": "password",
    "password": "password",
    "read_default_file": "defaults_file",
}
_FILES: Final = ("ca", "capath", "cert", "key")
#: Drivers whose ``ssl`` checks the name in the certificate unless they are told not to.
_CHECKING: Final = frozenset({"pymysql", "aiomysql", "asyncmy"})
_TLS: Final = re.compile(r"(?:ssl|tls)(?:_(?P<name>\w+))?")
_UNDERSTOOD: Final = frozenset(
    {*_FILES, "mode", "disabled", "check_hostname", "verify_identity", "verify_cert", "verify_mode"}
)
_OFF: Final = frozenset({"", "0", "false", "no", "off", "none"})
_WITHOUT_MEANING: Final = frozenset(
    {
        *("db", "database", "charset", "collation", "use_unicode", "encoding", "conv"),
        *("client_flag", "client_flags", "autocommit", "autocommit_mode", "binary_prefix"),
        *("connect_timeout", "connection_timeout", "read_timeout", "write_timeout", "compress"),
        *("cursorclass", "cursor_class", "converter_class", "conv_out", "buffered", "raw"),
        *("get_warnings", "raise_on_warnings", "consume_results", "use_pure", "sql_mode", "echo"),
        *("program_name", "conn_attrs", "max_allowed_packet", "defer_connect", "loop"),
        *("local_infile", "allow_local_infile", "multi_statements", "pool_name", "pool_size"),
        *("pool_reset_session", "can_handle_expired_passwords", "init_command", "named_pipe"),
    }
)
#: Plugins that the server chooses for the account in any case.
_PLUGINS: Final = frozenset(
    {"", "caching_sha2_password", "mysql_native_password", "sha256_password"}
)
#: Variables of an ``init_command`` that mean nothing to a change, or are read from the session.
_HARMLESS: Final = frozenset(
    {
        *("sql_mode", "autocommit", "transaction_isolation", "tx_isolation", "wait_timeout"),
        *("lock_wait_timeout", "innodb_lock_wait_timeout", "max_execution_time"),
        *("net_read_timeout", "net_write_timeout", "interactive_timeout", "group_concat_max_len"),
    }
)
#: Each says that what the statement makes is there, or that what it drops is not.
_MADE_ALREADY: Final = frozenset({1007, 1050, 1051, 1060, 1061, 1091, 1146, 1826, 3822})
_ISOLATION: Final = re.compile(r"(?i)set (?:session )?transaction isolation level [a-z ]+")
_NAMES: Final = re.compile(r"(?i)set names \w+(?: collate \w+)?")
_SET: Final = re.compile(r"(?i)set (?P<all>.+)")
_ASSIGNED: Final = re.compile(r"(?i)(?:@@)?(?:session|local)?[ .]*(?P<name>\w+) ?:?= ?[\w'@.()-]+")


def arguments_of(
    driver: str, given: Mapping[str, Any], told: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments for the same server, account and TLS.

    ``driver`` is a name such as ``mysqldb``, ``given`` its arguments, ``told`` the team's options;
    with ``ssl_mode`` among these they alone decide about TLS; of a host and a socket, theirs is the
    only one. Raises UsageFault for a setting that cannot be carried over.
    """
    told = told or {}
    found: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    for name, value in given.items():
        matched = _TLS.fullmatch(name)
        if value is None or value == "":
            continue
        if name in _ALIKE:
            found[_ALIKE[name]] = value
        elif matched is not None:
            _note_tls(driver, tls, name, matched["name"], value)
        elif not _changes_nothing(name, value):
            raise _not_carried(name)
    if "ssl_mode" not in told:
        found |= _tls_arguments(tls)
    if "socket" in told or str(told.get("host") or LOCALHOST) != LOCALHOST:
        found.pop("socket", None)
    if "socket" in found or told.get("socket"):
        found.pop("host", None)
        found.pop("port", None)
    if "port" in found:
        found["port"] = int(found["port"])
    return found


def _note_tls(driver: str, tls: dict[str, Any], whole: str, name: str | None, value: Any) -> None:
    if name is not None:
        tls[name] = (value, whole)
    elif isinstance(value, dict):
        if driver in _CHECKING and (value.get("ca") or value.get("capath")):
            tls.setdefault("check_hostname", (True, "ssl.check_hostname"))
        tls |= {str(key): (one, f"ssl.{key}") for key, one in value.items() if one is not None}
        if value:
            tls.setdefault("used", (True, whole))
    elif value is True or str(value).lower() in {"1", "true"}:
        tls["used"] = (True, whole)
    elif not _is_off(value):
        # Such as an SSLContext, which does not show what it checks.
        tls["object"] = (value, whole)


def _tls_arguments(tls: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    def wanted(name: str) -> bool:
        return name in tls and not _is_off(tls[name][0])

    if wanted("disabled"):
        return {"ssl_mode": "DISABLED"}
    for name, (value, whole) in tls.items():
        if name not in _UNDERSTOOD and name != "used" and not _is_off(value):
            raise _not_carried(whole)
    found = {f"ssl_{name}": tls[name][0] for name in _FILES if name in tls and tls[name][0]}
    trusted = bool(found.keys() & {"ssl_ca", "ssl_capath"})
    if wanted("mode"):
        found["ssl_mode"] = str(tls["mode"][0]).upper()
    elif wanted("verify_identity") or (wanted("check_hostname") and trusted):
        found["ssl_mode"] = "VERIFY_IDENTITY"
    elif wanted("verify_cert") or wanted("verify_mode"):
        found["ssl_mode"] = "VERIFY_CA"
    elif not trusted and (found or wanted("used") or wanted("check_hostname")):
        found["ssl_mode"] = "REQUIRED"
    if str(found.get("ssl_mode", "")).startswith("VERIFY") and not trusted:
        raise _not_carried(
            next(tls[name][1] for name in tls if name.startswith(("mode", "verify"))),
            "it names no CA: the driver trusts those of the system",
        )
    return found


def _is_off(value: object) -> bool:
    return str(value).strip().lower() in _OFF


def _changes_nothing(name: str, value: Any) -> bool:
    if name == "init_command":
        return all(_is_harmless(text.strip()) for text in str(value).split(";"))
    if name == "auth_plugin":
        return str(value) in _PLUGINS
    return bool(value == "client") if name == "read_default_group" else name in _WITHOUT_MEANING


def _is_harmless(statement: str) -> bool:
    text = re.sub(r"\s+", " ", re.sub(r"'[^']*'|\"[^\"]*\"", "''", statement))
    text = re.sub(r"\([^()]*\)", "()", text)
    if not text or _ISOLATION.fullmatch(text) or _NAMES.fullmatch(text):
        return True
    assigned = _SET.fullmatch(text)
    if assigned is None:
        return False
    parts = (_ASSIGNED.fullmatch(part.strip()) for part in assigned["all"].split(","))
    return all(part is not None and part["name"].lower() in _HARMLESS for part in parts)


def _not_carried(name: str, why: str = "") -> UsageFault:
    because = f": {why}" if why else ""
    return UsageFault(
        f"the setting {name} of the framework's connection cannot be carried over{because}",
        hint="say what it means for TLS among the settings of spirit_py (ssl_mode, and ssl_ca,"
        " ssl_cert, ssl_key); any other setting: take it out of the connection that migrates",
    )


def code_of(error: BaseException) -> int:
    """Return the code with which a framework's driver has raised an error; 0 for none."""
    cause: Any = getattr(error, "orig", None) or error.__cause__ or error
    code = next(iter(cause.args), 0)
    return code if isinstance(code, int) else 0


def says_made(error: Exception) -> bool:
    """Return whether a statement has failed as where it is made already; of ours, by its text."""
    refused = isinstance(error, SpiritError) and any(
        f"(error {code})" in error.message for code in _MADE_ALREADY
    )
    return refused or code_of(error) in _MADE_ALREADY


def is_an_answer(error: BaseException) -> bool:
    """Return whether the server has refused a statement; the codes of a client are between.

    After some answers, as of a server that shuts down, the statement may be made all the same.
    """
    code = code_of(error)
    told = disposition(ServerFault(code, "", where=""), committing=True)
    return code >= 1000 and code not in range(2000, 3000) and told is not Disposition.UNKNOWN

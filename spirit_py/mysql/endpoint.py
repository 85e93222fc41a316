"""Which server is behind an address: one and not several, and of which managed service.

All sessions and statements of a migration must reach one server (R14, R15, R24), but balancers and
proxies may distribute them. So several sessions are opened at once; each takes a named lock by a
statement that counts as a write (``DO``), reads its holder by a read, and compares its number with
the greeting's: proxies have numbers of their own. Managed services are recognised by what only they
have; it could not be tried on them.
"""

from __future__ import annotations

import contextlib
import enum
import secrets
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.facts import ServerFacts, read_facts
from spirit_py.mysql.faults import excused, fatal
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session

OTHERS: Final = 3
"""Sessions that are opened beside the first one. A balancer between two servers that chooses by
chance sends all four to one of them in one of eight cases."""
_HINT: Final = (
    "give the address of the server itself: the primary, not a load balancer, a reader endpoint or"
    " a proxy that distributes sessions or statements"
)
_WHERE: Final = """
SELECT @@GLOBAL.server_uuid, @@GLOBAL.hostname, @@GLOBAL.port, CONNECTION_ID(),
       @@SESSION.pseudo_thread_id, {holders}"""
# Instances of an Aurora cluster differ in it (AWS, Aurora MySQL reference); others do not have it.
_AURORA: Final = "SHOW GLOBAL VARIABLES LIKE 'aurora_server_id'"


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """What one session shows of where it is: its server, numbers, and the named locks' holders."""

    greeted: int
    server: tuple[str, ...]
    numbers: tuple[int, ...]
    holders: tuple[int | None, ...]


def require_one_server(session: Session, options: ConnectionOptions) -> None:
    """Refuse an address behind which there is not one server alone; ``session`` is open there."""
    with contextlib.ExitStack() as stack:
        others = (connect_first(options, role="endpoint") for _ in range(OTHERS))
        sessions = [session, *(stack.enter_context(other) for other in others)]
        names = [f"spirit-py:endpoint:{secrets.token_hex(8)}" for _ in sessions]
        for each, name in zip(sessions, names, strict=True):
            each.execute(f"DO GET_LOCK({string_literal(name)}, 0)")
        found = [_look(each, names) for each in sessions]
        session.execute(f"DO RELEASE_LOCK({string_literal(names[0])})")
    if trouble := what_is_wrong(found):
        raise Refusal(
            f"{options.address} is not one server: {trouble}",
            hint=_HINT,
            error_code=ErrorCode.NOT_ONE_SERVER,
        )


def _look(session: Session, names: Sequence[str]) -> SeenSession:
    holders = ", ".join(f"IS_USED_LOCK({string_literal(name)})" for name in names)
    uuid, host, port, number, pseudo, *held = session.query(_WHERE.format(holders=holders))[0]
    instance = [str(value) for _, value in session.query(_AURORA)]
    return SeenSession(
        greeted=session.id,
        server=(f"{host}:{port}", str(uuid), *instance),
        numbers=(int(number), int(pseudo)),
        holders=tuple(held),
    )


def what_is_wrong(found: Sequence[SeenSession]) -> str:
    """Return why these sessions are not all on one server; empty where they are (pure)."""
    servers = list(dict.fromkeys(one.server for one in found))
    if len(servers) > 1:
        named = ", ".join(" ".join(server) for server in servers)
        return f"{len(found)} sessions reached {len(servers)} servers, {named}"
    for one in found:
        if others := {number for number in one.numbers if number != one.greeted}:
            return (
                f"a session that was greeted as {one.greeted} is session {min(others)} of the"
                " server, so a proxy stands between"
            )
    greeted = tuple(one.greeted for one in found)
    for one in found:
        for number, holder in zip(greeted, one.holders, strict=True):
            if holder != number:
                return (
                    f"session {number} took a named lock, and session {one.greeted} finds it held"
                    f" by {holder or 'nobody'}"
                )
    return ""


_ROUTINES: Final = r"""
SELECT LOWER(ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'mysql'
AND (ROUTINE_NAME = 'rds_show_configuration' OR ROUTINE_NAME LIKE 'az\_%')"""
_RETENTION: Final = "binlog retention hours"
_AUTO_PURGE: Final = "binlog_expire_logs_auto_purge"
#: The variables that :func:`service_of` and :func:`expires_after` read.
_OF_SERVICE: Final = ("aurora_version", "version_comment", "basedir")
_OF_RETENTION: Final = (_AUTO_PURGE, "expire_logs_days", "binlog_expire_logs_seconds")
#: Without a retention RDS drops a file of the binlog once it is uploaded, every five minutes, and
#: Azure once nobody reads it. When Aurora drops it is not told.
_SOON: Final = 300.0


class Service(enum.Enum):
    """Who runs the server; the value is the name for messages."""

    NONE = ""
    RDS = "Amazon RDS"
    AURORA = "Amazon Aurora"
    CLOUD_SQL = "Google Cloud SQL"
    AZURE = "Azure Database for MySQL"

    @property
    def amazon(self) -> bool:
        """Whether the binlog is kept for the hours of mysql.rds_configuration."""
        return self in {Service.RDS, Service.AURORA}


def service_of(session: SqlSession, facts: ServerFacts) -> Service:
    """Return the service that the server is of, as far as the account may see it."""
    if facts.text("aurora_version"):
        return Service.AURORA
    if "google" in f"{facts.version} {facts.text('version_comment')}".lower():
        return Service.CLOUD_SQL
    routines = {str(row[0]) for row in session.query(_ROUTINES)}
    if facts.text("basedir").startswith("/rdsdbbin") or any(r.startswith("rds") for r in routines):
        return Service.RDS
    return Service.AZURE if routines else Service.NONE


def how_to_set(service: Service, name: str, value: str) -> str:
    """Return how an operator sets a global setting, as a remedy."""
    if service is Service.AURORA:
        return f"set {name} to {value} in the DB cluster parameter group, and reboot the writer"
    if service is Service.RDS:
        return f"set {name} to {value} in the DB parameter group of the instance"
    if service is Service.CLOUD_SQL:
        return f"set the database flag {name} to {value}, if the service offers it"
    if service is Service.AZURE:
        return f"set the server parameter {name} to {value}"
    return f"SET PERSIST {name} = {value}"


#: How an operator switches the binary log on, by their documentation; of Azure it does not tell, as
#: the log is always on there.
HOW_TO_LOG: Final = {
    Service.NONE: "start the server with --log-bin",
    Service.RDS: "switch automated backups on (a backup retention period of at least a day)",
    Service.AURORA: how_to_set(Service.AURORA, "binlog_format", "'ROW'"),
    Service.CLOUD_SQL: "switch point-in-time recovery on, by which the instance has a binary log",
    Service.AZURE: "see in the service's documentation how the server gets a binary log",
}


def kept_seconds(session: SqlSession) -> float:
    """Return for how long the server, or its service, keeps its binlog; 0 for ever or unknown."""
    facts = read_facts(session, (*_OF_SERVICE, *_OF_RETENTION))
    service = service_of(session, facts)
    if service.amazon:
        known, hours = amazon_retention(session)
        if not known or not (hours or service is Service.RDS):
            return 0.0
        return hours * 3600.0 or _SOON
    return expires_after(facts) or (_SOON if service is Service.AZURE else 0.0)


def expires_after(facts: ServerFacts) -> int:
    """Return the seconds after which the settings let a binlog file be purged; 0 for never."""
    if facts.text(_AUTO_PURGE) and not facts.is_on(_AUTO_PURGE):
        return 0
    # Of the two, which exclude each other, MySQL 8.0 heeds the one that is set.
    days = facts.number("expire_logs_days")
    return facts.number("binlog_expire_logs_seconds") or 86_400 * days


def amazon_retention(session: SqlSession) -> tuple[bool, int]:
    """Return whether the retention of RDS or Aurora is known, and its hours; 0 for none (NULL)."""
    rows = excused(lambda: session.query("CALL mysql.rds_show_configuration"), (), fatal)
    found = [row[1] for row in rows if str(row[0]) == _RETENTION]
    return bool(found), int(found[0]) if found and found[0] is not None else 0

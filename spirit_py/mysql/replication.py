"""Query servers for their binlog files, their replicas, and their own replication."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spirit_py.classes import dataclass, replace
from spirit_py.errors import HistoryLost, ServerFault
from spirit_py.mysql.endpoint import kept_seconds
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import SYNTAX_ERROR, access_denied, excused
from spirit_py.mysql.own_sessions import of_any_run, ours
from spirit_py.mysql.processlist import dumping, performance_schema_shows_sessions

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts

#: Places of columns in SHOW REPLICA STATUS; the same in SHOW SLAVE STATUS, from 8.0 to 9.7.
_RELAY_SOURCE_LOG_FILE, RECEIVES, APPLIES, _EXEC_SOURCE_LOG_POS = 9, 10, 11, 21
_LOGS_REPLICATED: Final = ("log_replica_updates", "log_slave_updates")
_RECEIVER_ERROR, _APPLIER_ERROR_TEXT, _SOURCE_UUID, _DELAY = 35, 37, 40, 42

_APPLIER_LAG = """
SELECT MAX(behind) / 1e6 FROM (
  SELECT TIMESTAMPDIFF(MICROSECOND, APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,
                       NOW(6)) AS behind
  FROM performance_schema.replication_applier_status_by_worker
  WHERE APPLYING_TRANSACTION <> ''
    AND APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP > '1970-01-02'
  UNION ALL
  SELECT TIMESTAMPDIFF(MICROSECOND, LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,
                       LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP)
  FROM performance_schema.replication_applier_status_by_worker
  WHERE LAST_APPLIED_TRANSACTION <> ''
    AND LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP > '1970-01-02'
    AND LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP >= NOW(6) - INTERVAL %s SECOND
) AS seen"""
_CHANNELS = """
SELECT c.CHANNEL_NAME, c.SERVICE_STATE, c.LAST_ERROR_MESSAGE, COALESCE(a.SERVICE_STATE, 'OFF'),
  c.SOURCE_UUID, COALESCE(k.DESIRED_DELAY, 0)
FROM performance_schema.replication_connection_status c
LEFT JOIN performance_schema.replication_applier_status a ON a.CHANNEL_NAME = c.CHANNEL_NAME
LEFT JOIN performance_schema.replication_applier_configuration k
  ON k.CHANNEL_NAME = c.CHANNEL_NAME
WHERE c.CHANNEL_NAME <> 'group_replication_recovery'"""
#: The channel of a group's member for its return: it rests, and says nothing of its lag.
_RESTS: Final = "group_replication_recovery"
_PEERS = """
SELECT v.VARIABLE_VALUE, t.PROCESSLIST_HOST FROM performance_schema.threads t
JOIN performance_schema.user_variables_by_thread v ON v.THREAD_ID = t.THREAD_ID
WHERE t.PROCESSLIST_COMMAND IN ('Binlog Dump', 'Binlog Dump GTID')
  AND v.VARIABLE_NAME IN ('replica_uuid', 'slave_uuid')"""
WITHOUT_FILTER: Final = (
    "take the option out of the server's configuration, restart it, then run again"
)
"""What has to be done about a filter; the options cannot be changed in a running server."""
NO_REPLICA_NOW: Final = (
    "STOP REPLICA; RESET REPLICA ALL there (before 8.0.22 SLAVE for REPLICA; RDS: CALL"
    " mysql.rds_reset_external_source, before 8.4 mysql.rds_reset_external_master)"
)
"""What has to be done about a promoted server that still has its former source."""
LOGGING: Final = "--log-replica-updates (before 8.0.26 --log-slave-updates)"
"""What a replica is started with so that it logs what it replicates."""
_GROUP = """
SELECT MEMBER_ROLE FROM performance_schema.replication_group_members
WHERE MEMBER_ID = @@GLOBAL.server_uuid AND MEMBER_STATE <> 'OFFLINE'"""
_NO_ROLE: Final = "UNKNOWN"
SECONDARY: Final = "SECONDARY"
_APPLIER_ERROR = """
SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker
WHERE LAST_ERROR_NUMBER <> 0 AND CHANNEL_NAME = %s LIMIT 1"""


class BinlogStatus(NamedTuple):
    """The end of the binlog, its GTID set, or empty, and its schema filters."""

    file: str
    offset: int
    only: frozenset[str]
    ignored: frozenset[str]
    executed: str = ""

    @property
    def filtered(self) -> str:
        """What the server keeps out of its binlog, or nothing; any list can hide a table's DDL."""
        found = {"binlog_do_db": self.only, "binlog_ignore_db": self.ignored}
        return "; ".join(f"{name}={','.join(sorted(of))}" for name, of in found.items() if of)


@dataclass(frozen=True, kw_only=True)
class KnownReplica:
    """A replica that is connected to a source now; ``host`` is empty when it is not known."""

    server_id: int
    host: str
    port: int
    uuid: str


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One channel of a replica; ``trouble``: why it is stopped; ``delay``: SOURCE_DELAY seconds."""

    source_uuid: str
    trouble: str
    delay: int = 0


def known_replicas(session: SqlSession) -> list[KnownReplica]:
    """List the replicas that are connected to this server (REPLICATION SLAVE)."""
    found = [
        # With --show-replica-auth-info there are user and password between host and port.
        KnownReplica(server_id=int(number), host=str(host or ""), port=int(port), uuid=str(uuid))
        for number, host, *_, port, _, uuid in _either(session, "SHOW REPLICAS", "SHOW SLAVE HOSTS")
    ]
    if all(one.host for one in found):
        return found
    #: Where replicas connect from, by ``server_uuid``; none that two claim to be.
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for uuid, host in excused(lambda: session.query(_PEERS), (), access_denied):
        hosts[uuid.decode(errors="replace") if isinstance(uuid, bytes) else str(uuid)].add(host)
    peers = {uuid: str(host) for uuid, (host, *more) in hosts.items() if host and not more}
    return [one if one.host else replace(one, host=peers.get(one.uuid, "")) for one in found]


def readers_of_binlog(session: SqlSession) -> int:
    """Count the sessions that are sent the binlog now, but for this program's as far as seen."""
    found = dumping(session)
    others = found - ours(session, found)
    return len(others - of_any_run(session, others))


def kept_binlog(session: SqlSession) -> tuple[list[tuple[str, int]], int, int]:
    """Return :func:`binlog_files`, :func:`kept_seconds`, and now."""
    files, kept = binlog_files(session), int(kept_seconds(session))
    return files, kept, int(server_now(session))


def binlog_files(session: SqlSession) -> list[tuple[str, int]]:
    """Return name and size of every binlog file (REPLICATION CLIENT)."""
    return [(str(row[0]), int(row[1])) for row in session.query("SHOW BINARY LOGS")]


def binlog_status(session: SqlSession) -> BinlogStatus | None:
    """Return where the binlog ends; None for a server without one (REPLICATION CLIENT)."""
    found = _either(session, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
    for file, offset, *schemas, executed in found:
        only, ignored = (
            frozenset(name.strip() for name in str(value or "").split(",") if name.strip())
            for value in schemas[:2]
        )
        gtids = str(executed or "").replace("\n", "")
        return BinlogStatus(str(file), int(offset), only, ignored, gtids)
    return None


def hides_changes(filtered: str) -> str:
    """Return what the filters of :attr:`BinlogStatus.filtered` mean for any table."""
    return (
        f"the server keeps changes out of its binary log ({filtered}): with such a default schema"
        " (USE), DDL and STATEMENT writes to any table are not logged"
    )


def end_of_binlog(session: SqlSession) -> BinlogStatus:
    """Return where the binlog ends; raise HistoryLost when the server writes none.

    A log that an error has switched off (``binlog_error_action=IGNORE_ERROR``) has no status row,
    while ``log_bin`` stays ON (measured on 9.7.4).
    """
    if (found := binlog_status(session)) is None:
        raise HistoryLost(
            "the server no longer writes its binary log: changes are not logged now",
            hint="see the server's error log (binlog_error_action), remove the cause, restart the"
            " server, then run the same command again: it compares every row before the swap",
        )
    return found


def in_replication_group(session: SqlSession) -> bool:
    """Return whether the server is (without performance_schema: may be) in a replication group."""
    return bool(role_in_group(session))


def role_in_group(session: SqlSession) -> str:
    """Return PRIMARY, SECONDARY, or that its role in a replication group is unknown; else empty."""
    if performance_schema_shows_sessions(session):
        return next((str(role or _NO_ROLE) for (role,) in session.query(_GROUP)), "")
    found = session.query("SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'")
    return _NO_ROLE if any(row[1] for row in found) else ""


def replica_status(session: SqlSession) -> list[tuple[Any, ...]]:
    """Return SHOW REPLICA STATUS, one row a channel; nothing for a server that is no replica."""
    return _either(session, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")


def unlogged_replica(session: SqlSession, facts: ServerFacts) -> str:
    """Return that a replica does not log what it replicates (REPLICATION CLIENT); else empty."""
    if any(facts.is_on(name) for name in _LOGS_REPLICATED) or not replica_status(session):
        return ""
    return "the server is a replica and does not log replicated changes (log_replica_updates=OFF)"


def channels(session: SqlSession) -> list[Channel]:
    """Return a replica's channels; SHOW REPLICA STATUS needs REPLICATION CLIENT."""
    if not performance_schema_shows_sessions(session):
        return [_channel_of(row) for row in replica_status(session) if _RESTS not in row]
    found = []
    for name, receiver, error, applier, uuid, delay in session.query(_CHANNELS):
        trouble = ""
        if receiver != "ON":
            trouble = _stopped(f"receiver is {receiver}", error)
        elif applier != "ON":
            seen = session.query(_APPLIER_ERROR, (name,))
            trouble = _stopped("applier is OFF", *next(iter(seen), ("",)))
        found.append(Channel(source_uuid=str(uuid), trouble=trouble, delay=int(delay)))
    return found


def _stopped(what: str, error: Any) -> str:
    return f"its {what}" + (f": {error}" if error else "")


def _channel_of(row: tuple[Any, ...]) -> Channel:
    receives, applies = str(row[RECEIVES]).upper(), str(row[APPLIES]).upper()
    trouble = ""
    if receives == "NO":
        trouble = _stopped("receiver is OFF", row[_RECEIVER_ERROR])
    elif applies != "YES":
        trouble = _stopped("applier is OFF", row[_APPLIER_ERROR_TEXT])
    return Channel(source_uuid=str(row[_SOURCE_UUID]), trouble=trouble, delay=int(row[_DELAY]))


def applier_lag(session: SqlSession, *, recent: float) -> float:
    """Return the seconds since the commit, at its origin, of what is being applied.

    What was applied in the last ``recent`` seconds counts with its lag then.
    ``Seconds_Behind_Source`` is not used: it is NULL or 0 where the receiver has stopped.
    """
    found = session.query(_APPLIER_LAG, (str(recent),))[0][0]
    return max(0.0, float(found)) if found is not None else 0.0


def executed_place(session: SqlSession, source_uuid: str) -> tuple[str, int] | None:
    """Return the source's binlog file and offset up to which a direct replica has executed."""
    for row in replica_status(session):
        if row[_SOURCE_UUID] == source_uuid:
            return str(row[_RELAY_SOURCE_LOG_FILE]), int(row[_EXEC_SOURCE_LOG_POS])
    return None


def _either(session: SqlSession, new: str, old: str) -> list[tuple[Any, ...]]:
    try:
        return session.query(new)
    except ServerFault as fault:
        if fault.code != SYNTAX_ERROR:
            raise
        return session.query(old)

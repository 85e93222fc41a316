"""The server's version, settings, counters, files, and when it was started (R25).

``UNIX_TIMESTAMP()`` minus ``Uptime`` stays the same, whatever is done to the clock (measured).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import HistoryLost, Refusal, ServerFault
from spirit_py.mysql.capabilities import Capability
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.contracts import SqlSession

_ON = frozenset({"ON", "1", "YES", "TRUE"})


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """One server's ``VERSION()``, its global variables by lower-case name, and chosen ones."""

    version: str
    variables: Mapping[str, str] = field(repr=False)
    chosen: tuple[tuple[str, str], ...] = ()

    def text(self, name: str) -> str:
        """Return a global variable's value; empty when the server has no such variable."""
        return self.variables.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """Return a global variable's value as a number."""
        value = self.variables.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else default

    def is_on(self, name: str) -> bool:
        """Return whether a global switch is on; a variable that is missing is off."""
        return self.text(name).upper() in _ON

    @property
    def mariadb(self) -> bool:
        """Whether this is MariaDB, which shares MySQL's protocol but not its binlog."""
        return "mariadb" in f"{self.version} {self.text('version_comment')}".lower()

    @property
    def uuid(self) -> str:
        """``@@server_uuid``."""
        return self.text("server_uuid")

    @property
    def gtid(self) -> bool:
        """Whether every transaction gets a GTID."""
        return self.text("gtid_mode").upper() == "ON"

    @property
    def time_zone(self) -> str:
        """``@@global.time_zone``: what ``TIMESTAMP`` is converted with by a native ALTER."""
        return self.text("time_zone")

    @property
    def zone(self) -> str:
        """The same, but an offset where the clock is known to show UTC (GMT may be London's)."""
        is_utc = self.time_zone.upper() == "SYSTEM" and self.text("system_time_zone") == "UTC"
        return "+00:00" if is_utc else self.time_zone

    @property
    def null_is_now(self) -> bool:
        """Whether NULL in a TIMESTAMP NOT NULL is no error, but the current time."""
        return not self.is_on("explicit_defaults_for_timestamp")

    @property
    def sql_mode(self) -> str:
        """What a native ALTER runs under: the server's ``sql_mode``, or the one that is chosen."""
        return self.text("sql_mode")


READ_ONLY: Final = ("super_read_only", "read_only", "innodb_read_only")
"""The settings by which a server takes no writes."""
NOT_WRITTEN_TO: Final = "a replica, a reader endpoint, or a server whose disk is full"
"""What such a server is; for a full disk it is set by a managed service."""
GIVE_ONE_THAT_IS: Final = (
    "give the address of the primary; where a service has set it because the disk is full, enlarge"
    " the disk, or free space there, first"
)
"""What has to be done about it."""


def read_only_by(facts: ServerFacts, *, allowed: str = "") -> str:
    """Return the setting by which a server takes no writes, but for one; empty for none."""
    return next((name for name in READ_ONLY if name != allowed and facts.is_on(name)), "")


def server_now(session: SqlSession) -> float:
    """Return the time by the server's clock, in seconds since 1970."""
    return float(session.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])


def server_uuid(session: SqlSession) -> str:
    """Return by what the server is told from others."""
    return str(session.query("SELECT @@GLOBAL.server_uuid")[0][0])


def read_facts(session: SqlSession, names: Iterable[str] = ()) -> ServerFacts:
    """Read the facts, or of the variables only ``names``; needs no privilege."""
    version = str(session.query("SELECT VERSION()")[0][0])
    listed = ", ".join(string_literal(name) for name in names)
    only = f" WHERE Variable_name IN ({listed})" if listed else ""
    variables = {
        str(name).lower(): "" if value is None else str(value)
        for name, value in session.query(f"SHOW GLOBAL VARIABLES{only}")
    }
    return ServerFacts(version=version, variables=variables)


#: They speak MySQL's protocol; ``VERSION()`` or ``version_comment`` has the name.
_NOT_MYSQL: Final = ("TiDB", "OceanBase", "Vitess", "PlanetScale")


def require_mysql(facts: ServerFacts) -> None:
    """Refuse any other server, before a statement that it might not understand."""
    if facts.mariadb:
        raise Refusal(
            f"the server is MariaDB ({facts.version}), not MySQL",
            hint="use a tool made for MariaDB: its GTIDs, binlog and online DDL differ",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        )
    shown = f"{facts.version} {facts.text('version_comment')}".lower()
    if other := next((name for name in _NOT_MYSQL if name.lower() in shown), ""):
        raise Refusal(
            f"the server is {other} ({facts.version}), not MySQL",
            hint=f"use the online schema changes of {other} itself",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        )
    if not Capability.OFFSETS.of(facts.version):
        needed = f"MySQL {Capability.OFFSETS.since} or later is needed"
        raise Refusal(
            f"the server is MySQL {facts.version}; {needed}",
            hint="upgrade the server, or use gh-ost or pt-online-schema-change",
            error_code=ErrorCode.SERVER_NOT_SUPPORTED,
        )


class RowsRead:
    """Counts the rows that a session reads from an open table, by ranges or from end to end."""

    def __init__(self, session: SqlSession, *tables: str) -> None:
        self._session = session
        for table in tables:
            # Opening it reads the server's dictionary, which counts too.
            session.query(f"SELECT 1 FROM {table} LIMIT 0")
        self._before = self._counted()

    def _counted(self) -> tuple[int, int]:
        found = dict(self._session.query("SHOW SESSION STATUS LIKE 'Handler_read%'"))
        walked = int(found["Handler_read_next"]) + int(found["Handler_read_prev"])
        return walked, int(found["Handler_read_rnd_next"])

    def since(self) -> int:
        """Return how many rows were read since the last question; a scan ends behind its last."""
        before, self._before = self._before, self._counted()
        scanned = self._before[1] - before[1]
        return self._before[0] - before[0] + max(0, scanned - 1)


def read_status(session: SqlSession, names: Iterable[str]) -> dict[str, float]:
    """Return the values of these variables that are numbers, by their names in lower case."""
    listed = ", ".join(string_literal(name) for name in names)
    rows = session.query(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
    found: dict[str, float] = {}
    for name, value in rows:
        try:
            found[str(name).lower()] = float(value)
        except ValueError:
            continue
    return found


def unknown_counters(session: SqlSession, names: Iterable[str]) -> list[str]:
    """Return those of these names, sorted, that are no counters of the server."""
    asked = sorted(names)
    known = read_status(session, asked) if asked else {}
    return [name for name in asked if name.lower() not in known]


KEEPS_ALL: Final = {
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "1",
    "binlog_error_action": "ABORT_SERVER",
}
"""The settings under which a restart loses no commit and no event of the binary log."""

# The Uptime of a server that was started with its clock ahead is negative, and shown unsigned.
_READ: Final = (
    "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_executed, CAST(UNIX_TIMESTAMP() AS SIGNED)"
    " - CAST(CAST(VARIABLE_VALUE AS UNSIGNED) AS SIGNED), "
    + ", ".join(f"@@GLOBAL.{name}" for name in KEEPS_ALL)
    + ", @@GLOBAL.gtid_mode, @@GLOBAL.gtid_purged, @@GLOBAL.binlog_order_commits"
    " FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'"
)


class Seen(NamedTuple):
    """What a server says of itself at one moment; ``executed`` is empty without GTIDs.

    ``ordered``: what is committed becomes visible in the order of the binlog.
    """

    server_uuid: str
    executed: str
    started: int
    relaxed: dict[str, str]
    gtid_mode: str
    purged: str = ""
    ordered: bool = True


def look_at(session: SqlSession) -> Seen:
    """Ask a server for its life, and for what it has executed: one statement."""
    for server_uuid, executed, started, *found, gtid_mode, gone, ordered in session.query(_READ):
        values = dict(zip(KEEPS_ALL, map(str, found), strict=True))
        gtids, purged = (str(text).replace("\n", "") for text in (executed, gone))
        life = int(started), relaxed(values)
        return Seen(str(server_uuid), gtids, *life, str(gtid_mode), purged, bool(ordered))
    raise ServerFault(0, "it does not show its Uptime", where="server")


def relaxed(values: Mapping[str, str]) -> dict[str, str]:
    """Return those of a server's settings under which a crash may lose commits or events."""
    return {
        name: values.get(name, "")
        for name, wanted in KEEPS_ALL.items()
        if values.get(name, "").upper() != wanted
    }


def named(settings: Mapping[str, str]) -> str:
    """Return settings for a message."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


@dataclass
class ServerLife:
    """The life of a server while a feed follows it: its start, and relaxed settings seen in it."""

    started: int
    relaxed: dict[str, str]

    def go_on(self, seen: Seen | ServerLife) -> None:
        """Go on with what is seen; HistoryLost for a restart after which commits may be lost."""
        found = {**self.relaxed, **seen.relaxed}
        if seen.started == self.started:
            self.relaxed = found
            return
        if found:
            raise HistoryLost(
                "the server was restarted, and may have lost committed changes"
                f" ({named(found)}): what was applied and compared before it proves nothing",
                hint="run the same command again: it resumes, and compares every row before the"
                " swap",
                error_code=ErrorCode.SERVER_RESTARTED,
            )
        self.started = seen.started


_UUID = re.compile(r"^server-uuid=(.+)$", re.MULTILINE)


def data_folder(datadir: str, uuid: str) -> Path | None:
    """Return a server's data directory where ``auto.cnf`` in it has its uuid; None elsewhere."""
    folder = Path(datadir)
    try:
        found = _UUID.search((folder / "auto.cnf").read_text())
    except OSError:
        return None
    return folder if found is not None and found[1].strip() == uuid else None


def written_folders(session: SqlSession) -> tuple[Path, ...]:
    """Return the folders of data and binlog; none for a server that is not on this machine."""
    ((datadir, uuid, binlog),) = session.query(
        "SELECT @@GLOBAL.datadir, @@GLOBAL.server_uuid, @@GLOBAL.log_bin_basename"
    )
    if (folder := data_folder(str(datadir), str(uuid))) is None:
        return ()
    return tuple(dict.fromkeys((folder, Path(str(binlog)).parent if binlog else folder)))

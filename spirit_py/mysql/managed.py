"""Managed MySQL services: which one a server is of, and how settings are changed there.

They have no SUPER, so SET GLOBAL and SET PERSIST of most settings are denied. Recognised by what
only they have; none of it could be tried on the services themselves.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import Disposition, disposition

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts

_ROUTINES: Final = r"""
SELECT LOWER(ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'mysql'
AND (ROUTINE_NAME = 'rds_show_configuration' OR ROUTINE_NAME LIKE 'az\_%')"""
_HAS_HOURS: Final = """
SELECT 1 FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA = 'mysql' AND ROUTINE_NAME = 'rds_show_configuration'"""
_RETENTION: Final = "binlog retention hours"


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


def kept_seconds(session: SqlSession) -> float:
    """Return for how long the server keeps its binlog; 0 for ever, or as long as it is hidden.

    Amazon purges it after its own hours, whatever the server's setting says. Where it sets none the
    binlog is purged as soon as it was read: that is warned of before the copy.
    """
    if session.query(_HAS_HOURS):
        _, hours = amazon_retention(session)
        if hours:
            return hours * 3600.0
    return float(session.query("SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0])


def amazon_retention(session: SqlSession) -> tuple[bool, int]:
    """Return whether the retention of RDS or Aurora is known, and its hours; 0 for none (NULL)."""
    try:
        rows = session.query("CALL mysql.rds_show_configuration")
    except ServerFault as fault:
        if disposition(fault) is not Disposition.FATAL:
            raise
        return False, 0
    found = [row[1] for row in rows if str(row[0]) == _RETENTION]
    return bool(found), int(found[0]) if found and found[0] is not None else 0

"""When the server was started, and whether a crash of it keeps what it has committed (R25).

``UNIX_TIMESTAMP()`` and ``Uptime`` have the time of the same statement, so that their difference is
the second in which the server noted its start, whatever is done to its clock since (measured). It
needs no privilege, and no performance schema that is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.codes import ErrorCode
from spirit_py.errors import HistoryLost, ServerFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.contracts import SqlSession

KEEPS_ALL: Final = {
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "1",
    "binlog_error_action": "ABORT_SERVER",
}
"""The settings under which a restart loses no commit and no event of the binary log."""

_READ: Final = (
    "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_executed,"
    " CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED), "
    + ", ".join(f"@@GLOBAL.{name}" for name in KEEPS_ALL)
    + " FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'"
)


class Seen(NamedTuple):
    """What a server says of itself at one moment.

    Attributes:
        executed: its executed GTID set; empty without GTIDs.
        started: when it was started, Unix time by its own clock.
        relaxed: as :func:`relaxed`.
    """

    server_uuid: str
    executed: str
    started: int
    relaxed: dict[str, str]


def look_at(session: SqlSession) -> Seen:
    """Ask a server for its life, and for what it has executed: one statement."""
    for server_uuid, executed, started, *found in session.query(_READ):
        values = dict(zip(KEEPS_ALL, map(str, found), strict=True))
        gtids = str(executed).replace("\n", "")
        return Seen(str(server_uuid), gtids, int(started), relaxed(values))
    raise ServerFault(0, "it does not say since when it runs (Uptime)", where="server")


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
    """The life of a server while a feed follows it.

    Attributes:
        started: when it began, Unix time by the server's clock.
        relaxed: every relaxed setting that was seen in it.
    """

    started: int
    relaxed: dict[str, str]

    def go_on(self, seen: Seen) -> None:
        """Go on with what is seen now.

        What counts is what was in force before a crash: a setting that was relaxed once, or is
        after the restart, counts for the whole life.

        Raises:
            HistoryLost: the server was restarted, and may have lost what it had committed.
        """
        found = {**self.relaxed, **seen.relaxed}
        if seen.started == self.started:
            self.relaxed = found
            return
        if found:
            raise HistoryLost(
                "the server was restarted, and may have lost what it had committed"
                f" ({named(found)}): what was applied and compared before proves nothing",
                hint="run the same command again: it carries on, and compares every row before the"
                " swap",
                error_code=ErrorCode.SERVER_RESTARTED,
            )
        self.started = seen.started

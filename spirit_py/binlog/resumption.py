"""Whether a stream can be resumed at the position of an earlier run (R14, R17).

With GTIDs also on another server, which must have executed all of the position without a gap. No
session should write to the new tables between the runs: every change of them is noted.
"""

from __future__ import annotations

import re
import struct
import time
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.position import (
    FIRST_EVENT,
    FileFrontier,
    FilePlace,
    GtidFrontier,
    GtidSet,
    LogFile,
    file_number,
    read_position,
)
from spirit_py.binlog.wire import FORMAT_DESCRIPTION, HEADER, name_key
from spirit_py.classes import InitVar, dataclass
from spirit_py.codes import ErrorCode
from spirit_py.contracts import Origin
from spirit_py.errors import BinlogUnreadable, FeedFailure, NeverExecuted, PositionNotFound
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.own_sessions import is_own
from spirit_py.mysql.replication import binlog_files, end_of_binlog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.binlog.events import Place, StatementSeen, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_ANSWER_WITHIN: Final = 30
#: Binlog events carry whole seconds, checkpoints microseconds.
_ROUNDING: Final = 2.0
_UNKNOWN: Final = Origin()
_WAS_RESET: Final = "the server's binlog was reset since (RESET BINARY LOGS)"
#: Seconds for which the commits of a position may stall; an answer comes every second.
_COMMITS_WITHIN: Final = 20.0
#: The sessions in ``gtid_owned``, each behind the number that it owns.
_OWNERS: Final = re.compile(r"#\d+")


def frontier_of(session: SqlSession, position: str, *, address: str, whole: bool) -> ServerFrontier:
    """Return the frontier of a position that this server can go on from.

    PositionNotFound: purged, never executed here, or of another server without GTIDs. ServerFault:
    the server could not be asked, which proves nothing.
    """
    try:
        return _frontier(session, _read(position), whole=whole)
    except _Unreachable as error:
        said = f"the change feed cannot resume on {address}: {error}"
        kind = NeverExecuted if isinstance(error, _NotHere) else PositionNotFound
        raise kind(said, hint="start the migration afresh") from error


def why_unreachable(
    options: ConnectionOptions, position: str, age: float, origin: Origin = _UNKNOWN
) -> str:
    """Return why the stream cannot go on from a checkpoint's position; empty when it can.

    After RESET BINARY LOGS the numbers start again, and may exceed those of the position by now. So
    the file being read must be the one that has its name now. If it is purged, the oldest file must
    be older than the checkpoint, written ``age`` seconds ago: that write is after the position.
    ServerFault, FeedFailure: the server could not be asked, which proves nothing.
    """
    with connect(options, role="reach", read_timeout=_ANSWER_WITHIN) as session:
        end_of_binlog(session)
        # Before the wait for stalled commits, by which ``age`` would be too short.
        row = session.query("SELECT @@GLOBAL.server_uuid, UNIX_TIMESTAMP(CURRENT_TIMESTAMP(6))")[0]
        try:
            found = _read(position)
            _frontier(session, found, whole=False)
        except _Unreachable as error:
            return str(error)
        files = [name for name, _ in binlog_files(session)]
    if found.server_uuid != str(row[0]):
        # RESET BINARY LOGS on this server does not affect the numbers of another one.
        return ""
    if origin.file in files:
        reset = _created_at(options, origin.file, str(row[0])) != origin.created
    else:
        written = float(row[1]) - age
        reset = _created_at(options, files[0], str(row[0])) > written + _ROUNDING
    return _WAS_RESET if reset else ""


def log_now(options: ConnectionOptions, session: SqlSession, server_uuid: str) -> LogFile:
    """Return the binlog file that is written now."""
    file = end_of_binlog(session).file
    return LogFile(file, _created_at(options, file, server_uuid))


def require_log(
    options: ConnectionOptions, session: SqlSession, server_uuid: str, log: LogFile
) -> None:
    """Raise PositionNotFound if the binlog began anew since a file of it was read.

    A file that was purged, or reset and purged since, proves nothing. Nor does one from before
    ``log_bin`` was given another name: the numbers begin again, and the log goes on.
    """
    file, created = log[:2]
    files = [name for name, _ in binlog_files(session)]
    if file in files:
        reset = _created_at(options, file, server_uuid) != created
    else:
        last = files[-1]
        renamed = file.rpartition(".")[0] != last.rpartition(".")[0]
        reset = not renamed and file_number(file) > file_number(last)
    if reset:
        said = f"the change feed cannot resume on {options.address}: {_WAS_RESET}"
        raise PositionNotFound(said, hint="start the migration afresh")


class _Unreachable(Exception):
    """The stream cannot go on from the position. The message says why."""


class _NotHere(_Unreachable):
    """It is of another server, whose transactions this one has not all executed."""


def _read(position: str) -> ServerFrontier:
    try:
        return read_position(position)
    except ValueError as error:
        raise _Unreachable(str(error)) from error


def _frontier(session: SqlSession, found: ServerFrontier, *, whole: bool) -> ServerFrontier:
    row = session.query("SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_mode")[0]
    server = str(row[0])
    moved = found.server_uuid != server
    has_gtids = isinstance(found, GtidFrontier)
    if moved and not has_gtids:
        # No server will ever have it but that one.
        raise _Unreachable(
            f"it was taken on server {found.server_uuid}, without GTIDs, and counts there alone"
        )
    if has_gtids != (row[1] == "ON"):
        raise _Unreachable("gtid_mode was switched since")
    if isinstance(found, FileFrontier):
        return FileFrontier(server, _checked_place(session, cast("FilePlace", found.place)))
    position = found.gtids.copy()
    gtids = _checked_set(session, found.gtids, whole=whole, moved=moved)
    if moved:
        executed = GtidSet.parse(str(session.query("SELECT @@GLOBAL.gtid_executed")[0][0]))
        if gaps := _with_gaps(position, executed, found.server_uuid):
            raise _NotHere(
                f"since the position it has {gaps}: there are gaps, or a group has begun another"
                " block of numbers"
            )
    return GtidFrontier(server, gtids)


def _with_gaps(position: GtidSet, executed: GtidSet, origin: str) -> GtidSet:
    """Return what has gaps after a position: of the server it is of, or another one in it.

    A replica without ``replica_preserve_commit_order`` may have some. What members of a group write
    has the identifier of the group.
    """
    before = Counter(tsid for tsid, _, _ in position.ranges() if not is_own(tsid))
    now = Counter(tsid for tsid, _, _ in executed.ranges())
    written = {*before, *(tsid for tsid in now if tsid.partition(":")[0] == origin)}
    return executed.only(lambda tsid: tsid in written and now[tsid] > max(1, before[tsid]))


def _checked_set(session: SqlSession, gtids: GtidSet, *, whole: bool, moved: bool) -> GtidSet:
    """Refuse a set that was never executed here, or after which transactions were purged."""
    executed, purged = _await_commits(session, gtids)
    if not whole:
        gtids.update(executed.only(is_own))
    if not executed.contains(gtids):
        gtids.subtract(executed)
        said = f"the server never executed {gtids}"
        # On the server that it is of, they are lost, and their numbers may be given out again.
        raise _NotHere(said) if moved else _Unreachable(said)
    if not gtids.contains(purged):
        purged.subtract(gtids)
        said = f"its binlog no longer has {purged}, or never had it (SET GLOBAL gtid_purged)"
        raise _Unreachable(said)
    return gtids


def _await_commits(session: SqlSession, gtids: GtidSet) -> tuple[GtidSet, GtidSet]:
    """Return what is executed and purged, once nothing of a set is being committed.

    A position has what the feed received: a semi-synchronous commit may stall after that, and is
    owned by its session until it is executed (measured on 9.7.4). It proves nothing (R17):
    FeedFailure where it stalls on.
    """
    until = time.monotonic() + _COMMITS_WITHIN
    while True:
        # Asked first: what is owned no more by then is executed.
        owned = _OWNERS.sub("", str(session.query("SELECT @@GLOBAL.gtid_owned")[0][0]))
        row = session.query("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")[0]
        executed, purged = (GtidSet.parse(str(text)) for text in row)
        missing = gtids.copy()
        missing.subtract(executed)
        elsewhere = missing.copy()
        elsewhere.subtract(GtidSet.parse(owned))
        if not missing or elsewhere:
            return executed, purged
        if time.monotonic() > until:
            raise FeedFailure(
                f"transactions up to the position are stalled in their commit: {missing}",
                hint="see whether commits wait for a semi-synchronous replica; run again",
                error_code=ErrorCode.COMMITS_STALLED,
            )
        session.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (str(missing), 1))


def _checked_place(session: SqlSession, place: FilePlace) -> FilePlace:
    files = dict(binlog_files(session))
    if place.file not in files:
        raise _Unreachable(f"its binlog file {place.file} is gone")
    if place.offset > files[place.file]:
        raise _Unreachable(f"{place} is after the end of the file")
    return place


def _created_at(options: ConnectionOptions, file: str, server_uuid: str) -> int:
    """Return when a binlog file was created, by the server's clock: the time of its first event."""
    try:
        dump = BinlogConnection(
            options,
            gtids=None,
            place=FilePlace(file, FIRST_EVENT),
            server_uuid=server_uuid,
            replica_uuid=str(uuid.uuid4()),
            heartbeat=1.0,
            silence=float(_ANSWER_WITHIN),
        )
        session = dump.id
        try:
            while True:
                for time, kind, *_ in map(HEADER.unpack_from, dump.read()):
                    if kind == FORMAT_DESCRIPTION:
                        return int(time)
        finally:
            dump.interrupt()
            dump.close()
            end_sessions(options, [session])
    except (StreamLost, struct.error) as error:
        said = f"the binlog file {file} cannot be read: {error}"
        hint = "see the server's error log, then run the same command again"
        raise BinlogUnreadable(said, hint=hint) from error


@dataclass
class BetweenRuns:
    """Notes which new tables were written to after ``behind``, the earlier run's last write.

    It ends at ``until``, before this run's first write. Others read ``written_by_others``.
    """

    tables: InitVar[Iterable[Table]]
    behind: ServerFrontier
    until: ServerFrontier
    passing: bool = False

    def __post_init__(self, tables: Iterable[Table]) -> None:
        self._names = {name_key(*table): table for table in tables}
        self.written_by_others: set[Table] = set()

    def rows(self, name: bytes, place: Place, *, prepared: bool) -> None:
        """Take the name of a table map; ``prepared`` for rows whose XA COMMIT follows later."""
        if name in self._names and (prepared or self._is_between(place)):
            self.written_by_others.add(self._names[name])

    def statement(self, event: StatementSeen) -> None:
        """Take a statement in all readings; a write that may reach a new table ends the run."""
        said = "\n".join(event.texts).lower()
        for table in self._names.values():
            name = table[1].lower()
            hidden = not event.certain and not name.isascii()
            named = hidden or name in said or name.replace("`", "``") in said
            if named and self._is_between(event.place):
                self.written_by_others.add(table)

    def passes(self, place: Place) -> bool:
        """Whether a change that cannot be read may be passed over: every chunk reads its result."""
        return self.passing and has_reached(self.until, place)

    def _is_between(self, place: Place) -> bool:
        return not has_reached(self.behind, place) and has_reached(self.until, place)


def reached_at(position: str) -> ServerFrontier | None:
    """Read the place of a position; None for a text that is none."""
    try:
        return read_position(position)
    except ValueError:
        return None


def has_reached(reached: ServerFrontier, place: Place) -> bool:
    """Return whether a transaction, or the place of one, lies before the place reached."""
    if isinstance(reached, GtidFrontier):
        return reached.gtids.has(place.tsid, place.number)
    return reached.place is not None and reached.place.reaches(FilePlace(place.file, place.offset))

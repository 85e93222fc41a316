"""Where a stream is: GTID sets with tags, or file and offset; opaque text outside (pure)."""

from __future__ import annotations

import re
import struct
import uuid
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from spirit_py.classes import dataclass
from spirit_py.progress import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.binlog.events import Place

MAX_DUMP_OFFSET: Final = 2**32 - 1
"""The largest offset that COM_BINLOG_DUMP can ask for."""

FIRST_EVENT: Final = 4
"""Where the first event of a binlog file begins."""

_TAGGED_FORMAT: Final = 1
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TAG: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,31}")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")

Intervals = list[list[int]]


class GtidSet:
    """A mutable set of transactions, as ordered half-open intervals for each identifier."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, Intervals] = {}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read a set as the server prints it: ``uuid:1-5:7:tag:1-3,uuid:9``; else ValueError."""
        found = cls()
        for member in text.replace("\n", "").split(","):
            if member.strip():
                found._parse_member(member.strip())
        return found

    def _parse_member(self, text: str) -> None:
        identifier, *parts = (part.strip() for part in text.split(":"))
        if not _UUID.fullmatch(identifier) or not parts:
            raise ValueError(f"not a GTID set: {text!r}")
        source = tsid = identifier.lower()
        for part in parts:
            if found := _RANGE.fullmatch(part):
                first = int(found[1])
                self.add_range(tsid, first, int(found[2] or first) + 1)
            elif _TAG.fullmatch(part):
                tsid = f"{source}:{part.lower()}"
            else:
                raise ValueError(f"not a GTID set: {text!r}")

    def add(self, tsid: str, number: int) -> None:
        """Add one transaction; adding it again changes nothing."""
        intervals = self._members.get(tsid)
        if intervals is not None and intervals[-1][1] == number:
            intervals[-1][1] = number + 1
        else:
            self.add_range(tsid, number, number + 1)

    def add_range(self, tsid: str, start: int, stop: int) -> None:
        """Add the transactions from ``start`` up to, not including, ``stop``."""
        if not 0 < start < stop:
            raise ValueError(f"not a range of transactions: {start}-{stop - 1}")
        intervals = self._members.setdefault(tsid, [])
        first = bisect_right(intervals, start, key=lambda i: i[1] + 1)
        last = first
        while last < len(intervals) and intervals[last][0] <= stop:
            start = min(start, intervals[last][0])
            stop = max(stop, intervals[last][1])
            last += 1
        intervals[first:last] = [[start, stop]]

    def update(self, other: GtidSet) -> None:
        """Add every transaction of another set."""
        for tsid, start, stop in other.ranges():
            self.add_range(tsid, start, stop)

    def subtract(self, other: GtidSet) -> None:
        """Take out every transaction of another set."""
        for tsid, start, stop in list(other.ranges()):
            kept: Intervals = []
            for low, high in self._members.get(tsid, ()):
                if low < min(high, start):
                    kept.append([low, min(high, start)])
                if max(low, stop) < high:
                    kept.append([max(low, stop), high])
            if kept:
                self._members[tsid] = kept
            else:
                self._members.pop(tsid, None)

    def has(self, tsid: str, number: int) -> bool:
        """Return whether one transaction is in the set."""
        return self._covers(tsid, number, number + 1)

    def contains(self, other: GtidSet) -> bool:
        """Return whether every transaction of another set is in this one."""
        return all(self._covers(tsid, start, stop) for tsid, start, stop in other.ranges())

    def _covers(self, tsid: str, start: int, stop: int) -> bool:
        intervals = self._members.get(tsid, [])
        place = bisect_right(intervals, start, key=lambda i: i[0]) - 1
        return place >= 0 and intervals[place][1] >= stop

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yield identifier, first number and the number after the last, for each interval."""
        for tsid, intervals in self._members.items():
            for start, stop in intervals:
                yield tsid, start, stop

    def copy(self) -> GtidSet:
        """Return an independent copy."""
        return self.only(lambda _: True)

    def only(self, wanted: Callable[[str], bool]) -> GtidSet:
        """Return a copy that holds the transactions of the wanted identifiers."""
        made = GtidSet()
        made._members = {
            tsid: [list(interval) for interval in found]
            # Another thread may add an identifier meanwhile.
            for tsid, found in list(self._members.items())
            if wanted(tsid)
        }
        return made

    def __bool__(self) -> bool:
        return bool(self._members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._members == other._members

    def __hash__(self) -> int:
        raise TypeError("a GtidSet changes; use str() of it")

    def __str__(self) -> str:
        return ",".join(
            f"{tsid}:" + ":".join(_show(start, stop) for start, stop in self._members[tsid])
            for tsid in sorted(self._members)
        )

    def __repr__(self) -> str:
        return f"<GtidSet {self}>"

    def encode(self) -> bytes:
        """Return the bytes that COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS_EVENT hold.

        With tags the first and the last byte of the count are the format, and each uuid is followed
        by the length of its tag, a variable-length integer, and the tag.
        """
        tagged = any(":" in tsid for tsid in self._members)
        count = len(self._members)
        if tagged:
            count = _TAGGED_FORMAT << 56 | count << 8 | _TAGGED_FORMAT
        parts = [struct.pack("<Q", count)]
        for tsid in sorted(self._members):
            source, _, tag = tsid.partition(":")
            parts.append(uuid.UUID(source).bytes)
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(struct.pack("<Q", len(self._members[tsid])))
            parts += (struct.pack("<QQ", *interval) for interval in self._members[tsid])
        return b"".join(parts)


def _show(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}-{stop - 1}"


def file_number(name: str) -> int:
    """Return the running number of a binlog file, from its name."""
    return int(name.rpartition(".")[2])


@dataclass(frozen=True)
class FilePlace:
    """A place in the binlog files. The offset has 64 bits, whatever the event header holds."""

    file: str
    offset: int

    def reaches(self, other: FilePlace) -> bool:
        """Return whether this place is at or after another one."""
        return (file_number(self.file), self.offset) >= (file_number(other.file), other.offset)

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass
class GtidFrontier:
    """The transactions of a server with GTIDs."""

    server_uuid: str
    gtids: GtidSet

    def advance(self, place: Place) -> None:
        """Add one transaction; a place without a GTID adds nothing."""
        if place.tsid:
            self.gtids.add(place.tsid, place.number)

    def absorb(self, later: GtidFrontier) -> None:
        """Add another frontier's transactions."""
        self.gtids.update(later.gtids)

    def empty(self) -> GtidFrontier:
        """Return an empty set."""
        return GtidFrontier(self.server_uuid, GtidSet())

    def copy(self) -> GtidFrontier:
        """Return an independent copy."""
        return GtidFrontier(self.server_uuid, self.gtids.copy())

    def reaches(self, target: GtidFrontier) -> bool:
        """Return whether the target's transactions are all included."""
        return self.gtids.contains(target.gtids)

    def text(self) -> str:
        """Return the opaque position."""
        return f"gtid;{self.server_uuid};{self.gtids}"


class FileFrontier:
    """The place reached without GTIDs; not beyond 4 GiB, where no dump can begin (32 bits)."""

    def __init__(
        self, server_uuid: str, place: FilePlace | None, resumable: FilePlace | None = None
    ) -> None:
        self.server_uuid = server_uuid
        self.place = place
        self.resumable = resumable
        if resumable is None and place is not None and place.offset <= MAX_DUMP_OFFSET:
            self.resumable = place

    def advance(self, place: Place) -> None:
        """Advance to the end of a transaction or to a new file."""
        self.place = FilePlace(place.file, place.offset)
        if place.offset <= MAX_DUMP_OFFSET:
            self.resumable = self.place

    def absorb(self, later: FileFrontier) -> None:
        """Advance to the end of a later part of the stream."""
        self.place = later.place or self.place
        self.resumable = later.resumable or self.resumable

    def empty(self) -> FileFrontier:
        """Return a frontier without a place."""
        return FileFrontier(self.server_uuid, None)

    def copy(self) -> FileFrontier:
        """Return an independent copy."""
        return FileFrontier(self.server_uuid, self.place, self.resumable)

    def reaches(self, target: FileFrontier) -> bool:
        """Return whether this is at or after the target."""
        if target.place is None:
            return True
        return self.place is not None and self.place.reaches(target.place)

    def text(self) -> str:
        """Return the opaque position; empty before there is one."""
        if self.resumable is None:
            return ""
        return f"file;{self.server_uuid};{self.resumable.file};{self.resumable.offset}"


ServerFrontier: TypeAlias = GtidFrontier | FileFrontier


def read_position(text: str) -> ServerFrontier:
    """Read the frontier whose text a position is; ValueError if it is none."""
    kind, _, rest = text.partition(";")
    server_uuid, _, where = rest.partition(";")
    if kind == "gtid" and _UUID.fullmatch(server_uuid):
        return GtidFrontier(server_uuid, GtidSet.parse(where))
    if kind == "file" and _UUID.fullmatch(server_uuid):
        file, _, offset = where.partition(";")
        file_number(file)
        if int(offset) < FIRST_EVENT:
            raise ValueError(f"no event of a binlog begins at {offset}")
        return FileFrontier(server_uuid, FilePlace(file, int(offset)))
    raise ValueError(f"not a position of the change feed: {text!r}")


class LogFile(NamedTuple):
    """A binlog file by name and creation, Unix time: after RESET BINARY LOGS names come again.

    And the server's start, with the settings seen since then under which a crash may lose commits.
    """

    file: str
    created: int
    started: int | None = None
    relaxed: tuple[tuple[str, str], ...] = ()


_WITH_LOG: Final = re.compile(
    r"(.*);log=(.+)@(\d+)(?:;start=(-?\d+)((?:,\w+=\w+)*))?", re.DOTALL | re.ASCII
)


def with_log(position: str, log: LogFile) -> str:
    """Add the file being read to a position, and the server's start."""
    text = f"{position};log={log.file}@{log.created}"
    if log.started is None:
        return text
    return f"{text};start={log.started}" + "".join(f",{name}={to}" for name, to in log.relaxed)


def split_log(text: str) -> tuple[str, LogFile | None]:
    """Return a position and the file of :func:`with_log`; None where it has none."""
    if found := _WITH_LOG.fullmatch(text):
        settings = (one.partition("=") for one in (found[5] or "").split(",")[1:])
        relaxed = tuple((name, to) for name, _, to in settings)
        started = None if found[4] is None else int(found[4])
        return found[1], LogFile(found[2], int(found[3]), started, relaxed)
    return text, None


def reach(place: Place, files: Sequence[tuple[str, int]], kept: int, now: int) -> Retention:
    """Compute how far the binlog (``files``, oldest first) reaches from a place; 0: for ever."""
    # A writer may have set the time of an event, which is none of its commit.
    happened = place.committed_at or place.executed_at
    age = max(0.0, now - happened) if happened else 0.0
    names = [name for name, _ in files]
    if place.file not in names:
        return Retention(kept=float(kept) or None, age=age, gone=True)
    behind = files[names.index(place.file) :]
    if len(behind) == 1:
        # The server drops no file that it writes, however old the last event is.
        age = 0.0
    into = min(place.offset, behind[0][1])
    unread = sum(size for _, size in behind) - into
    older = sum(size for _, size in files) - unread
    return Retention(kept=float(kept) or None, age=age, unread_bytes=unread, older_bytes=older)

"""Configuration of the commands for many tables or servers, and of those that only read."""

from __future__ import annotations

import hashlib
import re
import time
from typing import TYPE_CHECKING

from spirit_py.classes import dataclass, field, replace
from spirit_py.config import SparkConfig
from spirit_py.records import RecordOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from spirit_py.config import ConnectionOptions, LineFormat, MigrationConfig, OnFailure

_LAST_ORDER = 1 << 50
#: Milliseconds by which the clocks of two machines may differ.
_CLOCKS_DIFFER = 86_400_000
MOST_SERVERS = 10_000
"""The most servers at a time that can be ordered."""
_MEMBER = re.compile(r"[\w.:\[\]/@-]{1,100}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class FleetOrders:
    """What operators have ordered for a fleet, on each server that has begun.

    ``number``: milliseconds since 1970, of the last order. ``at_once``: the most servers at a time,
    0 as the command says. ``members``: the names of all servers that commands for this fleet had in
    their lists; ``places``: by what each is known that has another name by now, see
    :func:`place_of`. ``finished``: the names and places of those that were done when records began
    to be dropped.
    ``unseen``: they are of the beginning of the server's process, which begins no table with them:
    others may have been given a later order before it had made its record.
    """

    number: int = 0
    paused: bool = False
    aborted: bool = False
    at_once: int = 0
    members: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    unseen: bool = False
    places: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (0 <= self.number < _LAST_ORDER and 0 <= self.at_once <= MOST_SERVERS):
            raise ValueError("the orders of a fleet have small numbers")
        names = (*self.members, *self.finished, *self.places, *self.places.values())
        if not all(_MEMBER.fullmatch(one) for one in names):
            raise ValueError("a member of a fleet is a name")

    @property
    def order(self) -> tuple[int, bool, bool, int]:
        """What was ordered, and when."""
        return self.number, self.paused, self.aborted, self.at_once

    def joined(self, other: FleetOrders) -> FleetOrders:
        """Return them with another row's members, but for those that have another name here."""
        places = other.places | self.places
        renamed = {name for place, name in other.places.items() if place in self.places}
        others = {*other.members} - (renamed - {*places.values()})
        return replace(self, members=tuple(sorted({*self.members, *others})), places=places)

    def ahead_of(self, now: float) -> bool:
        """Return whether they are from the future by a clock, in seconds: such count for nobody."""
        return self.number >= now * 1000 + _CLOCKS_DIFFER


def place_of(server_uuid: str, schema: str) -> str:
    """Return by what an entry of a list is known whatever its name: a server, and a schema of it.

    That is the list's, which all commands have. A server that has taken another one's place has
    another uuid, and its name.
    """
    return hashlib.sha256(f"{server_uuid} {schema}".encode()).hexdigest()[:32]


def last_number(found: Iterable[FleetOrders]) -> int:
    """Return the number of the last of these orders, which one that is later must exceed.

    Half of what makes an order one from the future is left to clocks that differ: what is written
    after it must be none for any server (R26).
    """
    until = time.time() - _CLOCKS_DIFFER / 2000
    return max((one.number for one in found if not one.ahead_of(until)), default=0)


def agreed(
    found: Collection[FleetOrders],
    known: FleetOrders,
    new: Collection[FleetOrders] = (),
    *,
    begun: int = 0,
) -> FleetOrders:
    """Return the orders that count, of those that servers have: ``known`` ones, or later ones.

    Whoever may write the schema of one server may forge its row (R26). So where several have begun
    the latest counts that two of them have; one from the future is none. ``new`` are the rows of
    servers that have begun since the last look: they began with what was known then, while others
    may have been given a later order, so that they speak against none; so do
    unseen ones. ``begun``: of how many servers, without the new ones, it is known that they have a
    row, or may have one; where one of them could not be read, no lone row is believed.
    """
    now = time.time()
    new = [*new, *(one for one in found if one.unseen)]
    begun -= sum(one.unseen for one in found)
    found = [one for one in found if not one.unseen]
    rows = [one for one in (*found, *new) if one.number and not one.ahead_of(now)]
    rows.sort(key=lambda one: -one.number)
    wanted = [one.order for one in rows]
    asked = found or [one for one in new if one.number > known.number]
    for row, order in zip(rows, wanted, strict=True):
        if row.number <= known.number:
            break
        alone = len(asked) == 1 and row in asked and begun <= len(found)
        if alone or wanted.count(order) > 1:
            return replace(row, unseen=False)
    return known


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """Everything that ``migrate`` was asked for with ``--tables`` or ``--statements``.

    ``each`` holds for every table; its ``threads`` are those of all tables together. ``statements``
    is the content of ``file``. ``records`` is about all tables together. ``fleet``: this batch is
    the part of one server in a change for many, known by a digest; its record outlives it.
    ``orders`` are of that change. ``excludes_surely``: ``exclude`` is of this run, no default.
    """

    each: MigrationConfig
    patterns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    excludes_surely: bool = True
    statements: str = ""
    file: str = ""
    parallel: int = 1
    on_failure: OnFailure = "stop"
    records: RecordOptions = field(default_factory=RecordOptions)
    fleet: str = ""
    orders: FleetOrders = FleetOrders()


@dataclass(frozen=True, kw_only=True)
class FleetServer:
    """One server of a fleet: what it is called, its labels, and its part of the change.

    ``schema`` is that which its entry names: ``--database`` alone names that of the others.
    """

    name: str
    batch: BatchConfig
    labels: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class FleetConfig:
    """Everything that ``migrate`` was asked for with ``--servers``.

    ``canary``: so many servers go first, alone; ``waves_by``: the label by which the others go in
    waves. ``at_once``: the most servers at a time, ``at_once_of`` of each value of a label.
    ``stop_after``: so many failures after which no server is begun. ``spark``: where the processes
    of the servers run, on this machine without a master.
    """

    servers: tuple[FleetServer, ...]
    asked: str
    canary: int = 0
    waves_by: str = ""
    at_once: int = 4
    at_once_of: tuple[tuple[str, int], ...] = ()
    stop_after: int = 1
    spark: SparkConfig = field(default_factory=SparkConfig)
    records: RecordOptions = field(default_factory=RecordOptions)


@dataclass(frozen=True, kw_only=True)
class CompareConfig(SparkConfig):
    """Everything that ``spirit-py checksum`` was asked for; no ``target``: the source's server."""

    source: ConnectionOptions
    target: ConnectionOptions | None = None
    database: str
    table: str
    target_database: str
    target_table: str
    renames: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    repair: bool = False
    lock: bool = True
    lock_wait_timeout: float = 2.5
    lock_timeout: float = 3600.0
    checksum_yield_timeout: float = 3600.0
    recheck_pauses: tuple[float, ...] = (1.0, 3.0)

    @property
    def target_server(self) -> ConnectionOptions:
        """The server of the target."""
        return self.target or self.source


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """Everything that one ``spirit-py watch`` was asked for; ``heartbeat`` 0 for never."""

    connection: ConnectionOptions
    database: str = ""
    table: str = ""
    position: str = ""
    until_now: bool = False
    format: LineFormat = "json"
    passable: tuple[tuple[str, str], ...] = ()
    heartbeat: float = 0.0

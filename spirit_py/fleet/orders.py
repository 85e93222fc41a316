"""``spirit-py ctl --fleet``: order something for all servers of a fleet, and show its state.

An order is a row of each server's record, which the coordinator and the processes of the servers
read; migrations at work are asked one by one, as without a fleet. So it works from any machine,
and a coordinator that begins later obeys it, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.batch.listing import batches
from spirit_py.batch.store import BatchTable, FleetOrders, TableState, marked_tables
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SpiritError, UsageFault
from spirit_py.fleet.planning import LOOKING
from spirit_py.locks.named import named_lock_holder
from spirit_py.migration.control.command import control
from spirit_py.migration.control.subject import Verb
from spirit_py.mysql.connect import connect_first
from spirit_py.table.names import lock_name
from spirit_py.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.table.names import Name

    Say = Callable[[str], None]

AT_ONCE: Final = "servers-at-once"
"""The setting of a fleet; others are of each migration."""
_READ_SECONDS: Final = 60


@dataclass(frozen=True, kw_only=True)
class FleetMember:
    """How a server of the list is reached; ``database``: only what is in this schema counts."""

    name: str
    connection: ConnectionOptions
    database: str


@dataclass(kw_only=True, eq=False)
class _Part:
    """What a server keeps of fleets: their digests, records, orders, and tables at work."""

    member: FleetMember
    records: list[BatchTable] = field(default_factory=list)
    fleets: set[str] = field(default_factory=set)
    orders: list[FleetOrders] = field(default_factory=list)
    at_work: list[Name] = field(default_factory=list)
    left: list[Name] = field(default_factory=list)
    coordinator: bool = False
    error: SpiritError | None = None

    def look(self) -> None:
        try:
            self._look()
        except SpiritError as error:
            self.error = error

    def _look(self) -> None:
        one = self.member
        with connect_first(one.connection, role="ctl", read_timeout=_READ_SECONDS) as session:
            for name in marked_tables(session):
                if one.database and name[0] != one.database:
                    continue
                store = BatchTable(*name)
                record = store.read(session)
                if record is None or not record.fleet or record.home != name[0]:
                    continue
                self.records.append(store)
                self.fleets.add(record.fleet)
                self.orders.append(store.orders(session))
                lock = lock_name("fleet", record.fleet, one.database)
                self.coordinator |= named_lock_holder(session, lock) is not None
                for table in store.tables(session).values():
                    if table.state == TableState.DONE:
                        continue
                    self.left.append(table.name)
                    lock = lock_name("migration", *table.name)
                    if named_lock_holder(session, lock) is not None:
                        self.at_work.append(table.name)

    def order(self, orders: FleetOrders) -> None:
        try:
            options = self.member.connection
            with connect_first(options, role="ctl", read_timeout=_READ_SECONDS) as session:
                for store in self.records:
                    store.order(session, orders)
        except SpiritError as error:
            self.error = error


def order_fleet(
    members: Sequence[FleetMember], *, verb: str, arguments: Mapping[str, str], say: Say
) -> None:
    """Order one thing for all servers of a fleet that have begun; say what was done on each.

    Refusal where nothing of a fleet is there, or of two; MigrationFailure or another error, with
    all lines said before, where a server could not be asked.
    """
    parts = _look_at(members)
    begun = [one for one in parts if one.records]
    fleets = {each for one in begun for each in one.fleets}
    if not begun:
        raise Refusal(
            "no change for several servers is under way or unfinished on these servers",
            hint="it leaves a record on each server that it has begun: see spirit-py ctl --fleet"
            " LIST status",
            error_code=ErrorCode.NOTHING_TO_CONTROL,
        )
    if len(fleets) > 1:
        raise Refusal(
            "these servers have the records of several changes, and it is not clear which is meant",
            hint="control each server's migration by itself (spirit-py ctl --host), or forget a"
            " record (spirit-py cleanup --batch)",
            details=tuple(f"{one.member.name}: {store}" for one in begun for store in one.records),
            error_code=ErrorCode.BATCH_RECORD,
        )
    latest = max((each for one in begun for each in one.orders), key=lambda one: one.number)
    given = dict(arguments)
    orders = _after(latest, verb, given)
    if orders is not None:
        side_by_side("look", [partial(one.order, orders) for one in begun], LOOKING)
        say(_said(verb, orders))
    for one in begun:
        if verb == Verb.SET and not given:
            break
        for name in one.at_work:
            _ask(one, name, verb, given, say)
    if verb == Verb.ABORT and not any(one.coordinator for one in begun):
        say("no process coordinates this change now: nothing begins before its command is run")
    _raise_failures(parts, say)


def _after(latest: FleetOrders, verb: str, given: dict[str, str]) -> FleetOrders | None:
    """Return the orders after a verb, and take its own setting out of the arguments."""
    following = replace(latest, number=latest.number + 1)
    if verb in {Verb.PAUSE, Verb.RESUME}:
        return replace(following, paused=verb == Verb.PAUSE)
    if verb == Verb.ABORT:
        return replace(following, aborted=True)
    number = given.pop(AT_ONCE, None)
    if verb != Verb.SET or number is None:
        return None
    if not number.isdecimal() or int(number) < 1:
        raise UsageFault(f"{AT_ONCE}={number} is no number", hint="write a whole number from 1")
    return replace(following, at_once=int(number))


def _said(verb: str, orders: FleetOrders) -> str:
    if verb == Verb.PAUSE:
        return "paused: no server and no table begins"
    if verb == Verb.RESUME:
        return "goes on"
    if verb == Verb.ABORT:
        return "aborted: no server begins, and those at work stop"
    return f"at most {orders.at_once} servers at a time"


def _ask(part: _Part, table: Name, verb: str, given: Mapping[str, str], say: Say) -> None:
    where = f"{part.member.name} {'.'.join(table)}"
    try:
        control(
            part.member.connection,
            database=table[0],
            table=table[1],
            verb=verb,
            arguments=given,
            say=lambda line: say(f"{where}: {line}"),
        )
    except SpiritError as error:
        say(f"{where}: {error.message}")
        # One that has ended meanwhile, or has not begun to copy, needs no order any more.
        if error.error_code is not ErrorCode.NOTHING_TO_CONTROL:
            part.error = error


def _raise_failures(parts: Sequence[_Part], say: Say) -> None:
    failed = [one for one in parts if one.error is not None]
    for one in failed:
        say(f"{one.member.name}: {one.error.message if one.error else ''}")
    for one in failed:
        if one.error is not None:
            raise one.error


def _look_at(members: Sequence[FleetMember]) -> list[_Part]:
    parts = [_Part(member=one) for one in members]
    side_by_side("look", [one.look for one in parts], LOOKING)
    return parts


def status_of(members: Sequence[FleetMember]) -> list[dict[str, Any]]:
    """Return what each server keeps of a fleet, and what works there, as JSON values."""
    parts = _look_at(members)
    found = []
    for one in parts:
        shown: list[dict[str, Any]] = []
        if one.error is None and one.records:
            names = {str(store) for store in one.records}
            options = one.member.connection
            listed = batches(options, database=one.member.database, table="")
            shown = [each.to_dict() for each in listed if each.batch in names]
        orders = max(one.orders, key=lambda each: each.number, default=FleetOrders())
        found.append(
            {
                "server": one.member.name,
                "begun": bool(one.records),
                "coordinated": one.coordinator,
                "paused": orders.paused,
                "aborted": orders.aborted,
                "servers_at_once": orders.at_once or None,
                "at_work": [".".join(name) for name in one.at_work],
                "left": [".".join(name) for name in one.left],
                "batches": shown,
                "error": one.error.message if one.error is not None else "",
            }
        )
    return found


def lines_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the state of a fleet for people, a line each."""
    lines = []
    for one in found:
        if one["error"]:
            state = f"cannot be looked at: {one['error']}"
        elif not one["begun"]:
            state = "not begun"
        else:
            tables = [table for each in one["batches"] for table in each["tables"]]
            done = sum(table["state"] == TableState.DONE for table in tables)
            state = f"{done} of {len(tables)} tables done"
            if one["at_work"]:
                state += f", at work: {', '.join(one['at_work'])}"
            elif one["left"]:
                state += ", no process works on it"
            errors = [f"{table['table']}: {table['error']}" for table in tables if table["error"]]
            state += "".join(f"; {text}" for text in errors[:1])
        lines.append(f"{one['server']}: {state}")
    begun = [one for one in found if one["begun"]]
    coordinated = any(one["coordinated"] for one in begun)
    if begun:
        now = "a process coordinates them" if coordinated else "no process coordinates them"
        if any(one["paused"] for one in begun):
            now += "; paused by an operator"
        most = max((one["servers_at_once"] or 0 for one in begun), default=0)
        now += f"; at most {most} servers at a time, by order" if most else ""
        lines.append(f"{len(begun)} of {len(found)} servers have begun; {now}")
    return lines

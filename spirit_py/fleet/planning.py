"""Look at all servers of a fleet before anything is written: what will be done on each."""

from __future__ import annotations

import resource
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py.batch.plan import UsualDefinitions
from spirit_py.batch.planning import plan_batch, plan_of_batch
from spirit_py.batch.trial import Trace, trace_of
from spirit_py.classes import dataclass, field, replace
from spirit_py.command_config import MOST_SERVERS, FleetOrders, agreed, place_of
from spirit_py.errors import MigrationFailure, SpiritError
from spirit_py.events.run import ServerPlanned, Summary
from spirit_py.fleet.waves import seconds_of, waves_of
from spirit_py.mysql.grants import explain_access
from spirit_py.threads import side_by_side
from spirit_py.units import counted, human_bytes, human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from spirit_py.batch.plan import BatchPlan
    from spirit_py.command_config import FleetConfig, FleetServer
    from spirit_py.events.event import Tell
    from spirit_py.plan import Plan

LOOKING: Final = 16
"""How many servers are looked at, at a time."""


_ENOUGH_FILES: Final = 65_536


def allowed_files() -> int:
    """Raise the limit of open files as far as it goes, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return files


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """What is done on one server; ``error``: why it cannot be looked at, or is refused as a whole.

    ``whole`` has the time, where it was asked for; ``differs`` how its tables differ from those of
    most servers. ``settled``: it was done, and its record is dropped already.
    """

    server: FleetServer
    batch: BatchPlan | None = None
    whole: Plan | None = None
    error: SpiritError | None = None
    clash: str = ""
    settled: bool = False
    differs: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why nothing is done, or not with all tables, a line each."""
        found = [self.clash] if self.clash else []
        if self.error is not None:
            hint = f"hint: {self.error.hint}" if self.error.hint else ""
            found += filter(None, (self.error.message, *self.error.details, hint))
        if self.batch is not None:
            found += (
                f"{one.change}: {line}" for one in self.batch.refused for line in one.refusals
            )
        return tuple(found)

    @property
    def refused(self) -> bool:
        """Whether nothing is begun there."""
        if self.settled:
            return False
        if self.batch is None or self.clash or self.error is not None:
            return True
        return self.batch.is_refused(self.server.batch)

    @property
    def done(self) -> bool:
        """Whether an earlier run has done all of it."""
        if self.settled:
            return True
        return self.batch is not None and not self.batch.left and not self.batch.refused

    @property
    def orders(self) -> FleetOrders:
        """What operators have ordered, as this server has it."""
        return FleetOrders() if self.batch is None else self.batch.orders

    @property
    def place(self) -> str:
        """By what the entry is known whatever its name; empty where it could not be looked at."""
        schema = self.server.schema
        return "" if self.batch is None else place_of(self.batch.server_uuid, schema)

    @property
    def begun(self) -> bool:
        """Whether an earlier run has begun it, so that it has a record."""
        return self.batch is not None and self.batch.earlier is not None

    @property
    def bytes(self) -> int:
        """The size of what is copied there."""
        left = self.batch.left if self.batch is not None else ()
        return sum(one.data_bytes + one.index_bytes for one in left if one.copied)

    @property
    def rows(self) -> int:
        """The rows of the tables that are left."""
        return sum(one.rows for one in self.batch.left) if self.batch is not None else 0

    def lines(self) -> Iterator[str]:
        """Yield the server for people, a line each."""
        labels = "".join(f" {name}={value}" for name, value in self.server.labels.items())
        version = f" MySQL {self.batch.mysql}" if self.batch is not None else ""
        yield f"{self.server.name}{labels}{version}: {self._outlook()}"
        if not self.settled:
            yield from (f"    {line}" for line in self.refusals)
        yield from (f"    differs from most others: {line}" for line in self.differs)

    def warnings(self) -> Iterator[str]:
        """Yield what is to be known, without the server's name."""
        if self.batch is not None and not self.refused:
            yield from self.batch.left_out()
            yield from self.batch.warnings
            yield from (line for line in self.batch.room if "not enough" in line)

    def _outlook(self) -> str:
        if self.refused or self.batch is None:
            return "refused"
        if self.done:
            return "done by an earlier run"
        left = self.batch.left
        actions = {one.action: 0 for one in left}
        for one in left:
            actions[one.action] += 1
        if len(left) == 1:
            how = f"{left[0].change}, {left[0].action}"
        else:
            told = ", ".join(f"{number} {action}" for action, number in actions.items())
            how = f"{counted(len(left), 'table')} ({told})"
        spent = self.seconds
        size = sum(one.data_bytes + one.index_bytes for one in left)
        time = f", about {human_seconds(spent)}" if spent is not None else ""
        return f"~{human_count(self.rows)} rows, {human_bytes(size)}, {how}{time}"

    @property
    def seconds(self) -> float | None:
        """The seconds that it takes, where a sample was taken."""
        return None if self.whole is None else self.whole.totals.seconds


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """The plan of all servers, in the order of the list.

    ``doubted``: further ones that one record alone names.
    """

    servers: tuple[ServerPlan, ...]
    orders: FleetOrders = field(default_factory=FleetOrders)
    doubted: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[ServerPlan, ...]:
        """The servers on which nothing is begun."""
        return tuple(one for one in self.servers if one.refused)

    def is_refused(self, config: FleetConfig) -> bool:
        """Whether nothing is begun: as many are refused as failures end it, all, or a canary."""
        canaries = {one.name for one in config.servers[: config.canary]}
        refused = [one.server.name for one in self.refused]
        enough = len(refused) >= config.stop_after or not self.left
        return bool(refused) and (enough or not canaries.isdisjoint(refused))

    @property
    def left(self) -> tuple[ServerPlan, ...]:
        """The servers that are to be changed, and can be."""
        return tuple(one for one in self.servers if not (one.refused or one.done))

    def counts(self) -> str:
        """Return how many servers are changed, and how many are not."""
        done = sum(one.done for one in self.servers)
        counts = [f"{len(self.left)} to change"]
        counts += [f"{done} done by an earlier run"] if done else []
        counts += [f"{len(self.refused)} refused"] if self.refused else []
        return f"{counted(len(self.servers), 'server')}: {', '.join(counts)}"

    def totals(self, config: FleetConfig) -> list[str]:
        """Return order, sizes, room and time of all servers, a line each."""
        names = ", ".join(f"{one.name} ({len(one.servers)})" for one in waves_of(config))
        copied = sum(one.bytes for one in self.left)
        rows = sum(one.rows for one in self.left)
        lines = [
            f"  waves: {names}; at most {counted(config.at_once, 'server')} at a time",
            f"  together: ~{human_count(rows)} rows, {human_bytes(copied)} to copy",
        ]
        versions = Counter(one.batch.mysql for one in self.servers if one.batch is not None)
        if len(versions) > 1:
            told = ", ".join(f"{version} ({count})" for version, count in versions.most_common())
            lines.append(f"  versions differ: {told}")
        lines += self.warnings()
        seconds = {one.server.name: one.seconds for one in self.left if one.seconds is not None}
        if seconds and len(seconds) == len(self.left):
            lines.append(f"  time: about {human_seconds(seconds_of(config, seconds))}")
        return lines

    def warnings(self) -> Iterator[str]:
        """Yield each warning once, with the servers that have it."""
        found: dict[str, list[str]] = {}
        for one in self.servers:
            for line in one.warnings():
                found.setdefault(line, []).append(one.server.name)
        for line, names in found.items():
            where = names[0] if len(names) == 1 else f"{len(names)} servers, {names[0]} first"
            yield f"  warning ({where}): {line}"
        if self.doubted:
            named = f"{counted(len(self.doubted), 'server')}, {', '.join(self.doubted[:5])}"
            yield (
                f"  warning: one record alone also has {named}: give a list with them if they are"
                " of this change, whose records are dropped without them"
            )

    def to_dict(self, config: FleetConfig) -> dict[str, Any]:
        """Return everything for JSON."""
        known = {one.server.name: one.seconds for one in self.left if one.seconds is not None}
        whole = len(known) == len(self.left)
        return {
            "servers": [_document(one) for one in self.servers],
            "waves": [
                {"name": wave.name, "servers": [one.name for one in wave.servers]}
                for wave in waves_of(config)
            ],
            "refused": self.is_refused(config),
            "totals": {
                "servers": len(self.servers),
                "left": len(self.left),
                "rows": sum(one.rows for one in self.left),
                "table_bytes": sum(one.bytes for one in self.left),
                "seconds": seconds_of(config, known) if known and whole else None,
            },
        }


def _document(one: ServerPlan) -> dict[str, Any]:
    return {
        "name": one.server.name,
        "address": one.server.batch.each.connection.address,
        "labels": dict(one.server.labels),
        "version": one.batch.mysql if one.batch is not None else None,
        "refused": one.refused,
        "refusals": list(one.refusals),
        "done": one.done,
        "differs": list(one.differs),
        "plan": one.whole.to_dict() if one.whole is not None else None,
    }


def plan_fleet(config: FleetConfig, *, sample: bool = False) -> FleetPlan:
    """Look at all servers, several at a time; write nothing. What is refused is in the plan.

    With ``sample`` each table's time is estimated, as ``spirit-py plan`` does.
    """
    found: dict[str, ServerPlan] = {}

    def look(server: FleetServer) -> None:
        found[server.name] = _planned(server, sample=sample)

    side_by_side("look", [partial(look, one) for one in config.servers], LOOKING)
    plans = [found[one.name] for one in config.servers]
    finished = Counter(name for one in plans if one.done for name in {*one.orders.finished})
    witnesses = [max(finished[one.server.name], finished[one.place]) for one in plans]

    def settle(number: int) -> None:
        plans[number] = _settled(plans[number], witnesses[number])

    unsure = [number for number, told in enumerate(witnesses) if told]
    side_by_side("look", [partial(settle, number) for number in unsure], LOOKING)
    orders, doubted = FleetOrders(), tuple[str, ...]()
    if not any(one.batch.each.dry_run for one in config.servers):
        begun = {one.server.name: one.orders for one in plans if one.begun}
        places = {one.place: one.server.name for one in plans if one.place}
        listed = FleetOrders(members=tuple(sorted(found)), places=places)
        known, doubted = _with_others(listed, begun.values())
        orders = orders_of(plans, begun)
        orders = replace(orders, members=known.members, places=known.places, finished=())
    plans = _with_differences(_with_clashes(plans))
    return FleetPlan(servers=tuple(plans), orders=orders, doubted=doubted)


def orders_of(plans: Sequence[ServerPlan], found: Mapping[str, FleetOrders]) -> FleetOrders:
    """Return the orders that count, of those that were ``found`` on servers that have begun.

    Others may have begun that cannot be looked at: then a lone row is not believed (R26). But a
    pause in it stays: any operator can end it.
    """
    away = [one for one in plans if one.server.name not in found and (one.begun or not one.batch)]
    lone = FleetOrders()
    if len(found) == 1:
        (row,) = found.values()
        if not row.ahead_of(time.time()):
            lone = FleetOrders(paused=row.paused)
    return agreed(found.values(), lone, begun=len(found) + len(away))


def _with_others(
    listed: FleetOrders, rows: Collection[FleetOrders]
) -> tuple[FleetOrders, tuple[str, ...]]:
    """Return a list's servers with those that earlier commands had in theirs, and doubted ones.

    What one of several rows alone names may be forged (R26): it would keep all records for ever.
    """
    joined = listed
    for row in rows:
        joined = joined.joined(row)
    own, named = {*listed.members}, Counter(name for row in rows for name in {*row.members})
    others = [name for name in joined.members if name not in own]
    believed = [name for name in others if named[name] > 1 or len(rows) == 1][:MOST_SERVERS]
    members = own.union(believed)
    places = {place: name for place, name in joined.places.items() if name in members}
    known = replace(listed, members=tuple(sorted(members)), places=places)
    return known, tuple(name for name in others if named[name] == 1 < len(rows))


def _settled(plan: ServerPlan, witnesses: int) -> ServerPlan:
    """Return the plan of a server without a record, which so many others call done.

    One other's word alone is not believed (R26): the definitions must show it, or where the change
    leaves no trace in them, another one must say so, too.
    """
    if plan.batch is None or plan.begun:
        return plan
    try:
        each = plan.server.batch.each
        traces = {trace_of(each, one.change) for one in plan.batch.tables}
    except SpiritError as error:
        return replace(plan, error=error)
    if Trace.MISSING in traces:
        return plan
    if Trace.NONE not in traces or witnesses > 1:
        return replace(plan, settled=True)
    return replace(
        plan,
        clash="another server's record says that this change was finished here, and nothing shows"
        " whether it was: if so, spirit-py ctl --fleet LIST forget drops what is left; if not, do"
        " that, and run the command again",
    )


def _planned(server: FleetServer, *, sample: bool) -> ServerPlan:
    try:
        batch = plan_batch(server.batch)
        whole = plan_of_batch(server.batch, planned=batch) if sample else None
    except SpiritError as error:
        explain_access(error)
        return ServerPlan(server=server, error=error)
    except Exception as error:
        failure = MigrationFailure(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        return ServerPlan(server=server, error=failure)
    # From now on every session refuses another server (R14).
    each = server.batch.each
    connection = replace(each.connection, server_uuid=batch.server_uuid)
    pinned = replace(server.batch, each=replace(each, connection=connection))
    return ServerPlan(server=replace(server, batch=pinned), batch=batch, whole=whole)


def _with_clashes(plans: Sequence[ServerPlan]) -> list[ServerPlan]:
    """Refuse a table that two entries of the list would change: they are one server."""
    owners: dict[tuple[str, str], str] = {}
    made = []
    for one in plans:
        clash = one.clash
        for table in one.batch.tables if one.batch is not None else ():
            known = (one.batch.server_uuid if one.batch else "", str(table.change))
            owner = owners.setdefault(known, one.server.name)
            if owner != one.server.name:
                clash = (
                    clash
                    or f"{table.change} is changed through {owner} already: both are one server,"
                    " or have one server_uuid"
                )
        made.append(replace(one, clash=clash))
    return made


def _with_differences(plans: Sequence[ServerPlan]) -> list[ServerPlan]:
    definitions = UsualDefinitions()
    tables = [
        (one.server.name, table)
        for one in plans
        for table in (one.batch.tables if one.batch is not None else ())
        if table.shape
    ]
    for name, table in tables:
        definitions.add(_anywhere(table.change), table.shape, server=name)
    different: dict[str, list[str]] = {}
    for name, table in tables:
        lines = definitions.differences(_anywhere(table.change), server=name)
        different.setdefault(name, []).extend(f"{table.change} {line}" for line in lines)
    return [replace(one, differs=tuple(different.get(one.server.name, ()))) for one in plans]


def _anywhere(change: Any) -> Any:
    """Return a change whose table is expected to be alike on all servers, in any schema."""
    return replace(change, alike=change.table)


def tell_fleet_plan(plan: FleetPlan, config: FleetConfig, tell: Tell) -> None:
    """Report the plan, server by server."""
    tell(Summary(said=plan.counts()))
    for one in plan.servers:
        first, *others = one.lines()
        tell(
            ServerPlanned(
                said=first,
                table=one.server.name,
                fleet_server=one.server.name,
                tables=len(one.batch.tables) if one.batch is not None else 0,
                rows=one.rows,
                refusals=list(one.refusals),
            )
        )
        for line in others:
            tell(Summary(said=line))
    for line in plan.totals(config):
        tell(Summary(said=line))

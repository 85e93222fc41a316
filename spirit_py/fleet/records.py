"""What each server keeps of a fleet: which tables are done, and what operators have ordered."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.batch.changes import schemas_of
from spirit_py.batch.report import BatchReport
from spirit_py.batch.store import BatchTable, TableState, find_batch, marked_tables
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.examination import live_of
from spirit_py.checkpoint.live import StandingOrders
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass, field, fields, replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import place_of
from spirit_py.errors import MigrationFailure, Refusal, SpiritError
from spirit_py.fleet.planning import LOOKING
from spirit_py.locks.named import named_lock_holder, working_session
from spirit_py.mysql.connect import connect, connect_first
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.tables.identity import doubtful, holds_up
from spirit_py.mysql.tables.identity import looked_at as tables_looked_at
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationProgress, MigrationStatus, RunTotals
from spirit_py.table.names import lock_name
from spirit_py.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.command_config import FleetOrders
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.fleet.planning import ServerPlan
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_READ_SECONDS: Final = 30
#: The same for an operator's command.
_ASKED_SECONDS: Final = 60


def record_of(session: SqlSession, plan: ServerPlan) -> BatchTable | None:
    """Return the record of a server's part; None before its process has written one."""
    batch = plan.batch
    if batch is None:
        return None
    changes = (one.change for one in batch.tables)
    return find_batch(session, batch.name, schemas_of(session, plan.server.batch, changes))


def orders_of(plan: ServerPlan) -> FleetOrders | None:
    """Return the orders that a server has; None before its process has written its record."""
    each = plan.server.batch.each
    with connect(each.connection, role="batch", read_timeout=_READ_SECONDS) as session:
        store = record_of(session, plan)
        return None if store is None else store.orders(session)


def figures_of(plan: ServerPlan) -> BatchStatus:
    """Return what the process of a server shows of itself there."""
    each = plan.server.batch.each
    with connect(each.connection, role="batch", read_timeout=_READ_SECONDS) as session:
        tables = () if plan.batch is None else tuple(one.change.name for one in plan.batch.left)
        shown = tuple(one for name in tables if (one := _status_of(session, *name)) is not None)
        return BatchStatus(described="", elapsed=0.0, tables=shown)


def left_by(plan: ServerPlan, stopped: SpiritError) -> BatchReport | None:
    """Return what a server's record says of a process that was ``stopped``; None while one works.

    That it is done counts more than a stop of all, which came too late; not than the loss of the
    server's own lock.
    """
    each = plan.server.batch.each
    changes = () if plan.batch is None else (one.change for one in plan.batch.tables)
    # That of the whole first: one query is enough while the process works.
    locks = [] if plan.batch is None else [lock_name("batch", plan.batch.name)]
    locks += [lock_name("migration", *one.name) for one in changes]
    with connect(each.connection, role="batch", read_timeout=_READ_SECONDS) as session:
        if any(_held(session, one) for one in locks):
            return None
        store = None if each.dry_run else record_of(session, plan)
        tables = [] if store is None else [*store.tables(session).values()]
    report = BatchReport()
    report.add(tables)
    late = stopped.error_code is not ErrorCode.RUN_LOCK_LOST
    done = bool(tables) and all(one.state == TableState.DONE for one in tables)
    why = None if done and late else stopped
    report.conclude(why, seconds=0.0, record="" if store is None else str(store))
    return report


def read_again(plan: ServerPlan) -> None:
    """Raise Refusal where a server's record is not as the plan has seen it."""
    each = plan.server.batch.each
    with connect(each.connection, role="batch", read_timeout=_READ_SECONDS) as session:
        store = record_of(session, plan)
        tables = None if store is None else store.tables(session)
        if tables != (plan.batch.earlier if plan.batch is not None else None):
            raise Refusal(
                f"what is done on {plan.server.name} has changed since the plan was made",
                hint="run the same command again, for what the plan shows then",
                error_code=ErrorCode.BATCH_RECORD,
            )


def _status_of(session: SqlSession, schema: str, table: str) -> MigrationStatus | None:
    """Return the figures that the migration of a table has written last; None where none runs."""
    worker = working_session(session, (schema, table))
    checkpoint = CheckpointTable(schema, table)
    if worker is None or not checkpoint.is_ours(session):
        return None
    live, _ = live_of(session, checkpoint, worker)
    if live is None:
        return None
    try:
        phase = Phase(live.phase)
    except ValueError:
        return None
    figures = {one.name: getattr(live, one.name) for one in fields(MigrationProgress)}
    totals = RunTotals(tables=(f"{schema}.{table}",))
    return MigrationStatus(**figures, phase=phase, totals=totals)


def order(plan: ServerPlan, orders: FleetOrders, *, finished: tuple[str, ...] = ()) -> None:
    """Write orders into a server's record, if there is one; later ones stay, and the finished."""
    with connect(plan.server.batch.each.connection, role="batch") as session:
        if (store := record_of(session, plan)) is not None:
            # One that was begun by another spelling of the change is found by this one from now on.
            store.join(session, plan.server.batch.fleet)
            there = store.orders(session)
            later = there.number > orders.number and not there.ahead_of(server_now(session))
            if not later or finished:
                # What a command with other servers in its list has noted stays.
                kept = there if later else orders.joined(there)
                store.order(session, replace(kept, finished=finished or there.finished))


def forget(plan: ServerPlan) -> None:
    """Drop a server's record, if there is one."""
    with connect(plan.server.batch.each.connection, role="batch") as session:
        if (store := record_of(session, plan)) is not None:
            store.drop(session)


def _left(lines: Sequence[str], hint: str) -> MigrationFailure:
    return MigrationFailure(
        f"all servers are changed, and records are left: {lines[0]}",
        hint=hint,
        details=tuple(lines),
        error_code=ErrorCode.RECORDS_LEFT,
    )


def finish(
    plans: Sequence[ServerPlan], orders: FleetOrders, stop: StopSwitch
) -> MigrationFailure | None:
    """Mark each record of a fleet as finished, and then drop them; return why some are left.

    As long as one is left it names all servers that are done.
    """
    done = tuple(plan.server.name for plan in plans)
    if outside := sorted(set(orders.members) - set(done)):
        return _left(
            [f"commands for this change also had other servers: {', '.join(outside[:5])}"],
            "once these are done, or given up, spirit-py ctl --fleet LIST forget drops them; the"
            " same command does not",
        )
    failed: list[str] = []
    finished = (*done, *filter(None, (plan.place for plan in plans)))

    def each(plan: ServerPlan, action: Callable[[ServerPlan], None], what: str) -> None:
        if stop.requested:
            return
        try:
            action(plan)
        except Exception as error:
            why = error.message if isinstance(error, SpiritError) else repr(error)
            failed.append(f"{plan.server.name}: its record could not be {what}: {why}")

    def mark(plan: ServerPlan) -> None:
        each(plan, lambda one: order(one, orders, finished=finished), "marked as finished")

    side_by_side("mark", [partial(mark, one) for one in plans], LOOKING)
    if not failed and not stop.requested:
        points.reach("fleet.finished")
        for plan in plans:
            each(plan, forget, "dropped")
            points.reach("fleet.forgotten")
    # The same command may refuse the servers whose records are dropped, where one is left.
    hint = "spirit-py ctl --fleet LIST forget drops them, when these servers answer"
    return _left(failed, hint) if failed else None


@dataclass(frozen=True, kw_only=True)
class FleetMember:
    """How a server of the list is reached; ``schema`` is that of its entry, if any.

    ``database`` is a configuration file's where the entry has none.
    """

    name: str
    connection: ConnectionOptions
    database: str
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class FleetRecord:
    """The record of a fleet on a server: what was ordered, who is at work, and what is left."""

    store: BatchTable
    fleet: str
    orders: FleetOrders
    tables: tuple[Name, ...]
    left: tuple[Name, ...]
    coordinated: bool = False
    at_work: tuple[Name, ...] = ()


@dataclass(kw_only=True, eq=False)
class ServerRecords:
    """What a server keeps of fleets, of this schema where its entry names one.

    ``error``: what kept it from being looked at, or from doing what it was to do.
    ``identity`` is empty before it was looked at: a ``server_uuid`` alone may be that of two
    servers, of which one has a copied data directory.
    """

    member: FleetMember
    table: str
    identity: str = ""
    records: list[FleetRecord] = field(default_factory=list)
    error: SpiritError | None = None

    @property
    def place(self) -> str:
        """By what the entry is known whatever its name."""
        return place_of(self.identity.partition(" ")[0], self.member.schema)

    def order(self, orders: FleetOrders, *, resumes: bool) -> None:
        """Write orders into each record; ``resumes``: no table resumes with a pause."""

        def write(session: Session) -> None:
            now = server_now(session)
            if orders.ahead_of(now):
                raise MigrationFailure(
                    "the clocks of this machine and of that server differ by more than a day: by"
                    " the server's the order is from the future, and it was not written there",
                    hint="set the one that is wrong, then give the order again",
                )
            for one in self.records:
                there = one.store.orders(session)
                if there.number > orders.number and not there.ahead_of(now):
                    # It came meanwhile, from a command that has other servers in its list.
                    continue
                # What commands have noted there stays, and no other row's is copied (R26).
                noted = {name: getattr(there, name) for name in ("members", "places", "finished")}
                one.store.order(session, replace(orders, **noted))
                for name in one.left if resumes else ():
                    if name not in one.at_work:
                        _end_pause(session, name)

        self._within(write)

    def drop(self) -> None:
        """Drop them."""

        def drop(session: Session) -> None:
            for one in self.records:
                one.store.drop(session)

        self._within(drop)

    def _within(self, work: Callable[[Session], None]) -> None:
        try:
            options = self.member.connection
            with connect_first(options, role="ctl", read_timeout=_ASKED_SECONDS) as session:
                work(session)
        except SpiritError as error:
            self.error = error

    def means(self, record: FleetRecord, *, folds: bool) -> bool:
        """Return whether a record is of this entry's schema, and of the table.

        One in a schema in which it has no table is nobody's (R26).
        ``folds``: the server has other letters than the list, and than who asks.
        """
        home, schemas = record.store.name[0], {schema for schema, _ in record.tables}
        wanted = (
            (self.member.database, {home, *schemas}),
            (self.table, {table for _, table in record.tables}),
        )
        if schemas and home not in {self.member.database, *schemas}:
            return False
        other = [(name, there) for name, there in wanted if name and name not in there]
        return not other or (
            folds and all(name.lower() in map(str.lower, there) for name, there in other)
        )


def rows_of(parts: Iterable[ServerRecords], fleet: str) -> list[FleetOrders]:
    """Return the orders of a fleet: one row of each server, or of each schema that the list names.

    Whoever may write one schema there counts once, however many records he makes (R26).
    """
    found: dict[str, dict[str, FleetOrders]] = {}
    for part in parts:
        for one in part.records:
            home = one.store.name[0]
            own = home.lower() == part.member.database.lower()
            if one.fleet == fleet:
                there = found.setdefault(part.identity, {})
                there.setdefault(home if own else "", one.orders)
    for there in found.values():
        if len(there) > 1:
            there.pop("", None)
    return [row for there in found.values() for row in there.values()]


def look_at(parts: Iterable[ServerRecords]) -> None:
    """Read anew what servers keep; entries that are one server are read together, and once."""
    together: dict[ConnectionOptions, list[ServerRecords]] = {}
    for one in parts:
        one.records, one.error = [], None
        together.setdefault(one.member.connection, []).append(one)
    side_by_side("look", [partial(_look_at, group) for group in together.values()], LOOKING)


def looked_at(members: Iterable[FleetMember], table: str) -> list[ServerRecords]:
    """Return what servers keep of a table's fleets, or of all with an empty name."""
    parts = [ServerRecords(member=one, table=table) for one in members]
    look_at(parts)
    return parts


def where_to_meet(parts: Iterable[ServerRecords]) -> list[ServerRecords]:
    """Return whose locks commands take: each server once, in an order that all lists have.

    So two commands meet where their lists have one server in common, and neither waits for one that
    waits for it.
    """
    found = {one.identity: one for one in parts if one.error is None}
    return [found[identity] for identity in sorted(found)]


def leave_out(parts: Iterable[ServerRecords], identity: str, error: SpiritError) -> None:
    """Leave a server out that was lost, with all of its entries, to the end of the command."""
    for part in parts:
        if part.identity == identity:
            part.error, part.records = error, []


def sessions_on(
    stack: contextlib.ExitStack, parts: Sequence[ServerRecords], read_timeout: int
) -> list[tuple[str, Session]]:
    """Open a session on each server; one that does not answer by now has an error, and none."""
    opened: dict[str, Session] = {}

    def reach(part: ServerRecords) -> None:
        options = part.member.connection
        try:
            session = connect_first(options, role="ctl", read_timeout=read_timeout)
        except SpiritError as error:
            leave_out(parts, part.identity, error)
        else:
            opened[part.identity] = stack.enter_context(session)

    meeting = where_to_meet(parts)
    side_by_side("look", [partial(reach, one) for one in meeting], LOOKING)
    identities = [one.identity for one in meeting]
    return [(one, opened[one]) for one in identities if one in opened]


def _look_at(parts: Sequence[ServerRecords]) -> None:
    try:
        options = parts[0].member.connection
        with connect_first(options, role="ctl", read_timeout=_ASKED_SECONDS) as session:
            ((identity, folds),) = session.query(
                "SELECT CONCAT_WS(' ', @@GLOBAL.server_uuid, @@GLOBAL.hostname, @@GLOBAL.port,"
                " @@GLOBAL.datadir), @@GLOBAL.lower_case_table_names"
            )
            unread: dict[str, SpiritError] = {}
            names = marked_tables(session)
            with doubtful(session):
                note = partial(_note, unread)
                read = list(tables_looked_at(names, partial(_read, session), note))
            found = [_with_processes(session, one) for one in read if one is not None]
    except SpiritError as error:
        for part in parts:
            part.error = error
        return
    for part in parts:
        part.identity = str(identity)
        # It may be the record of this entry, of which nothing is known now.
        part.error = unread.get(part.member.database)
        if part.error is None:
            part.records = [one for one in found if part.means(one, folds=bool(int(folds)))]


def _read(session: SqlSession, name: Name) -> FleetRecord | None:
    """Return the record of a table, if it is one of a fleet."""
    store = BatchTable(*name)
    record = store.read(session)
    if record is None or not record.fleet or record.home != store.name[0]:
        return None
    tables = store.tables(session)
    return FleetRecord(
        store=store,
        fleet=record.fleet,
        orders=store.orders(session),
        tables=tuple(tables),
        left=tuple(name for name, table in tables.items() if table.state != TableState.DONE),
    )


def _note(unread: dict[str, SpiritError], name: Name, error: SpiritError) -> None:
    """Note the schema of a table that is locked, or computes for too long.

    Another one that cannot be read is none of ours: any account can make a table with the mark
    (R26).
    """
    if holds_up(error):
        unread[name[0]] = error


def _with_processes(session: SqlSession, record: FleetRecord) -> FleetRecord:
    return replace(
        record,
        coordinated=_held(session, lock_name("fleet", record.store.name[1])),
        at_work=tuple(one for one in record.left if working_session(session, one) is not None),
    )


def _held(session: SqlSession, lock: str) -> bool:
    return named_lock_holder(session, lock) is not None


def _end_pause(session: SqlSession, name: Name) -> None:
    """End the pause that a stopped migration would resume with."""
    checkpoint = CheckpointTable(*name)
    if not checkpoint.is_ours(session):
        return
    with contextlib.suppress(UnreadableCheckpoint):
        standing = checkpoint.read(session, StandingOrders)
        if standing is not None and standing.paused:
            checkpoint.write(session, replace(standing, paused=""))

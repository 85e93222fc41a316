"""What each server keeps of a fleet: which tables are done, and what operators have ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.batch.changes import schemas_of
from spirit_py.batch.store import FleetOrders, find_batch
from spirit_py.checkpoint.examination import live_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import fields, replace
from spirit_py.errors import SpiritError
from spirit_py.locks.named import named_lock_holder
from spirit_py.mysql.connect import connect
from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationProgress, MigrationStatus, RunTotals
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.batch.store import BatchTable
    from spirit_py.contracts import SqlSession
    from spirit_py.fleet.planning import ServerPlan

_READ_SECONDS: Final = 30


def record_of(session: SqlSession, plan: ServerPlan) -> BatchTable | None:
    """Return the record of a server's part; None before its process has written one."""
    batch = plan.batch
    if batch is None:
        return None
    changes = (one.change for one in batch.tables)
    return find_batch(session, batch.name, schemas_of(session, plan.server.batch, changes))


def look_at(plan: ServerPlan) -> tuple[FleetOrders | None, BatchStatus]:
    """Return the orders that a server has, and what its process shows there of itself."""
    each = plan.server.batch.each
    with connect(each.connection, role="batch", read_timeout=_READ_SECONDS) as session:
        store = record_of(session, plan)
        orders = None if store is None else store.orders(session)
        tables = () if plan.batch is None else tuple(one.change.name for one in plan.batch.left)
        shown = tuple(one for name in tables if (one := _status_of(session, *name)) is not None)
        return orders, BatchStatus(described="", elapsed=0.0, tables=shown)


def _status_of(session: SqlSession, schema: str, table: str) -> MigrationStatus | None:
    """Return the figures that the migration of a table has written last; None where none runs."""
    worker = named_lock_holder(session, lock_name("migration", schema, table))
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


def order(plan: ServerPlan, orders: FleetOrders) -> None:
    """Write orders into a server's record, if there is one."""
    with connect(plan.server.batch.each.connection, role="batch") as session:
        if (store := record_of(session, plan)) is not None:
            store.order(session, orders)


def forget(plan: ServerPlan) -> None:
    """Drop a server's record, if there is one."""
    with connect(plan.server.batch.each.connection, role="batch") as session:
        if (store := record_of(session, plan)) is not None:
            store.drop(session)


def finish(plans: list[ServerPlan], orders: FleetOrders) -> Iterator[str]:
    """Mark each record of a fleet as finished, and then drop them; yield what could not be done.

    As long as one is left it says so, and the same command drops the others.
    """
    finished = replace(orders, finished=True, number=orders.number + 1)
    for plan in plans:
        try:
            order(plan, finished)
        except SpiritError as error:
            yield f"{plan.server.name}: its record could not be marked as finished: {error.message}"
            return
    points.reach("fleet.finished")
    for plan in plans:
        try:
            forget(plan)
            points.reach("fleet.forgotten")
        except SpiritError as error:
            yield f"{plan.server.name}: its record could not be dropped: {error.message}"

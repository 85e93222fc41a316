"""``spirit-py cleanup --batch``: forget a batch that nobody will finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.batch.record import TableState
from spirit_py.batch.store import BatchTable, marked_tables
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, UsageFault
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder, take_named_lock
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.processlist import whose
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.batch.record import TableRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession


def give_up_batch(
    options: ConnectionOptions,
    *,
    batch: str,
    ask: Callable[[str], bool],
    say: Callable[[str], object],
) -> None:
    """Drop the record of a batch; what the migrations of its tables left stays.

    Args:
        batch: schema and name of the record, as ``spirit-py status`` shows them.
        ask: before it is dropped.

    Raises:
        UsageFault: ``batch`` is no such name.
        Refusal: there is no such record; a process works on the batch; the answer was no.
        ServerFault: the server does not answer any more.
    """
    schema, dot, table = batch.rpartition(".")
    if not (schema and dot and table):
        raise UsageFault(
            f"--batch {batch} names no record of a batch",
            hint="write SCHEMA.TABLE, as spirit-py status shows its record",
        )
    with connect_first(options, role="cleanup", read_timeout=600) as session:
        require_one_server(session, options)
        store = BatchTable(schema, table)
        lock = lock_name("batch", table)
        if not take_named_lock(session, lock):
            holder = named_lock_holder(session, lock)
            raise Refusal(
                f"a process works on this batch now ({whose(session, holder)})",
                hint=f"stop it first, or let it finish; {NO_RUN_OF_OURS.format(holder)}",
                error_code=ErrorCode.ALREADY_RUNNING,
            )
        # Once nobody else can finish it or drop it.
        if store.name not in marked_tables(session, table):
            raise Refusal(
                f"there is no record {batch} of a batch",
                hint="see spirit-py status; a batch whose tables are all done has no record",
                error_code=ErrorCode.BATCH_RECORD,
            )
        for line in _lines(session, store):
            say(line)
        if not ask(f"Forget this batch, and drop {store}?"):
            raise Refusal(
                "nothing was dropped",
                hint="answer yes, or give --yes",
                error_code=ErrorCode.NOT_CONFIRMED,
            )
        store.drop(session)
        say(f"dropped {store}")


def _lines(session: SqlSession, store: BatchTable) -> Iterator[str]:
    """Yield what is forgotten with the record, and what stays."""
    try:
        record = store.read(session)
        tables = tuple(store.tables(session).values())
    except Refusal as refusal:
        yield f"{refusal.message}; which tables it has changed is unknown"
        return
    yield f"the record {store} says{f' of {record.asked}' if record else ''}:"
    yield from (f"  {one} {_state(session, one)}" for one in tables)
    if any(one.state != TableState.PENDING for one in tables):
        yield (
            "After this no command knows which tables are changed: the same one would change"
            " these again."
        )
    yield from _left(session, tables)


def _state(session: SqlSession, one: TableRecord) -> str:
    changed = one.state in {TableState.CHANGED, TableState.DONE}
    if changed or CheckpointTable(*one.name).is_ours(session):
        return one.state
    if one.state == TableState.RUNNING:
        return "running, and has no checkpoint: see its definition for whether it is changed"
    return one.state


def _left(session: SqlSession, tables: Iterable[TableRecord]) -> Iterator[str]:
    """Yield how to drop what the migrations left."""
    for one in tables:
        if CheckpointTable(*one.name).is_ours(session):
            yield (
                f"what the migration of {one} left stays: spirit-py cleanup --database"
                f" {one.schema} --table {one.table}"
            )

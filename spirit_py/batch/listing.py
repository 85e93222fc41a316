"""Batches that are not done: ``spirit-py status`` shows them, ``cleanup --batch`` forgets one."""

from __future__ import annotations

import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.batch.store import BatchTable, TableState, marked_tables
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import asdict, dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SpiritError, UsageFault
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder, take_named_lock
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.identity import doubtful, looked_at
from spirit_py.preflight.checks.other_writers import require_own_server, why_unseen
from spirit_py.table.names import lock_name
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.batch.store import TableRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name


@dataclass(frozen=True, kw_only=True)
class BatchShown:
    """One batch; ``unreadable`` says why there is no more to show.

    ``unseen``: why a process may work that this server does not show.
    """

    batch: str
    unreadable: str = ""
    asked: str = ""
    started_at: str = ""
    runs: int = 0
    worked_on_by: int | None = None
    unseen: str = ""
    tables: tuple[dict[str, str], ...] = ()

    @property
    def left(self) -> list[str]:
        """The tables that are not done."""
        return [one["table"] for one in self.tables if one["state"] != TableState.DONE]

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the same for people, a line each."""
        if self.unreadable:
            return [f"{self.batch}: {self.unreadable}"]
        states = Counter(one["state"] for one in self.tables)
        told = ", ".join(f"{states[state]} {state}" for state in TableState if states[state])
        now = self.unseen or "no process works on it now; the same command resumes"
        if self.worked_on_by is not None:
            now = f"a process works on it now (server session {self.worked_on_by})"
        runs = counted(self.runs, "run")
        return [
            f"batch of {counted(len(self.tables), 'table')} ({self.asked})",
            f"  begun      {self.started_at}, {runs}; its record is {self.batch}",
            f"  tables     {told}",
            *(f"             {_shown(one)}" for one in self.tables),
            f"  now        {now}",
        ]


def batches(options: ConnectionOptions, *, database: str, table: str) -> list[BatchShown]:
    """Return the batches that are not done; an empty ``database`` or ``table`` stands for all."""
    with connect_first(options, role="status", read_timeout=60) as session:
        marked = marked_tables(session)
        with doubtful(session):
            found = list(looked_at(marked, partial(_look, session), _unread))
    return [
        one
        for one in filter(None, found)
        if (one.unreadable and database in {"", one.batch.partition(".")[0]})
        or any(_belongs(each, database, table) for each in one.tables)
    ]


def _belongs(one: dict[str, str], database: str, table: str) -> bool:
    if table:
        return one["table"] == f"{database}.{table}"
    return not database or one["table"].startswith(f"{database}.")


def _look(session: Session, name: Name) -> BatchShown | None:
    store = BatchTable(*name)
    record = store.read(session)
    tables = tuple(store.tables(session).values())
    if record is None or record.home != name[0]:
        return None
    worker = named_lock_holder(session, lock_name("batch", name[1]))
    alone = worker is None
    return BatchShown(
        batch=str(store),
        asked=record.asked,
        started_at=record.started_at,
        runs=record.runs,
        worked_on_by=worker,
        unseen=why_unseen(session, name, noted=False) if alone else "",
        tables=tuple(
            {"table": str(one), "state": one.state, "outcome": one.outcome, "error": one.error}
            for one in tables
        ),
    )


def _unread(name: Name, error: SpiritError) -> BatchShown | None:
    return BatchShown(batch=str(BatchTable(*name)), unreadable=error.message)


def _shown(one: dict[str, str]) -> str:
    error = f": {one['outcome']}: {one['error']}" if one["error"] else ""
    return f"{one['table']} {one['state']}{error}"


def give_up_batch(
    options: ConnectionOptions,
    *,
    batch: str,
    ask: Callable[[str], bool],
    say: Callable[[str], object],
) -> None:
    """Drop the record of a batch, after asking; what the migrations of its tables left stays.

    ``batch`` is schema and name of the record. Raises UsageFault for no such name; Refusal where
    there is no such record, a process works on it, this is a replica, or the answer was no;
    ServerFault.
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
        # It comes by replication, also to a server that has begun it and is a replica by now.
        require_own_server(session, [store.name], noted=False)
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
    try:
        record = store.read(session)
        tables = tuple(store.tables(session).values())
    except Refusal as refusal:
        yield f"{refusal.message}; which tables it has changed is unknown"
        return
    yield f"the record {store} says{f' of {record.asked}' if record else ''}:"
    yield from (f"  {one} {_state(session, one)}" for one in tables)
    if record is not None and record.fleet:
        yield (
            "It is a part of a change for many servers, whose command would begin this one anew:"
            " spirit-py ctl --fleet LIST forget gives the whole up."
        )
    if any(one.state != TableState.PENDING for one in tables):
        yield (
            "After this no command knows which tables are changed: the same one would change"
            " these again."
        )
    for one in tables:
        if CheckpointTable(*one.name).is_ours(session):
            yield (
                f"what the migration of {one} left stays: spirit-py cleanup --database"
                f" {shlex.quote(one.schema)} --table {shlex.quote(one.table)}"
            )


def _state(session: SqlSession, one: TableRecord) -> str:
    if one.state == TableState.RUNNING and not CheckpointTable(*one.name).is_ours(session):
        return "running, and has no checkpoint: see its definition to know whether it is changed"
    return one.state

"""Looks at each batch that is not done, for ``spirit-py status``; read-only."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spirit_py.batch.record import TableState
from spirit_py.batch.store import BatchTable, marked_tables
from spirit_py.errors import Refusal, ServerFault
from spirit_py.locks.named import named_lock_holder
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.faults import connection_lost, server_away
from spirit_py.mysql.tables.marked import doubtful, holds_up
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Name


@dataclass(frozen=True, kw_only=True)
class BatchShown:
    """One batch.

    Attributes:
        batch: schema and name of the table that keeps it.
        unreadable: why there is no more to show; empty otherwise.
        worked_on_by: the server session of the process that works on it now; None without one.
        tables: for each its name, state, outcome and error.
    """

    batch: str
    unreadable: str = ""
    asked: str = ""
    started_at: str = ""
    runs: int = 0
    worked_on_by: int | None = None
    tables: tuple[dict[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the same for people, a line each."""
        if self.unreadable:
            return [f"{self.batch}: {self.unreadable}"]
        states = Counter(one["state"] for one in self.tables)
        counted = ", ".join(f"{states[state]} {state}" for state in TableState if states[state])
        now = "no process works on it now; the same command carries on"
        if self.worked_on_by is not None:
            now = f"a process works on it now (server session {self.worked_on_by})"
        return [
            f"batch of {len(self.tables)} tables ({self.asked})",
            f"  begun      {self.started_at}, {self.runs} run(s); its record is {self.batch}",
            f"  tables     {counted}",
            *(f"             {_shown(one)}" for one in self.tables),
            f"  now        {now}",
        ]


def batches(options: ConnectionOptions, *, database: str, table: str) -> list[BatchShown]:
    """Return the batches that are not done.

    Args:
        database: a batch must have a table in it; empty for all.
        table: the table; empty for all.

    Raises:
        ServerFault: the server does not answer any more.
        Refusal: the server cannot be reached.
    """
    with connect_first(options, role="status", read_timeout=60) as session:
        marked = marked_tables(session)
        with doubtful(session):
            found = list(_look(session, marked))
    return [
        one
        for one in found
        if (one.unreadable and database in {"", one.batch.partition(".")[0]})
        or any(_belongs(each, database, table) for each in one.tables)
    ]


def _belongs(one: dict[str, str], database: str, table: str) -> bool:
    if table:
        return one["table"] == f"{database}.{table}"
    return not database or one["table"].startswith(f"{database}.")


def _look(session: Session, marked: Iterable[Name]) -> Iterator[BatchShown]:
    held_up: set[str] = set()
    for name in marked:
        store = BatchTable(*name)
        if name[0] in held_up:
            why = "another table of its schema cannot be read"
            yield BatchShown(batch=str(store), unreadable=why)
            continue
        try:
            record = store.read(session)
            tables = tuple(store.tables(session).values())
        except (Refusal, ServerFault) as error:
            # Anybody may have made it (R26).
            if connection_lost(error) or server_away(error):
                raise
            if holds_up(error):
                held_up.add(name[0])
            yield BatchShown(batch=str(store), unreadable=error.message)
            continue
        if record is None or record.home != name[0]:
            continue
        yield BatchShown(
            batch=str(store),
            asked=record.asked,
            started_at=record.started_at,
            runs=record.runs,
            worked_on_by=named_lock_holder(session, lock_name("batch", name[1])),
            tables=tuple(
                {
                    "table": str(one),
                    "state": one.state,
                    "outcome": one.outcome,
                    "error": one.error,
                }
                for one in tables
            ),
        )


def _shown(one: dict[str, str]) -> str:
    error = f": {one['outcome']}: {one['error']}" if one["error"] else ""
    return f"{one['table']} {one['state']}{error}"

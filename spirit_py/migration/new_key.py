"""A foreign key that was added: every row has a parent, or the key is dropped again."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.attached.foreign_keys.added import OrphanSearch, index_for, wanted_key
from spirit_py.attached.foreign_keys.catalogue import Trial
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, SchemaChanged, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import RenewedSession, patiently
from spirit_py.mysql.tables.definition import read_table
from spirit_py.pace import Work, await_turn
from spirit_py.preflight.check import refusal_of, refuse
from spirit_py.units import human_count, of_about

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.statement import Clause

#: The limit of one query of the search.
_QUERY_SECONDS = 300


def try_key(session: SqlSession, context: PreflightContext, clause: Clause, building: str) -> None:
    """Try a foreign key between empty copies of both tables; Refusal with what the server says."""
    key = wanted_key(clause, (context.schema, context.table))
    trial = Trial(
        session=session, keys=(key,), new_tables={}, schema=context.schema, building=building
    )
    if found := [refuse(one.cause, one.remedy, code=ErrorCode.FOREIGN_KEY) for one in trial.run()]:
        raise refusal_of(found)


def prove_key(
    run: Run, context: PreflightContext, clause: Clause, drop: Callable[[], object]
) -> None:
    """Look at every row of the child; MigrationFailure for one without a parent, after ``drop``.

    A run that ends before the last row leaves the key; the same command looks at all rows again.
    """
    key = wanted_key(clause, (context.schema, context.table))
    options = run.config.connection
    held = RenewedSession(partial(connect, options, role="orphans", read_timeout=_QUERY_SECONDS))

    def turn(rows: int) -> None:
        await_turn(run.pace, Work.CHECKSUM, pause=run.stop.pause, show=run.show)
        run.stop.check()
        run.show(
            f"a look at each row: {human_count(rows)}{of_about(context.source.estimated_rows)}"
        )

    def ask(sql: str) -> Sequence[tuple[Any, ...]]:
        try:
            return held.session().query(sql)
        except ServerFault:
            held.close()
            raise

    def query(sql: str) -> Sequence[tuple[Any, ...]]:
        return patiently(partial(ask, sql), options, run.stop, tell=run.show)

    with contextlib.closing(held):
        child = read_table(held.session(), *key.child)
        index = None if child is None else index_for(child, key.columns)
        if child is None or index is None:
            raise SchemaChanged(
                f"another session changed {'.'.join(key.child)} before its rows were looked at",
                hint="see what was changed, then run the same command again",
            )
        found = OrphanSearch(query, key, child, index).run(turn)
    run.show("")
    if found:
        drop()
        raise MigrationFailure(
            f"{key} was dropped again: a row of the child has no parent, with"
            f" ({', '.join(key.columns)}) = ({', '.join(found)})",
            hint="give it a parent, change it, or delete it; then run the same command again",
            error_code=ErrorCode.FOREIGN_KEY,
        )

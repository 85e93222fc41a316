"""A foreign key that was added: every row has a parent, or the key is dropped again."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py import errors, points
from spirit_py.attached.foreign_keys.added import OrphanSearch, index_for
from spirit_py.attached.foreign_keys.catalogue import Trial
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.codes import ErrorCode
from spirit_py.migration.facts import PlainFact
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import RenewedSession, patiently
from spirit_py.mysql.tables.definition import read_table
from spirit_py.pace import Work, await_turn
from spirit_py.preflight.check import refusal_of, refuse
from spirit_py.units import human_count, of_about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.attached.foreign_keys.added import KeyProof
    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.threads import StopSwitch

#: The limit of one query of the search, which reads all rows of one value.
_QUERY_SECONDS = 86_400
_STAYS = "the foreign key is there; the same command looks at all rows again"


def try_key(session: SqlSession, context: PreflightContext, key: ForeignKey) -> None:
    """Try a foreign key between empty copies of both tables; Refusal with what the server says."""
    building = read_proofs(session, context.schema, context.table).building
    trial = Trial(
        session=session, keys=(key,), new_tables={}, schema=context.schema, building=building
    )
    if found := [refuse(one.cause, one.remedy, code=ErrorCode.FOREIGN_KEY) for one in trial.run()]:
        raise refusal_of(found)


def prove_key(
    run: Run, context: PreflightContext, proof: KeyProof, drop: Callable[[], object] | None
) -> None:
    """Look at every row of the child; KeyNotProven for one without a parent.

    ``drop`` drops a key that this program has added; another one stays. A run that ends before the
    last row leaves key and record; the same command looks at all rows again.
    """
    key, options = proof.wanted, run.config.connection
    if drop is not None:
        run.note(PlainFact.RECORD_STAYS)
    run.note(PlainFact.KEY_UNPROVEN)
    held = RenewedSession(partial(connect, options, role="orphans", read_timeout=_QUERY_SECONDS))

    def turn(rows: int) -> None:
        points.reach("orphans.chunk")
        await_turn(run.pace, Work.CHECKSUM, pause=run.stop.pause, show=run.show)
        run.stop.check()
        run.show(
            f"a look at each row: {human_count(rows)}{of_about(context.source.estimated_rows)}"
        )

    def query(sql: str) -> Sequence[tuple[Any, ...]]:
        def ask() -> Sequence[tuple[Any, ...]]:
            return held.ask(lambda session: session.query(sql))

        return patiently(ask, options, run.stop, tell=run.show)

    with _said_to_stay(run.stop), throttled(run, Work.CHECKSUM), contextlib.closing(held):
        child = read_table(held.session(), *key.child)
        index = None if child is None else index_for(child, key.columns)
        if child is not None and index is not None:
            found = OrphanSearch(query, key, child, index).run(turn)
        if child is None or index is None or not proof.is_there(held.session()):
            raise errors.SchemaChanged(
                f"{key} is not there any more: another session changed {'.'.join(key.child)} while"
                " its rows were looked at",
                hint="see what was changed, then run the same command again",
            )
    run.show("")
    if not found:
        return
    orphan = f"a row of {'.'.join(key.child)} has no parent in {'.'.join(key.parent)}, with"
    orphan += f" ({', '.join(key.columns)}) = ({', '.join(found)})"
    mend = "give it a parent, change it, or delete it"
    if drop is None:
        raise errors.KeyNotProven(
            f"{orphan}; {key} was there before this command, and stays",
            hint=f"{mend}: it was written with foreign_key_checks=0, or the key was added so",
        )
    points.reach("orphans.dropping")
    try:
        drop()
    except errors.SpiritError as error:
        cause = run.stop.cause_of(error)
        if isinstance(cause, errors.Interrupted):
            raise cause.saying(f"{orphan}: {mend}; {_STAYS}") from error
        left = errors.MigrationFailure(
            f"{orphan}, and {key}, which is there, could not be dropped again: {cause}",
            hint=f"{mend}; then run the same command again, which looks at all rows",
            error_code=ErrorCode.FOREIGN_KEY,
        )
        left.says_done = True
        raise left from error
    raise errors.KeyNotProven(
        f"{key} was dropped again: {orphan}", hint=f"{mend}; then run the same command again"
    )


@contextlib.contextmanager
def _said_to_stay(stop: StopSwitch) -> Iterator[None]:
    """Have what ends the look, a stop as well, say that the key is there."""
    try:
        yield
    except errors.SchemaChanged:
        raise
    except errors.SpiritError as error:
        cause = stop.cause_of(error)
        if isinstance(cause, errors.Interrupted):
            raise cause.saying(_STAYS) from error
        if isinstance(cause, errors.SpiritError):
            cause.hint = "; ".join(filter(None, (cause.hint, _STAYS)))
        raise

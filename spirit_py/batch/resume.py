"""What is done with a table whose migration an earlier run has begun."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spirit_py.batch.record import TableState
from spirit_py.checkpoint.look import old_table_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.mysql.tables.trial import made_of, trial_session
from spirit_py.statement.temporary_form import FOREIGN_KEY

if TYPE_CHECKING:
    from spirit_py.batch.changes import TableChange
    from spirit_py.batch.record import TableRecord
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession


class Step(Enum):
    """What is done with a table."""

    MIGRATE = auto()
    """Begin its migration, or carry on with it."""
    PASS = auto()
    """Nothing: it is done."""
    LOOK = auto()
    """Nothing: another session may have changed it, and the operator must look."""


def step_for(
    session: SqlSession, each: MigrationConfig, record: TableRecord, change: TableChange
) -> Step:
    """Return what is done with a table.

    A run that was killed in the moment in which the server changed the table in place has no
    checkpoint, and did not note the end. Such a change is nothing but one of the definition: where
    the definition is now what the statement makes of the one from before, the change is done.
    """
    state = TableState(record.state)
    if state is TableState.DONE:
        return Step.PASS
    if CheckpointTable(*record.name).is_ours(session):
        old = old_table_of(session, record.name)
        kept = state is TableState.CHANGED and old is not None and old.finished
        return Step.PASS if kept else Step.MIGRATE
    if state is TableState.CHANGED:
        return Step.PASS
    if state is TableState.PENDING or not record.before:
        return Step.MIGRATE
    now = read_shape(session, *record.name)
    if now == record.before:
        return Step.MIGRATE
    made = _made_of(each, record, change)
    return Step.PASS if _same(made, now, record.before) else Step.LOOK


def _same(made: str, now: str, before: str) -> bool:
    """Return whether the definition is what was made of the one from before, without its keys.

    The foreign keys are then those from before.
    """
    keys = [FOREIGN_KEY.findall(text) for text in (now, before)]
    return FOREIGN_KEY.sub("", now) == made and keys[0] == keys[1]


def _made_of(each: MigrationConfig, record: TableRecord, change: TableChange) -> str:
    """Return what the statement makes of the definition from before; empty where that is unknown.

    The temporary table has no foreign keys; nor can it have partitions.
    """
    with trial_session(each) as session:
        return made_of(session, record.name, record.before, change.clauses).shape

"""What is done with a table whose migration an earlier run has begun."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spirit_py.batch.record import TableState, form_of
from spirit_py.batch.trial import made_of, trial_session
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.mysql.tables.definition import read_shape

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


def step_for(session: SqlSession, record: TableRecord) -> Step:
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
    now = form_of(read_shape(session, *record.name))
    if now == record.before:
        return Step.MIGRATE
    return Step.PASS if now == record.after else Step.LOOK


def forms_of(session: SqlSession, each: MigrationConfig, change: TableChange) -> tuple[str, str]:
    """Return the forms of a table's definition, and of what the statement makes of it.

    The second is empty where it is unknown: the temporary table on which it is tried has no
    partitions. Its foreign keys are those from before.
    """
    before = read_shape(session, *change.name)
    with trial_session(each) as trial:
        made = made_of(trial, change.name, before, change.clauses).shape
    return form_of(before), form_of(made, before) if made else ""

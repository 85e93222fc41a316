"""What a statement makes of a definition: the server's own answer, on an empty temporary table.

Only this session sees that table, the binlog has nothing of it; it has no foreign keys or
partitions.
"""

from __future__ import annotations

import contextlib
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from spirit_py.batch.store import TableState, form_of
from spirit_py.checkpoint.examination import old_table_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass
from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import choose_modes, server_refusal, under_modes
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.preflight.clauses import TAKES_ROWS
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement import ClauseKind, alter_of
from spirit_py.statement.rewrite import FOREIGN_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.batch.changes import TableChange
    from spirit_py.batch.store import TableRecord
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.errors import Refusal
    from spirit_py.mysql.session import Session
    from spirit_py.statement.model import Clause
    from spirit_py.table.names import Name

_CREATE: Final = "CREATE TABLE "
_TEMPORARY: Final = "CREATE TEMPORARY TABLE "
#: Those of which the definition is the whole cause, whatever modes the session has.
_CERTAIN: Final = frozenset(
    {
        1054,  # no such column
        1060,  # a column's name twice
        1061,  # a key's name twice
        1064,  # syntax
        1068,  # a second primary key
        1072,  # a key of a column that is not there
        1091,  # nothing of that name to drop
        1115,  # no such character set
        1176,  # no key of that name
        1253,  # a collation of another character set
        1273,  # no such collation
    }
)
#: Of a clause that was executed before.
_THERE: Final = frozenset({1060, 1061, 1068, 1091})
#: They are about what the temporary table lacks.
_KEYS: Final = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT, ClauseKind.ADD_FOREIGN_KEY)
#: They rebuild, or are about how it is done.
_TRACELESS: Final = (ClauseKind.FORCE, ClauseKind.OPTION, ClauseKind.VALIDATION)
_UNLIKE: Final = frozenset({*_KEYS, *TAKES_ROWS})


@dataclass(frozen=True, kw_only=True)
class Made:
    """What the statement made: ``shape`` has no foreign keys; ``fault`` is the server's error."""

    shape: str = ""
    fault: ServerFault | None = None


@contextlib.contextmanager
def trial_session(each: MigrationConfig) -> Iterator[Session]:
    """Open a session in which statements mean what they mean in a migration."""
    with connect(each.connection, role="batch", native=True) as session:
        choose_modes(session, under_modes(session, read_facts(session), each.modes))
        yield session


def made_of(session: Session, name: Name, definition: str, clauses: str) -> Made:
    """Return what clauses make of a definition, on an empty table that is dropped again."""
    quoted = quote_table(*name)
    own = f"{_CREATE}{quote_identifier(name[1])}"
    if not definition.startswith(own):
        return Made()
    without_keys = FOREIGN_KEY.sub("", definition)
    created = False
    try:
        session.execute(f"{_TEMPORARY}{quoted}{without_keys.removeprefix(own)}")
        created = True
        session.execute(f"ALTER TABLE {quoted} {clauses}")
        return Made(shape=read_shape(session, *name).replace(_TEMPORARY, _CREATE, 1))
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return Made(fault=fault) if created else Made()
    finally:
        if created:
            with contextlib.suppress(ServerFault):
                session.execute(f"DROP TEMPORARY TABLE IF EXISTS {quoted}")


class Trace(Enum):
    """What a definition shows of whether a statement was executed."""

    MADE = auto()
    """It was: every clause has left what it makes."""
    MISSING = auto()
    """It was not, or not whole."""
    NONE = auto()
    """Nothing: the statement makes nothing of any definition."""


def trace_of(each: MigrationConfig, change: TableChange) -> Trace:
    """Return what a table's definition shows of a statement, clause by clause."""
    with trial_session(each) as trial:
        shape = read_shape(trial, *change.name)
        mode = str(trial.query("SELECT @@SESSION.sql_mode")[0][0])
        seen = False
        for clause in alter_of(*change.name, change.clauses, sql_mode=mode).parsed:
            made = made_of(trial, change.name, shape, clause.normalized)
            if made.fault is None and made.shape and form_of(made.shape, shape) == form_of(shape):
                seen |= clause.kind not in _TRACELESS and not each.modes.keep
            elif made.fault is not None and made.fault.code in _THERE:
                seen = seen or not each.modes.keep
            else:
                return Trace.MISSING
        return Trace.MADE if seen else Trace.NONE


def refused_in_trial(
    session: Session, name: Name, definition: str, clauses: str, parsed: Sequence[Clause]
) -> Refusal | None:
    """Return why the server would refuse the statement; None where it would not, or may not."""
    if any(clause.kind in _UNLIKE for clause in parsed):
        return None
    fault = made_of(session, name, definition, clauses).fault
    if fault is None or fault.code not in _CERTAIN:
        return None
    return server_refusal(fault, "the ALTER")


class Step(Enum):
    """What is done with a table."""

    MIGRATE = auto()
    """Begin its migration, or resume it."""
    PASS = auto()
    """Nothing: it is done."""
    LOOK = auto()
    """Nothing: another session may have changed it, and the operator must look."""


def step_for(session: SqlSession, record: TableRecord) -> Step:
    """Return what is done with a table.

    A run killed while the server changed the table in place has no checkpoint and no note of the
    end: it is done where the definition is now what the statement makes of the earlier one.
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

    The second is empty where it is unknown: a temporary table has no partitions. Its foreign keys
    are those from before.
    """
    before = read_shape(session, *change.name)
    with trial_session(each) as trial:
        made = made_of(trial, change.name, before, change.clauses).shape
    return form_of(before), form_of(made, before) if made else ""

"""What a statement makes of a definition: the server's own answer, on an empty temporary table.

Only this session sees that table, the binlog has nothing of it; it has no foreign keys or
partitions.
"""

from __future__ import annotations

import contextlib
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from spirit_py.attached.record import AttachmentsNote
from spirit_py.batch.store import TableState, form_of
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.drop import drop_auxiliary
from spirit_py.checkpoint.examination import find_record, old_table_of
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass
from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import as_shown, choose_modes, server_refusal, under_modes
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.preflight.clauses import TAKES_ROWS
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement import ClauseKind, alter_of
from spirit_py.statement.cursor import Cursor, text_of
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.statement.rewrite import (
    FOREIGN_KEY,
    PARTITIONING,
    names_of,
    without_partitions,
    written,
)

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
#: Nothing of that name to drop.
_GONE: Final = frozenset({1091, 3821, 3940})
#: What a clause adds has its name already: the key of a table has none.
_COLUMN, _INDEX, _PRIMARY, _CHECK = 1060, 1061, 1068, 3822
#: What a clause renames is not there.
_NO_COLUMN, _NO_INDEX = 1054, 1176
#: What has its name again: the clause that adds it shows more.
_ADDED_AGAIN: Final = {
    ClauseKind.DROP_COLUMN: (ClauseKind.ADD_COLUMN,),
    ClauseKind.DROP_INDEX: (ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE),
    ClauseKind.DROP_PRIMARY_KEY: (ClauseKind.ADD_PRIMARY_KEY,),
    ClauseKind.DROP_CHECK: (ClauseKind.ADD_CHECK,),
    ClauseKind.DROP_CONSTRAINT: (ClauseKind.ADD_CHECK,),
}
#: In the definition of a column they add more than the column.
_MORE: Final = frozenset({"UNIQUE", "PRIMARY", "KEY", "CHECK"})
#: They are about what the temporary table lacks.
_KEYS: Final = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT, ClauseKind.ADD_FOREIGN_KEY)
_DROPS_KEY: Final = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT)
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
    own = f"{_CREATE}{quote_identifier(name[1])} "
    if not definition.startswith(own):
        return Made()
    without_keys = FOREIGN_KEY.sub("", definition)
    created = False
    try:
        with as_shown(session):
            session.execute(f"{_TEMPORARY}{quoted} {without_keys.removeprefix(own)}")
        created = True
        session.execute(f"ALTER TABLE {quoted} {clauses}")
        with as_shown(session):
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
    """Nothing: it makes nothing of any definition, or what it makes cannot be seen."""


def trace_of(each: MigrationConfig, change: TableChange) -> Trace:
    """Return what a table's definition shows of a statement, clause by clause."""
    with trial_session(each) as trial:
        with as_shown(trial):
            shape = without_partitions(read_shape(trial, *change.name))
        mode = str(trial.query("SELECT @@SESSION.sql_mode")[0][0])
        statement = alter_of(*change.name, change.clauses, sql_mode=mode)
        if statement.second_time or statement.of_kind(*PARTITIONING):
            return Trace.NONE
        keys = names_of(FOREIGN_KEY.findall(shape))
        found = {
            _trace(trial, change.name, shape, one, keys)
            for one in statement.parsed
            if not any(
                each.name.lower() == one.name.lower()
                for each in statement.of_kind(*_ADDED_AGAIN.get(one.kind, ()))
            )
        }
    if Trace.MISSING in found:
        return Trace.MISSING
    return Trace.NONE if each.modes.keep or None in found or found == {Trace.NONE} else Trace.MADE


def _trace(
    trial: Session, name: Name, shape: str, clause: Clause, keys: frozenset[str]
) -> Trace | None:
    """Return what shows of one clause; None where that cannot be known."""
    if clause.kind in {ClauseKind.FORCE, ClauseKind.VALIDATION}:
        return Trace.NONE
    if clause.kind in _DROPS_KEY and clause.name.lower() in keys:
        return Trace.MISSING
    made = made_of(trial, name, shape, written(clause))
    if made.shape and form_of(made.shape, shape) == form_of(shape):
        return Trace.NONE if clause.kind is ClauseKind.OPTION else Trace.MADE
    if made.fault is None:
        return Trace.MISSING if made.shape else None
    if made.fault.code in _GONE:
        return Trace.MADE
    if (made.fault.code, clause.kind) in _DEFINED:
        mode = str(trial.query("SELECT @@SESSION.sql_mode")[0][0])
        tokens = tokenize(clause.text, SqlMode.of(mode))
        if any(token.upper in _MORE for token in tokens):
            return None
        again = _as_it_is(Cursor(clause.text, tokens))
    elif not (again := _again(clause, made.fault.code)):
        return Trace.MISSING
    # By the name alone nothing is known (R26); an index that is made anew is the last one.
    made = made_of(trial, name, shape, again)
    if sorted(_lines(made.shape)) != sorted(_lines(FOREIGN_KEY.sub("", shape))):
        return Trace.MISSING
    # Whatever has the new name fits, also one that never had the old one.
    return Trace.NONE if clause.kind in _RENAMES else Trace.MADE


_RENAMES: Final = (ClauseKind.RENAME_COLUMN, ClauseKind.RENAME_INDEX)
_DEFINED: Final = ((_COLUMN, ClauseKind.ADD_COLUMN), (_NO_COLUMN, ClauseKind.CHANGE_COLUMN))


def _lines(shape: str) -> list[str]:
    return [line.removesuffix(",") for line in shape.split("\n")]


def _again(clause: Clause, code: int | None) -> str:
    """Return what makes anew what a clause adds or renames, where it is there; empty if not."""
    adds, name = written(clause), quote_identifier(clause.name or "PRIMARY")
    if code == _INDEX and clause.kind in {ClauseKind.ADD_INDEX, ClauseKind.ADD_UNIQUE}:
        return f"DROP INDEX {name}, {adds}"
    if code == _PRIMARY and clause.kind is ClauseKind.ADD_PRIMARY_KEY:
        return f"DROP PRIMARY KEY, {adds}"
    if code == _CHECK and clause.kind is ClauseKind.ADD_CHECK:
        return f"DROP CHECK {name}, {adds}"
    new = quote_identifier(clause.new_name or "_")
    if code == _NO_COLUMN and clause.kind is ClauseKind.RENAME_COLUMN:
        return f"RENAME COLUMN {new} TO {new}"
    if code == _NO_INDEX and clause.kind is ClauseKind.RENAME_INDEX:
        return f"RENAME INDEX {new} TO {new}"
    return ""


def _as_it_is(cursor: Cursor) -> str:
    """Return what gives a column in its place the definition that a clause gives it."""
    changed = not cursor.take("ADD") and cursor.take("CHANGE")
    cursor.take("COLUMN")
    if changed:
        cursor.name("the column's old name")
    name, tokens = cursor.name("the column's new name"), cursor.rest()
    if tokens[-1].upper == "FIRST":
        tokens = tokens[:-1]
    elif tokens[-2:][0].upper == "AFTER":
        tokens = tokens[:-2]
    return f"MODIFY COLUMN {quote_identifier(name)} {text_of(cursor.sql, tokens)}"


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


def step_for(session: SqlSession, record: TableRecord, *, once: bool = False) -> Step:
    """Return what is done with a table; ``once``: the statement may not be made twice.

    A run killed while the server changed the table in place has no note of the end, and perhaps no
    checkpoint: it is done where the definition is now what the statement makes of the earlier one.
    """
    state = TableState(record.state)
    if state is TableState.DONE:
        return Step.PASS
    if CheckpointTable(*record.name).is_ours(session):
        if is_made_in_place(session, record):
            return Step.PASS
        old = old_table_of(session, record.name)
        done = (old is not None and old.finished) or not _is_its_own(session, record)
        return Step.PASS if state is TableState.CHANGED and done else Step.MIGRATE
    if state is TableState.CHANGED:
        return Step.PASS
    if state is TableState.PENDING or not record.before:
        return Step.MIGRATE
    now = form_of(read_shape(session, *record.name))
    if now == record.before:
        # Its own command may have finished it, or the checkpoint was dropped: no definition tells.
        return Step.LOOK if once and record.after in {"", now} else Step.MIGRATE
    return Step.PASS if now == record.after else Step.LOOK


def is_back(session: SqlSession, record: TableRecord) -> bool:
    """Return whether a table that counts as changed shows the definition from before again."""
    changed = record.state in {TableState.CHANGED, TableState.DONE}
    if not changed or record.after in {"", record.before}:
        return False
    with contextlib.suppress(ServerFault):
        return form_of(read_shape(session, *record.name)) == record.before
    return False


def is_begun(session: SqlSession, record: TableRecord) -> bool:
    """Return whether a table has a checkpoint that may be of this statement."""
    return CheckpointTable(*record.name).is_ours(session) and _is_its_own(session, record)


def is_made_in_place(session: SqlSession, record: TableRecord) -> bool:
    """Return whether there is a checkpoint of this statement, which the server has made itself.

    It tells nothing of that, and copied nothing: it has no position.
    """
    if record.state == TableState.DONE or not CheckpointTable(*record.name).is_ours(session):
        return False
    found = None
    with contextlib.suppress(UnreadableCheckpoint):
        found = find_record(session, record.name).record
    if found is None or found.position or found.statement != record.statement:
        return False
    if record.state == TableState.CHANGED:
        return True
    if record.state != TableState.RUNNING or record.before == record.after:
        return False
    return form_of(read_shape(session, *record.name)) == record.after


def drop_made_in_place(session: SqlSession, record: TableRecord) -> str:
    """Drop the checkpoint that is left beside such a table; return what stays, and why."""
    return drop_auxiliary(session, *record.name) if is_made_in_place(session, record) else ""


def _is_its_own(session: SqlSession, record: TableRecord) -> bool:
    """Return whether a table's checkpoint may be of this statement, and not of a later change.

    One that cannot be read is refused in the table's turn; one without a row began later.
    """
    try:
        found = find_record(session, record.name).record
    except UnreadableCheckpoint:
        table = CheckpointTable(*record.name)
        # An unfinished change, whose statement cannot be told.
        rows = table.has(session, CheckpointRecord) or table.has(session, AttachmentsNote)
        return rows or bool(table.unreadable(session))
    return found is not None and found.statement == record.statement


def forms_of(session: SqlSession, each: MigrationConfig, change: TableChange) -> tuple[str, str]:
    """Return the forms of a table's definition, and of what the statement makes of it.

    The second is empty where it is unknown: a temporary table has no partitions. Its foreign keys
    are those from before.
    """
    before = read_shape(session, *change.name)
    with trial_session(each) as trial:
        made = made_of(trial, change.name, before, change.clauses).shape
    return form_of(before), form_of(made, before) if made else ""

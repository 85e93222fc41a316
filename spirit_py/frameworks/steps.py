"""What a framework's migration has made, and its own table of versions, swapped in one RENAME.

MySQL cannot roll back DDL, so a step for each statement is kept in a table, with the form of the
definition before and after. A step counts as made only where the table has the form that it or a
later one left. Of a row names and values alone reach the server, quoted by the framework
(:class:`Answers`), and who can write one can also write the framework's own table (R26). A second
version table is prepared with the noted rows, both are proven under the lock (R24, R25), and one
RENAME swaps it with the tables of the migration: so tables and version change at one moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from spirit_py import points
from spirit_py.checkpoint.codec import UnreadableCheckpoint, from_text, to_text
from spirit_py.checkpoint.examination import find_record, old_table_of
from spirit_py.checkpoint.proofs import proofs_here, proven
from spirit_py.checkpoint.table import CheckpointTable, checkpoint_tables
from spirit_py.checkpoint.writer import normal_form
from spirit_py.classes import InitVar, astuple, dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SpiritError
from spirit_py.frameworks.connecting import code_of
from spirit_py.frameworks.online import GONE_BY_ITSELF, NO_LIMIT
from spirit_py.locks.named import LAST_RUN_SECONDS, named_lock_holder
from spirit_py.mysql.faults import NAMED_DEADLOCK
from spirit_py.mysql.tables.identity import Identity, has_mark, identity
from spirit_py.sql import comment_literal, quote_identifier, quote_table
from spirit_py.statement import parse_statement
from spirit_py.table.names import AuxiliaryNames, Name, Swap, is_building_name, lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.frameworks.online import FrameworkSession, SessionFacts, Settle

_MARK: Final = "spirit-py: statements of a migration that is under way"
_MOST: Final = 10_000
_LONGEST: Final = 1 << 20
#: The row of the framework's own table.
_VERSIONS: Final = -1
#: A name has 64 at most.
_LETTERS: Final = 48
_Row = TypeVar("_Row")


@dataclass(frozen=True, kw_only=True)
class RevisionStep:
    """A statement of a migration.

    ``history`` is the scope of the migration with a digest of what the framework noted of it
    before; ``number`` counts what is kept. ``before`` and ``after`` are forms of the definition:
    the first may be :data:`ABSENT`, the other empty. ``answers`` are what the framework was told
    before it (:class:`Answers`), ``lost`` the lines of the definition that the statement drops.
    """

    history: str
    number: int
    table: str
    statement: str
    before: str
    after: str
    made: bool
    answers: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class Answers:
    """What a framework asks before a statement that it derives from the answers.

    After a stop it is told what it was told before, so that it derives the same statements. Whoever
    can write a row of it can choose values and names, which the framework quotes (R26).
    """

    def __init__(self) -> None:
        self.given: tuple[str, ...] = ()

    def again(self, question: object, noted: Iterable[str], ask: Callable[[], Any]) -> Any:
        """Return the noted answer to a question that is asked as often as before, or a new one."""
        key = digest(question)
        count = sum(json.loads(one)[0] == key for one in self.given)
        known = [found for found in map(json.loads, noted) if found[0] == key]
        answer = known[count][1] if count < len(known) else ask()
        # One that is no plain value, such as bytes, is asked for each time.
        with contextlib.suppress(TypeError):
            self.given = (*self.given, json.dumps([key, answer]))
        return answer

    def take(self) -> tuple[str, ...]:
        """Return what was answered since this was called last."""
        given, self.given = self.given, ()
        return given


@dataclass(frozen=True, kw_only=True)
class NotedVersions:
    """The framework's own table ``before`` and ``after`` the RENAME with ``tables``."""

    before: Identity
    after: Identity
    tables: tuple[Name, ...]


def digest(value: object) -> str:
    """Return a digest of plain values: the same for equal ones."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]


def same_form(one: str, other: str) -> bool:
    """Return whether forms of a definition share a digest: a parent may have another name."""
    return not set(one.split()).isdisjoint(other.split())


def made_of(steps: list[RevisionStep], form: str) -> int:
    """Return how many steps of a table are made, by its form; -1 where others have changed it."""
    made = 0 if not steps or same_form(steps[0].before, form) else -1
    for number, step in enumerate(steps, start=1):
        if not step.made and same_form(step.before, form):
            # What has no step came between.
            made = number - 1
        changes = step.made or not same_form(step.before, step.after)
        if changes and same_form(step.after, form):
            made = number
        if not step.made:
            break
    return made


def as_text(value: object) -> str:
    """Return a text that a driver may return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def refusal(message: str, *, hint: str, error_code: ErrorCode | None = None) -> Refusal:
    """Return a Refusal whose traceback ends with the next step."""
    error = Refusal(message, hint=hint, error_code=error_code)
    add_notes(error)
    return error


def add_notes(error: SpiritError) -> None:
    """Have the traceback of an error end with its details and the next step."""
    shown = getattr(error, "__notes__", ())
    for line in (*error.details, error.hint and f"hint: {error.hint}"):
        if line and line not in shown:
            error.add_note(line)


def _name_of_steps(versions: Name) -> str:
    """Return the name of what is kept for a version table; one of another schema has its own."""
    schema, name = versions
    other = f"_{digest(schema)[:8]}" if schema else ""
    return f"_{name[:_LETTERS]}{other}_steps"


class StepTable:
    """Keeps the steps in a table of their own."""

    def __init__(
        self, session: Callable[[], FrameworkSession | SqlSession], versions: Name
    ) -> None:
        self._session = session
        self.name, self._versions = _name_of_steps(versions), versions[1]
        self._default, self._home = "", versions[0]
        self._held = False
        self.exists = False

    @property
    def _schema(self) -> str:
        return self._default or self._home

    @property
    def _lock(self) -> str:
        return lock_name("steps", self._schema.lower(), self.name.lower())

    def hold(self) -> bool:
        """Keep others from the steps until they are dropped or released; False where one does.

        Nor are they of the session any more where that has left their schema (USE). A holder that
        waits for what this session has read, which the server calls a deadlock, is another.
        """
        sql = (
            "SELECT COALESCE(DATABASE(), '') = %s"
            " AND (COALESCE(IS_USED_LOCK(%s) = CONNECTION_ID(), 0) OR GET_LOCK(%s, %s))"
        )
        try:
            ((held,),) = self._session().query(
                sql, (self._default, self._lock, self._lock, int(LAST_RUN_SECONDS))
            )
        except Exception as error:
            if code_of(error) != NAMED_DEADLOCK:
                raise
            held = 0
        self._held = bool(held)
        return self._held

    def held_by_another(self) -> Refusal:
        """Return what is raised where :meth:`hold` returns False."""
        holder = named_lock_holder(cast("SqlSession", self._session()), self._lock)
        number = "" if holder is None else f" (server session {holder})"
        ends = "" if holder is None else f"; {GONE_BY_ITSELF.format(holder)}"
        return refusal(
            f"another process works on a migration that {self._versions} is to note, or has ended"
            f" it just now{number}",
            hint=f"run the same command again when it has ended{ends}",
            error_code=ErrorCode.ALREADY_RUNNING,
        )

    def release(self) -> None:
        """Let others have the steps; a session that is lost has no lock any more."""
        if self._held:
            self._held = False
            with contextlib.suppress(Exception):
                self._session().query("DO RELEASE_LOCK(%s)", (self._lock,))

    def read(self, schema: str) -> list[RevisionStep]:
        """Return the steps that a run has left, none of a foreign table; Refusal if unreadable.

        Without a default ``schema`` they are beside the version table.
        """
        self._default = schema
        session = cast("SqlSession", self._session())
        self.exists = has_mark(session, (self._schema, self.name), _MARK)
        return self._rows("id >= 0", RevisionStep) if self.exists else []

    def versions(self) -> NotedVersions | None:
        """Return what an exchange of the framework's own table has noted, or None; or Refusal."""
        found = self._rows(f"id = {_VERSIONS}", NotedVersions) if self.exists else []
        return found[0] if found else None

    def _rows(self, which: str, kind: type[_Row]) -> list[_Row]:
        rows = self._session().query(
            f"SELECT LEFT(record, {_LONGEST}) FROM {self._quoted} WHERE {which} ORDER BY id"
            f" LIMIT {_MOST}"
        )
        try:
            return [from_text(as_text(record), kind) for (record,) in rows]
        except UnreadableCheckpoint as error:
            # Without them every statement would be executed again.
            raise Refusal(
                f"what an earlier run noted in {self._schema}.{self.name} cannot be read: {error}",
                hint="finish the migrations with the version of spirit-py that began them; where"
                " all are finished, or to execute all their statements again: DELETE FROM"
                f" {self._quoted} WHERE {which}",
                error_code=ErrorCode.CHECKPOINT_UNREADABLE,
            ) from error

    def write_versions(self, noted: NotedVersions) -> None:
        """Note what is exchanged with the tables of the migration."""
        self._replace(f"id = {_VERSIONS}", [(_VERSIONS, to_text(noted))])

    def forget_versions(self) -> None:
        """Forget what was exchanged; without steps of other migrations, drop the table."""
        self._replace(f"id = {_VERSIONS}", [])
        if not self._session().query(f"SELECT 1 FROM {self._quoted} LIMIT 1"):
            self.drop()

    def write(self, steps: list[RevisionStep]) -> None:
        """Replace the steps by these."""
        self._replace("id >= 0", [(step.number, to_text(step)) for step in steps])

    def _replace(self, which: str, rows: list[tuple[Any, ...]]) -> None:
        if not self.exists:
            self._session().query(
                f"CREATE TABLE {self._quoted} (id INT NOT NULL PRIMARY KEY,"
                " record LONGTEXT CHARACTER SET utf8mb4 NOT NULL)"
                f" ENGINE=InnoDB COMMENT={comment_literal(_MARK)}"
            )
            self.exists = True
        session = self._session()
        into = self._quoted.replace("%", "%%")
        session.query("BEGIN")
        try:
            session.query(f"DELETE FROM {self._quoted} WHERE {which}")
            for row in rows:
                session.query(f"INSERT INTO {into} (id, record) VALUES (%s, %s)", row)
            session.query("COMMIT")
        except BaseException:
            # A program that goes on would commit the DELETE with what it sends next.
            with contextlib.suppress(Exception):
                session.query("ROLLBACK")
            raise

    def drop(self) -> None:
        """Drop the table, if there is one, and let others have the next."""
        if self.exists:
            self._session().query(f"DROP TABLE IF EXISTS {self._quoted}")
            self.exists = False
        self.release()

    @property
    def _quoted(self) -> str:
        return quote_table(self._schema, self.name)


_VERSIONS_MARK: Final = "spirit-py: what a migration notes"
_ENGINE_AND_COMMENT: Final = """
SELECT ENGINE, TABLE_COMMENT, CREATE_OPTIONS FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND TABLE_TYPE = 'BASE TABLE'"""
_ATTACHED: Final = """
SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s
UNION ALL SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE %s IN (UNIQUE_CONSTRAINT_SCHEMA, CONSTRAINT_SCHEMA)
AND %s IN (REFERENCED_TABLE_NAME, TABLE_NAME)"""
_COLUMNS: Final = f"""
SELECT COLUMN_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION {NO_LIMIT}"""


@dataclass(frozen=True, kw_only=True)
class VersionChange:
    """A row that the framework would write; ``sql`` has ``{table}`` and ``%s`` for parameters."""

    sql: str
    parameters: tuple[str, ...]


def version_rows(session: SqlSession, table: Name) -> tuple[str, ...]:
    """Return the rows of a table as text, in whatever order they are in, sorted."""
    columns = [str(name) for (name,) in session.query(_COLUMNS, table)]
    shown = ", ".join(
        f"COALESCE(HEX(CAST({quote_identifier(name)} AS BINARY)), '-')" for name in columns
    )
    rows = session.query(f"SELECT CONCAT_WS('|', {shown}) FROM {quote_table(*table)} {NO_LIMIT}")
    return tuple(sorted(as_text(row) for (row,) in rows))


@dataclass(eq=False)
class VersionSwap:
    """The version table in the swap of a migration (:class:`~spirit_py.contracts.SwappedAlong`)."""

    table: InitVar[Name]
    changes: Sequence[VersionChange]
    rows: tuple[str, ...]
    tables: tuple[Name, ...]
    home: str

    def __post_init__(self, table: Name) -> None:
        schema, name = table
        names = AuxiliaryNames.of(name)
        self.swap = Swap(schema=schema, table=name, new=names.new, old=names.old)
        self._after: tuple[str, ...] = ()
        self._noted: NotedVersions | None = None

    @property
    def _new(self) -> Name:
        return self.swap.schema, self.swap.new

    def prepare(self, session: SqlSession) -> None:
        """Make the second table anew; Refusal if a RENAME cannot exchange it, or rows changed."""
        comment = self._require_plain(session)
        self._require_rows(session)
        schema, name = self.swap.name
        steps = StepTable(lambda: session, ("" if schema == self.home else schema, name))
        steps.read(self.home)
        self._drop_earlier(session, steps)
        # With the mark until its number is noted: whose it is can be proven at any moment.
        create = str(session.query(f"SHOW CREATE TABLE {quote_table(*self.swap.name)}")[0][1])
        body = create.partition("(\n")[2]
        new = quote_table(*self._new)
        session.execute(f"CREATE TABLE {new} (\n{body} COMMENT={comment_literal(_VERSIONS_MARK)}")
        points.reach("revision.versions_made")
        noted = NotedVersions(
            before=identity(session, *self.swap.name),
            after=identity(session, *self._new),
            tables=self.tables,
        )
        if not (noted.before and noted.after):
            raise Refusal(
                f"the number of {'.'.join(self.swap.name)} cannot be read, and without"
                " it nothing proves what may be dropped",
                hint="GRANT PROCESS ON *.* to the account",
            )
        steps.write_versions(noted)
        points.reach("revision.versions_noted")
        session.execute(f"ALTER TABLE {new} COMMENT={comment_literal(comment)}")
        session.execute(f"INSERT INTO {new} SELECT * FROM {quote_table(*self.swap.name)}")
        for change in self.changes:
            sql = change.sql.format(table=new.replace("%", "%%"))
            if session.execute(sql, change.parameters) != 1:
                raise self._changed()
        self._noted, self._after = noted, version_rows(session, self._new)

    def prove(self, session: SqlSession) -> None:
        """Prove that both tables are those made ready, with their rows (R25); else Refusal."""
        self._require_rows(session)
        noted = self._noted
        same = noted is not None and (
            identity(session, *self.swap.name).equals(noted.before)
            and identity(session, *self._new).equals(noted.after)
            and version_rows(session, self._new) == self._after
        )
        if not same:
            raise self._changed()

    def _require_plain(self, session: SqlSession) -> str:
        """Return the table's comment; raise where a RENAME would leave something behind."""
        found = session.query(_ENGINE_AND_COMMENT, self.swap.name)
        why = ""
        if not found:
            why = "is no table"
        elif str(found[0][0]).lower() != "innodb" or "partitioned" in str(found[0][2]):
            why = "is not a plain InnoDB table"
        elif attached := session.query(_ATTACHED, (*self.swap.name, *self.swap.name)):
            why = f"has {attached[0][0]}, a trigger or foreign key, which a RENAME leaves behind"
        if why:
            raise Refusal(
                f"{'.'.join(self.swap.name)} {why}: it cannot be exchanged with the tables of the"
                " migration",
                hint="run the migration without asking that it happens as a whole",
            )
        return as_text(found[0][1])

    def _require_rows(self, session: SqlSession) -> None:
        if version_rows(session, self.swap.name) != self.rows:
            raise self._changed()

    def _changed(self) -> Refusal:
        return Refusal(
            f"{'.'.join(self.swap.name)} was written by another session while the migration ran",
            hint="see which migrations it names now, then run the same command again",
        )

    def _drop_earlier(self, session: SqlSession, steps: StepTable) -> None:
        there = identity(session, *self._new)
        if not there:
            return
        noted = steps.versions()
        if not (noted and there.equals(noted.after)) and not has_mark(
            session, self._new, _VERSIONS_MARK
        ):
            raise Refusal(
                f"the table {'.'.join(self._new)} exists already, and nothing proves that this"
                " program made it",
                hint="rename or drop it, then run the same command again",
                error_code=ErrorCode.NAME_TAKEN,
            )
        session.execute(f"DROP TABLE {quote_table(*self._new)}")


def finish_versions(
    session: FrameworkSession, table: Name, steps: StepTable, settle: Settle
) -> None:
    """Drop what an exchange of the version table has left; ``settle`` finishes its migration.

    An old table that waits for its archive, or for its time, is kept.
    """
    noted = steps.versions()
    plain = cast("SqlSession", session)
    if noted is None or not identity(plain, *table).equals(noted.after):
        return
    for one in noted.tables:
        # The checkpoint of the first one, which names the others, may be dropped already.
        keep = _is_kept(plain, one)
        # What was read holds back the drop of the checkpoint.
        session.commit()
        settle(one, keep)
    schema, name = table
    old = (schema, AuxiliaryNames.of(name).old)
    if identity(plain, *old).equals(noted.before):
        session.query(f"DROP TABLE {quote_table(*old)}")
    steps.forget_versions()


def _is_kept(session: SqlSession, table: Name) -> bool | None:
    """Return whether a migration was asked for more of its old table than to drop it at once.

    None for a table whose record is gone, of which nothing is left to drop.
    """
    try:
        record = find_record(session, table).record
    except UnreadableCheckpoint:
        record = None
    if record is None:
        return None
    return bool(record.choices.archive_to or record.choices.drop_old_after)


def unfinished(
    session: FrameworkSession, table: Name, around: SessionFacts, statements: Iterable[str]
) -> str:
    """Return that of the statements whose run has ended before the old table was settled."""
    plain = cast("SqlSession", session)
    if not CheckpointTable(*table).is_ours(plain):
        return ""
    try:
        record = find_record(plain, table).record
    except UnreadableCheckpoint:
        return ""
    if record is None:
        return ""
    for statement in statements:
        # The table may have been changed again since, by another command.
        altered = parse_statement(statement, around.schema, sql_mode=around.sql_mode)
        named = {one.name: alter for one in record.tables for alter in altered}
        if record.statement == normal_form(named):
            break
    else:
        return ""
    noted, proofs = old_table_of(plain, table), proofs_here(plain, *table, None)
    left = AuxiliaryNames.of(table[1]).old in proven(plain, *table, proofs)
    return statement if left and not (noted is not None and noted.finished) else ""


def is_auxiliary(session: FrameworkSession, table: Name, versions: Name) -> bool:
    """Return whether a table is one of ours by its name, beside one that bears our mark."""
    plain, (schema, name) = cast("SqlSession", session), table
    ((home,),) = plain.query("SELECT DATABASE()")
    there, of_versions = versions[0] or str(home), AuxiliaryNames.of(versions[1])
    steps = str(home or there), _name_of_steps(versions)
    if table in {steps, (there, of_versions.new), (there, of_versions.old)}:
        return has_mark(plain, steps, _MARK)
    for _, checkpoint in checkpoint_tables(plain, schema):
        names = AuxiliaryNames.of_checkpoint(checkpoint)
        stem = checkpoint.removeprefix("_").removesuffix("_chkpnt")
        if names is not None and (name in astuple(names) or is_building_name(stem, name)):
            return True
    return False

"""Create the new table, raise its AUTO_INCREMENT counter, and make a sentinel."""

from __future__ import annotations

import contextlib
import secrets
from itertools import chain
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.evaluation import (
    DEFINITION_COPY,
    DEFINITION_THERE,
    accepting_modes,
    as_stored,
    copying_modes,
    server_refusal,
)
from spirit_py.mysql.faults import (
    ACCESS_NEEDS_PRIVILEGE,
    TABLE_EXISTS,
    Disposition,
    disposition,
    excused,
)
from spirit_py.mysql.tables.definition import (
    create_in_full,
    member_in_doubt,
    read_shape,
    read_table,
    shape_of,
    show_create,
)
from spirit_py.mysql.tables.identity import NOTHING, Identity, drop_unreferenced, has_mark, identity
from spirit_py.sql import comment_literal, is_text, quote_identifier, quote_table
from spirit_py.statement import ClauseKind, rewrite
from spirit_py.table.names import AuxiliaryNames, building_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

MEMBER_HINT: Final = (
    "add a member with letters of one code each, change the rows that hold this one to it, and"
    " remove this one, by native ALTERs before"
)
_SENTINEL_MARK = "drop this table to let spirit-py swap"
_CHECKS = """
SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE CONSTRAINT_TYPE = 'CHECK' AND CONSTRAINT_SCHEMA = %s"""
_FOREIGN_KEYS = """
SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE CONSTRAINT_TYPE = 'FOREIGN KEY' AND CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s"""
OWN_CHECKS = f"{_CHECKS} AND TABLE_NAME = %s ORDER BY 1"
_COUNTERS = """
SELECT s.AUTO_INCREMENT, n.AUTO_INCREMENT
FROM information_schema.TABLES s, information_schema.TABLES n
WHERE s.TABLE_SCHEMA = %s AND s.TABLE_NAME = %s AND n.TABLE_SCHEMA = %s AND n.TABLE_NAME = %s"""
_CHECKED: Final = " CHECK ("
_GENERATES_KEY: Final = "SELECT 0/*!80030 + @@SESSION.sql_generate_invisible_primary_key */"
_COUNTERS_OF = """
SELECT TABLE_SCHEMA, TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES WHERE """
_OF: Final = "TABLE_SCHEMA = %s AND TABLE_NAME = %s"


@dataclass(frozen=True, kw_only=True)
class Making:
    """What proves a new table (R24): ``shapes`` while it is made and empty, then its identity."""

    shapes: frozenset[str] = frozenset()
    new: Identity = NOTHING


@dataclass(frozen=True)
class NewTable:
    """What an ALTER makes of an empty table with the definition of ``source``.

    ``native``: a session with the server's ``sql_mode`` and time zone (R10). Each method raises a
    Refusal if the server refuses the ALTER.
    """

    session: SqlSession
    native: SqlSession
    source: TableSchema
    statement: AlterStatement

    def create(
        self, *, building: str = "", note: Callable[[Making], None] = lambda _: None
    ) -> TableSchema:
        """Create the new table with the definition that a native ALTER would leave.

        The ALTER is tried on a copy (``CREATE TABLE ... LIKE``; from ``SHOW CREATE TABLE`` where
        that leaves an option out) under a random name, and then made on the new table under its own
        name, by which followers of the binlog know whose ALTER it is (docs/followers.md). The name
        is taken only where it is free; ``note`` has the definitions before that, and the identity
        at the end (R24). Raises a Refusal if the name is taken.
        """
        source, new = self.source, AuxiliaryNames.of(self.source.name).new
        building = building or building_name(source.name, secrets.token_hex(3))
        shapes = self._tried(building)
        again = read_table(self.session, source.schema, source.name)
        if again is None or shape_of(again) != shape_of(source):
            raise _changed_meanwhile(source.name)
        # The name is random: in no other place can it be part of a definition.
        note(Making(shapes=frozenset(shape.replace(building, new) for shape in shapes)))
        try:
            checks = self._create_copy(new)
        except Refusal as refusal:
            server = refusal.__cause__
            if not isinstance(server, ServerFault) or server.code != TABLE_EXISTS:
                raise
            note(Making())
            raise Refusal(
                f"table {source.schema}.{new} already exists: another session has made it"
                " meanwhile",
                hint=f"see what it holds; drop or rename {new}, then run the same command again",
                error_code=ErrorCode.NAME_TAKEN,
            ) from server
        points.reach("create.named")
        self._alter_copy(new, checks)
        self._settle_checks(new)
        points.reach("create.built")
        note(Making(new=identity(self.session, source.schema, new)))
        created = self._read(new)
        points.reach("create.done")
        return created

    def create_apart(
        self, checks: Sequence[str], *, building: str, note: Callable[[Making], None]
    ) -> TableSchema:
        """Create the new table on another server, which the sessions are of.

        ``checks`` are the names of the source's CHECK constraints. It is made under a random name,
        and gets its own when ``note`` has its identity (R24).
        """
        source, session = self.source, self.session
        new, prefix = AuxiliaryNames.of(source.name).new, f"{source.name}_chk_"
        names = {
            one: building + one[len(source.name) :] if one.startswith(prefix) else one
            for one in checks
        }
        sql = rewrite.rewrite_create(source.create_sql, source.schema, source.name, building, names)
        with as_stored(session):
            _judged(session, sql, DEFINITION_THERE)
        try:
            self._alter_copy(building, names)
            self._settle_checks(building)
            note(Making(new=identity(session, source.schema, building)))
            points.reach("move.built")
            both = quote_table(source.schema, building), quote_table(source.schema, new)
            _judged(session, f"RENAME TABLE {both[0]} TO {both[1]}", f"the name {new}")
        except BaseException:
            _drop_quietly(session, source.schema, building)
            raise
        return self._read(new)

    def why_not(self, modifiers: str, *, building: str) -> str:
        """Return why an empty copy cannot be altered with such as ``ALGORITHM=INSTANT``, if so."""
        with self._copied(building) as checks:
            try:
                self._alter_copy(building, checks, modifiers=modifiers)
            except Refusal as refusal:
                # In the words of the table's own ALTER: that there is another way is no failure.
                server = refusal.__cause__
                return server.text if isinstance(server, ServerFault) else refusal.message
        return ""

    def definition(self, *, building: str) -> TableSchema:
        """Return what the ALTER makes of an empty copy, which is dropped again."""
        with self._copied(building) as checks:
            self._alter_copy(building, checks)
            return self._read(building)

    def _read(self, name: str) -> TableSchema:
        made = read_table(self.session, self.source.schema, name)
        if made is None:
            raise _changed_meanwhile(name)
        return made

    def _tried(self, building: str) -> set[str]:
        """Return the definitions that a new table has one after the other while it is made."""
        seen: set[str] = set()
        with self._copied(building, seen) as checks:
            seen.add(read_shape(self.session, self.source.schema, building))
            self._alter_copy(building, checks)
            seen.add(read_shape(self.session, self.source.schema, building))
            self._settle_checks(building)
            seen.add(read_shape(self.session, self.source.schema, building))
            points.reach("create.tried")
        return seen

    @contextlib.contextmanager
    def _copied(self, building: str, seen: set[str] | None = None) -> Iterator[dict[str, str]]:
        """Make an empty copy, whose names of CHECK constraints are given, and drop it again."""
        checks = self._create_copy(building, seen)
        try:
            yield checks
        finally:
            _drop_quietly(self.session, self.source.schema, building)

    def _create_copy(self, new: str, seen: set[str] | None = None) -> dict[str, str]:
        session, source = self.session, self.source
        checks = names_of_checks(
            session, source, self.statement, sql_mode=_sql_mode(self.native), new=new
        )
        if rewrite.is_unlike(source.create_sql):
            # LIKE leaves these options out, as it does with foreign keys.
            _require_no_default(session, source)
            _require_shown_members(session, source)
            _add_no_key(session)
            alone = rewrite.FOREIGN_KEY.sub("", create_in_full(session, source))
            sql = rewrite.rewrite_create(alone, source.schema, source.name, new, checks)
        else:
            sql = f"CREATE TABLE {quote_table(source.schema, new)} LIKE {source.quoted}"
        with as_stored(session):
            _judged(session, sql, DEFINITION_COPY)
            try:
                _require_no_added_key(session, source, new)
                if seen is not None:
                    seen.add(read_shape(session, source.schema, new))
                self._complete_copy(new, checks)
            except BaseException:
                _drop_quietly(session, source.schema, new)
                raise
        return checks

    def _complete_copy(self, new: str, checks: Mapping[str, str]) -> None:
        """Add what LIKE leaves out: names of CHECK constraints, and the counter."""
        session, source = self.session, self.source
        made = {str(row[0]) for row in session.query(OWN_CHECKS, (source.schema, new))}
        old = rewrite.check_definitions(source.create_sql, checks)
        if len(old) != len(checks):
            raise _changed_meanwhile(source.name)
        wanted = {checks[name]: definition for name, definition in old.items()}
        clauses = []
        if wanted and wanted != self._definitions_of_checks(new, made):
            clauses += [f"DROP CHECK {quote_identifier(name)}" for name in sorted(made)]
            clauses += [
                f"ADD CONSTRAINT {quote_identifier(name)} CHECK {definition}"
                for name, definition in wanted.items()
            ]
        if source.auto_increment is not None and source.auto_increment > 1:
            clauses.append(f"AUTO_INCREMENT = {source.auto_increment}")
        if clauses:
            altering = f"ALTER TABLE {quote_table(source.schema, new)} {', '.join(clauses)}"
            _judged(session, altering, DEFINITION_COPY)

    def _definitions_of_checks(self, new: str, made: set[str]) -> dict[str, str]:
        """Return the copy's. LIKE gives numbers in the order of the names: 10 is before 2."""
        text = show_create(self.session, self.source.schema, new)
        return rewrite.check_definitions(text, made)

    def _alter_copy(self, new: str, checks: dict[str, str], *, modifiers: str = "") -> None:
        native, source = self.native, self.source
        if self.statement.of_kind(ClauseKind.EXCHANGE_PARTITION):
            raise AssertionError("a copy would get the rows of the other table")
        mode = _sql_mode(native)
        keys = [str(row[0]) for row in native.query(_FOREIGN_KEYS, (source.schema, source.name))]
        clauses = rewrite.rewrite_clauses(
            self.statement, source.name, new, checks, keys=keys, sql_mode=mode
        )
        before = f"{modifiers}, " if modifiers else ""
        altering = f"ALTER TABLE {quote_table(source.schema, new)} {before}{clauses}"
        _judged(native, altering, "the ALTER", asks_modes=not modifiers)

    def _settle_checks(self, new: str) -> None:
        """Have constants of CHECKs written as the snapshot guard's ALTERs would write them.

        An ALTER writes one that was added before as its column's type, such as 16 for 0x10 beside a
        BIGINT (9.7.4): the definition that is noted would be another one after a try to swap.
        """
        if _CHECKED in show_create(self.session, self.source.schema, new):
            with as_stored(self.session):
                altering = f"ALTER TABLE {quote_table(self.source.schema, new)} FORCE"
                _judged(self.session, altering, DEFINITION_COPY)


def _changed_meanwhile(table: str) -> Refusal:
    return Refusal(
        f"another session changed table {table} while the new table was made",
        hint="wait for the other change to end, then run the same command again",
        error_code=ErrorCode.SCHEMA_CHANGED,
    )


def _require_no_default(session: SqlSession, source: TableSchema) -> None:
    """Refuse a column to which the server would give a default: the copy is made from text.

    A computed one gets it unseen: strict ALTERs fail with 1067 from then on (measured, 9.7.4).
    """
    if session.query("SELECT @@SESSION.explicit_defaults_for_timestamp")[0][0]:
        return
    for one in source.columns:
        if one.data_type == "timestamp" and not one.nullable and one.default is None:
            raise Refusal(
                f"{source.full_name}.{one.name} is TIMESTAMP NOT NULL without a default, and the"
                " server would give it one in the new table (explicit_defaults_for_timestamp=OFF):"
                " CREATE TABLE ... LIKE leaves out an option of the table",
                hint="SET GLOBAL explicit_defaults_for_timestamp = ON, or give the column a"
                " default before",
                error_code=ErrorCode.SERVER_SETTINGS,
            )


def _require_shown_members(session: SqlSession, source: TableSchema) -> None:
    """Refuse a member that text would make another one: the copy is made from text."""
    if found := member_in_doubt(session, source):
        raise Refusal(
            f"{found}: the new table would have that one, because CREATE TABLE ... LIKE leaves out"
            " an option of the table",
            hint=MEMBER_HINT,
            error_code=ErrorCode.DEFINITION_REFUSED,
        )


def _add_no_key(session: SqlSession) -> None:
    """Let the session make tables without a primary key as they are; if it may."""
    if session.query(_GENERATES_KEY)[0][0]:
        sql = "SET SESSION sql_generate_invisible_primary_key = OFF"
        excused(lambda: session.execute(sql), 0, {ACCESS_NEEDS_PRIVILEGE})


def _require_no_added_key(session: SqlSession, source: TableSchema, new: str) -> None:
    """Refuse a copy to which the server has added a primary key; a native ALTER adds none."""
    made = None if source.primary_key else read_table(session, source.schema, new)
    if made is not None and made.primary_key:
        raise Refusal(
            f"{source.full_name} has no primary key, and the server adds one to the new table"
            " (sql_generate_invisible_primary_key=ON): CREATE TABLE ... LIKE leaves out an option"
            " of the table",
            hint="GRANT SESSION_VARIABLES_ADMIN ON *.* to the account, or SET GLOBAL"
            " sql_generate_invisible_primary_key = OFF for the time until the new table is made",
            error_code=ErrorCode.SERVER_SETTINGS,
        )


def _drop_quietly(session: SqlSession, schema: str, new: str) -> None:
    with contextlib.suppress(ServerFault):
        drop_unreferenced(session, schema, new)


def _sql_mode(session: SqlSession) -> str:
    return str(session.query("SELECT @@SESSION.sql_mode")[0][0])


def names_of_checks(
    session: SqlSession,
    source: TableSchema,
    statement: AlterStatement,
    *,
    sql_mode: str,
    new: str = "",
) -> dict[str, str]:
    """Return the name of each CHECK constraint of the source in the new table, or in ``new``.

    None is one that the statement gives to another constraint.
    """
    new = new or AuxiliaryNames.of(source.name).new
    names = [str(row[0]) for row in session.query(OWN_CHECKS, (source.schema, source.name))]
    taken = [str(row[0]) for row in session.query(_CHECKS, (source.schema,))]
    taken += rewrite.created_checks(statement, sql_mode=sql_mode)
    return rewrite.check_names(source.name, new, names, taken)


def _judged(session: SqlSession, sql: str, what: str, *, asks_modes: bool = False) -> None:
    """Run DDL; refuse a rejected statement, if asked with the modes that would accept it."""
    if not is_text(sql):
        raise Refusal(
            f"{what} cannot be made: a CHECK constraint has a literal whose bytes are not those of"
            " its character set in SHOW CREATE TABLE",
            hint="the server writes it so after a CONVERT TO CHARACTER SET: drop the constraint"
            " natively, which changes metadata only, and add it again in this ALTER",
            error_code=ErrorCode.DEFINITION_REFUSED,
        )
    try:
        session.execute(sql)
    except ServerFault as error:
        if disposition(error) is not Disposition.FATAL or error.hint:
            raise
        modes = accepting_modes(session, sql, error) if asks_modes else copying_modes(error)
        raise server_refusal(error, what, modes) from error


def set_auto_increment(session: SqlSession, mapping: TableMapping, counter: str) -> None:
    """Set the copied table's counter to the ALTER's value, or after its largest value."""
    if any(column.auto_increment for column in mapping.target.columns):
        with as_stored(session):
            session.execute(f"ALTER TABLE {mapping.target.quoted} AUTO_INCREMENT = {counter}")


def align_auto_increment(
    session: SqlSession, mapping: TableMapping, *, lowers: bool = False
) -> int | None:
    """Raise the new table's AUTO_INCREMENT counter to the source's; return it.

    ``lowers``: lower it, too, where another session has lowered the source's; the server keeps it
    above every row.

    Call it before the cutover and again under the table lock. Not where the ALTER gives the
    counter: see :func:`set_auto_increment`. None when the counter's column is not carried over.
    """
    if not _carries_counter(mapping):
        return None
    found = session.query(_COUNTERS, [*_name(mapping.source), *_name(mapping.target)])[0]
    # The catalogue shows NULL until the first number was generated.
    source, target = (int(one or 1) for one in found)
    if target == source or (target > source and not (lowers and found[0])):
        return target
    set_auto_increment(session, mapping, str(source))
    return source


def align_apart(session: SqlSession, there: SqlSession, mappings: Iterable[TableMapping]) -> None:
    """Align the counters of new tables on another server; all are read in one query on each."""
    carried = [mapping for mapping in mappings if _carries_counter(mapping)]
    here = _counters(session, [_name(mapping.source) for mapping in carried])
    theirs = _counters(there, [_name(mapping.target) for mapping in carried])
    for mapping in carried:
        # A table that is gone is noticed by its numbers.
        source = here.get(_name(mapping.source), 1)
        if source > theirs.get(_name(mapping.target), 1):
            set_auto_increment(there, mapping, str(source))


def _counters(session: SqlSession, names: Sequence[Name]) -> dict[Name, int]:
    if not names:
        return {}
    query = _COUNTERS_OF + " OR ".join([_OF] * len(names))
    rows = session.query(query, [*chain(*names)])
    return {(str(schema), str(table)): int(one or 1) for schema, table, one in rows}


def _name(table: TableSchema) -> Name:
    return table.schema, table.name


def _carries_counter(mapping: TableMapping) -> bool:
    drawn = [pair for pair in mapping.pairs if pair.new.auto_increment]
    return bool(drawn) and drawn[0].old.auto_increment


def drop_tables(session: SqlSession, schema: str, names: Sequence[str]) -> None:
    """Drop auxiliary tables that may refer to each other, in one statement."""
    if names:
        tables = ", ".join(quote_table(schema, name) for name in names)
        session.execute(f"DROP TABLE IF EXISTS {tables}")


def create_sentinel(session: SqlSession, schema: str, name: str) -> None:
    """Create a sentinel with our comment, if there is none."""
    session.execute(
        f"CREATE TABLE IF NOT EXISTS {quote_table(schema, name)} (id INT PRIMARY KEY)"
        f" ENGINE=InnoDB COMMENT={comment_literal(_SENTINEL_MARK)}"
    )


def is_own_sentinel(session: SqlSession, schema: str, name: str) -> bool:
    """Return whether there is a sentinel that this program made, not one made by hand."""
    return has_mark(session, (schema, name), _SENTINEL_MARK)


def drop_sentinel(session: SqlSession, schema: str, name: str) -> None:
    """Drop a sentinel that is ours; one that was made by hand is never touched."""
    if is_own_sentinel(session, schema, name):
        session.execute(f"DROP TABLE IF EXISTS {quote_table(schema, name)}")

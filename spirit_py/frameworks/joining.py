"""Find which neighbouring statements about one table the server carries out alike as one ALTER.

It is asked, by temporary tables: some clauses mean something else beside others. A step is proved
by the form of a definition as it is read here, whether it joins statements or has one.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final, cast

from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.errors import Refusal, SpiritError
from spirit_py.frameworks.online import look_around
from spirit_py.frameworks.steps import digest, made_of
from spirit_py.mysql.faults import ABSENT_TABLE
from spirit_py.preflight.clauses import TAKES_ROWS
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement import ClauseKind, parse_statement
from spirit_py.statement.rewrite import TemporaryForm, clauses_for_temporary, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.frameworks.online import FrameworkSession, OnlineChange, SessionFacts
    from spirit_py.frameworks.steps import RevisionStep
    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name

ABSENT: Final = "absent"
"""The form of a table that is not there."""
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")
#: A copy gives constraints other names.
_NAME_OF_CONSTRAINT: Final = re.compile(r"CONSTRAINT (?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\") ")
_FOREIGN_KEY: Final = re.compile(r",\n  CONSTRAINT FOREIGN KEY [^\n]*?(?=,?\n)")
#: A rename of the parent, or of its columns, changes them in the definition of the child.
_PARENT: Final = re.compile(r" REFERENCES (?:`(?:[^`]|``)+`[., ]*)+\((?:`(?:[^`]|``)+`[, ]*)+\)")
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_DROPPING: Final = (
    *(ClauseKind.DROP_INDEX, ClauseKind.DROP_CHECK, ClauseKind.DROP_CONSTRAINT),
    *(ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_PRIMARY_KEY),
)
_RENAMED: Final = re.compile(r"([^\s,]+)\s+TO\s+([^\s,]+)", re.IGNORECASE)
_TAKES_AWAY: Final = re.compile(
    r"\s*(?:DROP\s+TABLE\s|RENAME\s+TABLE\s|ALTER\s+TABLE\s+(?:`[^`]*`|\S)+\s+RENAME\s+(?:TO|AS)\s)",
    re.IGNORECASE,
)
_MAKES: Final = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
_LENIENT: Final = "ALLOW_INVALID_DATES"
_NAMED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) = %s"""


def definition_of(session: FrameworkSession, table: Name) -> str:
    """Return the definition of a table, whatever the session's modes; empty where it is not there.

    So one that only a lenient mode accepts can be made again.
    """
    try:
        with _leniently(session):
            return str(session.query(f"SHOW CREATE TABLE {quote_table(*table)}")[0][1])
    except Exception as error:
        if not ABSENT_TABLE.intersection(error.args[:1]):
            raise
        return ""


def definition_named(session: FrameworkSession, table: str) -> str:
    """Return the same of schema and name with a dot between; either of them may have more."""
    # An account may be refused a look at any schema but its own.
    found = session.query(_NAMED, (table,))
    return definition_of(session, (found[0][0], found[0][1])) if found else ""


@contextlib.contextmanager
def _leniently(session: FrameworkSession) -> Iterator[None]:
    names = "sql_mode", "sql_quote_show_create", "show_create_table_verbosity"
    usual = session.query("SELECT " + ", ".join(f"@@SESSION.{name}" for name in names))[0]
    setting = "SET SESSION " + ", SESSION ".join(f"{name} = %s" for name in names)
    session.query(setting, (_LENIENT, 1, 0))
    try:
        yield
    finally:
        session.query(setting, tuple(usual))


def form_now(session: FrameworkSession, table: Name) -> str:
    """Return the form of a table's definition, or :data:`ABSENT`."""
    definition = definition_of(session, table)
    return form_of(definition) if definition else ABSENT


def form_expected(session: FrameworkSession, table: Name, text: str, around: SessionFacts) -> str:
    """Return the form that a statement will leave; empty where no temporary table shows it."""
    statement = _parsed(text, around)
    if statement is None:
        return (
            ABSENT if _TAKES_AWAY.match(text) and table[1].lower() not in _new_names(text) else ""
        )
    form = TemporaryForm.of(definition_of(session, table), table[1])
    if form is None:
        return ""
    clauses, left = clauses_for_temporary(statement, names_of(form.keys), names_of(form.fulltext))
    made = "" if left else _shape_after(session, table, form, [clauses] if clauses else [])
    return form_of(form.complete(made, statement)) if made else ""


def count_made(own: list[RevisionStep], form: str) -> int:
    """Return how many steps of a table are made, as :func:`made_of`, and a begun one that makes it.

    Nothing shows beforehand which form a CREATE TABLE leaves, but there was no table.
    """
    made, first = made_of(own, form), own[0]
    anew = made < 0 and not first.made and first.before == ABSENT
    return 1 if anew and _MAKES.match(first.statement) else made


def second_time(statement: str, around: SessionFacts, *, changed: bool) -> str:
    """Return what a statement does to a table that it has perhaps ``changed``; empty for no harm.

    Where the definition is as before, only one that takes values, rows or names can have been made.
    """
    parsed = _parsed(statement, around)
    if parsed is None:
        if _exchanges(statement):
            return "exchange the tables again"
        fails = statement.lstrip().upper().startswith(("CREATE", "DROP"))
        return "change the table once more" if changed and not fails else ""
    if not (changed or parsed.dropped or parsed.of_kind(*TAKES_ROWS)):
        return ""
    return parsed.second_time


def _exchanges(statement: str) -> bool:
    """Return whether a RENAME TABLE gives the very names that it takes."""
    if not statement.lstrip().upper().startswith("RENAME"):
        return False
    return {old for old, _ in _renamed(statement)} == _new_names(statement)


def _new_names(statement: str) -> set[str]:
    return {new for _, new in _renamed(statement)}


def _renamed(statement: str) -> list[list[str]]:
    return [
        [one.rpartition(".")[2].strip('`"').lower() for one in pair]
        for pair in _RENAMED.findall(statement.rstrip(" ;"))
    ]


def lines_dropped(statement: str, around: SessionFacts, definition: str) -> tuple[str, ...]:
    """Return the indexes and constraints that a statement drops, as the definition has them."""
    parsed = _parsed(statement, around)
    clauses = parsed.of_kind(*_DROPPING) if parsed else ()
    names = {one.name.lower() for one in clauses}
    found = []
    for line in _lines(definition):
        name = "" if line.startswith("PRIMARY KEY") else (_NAME.findall(line) or ["-"])[0]
        if name.replace("``", "`").lower() in names and not line.startswith("`"):
            found.append(line)
    return tuple(found)


def lines_lacking(lines: Iterable[str], definition: str) -> tuple[str, ...]:
    """Return those of :func:`lines_dropped` that a definition lacks, which has their columns."""
    there = {_NAME_OF_CONSTRAINT.sub("", one) for one in _lines(definition)}
    columns = {_NAME.findall(one)[0] for one in there if one.startswith("`")}
    lacking = []
    for line in lines:
        plain = _NAME_OF_CONSTRAINT.sub("", line)
        named = plain.partition("(")[2].partition(" REFERENCES ")[0]
        if plain not in there and columns.issuperset(_NAME.findall(named)):
            lacking.append(line)
    return tuple(lacking)


def _lines(definition: str) -> list[str]:
    return [one.strip().removesuffix(",") for one in definition.splitlines()[1:]]


def joined(changes: Sequence[OnlineChange], around: SessionFacts) -> OnlineChange:
    """Return the one change that stands for all."""
    if len(changes) == 1:
        return changes[0]
    clauses = ", ".join(_clauses(one.statement, around) or "" for one in changes)
    name = ".".join(quote_identifier(part) for part in changes[0].table)
    return replace(changes[0], statement=f"ALTER TABLE {name} {clauses}")


def is_begun(
    session: FrameworkSession, left: Iterable[RevisionStep], table: Name, statement: str
) -> bool:
    """Return whether a step is one of others with a statement, or has a checkpoint.

    Then it went online, and does so whatever the table's size is by now.
    """
    own = [one.statement for one in left if one.table == ".".join(table)]
    clauses = _clauses(statement, look_around(session))
    if clauses and any(clauses in one for one in own if one != statement):
        return True
    return statement in own and CheckpointTable(*table).is_ours(cast("SqlSession", session))


def join_tables(
    changes: Sequence[OnlineChange],
    around: SessionFacts,
    together: Callable[[Sequence[OnlineChange]], int],
) -> list[str]:
    """Return one ALTER for each table; Refusal unless ``together`` counts all of its changes."""
    first, statements = changes[0], []
    for table in dict.fromkeys(one.table for one in changes):
        own = [one for one in changes if one.table == table]
        for one in own:
            if replace(first, table=one.table, statement=one.statement) != one:
                raise Refusal(
                    f"{one.statement!r} has other options than {first.statement!r}, and both"
                    " happen at one moment",
                    hint="give both the same options",
                )
        if (count := together(own)) < len(own):
            raise Refusal(
                f"{own[count].statement!r} cannot be made at the same time as what comes"
                " before it: the server makes something else by one ALTER of both",
                hint="give it a migration of its own",
            )
        statements.append(joined(own, around).statement)
    return statements


def count_joinable(
    session: FrameworkSession, waiting: Sequence[OnlineChange], around: SessionFacts
) -> int:
    """Return how many changes of one table, from the first one on, become one ALTER."""
    table = waiting[0].table
    form = TemporaryForm.of(definition_of(session, table), table[1])
    plain = form is not None and not (form.fulltext or form.options or form.partitions)
    clauses: list[str] = []
    for count, one in enumerate(waiting):
        found = _clauses(one.statement, around)
        if found is None:
            return max(count, 1)
        if count:
            if form is None or not plain:
                return count
            apart = _shape_after(session, table, form, [*clauses, found])
            together = _shape_after(session, table, form, [", ".join([*clauses, found])])
            if not together or form_of(together) != form_of(apart):
                return count
        clauses.append(found)
    return len(waiting)


def _shape_after(
    session: FrameworkSession, table: Name, form: TemporaryForm, clauses: Iterable[str]
) -> str:
    """Return what the server makes of an empty temporary table by ALTERs; or an empty text."""
    quoted = quote_table(*table)
    try:
        with _leniently(session):
            session.query(f"CREATE TEMPORARY TABLE {quoted} {form.body}")
    except Exception:
        return ""
    try:
        for one in clauses:
            session.query(f"ALTER TABLE {quoted} {one}")
        made = definition_of(session, table)
    except Exception:
        return ""
    finally:
        session.query(f"DROP TEMPORARY TABLE IF EXISTS {quoted}")
    return made.replace("CREATE TEMPORARY TABLE ", "CREATE TABLE ", 1)


def _clauses(statement: str, around: SessionFacts) -> str | None:
    parsed = _parsed(statement, around)
    return parsed.clauses if parsed else None


def _parsed(statement: str, around: SessionFacts) -> AlterStatement | None:
    try:
        (one,) = parse_statement(statement, around.schema, sql_mode=around.sql_mode)
    except (SpiritError, ValueError):
        return None
    return one


def form_of(create: str, foreign_keys_of: str = "") -> str:
    """Return digests without counter and names of constraints; foreign keys may be of another.

    The second is there with foreign keys, and does without the names of their parents.
    """
    plain, other = (
        _NAME_OF_CONSTRAINT.sub("CONSTRAINT ", _COUNTER.sub("", one))
        for one in (create, foreign_keys_of or create)
    )
    keys, plain = _FOREIGN_KEY.findall(other), _FOREIGN_KEY.sub("", plain)
    forms = (sorted(keys), sorted(_PARENT.sub("", one) for one in keys))
    return " ".join(dict.fromkeys(digest((plain, one)) for one in forms))

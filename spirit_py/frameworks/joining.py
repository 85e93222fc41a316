"""Find which neighbouring statements about one table the server carries out alike as one ALTER.

It is asked, by temporary tables: some clauses mean something else beside others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import replace
from spirit_py.errors import Refusal, SpiritError
from spirit_py.frameworks.steps import ABSENT, form_of
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement import parse_statement
from spirit_py.statement.rewrite import FOREIGN_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.frameworks.online import FrameworkSession, OnlineChange, SessionFacts
    from spirit_py.table.names import Name

_NO_SUCH_TABLE: Final = 1146


def definition_of(session: FrameworkSession, table: Name) -> str:
    """Return the definition of a table; empty where it is not there."""
    try:
        return str(session.query(f"SHOW CREATE TABLE {quote_table(*table)}")[0][1])
    except Exception as error:
        if error.args[:1] != (_NO_SUCH_TABLE,):
            raise
        return ""


def form_now(session: FrameworkSession, table: Name) -> str:
    """Return the form of a table's definition, or :data:`ABSENT`."""
    definition = definition_of(session, table)
    return form_of(definition) if definition else ABSENT


def form_expected(session: FrameworkSession, one: OnlineChange, around: SessionFacts) -> str:
    """Return the form that a change will leave; empty where no temporary table shows it."""
    after = _shape_after(session, one.table, [_clauses(one.statement, around)])
    return form_of(after, definition_of(session, one.table)) if after else ""


def joined(changes: Sequence[OnlineChange], around: SessionFacts) -> OnlineChange:
    """Return the one change that stands for all."""
    if len(changes) == 1:
        return changes[0]
    clauses = ", ".join(_clauses(one.statement, around) or "" for one in changes)
    name = ".".join(quote_identifier(part) for part in changes[0].table)
    return replace(changes[0], statement=f"ALTER TABLE {name} {clauses}")


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
    clauses: list[str] = []
    for count, one in enumerate(waiting):
        found = _clauses(one.statement, around)
        if found is None:
            return max(count, 1)
        if count:
            apart = _shape_after(session, one.table, [*clauses, found])
            together = _shape_after(session, one.table, [", ".join([*clauses, found])])
            if not together or form_of(together) != form_of(apart):
                return count
        clauses.append(found)
    return len(waiting)


def _shape_after(session: FrameworkSession, table: Name, clauses: Iterable[str | None]) -> str:
    """Return what the server makes of an empty temporary table by ALTERs; or an empty text."""
    quoted = quote_table(*table)
    _, found, body = definition_of(session, table).partition("(\n")
    if not found:
        return ""
    try:
        session.query(f"CREATE TEMPORARY TABLE {quoted} {found}{FOREIGN_KEY.sub('', body)}")
    except Exception:
        return ""
    try:
        for one in clauses:
            if one is None:
                return ""
            session.query(f"ALTER TABLE {quoted} {one}")
        made = definition_of(session, table)
    except Exception:
        return ""
    finally:
        session.query(f"DROP TEMPORARY TABLE IF EXISTS {quoted}")
    return made.replace("CREATE TEMPORARY TABLE ", "CREATE TABLE ", 1)


def _clauses(statement: str, around: SessionFacts) -> str | None:
    try:
        (one,) = parse_statement(statement, around.schema, sql_mode=around.sql_mode)
    except (SpiritError, ValueError):
        return None
    return one.clauses

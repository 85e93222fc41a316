"""What is to be done: read the statement as the server reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import Refusal, ServerFault
from spirit_py.preflight.finding import refuse
from spirit_py.sql import quote_table, string_literal
from spirit_py.statement import alter_of, parse_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding
    from spirit_py.statement import AlterStatement

_SYNTAX = 1064
_PREPARED = "spirit_py_syntax"


def read_intent(
    session: SqlSession, config: MigrationConfig, sql_mode: str
) -> tuple[AlterStatement, ...]:
    """Read the statements that the configuration asks for.

    Args:
        sql_mode: The server's own.

    Raises:
        Refusal: with the server's own message where the syntax is wrong.
    """
    try:
        if config.statement:
            return parse_statement(config.statement, config.database, sql_mode=sql_mode)
        return (alter_of(config.database, config.table, config.alter, sql_mode=sql_mode),)
    except Refusal as error:
        sql = config.statement or _whole(config)
        message = syntax_error(session, sql, sql_mode)
        if message and ";" not in sql:
            raise _syntax_refusal(message) from error
        raise


def _whole(config: MigrationConfig) -> str:
    return f"ALTER TABLE {quote_table(config.database, config.table)} {config.alter}"


def check(context: PreflightContext) -> Iterator[Finding]:
    """Let the server read the statement, without running it."""
    message = syntax_error(context.session, context.statement.sql, context.facts.sql_mode)
    if message:
        refusal = _syntax_refusal(message)
        yield refuse(refusal.message, refusal.hint)


def _syntax_refusal(message: str) -> Refusal:
    return Refusal(
        f"the server cannot read the statement: {message}",
        hint="correct the statement",
    )


def syntax_error(session: SqlSession, sql: str, sql_mode: str) -> str:
    """Give the server's message about wrong syntax; empty when it can read the statement.

    PREPARE parses and executes nothing.
    """
    before = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    try:
        session.execute(f"SET SESSION sql_mode = {string_literal(sql_mode)}")
        session.execute(f"SET @{_PREPARED} = {string_literal(sql)}")
        session.execute(f"PREPARE {_PREPARED} FROM @{_PREPARED}")
        session.execute(f"DEALLOCATE PREPARE {_PREPARED}")
    except ServerFault as error:
        if error.code != _SYNTAX:
            raise
        return error.text
    finally:
        session.execute(f"SET SESSION sql_mode = {string_literal(before)}")
    return ""

"""The statement: parsed here, and by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault, UsageFault
from spirit_py.mysql.faults import SYNTAX_ERROR, access_denied, is_verdict
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.sql import quote_table, string_literal
from spirit_py.statement import alter_of, parse_statement
from spirit_py.statement.lexer import not_understood

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.statement import AlterStatement

#: No schema selected (our sessions have no default), none such, no such table, not to be prepared.
_NO_VERDICT = frozenset({1046, 1049, 1146, 1295})
_PREPARED = "spirit_py_syntax"


def read_intent(
    session: SqlSession, config: MigrationConfig, sql_mode: str
) -> tuple[AlterStatement, ...]:
    """Read the statements; raise UsageFault for mere clauses or the reverse, or Refusal."""
    try:
        if config.statement:
            return parse_statement(config.statement, config.database, sql_mode=sql_mode)
        return (alter_of(config.database, config.table, config.alter, sql_mode=sql_mode),)
    except UsageFault:
        raise
    except Refusal as error:
        table = quote_table(config.database, config.table)
        sql = config.statement or f"ALTER TABLE {table} {config.alter}"
        fault = objection(session, sql, sql_mode)
        if fault is not None and fault.code == SYNTAX_ERROR and ";" not in sql:
            raise _refusal(fault) from error
        raise


def syntax(context: PreflightContext) -> Findings:
    """Let the server read the statement, without running it."""
    fault = objection(context.session, context.statement.sql, context.facts.sql_mode)
    if fault is not None:
        refusal = _refusal(fault)
        yield refuse(refusal.message, refusal.hint, code=refusal.error_code)


def _refusal(fault: ServerFault) -> Refusal:
    if fault.code == SYNTAX_ERROR:
        return not_understood(
            f"the server cannot read the statement: {fault.text}", "correct the statement"
        )
    return Refusal(
        f"the server refuses the statement: {fault.text} (error {fault.code})",
        hint="correct the statement",
        error_code=ErrorCode.DEFINITION_REFUSED,
    )


def objection(session: SqlSession, sql: str, sql_mode: str) -> ServerFault | None:
    """Return the server's error for the text of a statement; None when PREPARE parses it."""
    before = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    session.execute(f"SET SESSION sql_mode = {string_literal(sql_mode)}")
    try:
        session.execute(f"SET @{_PREPARED} = {string_literal(sql)}")
        session.execute(f"PREPARE {_PREPARED} FROM @{_PREPARED}")
        session.execute(f"DEALLOCATE PREPARE {_PREPARED}")
    except ServerFault as error:
        if not is_verdict(error):
            raise
        return None if error.code in _NO_VERDICT or access_denied(error) else error
    finally:
        session.execute(f"SET SESSION sql_mode = {string_literal(before)}")
    return None

"""Text to intent: read an ALTER TABLE or CREATE INDEX, refuse what cannot be honoured. Pure."""

from spirit_py.statement.model import AlterStatement, Clause, ClauseKind
from spirit_py.statement.parse import alter_of, parse_statement

__all__ = ["AlterStatement", "Clause", "ClauseKind", "alter_of", "parse_statement"]

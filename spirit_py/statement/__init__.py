"""Text to intent: read ALTER TABLE and CREATE or DROP INDEX, refuse what cannot be done. Pure."""

from spirit_py.statement.model import AlterStatement, Clause, ClauseKind
from spirit_py.statement.parse import alter_of, changed_table, defined_table, parse_statement

__all__ = [
    "AlterStatement", "Clause", "ClauseKind", "alter_of",
    "changed_table", "defined_table", "parse_statement",
]  # fmt: skip

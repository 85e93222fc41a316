"""A value that the new table cannot take as it is (R10), with the row that has it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from spirit_py.copier.chunk_sql import row_lookup_sql
from spirit_py.errors import ServerFault, ValueLost
from spirit_py.mysql.complaint import read_complaint
from spirit_py.mysql.values.lost_values import NULL_REFUSED
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)


class LostValue(ValueLost):
    """A :class:`~spirit_py.errors.ValueLost` with the row of the chunk that it was.

    Attributes:
        chunk: the chunk's number.
        part: which of its parts, from 0.
        code: MySQL's error number.
        row: counted from 1 in key order within the part, as the server says "at row"; 0 when it
            does not.
        column: the new table's column; empty when the server does not name it.
    """

    def __init__(
        self, message: str, *, chunk: int, part: int, code: int, row: int, column: str, hint: str
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.chunk = chunk
        self.part = part
        self.row = row
        self.column = column

    @classmethod
    def of(
        cls, message: str, complaint: str, *, chunk: int, part: int, code: int, hint: str
    ) -> LostValue:
        """Return the error for the server's own text, from which row and column are read."""
        about = read_complaint(complaint)
        return cls(
            message,
            chunk=chunk,
            part=part,
            code=code,
            row=about.row,
            column=about.column,
            hint=hint,
        )

    def named(
        self,
        mapping: TableMapping,
        part: Chunk | None,
        query: Callable[[str], Sequence[tuple[Any, ...]]],
    ) -> ValueLost:
        """Return the error with the key of its row, where that can still be found.

        Args:
            part: the range that was copied; None where it is not known any more.
        """
        details = self.details
        try:
            sql = "" if part is None else self._lookup_sql(mapping, part)
            found = query(sql) if sql else []
        except ServerFault as fault:
            _log.debug("the row could not be looked up: %s", fault)
            found = []
        if found:
            columns = mapping.key_columns
            literals = bound_from_row(columns, found[0]).literals
            pairs = zip(columns, literals, strict=True)
            key = ", ".join(f"{column.name} = {literal}" for column, literal in pairs)
            details = (*details, f"in or near the row with {key}")
        # RENAME TABLE will give the table its original names of constraints again.
        made, final = (f"'{table.name}_chk_" for table in (mapping.target, mapping.source))
        return ValueLost(self.message.replace(made, final), hint=self.hint, details=details)

    def _lookup_sql(self, mapping: TableMapping, part: Chunk) -> str:
        """Render the query for the row; empty when there is no clue."""
        pair = next((p for p in mapping.pairs if p.new.name == self.column), None)
        expressions = key_select_expressions(mapping.key_columns)
        if self.row:
            return row_lookup_sql(mapping, part, expressions, row=self.row)
        if self.code == NULL_REFUSED and pair is not None:
            return row_lookup_sql(mapping, part, expressions, null=pair.old.name)
        return ""

"""A chunk: a range of the chunk key, half open above its lower bound."""

from __future__ import annotations

from dataclasses import dataclass

from spirit_py.table.keys import ComparableKey, KeyBound, KeyLiterals

__all__ = ["Chunk", "ComparableKey", "KeyBound", "KeyLiterals"]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """All rows with ``lower < key <= upper``; None is the open end.

    Attributes:
        number: dispatch order from 0; never reused in a run.
        lower: exclusive lower bound; None for the beginning of the table.
        upper: inclusive upper bound; None for the end of the table.
        target_rows: rows that the chunker aimed at.
    """

    number: int
    lower: KeyBound | None
    upper: KeyBound | None
    target_rows: int

    def __str__(self) -> str:
        """Show the range as ``(lower, upper]``, for logs and Spark's job descriptions."""

        def side(bound: KeyBound | None, open_end: str) -> str:
            return open_end if bound is None else ", ".join(bound.literals)

        return f"#{self.number} ({side(self.lower, '-inf')}; {side(self.upper, '+inf')}]"

"""How much of a table is copied without a gap: what a later run need not copy again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import Chunk


@dataclass(frozen=True, kw_only=True)
class CopiedSoFar:
    """The copied beginning of a table, over all runs.

    Attributes:
        up_to: SQL literals of its last key; empty before the first chunk.
        rows: rows in it, as they were when they were copied.
        finished: every row that existed is copied; ``up_to`` says nothing more then.
    """

    up_to: tuple[str, ...] = ()
    rows: int = 0
    chunks: int = 0
    finished: bool = False


class CopiedPrefix:
    """Follows the chunks as they commit, in whatever order. Thread-safe.

    Args:
        before: what earlier runs have copied.
    """

    def __init__(self, before: CopiedSoFar | None = None) -> None:
        self._so_far = before or CopiedSoFar()
        self._lock = threading.Lock()
        self._dispatched: dict[int, Chunk] = {}
        self._early: dict[int, int] = {}

    def dispatched(self, chunk: Chunk) -> None:
        """Note a chunk that is handed out, in the order of the walk."""
        with self._lock:
            self._dispatched[chunk.number] = chunk

    def committed(self, chunk: Chunk, rows: int) -> None:
        """Note a chunk that has committed, and that the change feed knows of it."""
        with self._lock:
            self._early[chunk.number] = rows
            while self._dispatched and (first := next(iter(self._dispatched))) in self._early:
                upper = self._dispatched.pop(first).upper
                self._so_far = CopiedSoFar(
                    up_to=() if upper is None else upper.literals,
                    rows=self._so_far.rows + self._early.pop(first),
                    chunks=self._so_far.chunks + 1,
                    finished=upper is None,
                )

    def finish(self) -> None:
        """Note that every chunk has committed."""
        with self._lock:
            self._so_far = replace(self._so_far, up_to=(), finished=True)

    def so_far(self) -> CopiedSoFar:
        """Return what is copied without a gap now."""
        with self._lock:
            return self._so_far

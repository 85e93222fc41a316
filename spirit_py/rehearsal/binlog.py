"""Adds up what a server writes to its binlog, whatever is purged meanwhile (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BinlogMeter:
    """Bytes written since the first look.

    Every look adds what the files have grown since the one before. A file that was purged
    between two looks costs only what was written to it after it was seen last, so look often.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] | None = None
        #: Bytes so far.
        self.written = 0

    def look(self, files: Iterable[tuple[str, int]]) -> None:
        """Take the server's list of binlog files: name and size."""
        now = dict(files)
        if self._seen is not None:
            self.written += sum(self._growth(name, size) for name, size in now.items())
        self._seen = now

    def _growth(self, name: str, size: int) -> int:
        """Return what is new in one file; one that became smaller was begun anew (RESET)."""
        before = (self._seen or {}).get(name, 0)
        return size - before if size >= before else size

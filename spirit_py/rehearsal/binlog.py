"""Counts the bytes that a server writes to its binlog, across purges (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BinlogMeter:
    """Bytes written since the first sample.

    Every sample adds the growth of the files since the one before. Of a file that was purged
    between two samples only its growth since the earlier one is missed, so sample often.
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
        """Return the growth of one file; one that became smaller is a new file (RESET)."""
        before = (self._seen or {}).get(name, 0)
        return size - before if size >= before else size

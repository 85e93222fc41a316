"""How far a server's binlog reaches from the place that is read (pure; R19).

The server drops a binlog file when its last event is older than ``binlog_expire_logs_seconds``
(manual, Binary Logging Options), so it keeps an event for at least that long. It does not drop a
file that a connected reader is reading, but a reader that waits may lose its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.contracts import Retention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.events import Place


def reach(place: Place, files: Sequence[tuple[str, int]], kept: int, now: int) -> Retention:
    """Compute the reach.

    Args:
        place: end of the event that was read last.
        files: name and size of the server's binlog files, oldest first.
        kept: the server's ``binlog_expire_logs_seconds``; 0 for ever.
        now: the server's clock, Unix time.
    """
    age = float(max(0, now - place.executed_at)) if place.executed_at else 0.0
    names = [name for name, _ in files]
    if place.file not in names:
        return Retention(kept=float(kept) or None, age=age, gone=True)
    behind = files[names.index(place.file) :]
    into = min(place.offset, behind[0][1])
    unread = sum(size for _, size in behind) - into
    older = sum(size for _, size in files) - unread
    return Retention(kept=float(kept) or None, age=age, unread_bytes=unread, older_bytes=older)

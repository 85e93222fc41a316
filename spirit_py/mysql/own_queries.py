"""How many queries the sessions of this process have sent: the server counts them, too."""

from __future__ import annotations

import threading
from typing import Final


class OwnQueries:
    """Counts the queries of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    def note(self) -> None:
        """Count one."""
        with self._lock:
            self._number += 1

    @property
    def number(self) -> int:
        """How many were sent so far."""
        return self._number


OWN_QUERIES: Final = OwnQueries()
"""The queries of all sessions of this process."""

"""Proofs that several threads note at the same time."""

from __future__ import annotations

import re
import threading
from typing import Any

from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.proofs import note_proofs, read_proofs
from spirit_py.checkpoint.record import Proofs
from spirit_py.mysql.tables.identity import Identity

NUMBERS = Identity(server="uuid", numbers=frozenset({7}), born=1)


class Row:
    """The row of the proofs, as two sessions see it.

    Args:
        when_read: called once, after the first read.
    """

    def __init__(self, when_read: Any = None) -> None:
        self.text = to_text(Proofs())
        self._when_read = when_read

    def query(self, _sql: str, _values: Any = ()) -> list[tuple[str]]:
        """Return it."""
        found, when_read, self._when_read = self.text, self._when_read, None
        if when_read is not None:
            when_read(self)
        return [(found,)]

    def execute(self, sql: str, _values: Any = ()) -> int:
        """Replace it."""
        found = re.search(r"X'([0-9a-fA-F]+)'", sql)
        assert found is not None
        self.text = bytes.fromhex(found[1]).decode()
        return 1


def test_what_two_threads_note_is_kept() -> None:
    """R25: a rebuilt table that is taken over does not undo that the swap has begun."""
    begun = threading.Event()
    others: list[threading.Thread] = []

    def begin(row: Any) -> None:
        def swap() -> None:
            note_proofs(row, "shop", "t", swap_begun=True)
            begun.set()

        others.append(threading.Thread(target=swap))
        others[0].start()
        # Without the mutex it is done within this time, and overwritten.
        begun.wait(0.3)

    row: Any = Row(begin)
    note_proofs(row, "shop", "t", new=NUMBERS)
    others[0].join()
    found = read_proofs(row, "shop", "t")
    assert (found.swap_begun, found.new) == (True, NUMBERS)

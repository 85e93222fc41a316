"""Proofs that several threads note at the same time, and those of another server."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from spirit_py.checkpoint import proofs
from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.proofs import note_proofs, proofs_here, read_proofs
from spirit_py.checkpoint.record import Proofs, TableProgress
from spirit_py.mysql.tables.identity import NOTHING, Identity

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


BEFORE, AFTER = "a" * 32, "b" * 32


@pytest.mark.parametrize(
    ("there", "begun", "proven"),
    [
        ({"t": (BEFORE, 10), "_t_new": (AFTER, 25)}, True, "_t_new"),
        ({"t": (AFTER, 25), "_t_old": (BEFORE, 10)}, True, "t"),
        ({"t": (AFTER, 20), "_t_old": (BEFORE, 10)}, True, "t"),
        ({"t": (BEFORE, 10), "_t_new": (AFTER, 25)}, False, ""),
        ({"t": (BEFORE, 10), "_t_new": (AFTER, 15)}, True, ""),
        ({"t": (BEFORE, 10), "_t_new": ("c" * 32, 25)}, True, ""),
        ({"t": (BEFORE, 12), "_t_new": (AFTER, 25)}, True, ""),
        ({"t": (AFTER, 25), "_t_old": (BEFORE, 12)}, True, ""),
        ({"t": (AFTER, 25), "_t_new": (AFTER, 25), "_t_old": (BEFORE, 10)}, True, "t"),
        ({"t": (AFTER, 25)}, True, ""),
    ],
)
def test_what_a_swap_has_altered_is_known_on_a_promoted_replica(
    monkeypatch: Any, there: dict[str, tuple[str, int]], begun: bool, proven: str
) -> None:
    """R14, R24: the guard's column and the counter are made after the note, under the lock.

    The new table is the later one of its definition only beside the source, which is proven.
    """
    numbers = {"t": 1, "_t_new": 2, "_t_old": 3}

    def here(_session: Any, _schema: str, name: str) -> Identity:
        if name not in there:
            return NOTHING
        return Identity(server="second", numbers=frozenset({numbers[name]}), born=there[name][1])

    noted = Proofs(
        source=Identity(server="first", numbers=frozenset({71}), born=10),
        new=Identity(server="first", numbers=frozenset({72}), born=20),
        swap_begun=begun,
    )
    monkeypatch.setattr(proofs, "identity", here)
    monkeypatch.setattr(proofs, "shape_here", lambda _s, _d, name: there.get(name, ("",))[0])
    monkeypatch.setattr(proofs, "read_proofs", lambda *_: noted)
    session: Any = None
    progress = TableProgress(schema="d", table="t", source_shape=BEFORE, target_shape=AFTER)
    found = proofs_here(session, "d", "t", progress)
    assert found.new == (here(session, "d", proven) if proven else noted.new)

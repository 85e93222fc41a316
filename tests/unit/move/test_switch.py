"""What a try of a switch leaves for the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import ServerFault
from spirit_py.move.switch import Switch


def test_a_request_in_vain_counts_with_what_it_waited():
    """R23: the pause after it is as long as after a swap's, and the event says it."""

    def acquire() -> None:
        lock.waited_ms = 2500.0
        raise ServerFault(1205, "Lock wait timeout exceeded", where="cutover session")

    lock = SimpleNamespace(waited_ms=0.0, acquire=acquire)
    switch: Any = object.__new__(Switch)
    switch._policy = SimpleNamespace(wait=2.5)
    switch._run = SimpleNamespace(show=str, stop=SimpleNamespace(check=lambda: None))
    switch._tries = SimpleNamespace(number=1, waited_ms=0.0)
    origin: Any = SimpleNamespace(front=SimpleNamespace(described=lambda: "session 7"))
    watch: Any = SimpleNamespace(blockers=["session 7"], verdict="")
    side: Any = SimpleNamespace(lock=lock, watch=watch)
    sides: Any = SimpleNamespace(here=[side], ours=[(origin, side)])
    with pytest.raises(TryFailed, match="blocked by session 7"):
        switch._lock(sides)
    assert switch._tries.waited_ms == 2500.0

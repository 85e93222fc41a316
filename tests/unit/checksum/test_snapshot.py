"""What is said while the snapshot waits for its lock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.checksum.snapshot import _catch_up, _reason
from spirit_py.errors import ChangesNotFlushed, ServerFault
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT


def test_a_pause_names_what_kept_the_lock_from_being_requested():
    """No writer is to be looked for where the server took no connection."""
    full = ServerFault(1040, "Too many connections", where="checksum-lock session")
    assert _reason(full, []) == "Too many connections"
    late = ServerFault(LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded", where="session 3")
    assert _reason(late, []) == ""


@pytest.mark.parametrize("answer", [1, None])
def test_a_replica_that_could_not_wait_has_not_caught_up(answer):
    """The try fails, and another one is made."""
    leader: Any = SimpleNamespace(query=lambda _: [("u:1-9",)])
    replica: Any = SimpleNamespace(query=lambda *_: [(answer,)])
    with pytest.raises(ChangesNotFlushed, match="has not caught up"):
        _catch_up(leader, replica, 5)

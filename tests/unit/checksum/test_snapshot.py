"""What is said while the snapshot waits for its lock."""

from __future__ import annotations

from spirit_py.checksum.snapshot import _reason
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT


def test_a_pause_names_what_kept_the_lock_from_being_requested():
    """No writer is to be looked for where the server took no connection."""
    full = ServerFault(1040, "Too many connections", where="checksum-lock session")
    assert _reason(full, []) == "Too many connections"
    late = ServerFault(LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded", where="session 3")
    assert _reason(late, []) == ""

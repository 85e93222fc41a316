"""Commit the copy under GTIDs of its own, which the server need not send to the feed.

A dump leaves out the GTIDs that its reader reports as received. These may be of transactions not
executed yet, if they are not the server's own (for its own the server refuses with error 1236,
measured). So a chunk's statement commits as number ``n`` of a uuid that belongs to one table
in one run, and the feed asks for the binlog with all numbers of that uuid marked as received.

With a number that is used already the server skips the statement without an error. Whether the
session owns the number is in ``@@SESSION.gtid_owned`` after ``SET gtid_next``, which checks and
takes the number in one step. If it does not, the statement commits under a number of the server's
own.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession

_PREFIX: Final = "73706972-6974-4"
"""``spirit``, and a four for a uuid of random bits."""
NUMBERS: Final = 2**63 - 1
"""The end of the numbers that a transaction may have (manual, GTID Format)."""


def new_run() -> str:
    """Return a random text that distinguishes one run's identifiers from all others."""
    return secrets.token_hex(8)


def own_uuid(run: str, schema: str, table: str) -> str:
    """Return the uuid under which a run copies a table."""
    digits = hashlib.sha256(f"{run}\0{schema}\0{table}".encode()).hexdigest()
    return f"{_PREFIX}{digits[:3]}-8{digits[3:6]}-{digits[6:18]}"


def is_own(tsid: str) -> bool:
    """Return whether an identifier is one that some run has copied under."""
    return tsid.startswith(_PREFIX)


@contextlib.contextmanager
def committing_as(session: SqlSession, gtid: str) -> Iterator[None]:
    """Let the one statement inside commit under this identifier; with an empty one, as usual.

    An identifier that is used already is not used again: the statement then commits as usual.

    Raises:
        ServerFault: also when gtid_next cannot be set back: the session must be closed then.
    """
    if not gtid:
        yield
        return
    session.execute(f"SET SESSION gtid_next = {string_literal(gtid)}")
    if session.query("SELECT @@SESSION.gtid_owned")[0][0] != gtid:
        session.execute("SET SESSION gtid_next = 'AUTOMATIC'")
        yield
        return
    try:
        yield
    except BaseException:
        with contextlib.suppress(ServerFault):
            _set_back(session, "ROLLBACK")
        raise
    # A statement that wrote nothing still holds its number.
    _set_back(session, "COMMIT")


def _set_back(session: SqlSession, end: str) -> None:
    """Release the number, and let the server number what follows."""
    session.execute(end)
    session.execute("SET SESSION gtid_next = 'AUTOMATIC'")

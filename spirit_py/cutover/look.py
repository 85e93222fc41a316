"""Looks at the server after the answer to a RENAME was lost, until the outcome is known (R15)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.cutover.verdict import BLIND, Evidence, TableNames, Verdict, judge
from spirit_py.errors import CutoverFailure, SchemaChanged, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.locks.named import named_lock_holder
from spirit_py.mysql.tables.identity import others_than
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.cutover.plan import Swap
    from spirit_py.mysql.tables.identity import Identity, Name

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = {Verdict.END_SESSION: 0.02, Verdict.LOOK_AGAIN: 0.5}
_READ_TIMEOUT: Final = 10

_EXISTING: Final = """
SELECT TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN (%s, %s, %s)"""


def existing(session: SqlSession, swap: Swap) -> TableNames:
    """Return which tables of a swap exist."""
    rows = session.query(_EXISTING, (swap.schema, swap.table, swap.new, swap.old))
    # lower_case_table_names=1 stores names in lower case, whatever was asked for.
    found = {str(name).lower() for (name,) in rows}
    return TableNames(
        source=swap.table.lower() in found,
        new=swap.new.lower() in found,
        old=swap.old.lower() in found,
    )


def check_names(session: SqlSession, swaps: Sequence[Swap]) -> None:
    """Check that the tables are there, and that nothing stands in an old table's place.

    Raises:
        CutoverFailure: naming the table.
    """
    for swap in swaps:
        found = existing(session, swap)
        if found.old:
            raise CutoverFailure(
                f"the table {quote_table(swap.schema, swap.old)} exists already",
                hint="rename or drop it, then run the same command again",
            )
        for there, name in ((found.source, swap.table), (found.new, swap.new)):
            if not there:
                raise CutoverFailure(
                    f"the table {quote_table(swap.schema, name)} is gone",
                    hint="somebody has renamed or dropped it: find out before running again",
                )


def require_these(session: SqlSession, proofs: Mapping[Name, Identity]) -> None:
    """Require tables to be the very ones that are to be swapped, also under their lock (R24).

    Raises:
        SchemaChanged: naming those that are gone, or are others.
    """
    if others := others_than(session, proofs):
        names = ", ".join(".".join(name) for name in others)
        raise SchemaChanged(
            f"{names}: not proven to be the table that this migration noted: somebody else has"
            " dropped it, or has put another one in its place, or this is another server",
            hint="see who made what is there now; drop or rename it, then run the same command"
            " again",
        )


def look(options: ConnectionOptions, *, fence: str, swaps: Sequence[Swap]) -> Evidence:
    """Take one look on a new connection; :data:`~spirit_py.cutover.verdict.BLIND` if impossible.

    The tables are only looked at when the fence is free. A session that still holds it is
    killed: only it can hold that name, so no stranger is hit.
    """
    try:
        with connect(options, role="look", read_timeout=_READ_TIMEOUT) as session:
            server = str(session.value("SELECT @@server_uuid"))
            holder = named_lock_holder(session, fence)
            if holder is not None:
                kill_session(session, holder)
                return Evidence(server=server, fence=holder)
            return Evidence(server=server, tables=tuple(existing(session, swap) for swap in swaps))
    except ServerFault as fault:
        _LOG.info("cannot look at the tables: %s", fault.message)
        return BLIND


def end_locking_session(
    options: ConnectionOptions, *, fence: str, patience: float, clock: Clock = time.monotonic
) -> bool:
    """See to it that the session that took the fence has ended; False when that is not known."""
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        evidence = look(options, fence=fence, swaps=())
        if evidence.server is not None and evidence.fence is None:
            return True
        if clock() >= deadline:
            return False
        sleeper.wait(_PAUSE_SECONDS[Verdict.END_SESSION])


def find_outcome(
    options: ConnectionOptions,
    *,
    fence: str,
    server: str,
    swaps: Sequence[Swap],
    patience: float,
    clock: Clock = time.monotonic,
) -> Verdict:
    """Look until the outcome is known; UNKNOWN when it is not within ``patience`` seconds.

    A stop request does not end this: the operator is owed an answer.

    Args:
        fence: the named lock that the lost session held.
        server: ``server_uuid`` of the server that was sent the RENAME.
    """
    deadline = clock() + patience
    sleeper = threading.Event()
    while True:
        verdict = judge(look(options, fence=fence, swaps=swaps), server=server)
        if verdict not in _PAUSE_SECONDS:
            return verdict
        if clock() >= deadline:
            return Verdict.UNKNOWN
        sleeper.wait(_PAUSE_SECONDS[verdict])

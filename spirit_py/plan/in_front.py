"""Sessions that keep a table for themselves while a plan is made: an ALTER, LOCK TABLES, a backup.

A plan reads past most of them, and a migration would wait behind each. Transactions that are merely
open are not among them: they come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.locks.front import named
from spirit_py.mysql.locks.look import LockRequest, find_in_front, why_locks_are_unseen
from spirit_py.plan.model import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name


def kept_by_others(session: SqlSession, table: Name) -> Sequence[Note]:
    """Return who keeps a table for itself, as one warning; none where that cannot be seen.

    Raises:
        ServerFault: the server could not be asked.
    """
    if why_locks_are_unseen(session):
        return ()
    try:
        found = find_in_front(session, LockRequest(tables=[table], defines=True))
        locked = {one.key for one in find_in_front(session, LockRequest(tables=[table]))}
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return ()
    keepers = [one for one in found if not one.own and (one.defining or one.table_locks)]
    if not keepers:
        return ()
    name = ".".join(table)
    if any(one.defining for one in keepers):
        what = f"{name} is being changed"
    elif any(one.key in locked for one in keepers):
        what = f"{name} is locked as a whole"
    else:
        # LOCK INSTANCE FOR BACKUP: rows are read and written.
        what = f"the definition of {name} is kept as it is"
    return (
        Note(
            cause=f"{what} by another session: {named(keepers)}",
            remedy="wait until it has ended: the locks of a migration wait for it, and a definition"
            " that changes meanwhile ends the migration",
            table=name,
            check="in_front",
        ),
    )

"""Tables that foreign keys join to those of a run, and other runs that work on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder
from spirit_py.mysql.processlist import whose
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name


def require_free_relatives(session: SqlSession, tables: Sequence[Name]) -> None:
    """Require that no other run works on a child or a parent: the swap of one alters the other.

    Each run has taken its own locks before, so of two that begin together one sees the other.

    Raises:
        Refusal: naming the table and the key.
    """
    for table in tables:
        for key in keys_around(session, *table):
            for other in sorted({key.child, key.parent} - set(tables)):
                holder = named_lock_holder(session, lock_name("migration", *other))
                if holder is not None:
                    raise Refusal(
                        f"another run works on {'.'.join(other)} ({whose(session, holder)}), and"
                        f" {key} is moved by the swap of either table",
                        hint="let it finish first, or change both tables in one command;"
                        f" {NO_RUN_OF_OURS.format(holder)}",
                        error_code=ErrorCode.ALREADY_RUNNING,
                    )

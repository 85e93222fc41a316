"""What the server keeps of a batch until all of it is done: one row for the batch, one a table.

The state of a table is written before and after each step that changes it, so that the same command
knows after any end, ``kill -9`` too, what is done. A table counts as done by what was proven while
it was changed, never by its name or by how its definition looks now: a change such as
``ENGINE=InnoDB`` leaves no trace in a definition.

==========  ======================================  ============================================
state       written                                 what the same command does
==========  ======================================  ============================================
pending     with the plan                           begins its migration
running     before its migration begins, with       carries on with the migration's checkpoint;
            the definition of then                  without one, see :mod:`spirit_py.batch.trial`
changed     by the migration, once the table is     has the migration drop what it left, where
            changed, and before it drops the        its checkpoint is there
            checkpoint that proves so
done        when the migration has ended            passes over it
==========  ======================================  ============================================
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spirit_py.statement.temporary_form import FOREIGN_KEY
from spirit_py.table.names import is_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.mysql.tables.identity import Name

_DIGITS = 12
_DIGEST = re.compile(r"(?:[0-9a-f]{32})?")
_PREFIX = "_spirit_py_batch_"


class TableState(StrEnum):
    """How far a table of a batch is."""

    PENDING = "pending"
    RUNNING = "running"
    CHANGED = "changed"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """What identifies a batch.

    Attributes:
        home: schema of its table: a copy of that table in another schema is not the batch's.
        server_uuid: of the server on which the batch was begun.
        asked: what was asked for, for people.
        started_at: ISO 8601, UTC.
        runs: how many runs it had, this one included.
        parallel: how many migrations run side by side.
    """

    home: str
    server_uuid: str
    asked: str
    started_at: str
    runs: int
    parallel: int
    on_failure: str
    program: str


@dataclass(frozen=True, kw_only=True)
class TableRecord:
    """One table of a batch.

    Attributes:
        statement: its normal form.
        state: a :class:`TableState`.
        outcome: that of its last migration, as in its report; empty before the first has ended.
        error: why that failed.
        before: :func:`form_of` the definition when its migration began.
        after: the same of what the statement makes of it; empty where that is unknown.
        report: of its last migration, as JSON; empty before the first has ended.
    """

    schema: str
    table: str
    statement: str
    state: str = TableState.PENDING.value
    outcome: str = ""
    error: str = ""
    before: str = ""
    after: str = ""
    report: str = ""

    def __post_init__(self) -> None:
        """Refuse the row of a table that cannot be."""
        if not (is_identifier(self.schema) and is_identifier(self.table)):
            raise ValueError("a name is none that the server takes")
        if self.state not in set(TableState):
            raise ValueError(f"there is no state {self.state!r}")
        if not all(map(_DIGEST.fullmatch, (self.before, self.after))):
            raise ValueError("a definition is noted as a digest")

    @property
    def name(self) -> Name:
        """Schema and name."""
        return self.schema, self.table

    def __str__(self) -> str:
        """Show the table's name."""
        return f"{self.schema}.{self.table}"


def form_of(shape: str, foreign_keys: str = "") -> str:
    """Return a digest of a definition without the counter.

    Args:
        foreign_keys: the definition whose foreign keys count, where ``shape`` has lost its own.
    """
    keys = FOREIGN_KEY.findall(foreign_keys or shape)
    return hashlib.sha256(repr((FOREIGN_KEY.sub("", shape), keys)).encode()).hexdigest()[:32]


def batch_name(kind: str, parts: Iterable[str]) -> str:
    """Return the name of the table that keeps a batch: the same for the same request."""
    digest = hashlib.sha256(repr((kind, sorted(parts))).encode()).hexdigest()[:_DIGITS]
    return f"{_PREFIX}{digest}"

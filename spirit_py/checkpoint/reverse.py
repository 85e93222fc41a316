"""What the checkpoint table holds about reverse replication (pure): record, request and answer.

After the swap the old tables follow the new ones, so that ``spirit-py revert`` can swap them back.
Nothing secret is in these rows (R20).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spirit_py.checkpoint.record import home_of
from spirit_py.errors import OutcomeUnknown, Refusal, SpiritError
from spirit_py.table.names import lock_name
from spirit_py.table.reverse import ReverseChanges

FOLLOWING: Final = "following"
"""The old tables follow the new ones: a process applies the changes, or another may continue."""
REVERTING: Final = "reverting"
"""The swap back may be under way: the names of the tables show whether it was made."""
ENDED: Final = "ended"
"""The old tables follow no more; the reason is in the record."""

WORKING: Final = "working"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass(frozen=True, kw_only=True)
class ReverseTable:
    """One table whose old one follows it.

    Attributes:
        old: name of the old table, in the same schema.
        undone: name that the new table gets in the swap back.
        changes: what the reversed mapping does to columns.
        now_shape: digest of the new table's definition; see :mod:`spirit_py.checkpoint.record`.
        old_shape: the same of the old table's.
        losses: what would be lost, a line each.
    """

    schema: str
    table: str
    old: str
    undone: str
    changes: ReverseChanges = field(default_factory=ReverseChanges)
    now_shape: str = ""
    old_shape: str = ""
    losses: tuple[str, ...] = ()

    @property
    def source(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.schema, self.table

    @property
    def name(self) -> str:
        """The table's name for messages."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class ReverseRecord:
    """Reverse replication of one table, or of several that were swapped together.

    Attributes:
        position: of the reverse feed, opaque.
        until: when it ends, seconds since 1970 by the server's clock.
        state: :data:`FOLLOWING`, :data:`REVERTING` or :data:`ENDED`.
        reason: why it has ended.
        skip_drop: the tables that the swap back takes out of use are to be kept.
        program: version of the program that wrote it.
    """

    tables: tuple[ReverseTable, ...]
    position: str
    until: float
    state: str = FOLLOWING
    reason: str = ""
    skip_drop: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        """Refuse a record that no run can have written."""
        if not self.tables:
            raise ValueError("it names no tables")

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.source for table in self.tables)

    @property
    def names(self) -> str:
        """The tables' names for messages."""
        return ", ".join(table.name for table in self.tables)

    @property
    def losses(self) -> list[str]:
        """What would be lost in all tables, a line each."""
        return [line for table in self.tables for line in table.losses]


@dataclass(frozen=True, kw_only=True)
class RevertRequest:
    """What ``spirit-py revert`` asks of the process that runs reverse replication.

    Attributes:
        token: random, of this request; its answer has the same token.
        skip_drop: keep the tables that are swapped out.
    """

    token: str
    skip_drop: bool = False

    @property
    def lock(self) -> str:
        """The named lock that the asking process holds for as long as it waits."""
        return lock_name("revert", self.token)


@dataclass(frozen=True, kw_only=True)
class RevertAnswer:
    """What the process that runs reverse replication answers.

    Attributes:
        state: :data:`WORKING`, :data:`DONE` or :data:`FAILED`.
        said: all messages so far, oldest first; the cause of a failure is the last.
        exit_code: of the error, once it failed.
    """

    token: str
    state: str
    said: tuple[str, ...]
    hint: str = ""
    details: tuple[str, ...] = ()
    exit_code: int = 0

    @classmethod
    def of_error(cls, token: str, error: SpiritError) -> RevertAnswer:
        """Return the answer that reports a failure."""
        return cls(
            token=token,
            state=FAILED,
            said=(error.message,),
            hint=error.hint,
            details=error.details,
            exit_code=error.exit_code,
        )

    def as_error(self) -> SpiritError:
        """Return the failure as an error with the same exit code."""
        kinds = {2: Refusal, 3: OutcomeUnknown}
        # A signal to the one process did not interrupt the other.
        kind = kinds.get(self.exit_code, SpiritError)
        return kind(self.said[-1], hint=self.hint, details=self.details)

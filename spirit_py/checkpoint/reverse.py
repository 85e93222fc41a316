"""What stands in the checkpoint table about a way back (pure): record, request and answer.

Nothing secret is in them (R20). A reader refuses what it does not know.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spirit_py.errors import OutcomeUnknown, Refusal, SpiritError
from spirit_py.table.names import lock_name
from spirit_py.table.reverse import ReverseChanges

FORMAT: Final = 1

KEEPING: Final = "keeping"
"""The old tables follow the new ones; somebody does it, or may go on with it."""
REVERTING: Final = "reverting"
"""The swap back may be under way: the names of the tables tell whether it was made."""
ENDED: Final = "ended"
"""There is no way back any more; the reason is in the record."""

WORKING: Final = "working"
DONE: Final = "done"
FAILED: Final = "failed"

_Kind = TypeVar("_Kind")


class UnreadableRecord(ValueError):
    """The text is no record of a known format. The message says why."""


@dataclass(frozen=True, kw_only=True)
class KeptTable:
    """One table with a way back.

    Attributes:
        old: name of the old table, in the same schema.
        undone: name that the new table gets in the swap back.
        renames: pairs of a name in the new table and the name in the old one.
        added: columns that only the old table has, in lower case.
        dropped: columns that only the new table has, in lower case.
        now_shape: digest of the new table's definition; see :mod:`spirit_py.checkpoint.record`.
        old_shape: the same of the old table's.
        losses: what would be lost, a line each.
    """

    schema: str
    table: str
    old: str
    undone: str
    renames: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    now_shape: str = ""
    old_shape: str = ""
    losses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The table's name for messages."""
        return f"{self.schema}.{self.table}"

    @property
    def changes(self) -> ReverseChanges:
        """What the way back does to columns."""
        return ReverseChanges(
            renames=dict(self.renames), added=frozenset(self.added), dropped=frozenset(self.dropped)
        )


@dataclass(frozen=True, kw_only=True)
class KeepRecord:
    """A way back, for one table or for several that were swapped together.

    Attributes:
        position: of the reverse feed, opaque.
        until: when the keeping ends, seconds since 1970 by the server's clock.
        state: :data:`KEEPING`, :data:`REVERTING` or :data:`ENDED`.
        reason: why it has ended.
        skip_drop: whoever asked for the swap back wants to keep what is swapped out.
        program: version of the program that wrote it.
    """

    tables: tuple[KeptTable, ...]
    server_uuid: str
    position: str
    until: float
    state: str = KEEPING
    reason: str = ""
    skip_drop: bool = False
    program: str = ""
    format: int = FORMAT

    @property
    def names(self) -> str:
        """The tables' names for messages."""
        return ", ".join(table.name for table in self.tables)

    @property
    def losses(self) -> list[str]:
        """What would be lost in all tables, a line each."""
        return [line for table in self.tables for line in table.losses]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What ``spirit-py revert`` asks the keeping process for.

    Attributes:
        token: of this one request, so that an answer to an earlier one is not taken for its own.
        skip_drop: keep the tables that are swapped out.
    """

    token: str
    skip_drop: bool = False

    @property
    def lock(self) -> str:
        """The named lock that whoever asks holds for as long as it waits."""
        return lock_name("revert", self.token)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the keeping process says about a request.

    Attributes:
        state: :data:`WORKING`, :data:`DONE` or :data:`FAILED`.
        said: everything that was said so far, oldest first; why it failed comes last.
        exit_code: of the error, once it failed.
    """

    token: str
    state: str
    said: tuple[str, ...]
    hint: str = ""
    details: tuple[str, ...] = ()
    exit_code: int = 0

    @classmethod
    def of_error(cls, token: str, error: SpiritError) -> Answer:
        """Tell a failure."""
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


def to_text(record: KeepRecord | Request | Answer) -> str:
    """Render as JSON."""
    return json.dumps(dataclasses.asdict(record), ensure_ascii=False, sort_keys=True)


def record_from(text: str) -> KeepRecord:
    """Read a record back.

    Raises:
        UnreadableRecord: for anything that is not a whole record of a known format.
    """
    found = _object(text)
    if found.get("format") != FORMAT:
        raise UnreadableRecord(
            f"it has format {found.get('format')!r}; this version reads {FORMAT}"
        )
    values = _checked(KeepRecord, {"skip_drop": False, **found})
    tables = [_checked(KeptTable, table) for table in values.pop("tables")]
    made = tuple(
        KeptTable(
            **{
                **table,
                "renames": tuple((str(new), str(old)) for new, old in table["renames"]),
                "added": tuple(table["added"]),
                "dropped": tuple(table["dropped"]),
                "losses": tuple(table["losses"]),
            }
        )
        for table in tables
    )
    if not made:
        raise UnreadableRecord("it names no tables")
    return KeepRecord(tables=made, **values)


def request_from(text: str) -> Request:
    """Read a request back."""
    return Request(**_checked(Request, _object(text)))


def answer_from(text: str) -> Answer:
    """Read an answer back."""
    values = _checked(Answer, _object(text))
    lists = {name: tuple(values[name]) for name in ("said", "details")}
    return Answer(**{**values, **lists})


def _object(text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise UnreadableRecord(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableRecord("it is not an object")
    return found


def _checked(kind: type[_Kind], found: Any) -> dict[str, Any]:
    """Return the fields, which must be exactly those of ``kind``."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(found, dict) or set(found) != names:
        seen = set(found) if isinstance(found, dict) else set()
        raise UnreadableRecord(f"the fields of {kind.__name__} differ: {sorted(seen ^ names)}")
    return dict(found)

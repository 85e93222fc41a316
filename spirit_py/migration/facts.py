"""What happens that only the run itself needs to know; events are for others, too (pure)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.events.swap import ArchiveProved
    from spirit_py.table.names import Name


class Fact:
    """Something that happened, and that only the run itself needs to know."""


class PlainFact(Fact, Enum):
    """What happens without more to tell."""

    RECORD_STAYS = auto()
    """A record that can be resumed from is in the checkpoint table."""
    TABLES_CHANGED = auto()
    """The tables are changed; told again by a run that resumes after that."""
    REVERTED = auto()
    """A revert was made."""
    ALTER_SENT = auto()
    """A change in place is sent, or about to be."""
    ONLY_BY_SERVER = auto()
    """The change is made by the server alone, and never copied."""
    KEY_UNPROVEN = auto()
    """A foreign key is there, and its rows are looked at."""
    SWAP_POSTPONED = auto()
    """An operator has postponed the swap; its sentinel is there."""
    TEARDOWN_BEGUN = auto()
    """The run ends: what it keeps or drops is decided next."""
    STAYS_RESUMABLE = auto()
    """The run ends, and the same command resumes."""


@dataclass(frozen=True)
class WaitsFor(Fact):
    """What is waited for now; empty for nothing."""

    what: str


@dataclass(frozen=True)
class LockHeldUp(Fact):
    """Others hold up a lock: what is waited for, empty at the end, and seconds since the last."""

    what: str
    seconds: float


@dataclass(frozen=True)
class IndexBuildPlanned(Fact):
    """Whether indexes are built after the copy is decided."""

    built: bool


@dataclass(frozen=True)
class IndexesLaidDown(Fact):
    """What is done with the indexes of one table, as the report says it."""

    said: str


@dataclass(frozen=True)
class IndexesTried(Fact):
    """A build of indexes has ended, in whatever way."""

    seconds: float
    tries: int


@dataclass(frozen=True)
class IndexesUnderWay(Fact):
    """The part that is built; None where the server does not show it."""

    built: float | None


@dataclass(frozen=True)
class TableCopiedBefore(Fact):
    """An earlier run has copied all rows of a table."""

    table: Name
    rows: int
    chunks: int


@dataclass(frozen=True)
class Rehearsed(Fact):
    """What a migration costs was measured, while the new tables were there."""

    figures: dict[str, Any]
    lines: list[str]


@dataclass(frozen=True)
class Swapped(Fact):
    """The cutover has ended with a swap."""

    result: CutoverResult


@dataclass(frozen=True)
class OldTablesLeft(Fact):
    """Old tables that stay, in the operator's hands."""

    tables: list[str]


def of_archive(proved: ArchiveProved) -> dict[str, Any]:
    """Return what the report says of an archive."""
    return {
        "table": proved.archived,
        **{name: getattr(proved, name) for name in ("folder", "rows", "kept", "files", "bytes")},
        "hash": proved.hash,
    }


@dataclass(frozen=True)
class BinlogReaches(Fact):
    """For how long the server keeps what a stopped run would read first; None for ever."""

    seconds: float | None


@dataclass(frozen=True)
class AlterAnswered(Fact):
    """The outcome of a change in place is known."""

    made: bool


@dataclass(frozen=True)
class SwapWanted(Fact):
    """Whether an operator wants the swap not to wait for a sentinel of ours."""

    wanted: bool


@dataclass(frozen=True)
class Counted(Fact):
    """What parts have counted, by the names of the report."""

    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Concluded(Fact):
    """The run has come to its end: ``done`` (``reverted`` after a revert) or ``rehearsed``."""

    outcome: str


@dataclass(frozen=True)
class Broken(Fact):
    """An error has ended the run."""

    error: BaseException

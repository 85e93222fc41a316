"""A plan as one tree of values: the JSON document of ``docs/plan.md``, and the text (pure).

What is not known is None or empty, never zero. Times are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Literal

from spirit_py.classes import asdict, dataclass
from spirit_py.codes import ErrorCode

Algorithm = Literal["instant", "inplace", "native", "copy", "cleanup", "unknown"]
Change = Literal["kept", "renamed", "changed", "converted", "added", "dropped"]
Action = Literal["none", "resume", "clean_up", "afresh", "ask", "give_up", "refuse", "running"]


@dataclass(frozen=True, kw_only=True)
class Note:
    """A warning or a refusal; cause and remedy are a line each."""

    cause: str
    remedy: str = ""
    table: str = ""
    check: str = ""
    code: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Method:
    """How a table is changed, and why; not ``certain`` where only the server can decide."""

    algorithm: Algorithm
    certain: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The definition before and after, as ``SHOW CREATE TABLE`` without the counter."""

    old: str
    new: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """One column; ``old`` is empty for an added one, ``new`` for a dropped one."""

    change: Change
    old: str = ""
    new: str = ""
    old_type: str = ""
    new_type: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class KeyPlan:
    """The key that identifies rows; without ``deduplicates`` all changes are applied."""

    name: str
    columns: tuple[str, ...]
    deduplicates: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class SizePlan:
    """The server's estimates of the table's size; ``computed``: by its columns or files."""

    rows: int
    data_bytes: int
    index_bytes: int
    computed: bool = False


@dataclass(frozen=True, kw_only=True)
class IndexesPlan:
    """The indexes built after the copy, by name; ``may_fall``: only if the copy slows down."""

    deferred: tuple[str, ...] = ()
    may_fall: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A trigger or a foreign key, and what happens to it."""

    kind: Literal["trigger", "foreign key"]
    name: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock that is taken: when, on what, for how long, and how long a request waits; in words."""

    name: str
    on: str
    held: str
    waits: str = ""


@dataclass(frozen=True, kw_only=True)
class PhaseTime:
    """The time of one phase, in seconds."""

    phase: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimePlan:
    """The seconds of a change, if nothing holds it back; None where it was not measured."""

    seconds: float | None = None
    least: float | None = None
    most: float | None = None
    phases: tuple[PhaseTime, ...] = ()
    how: str = ""
    sample_rows: int = 0
    sample_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SpacePlan:
    """Bytes written for table, sorting, search of duplicates and binlog; free: None if unknown."""

    table_bytes: int
    sort_bytes: int = 0
    search_bytes: int = 0
    binlog_bytes: int = 0
    free_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class WayPlan:
    """The rows of a table that go from one server to another; ``name`` is that of --shard-by.

    ``share`` is the part of the source's rows in a sample; None where all go, or it is not known.
    """

    source: str
    target: str
    space: SpacePlan
    name: str = ""
    rows: int | None = None
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class RunningRun:
    """A run that works on a table now, with the figures that it wrote last.

    ``session`` has its lock; ``host`` is empty without figures, ``statement`` where it is the same.
    ``started_at`` is the migration's, ``elapsed`` are seconds of its process.
    """

    table: str
    session: int
    host: str = ""
    process: int | None = None
    started_at: str = ""
    statement: str = ""
    phase: str = ""
    elapsed: float | None = None
    rows: int | None = None
    rows_total: int | None = None
    fraction: float | None = None
    eta: float | None = None
    run_eta: float | None = None
    run_eta_until: str = ""
    waiting_for: str = ""
    paused: str = ""
    figures_age: float | None = None


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """What an earlier run left, what this command would do with it, and what runs now."""

    action: Action
    reason: str = ""
    rows_copied: int | None = None
    remedy: str = ""
    running: RunningRun | None = None


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What happens to one table; parts that do not apply are None or empty.

    ``keeps``: which rows; ``kept_share``: the part of them in a sample;
    ``archive_to``: where the others are written to; ``ways``: where rows go in a move.
    """

    schema: str
    table: str
    statement: str
    method: Method
    size: SizePlan
    definition: Definition | None = None
    columns: tuple[ColumnPlan, ...] = ()
    key: KeyPlan | None = None
    indexes: IndexesPlan | None = None
    attached: tuple[Attached, ...] = ()
    locks: tuple[Lock, ...] = ()
    time: TimePlan = TimePlan()
    space: SpacePlan | None = None
    differs: tuple[str, ...] = ()
    keeps: str = ""
    archive_to: str = ""
    kept_share: float | None = None
    ways: tuple[WayPlan, ...] = ()

    @property
    def name(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over all tables; seconds one after the other, None where one is not known."""

    tables: int
    rows: int
    data_bytes: int
    index_bytes: int
    seconds: float | None = None
    least: float | None = None
    most: float | None = None
    table_bytes: int = 0
    binlog_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of one command; tables in the order of the statements, texts a line each."""

    server: str
    version: str = ""
    together: bool = False
    tables: tuple[TablePlan, ...] = ()
    earlier: EarlierRun = EarlierRun(action="none")
    replicas: tuple[str, ...] = ()
    pace: tuple[str, ...] = ()
    warnings: tuple[Note, ...] = ()
    refusals: tuple[Note, ...] = ()
    batch: tuple[str, ...] = ()
    switch: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the command would be refused."""
        return bool(self.refusals)

    @property
    def failures(self) -> tuple[Note, ...]:
        """Those of the refusals that only the copy meets, as the plan's sample has."""
        return tuple(one for one in self.refusals if one.code == ErrorCode.VALUE_LOST)

    @property
    def totals(self) -> Totals:
        """The sums over all tables."""
        spaces = [one.space for one in self.tables if one.space is not None]
        spaces += [way.space for one in self.tables for way in one.ways]
        return Totals(
            tables=len(self.tables),
            rows=sum(one.size.rows for one in self.tables),
            data_bytes=sum(one.size.data_bytes for one in self.tables),
            index_bytes=sum(one.size.index_bytes for one in self.tables),
            seconds=_sum([one.time.seconds for one in self.tables]),
            least=_sum([one.time.least for one in self.tables]),
            most=_sum([one.time.most for one in self.tables]),
            table_bytes=sum(one.table_bytes for one in spaces),
            binlog_bytes=sum(one.binlog_bytes for one in spaces),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {**asdict(self), "refused": self.refused, "totals": asdict(self.totals)}


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None

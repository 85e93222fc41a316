"""What ``spirit-py status`` and ``spirit-py ctl status`` show of one migration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.live import REVERT, STALE_SECONDS
from spirit_py.phases import Phase
from spirit_py.units import human_bytes, human_count, human_percent, human_seconds, of_about

if TYPE_CHECKING:
    from spirit_py.checkpoint.live import LiveFigures

REVERTED: Final = "reverted"
UNDONE: Final = "undone by a revert; only the cleanup is left"
"""What became of the swap: no table is swapped any more."""
RUNNING: Final = "running"
HANGING: Final = "hanging"
STOPPED: Final = "stopped"


@dataclass(frozen=True, kw_only=True)
class ReverseShown:
    """The reverse replication of one migration.

    Attributes:
        state: as in the record, or ``reverted`` where the old definition is in place again.
        reason: why it has ended, or why it cannot be read.
        left: seconds until it ends; below 0 when no process has ended it in time.
        age: seconds since its position was written.
        losses: what a revert would lose.
    """

    state: str
    reason: str = ""
    left: float = 0.0
    age: float = 0.0
    losses: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the same for people, a line each."""
        if self.reason:
            return [f"  reverse    reverse replication has ended: {self.reason}"]
        if self.state == REVERTED:
            return ["  reverse    reverted: the old definition is in place again"]
        until = f"for {human_seconds(self.left)} more" if self.left > 0 else "its time is over"
        kept = f"{self.state}, {until}; position written {human_seconds(max(0.0, self.age))} ago"
        return [f"  reverse    {kept}", *(f"             {line}" for line in self.losses)]


@dataclass(frozen=True, kw_only=True)
class MigrationShown:
    """One migration that left a checkpoint.

    Attributes:
        checkpoint: schema and name of the table that holds the record.
        unreadable: why there is no more to show; empty otherwise.
        age: seconds since the checkpoint was written.
        modes: the options that chose modes, which the same command must have; empty without any.
        position: where the change feed goes on; opaque.
        binlog: empty when the binlog still reaches the position, else why not.
        swapped: the swap is done, its cleanup is not; None when the tables do not tell.
        after_swap: what is left to do after the swap, or after one that was stopped half-way, in
            words; empty before it.
        old_table: which old tables are there after the swap, and what becomes of them; empty where
            none is, or nothing is noted of it.
        worked_on_by: the server session of the process that works on it now; None without one.
        again: what the same command would do, and why.
        begins: from where its process is connected, which has created no checkpoint table yet;
            empty otherwise, or where the account may not see that.
        orphaned: why the checkpoint leads to no migration; empty otherwise.
        deferred: a sentinel is there, which holds the swap back.
        paused: who has paused it, where it was stopped then: the next run begins paused.
        indexes: for each table whose indexes are built after the copy, which, and how far that is.
        reverse: its reverse replication; None where there is none.
        live: the figures that the process wrote last, and ``live_age`` how many seconds ago. None
            where a process works on it that has not written any yet.
        resumable_for: seconds for which the same command can still carry on; None where a process
            works on it, and after the swap.
    """

    checkpoint: str
    unreadable: str = ""
    begins: str = ""
    orphaned: str = ""
    statement: str = ""
    modes: str = ""
    tables: tuple[str, ...] = ()
    phase: str = ""
    age: float = 0.0
    started_at: str = ""
    runs: int = 0
    seconds: float = 0.0
    rows_copied: int = 0
    copied: bool = False
    position: str = ""
    binlog: str = ""
    swapped: bool | None = False
    after_swap: str = ""
    old_table: str = ""
    deferred: bool = False
    paused: str = ""
    worked_on_by: int | None = None
    again: str = ""
    reason: str = ""
    program: str = ""
    totals: dict[str, int] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()
    reverse: ReverseShown | None = None
    live: LiveFigures | None = None
    live_age: float | None = None
    resumable_for: float | None = None

    @property
    def state(self) -> str:
        """``running``, ``hanging`` or ``stopped``.

        A process hangs, or cannot write, where it holds its lock and its figures are old.
        """
        if self.worked_on_by is None:
            return STOPPED
        old = self.live_age is not None and self.live_age > STALE_SECONDS
        return HANGING if old else RUNNING

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {**asdict(self), "state": self.state}

    def lines(self) -> list[str]:
        """Return the same for people, a line each."""
        return [*self._lines(), *(self.reverse.lines() if self.reverse is not None else ())]

    def _lines(self) -> list[str]:
        if self.unreadable:
            return [
                f"{self.checkpoint}: a checkpoint that cannot be read: {self.unreadable}",
                f"  run again  it would {self.again}: {self.reason}",
            ]
        if self.orphaned:
            return [
                f"{', '.join(self.tables)}: left over ({self.checkpoint}): {self.orphaned}",
                f"  now        {self._working}",
                "  run again  it would start afresh; spirit-py cleanup drops what is left",
            ]
        if self.state == RUNNING and self.live is not None:
            where = f"running on {self.live.host} (process {self.live.pid})"
            return [
                f"{', '.join(self.tables)}: {self.live.phase}, {where}",
                *self._statement_lines(),
                *live_lines(self.live),
                *(f"  indexes    {line}" for line in self.indexes),
                *self._outcome_lines(),
            ]
        if self.worked_on_by is not None and self.live is None and not self.phase:
            begins = f"{', '.join(self.tables)}: a migration begins"
            return [begins, f"  now        {self._beginning}"]
        done = ", all rows" if self.copied else ""
        age, worked = human_seconds(self.age), human_seconds(self.seconds)
        reaches = self.binlog or "the binlog still reaches its position"
        return [
            f"{', '.join(self.tables)}: {self.phase}, checkpoint written {age} ago",
            *self._statement_lines(),
            f"  copied     {self.rows_copied} rows{done}",
            *(f"  indexes    {line}" for line in self.indexes),
            f"  worked     {worked} in {self.runs} run(s) since {self.started_at}",
            f"  position   {self.position or 'none: the change feed had not begun'}",
            *([f"  binlog     {reaches}"] if self.position else []),
            *self._outcome_lines(),
        ]

    def _statement_lines(self) -> list[str]:
        """Return what is changed, and under which modes."""
        statement = f"  statement  {' '.join(self.statement.split())}"
        return [statement, *([f"  modes      {self.modes}"] if self.modes else [])]

    def _outcome_lines(self) -> list[str]:
        """Return what holds the swap back, who works on it, and what comes next."""
        limit = human_seconds(self.resumable_for)
        until = f"for {limit} more: then the binlog or the checkpoint is too old"
        again = f"  run again  it would {self.again}: {self.reason}"
        if self.state == RUNNING and self.live is not None:
            again = f"  run again  after a stop {self._after_stop}"
        return [
            *([f"  swap       {self.after_swap}"] if self.after_swap else []),
            *([f"  old table  {self.old_table}"] if self.old_table else []),
            *(["  deferred   the cutover waits for its sentinel"] if self.deferred else []),
            *([f"  paused     {self.paused}, and so is the next run"] if self.paused else []),
            f"  now        {self._working}",
            *([f"  resumable  {until}"] if self.resumable_for is not None else []),
            again,
        ]

    @property
    def _beginning(self) -> str:
        where = f" from {self.begins}" if self.begins else ""
        return (
            f"a process works on it now (server session {self.worked_on_by}{where}); it looks at"
            " the table, or changes it in place, and shows more when it has created"
            f" {self.checkpoint}; until then its own log has what it waits for"
        )

    @property
    def _after_stop(self) -> str:
        """What comes after a stop of the process that works on it."""
        if self.live is not None and self.live.phase == REVERT:
            if self.after_swap == UNDONE:
                return "spirit-py revert drops what is left"
            return "spirit-py revert swaps back, as long as the server keeps its binlog"
        begins = ", from its checkpoint" if self.again == "carry on" else ""
        return f"it would {self.again}{begins}"

    @property
    def _working(self) -> str:
        if self.worked_on_by is None:
            return "no process works on it now"
        who = f"a process works on it now (server session {self.worked_on_by})"
        if self.live is None or self.live_age is None:
            return f"{who}; it has written no figures yet"
        age = human_seconds(self.live_age)
        if self.state == RUNNING:
            return f"{who}; figures written {age} ago"
        return (
            f"a process holds its lock (server session {self.worked_on_by}) and has written no"
            f" figures for {age}: it hangs, or it cannot write to the server; it is process"
            f" {self.live.pid} on {self.live.host}"
        )


def live_lines(live: LiveFigures) -> list[str]:
    """Return the figures of a running process for people, a line each; the unknown is left out."""
    shown = {
        "phase": _phase(live),
        "rows": _rows(live),
        "speed": _known(
            live.rate, f"{human_count(live.rate)} rows/s, ETA {human_seconds(live.eta)}"
        ),
        "whole run": _rest(live),
        "chunks": _chunks(live),
        "changes": _changes(live),
        "parked": live.parked,
        "throttle": live.throttled,
        "paused": live.paused,
        "waiting": _waiting(live),
        "note": live.note,
        "settings": ", ".join(f"{name}={text}" for name, text in live.settings.items()),
        "binlog": _known(
            live.binlog_left,
            f"kept for {human_seconds(live.binlog_left)} more from where a stopped run carries on",
        ),
        "checkpoint": _known(
            live.checkpoint_age, f"written {human_seconds(live.checkpoint_age)} ago"
        ),
    }
    return [f"  {name:<10} {text}" for name, text in shown.items() if text]


def _known(value: float | None, text: str) -> str:
    return "" if value is None else text


def _phase(live: LiveFigures) -> str:
    spent, run = human_seconds(live.phase_elapsed), human_seconds(live.elapsed)
    return f"{live.phase} of {live.table} for {spent}, run for {run}"


def _rows(live: LiveFigures) -> str:
    total = of_about(live.rows_total)
    part = _known(live.fraction, f" ({human_percent(live.fraction)})")
    unknown = "" if live.fraction is not None else ", how many there are is not known"
    return _known(live.rows, f"{human_count(live.rows)}{total}{part}{unknown}")


def _rest(live: LiveFigures) -> str:
    if not live.run_eta_parts:
        return ""
    whole = f"about {human_seconds(live.run_eta)}" if live.run_eta is not None else "unknown time"
    # The checkpoint table holds names in their own order.
    parts = (
        f"{phase} {'unknown' if seconds is None else f'~{human_seconds(seconds)}'}"
        for phase in Phase
        for name, seconds in live.run_eta_parts.items()
        if name == phase.value
    )
    return f"{whole} until {live.run_eta_until} ({', '.join(parts)})"


def _chunks(live: LiveFigures) -> str:
    most = _known(live.tasks_most, f" of {live.tasks_most}")
    tasks = _known(live.tasks, f", {live.tasks}{most} at a time")
    seconds = human_seconds(live.chunk_seconds)
    return _known(live.chunk_rows, f"{human_count(live.chunk_rows)} rows in {seconds}{tasks}")


def _waiting(live: LiveFigures) -> str:
    since = _known(live.waited, f" (for {human_seconds(live.waited)})")
    return f"{live.waiting_for}{since}" if live.waiting_for else "for nothing"


def _changes(live: LiveFigures) -> str:
    behind = _known(live.feed_lag, f", {human_seconds(live.feed_lag)} behind the server")
    waiting = f"{human_count(live.pending)} pending ({human_bytes(live.buffered_bytes)})"
    known = live.received_rate is not None and live.applied_rate is not None
    rates = (
        f", {human_count(live.received_rate)}/s in, {human_count(live.applied_rate)}/s applied"
        if known
        else ""
    )
    part = _known(live.deduplicated_part, f", {human_percent(live.deduplicated_part)} deduplicated")
    return _known(live.pending, f"{waiting}{behind}{rates}{part}")

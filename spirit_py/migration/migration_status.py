"""What ``spirit-py status`` and ``spirit-py ctl status`` show of one migration."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checkpoint.earlier_run import ReverseState
from spirit_py.checkpoint.live import REVERT, STALE_SECONDS
from spirit_py.checkpoint.record import ENDED, FOLLOWING, REVERTING
from spirit_py.classes import asdict, dataclass, field
from spirit_py.status.report import REVERTED
from spirit_py.status.wording import rows_of
from spirit_py.units import counted, human_seconds, to_the_second

if TYPE_CHECKING:
    from spirit_py.checkpoint.live import LiveFigures

UNDONE: Final = "undone by a revert; only the cleanup is left"
"""What became of the swap: no table is swapped any more."""
RUNNING: Final = "running"
HANGING: Final = "hanging"
STOPPED: Final = "stopped"
UNSEEN: Final = "unseen"
_NOT_KEPT: Final = (
    "the other options of the first command, which the checkpoint does not have: hooks,"
    " limits of load and lag, replicas, TLS"
)


@dataclass(frozen=True, kw_only=True)
class ReverseShown:
    """The reverse replication of one migration; ``left`` is in seconds, below 0 when overdue.

    It is None where the old table only follows once a revert asks for it, from ``position`` on.
    """

    state: str
    reason: str = ""
    left: float | None = 0.0
    age: float = 0.0
    losses: tuple[str, ...] = ()
    position: str = ""

    def lines(self, *, followed: bool) -> list[str]:
        """Return the same for people, a line each; ``followed``: a process works on it, or may."""
        if self.state == ReverseState.UNREADABLE.value:
            return [f"  reverse    its record cannot be read: {self.reason}"]
        if self.reason and (self.left is None or self.state != ENDED):
            return [f"  reverse    spirit-py revert is not possible: {self.reason}"]
        if self.reason:
            return [f"  reverse    reverse replication has ended: {self.reason}"]
        if self.state == REVERTED:
            return ["  reverse    reverted: the old definition is in place again"]
        more = [*([f"from position {self.position}"] if self.position else []), *self.losses]
        if self.left is None:
            said = "spirit-py revert swaps back, as long as the binlog reaches to the swap"
            if self.state == REVERTING:
                said = "a revert was begun; spirit-py revert finishes it"
            return [f"  reverse    {said}", *(f"             {line}" for line in more)]
        left = human_seconds(self.left)
        until = f"for {left} more" if self.left > 0 else "its time has passed"
        state = self.state
        if state == FOLLOWING and not followed:
            state = "nothing follows now (no process works on it)"
            until = f"{left} of its time are left" if self.left > 0 else until
            again = "goes on" if self.left > 0 else "drops the old table"
            more.insert(
                0, f"the same command with --keep-old-current {again}; spirit-py revert swaps back"
            )
        kept = f"{state}, {until}; position written {human_seconds(max(0.0, self.age))} ago"
        return [f"  reverse    {kept}", *(f"             {line}" for line in more)]


@dataclass(frozen=True, kw_only=True)
class MigrationShown:
    """One migration that left a checkpoint; texts are empty where there is nothing to say.

    ``unreadable`` says why there is no more. ``modes`` are options that the same command must have,
    ``binlog`` says why the position is out of reach. ``swapped``: only its cleanup is left; None
    where the tables do not show it. ``worked_on_by`` is the server session of a process at work
    now, ``read_by`` that of an archive or a repair, which no run begins beside, ``begins`` from
    where that is connected while it has no checkpoint table. ``paused`` holds for the next run,
    too; ``live`` figures were written ``live_age`` seconds ago, and ``held_up_by`` keeps it from
    writing others. ``unseen``: why a process may work that this server does not show.
    ``resumable_for`` is None where a process works on it, or may, and after the swap;
    ``command`` resumes. ``moved_from``: the servers from which it comes to this one; ``asked``: the
    server that has the figures of a move, and is asked; empty for this.
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
    read_by: int | None = None
    again: str = ""
    reason: str = ""
    program: str = ""
    totals: dict[str, int] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()
    reverse: ReverseShown | None = None
    live: LiveFigures | None = None
    live_age: float | None = None
    held_up_by: str = ""
    unseen: str = ""
    resumable_for: float | None = None
    command: str = ""
    moved_from: tuple[str, ...] = ()
    asked: str = ""

    @property
    def state(self) -> str:
        """Return ``running``, ``hanging`` (lock held, figures are old), ``stopped``, ``unseen``."""
        if self.worked_on_by is None:
            return UNSEEN if self.unseen else STOPPED
        return HANGING if self.live_age is not None and self.live_age > STALE_SECONDS else RUNNING

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {**asdict(self), "state": self.state}

    def lines(self) -> list[str]:
        """Return the same for people, a line each."""
        if self.reverse is None:
            return self._lines()
        followed = self.worked_on_by is not None or bool(self.unseen)
        return [*self._lines(), *self.reverse.lines(followed=followed)]

    def _lines(self) -> list[str]:
        if self.unreadable:
            return [
                f"{self.checkpoint}: a checkpoint that cannot be read: {self.unreadable}",
                *([f"  process    {self._who}"] if self.worked_on_by is not None else []),
                f"  run again  it would {self.again}: {self.reason}",
            ]
        if self.orphaned:
            return [
                f"{', '.join(self.tables)}: left over ({self.checkpoint}): {self.orphaned}",
                f"  process    {self._working}",
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
        if self.moved_from:
            origins = ", ".join(self.moved_from)
            return [
                f"{', '.join(self.tables)}: is moved here from {origins}: {self.phase}",
                *_labelled({"process": self._seen_working, "figures": self._elsewhere}),
            ]
        if self.worked_on_by is not None and self.live is None and not self.phase:
            begins = f"{', '.join(self.tables)}: a migration begins"
            return [begins, f"  process    {self._beginning}"]
        done = ", all rows" if self.copied else ""
        age, worked = human_seconds(self.age), human_seconds(self.seconds)
        since = to_the_second(self.started_at)
        hangs = f", hanging (no figures for {human_seconds(self.live_age)})"
        hangs = hangs if self.state == HANGING else ""
        return [
            f"{', '.join(self.tables)}: {self.phase}{hangs}, checkpoint written {age} ago",
            *self._statement_lines(),
            f"  copied     {counted(self.rows_copied, 'row')}{done}",
            *(f"  indexes    {line}" for line in self.indexes),
            f"  worked     {worked} in {counted(self.runs, 'run')} since {since}",
            *self._place_lines(),
            *self._outcome_lines(),
        ]

    def _place_lines(self) -> list[str]:
        """Return where the copy's feed goes on; nothing where the way back has a place."""
        if self.reverse is not None and self.reverse.position:
            return []
        return [
            f"  position   {self.position or 'none: the change feed had not begun'}",
            *(
                [f"  binlog     {self.binlog or 'the binlog still reaches its position'}"]
                if self.position
                else []
            ),
        ]

    def _statement_lines(self) -> list[str]:
        statement = f"  statement  {' '.join(self.statement.split())}"
        return [statement, *([f"  modes      {self.modes}"] if self.modes else [])]

    def _outcome_lines(self) -> list[str]:
        limit = human_seconds(self.resumable_for)
        until = f"for {limit} more: then the binlog or the checkpoint is too old"
        again = f"it would {self.again}: {self.reason}"
        if self.worked_on_by is not None:
            running = self.state == RUNNING
            when = "after a stop" if running else "refused until that process ends; then"
            again = f"{when} {self._after_stop}"
        paused = f"{_by_whom(self.paused)}, and so is the next run"
        return _labelled(
            {
                "swap": self.after_swap,
                "old table": self.old_table,
                "deferred": "the cut-over waits for its sentinel" if self.deferred else "",
                "paused": paused if self.paused else "",
                "process": self._seen_working if self.asked else self._working,
                "figures": self._elsewhere,
                "resumable": until if self.resumable_for is not None else "",
                "run again": again,
                "command": self.command,
                "add to it": _NOT_KEPT if self.command else "",
                "compare": self._doubtful,
            }
        )

    @property
    def _doubtful(self) -> str:
        """Return what to compare of the command: a forged row would drop, or send, rows by it."""
        words = shlex.split(self.command)
        found = [one for one in ("--keep", "--archive-to", "--archive-by") if one in words]
        if not found:
            return ""
        return (
            f"{' and '.join(found)} with what you gave at first: they stand in {self.checkpoint},"
            " which others may be able to write"
        )

    @property
    def _beginning(self) -> str:
        where = f" from {self.begins}" if self.begins else ""
        return (
            f"a process works on it now (server session {self.worked_on_by}{where}); it checks"
            " the table, or changes it in place, and shows more when it has created"
            f" {self.checkpoint}; until then its own log says what it waits for"
        )

    @property
    def _after_stop(self) -> str:
        if self.live is not None and self.live.phase == REVERT:
            if self.after_swap == UNDONE:
                return "spirit-py revert drops what is left"
            return "spirit-py revert swaps back, as long as the server keeps its binlog"
        begins = ", from its checkpoint" if self.again == "resume" else ""
        return f"it would {self.again}{begins}"

    @property
    def _elsewhere(self) -> str:
        if not self.asked:
            return ""
        return (
            f"its note names {self.asked}: ask spirit-py status and ctl there only if that is a"
            " source of your move"
        )

    @property
    def _seen_working(self) -> str:
        return self._working if self.worked_on_by is None else self._who

    @property
    def _who(self) -> str:
        return f"a process works on it now (server session {self.worked_on_by})"

    @property
    def _working(self) -> str:
        if self.unseen:
            return self.unseen
        if self.worked_on_by is None:
            beside = (
                f"; an archive or a repair of the table (server session {self.read_by}) is to end"
            )
            beside = f"{beside} first" if self.read_by is not None else ""
            return f"no process works on it now{beside}"
        who = self._who
        if self.live is None:
            return f"{who}; it has written no figures yet"
        if self.live_age is None:
            unknown = "whether it still writes figures is unknown: the server's clock was set back"
            return f"{who}; {unknown}"
        age = human_seconds(self.live_age)
        if self.state == RUNNING:
            return f"{who}; figures written {age} ago"
        why = "it hangs, or it cannot write to the server"
        why = f"it waits for {self.held_up_by}" if self.held_up_by else why
        return (
            f"a process holds its lock (server session {self.worked_on_by}) and has written no"
            f" figures for {age}: {why}; it is process {self.live.pid} on {self.live.host}"
        )


def _by_whom(paused: str) -> str:
    """Return a pause without the word that its label has."""
    return paused.removeprefix("paused ")


def live_lines(live: LiveFigures) -> list[str]:
    """Return the figures of a running process for people, a line each; the unknown is left out."""
    spent, run = human_seconds(live.phase_elapsed), human_seconds(live.elapsed)
    shown = {
        "phase": f"{live.phase} of {live.table} for {spent}, run for {run}",
        **{
            row.label: ", ".join(one.text for one in row.facts) for row in rows_of(live, live.phase)
        },
        "paused": _by_whom(live.paused),
        "settings": ", ".join(f"{name}={text}" for name, text in live.settings.items()),
    }
    return _labelled(shown)


def _labelled(shown: dict[str, str]) -> list[str]:
    return [f"  {name:<10} {text}" for name, text in shown.items() if text]

"""Events of a run as a whole, of batches, of what operators asked for, and of ``watch`` (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.events.event import Event, Level, Worded, aside, event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@event("run.begun", "spirit-py {program} {command} on {server}", has_line=False)
class RunBegun(Event):
    """First of all, before the server is asked anything."""

    command: str
    server: str
    program: str


@dataclass(frozen=True, kw_only=True)
class Ended(Event):
    """The end of a run, or of one table of a batch."""

    outcome: str
    exit_code: int
    error: str
    code: str | None
    hint: str
    details: list[str]
    seconds: float

    @property
    def sentence(self) -> str:
        """Outcome and cause."""
        return f"ended: {self.outcome}" + (f": {self.error}" if self.error else "")

    @property
    def level(self) -> Level:
        """An error, where there is one."""
        return "error" if self.error else "info"


@event("run.ended", has_line=False)
class RunEnded(Ended):
    """Last of all."""


@event("stop.requested", "stopping and cleaning up: {reason}")
class StopRequested(Event):
    """A signal, an operator or a fault has stopped the run."""

    reason: str


@event("metrics.served", "metrics are at http://{address}/metrics")
class MetricsServed(Event):
    """Prometheus finds the figures there."""

    address: str


@event("statement.read", "{statement} on {server}")
class StatementRead(Event):
    """The statement is read, and the server is known."""

    statement: str
    tables: list[str]
    server: str
    mysql: str
    names: Sequence[tuple[str, str]] = aside()
    estimates: Mapping[tuple[str, str], int] = aside()


@event("sessions.ended", "ended {sessions:# session} of an earlier run on the server")
class SessionsEnded(Event):
    """Sessions of a killed run were ended."""

    sessions: int


@event("resume.decided")
class ResumeDecided(Worded):
    """There was an unfinished migration of the table."""

    decision: str
    reason: str
    number: int
    rows_copied: int
    phase: str | None
    swapped: bool = aside(default=False)


@event("plan.made")
class PlanMade(Worded):
    """What will be done is known; nothing is written yet."""

    plan: dict[str, Any]
    builds_indexes: bool = aside(default=False)
    shown: Sequence[tuple[str, str]] = aside()

    @property
    def screen(self) -> Sequence[tuple[str, str]]:
        """The plan, line by line."""
        return () if self.prefix else self.shown


#: The reason that is told where the server made an ALTER, and the table is as it was.
SAME_ALREADY: Final = "the definition was the same already"
_HOW = {
    "instant": "instantly",
    "inplace": "in place",
    "native": "by a copy of its own, for which writes wait",
}


@event("algorithm.chosen")
class AlgorithmChosen(Event):
    """How the table is changed is decided: ``instant``, ``inplace``, ``native`` or ``copy``."""

    algorithm: str
    reason: str

    @property
    def sentence(self) -> str:
        """The algorithm, and why it is a copy."""
        if self.algorithm == "copy":
            return f"copying, because {self.reason}"
        if self.reason == SAME_ALREADY:
            return f"the server made the ALTER {_HOW[self.algorithm]}: {self.reason}"
        return f"the server changes the table {_HOW[self.algorithm]}"


@event("phase.entered", "phase {phase}, after {seconds:time} of {before}", has_line=False)
class PhaseEntered(Event):
    """A phase begins; ``seconds`` were spent in the one before."""

    phase: str
    before: str
    seconds: float


@event("progress")
class ProgressMade(Worded):
    """The figures of now; those of :class:`spirit_py.progress.MigrationStatus`."""

    figures: Mapping[str, object] = aside()

    @property
    def fields(self) -> dict[str, object]:
        """The figures themselves."""
        return dict(self.figures)


@event("summary")
class Summary(Worded):
    """A line of what was done, in figures, at the end."""


@event("warning", level="warning")
class Warned(Worded):
    """Something that the operator should know; ``code`` is that of the check that found it."""

    code: str | None = None


@event("log.written")
class LogWritten(Worded):
    """A log record of a part or a library."""

    weight: Level = aside()
    logger: str
    trace: str | None

    @property
    def level(self) -> Level:
        """That of the record."""
        return self.weight


@event(
    "log.lost",
    "{lines} lines are missing here: the output was not read, or its disk was full",
    level="warning",
)
class LogLost(Event):
    """Lines of the log were passed over."""

    lines: int


@event(
    "hook.failed",
    "the hook at {at} {said}; the run goes on, and such failures are not reported again",
    level="warning",
)
class HookFailed(Event):
    """A hook could not be called, or failed; once for each kind of failure."""

    at: str
    kind: str
    reason: str
    exit_code: int | None
    said: str = aside()


@event("batch.planned")
class BatchPlanned(Worded):
    """What is done with all tables is known."""

    tables: int
    refused: int
    left: int


@event("table.planned")
class TablePlanned(Worded):
    """What is done with one table is known."""

    action: str
    refusals: list[str]


@event("table.skipped", "{table}: {reason}")
class TableSkipped(Event):
    """Nothing is done with a table."""

    reason: str


@event("table.ended")
class TableEnded(Ended):
    """A table's migration has ended; ``summed_up`` is the first line of its summary."""

    summed_up: str = aside()

    @property
    def sentence(self) -> str:
        """The cause, or what was done."""
        return f"{self.table}: {self.outcome}: {self.error}" if self.error else self.summed_up


@event("server.planned")
class ServerPlanned(Worded):
    """What is done on one server of a fleet is known."""

    tables: int
    rows: int
    refusals: list[str]


@event("wave.ready", "ready to begin the wave {wave}: asking the hook", has_line=False)
class WaveReady(Event):
    """The hook of ``--hook-veto`` is asked before the next servers of a fleet begin."""

    wave: str
    servers: list[str]
    done: int
    failed: int
    number: int


@event(
    "wave.vetoed",
    "the hook vetoed the wave {wave}: {reason}; it is asked again in {seconds:time}",
    level="warning",
)
class WaveVetoed(Event):
    """The hook does not agree."""

    wave: str
    reason: str
    number: int
    seconds: float


@event("wave.begun", "wave {wave}: {servers:list}")
class WaveBegun(Event):
    """The servers of a wave may begin."""

    wave: str
    servers: list[str]


@event("server.begun", "{fleet_server}: begun at {address}")
class ServerBegun(Event):
    """A process works on a server of a fleet."""

    address: str


@event("server.ended")
class ServerEnded(Ended):
    """The process of a server has ended; ``summed_up`` is the last line of its summary."""

    summed_up: str = aside()

    @property
    def sentence(self) -> str:
        """The cause, or what was done."""
        told = f"{self.outcome}: {self.error}" if self.error else self.summed_up
        return f"{self.fleet_server}: {told}"


@event("fleet.ordered", "an operator has ordered: {said}")
class FleetOrdered(Worded):
    """The fleet is paused, goes on, or is to keep to another number of servers at a time."""

    paused: bool
    at_once: int


@event("control.obeyed", "ctl {request}: {said}; asked by {client}")
class ControlObeyed(Event):
    """A request was carried out."""

    verb: str
    arguments: dict[str, Any]
    client: str | None
    request: str = aside()
    said: str = aside()


@event("control.refused")
class ControlRefused(Worded):
    """A request was not carried out; what cannot be read of it is None."""

    verb: str | None = None
    arguments: dict[str, Any] | None = None
    client: str | None = None
    reason: str


@event("settings.kept", "set by operators of the earlier run: {settings:pairs}")
class SettingsKept(Event):
    """What operators of an earlier run had set counts again."""

    settings: dict[str, str]


@event("watch.begun", "following {scope} from {position}")
class WatchBegun(Event):
    """Records are written from that position on."""

    scope: str
    position: str


@event("watch.empty", "there is no table in {scope} now")
class WatchEmpty(Event):
    """No table is followed yet."""

    scope: str


@event(
    "watch.xa_prepared",
    "XA transactions are prepared already; their rows are not in this stream: {transactions:list}",
)
class WatchXaPrepared(Event):
    """Transactions that were prepared before are not in the stream."""

    transactions: list[str]


@event("watch.broken", "position: {position}")
class WatchBroken(Event):
    """The stream has ended by an error; it goes on from that position."""

    position: str

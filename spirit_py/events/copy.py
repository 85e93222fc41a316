"""Events of the change feed, the copy, what slows it down, and the comparison (pure)."""

from __future__ import annotations

from spirit_py.events.event import Event, Level, aside, event
from spirit_py.units import counted, human_count, human_seconds


@event("feed.begun", "the change feed is running", detail=True)
class FeedBegun(Event):
    """Changes are received from ``position`` on."""

    position: str


@event("feed.lost", "the change feed lost its connection and reconnects: {reason}", level="warning")
class FeedLost(Event):
    """The connection was lost."""

    reason: str


@event("feed.reconnected", "the change feed is connected again after {seconds:time}")
class FeedReconnected(Event):
    """The connection is there again."""

    seconds: float


@event(
    "feed.flaps",
    "the change feed has lost its connection {losses} more times in {within:time}, for"
    " {seconds:time} in all; no change is lost; the last time: {reason}",
    level="warning",
)
class FeedFlaps(Event):
    """Losses that follow each other are told together."""

    losses: int
    seconds: float
    within: float
    reason: str


@event(
    "backpressure.begun",
    "{buffered_bytes:size} of changes are buffered: reading of the binlog stops"
    " until there is room",
)
class BackpressureBegun(Event):
    """The buffers of changes are full."""

    buffered_bytes: int


@event("backpressure.ended", "reading of the binlog resumed after {seconds:time}")
class BackpressureEnded(Event):
    """There is room again."""

    seconds: float


@event(
    "binlog.expires",
    "the position from which a stopped run would resume is {seconds:time} old; the"
    " server keeps its binlog for {seconds_left:time} more (binlog_expire_logs_seconds, or the"
    " hours of RDS): raise that, or see what changes wait for",
    level="warning",
)
class BinlogExpires(Event):
    """The place of a resume may soon be purged (R19)."""

    seconds_left: float
    seconds: float


@event("copy.begun", "copying {table}: about {rows_estimated:# row}", has_line=False)
class CopyBegun(Event):
    """The copy of a table begins, or goes on."""

    rows_estimated: int
    bytes: int


@event("copy.done", "copied {rows:# row} of {table} in {chunks:# chunk} and {seconds:time}")
class CopyDone(Event):
    """Every row of a table is copied."""

    rows: int
    chunks: int
    seconds: float


@event("throttle.begun", "waiting for {reason}")
class ThrottleBegun(Event):
    """A throttler holds work back."""

    throttler: str
    reason: str


@event("throttle.ended", "no longer waiting for: {throttler}, after {seconds:time}")
class ThrottleEnded(Event):
    """A throttler holds nothing back any more."""

    throttler: str
    seconds: float


@event("checkpoint.written", "checkpoint written: {rows_copied:# row} copied", has_line=False)
class CheckpointWritten(Event):
    """A stopped run would resume from there."""

    phase: str
    rows_copied: int
    position: str


@event(
    "checkpoint.kept",
    "the copy and its checkpoint are kept: the same command resumes from here ({checkpoints:list})",
)
class CheckpointKept(Event):
    """The run ends, and what it copied stays."""

    checkpoints: list[str]


@event("indexes.planned", "{said}: {reason}", detail=True)
class IndexesPlanned(Event):
    """What is done with the secondary indexes of a table."""

    indexes: list[str]
    plan: str
    reason: str
    said: str = aside()


@event("indexes.kept", "the indexes {listed} of {table} are not built after the copy: {reason}")
class IndexesKept(Event):
    """Something keeps large indexes from being built after the copy."""

    indexes: list[str]
    reason: str
    listed: str = aside()


@event(
    "indexes.dropped",
    "rows of {table} are {why}: the indexes {listed} are dropped, and built after the copy",
)
class IndexesDropped(Event):
    """The copy was slowed down by indexes."""

    indexes: list[str]
    reason: str
    why: str = aside()
    listed: str = aside()


@event("indexes.repeated", "building {listed} again: {reason}; now changes wait for the build")
class IndexesRepeated(Event):
    """A build has failed, because of changes that were applied meanwhile."""

    indexes: list[str]
    reason: str
    listed: str = aside()


@event("indexes.built")
class IndexesBuilt(Event):
    """The indexes that were left out are there; without a try, an earlier run has built them."""

    indexes: list[str]
    seconds: float
    tries: int
    listed: str = aside()

    @property
    def sentence(self) -> str:
        """Which, and how long that took."""
        if not self.tries:
            return f"indexes of {self.table} that are built already: {self.listed}"
        return (
            f"indexes of {self.table} built after the copy: {self.listed} in"
            f" {human_seconds(self.seconds)}, {counted(self.tries, 'statement')}"
        )


@event("duplicates.searched", "searched about {rows} rows for duplicates of the new key {index}")
class DuplicatesSearched(Event):
    """The search for duplicates of a new unique key goes on."""

    index: str
    rows: int


@event("checksum.begun", "comparing {said}", detail=True)
class ChecksumBegun(Event):
    """A table is compared; ``reason`` says why once more, and is None for the first time."""

    target: str
    columns: int
    key: str
    reason: str | None
    said: str = aside()


@event(
    "checksum.resumed",
    "the checksum of {table} goes on where the earlier run's stopped: {target} was not written to"
    " since",
)
class ChecksumResumed(Event):
    """An earlier run's comparison counts."""

    target: str = aside()


@event("checksum.restarted", "the checksum of {table} starts from the beginning: {reason}")
class ChecksumRestarted(Event):
    """An earlier run's comparison does not count."""

    reason: str


@event(
    "checksum.done",
    "checksum of {table} clean: {rows:# row} compared in pass {passes}, {differences:# difference},"
    " {repaired_chunks:# chunk} repaired",
)
class ChecksumDone(Event):
    """A comparison has ended; in a migration with a clean pass."""

    rows: int
    passes: int
    differences: int
    repaired_chunks: int
    lock_held_ms: float
    seconds: float
    remaining: int | None = aside(default=None)
    kinds: str = aside(default="")

    @property
    def sentence(self) -> str:
        """The figures; of ``spirit-py checksum``, how many rows differ in the end."""
        if self.remaining is None:
            return super().sentence
        kinds = f" ({self.kinds})" if self.remaining else ""
        rows, remaining = human_count(self.rows), human_count(self.remaining)
        return f"compared {rows} rows of the source: {remaining} differ{kinds}"


@event("differences.found", level="warning")
class RowsDiffer(Event):
    """Rows differ in a pass."""

    rows: int
    passes: int
    examples: list[str]

    @property
    def sentence(self) -> str:
        """How many, and the first of them."""
        first = f": {self.examples[0]}" if self.examples else ""
        return f"{human_count(self.rows)} rows of {self.table} differ in pass {self.passes}{first}"


@event("differences.repaired", "{rows:# row} that differed from {table} repaired")
class DifferencesRepaired(Event):
    """The rows that differ were copied again, or deleted where the source has none."""

    rows: int
    passes: int


@event(
    "doubts.compared",
    "{rows} rows of {table} that a failed cascade may have changed were compared: {differences}"
    " differ",
)
class DoubtsCompared(Event):
    """Rows in doubt were compared."""

    rows: int
    differences: int
    examples: list[str]

    @property
    def level(self) -> Level:
        """A warning, where one differs."""
        return "warning" if self.differences else "info"

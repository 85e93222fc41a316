"""Things that happen in a run: stable names, a line for people, and named figures (pure).

One event is shown by a display, written by a log, drawn into a timeline, and handed to a hook: all
of these go by its name and its fields, never by its text. ``docs/events.md`` is the page for
those who write alerts and pipelines; a test holds it against :data:`FIELDS`.

A name is ``object.what_happened``. Names and fields are only ever added. A field whose value is
not known is None: never zero.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Level = Literal["info", "warning", "error"]


class EventName(enum.StrEnum):
    """What happened."""

    RUN_BEGUN = "run.begun"
    RUN_ENDED = "run.ended"
    STOP_REQUESTED = "stop.requested"
    METRICS_SERVED = "metrics.served"
    STATEMENT_READ = "statement.read"
    SESSIONS_ENDED = "sessions.ended"
    RESUME_DECIDED = "resume.decided"
    PLAN_MADE = "plan.made"
    ALGORITHM_CHOSEN = "algorithm.chosen"
    PHASE_ENTERED = "phase.entered"
    PROGRESS = "progress"
    SUMMARY = "summary"
    WARNING = "warning"
    LOG_WRITTEN = "log.written"
    LOG_LOST = "log.lost"
    HOOK_FAILED = "hook.failed"

    DUPLICATES_SEARCHED = "duplicates.searched"
    FEED_BEGUN = "feed.begun"
    FEED_LOST = "feed.lost"
    FEED_RECONNECTED = "feed.reconnected"
    FEED_FLAPS = "feed.flaps"
    BACKPRESSURE_BEGUN = "backpressure.begun"
    BACKPRESSURE_ENDED = "backpressure.ended"
    BINLOG_EXPIRES = "binlog.expires"
    COPY_BEGUN = "copy.begun"
    COPY_DONE = "copy.done"
    THROTTLE_BEGUN = "throttle.begun"
    THROTTLE_ENDED = "throttle.ended"
    CHECKPOINT_WRITTEN = "checkpoint.written"
    CHECKPOINT_KEPT = "checkpoint.kept"
    INDEXES_PLANNED = "indexes.planned"
    INDEXES_DROPPED = "indexes.dropped"
    INDEXES_REPEATED = "indexes.repeated"
    INDEXES_BUILT = "indexes.built"

    CHECKSUM_BEGUN = "checksum.begun"
    CHECKSUM_RESUMED = "checksum.resumed"
    CHECKSUM_RESTARTED = "checksum.restarted"
    CHECKSUM_DONE = "checksum.done"
    DIFFERENCES_FOUND = "differences.found"
    DIFFERENCES_REPAIRED = "differences.repaired"
    DOUBTS_COMPARED = "doubts.compared"

    LOCK_BLOCKED = "lock.blocked"
    LOCK_UNSEEN = "lock.unseen"
    CUTOVER_DEFERRED = "cutover.deferred"
    CUTOVER_RELEASED = "cutover.released"
    CUTOVER_HELD_BACK = "cutover.held_back"
    CUTOVER_LOCKS_MORE = "cutover.locks_more"
    CUTOVER_TRY_FAILED = "cutover.try_failed"
    CUTOVER_READY = "cutover.ready"
    CUTOVER_VETOED = "cutover.vetoed"
    RENAME_UNANSWERED = "rename.unanswered"
    SWAP_DONE = "swap.done"
    SWAP_INCOMPLETE = "swap.incomplete"
    SNAPSHOTS_GUARDED = "snapshots.guarded"
    ATTACHMENTS_SETTLED = "attachments.settled"
    ATTACHMENTS_LEFT = "attachments.left"

    OLD_TABLE_WAITS = "old_table.waits"
    OLD_TABLE_DROPPED = "old_table.dropped"
    OLD_TABLE_KEPT = "old_table.kept"
    AUXILIARY_DROPPED = "auxiliary.dropped"

    REVERSE_BEGUN = "reverse.begun"
    REVERSE_ENDED = "reverse.ended"
    REVERT_LOSES = "revert.loses"
    REVERT_REQUESTED = "revert.requested"
    REVERT_TABLES_FOUND = "revert.tables_found"
    REVERT_TAKEN_OVER = "revert.taken_over"
    REVERT_STEP_BEGUN = "revert.step_begun"
    REVERT_ANSWERED = "revert.answered"
    REVERT_FAILED = "revert.failed"
    REVERT_DONE = "revert.done"

    CONTROL_OBEYED = "control.obeyed"
    CONTROL_REFUSED = "control.refused"
    SETTINGS_KEPT = "settings.kept"

    WATCH_BEGUN = "watch.begun"
    WATCH_EMPTY = "watch.empty"
    WATCH_XA_PREPARED = "watch.xa_prepared"
    WATCH_BROKEN = "watch.broken"

    BATCH_PLANNED = "batch.planned"
    TABLE_PLANNED = "table.planned"
    TABLE_SKIPPED = "table.skipped"
    TABLE_ENDED = "table.ended"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        text: one line for people.
        time: in UTC.
        table: ``schema.table``; empty where it concerns the whole run.
        fields: JSON values, under the names of :data:`FIELDS`.
        screen: what a live display prints instead of the text: lines, each with a style as rich
            reads it; empty for the text. It is in no other record.
    """

    name: EventName
    text: str
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    table: str = ""
    level: Level = "info"
    fields: Mapping[str, object] = field(default_factory=dict)
    screen: Sequence[tuple[str, str]] = ()

    @property
    def line(self) -> str:
        """The line for people, which says so where it is a warning or an error."""
        return self.text if self.level == "info" else f"{self.level}: {self.text}"

    def to_dict(self) -> dict[str, object]:
        """Return the event as one JSON object; no field is named like one of its own keys."""
        return {
            "time": self.time.isoformat(timespec="milliseconds"),
            "event": self.name.value,
            "level": self.level,
            "table": self.table,
            "text": self.text,
            **self.fields,
        }


class Tell(Protocol):
    """How a part of a run reports that something happened."""

    def __call__(
        self,
        name: EventName,
        text: str,
        /,
        *,
        table: str = "",
        level: Level = "info",
        **fields: object,
    ) -> None:
        """Report it.

        Args:
            text: one line for people, which needs no field to be understood.
            table: ``schema.table``; where it is empty, the one that the run is about.
            fields: as :data:`FIELDS` declares them.
        """


Gate: TypeAlias = "Callable[[Event, Callable[[], None]], str]"
"""Asks somebody outside, by an event, whether the run may go on; returns why not, or "".

It is called with a function, which raises where the run is to stop meanwhile.
"""


def teller(show: Callable[[Event], None], about: str = "") -> Tell:
    """Return how events are reported to ``show``.

    Args:
        about: the table of events that name none.
    """

    def tell(
        name: EventName,
        text: str,
        /,
        *,
        table: str = "",
        level: Level = "info",
        **fields: object,
    ) -> None:
        show(Event(name=name, text=text, table=table or about, level=level, fields=fields))

    return tell


def untold(name: EventName, text: str, /, **_: object) -> None:
    """Report nothing: for parts that are used without a run around them."""


SHOWN_OTHERWISE: Final = frozenset(
    {
        EventName.RUN_BEGUN,
        EventName.RUN_ENDED,
        EventName.PHASE_ENTERED,
        EventName.COPY_BEGUN,
        EventName.CHECKPOINT_WRITTEN,
        EventName.CUTOVER_READY,
    }
)
"""Events that make no line for people: the figures beside, and the summary, show the same."""

_ENDED: Final = {
    "outcome": str,
    "exit_code": int,
    "seconds": float,
    "error": str,
    "code": str,
    "hint": str,
    "details": list,
}

FIELDS: Final[Mapping[EventName, Mapping[str, type]]] = {
    EventName.RUN_BEGUN: {"command": str, "server": str, "program": str},
    EventName.RUN_ENDED: _ENDED,
    EventName.STOP_REQUESTED: {"reason": str},
    EventName.METRICS_SERVED: {"address": str},
    EventName.STATEMENT_READ: {"statement": str, "tables": list, "server": str, "mysql": str},
    EventName.SESSIONS_ENDED: {"sessions": int},
    EventName.RESUME_DECIDED: {
        "decision": str,
        "reason": str,
        "number": int,
        "rows_copied": int,
        "phase": str,
    },
    EventName.PLAN_MADE: {"plan": dict},
    EventName.ALGORITHM_CHOSEN: {"algorithm": str, "reason": str},
    EventName.PHASE_ENTERED: {"phase": str, "before": str, "seconds": float},
    EventName.WARNING: {"code": str},
    EventName.LOG_WRITTEN: {"logger": str, "trace": str},
    EventName.LOG_LOST: {"lines": int},
    EventName.SUMMARY: {},
    EventName.DUPLICATES_SEARCHED: {"index": str, "rows": int},
    EventName.HOOK_FAILED: {"at": str, "kind": str, "reason": str, "exit_code": int},
    EventName.FEED_BEGUN: {"position": str},
    EventName.FEED_LOST: {"reason": str},
    EventName.FEED_RECONNECTED: {"seconds": float},
    EventName.FEED_FLAPS: {"losses": int, "seconds": float, "within": float, "reason": str},
    EventName.BACKPRESSURE_BEGUN: {"buffered_bytes": int},
    EventName.BACKPRESSURE_ENDED: {"seconds": float},
    EventName.BINLOG_EXPIRES: {"seconds_left": float, "seconds": float},
    EventName.COPY_BEGUN: {"rows_estimated": int, "bytes": int},
    EventName.COPY_DONE: {"rows": int, "chunks": int, "seconds": float},
    EventName.THROTTLE_BEGUN: {"throttler": str, "reason": str},
    EventName.THROTTLE_ENDED: {"throttler": str, "seconds": float},
    EventName.CHECKPOINT_WRITTEN: {"phase": str, "rows_copied": int, "position": str},
    EventName.CHECKPOINT_KEPT: {"checkpoints": list},
    EventName.INDEXES_PLANNED: {"indexes": list, "plan": str, "reason": str},
    EventName.INDEXES_DROPPED: {"indexes": list, "reason": str},
    EventName.INDEXES_REPEATED: {"indexes": list, "reason": str},
    EventName.INDEXES_BUILT: {"indexes": list, "seconds": float, "tries": int},
    EventName.CHECKSUM_BEGUN: {"target": str, "columns": int, "key": str, "reason": str},
    EventName.CHECKSUM_RESUMED: {},
    EventName.CHECKSUM_RESTARTED: {"reason": str},
    EventName.CHECKSUM_DONE: {
        "rows": int,
        "passes": int,
        "differences": int,
        "repaired_chunks": int,
        "lock_held_ms": float,
        "seconds": float,
    },
    EventName.DIFFERENCES_FOUND: {"rows": int, "passes": int, "examples": list},
    EventName.DIFFERENCES_REPAIRED: {"rows": int, "passes": int},
    EventName.DOUBTS_COMPARED: {"rows": int, "differences": int, "examples": list},
    EventName.LOCK_BLOCKED: {"lock": str, "blockers": str},
    EventName.LOCK_UNSEEN: {"lock": str, "reason": str},
    EventName.CUTOVER_DEFERRED: {"sentinel": str, "statement": str},
    EventName.CUTOVER_RELEASED: {},
    EventName.CUTOVER_HELD_BACK: {"reason": str},
    EventName.CUTOVER_LOCKS_MORE: {"tables": list, "implied": list},
    EventName.CUTOVER_READY: {"tables": list, "number": int},
    EventName.CUTOVER_VETOED: {"reason": str, "number": int, "seconds": float},
    EventName.CUTOVER_TRY_FAILED: {"number": int, "reason": str, "lock_wait_ms": float},
    EventName.RENAME_UNANSWERED: {"reason": str},
    EventName.SWAP_DONE: {
        "tries": int,
        "lock_wait_ms": float,
        "lock_held_ms": float,
        "steps_ms": dict,
    },
    EventName.SWAP_INCOMPLETE: {"reason": str},
    EventName.SNAPSHOTS_GUARDED: {"transactions": list, "guarded": bool},
    EventName.ATTACHMENTS_SETTLED: {"lock_wait_ms": float},
    EventName.ATTACHMENTS_LEFT: {"reason": str},
    EventName.OLD_TABLE_WAITS: {"seconds": float},
    EventName.OLD_TABLE_DROPPED: {"dropped": str},
    EventName.OLD_TABLE_KEPT: {"tables": list},
    EventName.AUXILIARY_DROPPED: {},
    EventName.REVERSE_BEGUN: {"tables": str, "seconds": float},
    EventName.REVERSE_ENDED: {"tables": str, "reason": str},
    EventName.REVERT_LOSES: {},
    EventName.REVERT_REQUESTED: {"session": int},
    EventName.REVERT_TABLES_FOUND: {"tables": str},
    EventName.REVERT_TAKEN_OVER: {},
    EventName.REVERT_STEP_BEGUN: {"step": str},
    EventName.REVERT_ANSWERED: {},
    EventName.REVERT_FAILED: {"reason": str},
    EventName.REVERT_DONE: {"tables": str},
    EventName.CONTROL_OBEYED: {"verb": str, "arguments": dict, "client": str},
    EventName.CONTROL_REFUSED: {
        "verb": str,
        "arguments": dict,
        "client": str,
        "reason": str,
    },
    EventName.SETTINGS_KEPT: {"settings": dict},
    EventName.WATCH_BEGUN: {"scope": str, "position": str},
    EventName.WATCH_EMPTY: {"scope": str},
    EventName.WATCH_XA_PREPARED: {"transactions": list},
    EventName.WATCH_BROKEN: {"position": str},
    EventName.BATCH_PLANNED: {"tables": int, "refused": int, "left": int},
    EventName.TABLE_PLANNED: {"action": str, "refusals": list},
    EventName.TABLE_SKIPPED: {"reason": str},
    EventName.TABLE_ENDED: _ENDED,
}
"""The fields of each event, with the type of their values; each may be None.

Durations are seconds where the name does not say ``_ms``. The fields of ``progress`` are those of
:class:`spirit_py.status.snapshot.MigrationStatus`.
"""


def undeclared(event: Event) -> list[str]:
    """Return what :data:`FIELDS` does not allow of an event, a line each; empty when all is well.

    Integers are allowed where a float is declared.
    """
    if event.name is EventName.PROGRESS:
        return []
    name, declared, given = event.name, FIELDS[event.name], event.fields
    found = [f"{name}: no field {extra!r} is declared" for extra in given.keys() - declared]
    found += [f"{name}: no field {missing!r} is given" for missing in declared.keys() - given]
    for field_name, value in given.items():
        wanted = declared.get(field_name)
        if value is None or wanted is None or _is_a(value, wanted):
            continue
        found.append(f"{name}: {field_name} is {value!r}, and not a {wanted.__name__}")
    return found


def _is_a(value: object, wanted: type) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)

"""How far a migration has come: figures that the display and ``spirit-py status`` share (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class MigrationProgress:
    """The figures of now; what is not known is None. Times in seconds, sizes in bytes.

    ``docs/display.md`` says how each is measured.

    Attributes:
        table: the one that is copied or compared now.
        rows: rows of all tables that are copied or compared, committed work only.
        rows_total: how many there are, as far as that is known by now.
        fraction: progress of the phase's own work, 0.0 to 1.0; 1.0 only when it has ended.
        rate: rows a second, copied or compared, in the last ten seconds.
        byte_rate: the same in bytes of the table.
        eta: seconds until the phase's own work ends and the changes that wait are applied.
        run_eta: seconds until what ``run_eta_until`` names, if nobody else is waited for.
        run_eta_parts: the same by phase, the current one first; None for what is not known.
        tasks: how many tasks may work at a time now, ``tasks_most`` how many at most.
        throttled: what holds work back; empty where nothing does.
        pending: changes received and not yet applied.
        feed_lag: seconds between a change on the server and its receipt.
        received_rate: changes a second that come in and have to be applied.
        applied_rate: changes a second that are applied.
        deduplicated_part: the part of the received changes that later ones of the same row
            replaced before they were applied.
        parked: why no change is applied now; empty where changes may be.
        binlog_left: how long the server keeps the place where a stopped run would carry on; None
            for ever, too.
        binlog_unread: bytes of the binlog after what was read last.
        binlog_older: bytes of the binlog between the oldest file's beginning and that place.
        checkpoint_age: time since the last checkpoint.
        waiting_for: what the migration waits for, for display; empty when it does not wait.
        waited: for how long it has waited.
    """

    table: str
    elapsed: float
    phase_elapsed: float
    rows: int | None = None
    rows_total: int | None = None
    fraction: float | None = None
    rate: float | None = None
    byte_rate: float | None = None
    eta: float | None = None
    run_eta: float | None = None
    run_eta_until: str = ""
    run_eta_parts: dict[str, float | None] = field(default_factory=dict)
    chunk_rows: int | None = None
    chunk_seconds: float | None = None
    tasks: int | None = None
    tasks_most: int | None = None
    throttled: str = ""
    pending: int | None = None
    buffered_bytes: int | None = None
    feed_lag: float | None = None
    received_rate: float | None = None
    applied_rate: float | None = None
    deduplicated_part: float | None = None
    parked: str = ""
    binlog_left: float | None = None
    binlog_unread: int | None = None
    binlog_older: int | None = None
    checkpoint_age: float | None = None
    waiting_for: str = ""
    waited: float | None = None
    note: str = ""

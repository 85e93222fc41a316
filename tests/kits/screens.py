"""Snapshots of every phase, as the live display gets them."""

from __future__ import annotations

from typing import Any, Final

from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus, MigrationStatus

_BEGUN = ((Phase.PREFLIGHT, 0.4), (Phase.SHORTCUT, 0.1), (Phase.CREATE, 0.2))
_ORDER = (
    Phase.COPY,
    Phase.INDEX,
    Phase.DRAIN,
    Phase.ANALYZE,
    Phase.CHECKSUM,
    Phase.SENTINEL,
    Phase.CUTOVER,
    Phase.KEEP,
    Phase.GRACE,
    Phase.CLEANUP,
)
FEED: Final[dict[str, Any]] = {
    "pending": 1234,
    "received": 120_000,
    "applied": 100_000,
    "deduplicated": 14_000,
    "dropped": 4_766,
    "buffered_bytes": 3 << 20,
    "feed_lag": 0.2,
    "received_rate": 512.0,
    "applied_rate": 640.0,
    "deduplicated_part": 0.1166,
    "binlog_left": 2_500_000.0,
    "binlog_older": 12 << 30,
    "binlog_unread": 0,
    "checkpoint_age": 12.0,
}
COPY: Final[dict[str, Any]] = {
    "rows": 1_234_567,
    "rows_total": 3_670_000,
    "fraction": 1_234_567 / 3_670_000,
    "rate": 45_678.0,
    "byte_rate": 9.1 * (1 << 20),
    "eta": 54.0,
    "chunk_rows": 10_000,
    "chunk_seconds": 0.48,
    "tasks": 2,
    "tasks_most": 4,
    "history": (20e3, 31e3, 42e3, 44e3, 45e3, 12e3, 0.0, 30e3, 46e3, 45e3, 47e3, 45e3),
}

REST: Final[dict[str, Any]] = {
    "run_eta": 112.0,
    "run_eta_until": "the deferred swap",
    "run_eta_parts": {"copy": 54.0, "index": 38.0, "checksum": 19.0, "cutover": 1.0},
}
UNKNOWN_REST: Final[dict[str, Any]] = {
    **REST,
    "run_eta": None,
    "run_eta_parts": {"copy": None, "index": None, "checksum": None, "cutover": 1.0},
}


def status(phase: Phase, **more: Any) -> MigrationStatus:
    """Return a snapshot in a phase of a migration that goes through all of them."""
    given = dict(more)
    place = _ORDER.index(phase) if phase in _ORDER else -1
    passed = [*_BEGUN, *((each, 60.0) for each in _ORDER[: max(0, place)])] if place >= 0 else []
    to_come = _ORDER[place + 1 :] if place >= 0 else ()
    return MigrationStatus(
        **{
            "table": "shop.orders",
            "phase": phase,
            "elapsed": 184.0,
            "phase_elapsed": 27.0,
            "passed": tuple(passed),
            "to_come": tuple(to_come),
            **given,
        }
    )


SCREENS: Final[dict[str, MigrationStatus | BatchStatus]] = {
    "preflight": status(Phase.PREFLIGHT, table=".", elapsed=0.3, phase_elapsed=0.3),
    "create": status(Phase.CREATE, passed=_BEGUN[:2], to_come=_ORDER),
    "copy": status(Phase.COPY, **FEED, **COPY, **REST),
    "copy_unknown": status(
        Phase.COPY,
        **FEED,
        **{**COPY, **UNKNOWN_REST, "rows_total": None, "fraction": None, "eta": None},
    ),
    "copy_throttled": status(
        Phase.COPY,
        **FEED,
        **{**COPY, "rate": 0.0, "eta": None},
        **{**REST, "run_eta": None, "run_eta_parts": {**REST["run_eta_parts"], "copy": None}},
        throttled="replica db2:3306 (lag 12.4s, more than 10s)",
        waiting_for="replica db2:3306 (lag 12.4s, more than 10s)",
        waited=75.0,
    ),
    "copy_parked": status(
        Phase.COPY,
        **{**FEED, "feed_lag": 95.0, "pending": 2_345_678, "binlog_left": 7000.0},
        **COPY,
        parked="the buffers are full, the reader waits",
        note="the reader waits: the buffers of changes are full; 3.0 GiB of binlog unread, which"
        " the server keeps for 1h56m more",
    ),
    "index": status(
        Phase.INDEX,
        **FEED,
        fraction=0.42,
        eta=610.0,
        run_eta=650.0,
        run_eta_until="the deferred swap",
        run_eta_parts={"index": 610.0, "checksum": 39.0, "cutover": 1.0},
        waiting_for="the server to build customer, slot of _orders_new (merge sort, 42.0%)",
        waited=441.0,
    ),
    "drain": status(Phase.DRAIN, **FEED, waiting_for="the change feed to catch up", waited=3.0),
    "analyze": status(Phase.ANALYZE, **FEED),
    "checksum": status(
        Phase.CHECKSUM,
        **FEED,
        **{**COPY, "rows": 3_672_000, "rows_total": 3_674_000, "fraction": 0.9994, "eta": 0.5},
        run_eta=1.5,
        run_eta_until="the swap",
        run_eta_parts={"checksum": 0.5, "cutover": 1.0},
        note="pass 1, 0 differences",
    ),
    "sentinel": status(
        Phase.SENTINEL,
        **FEED,
        waiting_for="table shop._orders_snt to be dropped",
        waited=26_000.0,
        note="4 checksum passes, the last one clean",
    ),
    "cutover": status(
        Phase.CUTOVER,
        **FEED,
        waiting_for="the lock of the swap (a pause for writers after request 3, the next in 11.2s);"
        " lock wait timeout; blocked by session 4711 of app@10.0.0.7:51234 (sleeping for 25 s in"
        " a transaction, SELECT * FROM orders WHERE id = 17)",
        waited=25.0,
    ),
    "grace": status(
        Phase.GRACE,
        waiting_for="_orders_old is to be dropped after 2026-11-22 21:00:00 UTC, 42m10s more",
        waited=1000.0,
    ),
    "cleanup": status(Phase.CLEANUP),
    "odd_name": status(
        Phase.COPY,
        **{**FEED, **COPY},
    ).__class__(
        **{
            **vars(status(Phase.COPY, **FEED, **COPY)),
            "table": "データ.注文" + "表" * 40 + "\x1b[31m\n",
        }
    ),
    "batch": BatchStatus(
        described="12 of 40 tables done, 3 under way, 1 failed",
        elapsed=4000.0,
        tables=(
            status(Phase.COPY, **FEED, **COPY, **REST),
            status(
                Phase.CUTOVER, table="shop." + "n" * 64, waiting_for="the lock of the swap", **FEED
            ),
            status(Phase.PREFLIGHT, table="shop.customers"),
        ),
    ),
}

"""The scenarios, by name, in the order in which they run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import (
    blocked,
    cutover,
    decoding,
    feed,
    fleet,
    in_place,
    move,
    plans,
    purge,
    rising,
    scale,
    slow_replica,
    source,
    whole,
)
from benchmarks.application import Load
from benchmarks.contenders import (
    AGGREGATE,
    AGGRESSIVE,
    COPY,
    INPLACE,
    NOTHING,
    OURS,
    TAGGED,
    THREADS,
)
from benchmarks.scenario import BEFORE, Goal, Scenario, Whole
from benchmarks.tables import INDEXED, SYSBENCH, TEXT_KEY, WIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

_MILLION = 1_000_000
_SMALL = Whole(
    table=SYSBENCH,
    contenders=(OURS, COPY, THREADS),
    goals=(
        Goal(of="whole", against=COPY, limit=2.0),
        Goal(of="copy phase", against=THREADS),
        Goal(of="server CPU", against=COPY),
    ),
)
_IDLE = Whole(
    table=SYSBENCH,
    contenders=(OURS, COPY, THREADS, AGGREGATE),
    goals=(
        Goal(of="whole", against=COPY, limit=1.2),
        Goal(of="size", against=COPY, limit=1.02),
        Goal(of="copy phase", against=THREADS, limit=1.05),
        Goal(of="first to last row", against=THREADS),
        Goal(of="checksum phase", against=AGGREGATE, limit=1.10),
        Goal(of="server CPU", against=COPY),
        Goal(of="server CPU", against=THREADS),
    ),
)
_LONG = Whole(table=SYSBENCH, contenders=(OURS,), goals=())
_INDEXES = Whole(
    table=INDEXED,
    # Not COPY, which takes ten times as long.
    contenders=(OURS, INPLACE, THREADS),
    goals=(
        Goal(of="whole", against=INPLACE, limit=2.2),
        Goal(of="size", against=INPLACE, limit=1.02),
        Goal(of="copy phase", against=THREADS, limit=1.05),
        Goal(of="server CPU", against=INPLACE),
    ),
)
_TEXT_KEY = Whole(
    table=TEXT_KEY,
    contenders=(OURS, INPLACE, COPY, THREADS),
    goals=(
        Goal(of="whole", against=INPLACE),
        Goal(of="p99 during", against=BEFORE),
        Goal(of="p99 during", against=THREADS),
        Goal(of="p99 during", against=INPLACE),
        Goal(of="longest write", against=INPLACE),
        Goal(of="longest write", against=COPY),
        Goal(of="copy phase", against=THREADS, limit=1.05),
    ),
    load=Load(writers=4, rate=3000.0),
)
_WIDE = Whole(
    table=WIDE,
    contenders=(OURS, COPY, THREADS),
    goals=(
        Goal(of="whole", against=COPY),
        Goal(of="size", against=COPY, limit=1.02),
        Goal(of="copy phase", against=THREADS, limit=1.05),
        Goal(of="server CPU", against=COPY),
    ),
)
_NARROWING = Whole(
    table=SYSBENCH,
    alter="MODIFY id INT NOT NULL AUTO_INCREMENT",
    restore="MODIFY id BIGINT NOT NULL AUTO_INCREMENT",
    contenders=(OURS, COPY, THREADS),
    goals=(Goal(of="whole", against=COPY), Goal(of="copy phase", against=THREADS)),
)
_ONE_SLOT = Whole(
    table=SYSBENCH,
    contenders=(OURS, INPLACE, COPY, THREADS),
    goals=(
        Goal(of="p99 during", against=BEFORE, limit=3.0),
        Goal(of="whole", against="10 s", target=10.0, rows=_MILLION, limit=1.0),
        Goal(of="p99 during", against=THREADS),
        Goal(of="p99 during", against=INPLACE),
        Goal(of="longest write", against=INPLACE),
        Goal(of="longest write", against=COPY),
        Goal(of="copy phase", against=THREADS, limit=1.05),
    ),
    load=Load(writers=4, rate=500.0),
    slots=1,
)
_BUSY = Whole(
    table=SYSBENCH,
    contenders=(OURS, INPLACE, COPY, THREADS),
    goals=(
        Goal(of="whole", against=INPLACE),
        Goal(of="p99 during", against=BEFORE),
        Goal(of="p99 during", against=THREADS),
        Goal(of="p99 during", against=INPLACE),
        Goal(of="longest write", against=INPLACE),
        Goal(of="longest write", against=COPY),
        Goal(of="copy phase", against=THREADS, limit=1.05),
    ),
    load=Load(writers=4, rate=3000.0),
)
#: What the application feels of the program, and what its gentleness costs.
_GENTLE = Whole(
    table=SYSBENCH,
    contenders=(OURS, NOTHING, AGGRESSIVE),
    goals=(
        Goal(of="p99 during", against=NOTHING, limit=2.0),
        Goal(of="whole", against=AGGRESSIVE, limit=1.5),
        Goal(of="p50 during", against=NOTHING),
        Goal(of="longest write", against=NOTHING),
        Goal(of="p99 during", against=AGGRESSIVE),
        Goal(of="longest write", against=AGGRESSIVE),
    ),
)
_GENTLE_500 = replace(_GENTLE, load=Load(writers=16, rate=500.0, on_schedule=True))
_GENTLE_3000 = replace(_GENTLE, load=Load(writers=32, rate=3000.0, on_schedule=True))
_TAGGED = Whole(
    table=SYSBENCH,
    contenders=(OURS, TAGGED),
    goals=(
        Goal(of="whole", against=TAGGED),
        Goal(of="server CPU", against=TAGGED),
        Goal(of="sent by the server", against=TAGGED),
    ),
)


def _whole(
    name: str, title: str, rows: int, minutes: float, what: Whole, *, buffer_pool: str = "2G"
) -> Scenario:
    measured = partial(whole.measure, what, name)
    return Scenario(
        name=name,
        title=title,
        rows=rows,
        minutes=minutes,
        measure=measured,
        buffer_pool=buffer_pool,
    )


def _by_name(scenarios: Iterable[Scenario]) -> dict[str, Scenario]:
    return {each.name: each for each in scenarios}


SCENARIOS = _by_name(
    (
        _whole("small", "500 000 rows, idle: the whole command", _MILLION // 2, 1, _SMALL),
        _whole("idle", "2 million rows, idle: the whole migration", 2 * _MILLION, 2, _IDLE),
        _whole("long", "4 million rows, idle: what more rows cost", 4 * _MILLION, 2, _LONG),
        _whole(
            "indexes",
            "four random secondary indexes larger than a buffer pool of 256 MB",
            4 * _MILLION,
            8,
            _INDEXES,
            buffer_pool="256M",
        ),
        _whole(
            "text-key",
            "3000 writes a second on a CHAR(36) utf8mb4_0900_ai_ci key, one in four a delete",
            _MILLION,
            6,
            _TEXT_KEY,
        ),
        _whole("wide", "60 columns, JSON, TEXT", 300_000, 3, _WIDE),
        _whole("narrowing", "BIGINT to INT", _MILLION // 2, 2, _NARROWING),
        _whole("one-slot", "one slot, 500 writes a second", _MILLION, 6, _ONE_SLOT),
        _whole("busy", "3000 writes a second", _MILLION, 6, _BUSY),
        _whole(
            "gentle-500",
            "500 writes a second on schedule: by default, aggressive, and without a migration",
            _MILLION,
            4,
            _GENTLE_500,
        ),
        _whole("gentle-3000", "the same at 3000 writes a second", _MILLION, 4, _GENTLE_3000),
        Scenario(
            name="rising",
            title="load that rises in the middle of the copy and falls again",
            rows=3 * _MILLION,
            minutes=5,
            measure=rising.measure,
        ),
        Scenario(
            name="slow-replica",
            title="a replica slower than the copy, with --max-lag and without",
            rows=_MILLION,
            minutes=5,
            measure=slow_replica.measure,
        ),
        _whole("tagged", "a copy whose own writes are not sent", _MILLION // 2, 1, _TAGGED),
        Scenario(
            name="changes",
            title="changes of distinct keys, received and applied",
            rows=200_000,
            minutes=2,
            measure=feed.changes_of_distinct_keys,
        ),
        Scenario(
            name="hot-changes",
            title="changes of a thousand keys again and again",
            rows=200_000,
            minutes=2,
            measure=feed.changes_of_a_hot_set,
        ),
        Scenario(
            name="text-key-changes",
            title="changes of CHAR(36) utf8mb4_0900_ai_ci keys applied, one in four a delete",
            rows=100_000,
            minutes=4,
            measure=feed.changes_of_text_keys,
        ),
        Scenario(
            name="cutover",
            title="the longest write through a swap, at 1000 writes a second",
            rows=20_000,
            minutes=2,
            measure=cutover.stalls,
        ),
        Scenario(
            name="blocked",
            title="stops of the application while old transactions are in front of the swap",
            rows=20_000,
            minutes=4,
            measure=blocked.blocked,
        ),
        Scenario(
            name="in-place",
            title="the longest write through a rotation of partitions and a new foreign key, with a"
            " SELECT of a minute in front",
            rows=100_000,
            minutes=6,
            measure=in_place.measure,
        ),
        Scenario(
            name="plan",
            title="the time that the plan says, and that the migration takes, for four tables",
            rows=2_000_000,
            minutes=4,
            measure=plans.planned_and_real,
        ),
        Scenario(
            name="purge",
            title="four of five rows leave the table: --keep, and deletes of a thousand rows",
            rows=_MILLION,
            minutes=6,
            measure=purge.measure,
        ),
        Scenario(
            name="fleet",
            title="one change on eight servers, and the schedule of the single runs",
            rows=200_000,
            minutes=6,
            measure=fleet.measure,
        ),
        Scenario(
            name="move",
            title="a table to another server, and mysqldump | mysql",
            rows=_MILLION,
            minutes=6,
            measure=move.measure,
        ),
        Scenario(
            name="source",
            title="a table as a DataFrame: Spark's data source, and its JDBC reader",
            rows=_MILLION,
            minutes=4,
            measure=source.measure,
        ),
        Scenario(
            name="scale",
            title="the server on 1, 2, 4... cores, near and far; what 16 and 32 are expected to do",
            rows=_MILLION,
            minutes=8,
            measure=scale.measure,
        ),
        Scenario(
            name="decoding",
            title="row images out of the binlog as SQL",
            rows=20_000,
            minutes=1,
            measure=decoding.shapes,
        ),
    )
)

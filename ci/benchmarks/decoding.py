"""How fast row events are decoded, against mysql-replication on the same bytes.

For each table shape: rows a second for the library, for images rendered to SQL, and for images of
which only the key is wanted because a later change replaces them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pymysql.protocol import MysqlPacket
from pymysqlreplication import row_event
from pymysqlreplication.packet import BinLogPacketWrapper

import raw_events
from benchmarks.internals import options_of
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import Address
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.codec.tablemap import parse_table_map
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

SCHEMA = "spirit_py_bench_decode"
#: Turns of each decoder, of which the best counts.
_REPEATS = 5
_WIDE = ", ".join(f"c{i} varchar(120) not null" for i in range(8))
_FORTY = ", ".join(
    definition.format(i=i)
    for i in range(5)
    for definition in (
        "i{i} int", "b{i} bigint unsigned", "d{i} decimal(12,2)", "t{i} datetime(3)",
        "v{i} varchar(40)", "f{i} double", "e{i} enum('new','paid','sent')", "n{i} varchar(40)",
    )
)  # fmt: skip
SHAPES = {
    "narrow": (
        "id int not null primary key, k int not null, c varchar(60) not null",
        "n, n * 7 % 1000, REPEAT('x', 10 + n % 20)",
    ),
    "wide": (
        f"id bigint not null primary key, at timestamp(3) not null, {_WIDE}",
        "n, '2024-05-06 07:08:09.123'" + ", REPEAT('y', 40 + n % 60)" * 8,
    ),
    "40 columns": (
        f"id bigint not null primary key, {_FORTY.rsplit(',', 1)[0]}",
        "n" + ", n, n * 1000, n / 100, '2024-05-06 07:08:09.123', REPEAT('v', 20), n / 7,"
        " 1 + n % 3, NULL"
        * 4
        + ", n, n * 1000, n / 100, '2024-05-06 07:08:09.123', REPEAT('v', 20), n / 7, 1 + n % 3",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """Rows a second of one shape, and the two ratios that count."""

    shape: str
    rows: int
    library: float
    rendered: float
    keys_only: float
    rendered_ratio: float
    keys_only_ratio: float


def shapes(server: MySQLServer, rows: int, _sizes: Sizes) -> Outcome:
    """Measure every shape against mysql-replication."""
    with connect(options_of(Address.of(server)), role="bench") as session:
        results = measure(
            session,
            lambda: raw_events.connect(server.host, server.port, server.user, server.password),
            rows,
        )
    figures = [
        Figure(
            name=f"a million rows, {each.shape}",
            ours=1e6 / each.rendered,
            peer=1e6 / each.library,
            against="mysql-replication",
            goal=0.2,
        )
        for each in results
    ]
    notes = {
        each.shape: f"{each.rendered:,.0f} rows a CPU second rendered, {each.keys_only:,.0f} where"
        " only the key is wanted"
        for each in results
    }
    return Outcome(scenario="decoding", rows=rows, figures=figures, notes=notes)


def measure(session: Any, connect: Callable[[], Any], rows: int = 20_000) -> list[Result]:
    """Measure every shape.

    Args:
        session: Has ``execute`` and ``query``, may create the schema.
        connect: Opens a PyMySQL session for reading the binlog.
        rows: Rows of each shape.
    """
    session.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
    session.execute(f"CREATE DATABASE {SCHEMA}")
    session.execute(f"USE {SCHEMA}")
    session.execute("SET SESSION cte_max_recursion_depth = 10000000")
    try:
        return [_shape(session, connect, name, rows) for name in SHAPES]
    finally:
        session.execute(f"DROP DATABASE {SCHEMA}")


def _shape(session: Any, connect: Callable[[], Any], name: str, rows: int) -> Result:
    """Write rows of one shape, read their events and time the decoders."""
    columns, expressions = SHAPES[name]
    session.execute(f"CREATE TABLE `{name}` ({columns})")
    reader = connect()
    start = raw_events.position(reader)
    session.execute(
        f"INSERT INTO `{name}` WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s"
        f" WHERE n < {rows}) SELECT {expressions} FROM s"
    )
    events = list(raw_events.read_events(reader, start))
    reader.close()
    table_map = next(e for e in events if e.type == raw_events.TABLE_MAP)
    changes = [e for e in events if e.type in raw_events.ROWS]
    schema = read_table(session, SCHEMA, name)
    if schema is None:
        raise LookupError(name)
    codec = RowCodec.for_schema(parse_table_map(table_map.body), schema)
    library, rendered, keys_only = _rates(
        rows,
        lambda: _library(table_map, changes),
        lambda: _rendered(codec, changes),
        lambda: _keys(codec, changes),
    )
    return Result(
        shape=name,
        rows=rows,
        library=library,
        rendered=rendered,
        keys_only=keys_only,
        rendered_ratio=rendered / library,
        keys_only_ratio=keys_only / library,
    )


def _rates(rows: int, *works: Callable[[], int]) -> list[float]:
    """Return the best rows a CPU second of each, which take turns."""
    best = [float("inf")] * len(works)
    for _ in range(_REPEATS):
        for place, work in enumerate(works):
            began = time.process_time()
            count = work()
            best[place] = min(best[place], time.process_time() - began)
            if count != rows:
                raise ValueError(f"{count} rows decoded instead of {rows}")
    return [rows / each for each in best]


def _rendered(codec: RowCodec, changes: Sequence[raw_events.RawEvent]) -> int:
    """Decode every row and render it."""
    count = 0
    for event in changes:
        for image in codec.images(event.type, event.body)[1]:
            image.render()
            count += 1
    return count


def _keys(codec: RowCodec, changes: Sequence[raw_events.RawEvent]) -> int:
    """Keep the latest image of each key, as the buffer does, and render none."""
    count = 0
    for event in changes:
        _, images = codec.images(event.type, event.body)
        latest = {image.key: image for image in images}
        count += len(latest)
    return count


def _library(table_map: raw_events.RawEvent, changes: Sequence[raw_events.RawEvent]) -> int:
    """Decode every row with mysql-replication."""
    tables: dict[int, Any] = {}
    announced = _wrapped(table_map, tables)
    tables[announced.table_id] = announced.get_table()
    return sum(len(_wrapped(event, tables).rows) for event in changes)


def _wrapped(event: raw_events.RawEvent, tables: dict[int, Any]) -> Any:
    """Let the library parse one event."""
    allowed = frozenset(
        {row_event.TableMapEvent, row_event.WriteRowsEvent, row_event.UpdateRowsEvent}
    )
    packet = MysqlPacket(_sized(event.framed), "utf8mb4")
    control = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mysql")
    version = (8, 4, 0)
    # fmt: off
    return BinLogPacketWrapper(
        packet, tables, control, version, False, allowed, None, None, None, None, False, False,
        False, True, False,
    ).event
    # fmt: on


def _sized(framed: bytes) -> bytes:
    """Write the size without the checksum into an event's header."""
    return framed[:10] + (len(framed) - 1).to_bytes(4, "little") + framed[14:]

"""What a seed stands for: a table, a sound change of it, writers and a server's settings.

The draw is explicit and the engine small: no library for property tests is used. A run takes
seconds on a live server and races with itself, so that the same example may fail once and pass the
next time; hypothesis takes that for a flaw of the test (``Flaky``), and its shrinker wants hundreds
of quick, repeatable tries of an opaque choice sequence. Here the example is data with a meaning
(columns, clauses, statements), so that the shrinker takes away whole clauses or a column with all
that mentions it, tries a candidate twice, and prints what is left as a case of ``tests/cases``.

*Sound* means that a native ALTER would succeed whatever the writers did: values fit the old and
the new type, a column that gets a UNIQUE key holds each value once at every commit. A few draws
are poisoned with a write that the new definition cannot hold: then both must refuse.
"""

from __future__ import annotations

import random

from tests.fuzz.attached import Attached, counting, draw_attached
from tests.fuzz.clauses import draw_clauses
from tests.fuzz.families import one_of
from tests.fuzz.model import Actor, Scenario, Write, quoted
from tests.fuzz.table import Table, draw_columns, draw_generated, draw_keys, draw_secondary
from tests.fuzz.writes import ZONES, Author, Plain, Shape
from tests.oracle.case import Timing

_POISONED = 0.3
_TIMINGS = (Timing.AFTER, Timing.AFTER, Timing.AFTER, Timing.THROUGHOUT, Timing.DURING)
_SERVER: tuple[tuple[str, tuple[str | int, ...]], ...] = (
    ("time_zone", ZONES),
    (
        "sql_mode",
        (
            "",
            "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES",
            "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO",
            # Not PAD_CHAR_TO_FULL_LENGTH: a native ALTER stores the blanks that it adds.
            "PIPES_AS_CONCAT,STRICT_TRANS_TABLES",
        ),
    ),
    ("sql_require_primary_key", ("ON",)),
    ("default_week_format", (3, 6)),
    ("div_precision_increment", (0, 11)),
    ("lc_time_names", ("de_DE", "ja_JP")),
    ("binlog_row_metadata", ("FULL",)),
    ("binlog_transaction_compression", ("ON",)),
    ("binlog_rows_query_log_events", ("ON",)),
    ("collation_connection", ("utf8mb4_bin",)),
    ("explicit_defaults_for_timestamp", ("OFF",)),
)
_OPTIONS = ("", "", "DEFAULT CHARSET=latin1", "ROW_FORMAT=COMPRESSED", "COMMENT='it''s'")


def draw(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    source = random.Random(f"migration {seed}")
    table = Table(source=source)
    rows = source.choice((1, 40, 150, 300, 700))
    draw_keys(table)
    draw_columns(table)
    draw_generated(table)
    draw_secondary(table)
    attached = draw_attached(table)
    draw_clauses(table)
    options = _partitions(table) or source.choice(_OPTIONS)
    server = _server(table)
    unique = "ADD UNIQUE `new_u`" in " ".join(table.clauses) and "`u_key`" not in str(table.lines)
    poisoned = unique and table.chance(_POISONED)
    actors = _actors(table, rows, attached)
    if poisoned:
        actors.append(_poison(table))
    if attached.invariants and "tu" in {column.name for column in table.columns}:
        actors = [counting(actor) for actor in actors]
    return Scenario(
        seed=seed,
        columns=tuple(table.columns),
        lines=tuple(table.lines),
        options=options,
        rows=rows,
        clauses=tuple(table.clauses),
        actors=tuple(actors),
        timing=source.choice(_TIMINGS),
        poisoned=poisoned,
        server=server,
        flush_interval=source.choice((0.02, 0.2, 1.0)),
        batch_rows=source.choice((7, 100, 1000)),
        before=attached.before,
        after=attached.after,
        invariants=attached.invariants,
        keep="" if poisoned or table.related or attached.after else _kept(table),
    )


def _kept(table: Table) -> str:
    """Draw which rows stay: by a column that writes change, or by the key; mostly all."""
    if not table.chance(0.4):
        return ""
    names = [quoted(name) for name in (table.key, *table.plain)]
    first, second = table.source.choice(names), table.source.choice(names)
    some = f"CRC32({first}) % 3 > 0"
    return table.source.choice(
        (some, some, f"{some} AND {second} IS NOT NULL", f"{second} IS NULL OR {some}")
    )


def _partitions(table: Table) -> str:
    """Draw partitions where every unique key holds the column that they go by."""
    alone = (
        not table.related
        and "u_key" not in str(table.lines)
        and "ADD UNIQUE" not in str(table.clauses)
    )
    table.partitioned = table.primary and alone and table.chance(0.15)
    if not table.partitioned:
        return ""
    return "PARTITION BY KEY (`k`) PARTITIONS 3"


def _server(table: Table) -> tuple[tuple[str, str | int], ...]:
    """Draw up to four settings that are not the server's usual ones."""
    chosen = table.source.sample(_SERVER, table.source.choice((0, 1, 2, 4)))
    drawn = [(name, table.source.choice(values)) for name, values in chosen]
    keyless = not table.primary or "was_primary" in str(table.clauses)
    return tuple(one for one in drawn if not (keyless and one[0] == "sql_require_primary_key"))


def _actors(table: Table, rows: int, attached: Attached) -> list[Actor]:
    """Draw the sessions that write."""
    changed = " ".join(table.clauses)
    plain = tuple(
        Plain(
            name=name,
            family=family,
            lenient=quoted(name) not in changed and not _computes(table, name),
            nullable="NOT NULL" not in table.definition(name),
        )
        for name, (family, _) in table.plain.items()
    )
    shape = Shape(
        key=table.key,
        key_family=table.key_family,
        group=table.group,
        counted=table.counted,
        plain=plain,
        unique=table.unique,
        respells=bool(table.key_family.other) and table.chance(0.7),
        rows=rows,
        parent=attached.parent,
        incoming=attached.incoming,
        own="up" in {column.name for column in table.columns},
        bound=" AS (" in changed + " ".join(map(str, table.columns)),
    )
    author = Author(table.source, shape)
    return [author.actor() for _ in range(table.source.choice((1, 2, 3)))]


def _computes(table: Table, name: str) -> bool:
    return any(quoted(name) in column.definition for column in table.columns)


def _poison(table: Table) -> Actor:
    """Draw a session that writes a value twice which the new UNIQUE key allows once."""
    names = [c.name for c in table.columns if c.start and "NOT NULL" in c.definition]
    key = table.key_family.value
    drawn = {name: one_of(table.source, family.pool) for name, (family, _) in table.plain.items()}
    values = {"k": key, "g": "1", **drawn}

    def row(number: int) -> tuple[str, ...]:
        return (*(values[n].replace("{i}", str(number)) for n in names), "77777777")

    rows = row(7777777), row(7777778)
    head, columns = "INSERT INTO t", (*names, "u")
    settings = Write(head="SET @i = 1, @n = 1, @r = 1, @s = 1")
    if table.chance(0.5):
        writes = [Write(head=head, names=columns, rows=rows)]
    else:
        writes = [Write(head=head, names=columns, rows=(one,)) for one in rows]
    return Actor(units=((Write(head="DO 0"),),), once=((settings, *writes),))

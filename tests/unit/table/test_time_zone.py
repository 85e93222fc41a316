"""Which tables are written in the server's time zone, and what may not be done in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement import alter_of
from spirit_py.table.build import build_mapping
from spirit_py.table.mapping import ColumnPair, makes_dates
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema
from tests.kits.definitions import column, index, table

ID = column("id")
AT = column("at", "timestamp")
TIME = column("local", "datetime")


def computed(expression: str, kind: str = "int") -> Column:
    """Return a generated column."""
    return replace(column("g", kind), generated="STORED", generation_expression=expression)


def zone(target: TableSchema, clauses: str = "ADD g INT", server: str = "Europe/Berlin") -> str:
    """Map a plain table to ``target``; return the zone of its writes."""
    mapping = build_mapping(table(ID, AT, TIME), target, alter_of("s", "t", clauses), server)
    return mapping.time_zone


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("cast(`at` as date)", "int"),
        ("hour(`at`)", "int"),
        ("concat(`at`,_utf8mb4'')", "varchar(30)"),
        ("(`local` < _utf8mb4'2026-01-01 00:00:00+00:00')", "int"),
        ("from_unixtime(`id`)", "varchar(30)"),
        ("json_unquote(json_extract(`id`,_utf8mb4'$.a'))", "datetime"),
    ],
)
def test_expression_that_reads_a_time(expression, kind):
    """A generated column that computes with a time, or is one, is written in the server's zone."""
    assert zone(table(ID, AT, TIME, computed(expression, kind))) == "Europe/Berlin"


@pytest.mark.parametrize("expression", ["(`id` + 1)", "concat(`id`,_utf8mb4'x')", "sha2(`id`,256)"])
def test_expression_that_reads_no_time(expression):
    """Any other generated column is written in the program's own zone, which costs nothing."""
    assert zone(table(ID, AT, TIME, computed(expression))) == ""


def test_a_computed_default_counts_for_an_added_column_only():
    """A default that is computed counts for a column that is added, not for one that is carried."""
    made = replace(column("g", "int"), extra="DEFAULT_GENERATED", default="hour(now())")
    assert zone(table(ID, AT, TIME, made)) == "Europe/Berlin"
    carried = replace(TIME, extra="DEFAULT_GENERATED", default="CURRENT_TIMESTAMP")
    assert zone(table(ID, AT, carried), "MODIFY local DATETIME DEFAULT CURRENT_TIMESTAMP") == ""


def test_the_expression_of_an_index_is_evaluated_by_writes():
    """The expression of an index is evaluated by every write."""
    key = Index(name="f", unique=False, parts=(IndexPart(column=None, expression="hour(`at`)"),))
    primary = index("PRIMARY", "id")
    assert zone(table(ID, AT, TIME, primary, key), "ADD KEY f ((HOUR(at)))") == "Europe/Berlin"


def test_a_check_is_found_in_the_definition():
    """A CHECK is found in the text of the definition."""
    text = "CREATE TABLE `t` (\n  `id` int,\n  CONSTRAINT `c` CHECK ((hour(`at`) > 7))\n)"
    checked = replace(table(ID, AT, TIME), create_sql=text)
    assert zone(checked, "ADD CHECK (HOUR(at) > 7)") == "Europe/Berlin"


@pytest.mark.parametrize(
    ("server", "instants"), [("Europe/Berlin", True), ("SYSTEM", True), ("+05:30", False)]
)
def test_instants_are_selected_where_an_hour_repeats(server, instants):
    """A TIMESTAMP that is carried goes by its instant, where local time is not enough."""
    target = table(ID, AT, TIME, computed("hour(`at`)"))
    mapping = build_mapping(table(ID, AT, TIME), target, alter_of("s", "t", "ADD g INT"), server)
    texts = [text for text in mapping.select_expressions if "UNIX_TIMESTAMP(`at`)" in text]
    assert bool(texts) == instants


@pytest.mark.parametrize("server", ["Europe/Berlin", "SYSTEM"])
def test_a_timestamp_key_in_a_zone_that_repeats_an_hour_is_refused(server):
    """In a zone that repeats an hour, rows cannot be found by a TIMESTAMP."""
    key = index("PRIMARY", "at")
    source, target = table(AT, key), table(AT, computed("hour(`at`)"), key)
    with pytest.raises(Refusal, match="clock is set back") as refused:
        build_mapping(source, target, alter_of("s", "t", "ADD g INT"), server)
    # Another zone of the server would be that of the application's new sessions, too.
    assert "time_zone" not in refused.value.hint


@pytest.mark.parametrize("server", ["+05:30", "UTC", "+00:00"])
def test_a_timestamp_key_in_a_fixed_zone_is_accepted(server):
    """In a zone that never changes they can."""
    key = index("PRIMARY", "at")
    source, target = table(AT, key), table(AT, computed("hour(`at`)"), key)
    mapping = build_mapping(source, target, alter_of("s", "t", "ADD g INT"), server)
    assert mapping.time_zone == server


@pytest.mark.parametrize(
    ("made", "makes"),
    [
        (computed("cast(`id` as date)"), True),
        (computed("(`id` + 1)"), False),
        (column("id", "date"), True),
        (column("at", "datetime"), False),
        (
            replace(column("g"), extra="DEFAULT_GENERATED", default="(to_days(`id`))"),
            True,
        ),
        (replace(column("g"), extra="DEFAULT_GENERATED", default="now(6)"), False),
    ],
)
def test_an_expression_and_a_conversion_make_dates(made, makes):
    """An expression and a conversion may make a date; a carried date and the clock do not."""
    columns = [one for one in (ID, AT, TIME) if one.name != made.name]
    source, target = table(ID, AT, TIME), table(*columns, made)
    pairs = [
        ColumnPair(old=source.column(c.name), new=c)
        for c in target.columns
        if source.has_column(c.name) and not c.generated
    ]
    assert makes_dates(target, pairs) is makes

"""The first screen of a migration: what is in it, and what is left out."""

from __future__ import annotations

from spirit_py.events.run import PlanMade
from spirit_py.plan.model import (
    ColumnPlan,
    Definition,
    IndexesPlan,
    KeyPlan,
    Lock,
    Method,
    Plan,
    SizePlan,
    TablePlan,
)
from spirit_py.plan.text import STYLES, screen_of, text_of

OLD = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `a` int,\n  PRIMARY KEY (`id`)\n)"
NEW = OLD.replace("`a` int", "`a` bigint")


def plan(**more: object) -> Plan:
    """Return the plan of one table."""
    parts: dict[str, object] = {
        "definition": Definition(old=OLD, new=NEW),
        "columns": (
            ColumnPlan(change="kept", old="id", new="id", old_type="int", new_type="int"),
            ColumnPlan(change="changed", old="a", new="a", old_type="int", new_type="bigint"),
        ),
        "key": KeyPlan(name="PRIMARY", columns=("id",), deduplicates=True, why="compared here"),
        "indexes": IndexesPlan(why="there is none"),
        "locks": (
            Lock(name="snapshot", on="t", held="some milliseconds", waits="2 s at most"),
            Lock(name="swap", on="t", held="milliseconds: moved", waits="2 s at most, again"),
        ),
        **more,
    }
    table = TablePlan(
        schema="s",
        table="t",
        statement="x",
        method=Method(algorithm="copy", certain=True, why="it grows"),
        size=SizePlan(rows=9, data_bytes=1 << 20, index_bytes=0),
        **parts,  # type: ignore[arg-type]
    )
    return Plan(server="db", version="9.7", tables=(table,), replicas=())


def test_what_needs_no_saying_is_left_out() -> None:
    """Columns that the diff shows whole, no replicas, no earlier run, no deferred index."""
    assert [line.text for line in screen_of(plan())] == [
        "s.t: copied row by row, and swapped",
        "  why       it grows",
        "  change        `id` int NOT NULL,",
        "            -   `a` int,",
        "            +   `a` bigint,",
        "                PRIMARY KEY (`id`)",
        "  key       PRIMARY (id)",
        "  size      ~9 rows, 1.0 MiB of rows, 0 B of secondary indexes",
        "  locks     snapshot: some milliseconds; swap: milliseconds; 2 s at most",
    ]


def test_one_column_is_no_plural() -> None:
    """The whole plan counts those that are kept."""
    kept = ColumnPlan(change="kept", old="id", new="id", old_type="int", new_type="int")
    for columns, said in (((kept,), "1 kept as it is"), ((kept, kept), "2 kept as they are")):
        assert f"  columns   {said}" in [line.text for line in text_of(plan(columns=columns))]


def test_lines_that_go_and_come_have_their_colours() -> None:
    """The style of a line is one that rich reads."""
    styles = {line.text.strip()[:1]: STYLES[line.style] for line in screen_of(plan())[3:5]}
    assert styles == {"-": "red", "+": "green"}


def test_a_huge_definition_does_not_fill_the_scrollback() -> None:
    """A diff of many lines is cut, and so is a line of many members; both show that they are."""
    many = "".join(f"\n  `c{n}` int," for n in range(300))
    members = "','".join(f"m{n}" for n in range(9000))
    new = f"CREATE TABLE `t` (\n  `e` enum('{members}'),{many}\n)"
    lines = [one.text for one in screen_of(plan(definition=Definition(old=OLD, new=new)))]
    assert len(lines) < 40
    assert max(map(len, lines)) <= 240
    assert any("lines more" in line for line in lines)
    assert any(line.endswith("...") for line in lines)


def test_what_happens_to_values_is_never_cut_off() -> None:
    """A long type is shortened; behind it stands what stops the run."""
    column = ColumnPlan(
        change="converted",
        old="e",
        new="e",
        old_type="enum('" + "','".join(map(str, range(999))) + "')",
        new_type="varchar(100) utf8mb4_0900_ai_ci NOT NULL",
        note="a value that does not fit stops the run; a NULL stops the run",
    )
    (line,) = (one.text for one in screen_of(plan(columns=(column,))) if "converted" in one.text)
    assert line.endswith("(a value that does not fit stops the run; a NULL stops the run)")


def test_changes_that_cannot_be_deduplicated_are_named() -> None:
    """They are slower to apply, so the screen says why."""
    key = KeyPlan(name="PRIMARY", columns=("c",), deduplicates=False, why="a collation")
    assert any("one by one" in line.text for line in screen_of(plan(key=key)))


def test_the_screen_is_in_no_record() -> None:
    """A log, a hook and a page have the fields."""
    event = PlanMade(plan={}, said="plan", shown=(("line", "red"),))
    assert event.screen
    assert not {"screen", "shown", "said"} & event.to_dict().keys()

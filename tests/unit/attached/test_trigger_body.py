"""Which columns the body of a trigger names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.attached.triggers.model import Trigger, mentions
from spirit_py.errors import Refusal

TRIGGER = Trigger(
    schema="shop",
    name="trg",
    table="orders",
    timing="BEFORE",
    event="UPDATE",
    order=1,
    user="root",
    host="%",
    sql_mode="",
    character_set_client="utf8mb4",
    collation_connection="utf8mb4_0900_ai_ci",
    database_collation="utf8mb4_0900_ai_ci",
    body="",
    text="",
)
CHANGED = {"total": "drops", "note": "renames to remark"}


def found(text: str, mode: str = "") -> list[str]:
    """Return what the body mentions, with line and column."""
    trigger = replace(TRIGGER, text=text, sql_mode=mode)
    return [f"{m.written} {m.line}:{m.column}" for m in mentions(trigger, CHANGED)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET NEW.total = 1", ["NEW.total 1:9"]),
        ("SET new . `Total` = OLD.note", ["new.Total 1:11", "OLD.note 1:25"]),
        ("SET `new`.note = 1", ["new.note 1:11"]),
        ("BEGIN\n  IF OLD.a THEN\n    SET NEW.b = OLD.total;\n  END IF;\nEND", ["OLD.total 3:21"]),
        ("SET NEW.subtotal = 1, @total = 2, @new.total = 3", []),
        ("INSERT INTO log (total, note) VALUES (NEW.id, 'NEW.total')", []),
        ("/* NEW.total */ SET NEW.a = 1 -- NEW.note", []),
        ("SET NEW.a = (SELECT SUM(total) FROM orders)", ["total 1:25"]),
        ("SET NEW.a = (SELECT SUM(o.total) FROM shop.Orders o)", ["o.total 1:27"]),
        ("SET NEW.a = (SELECT SUM(x) FROM orders), @note = 1", []),
        ("/*!50003 SET NEW.total = 1 */", ["NEW.total 1:18"]),
        ("SET NEW.orders = 1, NEW.a = (SELECT total FROM log)", []),
    ],
)
def test_columns_are_found_where_they_are_of_the_table(text, expected):
    """Behind NEW and OLD, and anywhere in a body that names the table."""
    assert [one.replace("o.", "") for one in found(text)] == [
        one.replace("o.", "") for one in expected
    ]


def test_a_body_is_read_in_the_mode_of_its_trigger():
    """What is a string by default is a column under ANSI_QUOTES."""
    text = """SET NEW."total" = 'a\\'"""
    assert found(text, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES") == ["NEW.total 1:9"]
    with pytest.raises(Refusal, match="its body cannot be read"):
        found(text)


def test_a_mention_shows_its_place():
    """Trigger, column, fate, line, column and the line's text."""
    trigger = replace(TRIGGER, text="BEGIN\n\tSET NEW.note = UPPER(NEW.note);\nEND")
    first, _ = mentions(trigger, CHANGED)
    assert str(first) == (
        "trigger trg (BEFORE UPDATE) names NEW.note, which the ALTER renames to remark: line 2,"
        " column 10 of its body: SET NEW.note = UPPER(NEW.note);"
    )


def test_an_alter_that_keeps_all_names_reads_no_body():
    """A body that cannot be read hinders only an ALTER that takes a name away."""
    assert not list(mentions(replace(TRIGGER, text="'open"), {}))

"""Events: what is declared, documented and told is the same."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from spirit_py.events import FIELDS, Event, EventName, undeclared
from spirit_py.status.lines import json_line, text_line
from spirit_py.status.snapshot import MigrationStatus

PAGE = Path(__file__).parents[2] / "docs" / "events.md"
KINDS = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "list",
    dict: "object",
}
OWN = {"run", "time", "event", "level", "table", "text"}


def documented() -> dict[str, dict[str, str]]:
    """Return the fields of each event of the page, with the kinds of their values."""
    rows = re.findall(r"^\| `([a-z_.]+)` \| .+? \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        name: dict(re.findall(r"`(\w+)` (text|integer|number|boolean|list|object):", fields))
        for name, fields in rows
        if name not in OWN
    }


def test_the_page_has_exactly_the_events_and_fields_of_the_code():
    """Both ways: nothing is declared without being documented, nothing is documented and gone."""
    declared = {
        name.value: {each: KINDS[kind] for each, kind in FIELDS.get(name, {}).items()}
        for name in EventName
    }
    assert documented() == declared


def test_the_page_has_every_figure_of_a_progress_line():
    """They are those of a snapshot, but for the speeds of the past that only a display draws."""
    section = PAGE.read_text().partition("### Progress")[2].partition("\n## ")[0]
    figures = {each.name for each in dataclasses.fields(MigrationStatus)} - {"table", "history"}
    assert set(re.findall(r"`([a-z_]+)`", section)) - {"progress"} == figures


@pytest.mark.parametrize("name", [name for name in EventName if name is not EventName.PROGRESS])
def test_no_field_is_named_like_a_key_of_the_line(name):
    """The line is one flat object: a field would hide the key."""
    assert not OWN & FIELDS[name].keys()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"throttler": "load", "seconds": 1.5}, []),
        ({"throttler": None, "seconds": 1}, []),
        ({"throttler": "load"}, ["throttle.ended: no field 'seconds' is given"]),
        (
            {"throttler": "load", "seconds": 1.5, "why": ""},
            ["throttle.ended: no field 'why' is declared"],
        ),
        (
            {"throttler": "load", "seconds": "1.5"},
            ["throttle.ended: seconds is '1.5', and not a float"],
        ),
        (
            {"throttler": "load", "seconds": True},
            ["throttle.ended: seconds is True, and not a float"],
        ),
    ],
)
def test_other_fields_than_the_declared_ones_are_found(fields, wrong):
    """All are there, no others, and each of its kind or unknown."""
    event = Event(name=EventName.THROTTLE_ENDED, text="x", fields=fields)
    assert undeclared(event) == wrong


def test_a_line_is_ascii_json_whatever_a_name_holds():
    """No locale breaks it, no name ends the line, and no number is one that JSON does not know."""
    text = "shop.o\nr\u2028d\u00e9rs \ud800"
    event = Event(
        name=EventName.THROTTLE_ENDED,
        text=text,
        table="s.t",
        level="warning",
        fields={"throttler": [math.nan], "seconds": math.inf},
    )
    line = json_line(event)
    assert line.isascii()
    found = json.loads(line)
    assert found.keys() > OWN
    assert (found["text"], found["seconds"], found["throttler"]) == (text, None, [None])
    shown = text_line(event)
    assert len(shown.splitlines()) == 1
    assert shown.endswith(" warning: shop.o\\nr\\u2028d\u00e9rs \\ud800")

"""Events: what is declared, documented and told is the same."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import string
from pathlib import Path

import pytest

from spirit_py.events.copy import ThrottleEnded
from spirit_py.events.event import Event, aside, event, teller
from spirit_py.events.run import ProgressMade, SessionsEnded
from spirit_py.progress import MigrationStatus
from spirit_py.status.plain import json_line, text_line
from tests.kits.events import declared, kinds, undeclared

PAGE = Path(__file__).parents[2] / "docs" / "events.md"
WORDS = {
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
    found = {
        name: {each: WORDS[of] for each, of in declared(cls).items()}
        for name, cls in kinds().items()
    }
    assert len(found) > 70
    assert documented() == found


def test_the_page_has_every_figure_of_a_progress_line():
    """They are those of a snapshot, but for the speeds of the past that only a display draws."""
    section = PAGE.read_text().partition("### Progress")[2].partition("\n## ")[0]
    figures = {each.name for each in dataclasses.fields(MigrationStatus)} - {"table", "history"}
    assert set(re.findall(r"`([a-z_]+)`", section)) - {"progress"} == figures


@pytest.mark.parametrize("cls", kinds().values(), ids=kinds())
def test_a_line_is_made_of_the_fields_of_its_class(cls):
    """A template names fields that there are; a class without one writes its own sentence."""
    names = {name for _, name, _, _ in string.Formatter().parse(cls.template) if name}
    assert names <= {each.name for each in dataclasses.fields(cls)}
    assert bool(cls.template) != (cls.sentence is not Event.sentence) or cls.name == "checksum.done"
    # The line is one flat object: a field would hide the key.
    assert not OWN & declared(cls).keys()


@pytest.mark.parametrize(
    ("seconds", "wrong"),
    [
        (1.5, []),
        (1, []),
        (None, []),
        ("1.5", ["throttle.ended: seconds is '1.5', and not a float"]),
        (True, ["throttle.ended: seconds is True, and not a float"]),
    ],
)
def test_values_of_other_types_than_the_declared_ones_are_found(seconds, wrong):
    """Each is of its type, or unknown."""
    assert undeclared(ThrottleEnded(throttler="load", seconds=seconds)) == wrong


def test_what_only_the_line_needs_is_in_no_record(monkeypatch):
    """Programs go by the fields; a batch puts the table before the line."""
    monkeypatch.setattr("spirit_py.events.event.KINDS", {})

    @event("only.here", "{who}: {bytes:size} in {seconds:time}, {rows:count} rows")
    class OnlyHere(Event):
        bytes: int
        seconds: float
        rows: int
        who: str = aside()

    told: list[Event] = []
    tell = teller(told.append, "s.t")
    made = OnlyHere(bytes=1536, seconds=184.0, rows=1234567, who="{seconds}")
    tell(made)
    tell(dataclasses.replace(made, table="s.u", prefix="u"))
    assert told[0].text == "{seconds}: 1.5 KiB in 3m04s, 1 234 567 rows"
    assert told[1].line == f"u: {told[0].text}"
    assert [one.table for one in told] == ["s.t", "s.u"]
    assert told[0].fields == {"bytes": 1536, "seconds": 184.0, "rows": 1234567}
    assert ProgressMade(figures={"rows": 1}, said="x").fields == {"rows": 1}


def test_a_line_is_ascii_json_whatever_a_name_holds():
    """No locale breaks it, no name ends the line, and no number is one that JSON does not know."""
    name = "shop.o\nr\u2028d\u00e9rs \ud800"
    line = json_line(ThrottleEnded(table=name, throttler=name, seconds=math.inf))
    assert line.isascii()
    found = json.loads(line)
    assert found.keys() > OWN
    assert (found["throttler"], found["seconds"]) == (name, None)
    shown = text_line(ThrottleEnded(table=name, throttler=name, seconds=1.0))
    assert len(shown.splitlines()) == 1
    assert shown.endswith(" shop.o\\nr\\u2028d\u00e9rs \\ud800, after 1.0s")


def test_a_count_has_the_noun_of_its_number():
    """One session is no "1 sessions"."""
    ended = [SessionsEnded(sessions=number).text for number in (1, 2)]
    assert ended == [
        f"ended {one} of an earlier run on the server" for one in ("1 session", "2 sessions")
    ]

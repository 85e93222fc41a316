"""Records as lines, for programs and for people."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from spirit_py.binlog.codec.rows import RowChange
from spirit_py.binlog.events import Place
from spirit_py.table.schema import Column, TableSchema
from spirit_py.watch.records import Record, as_json, as_text, record, row_record, utc_time

PLACE = Place("b.000001", 120, "16e8969d-e4d3-11f1-b00c-02fc00000001", 7, 1_700_000_000)


class Image:
    """A row image whose values are there already."""

    def __init__(self, *, stored: Any = None, **found: Any) -> None:
        self._found, self._stored = found, stored or found
        columns = tuple(
            Column(name=name, ordinal=at, data_type=kind, column_type=kind, nullable=True)
            for at, (name, kind) in enumerate({"id": "int", "v": "text", "e": "enum"}.items(), 1)
        )
        self.codec = self
        self.key_names = {"id"}
        self.schema = TableSchema(schema="s", name="t", engine="", columns=columns, indexes=())

    def values(self) -> dict[str, Any]:
        """Return the values."""
        return self._found

    def stored(self) -> dict[str, Any]:
        """Return the values as they are stored."""
        return self._stored


def row(kind: Any, before: Any, after: Any) -> Record:
    """Build the record of a changed row."""
    return row_record("p", PLACE, ("s", "t"), RowChange(kind, before, after))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, {"value": None, "is_null": True}),
        ("", {"value": "", "is_null": False}),
        ("null", {"value": "null", "is_null": False}),
        ({"hex": "00"}, {"value": "00", "encoding": "hex"}),
        ({"hex": "81", "charset": "sjis"}, {"value": "81", "encoding": "hex", "charset": "sjis"}),
        (-0.0, {"value": "-0.0"}),
        (2**64, {"value": "18446744073709551616"}),
    ],
)
def test_values_are_text_without_loss(value: Any, shown: dict[str, Any]) -> None:
    """NULL, empty and the word are three; bytes say how they are written."""
    (_, column, _) = row("insert", None, Image(id=1, v=value, e="x"))["after"]
    assert shown.items() <= column.items()


def test_an_invalid_enum_is_told_from_a_member_named_0() -> None:
    """The error value 0 has no text."""
    (*_, invalid) = row("insert", None, Image(id=1, v="", e=0))["after"]
    (*_, member) = row("insert", None, Image(id=1, v="", e="0"))["after"]
    assert invalid["encoding"] == "ordinal"
    assert "encoding" not in member


def test_changed_is_the_difference_of_both_images() -> None:
    """Of an update what differs; of an insert and a delete every column."""
    update = row("update", Image(id=1, v=0.0, e="x"), Image(id=1, v=-0.0, e="x"))
    assert [column["changed"] for column in update["after"]] == [False, True, False]
    assert [column["changed"] for column in update["before"]] == [False, True, False]
    insert = row("insert", None, Image(id=1, v=None, e="x"))
    assert all(column["changed"] for column in insert["after"])


def test_values_of_one_text_that_are_stored_otherwise_are_changed() -> None:
    """A date and a text in JSON, and two numbers of a SET with an empty member."""
    before = Image(id=1, v='"2020-01-02"', e="", stored={"id": 1, "v": b"\x0c", "e": 0})
    after = Image(id=1, v='"2020-01-02"', e="", stored={"id": 1, "v": b"\x0f", "e": 1})
    update = row("update", before, after)
    assert [column["changed"] for column in update["after"]] == [False, True, True]
    assert 'v="\\"2020-01-02\\"" -> ' in as_text(update).text


def test_json_is_one_line_whatever_is_in_it() -> None:
    """A line break in a value must not break the line."""
    found = row("insert", None, Image(id=1, v="a\nb\u2028c", e="é"))
    line, position = as_json(found)
    assert "\n" not in line
    assert json.loads(line) == found
    assert position == found["position"]


def test_text_is_for_people() -> None:
    """Time, kind, table, key, what changed, and the transaction."""
    update = row("update", Image(id=1, v="a", e="x"), Image(id=1, v=None, e="x"))
    said = as_text(update).text
    assert said.startswith('2023-11-14T22:13:20Z  update  s.t  id="1": v="a" -> NULL')
    assert PLACE.gtid in said
    assert as_text(update | {"doubt": True}).text.endswith(f"NULL  (in doubt)  gtid {PLACE.gtid}")
    deleted = as_text(row("delete", Image(id=1, v={"hex": "00ff"}, e="x"), None)).text
    assert "v=X'00ff'" in deleted
    assert "…" in as_text(row("insert", None, Image(id=1, v="a" * 1000, e="x"))).text
    end = as_text(record("end", "file;u;b.000001;4"))
    assert end.text.endswith("position file;u;b.000001;4")
    assert end.position == "file;u;b.000001;4"
    ddl = record("ddl", "p", Place("b.000001", 4), schema="s", sql="ALTER\n TABLE t")
    assert as_text(ddl).text == "-  ddl  s  ALTER TABLE t  at b.000001:4"


def test_a_time_that_is_not_known_is_null() -> None:
    """Heartbeats and rotations have none."""
    assert utc_time(0) is None
    assert record("begin", "p", PLACE)["executed_at"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("write", [as_text, as_json])
def test_what_somebody_wrote_controls_no_terminal_and_ends_no_line(write: Any) -> None:
    """Names, statements and values come from whoever may write to the server."""
    hostile = "a\x1b[2J\n2026-11-29  delete  s.t\x9b\u202e\x7f"
    change = RowChange("insert", None, cast("Any", Image(id=1, v=hostile, e="x")))
    named = row_record("p", PLACE, ("s", hostile), change)
    said = record("statement", "p", PLACE, sql=hostile, xid=hostile)
    for found in (named, said):
        text = write(found).text
        assert not set(text) & set("\x1b\n\x9b\u202e\x7f"), text

"""The checkpoint record is read back whole, or refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Membership,
    TableProgress,
    UnreadableCheckpoint,
    digest_of,
    from_text,
    home_of,
    joined,
    pointer_text,
    to_text,
)

ORDERS = TableProgress(
    schema="shop",
    table="orders",
    new="_orders_new",
    old="_orders_old",
    source_shape="a",
    target_shape="b",
    copied_up_to=("1", "_utf8mb4 X'61'"),
    rows_copied=7,
    chunks=2,
)
RECORD = CheckpointRecord(
    statement="ADD COLUMN x INT",
    tables=(
        ORDERS,
        dataclasses.replace(
            ORDERS,
            table="items",
            new="_items_new",
            old="_items_old",
            copied=True,
            checked_up_to=("3",),
        ),
    ),
    server_uuid="u",
    phase="copy",
    position="opaque",
    seconds=1.5,
    runs=3,
    totals={"changes_received": 9},
)
FIRST = {
    "chunks": 0,
    "copied_up_to": [],
    "format": 1,
    "phase": "create",
    "position": "",
    "program": "0.1.0",
    "rows_copied": 0,
    "schema": "shop",
    "server_uuid": "u",
    "started_at": "2026-11-20T11:00:00+00:00",
    "statement": "ADD COLUMN x INT",
    "table": "orders",
}


def changed(path: str, value: object) -> str:
    """Return the record's text with one value replaced; ``tables.`` leads into the first table."""
    found = json.loads(to_text(RECORD))
    place = found["tables"][0] if path.startswith("tables.") else found
    place[path.removeprefix("tables.")] = value
    return json.dumps(found)


def test_a_record_comes_back_as_it_was():
    """Writing and reading lose nothing."""
    assert from_text(to_text(RECORD)) == RECORD


def test_a_pointer_comes_back_as_it_was():
    """A table that is migrated with others points to the one that has the record."""
    pointer = Membership(schema="shop", table="items", program="1")
    assert from_text(pointer_text(pointer)) == pointer


def test_the_first_format_is_read_as_what_it_says():
    """Format 1 was only ever written before the feed ran: it has no position and no progress."""
    found = from_text(json.dumps(FIRST))
    assert isinstance(found, CheckpointRecord)
    assert found.tables == (TableProgress(schema="shop", table="orders"),)
    assert (found.statement, found.server_uuid, found.position) == ("ADD COLUMN x INT", "u", "")
    assert found.format == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "not JSON"),
        ("[]", "format None"),
        ("null", "format None"),
        (json.dumps({"format": 99}), "format 99"),
        (json.dumps(json.loads(to_text(RECORD)) | {"format": 2}), "format 2"),
        (json.dumps({"format": True}), "format True"),
        (json.dumps({"format": 1, "statement": "x"}), "fields of a record of format 1 differ"),
        (json.dumps(FIRST | {"table": 7}), "table is of the wrong type"),
        (json.dumps({"format": 3, "statement": "x"}), "fields of a record differ"),
        (json.dumps({"format": 3, "program": "", "member_of": "a"}), "does not name a table"),
        (json.dumps({"format": 3, "member_of": ["a", "b"]}), "fields of a pointer differ"),
        (changed("tables", []), "names no tables"),
        (changed("tables", [7]), "not an object"),
        (changed("totals", {"a": "7"}), "not counters"),
        (changed("runs", "3"), "runs of a record is of the wrong type"),
        (changed("runs", True), "runs of a record is of the wrong type"),
        (changed("seconds", "x"), "seconds of a record"),
        (changed("tables.copied", 1), "copied of a table's progress is of the wrong type"),
        (changed("tables.copied_up_to", "1"), "copied_up_to of a table's progress"),
        (changed("tables.copied_up_to", [1]), "copied_up_to of a table's progress"),
        (changed("tables.more", 1), "fields of a table's progress differ"),
        (changed("tables.new", "t"), "the tables beside shop.orders have other names"),
        (changed("tables.old", "t"), "the tables beside shop.orders have other names"),
        (changed("tables.rows_copied", -5), "below zero"),
        (changed("phase", "nonsense"), "no phase 'nonsense'"),
        (changed("settled_at", None), "settled_at of a record"),
        (changed("later", 1), "fields of a record differ: ..later"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text, reason):
    """A record of another format, or with a value of another type, is never guessed at (R17)."""
    with pytest.raises(UnreadableCheckpoint, match=reason):
        from_text(text)


def test_every_field_of_a_record_is_checked_for_its_type():
    """No field of a table's progress takes a value of another type."""
    for field in dataclasses.fields(TableProgress):
        with pytest.raises(UnreadableCheckpoint):
            from_text(changed(f"tables.{field.name}", {"an": "object"}))


def test_what_is_said_of_several_tables_does_not_depend_on_their_order():
    """Statements that are given in another order are the same migration, with the same home."""
    one, other = ("shop", "orders"), ("shop", "items")
    assert home_of([one, other]) == home_of([other, one]) == other
    assert RECORD.home == other
    assert joined([(one, "A"), (other, "B")]) == joined([(other, "B"), (one, "A")])
    assert RECORD.of(*one) == ORDERS
    with pytest.raises(KeyError, match="nothing"):
        RECORD.of("shop", "nothing")
    assert not RECORD.copied
    assert RECORD.rows_copied == 14


def test_a_digest_survives_the_swap():
    """RENAME TABLE changes the name and the names made from it, and not what is defined."""
    text = "CREATE TABLE `{0}` (\n  `id` int,\n  CONSTRAINT `{0}_chk_1` CHECK (`id` > 0)\n)"
    before = digest_of(text.format("_a``b_new"), "_a`b_new")
    assert before == digest_of(text.format("a``b"), "a`b")
    assert before != digest_of(text.format("a``b").replace("> 0", "> 1"), "a`b")
    assert before != digest_of(text.format("a``b").replace("`id`", "`di`"), "a`b")

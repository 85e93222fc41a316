"""The checkpoint record is read back whole, or refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

from spirit_py.checkpoint.codec import FORMAT, UnreadableCheckpoint, from_text, to_text
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Pointer,
    Proofs,
    TableProgress,
    UncopiedRange,
    digest_of,
    home_of,
    joined,
)
from spirit_py.config import SwapChoices
from spirit_py.mysql.tables.identity import Identity

ORDERS = TableProgress(
    schema="shop",
    table="orders",
    source_shape="a",
    target_shape="b",
    uncopied=(
        UncopiedRange(lower=("1", "_utf8mb4 X'61'"), upper=("2", "_utf8mb4 X'61'")),
        UncopiedRange(lower=("7", "_utf8mb4 X'61'")),
    ),
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
            uncopied=(),
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


def changed(path: str, value: object) -> str:
    """Return the record's text with one value replaced; ``tables.`` leads into the first table."""
    found = json.loads(to_text(RECORD))
    place = found["tables"][0] if path.startswith("tables.") else found
    place[path.removeprefix("tables.")] = value
    return json.dumps(found)


def uncopied(lower: list[object], upper: object) -> str:
    """Return the record's text with one uncopied range in its first table."""
    return changed("tables.uncopied", [{"lower": lower, "upper": upper}])


def read(text: str) -> CheckpointRecord | Pointer:
    """Read a first row."""
    return from_text(text, CheckpointRecord, Pointer)


def test_a_record_comes_back_as_it_was():
    """Writing and reading lose nothing."""
    assert read(to_text(RECORD)) == RECORD


def test_a_record_from_before_the_choices_is_read():
    """A stopped migration of an earlier version with the same format resumes."""
    found = json.loads(to_text(RECORD))
    del found["choices"]
    assert found["format"] == 5
    assert read(json.dumps(found)) == RECORD
    del found["modes"]
    with pytest.raises(UnreadableCheckpoint, match="fields of a CheckpointRecord differ"):
        read(json.dumps(found))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_a_number_that_json_has_not_is_a_text(number):
    """JSON functions of the server read each record, and earlier versions' texts are read still."""

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    never = dataclasses.replace(RECORD, choices=SwapChoices(drop_old_after=float(number)))
    text = to_text(never)
    found = json.loads(text, parse_constant=refused)
    assert found["choices"]["drop_old_after"] == number
    earlier = json.dumps(found | {"choices": {**found["choices"], "drop_old_after": float(number)}})
    for one in (text, earlier):
        assert str(from_text(one, CheckpointRecord).choices.drop_old_after) == number


def test_a_pointer_comes_back_as_it_was():
    """A table that is migrated with others points to the table that has the record."""
    pointer = Pointer(home=("shop", "items"), program="1")
    assert read(to_text(pointer)) == pointer


def test_proofs_come_back_as_they_were():
    """The numbers of a table are a set; none are known of a table that was not made yet."""
    source = Identity(server="u", numbers=frozenset({7, 8}), born=9)
    proofs = Proofs(building="_t_abcdef", source=source)
    assert from_text(to_text(proofs), Proofs) == proofs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "not JSON"),
        ("[]", "format None"),
        ("null", "format None"),
        (json.dumps({"format": 99}), "format 99"),
        (json.dumps(json.loads(to_text(RECORD)) | {"format": FORMAT + 1}), "it has format"),
        (json.dumps({"format": True}), "format True"),
        (json.dumps({"format": FORMAT, "statement": "x"}), "fields of a CheckpointRecord differ"),
        (
            json.dumps({"format": FORMAT, "program": "", "home": "a"}),
            "home of a Pointer is of the",
        ),
        (
            json.dumps({"format": FORMAT, "program": "", "home": ["a"]}),
            "home of a Pointer is of the",
        ),
        (json.dumps({"format": FORMAT, "home": ["a", "b"]}), "fields of a CheckpointRecord differ"),
        (changed("tables", []), "names 0 tables"),
        (changed("tables", [json.loads(to_text(RECORD))["tables"][0]] * 1001), "names 1001 tables"),
        (changed("tables", [7]), "a TableProgress is not an object"),
        (changed("totals", {"a": "7"}), "totals of a CheckpointRecord is of the wrong type"),
        (changed("runs", "3"), "runs of a CheckpointRecord is of the wrong type"),
        (changed("runs", True), "runs of a CheckpointRecord is of the wrong type"),
        (changed("seconds", "x"), "seconds of a CheckpointRecord"),
        (changed("seconds", ["inf"]), "seconds of a CheckpointRecord"),
        (changed("seconds", 10**400), "seconds of a CheckpointRecord"),
        (changed("started_at", ""), "Invalid isoformat string"),
        (changed("started_at", "2026-11-22T12:00:00"), "no offset"),
        (changed("started_at", "1026-11-22T12:00:00+00:00"), "no date"),
        (changed("tables.uncopied", 1), "uncopied of a TableProgress is of the wrong type"),
        (changed("tables.uncopied", ["1"]), "a UncopiedRange is not an object"),
        (changed("tables.uncopied", [{"lower": ["1"]}]), "fields of a UncopiedRange differ"),
        (uncopied(["1"], "2"), "upper of a UncopiedRange is of the wrong type"),
        (uncopied([1], []), "lower of a UncopiedRange is of the wrong type"),
        (
            changed("tables.uncopied", [{"lower": ["1"], "upper": []}] * 2),
            "has no end, and another one follows",
        ),
        (changed("tables.more", 1), "fields of a TableProgress differ"),
        (changed("tables.rows_copied", -5), "below zero"),
        (changed("phase", "nonsense"), "no phase 'nonsense'"),
        (changed("settled_at", None), "settled_at of a CheckpointRecord"),
        (changed("later", 1), "fields of a CheckpointRecord differ: ..later"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text, reason):
    """A record of another format, or with a value of another type, is never guessed at (R17)."""
    with pytest.raises(UnreadableCheckpoint, match=reason):
        read(text)


def test_every_field_of_a_record_is_checked_for_its_type():
    """No field of a table's progress takes a value of another type."""
    for field in dataclasses.fields(TableProgress):
        with pytest.raises(UnreadableCheckpoint):
            read(changed(f"tables.{field.name}", {"an": "object"}))


def test_the_order_of_the_statements_does_not_matter():
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


def test_a_digest_survives_what_the_swap_does_to_the_names_of_checks():
    """RENAME TABLE renames whatever begins with the table's name, and lists all by name (9.7)."""
    named = "  CONSTRAINT `{}` CHECK ((`a``,\nb` {})),\n"
    checks = [
        named.format("{0}_chk_1", "<> _utf8mb4'\\',\\n  CONSTRAINT `c` CHECK (1)'"),
        named.format("{0}_chk_tot``al\n", "> 0"),
        named.format("o_chk", "> 1"),
        named.format("o_chk_", "> 2"),
        named.format("positive", "> 3"),
    ]

    def digest(name: str, order: str) -> str:
        listed = "".join(checks[int(one)] for one in order).format(name)
        return digest_of(f"CREATE TABLE `{name}` (\n  `a``,\nb` int,\n{listed[:-2]}\n)", name)

    assert digest("o", "23014") == digest("_o_new", "01234") == digest("_o_old", "01234")
    assert digest("o", "2301") != digest("o", "23014")


def test_a_digest_survives_an_upgrade():
    """MySQL shows utf8 as utf8mb3 since 8.0.28, and the collations' names since 8.0.30."""
    shown = (
        "CREATE TABLE `t` (\n  `_utf8` int,\n  `a` char(1) CHARACTER SET {0} COLLATE {1}_bin,\n"
        "  `b` char(1) COLLATE {1}_czech_ci DEFAULT (_{0}'x'),\n"
        "  `c` char(1) GENERATED ALWAYS AS (convert(`a` using {0})) VIRTUAL,\n"
        "  `d` char(1) GENERATED ALWAYS AS (concat(_{0}\\'x\\',`a` collate {1}_bin)) VIRTUAL,\n"
        "  `e` int GENERATED ALWAYS AS (cast(`a` as char charset {0})) VIRTUAL\n"
        ") ENGINE=InnoDB DEFAULT CHARSET={0} COLLATE={1}_bin"
    )
    versions = [("utf8", "utf8"), ("utf8mb3", "utf8"), ("utf8mb3", "utf8mb3")]
    assert len({digest_of(shown.format(*one), "t") for one in versions}) == 1
    wider = shown.format("utf8mb4", "utf8mb4")
    assert digest_of(wider, "t") != digest_of(shown.format(*versions[0]), "t")
    assert digest_of(wider, "t") == digest_of(wider.replace("`t`", "`u`"), "u")


def test_a_digest_leaves_out_the_keys_that_come_and_go_with_the_swap():
    """Foreign keys alone, wherever they stand; not a CHECK between them."""
    plain = (
        "CREATE TABLE `t` (\n  `id` int,\n  KEY `a` (`id`){0},\n  CONSTRAINT `c` CHECK (1){1}\n)"
    )
    key = (
        ",\n  CONSTRAINT `{0}` FOREIGN KEY (`id`, `a`) REFERENCES `p` (`id`, `b`) ON DELETE CASCADE"
    )
    with_keys = plain.format(key.format("t_ibfk_1"), key.format("x``, ``") + key.format("y"))
    assert digest_of(with_keys, "t") == digest_of(plain.format("", ""), "t")
    assert digest_of(with_keys.replace("(1)", "(2)"), "t") != digest_of(with_keys, "t")


def test_a_statement_about_other_tables_than_its_own_is_no_record():
    """``status`` would show it as a command to its reader, who may have more rights (R26)."""
    own = "ALTER TABLE `shop`.`items` FORCE;\nALTER TABLE `shop`.`orders` FORCE"
    assert isinstance(read(changed("statement", own)), CheckpointRecord)
    with pytest.raises(UnreadableCheckpoint, match="about other tables than those"):
        read(changed("statement", own.replace("shop", "payroll")))

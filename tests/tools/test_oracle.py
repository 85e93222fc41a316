"""The oracle of the cases must see what it is there for: one lost row, one changed byte, and more.

The table is changed by a native ALTER while applications write; then one thing is spoilt behind
the binlog's back, and the oracle must say so. Without the spoiling it must be content.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from tests.kits.native_alter import native
from tests.oracle.case import FOLDER, Case, load
from tests.oracle.rawlog import OracleError
from tests.oracle.scene import Outcome, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database


#: Rows that no writer of the case touches, so that nothing later covers the damage.
QUIET = {
    "add_column": "INSERT INTO t (id, name, amount, u) VALUES (5000000, 'quiet', 12.34, -5000000)",
    "types_text": "INSERT INTO t (id, c, v, tx, nn) VALUES (5000000, 'a', 'v  ', NULL, '')",
    "types_binary": "INSERT INTO t (id, b, vb, lb) VALUES (5000000, X'00', X'00FF', X'FF')",
    "types_decimal_float": "INSERT INTO t (id, d65, f, d) VALUES (5000000, 1, 0.1, 0)",
    "types_temporal": "INSERT INTO t (id, t6, ts6) VALUES (5000000, '-00:00:01', NOW(6))",
    "types_enum_set": "INSERT INTO t (id, e, e1) VALUES (5000000, '', 'only')",
    "types_json": "INSERT INTO t (id, j, j2) VALUES (5000000, '[1.5, \"2020-01-01\"]', '[]')",
    "types_vector": "INSERT INTO t (id, v, v1) VALUES (5000000, X'00000000', X'00000000')",
    "types_geometry": (
        "INSERT INTO t (id, g, p, p0) VALUES (5000000, ST_GeomFromText('POINT(1 2)'),"
        " ST_GeomFromText('POINT(1 2)', 4326), ST_GeomFromText('POINT(1 2)'))"
    ),
}


@pytest.mark.parametrize("name", sorted(QUIET))
def test_the_oracle_accepts_what_the_server_does(db: Database, name: str) -> None:
    """A native ALTER under load is right by definition, and events on both sides are replayed."""
    judgement = play(quiet_row_added(load(FOLDER / name), QUIET[name]), db, native)
    assert judgement.rows > 100
    assert judgement.events_before > 10
    assert judgement.events_after > 5


DAMAGE = [
    ("add_column", "DELETE FROM t WHERE id = 5000000", "1 lost"),
    ("add_column", "INSERT INTO t (id, name, u) VALUES (6000000, 'extra', -6000000)", "1 extra"),
    ("add_column", "UPDATE t SET name = 'quieT' WHERE id = 5000000", "name"),
    ("add_column", "UPDATE t SET amount = NULL WHERE id = 5000000", "amount"),
    ("add_column", "UPDATE t SET note = 'None' WHERE id = 5000000", "note"),
    ("types_text", "UPDATE t SET v = 'v ' WHERE id = 5000000", "v="),
    ("types_text", "UPDATE t SET tx = '' WHERE id = 5000000", "tx"),
    ("types_text", "UPDATE t SET nn = '\\0' WHERE id = 5000000", "nn"),
    ("types_binary", "UPDATE t SET vb = X'00FE' WHERE id = 5000000", "vb"),
    ("types_binary", "UPDATE t SET lb = X'FF00' WHERE id = 5000000", "lb"),
    (
        "types_decimal_float",
        "UPDATE t SET d65 = 1.000000000000000000000000000001 WHERE id = 5000000",
        "d65",
    ),
    ("types_decimal_float", "UPDATE t SET f = 0.10000001 WHERE id = 5000000", "f="),
    ("types_decimal_float", "UPDATE t SET d = -0e0 WHERE id = 5000000", "d="),
    ("types_temporal", "UPDATE t SET t6 = '-00:00:01.000001' WHERE id = 5000000", "t6"),
    ("types_temporal", "UPDATE t SET ts6 = ts6 + INTERVAL 1 MICROSECOND WHERE id = 5000000", "ts6"),
    ("types_enum_set", "UPDATE t SET e = 0 WHERE id = 5000000", "e (number)"),
    (
        "types_json",
        "REPLACE INTO t (id, j, j2) VALUES (5000000, JSON_ARRAY(1.5, '2020-01-01'), '[]')",
        "types",
    ),
    (
        "types_json",
        "UPDATE t SET j = JSON_ARRAY(1.5e0, CAST('2020-01-01' AS DATE)) WHERE id = 5000000",
        "types",
    ),
    ("types_vector", "UPDATE t SET v = X'00000080' WHERE id = 5000000", "v="),
    ("types_geometry", "UPDATE t SET g = ST_SRID(g, 3857) WHERE id = 5000000", "g="),
]


@pytest.mark.parametrize(("name", "damage", "seen"), DAMAGE, ids=lambda text: str(text)[:60])
def test_the_oracle_sees_every_kind_of_damage(
    db: Database, name: str, damage: str, seen: str
) -> None:
    """One lost, extra or changed row, by a byte, a sign, a NULL or a hidden type, is found."""
    case = quiet_row_added(load(FOLDER / name), QUIET[name])
    with pytest.raises(OracleError) as caught:
        play(case, db, functools.partial(native, spoil=[damage]))
    assert "1 lost or changed" in str(caught.value) or "1 extra or changed" in str(caught.value)
    assert seen in str(caught.value)


def quiet_row_added(case: Case, insert: str) -> Case:
    """Return the case with one more row, which its writers leave alone."""
    fields = {name: getattr(case, name) for name in case.__dataclass_fields__}
    return Case(**{**fields, "setup": (*case.setup, insert)})


@pytest.mark.smoke
def test_the_oracle_sees_a_change_lost_before_the_swap(db: Database) -> None:
    """A row that misses one committed change, as after a lost event, does not fit the replay."""
    case = quiet_row_added(load(FOLDER / "add_column"), QUIET["add_column"])
    lose = "UPDATE t SET amount = amount + 1 WHERE id = 5000000"
    with pytest.raises(OracleError, match="amount"):
        play(case, db, functools.partial(native, before=[lose]))


@pytest.mark.smoke
def test_the_oracle_sees_a_wrong_definition(db: Database) -> None:
    """A key, default or column too many in the new definition is found."""
    case = load(FOLDER / "add_column")
    with pytest.raises(OracleError, match="definition must be"):
        play(
            case, db, functools.partial(native, spoil=["ALTER TABLE t ALTER note SET DEFAULT 'x'"])
        )


def test_the_oracle_sees_a_second_swap(db: Database) -> None:
    """A table that changed its definition twice is not what was asked for."""
    case = load(FOLDER / "add_column")

    def twice(case: Case, db: Database, another_round: Callable[[], None]) -> Outcome:
        outcome = native(case, db, another_round)
        db.execute("ALTER TABLE t FORCE")
        return outcome

    with pytest.raises(OracleError, match="2 swaps"):
        play(case, db, twice)

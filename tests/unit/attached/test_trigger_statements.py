"""The statements that carry triggers over a swap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spirit_py.attached.triggers.model import Placed, Trigger, moves_of
from spirit_py.attached.triggers.statements import (
    OWN_SETTINGS,
    copies,
    create,
    gate,
    placed,
    renamed,
    withdrawn,
)
from spirit_py.errors import Refusal
from spirit_py.sql import EndsPacket
from tests.unit.attached.test_trigger_body import TRIGGER

TABLE = ("shop", "orders")
NEW, OLD = {TABLE: "_orders_new"}, {TABLE: "_orders_old"}
FIRST, SECOND, OTHER = (
    replace(TRIGGER, name="a", order=1, body="BEGIN END", text="BEGIN END"),
    replace(TRIGGER, name="b", order=2, body="SET @b = 1", text="SET @b = 1"),
    replace(TRIGGER, name="c", event="DELETE", body="BEGIN END", text="BEGIN END"),
)
MOVES = moves_of((SECOND, FIRST, OTHER), "0f0f0f")
NOTES = [move.note for move in MOVES]


def names(statements: list[str | bytes]) -> list[str]:
    """Return the verb, the trigger and the clause of order of each statement about a trigger."""
    found = []
    for statement in statements:
        text = statement if isinstance(statement, str) else statement.decode("latin-1")
        text = text.replace("`", "").replace("shop.", "").replace("_spirit_py_0f0f0f_", "tmp")
        words = text.split()
        if words[0] == "DROP":
            found.append(f"drop {words[2]}")
        elif words[0] == "CREATE":
            at = words.index("TRIGGER")
            order = words[words.index("ROW") + 1 :][:2]
            clause = f" {' '.join(order).lower()}" if order[0] in {"FOLLOWS", "PRECEDES"} else ""
            found.append(f"create {words[at + 1]} on {words[words.index('ON') + 1]}{clause}")
    return found


def test_the_copies_are_made_on_the_new_table_in_the_order_in_which_they_fire():
    """Each has a name of its own, and the settings of its trigger."""
    statements = copies(MOVES, NEW)
    assert names(statements) == [
        "create tmp1 on _orders_new",
        "create tmp2 on _orders_new",
        "create tmp3 on _orders_new",
    ]
    assert [move.trigger.name for move in MOVES] == ["c", "a", "b"]
    assert statements[-1] == OWN_SETTINGS


def test_after_the_rename_each_trigger_takes_the_place_of_its_copy():
    """The original goes, the trigger is made behind the copy, the copy goes.

    Before the first that is made in the middle of others the server opens the table anew.
    """
    assert names(placed(NOTES, renamed(MOVES, OLD))) == [
        *("drop c", "create c on orders", "drop tmp1"),
        *("create tmp2_open on orders", "drop tmp2_open"),
        *("drop a", "create a on orders follows tmp2", "drop tmp2"),
        *("drop b", "create b on orders", "drop tmp3"),
    ]


def place(name: str, table: str = "orders") -> Placed:
    """Return the place of a trigger, ``tmpN`` being a temporary one."""
    return Placed("shop", name.replace("tmp", "_spirit_py_0f0f0f_"), table)


@pytest.mark.parametrize(
    ("there", "rest"),
    [
        (["a", "b", "c"], []),
        (["a", "b", "c", "tmp3"], ["drop tmp3"]),
                (["c", "tmp2", "tmp3"], [
            *("create tmp2_open on orders", "drop tmp2_open"),
            *("create a on orders follows tmp2", "drop tmp2"),
            *("create b on orders", "drop tmp3"),
        ]),
        (["c", "tmp3"], ["create b on orders", "drop tmp3"]),
        (["a", "c"], []),
        ([], []),
    ],
)  # fmt: skip
def test_what_remains_depends_on_what_is_there(there, rest):
    """Whatever was interrupted where, the order in which the triggers fire ends as it was."""
    assert names(placed(NOTES, [trigger(name) for name in there])) == rest


def trigger(name: str) -> Trigger:
    """Return a trigger as the server has it: a copy is behind its gate."""
    move = next(one for one in MOVES if name in {one.trigger.name, place_name(one.temporary)})
    if name == move.trigger.name:
        return move.trigger
    gated = f"{gate(move.note)}{move.trigger.body}\n; END IF;"
    temporary = place(name).name
    return replace(move.trigger, name=temporary, body=gated, text=gated)


def place_name(temporary: str) -> str:
    """Return ``tmpN`` for a temporary name."""
    return temporary.replace("_spirit_py_0f0f0f_", "tmp")


def test_a_trigger_is_made_again_from_its_copy_behind_the_gate():
    """R26: the definition is the server's; a copy that is not this program's is refused by name."""
    left = [trigger("a"), trigger("c"), trigger("tmp3")]
    statements = placed(NOTES, left)
    again = create(MOVES[2].trigger, name="b", table="orders")[1]
    assert again in statements
    before = left[2].body.replace("SYSDATE()", "NOW()")
    earlier = replace(left[2], body=before, text=before)
    assert placed(NOTES, [*left[:2], earlier]) == statements
    strange = replace(left[2], body="BEGIN SET @mine = 1; END")
    with pytest.raises(Refusal, match="since this program made it: b cannot be restored"):
        placed(NOTES, [*left[:2], strange])


def test_what_was_made_before_a_rename_that_was_not_is_dropped():
    """The triggers of the table are left alone, and one there that has the name of a copy."""
    there = [place("a"), place("b"), place("c"), place("tmp1", "_orders_new")]
    assert withdrawn(NOTES, NEW, there) == [
        OWN_SETTINGS,
        "DROP TRIGGER `shop`.`_spirit_py_0f0f0f_1`",
    ]
    assert not withdrawn(NOTES, NEW, [*there[:3], place("tmp1", "orders")])


def test_a_trigger_is_made_under_its_own_settings_in_its_own_bytes():
    """Names are spelled in the character set of the client that made it."""
    trigger = replace(
        TRIGGER,
        name="ü`",
        sql_mode="ANSI_QUOTES",
        character_set_client="latin1",
        collation_connection="latin1_bin",
        body="BEGIN SET @x = 'für'; END",
        text="BEGIN SET @x = 'für'; END",
        spellings=(("ü`", "`ü```"),),
    )
    settings, statement = create(trigger, name=trigger.name, table="orders", order="FOLLOWS `x`")
    assert settings == (
        "SET SESSION character_set_client = latin1, SESSION collation_connection = latin1_bin,"
        " SESSION sql_mode = 'ANSI_QUOTES'"
    )
    assert statement == (
        "CREATE DEFINER=`root`@`%` TRIGGER `shop`.`ü```"
        " BEFORE UPDATE ON `shop`.`orders` FOR EACH ROW FOLLOWS `x` BEGIN SET @x = 'für'; END"
    ).encode("latin-1")


@pytest.mark.parametrize(
    ("body", "last"),
    [
        ("SET @a = 1", True),
        ("w: BEGIN END", True),
        ("/* c */ begin SET @a = 1; END", False),
        ("IF 1 THEN SET @a = 1; END IF", True),
        ("/* open BEGIN END", True),
    ],
)
def test_a_body_that_is_no_block_ends_its_packet(body, last):
    """The server would keep the semicolon behind it."""
    trigger: Trigger = replace(TRIGGER, body=body, text=body)
    assert isinstance(create(trigger, name="x", table="orders")[1], EndsPacket) is last
    gated = create(trigger, name="x", table="orders", gated="IF 1 THEN ")[1]
    assert not isinstance(gated, EndsPacket)
    assert gated.endswith(body.encode() + b"\n; END IF")

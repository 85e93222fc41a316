"""R25: what became of partitions is known by the numbers that InnoDB gives them."""

from __future__ import annotations

import pytest

from spirit_py.mysql.tables.partitions import PartitionState
from spirit_py.statement import alter_of

BEFORE = PartitionState(numbers={"p0": 1, "p1": 2, "p2": 3}, other=frozenset({9}))
SUB = PartitionState(numbers={"p0#sp#a": 1, "p0#sp#b": 2, "p1#sp#c": 3})

ADD = "ADD PARTITION (PARTITION p3 VALUES IN (4), PARTITION P4 VALUES IN (5))"
DROP = "DROP PARTITION P0, p1"
TRUNCATE = "TRUNCATE PARTITION p1"
EXCHANGE = "EXCHANGE PARTITION p1 WITH TABLE u"


def clause_of(text: str):
    """Read a clause."""
    return alter_of("s", "t", text).parsed[0]


def state(other: int = 9, **numbers: int) -> PartitionState:
    """Return a later state."""
    return PartitionState(numbers=numbers, other=frozenset({other}))


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (ADD, state(p0=1, p1=2, p2=3, p3=4, p4=5)),
        (DROP, state(p2=3)),
        (TRUNCATE, state(p0=1, p1=7, p2=3)),
        (EXCHANGE, state(2, p0=1, p1=9, p2=3)),
    ],
)
def test_what_the_clause_makes_is_known(text, after):
    """The named partitions have changed as the clause says, and no others."""
    assert BEFORE.proves(after, clause_of(text))


@pytest.mark.parametrize("text", [ADD, DROP, TRUNCATE, EXCHANGE, "TRUNCATE PARTITION ALL"])
@pytest.mark.parametrize(
    "after",
    [
        state(p0=1, p1=2, p2=3),
        state(p0=1, p1=2, p2=3, other=4),
        state(p0=1, p1=2, p2=3, p9=4),
        state(p0=1, p1=2, p2=8),
        state(p0=1, p1=2),
        state(p0=7, p1=8, p2=9),
        state(p0=7, p1=2, p2=3),
        state(p2=8),
        state(),
    ],
)
def test_what_others_make_is_not(text, after):
    """Nothing changed; another partition was; all were rebuilt; the table is gone."""
    assert not BEFORE.proves(after, clause_of(text))


@pytest.mark.parametrize("after", [state(2, p0=1, p1=6, p2=3), state(4, p0=1, p1=9, p2=3)])
def test_an_exchange_has_two_sides(after):
    """Both numbers have changed places; otherwise another table was exchanged."""
    assert not BEFORE.proves(after, clause_of(EXCHANGE))


def test_all_partitions_emptied_look_like_a_rebuild():
    """An answer of success decides it; a lost answer stays unknown."""
    every, after = clause_of("TRUNCATE PARTITION ALL"), state(p0=7, p1=8, p2=9)
    assert BEFORE.allows(after, every)
    assert not BEFORE.proves(after, every)


def test_the_parts_of_a_partition_belong_to_it():
    """A partition is dropped or emptied with all of its parts, or it is another change."""
    whole = PartitionState(numbers={"p0#sp#a": 7, "p0#sp#b": 8, "p1#sp#c": 3})
    half = PartitionState(numbers={"p0#sp#a": 7, "p0#sp#b": 2, "p1#sp#c": 3})
    assert SUB.proves(whole, clause_of("TRUNCATE PARTITION p0"))
    assert not SUB.proves(half, clause_of("TRUNCATE PARTITION p0"))
    assert SUB.proves(PartitionState(numbers={"p1#sp#c": 3}), clause_of("DROP PARTITION p0"))

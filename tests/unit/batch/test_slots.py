"""How the slots of a batch are dealt out, and which tables never meet."""

from __future__ import annotations

import pytest

from spirit_py.batch.plan import Slots, next_table


@pytest.mark.parametrize(
    ("total", "parallel"),
    [(total, parallel) for total in range(1, 9) for parallel in range(1, total + 1)],
)
def test_no_more_slots_are_used_than_there_are(total, parallel):
    """Whatever begins and ends, the whole is never exceeded, and every table gets one at least."""
    slots, waiting = Slots(total, parallel), 20
    running: list[int] = []
    while waiting or running:
        while waiting and (share := slots.take(waiting)):
            running.append(share)
            waiting -= 1
        assert 1 <= len(running) <= parallel
        assert sum(running) <= total
        slots.give_back(running.pop(0))


def test_all_slots_are_used_while_there_are_tables_enough():
    """What does not divide goes to the migrations that begin later."""
    slots = Slots(8, 3)
    assert [slots.take(9), slots.take(8), slots.take(7)] == [2, 3, 3]
    assert slots.take(6) == 0


def test_the_last_table_has_all_slots():
    """Nobody beside it needs any."""
    slots = Slots(8, 2)
    assert slots.take(1) == 8


A, B, C, D = (("s", name) for name in "abcd")


def test_related_tables_wait_for_each_other():
    """Another one goes first."""
    related = {A: frozenset({B}), B: frozenset({A})}
    assert next_table([B, C], [A], related) == C
    assert next_table([B], [A], related) is None
    assert next_table([B], [], related) == B


def test_a_table_waits_for_each_of_its_relations():
    """A parent of two children waits for both."""
    related = {A: frozenset({B, C}), B: frozenset({A}), C: frozenset({A})}
    assert next_table([A], [C], related) is None
    assert next_table([A], [D], related) == A

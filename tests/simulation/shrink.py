"""Make a schedule that goes wrong simpler: fewer choices that are not 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.world import play

if TYPE_CHECKING:
    from tests.simulation.world import Plan


def shrunk(seed: int, plan: Plan) -> dict[int, int]:
    """Return the choices that are needed, for a world that goes wrong.

    Parts of the list are left out, halves first, as long as the run goes wrong without them.
    """
    choices = play(seed, plan).choices
    size = max(1, len(choices) // 2)
    while True:
        places = sorted(choices)
        smaller = None
        for at in range(0, len(places), size):
            left_out = set(places[at : at + size])
            tried = {place: value for place, value in choices.items() if place not in left_out}
            if play(seed, plan, given=tried).wrong:
                smaller = tried
                break
        if smaller is not None:
            choices = smaller
        elif size == 1:
            return choices
        else:
            size //= 2

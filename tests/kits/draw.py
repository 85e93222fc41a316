"""The seeds of what tests draw: each is drawn by the one of the run, which is the day's."""

from __future__ import annotations

import os
import random

#: Replays what a run of the tests has drawn: which tests, cases and migrations, and all seeds.
DRAW_VARIABLE = "SPIRIT_PY_DRAW"


def seed_of(variable: str) -> int:
    """Return the seed that a variable of the environment names, or one of this run's draw."""
    if given := int(os.environ.get(variable) or 0):
        return given
    drawn = os.environ.get(DRAW_VARIABLE)
    source = random.Random(f"{variable} {drawn}") if drawn else random.SystemRandom()
    return source.randrange(1, 1 << 30)

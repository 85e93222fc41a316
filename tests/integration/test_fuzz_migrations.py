"""A few random migrations, drawn by the seed of the run; ``make fuzz-migrations`` does many."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.draw import draw
from tests.fuzz.judge import judge
from tests.kits.draw import DRAW_VARIABLE

if TYPE_CHECKING:
    from mysql_server import MySQLServer
    from tests.fuzz.judge import Migrate

#: Migrations of a day, of which a usual run has a few.
COUNT = 30


def drawn() -> list[int]:
    """Return the seeds of this day, drawn by that of the run."""
    source = random.Random(f"migrations {os.environ[DRAW_VARIABLE]}")
    return [source.randrange(10**6) for _ in range(COUNT)]


@pytest.mark.draws(2)
@pytest.mark.parametrize("seed", drawn())
def test_a_random_migration_does_what_a_native_alter_does(
    seed: int, mysql: MySQLServer, migrate_case: Migrate
) -> None:
    """A random table under random writers ends as the server would have left it (R21, R22)."""
    verdict = judge(draw(seed), mysql, migrate_case)
    assert not verdict.finding, f"make fuzz-migrations SEED={seed}\n{verdict.story()}"

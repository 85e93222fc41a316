"""A few random migrations, drawn by the seed of the run; ``make fuzz-migrations`` does many.

``SPIRIT_PY_FUZZ_MIGRATIONS`` is how many.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.model import as_files
from tests.fuzz.shrink import alike
from tests.kits.cases import DRAW_VARIABLE

if TYPE_CHECKING:
    from mysql_server import MySQLServer
    from tests.fuzz.judge import Migrate

COUNT = int(os.environ.get("SPIRIT_PY_FUZZ_MIGRATIONS") or 8)


def drawn() -> list[int]:
    """Return the seeds of this run, drawn by its own."""
    source = random.Random(f"migrations {os.environ[DRAW_VARIABLE]}")
    return [source.randrange(10**6) for _ in range(COUNT)]


@pytest.mark.parametrize("seed", drawn())
def test_a_random_migration_does_what_a_native_alter_does(
    seed: int, mysql: MySQLServer, migrate_case: Migrate
) -> None:
    """A random table under random writers ends as the server would have left it (R21, R22)."""
    verdict = judge(draw(seed), mysql, migrate_case)
    assert not verdict.finding, f"make fuzz-migrations SEED={seed}\n{verdict.story()}"


def test_a_seed_stands_for_one_scenario() -> None:
    """The same seed draws the same table, change and writers every time."""
    assert draw(4711) == draw(4711)
    assert len({as_files(draw(seed).case()) for seed in range(50)}) == 50


def test_a_column_is_taken_away_with_all_that_mentions_it() -> None:
    """What the shrinker leaves of a scenario names no column that it has taken away."""
    for seed in range(50):
        scenario = draw(seed)
        name = scenario.columns[0].name
        assert f"`{name}`" not in as_files(scenario.without_column(name).case())


def test_the_shrinker_does_not_take_one_failure_for_another() -> None:
    """Two refusals are alike when they say the same of different tables, and only then."""
    first, same, other = (
        Verdict(scenario=draw(1), kind="refused", text=f"a native ALTER succeeds; {text}")
        for text in (
            "exit code 1: 11 rows of t_55ed.t are duplicates for a new unique key",
            "exit code 1: 2 rows of t_9a1f.t are duplicates for a new unique key",
            "exit code 2: table t has neither a primary key nor a unique key over NOT NULL",
        )
    )
    assert alike(first, same)
    assert not alike(first, other)

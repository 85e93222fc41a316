"""The samples of output in the documentation are what the program prints."""

from __future__ import annotations

import textwrap
from pathlib import Path

from spirit_py.checkpoint.live import LiveFigures
from spirit_py.migration.control import settings
from spirit_py.migration.migration_status import MigrationShown
from spirit_py.throttle.settings import PaceSettings
from tests.kits.screens import COPY, FEED, REST

DOCS = Path(__file__).parents[2] / "docs"
SCREENS = Path(__file__).parent / "status" / "display" / "screens"


def test_the_sample_of_status_is_what_status_shows():
    """docs/control.md: of a copy, with the figures of docs/display.md."""
    given = {**FEED, **COPY, **REST, "run_eta_until": "the swap"}
    figures = {name: value for name, value in given.items() if _live(name)}
    shown = MigrationShown(
        checkpoint="shop._orders_chkpnt",
        statement="ALTER TABLE `shop`.`orders` MODIFY COLUMN `id` bigint unsigned",
        tables=("shop.orders",),
        worked_on_by=77,
        live_age=0.6,
        again="resume",
        live=LiveFigures(
            **figures,
            table="shop.orders",
            elapsed=184.0,
            phase_elapsed=27.4,
            host="admin1",
            pid=4711,
            run="",
            program="",
            phase="copy",
            settings=dict(sorted(settings.shown(PaceSettings(threads=4, max_lag=10.0)).items())),
        ),
    )
    sample = "\n".join(shown.lines())
    assert textwrap.indent(sample, "    ") in (DOCS / "control.md").read_text(), sample


def _live(name: str) -> bool:
    return name in LiveFigures.__dataclass_fields__


def test_the_sample_of_the_display_is_its_screen():
    """docs/display.md: the recorded screen of a copy, 80 columns wide."""
    screen = (SCREENS / "copy-80.txt").read_text().rstrip("\n")
    assert f"```\n{screen}\n```" in (DOCS / "display.md").read_text()

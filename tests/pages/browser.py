"""Pages of real runs in a browser: no error, no request, every plot there (`make ci-pages`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.kits.browser import browser
from tests.kits.command import run
from tests.kits.held_command import fill

SIZES = {"desktop": (1280, 900), "telephone": (390, 844)}
#: How many plots there are; whether each has a line, is as wide as it should be, and in the window.
PLOTS = "document.querySelectorAll('.plot-figure svg').length"
DRAWN = (
    "[...document.querySelectorAll('.plot-figure svg')].every(one => {"
    " const box = one.getBoundingClientRect();"
    " return one.querySelector('.series path') !== null && box.width > 250 && box.height > 80"
    " && box.left >= 0 && box.right <= window.innerWidth; })"
)
LINES = (
    "[...document.querySelectorAll('.series path')].every(one =>"
    " getComputedStyle(one).stroke !== 'none' && one.getTotalLength() > 0)"
)
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"
#: The colour of the page, as light as it is from 0 to 255.
LIGHT = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
SMALLEST = (
    "Math.min(...[...document.querySelectorAll('.plot-figure svg text')].map(one =>"
    " one.getBoundingClientRect().height))"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """Return a browser."""
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def keep(page, name):
    """Copy a page to the folder of the variable SPIRIT_PY_PAGES, where that is set."""
    if folder := os.environ.get("SPIRIT_PY_PAGES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(page, Path(folder) / f"{name}.html")


def require_good(chromium, page, *, plots, tmp_path):
    """Open a page in both sizes, light and dark."""
    for name, size in SIZES.items():
        for dark in (False, True):
            picture = tmp_path / f"{name}-{'dark' if dark else 'light'}.png"
            expressions = (PLOTS, DRAWN, LINES, OVERFLOW, LIGHT)
            opened = chromium.open(page, *expressions, size=size, dark=dark, picture=picture)
            assert opened.complaints == []
            assert opened.requests == []
            count, drawn, lines, overflow, light = opened.values
            assert count >= plots
            assert drawn
            assert lines
            assert overflow <= 0, f"{name}: the page is wider than the window"
            assert (light < 128) is dark
            assert picture.stat().st_size > 10_000


def test_the_page_of_a_migration_is_whole_in_a_browser(db, chromium, tmp_path):
    """A copy of some rows, slowed down, so that there is something to draw."""
    page = tmp_path / "run.html"
    done = run(
        fill(db, 60_000), "migrate", "--alter", "MODIFY a BIGINT, ADD z INT NOT NULL DEFAULT 5",
        "--no-shortcut", "--nice", "20", "--report-html", str(page),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    keep(page, "migration")
    require_good(chromium, page, plots=4, tmp_path=tmp_path)


def test_texts_of_plots_can_be_read_on_a_telephone(db, chromium, tmp_path):
    """At least 9 pixels high, as they are drawn."""
    page = tmp_path / "run.html"
    done = run(
        fill(db, 60_000), "migrate", "--alter", "MODIFY a BIGINT", "--no-shortcut",
        "--nice", "20", "--report-html", str(page),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (smallest,) = chromium.open(page, SMALLEST, size=SIZES["telephone"]).values
    assert smallest >= 9


def test_the_page_of_a_refusal_is_whole_in_a_browser(db, chromium, tmp_path):
    """It has no plots."""
    page = tmp_path / "run.html"
    assert run(db, "migrate", "--alter", "ADD x INT", "--report-html", str(page)).returncode == 2
    keep(page, "refusal")
    require_good(chromium, page, plots=0, tmp_path=tmp_path)


def test_a_page_that_asks_the_network_or_fails_is_seen(chromium, tmp_path):
    """The browser of these tests reports both."""
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://127.0.0.1:9/x.png'><script>nothing.here()</script>")
    opened = chromium.open(page, "1", size=SIZES["desktop"])
    assert opened.requests == ["http://127.0.0.1:9/x.png"]
    assert any("nothing is not defined" in one for one in opened.complaints)

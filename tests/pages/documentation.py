"""Every page of the documentation's site in a browser (`make ci-pages`): nothing sticks out."""

from __future__ import annotations

import subprocess

import pytest

from tests.kits.browser import browser

SIZES = {"desktop": (1280, 900), "telephone": (390, 844)}
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: What of the text lies right of the window and is in nothing that can be scrolled sideways.
OUTSIDE = """(() => {
  const scrolled = one => one && one !== document.body
    && (/auto|scroll|hidden/.test(getComputedStyle(one).overflowX) || scrolled(one.parentElement));
  return [...document.querySelectorAll('.md-content *')]
    .filter(one => one.getClientRects().length > 0)
    .filter(one => one.getBoundingClientRect().right > window.innerWidth + 1)
    .filter(one => !scrolled(one))
    .map(one => one.tagName + ' ' + one.textContent.trim().slice(0, 40)).slice(0, 3); })()"""
BROKEN = (
    "[...document.images].filter(one => !one.complete || one.naturalWidth === 0)"
    ".map(one => one.getAttribute('src'))"
)
DRAWINGS = (
    "[...document.querySelectorAll('.drawing svg')]"
    ".filter(one => one.getBoundingClientRect().height < 40).length"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(["ci/docs", "--into", str(folder)], check=True)
    return folder


def test_every_page_of_the_site_fits_its_window(site, tmp_path):
    """Each page at two widths: no overflow, no missing picture, no complaint, no other host."""
    found = []
    with browser(tmp_path) as chromium:
        for path in sorted(site.rglob("*.html")):
            for name, size in SIZES.items():
                opened = chromium.open(path, WIDER, OUTSIDE, BROKEN, DRAWINGS, size=size)
                wider, outside, broken, flat = opened.values
                outer = [one for one in opened.requests if one.startswith("http")]
                faults = {
                    "wider than the window by": max(0, wider),
                    "outside of it": outside,
                    "pictures": broken,
                    "drawings": flat,
                    "complaints": opened.complaints,
                    "requests": outer,
                }
                found += [
                    f"{path.relative_to(site)}, {name}: {what} {fault}"
                    for what, fault in faults.items()
                    if fault
                ]
    assert found == []

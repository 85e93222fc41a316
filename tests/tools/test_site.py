"""The documentation as a site: everything that is wrong with it ends its build."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pytest
from mkdocs.config import load_config
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import get_files

from pages import __main__ as site
from pages import axis, boxes, hooks, links, options, sequence
from pages.svg import DrawingError

ROOT = Path(__file__).parent.parent.parent
#: What operators search for when something is wrong, and the page that must have it in a heading.
SEARCHED = {
    **dict.fromkeys(("stuck", "hangs", "slow", "cancel", "abort", "kill"), "trouble.html"),
    **dict.fromkeys(("resume", "disk is full", "rollback", "undo", "password"), "trouble.html"),
    "cron": "commands/migrate.html",
    **dict.fromkeys(("grants", "permission"), "requirements.html"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the site once."""
    folder = tmp_path_factory.mktemp("site")
    return folder, *site.built(folder)


def test_the_site_builds_without_a_warning_and_without_a_broken_link(built):
    """Every page is in the navigation (mkdocs.yml), every link and anchor leads somewhere."""
    _, pages, faults = built
    assert faults == []
    assert pages == len(list((ROOT / "docs").rglob("*.md")))


def test_every_option_of_every_command_is_on_its_page(built):
    """The pages are made from the commands, not copied by hand."""
    folder = built[0]
    for name, command in options.COMMANDS.items():
        page = (folder / "commands" / f"{name}.html").read_text()
        shown = [
            one.opts[-1]
            for one in command.params
            if isinstance(one, click.Option) and not one.hidden
        ]
        assert [option for option in shown if option not in page] == []


def test_a_bar_in_the_code_of_a_table_is_a_bar(built):
    """It is written with a backslash, without which other readers of Markdown end the cell."""
    assert "never|idle|all" in (built[0] / "operations.html").read_text()


def test_the_search_works_without_a_server_and_without_another_host(built):
    """What the browser needs instead of a worker is in the site itself."""
    folder = built[0]
    assert (folder / "search" / "search_index.js").exists()
    assert (folder / "javascripts" / "iframe-worker.js").exists()
    assert "fonts.g" not in (folder / "index.html").read_text()


@pytest.mark.smoke
def test_the_search_prefers_parts_of_the_navigation():
    """A part that has got another title is preferred no more, and nothing else would tell."""
    assert set(hooks._BOOST) <= _titles(load_config(str(ROOT / "mkdocs.yml")).nav)


def _titles(entry):
    """Return the titles of the parts of a navigation that have pages of their own."""
    if isinstance(entry, dict):
        parts = {title: one for title, one in entry.items() if isinstance(one, list)}
        return set(parts).union(*map(_titles, parts.values()))
    return set().union(*map(_titles, entry)) if isinstance(entry, list) else set()


@pytest.mark.parametrize("word", SEARCHED)
def test_what_operators_search_for_is_in_a_heading(built, word):
    """The search weighs a heading a thousand times as much as a text."""
    docs = json.loads((built[0] / "search" / "search_index.json").read_text())["docs"]
    headed = {one["location"].partition("#")[0] for one in docs if word in one["title"].lower()}
    assert SEARCHED[word] in headed


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="#gone">x</a>', "#gone has no such anchor"),
        ('<a href="b.html#gone">x</a>', "b.html#gone has no such anchor"),
        ('<img src="gone.svg">', "gone.svg leads nowhere"),
        ('<script src="https://cdn.example/x.js">', "loads https://cdn.example/x.js from another"),
        ('<a href="b.html#here">x</a><a href="https://example.org">y</a>', ""),
    ],
)
def test_a_built_page_with_a_broken_link_is_found(tmp_path, html, fault):
    """Pages, anchors, images, and whatever a page would load from elsewhere."""
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<h2 id="here">x</h2>')
    found = "".join(links.faults(tmp_path))
    assert fault in found
    assert bool(found) == bool(fault)


def test_a_page_outside_the_navigation_ends_the_build(tmp_path, monkeypatch):
    """A page that nobody can find is no documentation."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs" / "stray.md").write_text(
        "# Stray\n\n[nowhere](gone.md) [none](index.md#gone)\n"
    )
    load = load_config
    monkeypatch.setattr(
        site,
        "load_config",
        lambda *named, **set_: load(*named, docs_dir=str(tmp_path / "docs"), **set_),
    )
    _, faults = site.built(tmp_path / "site")
    said = "\n".join(faults)
    assert "stray.md" in said
    assert "gone.md" in said
    assert "#gone" in said


@pytest.mark.smoke
def test_a_command_without_a_page_ends_the_build(monkeypatch):
    """A new command gets a page."""
    monkeypatch.setitem(options.COMMANDS, "vanish", click.Command("vanish"))
    config = load_config(str(ROOT / "mkdocs.yml"))
    with pytest.raises(PluginError, match="vanish"):
        hooks.on_files(get_files(config), config)


@pytest.mark.smoke
def test_drawings_are_made_from_their_text():
    """Three kinds: steps between parties, boxes on a grid, the key of a table."""
    swap = "app: Application\ndb: MySQL\napp -> db: UPDATE\napp waits\ndb: a note\napp goes on"
    assert "UPDATE" in sequence.drawn(swap)
    assert "Copier" in boxes.drawn("columns: 2 x 200\na 0,0: Copier\nb 1,0: Tasks\na -> b: chunks")
    assert "copied" in axis.drawn("bar Lane: done 3 copied | open 2 not yet\nmark 2: applied")


@pytest.mark.parametrize(
    ("draw", "source"),
    [
        (sequence.drawn, "app: A\nnobody -> app: x"),
        (sequence.drawn, "app: A\napp waits"),
        (sequence.drawn, "app: A\nwhat is this"),
        (boxes.drawn, "columns: 1 x 200\na 0,0: A\na -> b"),
        (boxes.drawn, "columns: 1 x 120\na 0,0: unbreakable_name_without_room"),
        (axis.drawn, "bar Lane: done three copied"),
    ],
)
def test_a_drawing_that_cannot_be_read_ends_the_build(draw, source):
    """Unknown words, and texts without room, are errors and not smaller letters."""
    with pytest.raises(DrawingError):
        draw(source)

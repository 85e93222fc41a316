"""Manual pages are made from the commands, and man shows them without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from hatch_build import ManualPages
from manual_pages import manual_pages
from spirit_py import __version__
from spirit_py.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = manual_pages(main, __version__)


def shown(page: str, folder) -> str:
    """Return a page as ``man`` shows it; any warning of groff fails the test."""
    assert shutil.which("man"), "man is missing: apt-get install man-db"
    file = folder / "page.1"
    file.write_text(page)
    done = subprocess.run(
        ["man", "--warnings=all", "-l", str(file)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
    )
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def test_the_pages_of_a_wheel_are_not_made_in_the_clone():
    """What root has built there, another account could not write over."""
    nothing: Any = None
    hook = ManualPages(str(ROOT), {}, nothing, nothing, "", "wheel")
    data: dict[str, Any] = {"shared_data": {}}
    hook.initialize("standard", data)
    assert {Path(one).name: Path(one).read_text() for one in data["shared_data"]} == PAGES
    assert not any(ROOT in Path(one).parents for one in data["shared_data"])
    hook.finalize("standard", data, "")
    assert not any(Path(one).exists() for one in data["shared_data"])


def test_there_is_a_page_for_the_program_and_for_each_command():
    """As ``git`` has it: spirit-py.1, spirit-py-migrate.1."""
    assert set(PAGES) == {"spirit-py.1", *(f"spirit-py-{name}.1" for name in main.commands)}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_man_shows_a_page_without_a_warning(name, tmp_path):
    """With the parts that a page of a command has."""
    text = shown(PAGES[name], tmp_path)
    for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert re.search(rf"^{part}$", text, re.MULTILINE), part
    assert "\\" not in text.replace("\\\n", "\n")


def test_the_page_of_migrate_has_every_option_the_example_and_the_exit_codes(tmp_path):
    """Nothing that ``--help`` has is missing."""
    text = shown(PAGES["spirit-py-migrate.1"], tmp_path)
    for parameter in main.commands["migrate"].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert max(parameter.opts, key=len) in text
    assert "-h, --help" in text
    assert "To begin" in text
    assert '--alter "ADD COLUMN note VARCHAR(200)"' in text
    assert re.search(r"^EXIT CODES$", text, re.MULTILINE)
    assert "failed cleanly" in text


@pytest.mark.parametrize("broken", [".TH X", "'br", "a\\fBb"])
def test_text_is_no_request_of_the_formatter(broken):
    """A help text that begins with a dot is shown, not carried out."""
    command = click.Command("x", help=broken, params=[click.Option(["--x"], help=broken)])
    page = manual_pages(click.Group("g", help="G.", commands={"x": command}), "1")["spirit-py-x.1"]
    assert not [
        line for line in page.splitlines() if re.match(r"\.TH X$|'", line) or r"a\fB" in line
    ]

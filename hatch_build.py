"""Write the manual pages when a wheel is built; the build needs click for it, and no more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MADE = "build/man"


class ManualPages(BuildHookInterface[Any]):
    """Makes ``share/man/man1`` of the wheel out of the commands."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and add them to what the wheel installs."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from manual_pages import manual_pages
            from spirit_py import __version__
            from spirit_py.cli import main
        finally:
            sys.path.remove(self.root)
        folder = Path(self.root, _MADE)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in manual_pages(main, __version__).items():
            (folder / name).write_text(text, encoding="utf-8")
            build_data["shared_data"][f"{_MADE}/{name}"] = f"share/man/man1/{name}"

"""Write the manual pages when a wheel is built; the build needs click for it, and no more."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
        # Not in the clone: another account may build there, too.
        self._made = TemporaryDirectory(prefix="spirit-py-man-")
        for name, text in manual_pages(main, __version__).items():
            made = Path(self._made.name, name)
            made.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(made)] = f"share/man/man1/{name}"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Drop the pages, which the wheel has by now."""
        if version != "editable":
            self._made.cleanup()

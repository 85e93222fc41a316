"""Build the site in build/site, and check every page of it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path

# Read by the theme when it is imported: a notice about its successor.
os.environ["NO_MKDOCS_2_WARNING"] = "1"

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from pages.links import faults

ROOT = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Build; return 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", action="store_true", help="make docs/captures anew first")
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    if asked.captures:
        from pages.captures import capture

        capture(ROOT / "docs" / "captures")
    print("docs: building the pages (half a minute)", file=sys.stderr)
    pages, found = built(asked.into)
    for fault in found:
        print(f"docs: {fault}", file=sys.stderr)
    seconds = time.monotonic() - began
    done = f"docs: {pages} pages in {asked.into}, {len(found)} faults, {seconds:.0f} s"
    print(done, file=sys.stderr)
    return 1 if found else 0


def built(folder: Path) -> tuple[int, list[str]]:
    """Build the site into a folder; return the number of pages, and everything wrong with it."""
    logging.basicConfig(level=logging.WARNING, format="docs: %(levelname)s %(message)s")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    warnings = _Warnings()
    logging.getLogger("mkdocs").addHandler(warnings)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    except Abort as stopped:
        return 0, warnings.said or [str(stopped)]
    finally:
        config.plugins.on_shutdown()
        logging.getLogger("mkdocs").removeHandler(warnings)
    return len(list(folder.rglob("*.html"))), warnings.said + faults(folder)


class _Warnings(logging.Handler):
    """Keeps what mkdocs warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.said.append(record.getMessage())


if __name__ == "__main__":
    sys.exit(main())

"""Reads the breakages, and plays one of them in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("breakages.toml")
_COPIED = ("spirit_py", "tests", "ci", "docs", "examples", "pyproject.toml", "README.md")
#: Exit code of pytest when tests ran and some failed; others mean that they could not be played.
TESTS_FAILED = 1
_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Breakage:
    """One text of the package, what it is replaced by, and tests of which some must fail.

    Attributes:
        row: the first cell of the row of docs/rules.md that it breaks.
        file: of ``spirit_py/``.
        old: stands in the file exactly once.
        tests: what pytest is asked for, under ``tests/``.
    """

    row: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The row's rule, file and first words, as a test's name."""
        return f"{self.row} [{self.file}]"

    def broken(self, text: str) -> str:
        """Return the file's text, broken; ValueError unless it has the old one once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} has this text {found} times:\n{self.old}")
        return text.replace(self.old, self.new)


def breakages() -> list[Breakage]:
    """Return all breakages, as listed."""
    with LIST.open("rb") as file:
        found = tomllib.load(file)["breakage"]
    return [Breakage(**{**one, "tests": tuple(one["tests"])}) for one in found]


def play(breakage: Breakage, folder: Path) -> subprocess.CompletedProcess[str]:
    """Break the rule in a copy of the repository in ``folder``, and run the tests there."""
    for name in _COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, copy_function=os.link, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    file = folder / "spirit_py" / breakage.file
    text = breakage.broken(file.read_text())
    compile(text, str(file), "exec")
    # A link to the repository's own file: it must not be written through.
    file.unlink()
    file.write_text(text)
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    cache = os.environ.get("SPIRIT_PY_CACHE") or str(REPOSITORY / ".cache")
    environ |= {"PYTHONPATH": str(folder), "SPIRIT_PY_CACHE": cache, "SPIRIT_PY_GENTLE": "all"}
    environ.pop("SPIRIT_PY_LANE", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *(f"tests/{test}" for test in breakage.tests)],
        cwd=folder,
        env=environ,
        text=True,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )

"""Reads the breakages, and plays one of them in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("breakages.toml")
_COPIED = ("spirit_py", "tests", "ci", "docs", "examples", "pyproject.toml", "README.md")
#: Exit code of pytest when tests ran and some failed; others mean that they could not be played.
_TESTS_FAILED = 1


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


def asked_for(every: Sequence[Breakage]) -> dict[str, list[str]]:
    """Return what the breakages ask pytest for, each with the rows that it is asked for."""
    asked = {test for one in every for test in one.tests}
    found: dict[str, set[str]] = defaultdict(set)
    for one in every:
        for test in one.tests:
            file = test.partition("::")[0]
            found[file if file in asked else test].add(one.row)
    return {test: sorted(found[test]) for test in sorted(found)}


def has_found(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a test has failed, after whatever it needs could be set up."""
    failed = done.returncode == _TESTS_FAILED and "\nFAILED " in done.stdout
    return failed and "ERROR at setup of " not in done.stdout


def link_or_copy(source: str, target: str) -> None:
    """Link a file, or copy it to another file system and from another user's folder."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def play(
    tests: Sequence[str], folder: Path, breakage: Breakage | None = None, *, seconds: float = 900
) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the repository in ``folder``, with or without a rule broken there."""
    for name in _COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, copy_function=link_or_copy, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    if breakage is not None:
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
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=folder,
        env=environ,
        text=True,
        capture_output=True,
        timeout=seconds,
        check=False,
    )

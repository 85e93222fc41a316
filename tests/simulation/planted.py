"""Bugs that are planted into the program, to see that the simulation finds them.

Each takes one rule of ``docs/rules.md`` away: one text of a module is replaced when the module is
loaded, as :mod:`tests.breakages` does in a copy of the repository. A run with a planted bug has to
go wrong within the number of worlds that the documentation states.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGE: Final = Path(__file__).parents[2] / "spirit_py"


@dataclass(frozen=True, kw_only=True)
class Bug:
    """What rule it takes away, and the texts of one file that it replaces: each is there once.

    Attributes:
        seed: of a world, of the kind ``among``, that shows it; None where no test looks for it.
        seen: a part of how that world goes wrong.
    """

    name: str
    rule: str
    file: str
    edits: tuple[tuple[str, str], ...]
    seed: int | None = None
    among: str = ""
    seen: str = ""

    def broken(self, text: str) -> str:
        """Return the file's text, broken; ValueError unless it has the old texts once."""
        for old, new in self.edits:
            if (found := text.count(old)) != 1:
                raise ValueError(f"{self.file} has this text {found} times:\n{old}")
            text = text.replace(old, new)
        return text


def bugs() -> dict[str, Bug]:
    """Return all of ``planted.toml``, by name."""
    with Path(__file__).with_name("planted.toml").open("rb") as file:
        listed = tomllib.load(file)["bug"]
    for one in listed:
        one["edits"] = tuple((edit["old"], edit["new"]) for edit in one.pop("edit"))
    return {one["name"]: Bug(**one) for one in listed}


class _Planter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module of the package with its text changed."""

    def __init__(self, bug: Bug) -> None:
        self._name = "spirit_py." + bug.file.removesuffix(".py").replace("/", ".")
        self._text = bug.broken((PACKAGE / bug.file).read_text())
        self._path = str(PACKAGE / bug.file)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for that module only."""
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the changed text."""
        exec(compile(self._text, self._path, "exec"), module.__dict__)  # noqa: S102


def plant(name: str) -> None:
    """Have the program be wrong in one way, from before it is imported; nothing for no name."""
    if not name:
        return
    bug = bugs()[name]
    if any(one.startswith("spirit_py.") for one in sys.modules):
        raise AssertionError("the program is loaded already")
    sys.meta_path.insert(0, _Planter(bug))

"""Print the aims of the package's shape: what each is now, and what it is to be.

A migration is to be told once: few modules, one owner of a figure, small constructors.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "spirit_py"
MODULES = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
#: What only the owner of a migration's progress may write into.
_OWNED = re.compile(
    r"^\s*(?:self\.)?_?(?:run|process|figures|report)\.(?:\w+\.)*\w+(?:\s*:\s*[^=]+)?\s*[-+]?=(?!=)",
    re.MULTILINE,
)
_LONG, _SHORT = 380, 60
_OWN_FILES = {"run.py", "process.py", "figures.py", "report.py"}


def rows() -> Iterator[tuple[str, object, str]]:
    """Yield each aim: what it is about, its figure now, and the aim."""
    lengths = {path: len(text.splitlines()) for path, text in MODULES.items()}
    yield "modules", len(MODULES), "<= 400"
    yield "lines", sum(lengths.values()), "<= 67 677, 10 000 fewer than when it began"
    yield "assignments into run, process, figures, report from elsewhere", _written(), "0"
    yield "files with the word feed_lag", _files(r"\bfeed_lag\b"), "<= 2"
    yield "files with max_lag or max-lag", _files(r"max_lag|max-lag"), "<= 8"
    yield 'places that write " of ~"', sum(text.count('" of ~') for text in MODULES.values()), "1"
    yield f"modules of {_LONG} lines and more", sum(n >= _LONG for n in lengths.values()), "<= 3"
    yield f"modules below {_SHORT} lines with one importer", len(_lonely(lengths)), "0"
    yield "constructor arguments, at most", max(_arguments()), "10"
    yield "mentions of a real Spark in tests", _spark(), "<= 60 tests"


def _written() -> int:
    return sum(
        len(_OWNED.findall(text)) for path, text in MODULES.items() if path.name not in _OWN_FILES
    )


def _files(pattern: str) -> int:
    return sum(bool(re.search(pattern, text)) for text in MODULES.values())


def _spark() -> int:
    tests = (ROOT / "tests").rglob("test_*.py")
    pattern = re.compile(r"^(?:async )?def test_\w+\((?:[^)]*\b)?spark_engine\b", re.MULTILINE)
    return sum(len(pattern.findall(path.read_text())) for path in tests)


def _lonely(lengths: dict[Path, int]) -> list[str]:
    """Return short modules that one other module imports, but for the preflight checks."""
    graph = grimp.build_graph("spirit_py")
    importers: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            importers[imported].add(module)
    found = []
    for path, length in lengths.items():
        if path.name == "__init__.py" or path.is_relative_to(PACKAGE / "preflight" / "checks"):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if length < _SHORT and len(importers[name]) == 1:
            found.append(name)
    return found


def _arguments() -> Iterator[int]:
    """Yield how many arguments each constructor that is written out takes."""
    for text in MODULES.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                yield len(node.args.args) + len(node.args.kwonlyargs) - 1


def main() -> int:
    """Print a line for each aim."""
    print(f"{'':62}{'now':>8}  aim")
    for what, now, aim in rows():
        print(f"{what:62}{now:>8}  {aim}")
    if "--names" in sys.argv:
        print("\n".join(_lonely({path: len(text.splitlines()) for path, text in MODULES.items()})))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the import contracts of pyproject.toml cannot say about the package as a whole."""

from __future__ import annotations

import ast
import functools
import gc
import graphlib
import pkgutil
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "spirit_py").rglob("*.py"))

LINES = 600
PUBLIC_METHODS = 15
#: How the docstring of a larger class begins the sentence with its reason.
REASON = re.compile(r"\bOne (class|interface)\s+because\b")
#: So many tests may ask for a real Spark.
SPARK_TESTS = 60
#: The rules of docs/rules.md that keep data safe.
RULES = range(1, 28)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def trees():
    """Parse the modules of the package, once and only where a test asks for it.

    No search for garbage finds any in them.
    """
    gc.disable()
    parsed = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in MODULES}
    gc.freeze()
    gc.enable()
    return parsed


@functools.cache
def nodes():
    """Return the documented nodes and the constants with the path of their module, by type."""
    found: dict[type, list] = {kind: [] for kind in (*DOCUMENTED, ast.Constant)}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if type(node) in found:
                found[type(node)].append((path, node))
    return found


def classes():
    """Return each class of the package with the path of its module."""
    return nodes()[ast.ClassDef]


def texts(pattern):
    """Find the modules of the package that hold a pattern."""
    return [str(path.relative_to(ROOT)) for path in MODULES if re.search(pattern, path.read_text())]


def test_nothing_sleeps_where_a_stop_request_cannot_wake_it():
    """Waiting goes through the stop switch or a condition, never through time.sleep."""
    assert texts(r"\btime\.sleep\(|from time import sleep") == []


def test_the_driver_is_imported_in_the_mysql_package_only():
    """MySQLdb has one doorway."""
    found = texts(r"import MySQLdb|from MySQLdb")
    assert found
    assert [path for path in found if not path.startswith("spirit_py/mysql/")] == []


@functools.cache
def _named_rules():
    """Return the rules that the tests name."""
    paths = set((ROOT / "tests").rglob("test_*.py")) - {Path(__file__)}
    return {rule for path in paths for rule in re.findall(r"\bR\d+\b", path.read_text())}


@pytest.mark.parametrize("rule", RULES)
def test_every_safety_rule_is_named_by_a_test(rule):
    """Each rule of the design has a test that says whose it is."""
    assert f"R{rule}" in _named_rules(), f"no test names R{rule}"


@pytest.mark.parametrize("rule", RULES)
def test_every_safety_rule_says_what_breaks_it(rule):
    """Each rule has a row in docs/rules.md: how it was broken, and which test failed."""
    rows = (ROOT / "docs" / "rules.md").read_text().splitlines()
    found = [line for line in rows if re.match(rf"\| R{rule} ", line)]
    assert found, f"docs/rules.md has no row for R{rule}"
    assert all(cell.strip() for row in found for cell in row.strip("|").split("|")), found


def test_every_module_can_be_read_at_a_sitting():
    """No module is longer than 600 lines: think at 400, stop at 600."""
    long = {str(p.relative_to(ROOT)) for p in MODULES if len(p.read_text().splitlines()) > LINES}
    assert long == set()


def test_a_class_with_many_methods_says_why():
    """No class has more than 15 public methods, unless its docstring has the reason."""
    wide = {
        node.name
        for _, node in classes()
        if len(_public_methods(node)) > PUBLIC_METHODS
        and not REASON.search(ast.get_docstring(node) or "")
    }
    assert wide == set()


def _public_methods(node):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [one for one in node.body if isinstance(one, functions) and one.name[0] != "_"]


def test_no_text_shows_the_place_of_a_value():
    """A part of a text that names an attribute in braces is an f-string, as the part before it."""
    parts = (
        (path, node.value) for path, node in nodes()[ast.Constant] if isinstance(node.value, str)
    )
    assert [found for found in parts if re.search(r"(?<!\$)\{[a-z_]+\.[a-z_.]+\}", found[1])] == []


def test_the_name_of_a_class_is_its_alone():
    """No two classes of the package have one name; private ones are their module's affair."""
    places = defaultdict(list)
    for path, node in classes():
        if not node.name.startswith("_"):
            places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_docstring_begins_with_what_the_code_does():
    """Return, Raise, Report or another verb of programs: code does not give, tell or say."""
    said = {
        path
        for kind in DOCUMENTED
        for path, node in nodes()[kind]
        if re.match(r"\s*(Give|Tell|Say)s?\b", ast.get_docstring(node, clean=False) or "")
    }
    assert said == set()


def _exists(name):
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        owner, _, field = name.rpartition(".")
        return "." in owner and field in getattr(pkgutil.resolve_name(owner), "__annotations__", {})
    return True


def test_every_reference_of_a_docstring_leads_to_code():
    """What a docstring names by its path, such as :mod:`spirit_py.sql`, exists."""
    named = re.compile(r":(?:mod|class|func|meth|attr|data):`~?(spirit_py[\w.]*)`")
    found = {name for path in MODULES for name in named.findall(path.read_text())}
    assert found
    assert sorted(name for name in found if not _exists(name)) == []


def test_the_process_keeps_its_umask():
    """R26: it is of all threads, and a file that another one makes meanwhile would be anybody's."""
    assert not [path for path in (ROOT / "spirit_py").rglob("*.py") if "umask(" in path.read_text()]


def test_few_tests_start_spark(request):
    """Spark is for promises about Spark, and all others ask for ``engine``."""
    asking = [each.nodeid for each in request.session.items if "spark_engine" in each.fixturenames]
    assert len(asking) <= SPARK_TESTS, asking


def test_threads_are_started_in_one_place():
    """Every thread is a Background, which is named, is joined, and reports its failure."""
    found = set(texts(r"\bthreading\.Thread\(|from threading import .*\bThread\b"))
    assert found == {"spirit_py/threads.py"}


def test_no_modules_import_each_other_in_a_circle():
    """Neither at the top, nor in a function, nor for their types."""
    graph = grimp.build_graph("spirit_py")
    imports = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def test_what_calls_itself_pure_is_held_to_it():
    """The contract of purity covers the modules whose docstring says so, and no others."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in settings["contracts"] if one["name"].startswith("Pure core"))
    held = set(contract["source_modules"])
    called = {_module(path) for path, tree in trees().items() if _calls_itself_pure(tree)}
    covered = {one for one in called if any(one == at or one.startswith(f"{at}.") for at in held)}
    assert called - covered == set()
    packages = {_module(path) for path in trees() if path.endswith("__init__.py")}
    assert held - called - packages - {"spirit_py.sql"} == set()


def _module(path):
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _calls_itself_pure(tree):
    """Look for the word in brackets in the summary of the module's docstring."""
    summary = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    return re.search(r"\((?:[^()]*\W)?pure\b[^()]*\)", summary)


PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "tests").glob("*/README.md")),
]
FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|yml|sql|lock)|(?:[\w.-]+/)+|ci/[\w-]+")


@functools.cache
def _paths():
    """Return every file and folder of the tree, with ``/`` in front and behind a folder."""
    found = set()
    tops = ("spirit_py", "tests", "ci", "docs", "examples")
    for top in (*tops, "README.md", "CHANGELOG.md", "pyproject.toml"):
        for path in [ROOT / top, *(ROOT / top).rglob("*")]:
            found.add(f"/{path.relative_to(ROOT)}" + "/" * path.is_dir())
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_the_documentation_names_exists(page):
    """Files, folders and scripts in back-quotes are there; a name may leave out outer folders."""
    paths = _paths()
    named = {word for word in re.findall(r"`([^`\s]+)`", page.read_text()) if FILE.fullmatch(word)}
    missing = {word for word in named if not any(path.endswith(f"/{word}") for path in paths)}
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_documentation_leads_somewhere(page):
    """A link into the repository names a page that is there, and a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE) if anchor else []
        slugs = {
            re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings
        }
        assert not anchor or anchor in slugs, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_the_documentation_names_exists(page):
    """``make NAME`` in back-quotes is a target of the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", page.read_text()))
    assert named - targets == set()


def test_the_tree_of_the_readme_is_the_tree_of_the_package():
    """The README's architecture section lists every package and every module beside them."""
    section = (ROOT / "README.md").read_text().partition("## Architecture")[2]
    tree = section.partition("```\nspirit_py/\n")[2].partition("\nci/ ")[0]
    packages = {path.parent.name for path in (ROOT / "spirit_py").glob("*/__init__.py")}
    assert set(re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)) == packages
    modules = {path.name for path in (ROOT / "spirit_py").glob("*.py") if path.name[0] != "_"}
    assert set(re.findall(r"\w+\.py", tree)) == modules

"""Each error has a code, each code a page, and ``spirit-py explain`` shows it."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from error_index import INDEX, index
from spirit_py.checkpoint.live import Answer
from spirit_py.cli import main
from spirit_py.cli.explain import PHASES, read_page
from spirit_py.cli.outcome import EXIT_CODES, more_about
from spirit_py.codes import ErrorCode
from spirit_py.errors import FeedFailure, MigrationFailure, Refusal, SpiritError
from spirit_py.preflight.check import Severity, refusal_of, refuse
from spirit_py.preflight.registry import CHECKS, CheckScope
from spirit_py.status.report import OutcomeReport

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs/errors"
HEADINGS = ["What it means", "Typical causes", "What is left on the server", "What to do"]
SOURCES = "\n".join(
    path.read_text() for path in (ROOT / "spirit_py").rglob("*.py") if path.name != "codes.py"
)
OPTIONS = {
    name
    for command in [main, *main.commands.values()]
    for parameter in command.params
    for name in parameter.opts
} | {"--help"}
#: Those of other programs, in the commands of the pages.
FOREIGN = {
    "--prefix", "--host", "--port", "--user", "--password", "--single-transaction", "--log-bin",
    "--log-replica-updates", "--log-slave-updates", "--binlog-do-db", "--binlog-ignore-db",
    "--cleanup",
}  # fmt: skip


def classes() -> list[type[SpiritError]]:
    """Return all error classes that have a code of their own, wherever they stand."""
    for path in (ROOT / "spirit_py").rglob("*.py"):
        if re.search(r"^    error_code = ErrorCode", path.read_text(), re.MULTILINE):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found: list[type[SpiritError]] = [SpiritError]
    for kind in found:
        found += [one for one in kind.__subclasses__() if one not in found]
    return [kind for kind in found if kind.__module__.startswith("spirit_py.")]


def test_each_code_has_a_page_and_each_page_a_code():
    """Nobody is sent to a page that is not there, and no page is for nothing."""
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"index"}
    assert pages == {str(code) for code in ErrorCode}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_page_says_what_an_operator_asks(code):
    """Meaning, causes, what is left, what to do: in this order, none of them empty."""
    page = read_page(code)
    parts = re.split(r"^## (.+)$", page.text, flags=re.MULTILINE)
    assert parts[0].startswith(f"# {code}\n\n**{page.summary}.**")
    assert parts[1::2] == HEADINGS
    assert all(part.strip() for part in parts[2::2])
    assert page.phase in PHASES


@pytest.mark.parametrize("code", ErrorCode)
def test_a_page_names_only_options_that_exist(code):
    """What it says to run can be run."""
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", read_page(code).text))
    assert named <= OPTIONS | FOREIGN


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_is_one_of_an_error_or_a_check(code):
    """No code is left over from an error that is gone."""
    assert f"ErrorCode.{code.name}" in SOURCES


def test_each_class_of_errors_has_a_code_whose_page_has_its_exit_code():
    """The page says what the exit code says."""
    for kind in classes():
        assert "error_code" in vars(kind) or kind.__module__ != SpiritError.__module__, kind
        if isinstance(getattr(kind, "exit_code", None), int):
            exits = read_page(kind.error_code).exits
            assert kind.exit_code in exits or 143 in exits, kind


def made_errors() -> list[tuple[str, ErrorCode, int]]:
    """Return each place that gives an error or a finding a code, and the exit code of its class."""
    exits = {kind.__name__: kind.exit_code for kind in classes()} | {"refuse": 2, "warn": 0}
    found = []
    for path in (ROOT / "spirit_py").rglob("*.py"):
        if "ErrorCode." not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            exit_code = exits.get(getattr(node.func, "id", ""))
            given = [one.value for one in node.keywords if one.arg in {"code", "error_code"}]
            if not isinstance(exit_code, int) or not given:
                continue
            where = f"{path.name}:{node.lineno}"
            names = re.findall(r"ErrorCode\.([A-Z_]+)", ast.unparse(given[0]))
            found += [(where, ErrorCode[name], exit_code) for name in names]
    return found


def test_a_page_has_the_exit_code_of_each_class_that_is_given_its_code():
    """A program that reads ``explain --json`` branches on what may come."""
    found = made_errors()
    assert len(found) > 100
    for where, code, exit_code in found:
        assert exit_code in read_page(code).exits, (where, code, exit_code)


def test_each_check_has_a_code_whose_page_has_a_refusal_or_a_warning():
    """What preflight finds is explained, too."""
    for check in CHECKS:
        exits = set(read_page(check.code).exits)
        assert {0, 2} & exits, check.name
        # With --start-afresh it refuses after an earlier run's copy was dropped.
        assert check.scope is not CheckScope.AFTER_CREATE or exits == {0} or 1 in exits, check.name


def test_a_code_of_its_own_survives_pickling():
    """An error that comes back from an executor leads to the same page."""
    error = Refusal("no", error_code=ErrorCode.NO_USABLE_KEY)
    error.causes = (ErrorCode.REPLICA,)
    again = pickle.loads(pickle.dumps(error))
    assert (again.error_code, again.causes) == (error.error_code, error.causes)


def test_the_code_goes_to_the_report_and_to_who_asked_a_running_process():
    """Whoever reads them needs no text."""
    error = MigrationFailure("no", error_code=ErrorCode.LOCK_NOT_GRANTED)
    report = OutcomeReport()
    report.note_failure(error)
    assert report.error_code == "lock-not-granted"
    report.note_failure(ValueError("x"))
    assert report.error_code == "defect"
    assert Answer.of_error("t", error).as_error().error_code is ErrorCode.LOCK_NOT_GRANTED


def test_several_refusals_lead_to_the_page_of_each():
    """One code for the whole would lead nowhere."""
    found = [
        refuse("a", "x", code=ErrorCode.REPLICA),
        refuse("b", "y", code=ErrorCode.NO_DISK_SPACE),
    ]
    assert {one.severity for one in found} == {Severity.REFUSAL}
    error = refusal_of(found)
    assert error.error_code is ErrorCode.CHECKS_REFUSE
    assert more_about(error.explained_by) == ["more: spirit-py explain replica no-disk-space"]


def test_the_index_is_made_from_the_pages():
    """Run ci/error_index.py after a change of a page's head."""
    assert INDEX.read_text() == index()


def test_explain_shows_the_pages_of_codes():
    """In a pipe, as Markdown and without the head."""
    shown = CliRunner().invoke(main, ["explain", "replica", "NO_USABLE_KEY"])
    assert shown.exit_code == 0
    assert shown.output.startswith("# replica")
    assert "# no-usable-key" in shown.output
    assert "summary:" not in shown.output


def test_explain_gives_errors_and_exit_codes_as_data():
    """All codes, and each exit code that a page names has its meaning; the keys stay."""
    found = json.loads(CliRunner().invoke(main, ["explain", "--json"]).output)
    assert set(found) == {"errors", "exit_codes"}
    assert [error["code"] for error in found["errors"]] == list(ErrorCode)
    keys = {"code", "summary", "phase", "exit_codes", "warning", "page"}
    assert all(set(error) == keys for error in found["errors"])
    meanings = {one["exit_code"]: one["meaning"] for one in found["exit_codes"]}
    assert {code for error in found["errors"] for code in error["exit_codes"]} < set(meanings)
    for code, meaning in meanings.items():
        assert code > 100 or f"  {code:<3}  {meaning}" in EXIT_CODES
    shown = CliRunner().invoke(main, ["explain", "--json", "replica"]).output
    assert [error["code"] for error in json.loads(shown)["errors"]] == ["replica"]


def test_a_code_that_does_not_exist_is_an_error_in_json_too():
    """A program reads why."""
    shown = CliRunner().invoke(main, ["explain", "--json", "no-usable-keys"])
    assert shown.exit_code == 2
    assert json.loads(shown.stdout)["code"] == "wrong-options"


def test_explain_lists_all_codes():
    """Without a code."""
    shown = CliRunner().invoke(main, ["explain"]).output
    assert all(re.search(rf"^  {code}  ", shown, re.MULTILINE) for code in ErrorCode)


def test_a_code_that_does_not_exist_suggests_those_that_are_spelled_alike():
    """A typing error is no dead end."""
    shown = CliRunner().invoke(main, ["explain", "no-usable-keys"])
    assert shown.exit_code == 2
    assert "did you mean no-usable-key" in shown.output


def test_an_error_ends_with_its_page_here_and_on_the_team_s_site():
    """The command, and the URL where one is named."""
    wrong = ["migrate", "--database", "a", "--table", "b"]
    shown = CliRunner().invoke(main, [*wrong, "--docs-url", "https://docs.example/s/"]).output
    assert shown.endswith(
        "more: spirit-py explain wrong-options\n"
        "more: https://docs.example/s/errors/wrong-options.html\n"
    )
    assert CliRunner().invoke(main, wrong).output.endswith("explain wrong-options\n")


def test_every_command_takes_the_address_of_the_site():
    """A team sets it once, for all of them."""
    for name in sorted(set(main.commands) - {"completion"}):
        options = {parameter.name for parameter in main.commands[name].params}
        assert "docs_url" in options, name


def test_help_of_a_command_can_be_asked_for_by_a_word():
    """As git and docker have it."""
    by_word = CliRunner().invoke(main, ["help", "migrate"])
    assert by_word.output == CliRunner().invoke(main, ["migrate", "--help"]).output
    assert CliRunner().invoke(main, ["help"]).output.startswith("Usage:")


def test_a_page_says_that_the_copy_is_dropped_where_the_class_of_the_error_drops_it():
    """Whoever reads that a copy stays does not look for it in vain."""
    for kind in classes():
        if issubclass(kind, FeedFailure) and not kind.resumable:
            text = " ".join(read_page(kind.error_code).text.split())
            assert "because it can no longer be used" in text, kind

"""What is set on a machine changes no test: its files and variables are not read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spirit_py.cli import main
from spirit_py.cli.configfile import variables_of
from tests import conftest

REPOSITORY = Path(__file__).parents[2]
#: Names of none of both: for hooks, the beginning of others, one that is written by mistake, and
#: one of an option that no variable sets.
NEITHER = {
    "SPIRIT_PY_EVENT",
    "SPIRIT_PY_EVENT_TABLE",
    "SPIRIT_PY_PASSWORD_FILE",
    "SPIRIT_PY_RUN",
    "SPIRIT_PY_SEMISYNC_",
    "SPIRIT_PY_YES",
}
SHOW = "import tests.conftest, json, os; print(json.dumps(dict(os.environ)))"


@pytest.mark.smoke
def test_variables_and_files_of_the_user_are_left_out(tmp_path: Path) -> None:
    """A hook or a nice in a developer's file would be called by tests, or change what they test."""
    given = {
        "HOME": str(tmp_path),
        "SPIRIT_PY_NICE": "1",
        "SPIRIT_PY_ON_EVENT": "page-oncall",
        "SPIRIT_PY_TEST_ENGINE": "spark",
    }
    environ = {k: v for k, v in os.environ.items() if k != "PYTEST_XDIST_WORKER"} | given
    shown = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environ,
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    seen = json.loads(shown.stdout)
    assert seen["HOME"] != str(tmp_path)
    assert not Path(seen["HOME"]).exists()  # It ends with the process.
    assert not {"SPIRIT_PY_NICE", "SPIRIT_PY_ON_EVENT"} & seen.keys()
    assert seen["SPIRIT_PY_TEST_ENGINE"] == "spark"


def test_an_account_without_a_home_can_run_the_tests() -> None:
    """A container may run as a number of which no file of accounts knows."""
    nobody = "import pwd\ndef unknown(uid): raise KeyError(uid)\npwd.getpwuid = unknown"
    kept = {k: v for k, v in os.environ.items() if k not in {"HOME", "PYTEST_XDIST_WORKER"}}
    command = [sys.executable, "-c", f"{nobody}\n{SHOW}"]
    subprocess.run(command, env=kept, cwd=REPOSITORY, check=True, capture_output=True)


def test_every_variable_of_the_tests_reaches_them() -> None:
    """What ci/ and tests/ read is kept; what an option reads is not."""
    read = {
        name
        for command in (main, *main.commands.values())
        for option in command.params
        for name in variables_of(option)
    }
    named = {
        name
        for folder in ("ci", "tests")
        for file in (REPOSITORY / folder).rglob("*")
        if file.is_file() and file.suffix in {"", ".py"}
        for name in re.findall(r"\bSPIRIT_PY_[A-Z_]+", file.read_text())
    }
    own = {name for name in named if conftest.OWN_VARIABLES.fullmatch(name)}
    assert not own & read
    assert named - own - read == NEITHER


def test_a_file_of_the_whole_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands in processes of their own would read it, whatever their home is."""
    monkeypatch.setattr(conftest, "SYSTEM_FILE", tmp_path)
    with pytest.raises(pytest.UsageError, match="move it aside"):
        conftest.pytest_configure()

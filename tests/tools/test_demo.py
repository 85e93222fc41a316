"""``make demo`` and ``ci/bootstrap`` say what they do before they do it, and while it lasts."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import demo
import mysql_server
from demo import at_work
from mysql_debian import FetchError

CI = Path(__file__).resolve().parents[2] / "ci"
PIP = """#!/bin/sh
case "$*" in *requirements.lock) ;; *) exit 0 ;; esac
for n in $(seq 40); do echo "Collecting package-$n==1.0"; echo "  Downloading it"; done
echo "Building wheels for collected packages: pyspark"
echo "Installing collected packages: pyspark, click"
"""
#: Python that makes an environment whose pip only says what pip says.
PYTHON = f"""#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"
mkdir -p .venv/bin; cp pip .venv/bin/pip; ln -s {sys.executable} .venv/bin/python
"""


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with the script, 40 packages to install, and a pip that says what it says."""
    (tmp_path / "ci").mkdir()
    shutil.copy(CI / "bootstrap", tmp_path / "ci")
    (tmp_path / "requirements.lock").write_text("".join(f"p{n}==1.0 \\\n" for n in range(40)))
    (tmp_path / "pyproject.toml").touch()
    script(tmp_path / "pip", PIP)
    script(tmp_path / "python", PYTHON)
    return tmp_path


def installing(clone: Path) -> subprocess.Popen[str]:
    """Begin an installation."""
    environment = {**os.environ, "PYTHON": str(clone / "python")}
    return subprocess.Popen(
        [clone / "ci/bootstrap"], env=environment, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.smoke
def test_an_installation_tells_each_of_its_steps(clone: Path) -> None:
    """By what pip says, of which a line for each package would be too much."""
    with installing(clone) as running:
        _, said = running.communicate(timeout=60)
    assert running.returncode == 0
    assert said.splitlines() == [
        "bootstrap: making .venv",
        "bootstrap: installing the locked dependencies into .venv",
        "bootstrap: 20 of 40 packages fetched",
        "bootstrap: 40 of 40 packages fetched",
        "bootstrap: Building wheels for collected packages",
        "bootstrap: Installing collected packages",
        "bootstrap: installing spirit-py itself",
        "bootstrap: ready",
    ]


@pytest.mark.smoke
def test_a_step_that_lasts_shows_that_it_goes_on(clone: Path) -> None:
    """Here pip says nothing before it is released."""
    os.mkfifo(clone / "release")
    script(clone / "pip", PIP + "cat release\n")
    ticking = (clone / "ci/bootstrap").read_text().replace("read -r -t 10", "read -r -t 0.01")
    script(clone / "ci/bootstrap", ticking)
    with installing(clone) as running:
        assert running.stderr is not None
        assert any(re.fullmatch(r"bootstrap:   \d+ s\n", line) for line in running.stderr)
        (clone / "release").write_text("")
        assert running.stderr.read().endswith("bootstrap: ready\n")


@pytest.mark.smoke
def test_an_installation_that_waits_for_another_one_says_so(clone: Path) -> None:
    """As make test does beside make lint on a new machine, for a minute."""
    (clone / ".cache").mkdir()
    with (clone / ".cache/bootstrap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with installing(clone) as running:
            assert running.stderr is not None
            assert "waiting for its end" in running.stderr.readline()
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert running.stderr.read().endswith("bootstrap: ready\n")


@pytest.mark.smoke
def test_the_demo_says_what_it_does_before_it_installs_anything(tmp_path: Path) -> None:
    """Its first lines come before those of the installation, which may take a minute."""
    (tmp_path / "ci").mkdir()
    shutil.copy(CI / "demo", tmp_path / "ci")
    script(tmp_path / "ci/bootstrap", "#!/bin/sh\necho installed\n")
    script(tmp_path / ".venv/bin/python", "#!/bin/sh\necho begun\n")
    done = subprocess.run([tmp_path / "ci/demo"], capture_output=True, text=True, check=True)
    *said, installed, begun = done.stdout.splitlines()
    assert said[0].startswith("== demo: a throwaway MySQL, a million rows")
    assert (installed, begun) == ("installed", "begun")


@pytest.mark.smoke
def test_work_of_the_demo_that_lasts_shows_that_it_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line every few seconds, with the time since it began."""
    said = ""
    with at_work("loading", every=0.001):
        while "s\n" not in said:
            said += capsys.readouterr().out
    assert said.startswith("== loading\n==   0 s\n")


@pytest.mark.smoke
@pytest.mark.parametrize(
    "words",
    [
        ("--rows", "1000001"),
        ("--rows", "5"),
        ("--writers", "0"),
        ("--writers", "-1"),
        ("--rate", "0"),
        ("--rows", "1000", "--writers", "11"),
    ],
)
def test_a_demo_that_could_prove_nothing_is_refused(words: tuple[str, ...]) -> None:
    """More rows than are loaded would count as lost; a writer without rows fails."""
    assert demo.arguments(("--rows", "1000000")).rows == 1_000_000
    with pytest.raises(SystemExit) as refused:
        demo.arguments(words)
    assert refused.value.code == 2


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("writes", "altered", "said"),
    [
        (9, True, "demo: nothing lost, nothing changed"),
        (0, True, "demo FAILED: no write fell into the migration"),
        (9, False, "demo FAILED: the table is as before"),
    ],
)
def test_a_demo_that_has_proved_nothing_fails(
    writes: int,
    altered: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table that nobody has written and nothing has changed agrees with the journals, too."""
    asked = demo.arguments(("--seconds", "0"))
    application = mock.MagicMock(**{"acknowledged.return_value": writes})
    application.failures.return_value = []
    replaced = {
        "workload": mock.MagicMock(**{"Application.return_value": application}),
        "migrate": lambda *_: (0, {"chunks_repaired": 0}),
        "compare": lambda *_: demo.Proof(rows=100, lost=0, extra=0, changed=0),
        "altered": lambda _: altered,
        "show": lambda *_: None,
    }
    for name, new in replaced.items():
        monkeypatch.setattr(demo, name, new)
    assert demo.demonstrate(mock.MagicMock(), Path(), asked) == (0 if altered and writes else 1)
    assert capsys.readouterr().out.splitlines()[-1] == said


@pytest.mark.smoke
def test_a_demo_without_a_server_says_why_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended with a traceback, below which the reason was."""

    def refused(*_: object, **__: object) -> None:
        raise FetchError("no Debian archive")

    monkeypatch.setattr("sys.argv", ["ci/demo"])
    monkeypatch.setattr(mysql_server, "running", refused)
    assert demo.main() == 1
    assert capsys.readouterr().err == "demo: no Debian archive\n"

"""When ci/bootstrap makes .venv again, and when it returns at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "ci/bootstrap"
#: A Python that makes no environment, but shows how it is asked to, and ends with that code.
MAKES = 77
PYTHON = f"""#!/bin/sh
[ "$1 $2" = "-m venv" ] && exit {MAKES}
exec {sys.executable} "$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout for which everything is installed."""
    library = ".venv/lib/python{}.{}/site-packages/pip".format(*sys.version_info)
    for folder in ("ci", ".venv/bin", library):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    shutil.copy(SCRIPT, tmp_path / "ci")
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / ".venv/bin/pip").write_text(f"#!{tmp_path}/.venv/bin/python3\n")
    (tmp_path / ".venv/bin/pip").chmod(0o755)
    wanted = next(line for line in SCRIPT.read_text().splitlines() if line.startswith("wanted()"))
    stamp = f"python=./python; {wanted}; wanted > .venv/spirit-py.stamp"
    subprocess.run(["bash", "-c", stamp], cwd=tmp_path, check=True)
    return tmp_path


def bootstrap(checkout: Path) -> int:
    """Run the script in the checkout."""
    environ = os.environ | {"PYTHON": f"{checkout}/python"}
    return subprocess.run([checkout / "ci/bootstrap"], env=environ, check=False).returncode


@pytest.mark.smoke
def test_what_is_ready_is_left(checkout: Path) -> None:
    """Nothing has changed, so nothing is asked of Python but its version."""
    assert bootstrap(checkout) == 0


@pytest.mark.smoke
@pytest.mark.parametrize("change", ["another version", "no interpreter", "moved", "upgraded"])
def test_an_environment_of_something_else_is_made_again(checkout: Path, change: str) -> None:
    """As after PYTHON was set to another one, an upgrade of the system, or a copy of the folder."""
    python = checkout / ".venv/bin/python"
    if change == "moved":
        checkout = checkout.rename(checkout.with_name("elsewhere"))
    elif change == "upgraded":
        # The link leads to the system's new Python, which looks for packages in another folder.
        (library,) = (checkout / ".venv/lib").iterdir()
        library.rename(library.with_name("python3.9"))
    else:
        python.unlink()
        python.symlink_to("/nowhere/python")
    if change == "another version":
        python.unlink()
        python.write_text("#!/bin/sh\necho Python 3.9.0\n")
        python.chmod(0o755)
    assert bootstrap(checkout) == MAKES


def pip(checkout: Path, line: str) -> None:
    """Have pip run a line of shell."""
    (checkout / ".venv/bin/pip").write_text(f"#!/bin/sh\n# {checkout}/.venv/bin/python\n{line}\n")


@pytest.mark.smoke
def test_what_another_lock_left_half_installed_is_not_ready(checkout: Path) -> None:
    """As after an interrupted installation on a branch, and the way back from there."""
    pip(checkout, "exit 3")
    lock = checkout / "requirements.lock"
    lock.write_text("another==1.0\n")
    assert bootstrap(checkout) == 3
    lock.write_text("")
    assert bootstrap(checkout) == 3


@pytest.mark.smoke
def test_a_lock_that_comes_during_the_installation_is_installed_next(checkout: Path) -> None:
    """As by `git pull` in the middle of it."""
    pip(checkout, "echo x >>calls; echo another==1.0 >requirements.lock")
    (checkout / "pyproject.toml").write_text("# new\n")
    assert bootstrap(checkout) == 0
    calls = (checkout / "calls").read_text()
    assert bootstrap(checkout) == 0
    assert len((checkout / "calls").read_text()) == 2 * len(calls)

"""The scripts of ``spirit-py completion`` complete in the shell itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spirit_py.cli import main


def completed(words) -> set[str]:
    """Return what bash offers for the last word."""
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    quoted = " ".join(f"'{word}'" for word in words)
    asked = f"""{script}
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_spirit_py_completion spirit-py '{words[-1]}' '{words[-2]}'
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["mig"], {"migrate"}),
        (["migrate", "--kill"], {"--kill-blockers", "--kill-after"}),
        (["migrate", "--kill-blockers", ""], {"never", "idle", "all"}),
        (["ctl", "pa"], {"pause"}),
        (["explain", "no-us"], {"no-usable-key"}),
    ],
)
def test_bash_completes_commands_options_values_and_codes(words, offered):
    """In a bash that has read the script."""
    assert shutil.which("bash")
    assert completed(["spirit-py", *words]) == offered

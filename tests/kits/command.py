"""Commands of the program as processes: how they are started, and one that is run to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

MINUTE = 60.0


def command_line(
    db: Any, command: str, *more: str, through: Any = None, hooks: str = ""
) -> list[str]:
    """Return the words of a command on a test's schema.

    Args:
        through: a proxy through which the server is reached.
        hooks: of :mod:`tests.faults.hooks`, divided by commas.
    """
    reached = through or db.server
    program = ("tests.faults.hooks", hooks) if hooks else ("spirit_py",)
    return [
        *(sys.executable, "-m", *program, command),
        *("--host", f"{reached.host}:{reached.port}", "--user", db.server.user),
        *("--database", db.name, *more),
    ]


def environment(db: Any, **more: str) -> dict[str, str]:
    """Return this process's environment with the server's password, and more variables."""
    return {**os.environ, "SPIRIT_PY_PASSWORD": db.server.password, **more}


def run(db: Any, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the table ``t`` to its end."""
    return subprocess.run(
        command_line(db, command, "--table", "t", *more),
        env=environment(db),
        capture_output=True,
        text=True,
        timeout=4 * MINUTE,
        check=False,
    )

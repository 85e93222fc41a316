"""Commands of the program: how they are started as processes, and run to their end in this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from typing import Any
from unittest import mock

from click.testing import CliRunner

from spirit_py.cli import main
from spirit_py.spark import choice

MINUTE = 60.0
_CODES = re.compile(r"^more: spirit-py explain (.+)$", re.MULTILINE)


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
        *(more if "--database" in more else ("--database", db.name, *more)),
    ]


def environment(db: Any, **more: str) -> dict[str, str]:
    """Return this process's environment with the server's password, and more variables."""
    return {**os.environ, "SPIRIT_PY_PASSWORD": db.server.password, **more}


def _about(more: tuple[str, ...]) -> tuple[str, ...]:
    """Name the table ``t`` where no other one is named: a command takes one."""
    return more if "--table" in more else ("--table", "t", *more)


def run(db: Any, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the table ``t`` to its end, in a process of its own."""
    return subprocess.run(
        command_line(db, command, *_about(more)),
        env=environment(db),
        capture_output=True,
        text=True,
        timeout=4 * MINUTE,
        check=False,
    )


def run_here(db: Any, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the table ``t`` to its end, in this process, with nothing beside it.

    It says and returns what it would as a process of its own, whose start takes a second of CPU.
    Spark is not started, however slow the machine is.
    """
    words = command_line(db, command, *_about(more))[3:]
    return run_words_here(words, SPIRIT_PY_PASSWORD=db.server.password)


def run_words_here(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the words of a command in this process, with more variables in its environment."""
    runner = CliRunner(env=variables, catch_exceptions=False)
    with mock.patch.object(choice, "_START_ANYWAY_SECONDS", 3600.0):
        ended = runner.invoke(main, words)
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)


def await_line(
    process: subprocess.Popen[str], *texts: str, seconds: float = 2 * MINUTE
) -> list[str]:
    """Read what a process writes to its stderr until a line has all these texts; return the lines.

    A process that has not written such a line in time is killed, so that the reading ends.

    Raises:
        AssertionError: with all that it wrote, if no line has them.
    """
    assert process.stderr is not None
    read: list[str] = []
    late = threading.Timer(seconds, process.kill)
    late.start()
    try:
        for line in process.stderr:
            read.append(line)
            if all(text in line for text in texts):
                return read
    finally:
        late.cancel()
    raise AssertionError(f"no line with {texts} in {seconds:.0f} s, but: {''.join(read)}")


def codes_told(stderr: str) -> set[str]:
    """Return the codes of the errors that a command has told."""
    return {code for line in _CODES.findall(stderr) for code in line.split()}

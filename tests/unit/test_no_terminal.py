"""Without a terminal nothing asks: a command ends at once, and says what to do instead."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

WRONG = ["--host", "127.0.0.1:1", "--user", "u", "--database", "a"]
COMMANDS = {
    "migrate": [*WRONG, "--table", "t", "--alter", "ADD x INT"],
    "watch": WRONG,
    "status": WRONG[:4],
}


def run(command: str, *, stdin, stderr=subprocess.PIPE, more=()) -> tuple[int, str]:
    """Run a command in a session of its own, without a controlling terminal; it must end."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPIRIT_PY_", "MYSQL_"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "spirit_py", command, *COMMANDS[command], *more],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environ,
        start_new_session=True,
    )
    try:
        # An open pipe in which nothing comes: whoever read from it would wait.
        code = process.wait(60)
    finally:
        process.kill()
    said = process.stderr.read() if process.stderr else ""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
    return code, said


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("stdin", [subprocess.PIPE, subprocess.DEVNULL], ids=["pipe", "null"])
def test_a_password_is_not_asked_for_without_a_terminal(command, stdin):
    """Neither from a pipe that stays open nor from /dev/null."""
    code, said = run(command, stdin=stdin, more=["--password"])
    assert code == 2
    assert "there is no terminal" in said
    assert "SPIRIT_PY_PASSWORD" in said


def test_a_terminal_on_one_side_only_is_none():
    """The question would be read by nobody who can answer it."""
    ours, theirs = pty.openpty()
    try:
        code, said = run("migrate", stdin=theirs, more=["--password"])
    finally:
        os.close(ours)
        os.close(theirs)
    assert code == 2
    assert "there is no terminal" in said


@pytest.mark.parametrize("stdin", [subprocess.PIPE, subprocess.DEVNULL], ids=["pipe", "null"])
def test_errors_have_no_colours_in_a_pipe(stdin):
    """Nothing but text, and the page about it."""
    code, said = run("migrate", stdin=stdin)
    assert code == 2
    assert "\x1b" not in said
    assert "[preflight] ." not in said
    assert said.endswith("more: spirit-py explain cannot-connect\n")

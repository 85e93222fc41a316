"""Standard output that takes no more ends a command in order, and is no defect of the program."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import click
import pytest

from spirit_py.cli.outcome import OutputFailed, show_document


def run(words: list[str], stdout: int) -> tuple[int, str]:
    """Run a command that needs no server; return its exit code and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "spirit_py", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["explain"], ["help", "plan"]], ids=" ".join)
def test_a_full_disk_is_named(words):
    """With the cause and the page about it, whoever writes: a command, or the help."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        code, said = run(words, full)
    finally:
        os.close(full)
    assert code == 1
    assert said.startswith("error: cannot write to standard output: No space left on device\n")
    assert said.endswith("more: spirit-py explain output-failed\n")


def test_nobody_is_told_of_a_reader_that_has_gone():
    """As other programs do it in ``| head``."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(["explain"], writing) == (1, "")
    finally:
        os.close(writing)


def test_a_document_that_is_not_whole_is_an_error(monkeypatch):
    """An exit code of 0 would say that there is one."""

    def echo(_text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(click, "echo", echo)
    with pytest.raises(OutputFailed, match="No space left"):
        show_document({"tables": []})

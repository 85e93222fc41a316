"""Standard output that takes no more ends a command in order, and is no defect of the program."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys

import click
import pytest

from spirit_py.cli.outcome import OutputFailed, confirmed, show_document, tell_out
from spirit_py.status.report import MigrationReport
from tests.kits.reporter import RecordingReporter


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


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_name_that_the_output_has_no_letters_for_is_written_in_escapes(encoding):
    """A terminal's encoding, and half of a surrogate pair, change no outcome (R16)."""
    text = "テーブル \udcff"
    script = (
        "from spirit_py.cli import outcome\n"
        "with outcome.ErrorsShown(verbose=False):\n"
        f"    outcome.show_lines([{text!r}])\n"
        f"    outcome.show_document([{text!r}])\n"
        "    outcome.leave_with(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    line, _, document = done.stdout.decode(encoding).partition("\n")
    assert line.encode("unicode_escape").replace(b"\\\\", b"\\").endswith(b"\\u30eb \\udcff")
    assert json.loads(document) == [text]


def test_a_question_shows_what_could_control_the_terminal(monkeypatch):
    """Names of tables are in it, and letters that turn the direction of text, too (R26)."""
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text))
    confirmed("Drop a\x1b[2J\u202eb?")
    assert asked == ["Drop a\\x1b[2J\\u202eb?"]


@pytest.mark.parametrize("gone", [True, False], ids=["reader gone", "no room"])
def test_a_line_about_work_that_finds_no_room_does_not_end_the_work(gone, capfd, monkeypatch):
    """``cleanup`` and ``ctl`` go on; what could not be written is said on standard error (R16)."""

    def echo(text, *, err=False):
        if not err:
            raise OSError(errno.EPIPE if gone else errno.ENOSPC, "no more")
        sys.stderr.write(f"{text}\n")

    monkeypatch.setattr(click, "echo", echo)
    tell_out("dropped shop._t_new \x1b[2J")
    said = capfd.readouterr().err
    assert said == (
        "" if gone else "cannot write to standard output: no more: dropped shop._t_new \\x1b[2J\n"
    )


def test_a_document_cannot_control_the_terminal(capsys):
    """JSON itself escapes few such characters; what is read of it is the same (R26)."""
    document = {"comment": "a\x1b[2J\x7f\x9b2J\u2028\u202eb", "name": "テーブル"}
    show_document(document)
    text = capsys.readouterr().out
    assert all(line.isprintable() for line in text.split("\n"))
    assert "テーブル" in text
    assert json.loads(text) == document


def test_documents_have_no_number_that_json_has_not(capsys, tmp_path):
    """`--drop-old-after never` is an infinite number of seconds, and other parsers refuse it."""

    def refuse(name):
        raise AssertionError(name)

    show_document({"seconds": [math.inf], "rate": {"least": math.nan, "most": 1.5}})
    shown = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert shown == {"seconds": [None], "rate": {"least": None, "most": 1.5}}

    path = tmp_path / "report.json"
    MigrationReport(checksum_age_seconds=math.inf).write(path, RecordingReporter())
    assert json.loads(path.read_text(), parse_constant=refuse)["checksum_age_seconds"] is None

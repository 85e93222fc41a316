"""Lines to a pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spirit_py.watch.command import Lines, OutputClosed, OutputFault, OutputStuck
from spirit_py.watch.records import Line

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_written_when_asked_or_when_many() -> None:
    """A small transaction is one write; a large one does not gather without bounds."""
    out, into = os.pipe()
    lines = Lines(into, lambda: False)
    lines.add(Line("one", "p1"))
    os.set_blocking(out, False)
    with pytest.raises(BlockingIOError):
        os.read(out, 100)
    lines.flush()
    assert os.read(out, 100) == b"one\n"
    for _ in range(65):
        lines.add(Line("x" * 1000, "p2"))
        with contextlib.suppress(BlockingIOError):
            os.read(out, 1 << 16)
    lines.flush()
    os.close(out)
    os.close(into)


def test_a_pipe_that_nobody_reads_is_noticed() -> None:
    """By writing, and without."""
    out, into = os.pipe()
    lines = Lines(into, lambda: False)
    assert not lines.closed()
    os.close(out)
    assert lines.closed()
    lines.add(Line("one", "p1"))
    with pytest.raises(OutputClosed):
        lines.flush()
    os.close(into)


def test_a_reader_that_stands_still_does_not_hold_up_the_end() -> None:
    """What is in the pipe stays there; the rest comes again from the position."""
    out, into = os.pipe()
    lines = Lines(into, lambda: True)
    with pytest.raises(OutputStuck):
        lines.add(Line("x" * 200_000, "p1"))
    os.close(out)
    os.close(into)


def test_a_full_output_is_an_error_with_a_position() -> None:
    """Nothing was written: the first line's position misses nothing. It stays an error."""
    into = os.open("/dev/full", os.O_WRONLY)
    lines = Lines(into, lambda: False)
    for position in ("p1", "p2"):
        lines.add(Line("one", position))
    with pytest.raises(OutputFault, match="standard output: No space left on device") as caught:
        lines.flush()
    assert (caught.value.exit_code, caught.value.details) == (1, ("position: p1",))
    assert "--from 'p1'" in caught.value.hint
    lines.add(Line("end", "p3"))
    with pytest.raises(OutputFault, match="No space"):
        lines.flush()
    os.close(into)


@pytest.mark.parametrize("room", [0, 7, 8, 9, 12, 15, 16, 20])
def test_the_position_is_that_of_the_last_whole_line(tmp_path: Path, room: int) -> None:
    """A file may take a part of a line; that line does not count."""
    path = tmp_path / "lines"
    run = subprocess.run(
        [sys.executable, "-c", _FILL, str(path), str(room)], capture_output=True, check=True
    )
    # Whole lines of eight bytes each; the first one's position counts before it, too.
    whole = room // 8
    assert path.read_bytes() == (b"xxxxxxx\n" * 3)[:room]
    assert run.stdout.decode() == f"p{max(1, whole)} File too large"


_FILL = """
import os, resource, sys
from spirit_py.watch.records import Line
from spirit_py.watch.command import Lines, OutputFault
path, room = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
lines = Lines(os.open(path, os.O_WRONLY | os.O_CREAT), lambda: False)
for number in (1, 2, 3):
    lines.add(Line("x" * 7, f"p{number}"))
try:
    lines.flush()
except OutputFault as fault:
    print(lines.position, fault.message.rpartition(": ")[2], end="")
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_an_output_that_is_open_for_reading_is_an_error(kind: str) -> None:
    """A pipe's reading end would otherwise be waited for without end."""
    pipe = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    lines = Lines(pipe[0] if kind == "pipe" else null, lambda: False)
    lines.add(Line("one", "p1"))
    with pytest.raises(OutputFault, match="Bad file descriptor"):
        lines.flush()
    for descriptor in (*pipe, null):
        os.close(descriptor)


def test_the_position_follows_what_was_written_of_a_large_transaction() -> None:
    """A reader that stands still has the lines that fitted into the pipe, and their position."""
    out, into = os.pipe()
    lines = Lines(into, lambda: True)
    for number in range(6):
        lines.add(Line("x" * 9_999, f"p{number}"))
    with pytest.raises(OutputStuck):
        lines.add(Line("x" * 99_999, "p6"))
    os.set_blocking(out, False)
    taken = os.read(out, 1 << 20).count(b"\n")
    assert taken
    assert lines.position == f"p{taken - 1}"
    os.close(out)
    os.close(into)

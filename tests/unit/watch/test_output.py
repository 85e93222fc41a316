"""Lines to a pipe."""

from __future__ import annotations

import contextlib
import os

import pytest

from spirit_py.watch.output import Lines, OutputClosed, OutputStuck


def test_lines_are_written_when_asked_or_when_many() -> None:
    """A small transaction is one write; a large one does not gather without bounds."""
    out, into = os.pipe()
    lines = Lines(into, lambda: False)
    lines.add("one")
    os.set_blocking(out, False)
    with pytest.raises(BlockingIOError):
        os.read(out, 100)
    lines.flush()
    assert os.read(out, 100) == b"one\n"
    for _ in range(65):
        lines.add("x" * 1000)
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
    lines.add("one")
    with pytest.raises(OutputClosed):
        lines.flush()
    os.close(into)


def test_a_reader_that_stands_still_does_not_hold_up_the_end() -> None:
    """What is in the pipe stays there; the rest comes again from the position."""
    out, into = os.pipe()
    lines = Lines(into, lambda: True)
    with pytest.raises(OutputStuck):
        lines.add("x" * 200_000)
    os.close(out)
    os.close(into)

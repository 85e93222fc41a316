"""Lines on a stream that is not read, or has no room: nobody waits for it."""

from __future__ import annotations

import errno
import fcntl
import io
import os

import pytest

from spirit_py.status import plain as module
from spirit_py.status.plain import LineWriter
from tests.kits.waiting import until


@pytest.fixture
def pipe():
    """A small pipe: the reading end, and the writing one as a text stream."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 8192)
    with os.fdopen(reading, "rb", buffering=0) as out, os.fdopen(writing, "w") as into:
        yield out, into


def lost(lines):
    """Return the line that says how many lines are missing."""
    return f"lost {lines}"


def test_a_reader_that_has_stopped_keeps_nobody_waiting_and_misses_nothing_later(pipe):
    """What it did not read waits, and comes in order, long lines whole."""
    out, into = pipe
    writer = LineWriter(into)
    lines = [f"{number} {'x' * (number % 7) * 3000}" for number in range(300)]
    for line in lines:
        writer.write(line, lost=lost)
    found = b""
    while found.count(b"\n") < len(lines):
        found += out.read(1 << 16)
    assert found.decode().splitlines() == lines
    writer.drain(10)


def test_what_finds_no_room_is_counted_once_there_is_room(pipe, monkeypatch):
    """Memory stays flat, and the reader learns how many lines are missing, and where."""
    monkeypatch.setattr(module, "_MOST_BYTES", 10_000)
    out, into = pipe
    writer = LineWriter(into)
    for number in range(1000):
        writer.write(f"{number:099}", lost=lost)
    found = b""
    while b"lost" not in found:
        found += out.read(1 << 16)
    *before, said = found.decode().splitlines()
    assert [int(line) for line in before] == list(range(len(before)))
    assert said == f"lost {1000 - len(before)}"
    assert 100 <= len(before) <= 200
    writer.write("after", lost=lost)
    assert out.read(100) == b"after\n"


def test_a_line_that_is_read_at_once_is_written_at_once(pipe):
    """By the caller itself, so that nothing written otherwise comes between."""
    out, into = pipe
    writer = LineWriter(into)
    into.write("before\n")
    writer.write("now", lost=lost)
    assert out.read(100) == b"before\nnow\n"


def test_a_reader_that_has_gone_is_an_error(pipe):
    """So that a reporter can be switched off."""
    out, into = pipe
    writer = LineWriter(into)
    out.close()
    with pytest.raises(BrokenPipeError):
        writer.write("x", lost=lost)


def test_a_full_disk_is_waited_for(tmp_path, monkeypatch):
    """Lines that found no room are written when there is room again."""
    full = [True]
    write = os.write

    def to_disk(descriptor: int, data: bytes) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "no room")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", to_disk)
    file = tmp_path / "log"
    with file.open("w") as into:
        writer = LineWriter(into)
        writer.write("one", lost=lost)
        writer.write("two", lost=lost)
        full[0] = False
        until(lambda: file.read_text() == "one\ntwo\n", "the lines")


def test_a_stream_without_a_descriptor_is_written_to():
    """Such as the text in memory of a test."""
    into = io.StringIO()
    LineWriter(into).write("x", lost=lost)
    assert into.getvalue() == "x\n"

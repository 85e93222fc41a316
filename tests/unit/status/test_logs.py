"""Log records reach the operator as single lines."""

from __future__ import annotations

import logging
import re
import sys
import time

import pytest

from spirit_py.status.plain import LineFormatter, PlainReporter


def _record(message):
    try:
        raise ValueError("the cause")
    except ValueError:
        return logging.LogRecord("x", logging.ERROR, "f.py", 1, message, (), sys.exc_info())


@pytest.mark.parametrize("verbose", [False, True])
def test_a_traceback_is_shown_only_on_request(verbose):
    """The cause is always in the line; the traceback follows with --verbose."""
    text = LineFormatter(verbose=verbose).format(_record("could not close it"))
    assert text.splitlines()[0] == "error: could not close it (the cause)"
    assert ("Traceback" in text) is verbose


def test_a_plain_record_is_one_line():
    """A record without an error is its message and level."""
    record = logging.LogRecord("x", logging.WARNING, "f.py", 1, "slow: %s", ("a",), None)
    assert LineFormatter(verbose=True).format(record) == "warning: slow: a"


def test_a_record_cannot_control_the_terminal():
    """The server's texts are in it, in its error, and in the traceback (R26)."""
    try:
        raise ValueError("no table \x1b[2J\u202e")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f.py", 1, "see \x9b2J", (), sys.exc_info())
    text = LineFormatter(verbose=True).format(record)
    assert text.splitlines()[0] == r"error: see \x9b2J (no table \x1b[2J\u202e)"
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_record_of_a_run_that_writes_lines_has_its_time():
    """As every other line of its log; a command without such a log has none."""
    record = logging.LogRecord("x", logging.WARNING, "f.py", 1, "slow", (), None)
    reporter, formatter = PlainReporter(clock=time.monotonic), LineFormatter(verbose=False)
    reporter.start()
    try:
        line = formatter.format(record)
    finally:
        reporter.stop()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00 warning: slow", line)
    assert formatter.format(record) == "warning: slow"

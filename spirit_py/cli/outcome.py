"""How a command ends: errors become a line of cause, a line of remedy and an exit code (R16)."""

from __future__ import annotations

import re
import signal
import sys
from typing import Final, NoReturn

import click

from spirit_py.errors import Interrupted, SpiritError

EXIT_CODES: Final = """\b
Exit codes:
  0    done
  1    failed cleanly; the source table is whole, run again
  2    refused before any write
  3    outcome of the swap unknown: look at the tables
  4    differences found
  130  interrupted by SIGINT      143  by SIGTERM"""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class ErrorsShown:
    """Turn errors into a line of cause, a line of remedy, and the exit code (R16)."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def __enter__(self) -> None:
        """Show the program's warnings to the operator, tracebacks only with ``--verbose``."""
        from spirit_py.status.logs import to_terminal

        _open_standard_streams()
        to_terminal(verbose=self._verbose)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Show the error and leave with its exit code."""
        if error is None or isinstance(
            error, (SystemExit, click.exceptions.Exit, click.ClickException)
        ):
            return
        if self._verbose:
            import traceback

            for line in "".join(traceback.format_exception(error)).splitlines():
                say(line)
        _leave(error)


def _leave(error: BaseException) -> NoReturn:
    """Print cause and remedy, and exit."""
    if isinstance(error, KeyboardInterrupt):
        # While the work goes on, a SIGINT is a stop request; this one came before or after it.
        error = Interrupted(signal.SIGINT)
    if isinstance(error, SpiritError):
        say(f"error: {error.message}")
        for line in error.details:
            say(f"  {line}")
        if error.hint:
            say(f"hint: {error.hint}")
        leave_with(error.exit_code)
    say(f"error: unexpected {type(error).__name__}: {error}")
    say("hint: this is a defect of spirit-py; run again with --verbose for the traceback")
    leave_with(1)


def can_ask() -> bool:
    """Whether a person is there who reads a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str) -> bool:
    """Ask the operator; no answer means no."""
    try:
        return click.confirm(question, default=False, err=True)
    except click.Abort:
        return False


def say(text: str) -> None:
    """Write a line to standard error, if it is still open.

    Names may hold characters that end lines or control terminals: they are shown as escapes.
    """
    import contextlib

    with contextlib.suppress(OSError, ValueError):
        click.echo(_CONTROL.sub(lambda found: repr(found[0])[1:-1], text), err=True)


def _open_standard_streams() -> None:
    """Open closed standard streams on /dev/null, so that no socket gets their descriptors."""
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def leave_with(code: int) -> NoReturn:
    """Exit with this code, also when the reader of the output has gone.

    A thread that a second SIGINT left behind must not keep the process.
    """
    import os

    from spirit_py.signals import work_goes_on

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if work_goes_on():
        os._exit(code)
    sys.exit(code)

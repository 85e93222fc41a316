"""How a command writes and ends: errors become cause, remedy and an exit code (R16)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import sys
import textwrap
import traceback
from typing import TYPE_CHECKING, Final, NoReturn, Self

import click

from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, Refusal, SpiritError
from spirit_py.system_packages import broken_library
from spirit_py.units import finite, in_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.events.event import Event
    from spirit_py.records import LogFormat
    from spirit_py.status.report import OutcomeReport
    from spirit_py.status.reporters import Reporters

_KEPT: Final = "spirit_py.docs_url"


def keep_docs_url(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    """Keep the address of ``--docs-url`` for :func:`more_about`."""
    context.meta[_KEPT] = value


def more_about(codes: Iterable[str]) -> list[str]:
    """Return the lines that name the pages about an error, given its codes."""
    context = click.get_current_context(silent=True)
    base = str(context.meta.get(_KEPT, "")).rstrip("/") if context else ""
    codes = list(codes)
    lines = [f"more: spirit-py explain {' '.join(codes)}"]
    return lines + [f"more: {base}/errors/{code}.html" for code in codes if base]


EXIT_MEANINGS: Final = {
    0: "done",
    1: "failed cleanly; not changed, unless the error says so; run again",
    2: "refused before any write",
    3: "outcome of the swap unknown: look at the tables",
    4: "differences found",
    130: "interrupted by SIGINT",
    143: "interrupted by SIGTERM, or by spirit-py ctl abort",
}
"""What each exit code means to who runs a migration."""
_OF_SIGNALS: Final = "  130  interrupted by SIGINT      143  by SIGTERM"
EXIT_CODES: Final = "\n".join(
    ("\b", "Exit codes:", *(f"  {n:<3}  {EXIT_MEANINGS[n]}" for n in range(5)), _OF_SIGNALS)
)


class OutputFailed(SpiritError):
    """Standard output takes no more, such as for lack of room."""

    error_code = ErrorCode.OUTPUT_FAILED


class ReaderGone(OutputFailed):
    """The reader of the output has gone (``| head``), so nobody is told."""


class ErrorsShown:
    """Turn errors into cause, remedy and exit code (R16); with ``document`` into JSON, too."""

    def __init__(
        self, *, verbose: bool, log_format: LogFormat = "text", document: bool = False
    ) -> None:
        self.verbose = verbose
        self._json = log_format == "json"
        self._document = document
        self._reporters: Reporters | None = None
        self.output_was_closed = False

    def __enter__(self) -> Self:
        """Show the program's warnings to the operator, tracebacks only with ``--verbose``."""
        from spirit_py.status.plain import to_terminal

        self.output_was_closed = sys.stdout is None
        _open_standard_streams()
        _know_how_children_end()
        to_terminal(verbose=self.verbose, as_json=self._json)
        return self

    def through(self, reporters: Reporters) -> Reporters:
        """Note what shows the run; return it."""
        self._reporters = reporters
        return reporters

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(
            error, (SystemExit, click.exceptions.Exit, click.ClickException)
        ):
            return
        if isinstance(error, KeyboardInterrupt):
            # While the work goes on, a SIGINT is a stop request; this one came before or after it.
            error = Interrupted(signal.SIGINT)
        error = broken_library(error)
        if self._document:
            with contextlib.suppress(OutputFailed):
                show_document(_failed(error).end_fields())
        if self._json:
            self._leave_in_json(error)
        if self.verbose:
            for line in "".join(traceback.format_exception(error)).splitlines():
                say(line)
        _leave(error)

    def end(self, code: int) -> None:
        """Write the end of a run that nothing has failed in, where lines are JSON."""
        if self._json:
            from spirit_py.events.run import RunEnded
            from spirit_py.status.report import OutcomeReport

            show(OutcomeReport(outcome="done", exit_code=code).ended(RunEnded))

    def _leave_in_json(self, error: BaseException) -> NoReturn:
        from spirit_py.events.run import LogWritten, RunEnded

        report = _failed(error)
        if self.verbose:
            trace = "".join(traceback.format_exception(error))
            show(LogWritten(said=str(error), weight="error", logger=__name__, trace=trace))
        if self._reporters is None or not self._reporters.ended:
            show(report.ended(RunEnded))
        leave_with(report.exit_code)


def _failed(error: BaseException) -> OutcomeReport:
    from spirit_py.status.report import OutcomeReport

    report = OutcomeReport()
    report.note_failure(error)
    return report


def _leave(error: BaseException) -> NoReturn:
    if isinstance(error, ReaderGone):
        leave_with(error.exit_code)
    if isinstance(error, SpiritError):
        say_error(error.message)
        for line in error.details:
            say(f"  {line}")
        if error.hint:
            say_hint(error.hint)
        say_more(error.explained_by)
        leave_with(error.exit_code)
    say_error(f"unexpected {type(error).__name__}: {error}")
    say_hint("this is a defect of spirit-py; run again with --verbose for the traceback")
    say_more([ErrorCode.DEFECT])
    leave_with(1)


def say_more(codes: Iterable[str]) -> None:
    """Name the pages about an error."""
    for line in more_about(codes):
        say(line)


ONLY_PLANNED: Final = "it was planned, and nothing was begun; run the same command again"


def can_ask(log_format: LogFormat) -> bool:
    """Whether a person is there who reads a question and can answer it."""
    return log_format == "text" and sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str) -> bool:
    """Ask the operator; no answer means no."""
    try:
        return click.confirm(one_line(question), default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        return False


def require_agreed(what: str, count: str, hint: str, log_format: LogFormat) -> None:
    """Ask whether so many are to be changed; Refusal without a yes. ``what`` has come to them."""
    if not can_ask(log_format):
        raise Refusal(
            f"{what}, and there is no terminal where that can be confirmed",
            hint="see the list above; to change what it has, add --yes",
            error_code=ErrorCode.NOT_CONFIRMED,
        )
    if not confirmed(f"Change {count}?"):
        raise Refusal("nothing was changed", hint=hint, error_code=ErrorCode.NOT_CONFIRMED)


def say_error(text: str) -> None:
    """Write what has failed to standard error: on a terminal red, and wrapped at words."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    _say_folded(f"error: {text}", "" if plain else "red")


def say_hint(hint: str) -> None:
    """Write the next step to standard error: on a terminal wrapped at words."""
    _say_folded(f"hint: {hint}")


def _say_folded(text: str, colour: str = "") -> None:
    if not sys.stderr.isatty():
        say(text)
        return
    with contextlib.suppress(OSError, ValueError):
        for each in wrapped(one_line(text), shutil.get_terminal_size().columns):
            click.echo(click.style(each, fg=colour) if colour else each, err=True)


def say(text: str) -> None:
    """Write a line to standard error, if it is still open; what controls terminals is escaped."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(one_line(text), err=True)


def show(event: Event) -> None:
    """Write the JSON line of an event to standard error, if it is still open."""
    from spirit_py.status.plain import json_line

    with contextlib.suppress(OSError, ValueError):
        click.echo(json_line(event), err=True)


def show_document(document: object) -> None:
    """Write a JSON document to standard output; raises OutputFailed."""
    # In another encoding an escape of the stream would not be one of JSON.
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    with output_errors():
        import json

        text = json.dumps(finite(document), indent=2, ensure_ascii=not utf8, default=str)
        click.echo(in_json(text))


def tell_document(document: object) -> None:
    """Write the JSON document about work that is done, whose outcome is that of the work (R16)."""
    try:
        show_document(document)
    except ReaderGone:
        return
    except OutputFailed as failed:
        say(failed.message)


def tell_request(verb: str, arguments: dict[str, str], said: list[str]) -> None:
    """Write the JSON document about what ``spirit-py ctl`` has done."""
    from spirit_py.status.report import OutcomeReport

    done = OutcomeReport(outcome="done").end_fields()
    tell_document({**done, "verb": verb, "arguments": arguments, "said": said})


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """Raise OutputFailed for standard output that takes no more."""
    try:
        yield
    except OSError as error:
        kind = ReaderGone if error.errno == errno.EPIPE else OutputFailed
        raise kind(
            f"cannot write to standard output: {error.strerror or error}",
            hint="make room, or send the output elsewhere; spirit-py status shows what was done on"
            " the server",
        ) from error


def leave_unwritten(error: OSError) -> NoReturn:
    """End a command that only prints, such as a help page, whose output takes no more."""
    if error.filename is not None:
        # It is about a file that was read, and not about what was written.
        _leave(error)
    try:
        with output_errors():
            raise error
    except OutputFailed as failed:
        _leave(failed)


def _open_standard_streams() -> None:
    """Open closed standard streams on /dev/null, so that no socket gets their descriptors."""
    import io

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _know_how_children_end() -> None:
    """Have exit codes of children, where who started this process ignores SIGCHLD (R16)."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def leave_with(code: int) -> NoReturn:
    """Exit, also when the output has no reader, or a second SIGINT left a thread behind."""
    from spirit_py.signals import work_goes_on

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if work_goes_on():
        os._exit(code)
    sys.exit(code)


#: Columns below which wrapping at words helps nobody.
_NARROWEST: Final = 30
_LABEL: Final = re.compile(r" *\S+(?: \S+)* {2,}")
_INDENT: Final = 4
HAS_COMMAND: Final = re.compile(r"spirit-py [a-z]+(?: [a-z]+)? --")
"""A command that is pasted as it is shown: of one that is broken the first half would be run."""


def show_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output, what controls terminals escaped; raises OutputFailed."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        for part in wrapped(one_line(line), width):
            with output_errors():
                click.echo(part)


def tell_out(text: str) -> None:
    """Write a line about work, which goes on where standard output takes no more (R16)."""
    try:
        show_lines([text])
    except ReaderGone:
        return
    except OutputFailed as failed:
        say(f"{failed.message}: {text}")


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit the terminal, indented as the text behind its label.

    The terminal itself breaks one with a command, which then is copied as one line.
    """
    if width < _NARROWEST or len(line) <= width or HAS_COMMAND.search(line):
        return [line]
    label = _LABEL.match(line)
    hanging = len(label[0]) if label else 0
    if not 0 < hanging <= width // 2:
        hanging = len(line) - len(line.lstrip()) + _INDENT
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )

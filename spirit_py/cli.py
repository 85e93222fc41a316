"""The command line: options to a frozen configuration, errors to a message, a hint, an exit code.

Every option can come from the environment too, as ``SPIRIT_PY_`` and the option's name.
Nothing heavy is imported before a command really runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from spirit_py import __version__
from spirit_py.config import DEFAULT_PORT, MigrationConfig
from spirit_py.errors import SpiritError, UsageFault

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Reporter
    from spirit_py.watch.options import WatchOptions

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_PORT = 65535

EXIT_CODES = """\b
Exit codes:
  0    done
  1    failed cleanly; the source table is whole, run again
  2    refused before any write
  3    outcome of the swap unknown: look at the tables
  4    differences found
  130  interrupted by SIGINT      143  by SIGTERM"""

WATCH_EXIT_CODES = """\b
Exit codes:
  0    the end that --until asked for
  1    the stream cannot go on; the last line has the position
  2    refused: the command line is wrong
  130  interrupted by SIGINT      143  by SIGTERM
  141  nobody reads the output any more"""


class FiniteRange(click.FloatRange):
    """A range of floats that ``nan`` is not in: it compares with no bound."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number, which must be finite."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare an option that can also be set by ``SPIRIT_PY_NAME`` in the environment."""
    longest = max(names, key=len).lstrip("-").split("/")[0]
    variable = f"SPIRIT_PY_{longest.upper().replace('-', '_')}"
    earlier = settings.pop("envvar", [])
    return click.option(*names, envvar=[variable, *earlier], show_envvar=True, **settings)


def connection_options(command: Command) -> Command:
    """Add the options that say how to reach the server."""
    declared = (
        option("--host", help="Server, as host or host:port."),
        option(
            "--port", type=click.IntRange(1, 65535), help=f"TCP port. [default: {DEFAULT_PORT}]"
        ),
        option("--socket", help="Unix socket, instead of host and port."),
        option("--user", help="User name. [default: the option file's, or the login name]"),
        option(
            "--password",
            envvar=["MYSQL_PWD"],
            prompt=True,
            prompt_required=False,
            hide_input=True,
            default=None,
            help="Password; asked for when given without a value.",
        ),
        option(
            "--defaults-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="MySQL option file; its [client] group is read.",
        ),
    )
    for declare in reversed(declared):
        command = declare(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="spirit-py")
def main() -> None:
    """Change the schema of a busy MySQL table without blocking it, and prove it."""


@main.command(epilog=EXIT_CODES)
@connection_options
@option("--database", help="Schema of the table.")
@option("--table", help="Table to change; goes with --alter.")
@option("--alter", help="The clauses after ALTER TABLE t.")
@option("--statement", help="A whole ALTER TABLE or CREATE INDEX, instead of --table and --alter.")
@option(
    "--threads", type=click.IntRange(1, 256), help="Chunks copied at once. [default: 4 at most]"
)
@option(
    "--target-chunk-time",
    type=FiniteRange(0.01, 60),
    default=0.5,
    show_default=True,
    help="Seconds that one chunk should take.",
)
@option(
    "--lock-wait-timeout",
    type=FiniteRange(1, 3600),
    default=30.0,
    show_default=True,
    help="Seconds that one attempt of the cutover may wait for the table lock.",
)
@option("--no-kill", is_flag=True, help="Never end a session that holds up the cutover.")
@option(
    "--kill-after",
    type=FiniteRange(0.1, 3600),
    help="Seconds after which such a session is ended. [default: 90 % of --lock-wait-timeout]",
)
@option("--skip-drop-after-cutover", is_flag=True, help="Keep the old table after the swap.")
@option("--no-shortcut", is_flag=True, help="Copy even where INSTANT or INPLACE would do.")
@option("--spark-master", default="", help="Spark master. [default: local[threads]]")
@option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="Passed to Spark; repeatable.")
@option("--spark-ui", is_flag=True, help="Open Spark's web interface.")
@option(
    "--report-json",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the final report to this file.",
)
@option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log lines where there is no terminal.",
)
@option("--verbose", is_flag=True, help="Tracebacks; Spark's log in ./spirit-py-spark.log.")
def migrate(**options: Any) -> None:
    r"""Change a table online.

    \b
    spirit-py migrate --host db1 --database shop --table orders \
        --alter "ADD COLUMN note VARCHAR(200)"
    """
    with _ErrorsShown(verbose=options["verbose"]):
        config = migration_config(options)
        from spirit_py import runner
        from spirit_py.status.safe import SafeReporter

        reporter = SafeReporter(_reporter(config))
        report = runner.migrate(config, reporter=reporter)
        for line in report.summary():
            reporter.message(line)
        _exit(0)


@main.command(epilog=WATCH_EXIT_CODES)
@connection_options
@option("--database", default="", help="Schema to follow. [default: all of them]")
@option("--table", default="", help="Table of it to follow. [default: all of them]")
@option("--from", "position", default="", help="Position that an earlier run ended at, or now.")
@option("--until", type=click.Choice(["now"]), help="End where the server is when this starts.")
@option(
    "--format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="JSON for programs, text for people.",
)
@option(
    "--heartbeat",
    type=FiniteRange(0, 86400),
    default=0.0,
    help="Seconds of quiet after which to print a heartbeat. [default: never]",
)
@option("--verbose", is_flag=True, help="Tracebacks.")
def watch(**options: Any) -> None:
    r"""Print every committed change as it happens, one event a line.

    \b
    spirit-py watch --host db1 --database shop --table orders --from "$POSITION"
    """
    with _ErrorsShown(verbose=options["verbose"]):
        given = watch_options(options)
        from spirit_py.watch import entry

        _exit(
            entry.watch(
                given,
                descriptor=_standard_output(),
                note=lambda text: click.echo(f"watch: {text}", err=True),
            )
        )


def _standard_output() -> int:
    """Give the descriptor of the standard output, with nothing left to write before it."""
    sys.stdout.flush()
    return sys.stdout.fileno()


def watch_options(options: dict[str, Any]) -> WatchOptions:
    """Build the frozen options of a watch from the command line's values.

    Raises:
        UsageFault: when options are missing or contradict each other.
    """
    from spirit_py.watch.options import WatchOptions

    _refuse_undecodable(options)
    if options["table"] and not options["database"]:
        raise UsageFault("--table goes with --database", hint="add --database")
    return WatchOptions(
        connection=_connection(options),
        database=options["database"],
        table=options["table"],
        position="" if options["position"] == "now" else options["position"],
        until_now=options["until"] == "now",
        format=options["format"],
        heartbeat=options["heartbeat"],
    )


def migration_config(options: dict[str, Any]) -> MigrationConfig:
    """Build the frozen configuration from the command line's values.

    Raises:
        UsageFault: when options are missing or contradict each other.
    """
    _refuse_undecodable(options)
    if bool(options["statement"]) == bool(options["table"] or options["alter"]):
        raise UsageFault(
            "the change is not clear: give either --statement, or --table with --alter",
            hint="spirit-py migrate --help shows an example",
        )
    if not options["statement"] and not (options["table"] and options["alter"]):
        raise UsageFault("--table and --alter go together", hint="add the missing one")
    if options["table"] and not options["database"]:
        raise _no_schema(options["table"])
    report_json = _report_file(options["report_json"])
    return MigrationConfig(
        connection=_connection(options),
        database=options["database"] or "",
        table=options["table"] or "",
        alter=options["alter"] or "",
        statement=options["statement"] or "",
        threads=_threads(options["threads"], options["spark_master"]),
        target_chunk_time=options["target_chunk_time"],
        lock_wait_timeout=options["lock_wait_timeout"],
        skip_drop_after_cutover=options["skip_drop_after_cutover"],
        no_kill=options["no_kill"],
        kill_after=options["kill_after"],
        no_shortcut=options["no_shortcut"],
        spark_master=options["spark_master"],
        spark_conf=tuple(_pair(text) for text in options["spark_conf"]),
        spark_ui=options["spark_ui"],
        report_json=report_json,
        log_format=options["log_format"],
        verbose=options["verbose"],
    )


def _no_schema(table: str) -> UsageFault:
    """Ask for the schema of ``--table``, which may have been written in front of its name."""
    schema, _, name = table.partition(".")
    hint = f"write --database {schema} --table {name}" if schema and name else "add --database"
    return UsageFault(f"the schema of table {table} is not given", hint=hint)


def _refuse_undecodable(options: dict[str, Any]) -> None:
    """Refuse bytes that are no text here: Python hands them over as lone surrogates.

    Raises:
        UsageFault: naming the option, never its value, which may be a secret.
    """
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and any("\ud800" <= mark <= "\udfff" for mark in text):
                option_name = {"position": "from"}.get(name, name).replace("_", "-")
                raise UsageFault(
                    f"--{option_name} holds bytes that are not text in this locale's encoding",
                    hint="write it in UTF-8 and run under a UTF-8 locale, such as LC_ALL=C.UTF-8",
                )


def _connection(options: dict[str, Any]) -> ConnectionOptions:
    """Join the connection options of the command line with those of the option file."""
    import getpass

    from spirit_py.mysql import optionfile

    file = options["defaults_file"]
    stored = optionfile.read_option_file(file) if file is not None else {}
    given = {name: options[name] for name in ("port", "socket", "user", "password")}
    host, port = split_host(options["host"]) if options["host"] else (None, None)
    if port is not None and given["port"] not in (None, port):
        raise UsageFault(
            f"two ports: {port} in --host and {given['port']} in --port",
            hint="leave one of them out",
        )
    given |= {"host": host, "port": port or given["port"]}
    if given["user"] is None and "user" not in stored:
        given["user"] = getpass.getuser()
    return optionfile.connection_options(stored, given)


def split_host(text: str) -> tuple[str, int | None]:
    """Split ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address.

    Raises:
        UsageFault: when the port is no number between 1 and 65535.
    """
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise UsageFault(
                f"--host {text!r} has no port after the colon", hint="write host or host:port"
            )
    else:
        return text, None
    if not host or (port and not (port.isdecimal() and 0 < int(port) <= MAX_PORT)):
        raise UsageFault(f"--host {text!r} is not a host and port", hint="write host or host:port")
    return host, int(port) if port else None


def _threads(asked: int | None, master: str) -> int:
    """Give the number of threads: 4 at most by default, never above the cores for ``local``."""
    import os

    cores = len(os.sched_getaffinity(0))
    if master and not master.startswith("local["):
        return asked or 4
    return min(asked or 4, cores)


def _report_file(path: Path | None) -> Path | None:
    """Check, before anything is done, that the report can be written."""
    import os

    if path is None:
        return None
    target = path.absolute()
    folder = target.resolve().parent
    problem = ""
    if not path.name or target.is_dir():
        problem = f"{str(path)!r} names no file"
    elif not folder.is_dir():
        problem = f"{folder} is not a directory"
    elif not os.access(target if target.exists() else folder, os.W_OK):
        problem = f"{target} may not be written"
    if problem:
        raise UsageFault(
            f"the report cannot be written: {problem}",
            hint="name another file with --report-json",
        )
    return target


def _pair(text: str) -> tuple[str, str]:
    """Split a ``key=value`` of ``--spark-conf``."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageFault(
            f"--spark-conf {text!r} is not KEY=VALUE",
            hint="write for instance spark.eventLog.enabled=true",
        )
    return key.strip(), value


def _reporter(config: MigrationConfig) -> Reporter:
    """Pick the live display for a terminal and log lines for everything else."""
    import time

    if sys.stderr.isatty() and config.log_format == "text":
        from spirit_py.status.console import ConsoleReporter

        return ConsoleReporter()
    from spirit_py.status.plain import PlainReporter

    return PlainReporter(clock=time.monotonic, as_json=config.log_format == "json")


class _ErrorsShown:
    """Turn errors into a line of cause, a line of remedy, and the exit code (R16)."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def __enter__(self) -> None:
        """Let warnings of the program's parts reach the operator, tracebacks only if asked."""
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

            _say("".join(traceback.format_exception(error)).rstrip())
        _leave(error)


def _leave(error: BaseException) -> NoReturn:
    """Print cause and remedy, and exit."""
    if isinstance(error, SpiritError):
        _say(f"error: {error.message}")
        for line in error.details:
            _say(f"  {line}")
        if error.hint:
            _say(f"hint: {error.hint}")
        _exit(error.exit_code)
    _say(f"error: unexpected {type(error).__name__}: {error}")
    _say("hint: this is a defect of spirit-py; run again with --verbose for the traceback")
    _exit(1)


def _say(text: str) -> None:
    """Write a line to standard error, if somebody still listens there."""
    import contextlib

    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def _open_standard_streams() -> None:
    """Give a closed standard stream a place, so that no socket gets its number."""
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _exit(code: int) -> NoReturn:
    """Exit with this code, whether or not anybody still reads the output.

    Threads that a second SIGINT left behind must not keep the process.
    """
    import os
    import threading

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

    left = [t for t in threading.enumerate() if t.name == "spirit-py-migration"]
    if left:
        os._exit(code)
    sys.exit(code)

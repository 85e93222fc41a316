"""Options that several commands share, and how their values are read.

Every option can come from the environment too, as ``SPIRIT_PY_`` and the option's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spirit_py.config import DEFAULT_PORT, FeedOptions
from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions

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


class Duration(click.ParamType[float]):
    """Seconds, as a number or with a unit: ``90``, ``90s``, ``30m``, ``2h``, ``7d``.

    Args:
        least: the shortest that is accepted, seconds.
    """

    name = "duration"
    _UNITS = MappingProxyType({"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400})

    def __init__(self, *, least: float = 0.0) -> None:
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", str(value))
        if found is None:
            self.fail(
                f"{value!r} is no duration; write for instance 90s, 30m, 2h or 7d.", param, ctx
            )
        seconds = float(found[1]) * self._UNITS[found[2]]
        if seconds < self._least:
            self.fail(f"{value} is shorter than {self._least:g} s.", param, ctx)
        return seconds


def warn_of_typed(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Warn of a password on the command line, where every process of the machine can read it."""
    name = str(parameter.name)
    if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
        dashed = name.replace("_", "-")
        click.echo(
            f"warning: a password behind --{dashed} can be read in the list of processes: give the"
            f" option without a value, or set SPIRIT_PY_{name.upper()}",
            err=True,
        )
    return value


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare an option that can also be set by ``SPIRIT_PY_NAME`` in the environment."""
    longest = max(names, key=len).lstrip("-").split("/")[0]
    variable = f"SPIRIT_PY_{longest.upper().replace('-', '_')}"
    earlier = settings.pop("envvar", [])
    return click.option(*names, envvar=[variable, *earlier], show_envvar=True, **settings)


class TableName(click.ParamType[tuple[str, str]]):
    """A table with its schema: ``percona.checksums``; backquotes where a name has a dot."""

    name = "schema.table"
    _PART = r"(?:`((?:[^`]|``)+)`|([^.`]+))"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return schema and table."""
        found = re.fullmatch(rf"{self._PART}\.{self._PART}", str(value))
        if found is None:
            self.fail(
                f"{value!r} is not a table with its schema, such as percona.checksums.", param, ctx
            )
        quoted, plain, table, bare = (part or "" for part in found.groups())
        return (quoted.replace("``", "`") or plain, table.replace("``", "`") or bare)


def _with(command: Command, *declared: Callable[[Command], Command]) -> Command:
    """Add options in the order in which ``--help`` shows them."""
    for declare in reversed(declared):
        command = declare(command)
    return command


def connection_options(command: Command) -> Command:
    """Add the options that say how to reach the server."""
    return _with(
        command,
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
            callback=warn_of_typed,
            help="Password; asked for when given without a value.",
        ),
        option(
            "--defaults-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="MySQL option file; its [client] group is read.",
        ),
    )


def spark_options(command: Command) -> Command:
    """Add the options that say how Spark runs."""
    return _with(
        command,
        option("--spark-master", default="", help="Spark master. [default: local[threads]]"),
        option(
            "--spark-conf", multiple=True, metavar="KEY=VALUE", help="Passed to Spark; repeatable."
        ),
        option("--spark-ui", is_flag=True, help="Open Spark's web interface."),
    )


def swap_options(command: Command) -> Command:
    """Add the options that say how patient the swap is, and with whom."""
    return _with(
        command,
        option(
            "--lock-wait-timeout",
            type=FiniteRange(1, 3600),
            default=30.0,
            show_default=True,
            help="Seconds that one attempt of the swap may wait for the table lock.",
        ),
        option("--no-kill", is_flag=True, help="Never end a session that holds up the swap."),
        option(
            "--kill-after",
            type=FiniteRange(0.1, 3600),
            help="Seconds after which such a session is ended."
            " [default: 90 % of --lock-wait-timeout]",
        ),
        option(
            "--snapshot-guard",
            type=click.Choice(["on", "off", "auto"]),
            default="auto",
            show_default=True,
            help="Give older snapshots an error (1412) instead of half a copy when they read the"
            " swapped table; auto: where a transaction is open for seconds, such as a dump's.",
        ),
    )


def yield_option(command: Command) -> Command:
    """Add the option for the age of the checksum's snapshots."""
    return _with(
        command,
        option(
            "--checksum-yield-timeout",
            type=Duration(least=1),
            default="1h",
            show_default=True,
            help="Age at which the checksum gives its snapshot back and takes a new one.",
        ),
    )


def statement_writes_option(command: Command) -> Command:
    """Add the option that vouches for tables of others that are written in STATEMENT format."""
    return _with(
        command,
        option(
            "--pass-statement-writes",
            "vouched",
            multiple=True,
            type=TableName(),
            metavar="SCHEMA.TABLE",
            help="Pass over writes in STATEMENT format to this table of others: none of them"
            " reaches a table that is migrated or followed; repeatable.",
        ),
    )


def report_option(command: Command) -> Command:
    """Add the option for the final report."""
    return _with(
        command,
        option(
            "--report-json",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the final report to this file.",
        ),
    )


def log_options(command: Command) -> Command:
    """Add the options that say what is printed."""
    return _with(
        command,
        option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Format of the log lines where there is no terminal.",
        ),
        option("--verbose", is_flag=True, help="Tracebacks; Spark's log in ./spirit-py-spark.log."),
    )


def refuse_undecodable(options: dict[str, Any]) -> None:
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


def connection_of(options: dict[str, Any]) -> ConnectionOptions:
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


def run_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`~spirit_py.config.RunConfig`, from the command line's values.

    Raises:
        UsageFault: when options contradict each other.
    """
    given = {
        name: options[name]
        for name in (
            "lock_wait_timeout",
            "no_kill",
            "kill_after",
            "snapshot_guard",
            "spark_master",
            "spark_ui",
            "log_format",
            "verbose",
        )
    }
    return {
        **given,
        "connection": connection_of(options),
        "database": options["database"] or "",
        "table": options["table"] or "",
        "threads": threads_of(options["threads"], options["spark_master"]),
        "spark_conf": tuple(key_value(text) for text in options["spark_conf"]),
        "feed": FeedOptions(vouched=options["vouched"]),
    }


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


def threads_of(asked: int | None, master: str) -> int:
    """Return the number of threads: 4 at most by default, never above the cores for ``local``."""
    import os

    cores = len(os.sched_getaffinity(0))
    if master and not master.startswith("local["):
        return asked or 4
    return min(asked or 4, cores)


def report_file(path: Path | None) -> Path | None:
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


def key_value(text: str) -> tuple[str, str]:
    """Split a ``key=value`` of ``--spark-conf``."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageFault(
            f"--spark-conf {text!r} is not KEY=VALUE",
            hint="write for instance spark.eventLog.enabled=true",
        )
    return key.strip(), value

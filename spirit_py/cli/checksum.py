"""``spirit-py checksum`` and ``spirit-py watch``."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from spirit_py.cli.display import records_of, reporters_of, tell_summary
from spirit_py.cli.groups import command
from spirit_py.cli.outcome import say, show
from spirit_py.cli.values import complete, connection_of, given_server, named_alike
from spirit_py.command_config import CompareConfig, WatchConfig
from spirit_py.errors import UsageFault
from spirit_py.events.event import teller
from spirit_py.options.commands import ChecksumCommand, WatchCommand

if TYPE_CHECKING:
    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.config import ConnectionOptions

CHECKSUM_EXIT_CODES = """\b
Exit codes:
  0    the tables are equal, or were made so by --repair
  1    failed before there was a result; run again
  2    refused: they cannot be compared, or cannot be repaired
  4    they differ; the rows are reported
  130  interrupted by SIGINT      143  by SIGTERM"""


@command(ChecksumCommand, CHECKSUM_EXIT_CODES)
def checksum(shown: ErrorsShown, options: dict[str, Any]) -> None:
    """Compare two tables row by row, on one server or on two.

    Rows are hashed in the server, over snapshots that all readers open under one short lock. On two
    servers the snapshots are taken together, but are of one moment only where one server is
    the other's replica (with GTIDs: it is waited for). Rows that differ are therefore looked
    at again a moment later; those that are equal then are in motion, and no difference. What
    lags for longer needs a quiet table, or STOP REPLICA on both sides.

    \b
    spirit-py checksum --host db1 --database shop --table orders --target-table orders_copy
    spirit-py checksum --host db1 --database shop --table orders --target-host db2
    """  # noqa: D301 - click reads the backspace
    asked = compare_config(options)
    from spirit_py.compare import run

    reporter = shown.through(reporters_of(asked.records, verbose=shown.verbose))
    tell_summary(run.compare(asked, reporter=reporter).summary(), reporter)


def compare_config(options: dict[str, Any]) -> CompareConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    complete(options)
    for name in ("table", "database"):
        if not options[name]:
            raise UsageFault(
                f"--{name} is missing", hint="spirit-py checksum --help shows an example"
            )
    source = connection_of(options)
    target = target_connection(options, source)
    here = (options["database"], options["table"])
    there = (options["target_database"] or here[0], options["target_table"] or here[1])
    if target is None and there == here:
        raise UsageFault(
            f"{here[0]}.{here[1]} would be compared with itself",
            hint="name the other table with --target-table or --target-database, or the other"
            " server with --target-host",
        )
    return CompareConfig(
        source=source,
        target=target,
        renames=tuple(_rename(text) for text in options["map"]),
        lock=not options["no_lock"],
        records=records_of(options),
        **named_alike(CompareConfig, options)
        | {"target_database": there[0], "target_table": there[1]},
    )


def _rename(text: str) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not separator or not old or not new:
        raise UsageFault(
            f"--map {text!r} is not OLD=NEW", hint="write for instance --map nr=number"
        )
    return old, new


def target_connection(
    options: dict[str, Any], source: ConnectionOptions
) -> ConnectionOptions | None:
    """Return the target's connection options; None where they are those of the source."""
    from spirit_py.mysql.option_files import (
        GROUPS,
        connection_options,
        names_tls,
        over_tcp,
        read_option_file,
    )

    file = options["target_defaults_file"]
    stored = read_option_file(file, GROUPS) if file is not None else {}
    given = given_server(options, "target_")
    read = connection_options(stored, given)
    names = {"host", "port", "socket", "user", "password", "connect_timeout"}
    changes = {name: getattr(read, name) for name in names if name.replace("_", "-") in stored}
    if names_tls(stored, given):
        changes |= {"tls": read.tls, "ssl_mode": read.ssl_mode}
    explicit = {name: given[name] for name in names if given.get(name) is not None}
    # The source's socket, or the file's, must not override a host that was asked for.
    if not explicit.get("socket") and (
        {"host", "port"} & explicit.keys()
        or ("host" in changes and "socket" not in changes)
        or over_tcp(stored)
    ):
        explicit["socket"] = ""
    target = dataclasses.replace(source, **(changes | explicit))
    return None if target == source else target


WATCH_EXIT_CODES = """\b
Exit codes:
  0    ended where --until asked
  1    the stream, or writing its lines, failed; stderr has the position
  2    refused: the command line is wrong
  130  interrupted by SIGINT      143  by SIGTERM
  141  the reader of the output closed it"""


@command(WatchCommand, WATCH_EXIT_CODES)
def watch(shown: ErrorsShown, options: dict[str, Any]) -> int:
    """Print every committed change as it happens, one event a line.

    \b
    spirit-py watch --host db1 --database shop --table orders --from "$POSITION"
    """  # noqa: D301 - click reads the backspace
    given = watch_config(options)
    if shown.output_was_closed:
        raise UsageFault("the standard output is closed", hint="redirect it")
    from spirit_py.watch.command import watch as follow

    as_json = options["log_format"] == "json"
    tell = teller(show if as_json else lambda event: say(f"watch: {event.line}"))
    code = follow(given, descriptor=_standard_output(), tell=tell)
    shown.end(code)
    return code


def _standard_output() -> int:
    """Return the descriptor of the standard output, with nothing left to write before it."""
    sys.stdout.flush()
    return sys.stdout.fileno()


def watch_config(options: dict[str, Any]) -> WatchConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    complete(options)
    if options["table"] and not options["database"]:
        raise UsageFault("--table goes with --database", hint="add --database")
    alike = named_alike(WatchConfig, options)
    if alike.get("position") == "now":
        alike["position"] = ""
    return WatchConfig(
        connection=connection_of(options), until_now=options["until"] == "now", **alike
    )

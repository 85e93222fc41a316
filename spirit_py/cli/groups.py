"""Options that several commands share, in the groups in which they are declared.

Every option can come from the environment too, as ``SPIRIT_PY_`` and the option's name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from spirit_py.cli.more import keep_docs_url
from spirit_py.cli.values import Dsn, Duration, FiniteRange, HttpUrl, Size, TableName, Windows
from spirit_py.cli.wrong_lines import warn
from spirit_py.config import DEFAULT_PORT, is_secret_of_spark
from spirit_py.mysql.tls.modes import SSL_MODES

Command = TypeVar("Command", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare an option that can also be set by ``SPIRIT_PY_NAME`` in the environment."""
    longest = max(names, key=len).lstrip("-").split("/")[0]
    variable = f"SPIRIT_PY_{longest.upper().replace('-', '_')}"
    earlier = settings.pop("envvar", [])
    return click.option(*names, envvar=[variable, *earlier], **settings)


def warn_of_typed(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Warn of a password on the command line, where every process of the machine can read it."""
    name = str(parameter.name)
    if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
        dashed = name.replace("_", "-")
        prompt = getattr(parameter, "prompt", None)
        instead = "give the option without a value, or set" if prompt else "set"
        text = (
            f"a password given with --{dashed} can be read in the list of processes:"
            f" {instead} SPIRIT_PY_{name.upper()}"
        )
        warn(context, text)
    return value


def warn_of_typed_url(
    context: click.Context, parameter: click.Parameter, value: dict[str, str]
) -> dict[str, str]:
    """Warn of a password in a URL on the command line."""
    if value.get("password"):
        warn_of_typed(context, parameter, value)
    return value


def warn_of_typed_secret(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Warn of a secret among the settings for Spark on the command line."""
    if any(is_secret_of_spark(text.partition("=")[0]) for text in value):
        warn_of_typed(context, parameter, value)
    return value


def _somebody_answers() -> bool:
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


class AskedOption(click.Option):
    """An option that is asked for when it is given without a value: on a terminal, or not at all.

    Elsewhere the question would wait for an answer that cannot come.
    """

    def prompt_for_value(self, ctx: click.Context) -> Any:
        """Ask.

        Raises:
            click.UsageError: nobody is there who reads the question and can answer it.
        """
        if not _somebody_answers():
            raise click.UsageError(
                f"{self.opts[0]} without a value asks for it, and there is no terminal: set"
                f" SPIRIT_PY_{str(self.name).upper()}, or use an option file or a login path",
                ctx,
            )
        return super().prompt_for_value(ctx)


def group(*declared: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Join options to one decorator, in the order in which ``--help`` shows them."""

    def add(command: Command) -> Command:
        for declare in reversed(declared):
            command = declare(command)
        return command

    return add


def tls_options(prefix: str = "", default: str = "") -> Callable[[Command], Command]:
    """Declare the options of TLS, as the mysql client has them.

    Args:
        prefix: of their names, as in ``target-``.
        default: what each is by default, for the help.
    """
    path = click.Path(path_type=str)
    return group(
        option(
            f"--{prefix}ssl-mode",
            type=click.Choice(SSL_MODES, case_sensitive=False),
            help="As the mysql client's: whether TLS is used, and what is verified."
            + (default or " [default: VERIFY_CA with --ssl-ca, else PREFERRED]"),
        ),
        option(f"--{prefix}ssl-ca", type=path, help=f"Authority of the certificate, PEM.{default}"),
        option(f"--{prefix}ssl-capath", type=path, help=f"Folder of authorities.{default}"),
        option(f"--{prefix}ssl-cert", type=path, help=f"Client certificate, PEM.{default}"),
        option(f"--{prefix}ssl-key", type=path, help=f"Its private key, PEM.{default}"),
    )


_OPTION_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

connection_options = group(
    option("--host", help="Server, as host or host:port."),
    option("--port", type=click.IntRange(1, 65535), help=f"TCP port. [default: {DEFAULT_PORT}]"),
    option("--socket", help="Unix socket, instead of host and port."),
    option("--user", help="User name. [default: the option file's, or the login name]"),
    option(
        "--password",
        cls=AskedOption,
        envvar=["MYSQL_PWD"],
        prompt=True,
        prompt_required=False,
        hide_input=True,
        default=None,
        callback=warn_of_typed,
        help="Password; asked for when given without a value.",
    ),
    option(
        "--dsn",
        type=Dsn(),
        default="",
        callback=warn_of_typed_url,
        metavar="URL",
        help="All of that as mysql://user@host:port/schema; the other options count more.",
    ),
    option(
        "--login-path",
        default="",
        help="Group of ~/.mylogin.cnf, as mysql_config_editor writes it.",
    ),
    option(
        "--defaults-file",
        type=_OPTION_FILE,
        help="Read this MySQL option file and no other: its groups [client] and [spirit-py]."
        " [default: /etc/my.cnf, /etc/mysql/my.cnf, ~/.my.cnf]",
    ),
    option("--defaults-extra-file", type=_OPTION_FILE, help="Read this one too, before ~/.my.cnf."),
    option("--defaults-group-suffix", default="", help="Read the groups with this suffix, too."),
    option("--no-defaults", is_flag=True, help="Read no option file but a login path."),
    tls_options(),
)
"""The options of the connection to the server."""

spark_options = group(
    option(
        "--spark-master",
        default="",
        help="Spark master; one that is named is started for a small table, too."
        " [default: local[threads]]",
    ),
    option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=warn_of_typed_secret,
        help="Passed to Spark; repeatable.",
    ),
    option("--spark-ui", is_flag=True, help="Open Spark's web interface, on the loopback address."),
)
"""The options of Spark."""

swap_options = group(
    option(
        "--lock-wait-timeout",
        type=FiniteRange(1, 3600),
        default=2.5,
        show_default=True,
        help="Seconds that one request for a lock on the table waits at most: so long may the"
        " application's new statements wait behind it. It is not requested at all while a"
        " transaction that is older than a second is in front.",
    ),
    option(
        "--cutover-timeout",
        type=Duration(),
        default="1d",
        show_default=True,
        help="Time in which the swap must get its lock, by however many requests; then the run"
        " ends, and the same command carries on.",
    ),
    option(
        "--kill-blockers",
        type=click.Choice(["never", "idle", "all"]),
        default="never",
        show_default=True,
        help="Whom to end who is in front of such a lock: nobody; sessions that sit idle in a"
        " transaction; those and running statements.",
    ),
    option(
        "--kill-after",
        type=FiniteRange(0.1, 86_400),
        default=30.0,
        show_default=True,
        help="Seconds for which such a session must have been in front.",
    ),
    option(
        "--snapshot-guard",
        type=click.Choice(["on", "off", "auto"]),
        default="auto",
        show_default=True,
        help="Give snapshots from before the swap an error (1412) instead of half a copy when they"
        " read the swapped table; auto: wherever the table allows it.",
    ),
)
"""The options of locks on the table: how they are requested, and whom they may end."""

surroundings_options = group(
    option(
        "--max-lag",
        type=Duration(),
        help="Wait while a replica is further behind. A replica that cannot be read then holds the"
        " migration back; 0 looks at none. [default: 1.5s, for the replicas that can be read]",
    ),
    option(
        "--replica",
        "replicas",
        multiple=True,
        metavar="HOST[:PORT]",
        help="Replica whose lag is watched; repeatable. [default: those that the server knows]",
    ),
    option(
        "--throttle-http",
        default="",
        type=HttpUrl(),
        metavar="URL",
        help="Wait while a HEAD request to this endpoint is answered by anything but 200.",
    ),
    option(
        "--throttle-query",
        default="",
        metavar="SELECT",
        help="Wait while the first value of this query is not 0; a text is shown as the reason.",
    ),
    option(
        "--allow",
        multiple=True,
        type=Windows(),
        metavar="HH:MM-HH:MM[,...]",
        help="Work and swap at these times of the day alone, by this machine's clock or at an"
        " offset: 22:00-06:00+01:00; repeatable.",
    ),
    option(
        "--min-free-disk",
        type=Size(),
        help="Wait while less is free where a server on this machine writes; 0 for no limit."
        " [default: 256M, where that can be seen]",
    ),
    option(
        "--max-binlog-space",
        type=Size(),
        default=0,
        help="Wait while the server's binary logs are larger than this together.",
    ),
    option(
        "--max-history-length",
        type=click.IntRange(min=0),
        default=0,
        help="Wait while InnoDB's history is longer than this.",
    ),
    option(
        "--max-checkpoint-age",
        type=FiniteRange(0, 100),
        default=0.0,
        metavar="PERCENT",
        help="Wait while more of the redo log is in use than this.",
    ),
)
"""The options for what the migration waits for beside the server's load."""

yield_option = option(
    "--checksum-yield-timeout",
    type=Duration(least=1),
    default="1h",
    show_default=True,
    help="Age at which the checksum gives its snapshot back and takes a new one.",
)
"""The option for the age of the checksum's snapshots."""

statement_writes_option = option(
    "--pass-statement-writes",
    "passable",
    multiple=True,
    type=TableName(),
    metavar="SCHEMA.TABLE",
    help="Pass over other clients' writes in STATEMENT format to this table: state that none"
    " of them changes a table that is migrated or followed; repeatable.",
)
"""The option that names tables whose writes in STATEMENT format may be passed over."""

docs_option = option(
    "--docs-url",
    type=HttpUrl(),
    default="",
    metavar="URL",
    expose_value=False,
    callback=keep_docs_url,
    help="Where your team has this program's documentation as a site; errors then name the page"
    " there, too.",
)
"""The option for the address of the pages about errors."""

"""``spirit-py migrate`` and ``plan`` with ``--servers``: one change on many servers."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from spirit_py.classes import replace
from spirit_py.cli import outcome
from spirit_py.cli.changes import batch_config, read_statements, settings
from spirit_py.cli.configfile import is_of_file
from spirit_py.cli.display import OF_A_RUN, records_of, reporters_of, tell_end
from spirit_py.cli.values import complete, connection_of
from spirit_py.command_config import FleetConfig, FleetServer
from spirit_py.config import SparkConfig
from spirit_py.errors import SpiritError, UsageFault
from spirit_py.events.event import teller
from spirit_py.fleet.servers import of_command, of_file
from spirit_py.statement import alter_of, parse_statement
from spirit_py.statement.lexer import SqlMode
from spirit_py.statement.parse import read_script
from spirit_py.table.names import digest_of
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.command_config import BatchConfig
    from spirit_py.fleet.records import FleetMember
    from spirit_py.fleet.servers import Server

_IN_THE_LIST: Final = "write it into the list of servers"
#: What each server has for itself, and where it is said.
_OF_ONE: Final = {
    **dict.fromkeys(("host", "port", "socket", "dsn", "replicas"), _IN_THE_LIST),
    "on_replica": "rehearse on one replica with spirit-py migrate --host",
}
#: What an entry may have for an account of its own, in the option files.
_ACCOUNTS: Final = frozenset({"login_path", "defaults_group_suffix"})
_MOST_TASKS: Final = 256
#: No name of a schema is empty, and none ends with a space.
_ANY_SCHEMA: Final = " "


def fleet_config(options: dict[str, Any]) -> FleetConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    listed = of_file(options["servers"]) if options["servers"] else None
    servers = listed if listed is not None else of_command(options["servers_from"])
    _refuse_one_server(options)
    if options["archive_to"] and options["spark_master"]:
        raise UsageFault(
            "--archive-to does not go with --servers and --spark-master: Spark's tasks have no"
            " Spark to write files with",
            hint="leave --spark-master out",
        )
    _require_change(options)
    asked = dict(options)
    statements = _statements(asked)
    asked["spark_master"] = ""
    alone = asked | dict.fromkeys(OF_A_RUN)
    _require_folders(options, servers)
    parts = tuple(_part(one, alone, statements) for one in servers)
    identity = _identity(parts[0].batch)
    parts = tuple(replace(one, batch=replace(one.batch, fleet=identity)) for one in parts)
    master = options["spark_master"] or ""
    spark = SparkConfig(
        threads=min(len(servers), _MOST_TASKS),
        spark_master=master,
        spark_conf=parts[0].batch.each.spark_conf if master else (),
        spark_ui=bool(options["spark_ui"]),
        verbose=bool(options["verbose"]),
    )
    return FleetConfig(
        servers=parts,
        asked=_asked(options),
        canary=options["canary"],
        waves_by=_label(options["waves_by"], servers, "--waves-by"),
        at_once=options["servers_at_once"],
        at_once_of=tuple(_limit(text, servers) for text in options["at_once_of"]),
        stop_after=options["stop_after"],
        spark=spark,
        records=records_of(options),
    )


def _require_change(options: dict[str, Any]) -> None:
    if options["statement"] or options["statements"] is not None:
        return
    if not (options["table"] or options["tables"]):
        raise UsageFault(
            "the change is not clear: neither a table nor a statement is given",
            hint="add --table with --alter, --tables, --statement or --statements",
        )
    if not (options["alter"] or options["keep"]):
        raise UsageFault(
            "--alter is missing: nothing says how to change the table",
            hint='write the change, such as --alter "ADD COLUMN note VARCHAR(200)"',
        )


def _refuse_one_server(options: dict[str, Any]) -> None:
    """Refuse what the command itself says of one server; defaults for other commands may stay."""
    context = click.get_current_context(silent=True)
    for name in _OF_ONE:
        source = context.get_parameter_source(name) if context is not None else None
        known = context is not None and source is not None
        if options.get(name) and (not known or source is ParameterSource.COMMANDLINE):
            raise UsageFault(
                f"--{name.replace('_', '-')} is of one server, and there are many",
                hint=_OF_ONE[name],
            )


def _require_folders(options: dict[str, Any], servers: tuple[Server, ...]) -> None:
    folders = Counter(_folder(one) for one in servers)
    twice = next((one for one, count in folders.items() if count > 1), "")
    if options["archive_to"] and twice:
        raise UsageFault(
            f"two servers would archive into the same folder, {twice}",
            hint="give them names that differ by letters or digits",
        )


def _folder(server: Server) -> str:
    """Return the folder of a server's archives: its name, with other characters replaced."""
    return re.sub(r"[^\w.-]", "_", server.name)


def _statements(asked: dict[str, Any]) -> str:
    """Return the statements of a file or of ``--statement``; take them out of the options."""
    if asked["statement"]:
        if asked["statements"] is not None:
            raise UsageFault(
                "--statement and --statements do not go together", hint="leave one of them out"
            )
        if asked["table"] or asked["alter"] is not None:
            raise UsageFault(
                "the change is not clear: give either --statement, or --table with --alter",
                hint="spirit-py migrate --help shows an example",
            )
        text = f"{asked['statement'].rstrip().removesuffix(';')};\n"
        if len(list(read_script(text, SqlMode.of("")))) > 1:
            raise UsageFault(
                "several statements in --statement are cut over at the same moment, which --servers"
                " does not do",
                hint="--statements FILE makes one after the other; --table or one statement is one"
                " change",
            )
        asked["statement"] = None
        return text
    if asked["statements"] is None:
        return ""
    text = read_statements(asked["statements"])
    asked["statements"] = None
    return text


def _identity(batch: BatchConfig) -> str:
    """Return by what a change for many servers is known: the same for what is the same batch.

    Names without a schema are in another one on each server. What another sql_mode reads in another
    way is settled by the records: a command that carries on gives all of them its own.
    """
    modes, mode = batch.each.modes, batch.each.modes.sql_mode or ""
    change = [batch.each.alter, *batch.statements.split()]
    with contextlib.suppress(SpiritError):
        if batch.patterns:
            change = [alter_of("", "", batch.each.alter, sql_mode=mode).normalized]
        else:
            change = sorted(
                one.normalized
                for found in read_script(batch.statements, SqlMode.of(mode))
                for one in parse_statement(found.text, found.schema or _ANY_SCHEMA, sql_mode=mode)
            )
    return digest_of((sorted(batch.patterns), change, modes.options, modes.keep))


def _part(server: Server, options: dict[str, Any], statements: str) -> FleetServer:
    own = _reached(server, options)
    if own["archive_to"]:
        own["archive_to"] = f"{own['archive_to'].rstrip('/')}/{_folder(server)}"
    with _naming(server):
        complete(own)
        if own["table"] and not own["tables"] and not statements:
            own = _as_pattern(own)
        config = batch_config(own, settings(own), listed=statements)
    return FleetServer(
        name=server.name,
        batch=config,
        labels=server.labels,
        schema=server.schema,
    )


def _reached(server: Server, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for one server: how it is reached is in its entry alone."""
    nowhere: dict[str, Any] = dict.fromkeys(("host", "port", "socket", "on_replica"))
    nowhere["dsn"] = {}
    if _ACCOUNTS.intersection(server.options):
        # A default of a file for all servers is not to hide the account of this one.
        nowhere |= {name: "" for name in _ACCOUNTS if is_of_file(name)}
        nowhere |= {"user": None} if is_of_file("user") else {}
    own = options | nowhere | dict(server.options)
    of_list = {server.options.get("database"), own["dsn"].get("database")} - {None, ""}
    typed = {options["database"]} - {None, ""} if not is_of_file("database") else set()
    if len(of_list | typed) > 1:
        raise UsageFault(
            f"{server.name}: two schemas: {' and '.join(sorted(of_list | typed))}, in"
            f" {'--database and ' if typed else ''}the list",
            hint="leave one of them out",
        )
    own["database"] = next(iter(of_list), options["database"])
    if "replicas" in options:
        own["replicas"] = server.options.get("replicas", ())
    return own


def _as_pattern(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of one table as those of a batch of it."""
    if not options["database"]:
        raise UsageFault(
            f"the schema of table {options['table']} is not given",
            hint="add --database, or give each server of the list its database",
        )
    # Without its schema: so it is the same change on servers that have it in another one.
    quoted = f"`{options['table'].replace('`', '``')}`"
    return options | {"table": None, "tables": (quoted,)}


def _asked(options: dict[str, Any]) -> str:
    what = options["statement"] or (options["statements"] and f"{options['statements']}") or ""
    tables = ", ".join(options["tables"]) or options["table"] or ""
    return what or f"{tables}: {options['alter'] or options['keep']}"


def _label(name: str, servers: tuple[Server, ...], flag: str) -> str:
    if name and not any(name in one.labels for one in servers):
        known = sorted({label for one in servers for label in one.labels})
        raise UsageFault(
            f"{flag} {name}: no server of the list has this label",
            hint=f"labels of the list: {', '.join(known) or 'none'}",
        )
    return name


def _limit(text: str, servers: tuple[Server, ...]) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not equals or not number.isdecimal() or int(number) < 1:
        raise UsageFault(
            f"--at-once-of {text!r} is not LABEL=NUMBER", hint="write for instance region=2"
        )
    return _label(name, servers, "--at-once-of"), int(number)


def control(
    options: dict[str, Any],
    request_of: Callable[[dict[str, Any]], tuple[str, dict[str, str]]],
) -> int:
    """Carry out ``spirit-py ctl --fleet``; return the exit code."""
    _refuse_one_server(options)
    from spirit_py.fleet import orders, report

    members = tuple(_member(one, options) for one in of_file(options["fleet"]))
    if options["verb"] == "status":
        found = report.status_of(members, options["table"] or "")
        if options["as_json"]:
            outcome.show_document(found)
        else:
            outcome.show_lines(report.lines_of(found))
        return 0 if any(one["begun"] for one in found) else 1
    said: list[str] = []
    say, table = said.append if options["as_json"] else outcome.tell_out, options["table"] or ""
    verb: str = options["verb"]
    arguments: dict[str, str] = {}
    if verb == "forget":
        orders.forget_fleet(members, table=table, say=say)
    else:
        kept = [text for text in options["values"] if text.startswith(f"{orders.AT_ONCE}=")]
        others = tuple(text for text in options["values"] if text not in kept)
        if not (verb == "set" and kept and not others):
            verb, arguments = request_of(options | {"values": others})
        arguments |= dict(text.split("=", 1) for text in kept) if verb == "set" else {}
        orders.order_fleet(members, table=table, verb=verb, arguments=arguments, say=say)
    if options["as_json"]:
        outcome.tell_request(verb, arguments, said)
    return 0


def _member(server: Server, options: dict[str, Any]) -> FleetMember:
    from spirit_py.fleet.records import FleetMember

    own = _reached(server, options)
    with _naming(server):
        complete(own)
        connection = connection_of(own)
    return FleetMember(
        name=server.name,
        connection=connection,
        database=own["database"],
        schema=server.schema,
    )


@contextlib.contextmanager
def _naming(server: Server) -> Iterator[None]:
    """Name the server whose options are wrong."""
    try:
        yield
    except UsageFault as fault:
        raise UsageFault(f"{server.name}: {fault.message}", hint=fault.hint) from fault


def run(options: dict[str, Any], shown: ErrorsShown) -> int:
    """Look at all servers, ask whether it is meant, change them, and return the exit code."""
    config = fleet_config(options)
    from spirit_py.fleet.entry import refuse, reported, run_fleet
    from spirit_py.fleet.planning import plan_fleet, tell_fleet_plan
    from spirit_py.signals import ended_by_sigterm

    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    with reported(config, reporter):
        with ended_by_sigterm(hint=outcome.ONLY_PLANNED):
            plan = plan_fleet(config)
            tell_fleet_plan(plan, config, teller(reporter.event))
            refuse(config, plan)
            if plan.left and not (options["yes"] or options["dry_run"]):
                servers = counted(len(plan.left), "server")
                hint = "take servers from the list, or see spirit-py plan with the same options"
                log_format = config.records.log_format
                outcome.require_agreed(f"{servers} would be changed", servers, hint, log_format)
        report = run_fleet(config, plan, reporter=reporter, gate=reporter.gate)
    return tell_end(report, report.summary(), reporter, config.records.log_format)


def show_plan(options: dict[str, Any]) -> int:
    """Show the plan of all servers; write nothing; return the exit code."""
    from spirit_py.fleet.planning import plan_fleet, tell_fleet_plan

    config = fleet_config(options)
    plan = plan_fleet(config, sample=bool(options["sample"]))
    if options["format"] == "json":
        outcome.show_document(plan.to_dict(config))
    else:
        lines: list[str] = []
        tell_fleet_plan(plan, config, lambda event: lines.append(event.sentence))
        outcome.show_lines(lines)
    return 2 if plan.is_refused(config) else 0

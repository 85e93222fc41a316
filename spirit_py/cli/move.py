"""``spirit-py move``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal

from spirit_py.cli.changes import settings
from spirit_py.cli.checksum import target_connection
from spirit_py.cli.configfile import is_typed
from spirit_py.cli.display import reporters_of, tell_summary
from spirit_py.cli.groups import command
from spirit_py.cli.migrate import show_plan, warn_of_unused
from spirit_py.config import MOST_SHARDS, SHARD_NAME, MigrationConfig, MoveConfig, Shard
from spirit_py.errors import UsageFault
from spirit_py.options.commands import MoveCommand

if TYPE_CHECKING:
    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.config import ConnectionOptions

MOVE_EXIT_CODES: Final = """\b
Exit codes:
  0    the tables are on the target, or the plan is shown
  1    failed; the same command resumes, or starts from the beginning
  2    refused: nothing was written
  3    it is not known whether the tables were switched; the same command finds out
  130  interrupted by SIGINT      143  by SIGTERM"""
#: What ``migrate`` has, and a move does not.
_NOT_ASKED: Final = {
    **dict.fromkeys(("archive_by", "archive_to", "keep", "native"), None),
    **dict.fromkeys(("no_shortcut", "on_replica", "tag_own_writes"), False),
}


@command(MoveCommand, MOVE_EXIT_CODES, document="format")
def move(shown: ErrorsShown, options: dict[str, Any]) -> int:
    """Move tables to another server while they are written.

    The rows are copied there, the binary log keeps them current, a comparison of both servers
    proves them; then the tables are renamed away here, under a lock, and your command sends the
    application to the target.

    \b
    spirit-py move --host db1 --target-host db2 --tables shop.orders \\
        --on-switch ./send-application-to-db2
    """  # noqa: D301 - click reads the backspace
    config = move_config(options)
    if options["plan"]:
        from spirit_py.move.planning import plan_move

        warn_of_unused(options)
        return show_plan(plan_move(config, sample=options["sample"]), options["format"])
    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    from spirit_py.move import move as moving

    report = moving.move(config, reporter=reporter, gate=reporter.gate)
    tell_summary(report.summary(warnings=reporter.warnings), reporter)
    return 0


def move_config(options: dict[str, Any]) -> MoveConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    if not options["tables"]:
        raise UsageFault(
            "--tables is missing: nothing says what is moved",
            hint="write for instance --tables shop.orders",
        )
    if options["on_switch"] is not None and not options["on_switch"].strip():
        raise UsageFault(
            "--on-switch is empty: nothing would send the application to the target",
            hint="write a command; or leave it out, and send the application there yourself",
        )
    given = settings({**options, **_NOT_ASKED})
    shards = _shards("target", options, given.connection)
    sources = _shards("source", options, given.connection)
    _require_one_way_back(options)
    if shards and sources:
        raise UsageFault(
            "--source and --target are both given",
            hint="move to one server with --target-host, and from there to several",
        )
    target = shards[0].connection if shards else target_connection(options, given.connection)
    if sources and (options["target_host"] or options["target_socket"]):
        # Without --host the options for the source name no server.
        target = target or given.connection
    if target is None or target in {one.connection for one in sources}:
        raise UsageFault(
            "the target is not given, or is the source",
            hint="name another server with --target-host",
        )
    alike = {one.name: getattr(given, one.name) for one in fields(MigrationConfig)}
    return MoveConfig(
        **alike
        | {
            "connection": sources[0].connection if sources else given.connection,
            "target": target,
            "defer_indexes": "off",
            "patterns": options["tables"],
            "exclude": options["exclude"],
            "excludes_surely": is_typed("exclude"),
            "on_switch": options["on_switch"] or "",
            "switch_timeout": options["switch_timeout"],
            "shards": shards,
            "sources": sources,
            "shard_by": (options["shard_by"] or "") if shards or sources else "",
        }
    )


def _require_one_way_back(options: dict[str, Any]) -> None:
    """Refuse reverse replication between more than two servers."""
    several = {"targets": "sources", "sources": "targets"}
    for kind, other in several.items():
        if options["keep_old_current"] and options[kind[:-1]]:
            raise UsageFault(
                f"--keep-old-current does not go with --shard-by: of a move with several {kind} the"
                f" way back would have several {other}, and reverse replication has one",
                hint="leave it out, or give 0s: the source's table stays as _TABLE_moved, as it was"
                " at the switch, and spirit-py move leads back",
            )


def _shards(
    kind: Literal["target", "source"], options: dict[str, Any], base: ConnectionOptions
) -> tuple[Shard, ...]:
    """Return the servers of --target, or of --source; none where there is one without a name."""
    given, alone = options[kind], "target_" if kind == "target" else ""
    if given and (options[f"{alone}host"] or options[f"{alone}socket"]):
        option = f"{alone}host".replace("_", "-")
        raise UsageFault(
            f"--{kind} and --{option} are both given", hint=f"name all {kind}s with --{kind}"
        )
    # What the address of a source leaves out is as the options say that all sources have.
    of_target = [name for name in options if name.startswith("target_")]
    common = options if alone else {**options, **dict.fromkeys(of_target)}
    found: list[Shard] = []
    for text in given:
        name, separator, address = text.partition("=")
        if not (separator and address and SHARD_NAME.fullmatch(name)):
            # Without a name all of it may be an address with a password (R20).
            shown = repr(f"{name}=...") if separator and "://" not in name else "..."
            raise UsageFault(
                f"--{kind} {shown} is not NAME=HOST[:PORT]",
                hint=f"write for instance --{kind} eu=db2:3306",
            )
        # The server may find names equal that differ in their letters only.
        if name.lower() in {one.name.lower() for one in found}:
            raise UsageFault(f"two {kind}s are named {name}", hint="give each its own name")
        connection = target_connection({**common, **_reached(kind, name, address)}, base)
        if connection is None and alone:
            raise UsageFault(
                f"the target {name} is the source", hint="name another server for each shard"
            )
        found.append(Shard(name=name, connection=connection or base))
    if len(found) > MOST_SHARDS:
        raise UsageFault(f"{len(found)} {kind}s are named", hint=f"name {MOST_SHARDS} at most")
    return tuple(sorted(found, key=lambda one: one.name))


def _reached(kind: str, name: str, address: str) -> dict[str, Any]:
    """Return the options of the server that an address stands for; errors never show it (R20)."""
    if "://" not in address:
        if "@" in address or "/" in address:
            raise UsageFault(
                f"the address of the {kind} {name} is neither HOST[:PORT] nor a URL",
                hint="write for instance db2:3306, or mysql://user@db2:3306",
            )
        return {"target_host": address}
    from spirit_py.mysql.option_files import read_dsn

    try:
        read = read_dsn(address)
    except UsageFault as fault:
        fault.message = fault.message.replace("--dsn", f"the address of the {kind} {name}")
        raise
    if "database" in read:
        raise UsageFault(
            f"--{kind} names a schema", hint="leave it out: tables keep their schemas in a move"
        )
    given: dict[str, Any] = {
        f"target_{name.replace('-', '_')}": value for name, value in read.items()
    }
    return given | ({"target_port": int(read["port"])} if "port" in read else {})

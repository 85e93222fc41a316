"""From the options of ``migrate`` and ``plan`` to the configuration of a change."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spirit_py.cli.configfile import is_typed
from spirit_py.cli.display import records_of
from spirit_py.cli.values import complete, connection_of, named_alike
from spirit_py.command_config import BatchConfig
from spirit_py.config import FeedOptions, MigrationConfig, SessionModes
from spirit_py.errors import UsageFault
from spirit_py.records import RecordOptions, everybody_may_write
from spirit_py.table.names import LOCAL, is_local
from spirit_py.units import host_and_port

BATCH: Final = ("tables", "statements")
#: Whether these were named matters, not only what they are; the last one by the command itself.
_NAMED: Final = ("max_lag", "min_free_disk", "drop_old_after")
#: Have the rows copied.
_COPYING: Final = ("no_shortcut", "keep_old_current", "defer_cutover", "keep")
_REBUILT: Final = "FORCE"
"""What ``--keep`` alone does to the definition: nothing."""
_LARGEST_FILE: Final = 16 << 20


def batch_config(
    options: dict[str, Any], each: MigrationConfig, *, listed: str = ""
) -> BatchConfig:
    """Build the configuration of a batch, perhaps of ``listed`` statements; raises UsageFault."""
    _require_one_way(options | {"statements": listed or options["statements"]})
    _refuse_what_waits(each)
    if options["parallel"] > each.threads:
        raise UsageFault(
            f"--parallel {options['parallel']} needs as many slots, and --threads is"
            f" {each.threads}: each migration takes one at least",
            hint="raise --threads: it is of all migrations together",
        )
    file = options["statements"]
    return BatchConfig(
        each=replace(
            each,
            records=RecordOptions(),
            alter=_REBUILT if options["tables"] and not each.alter else each.alter,
        ),
        patterns=options["tables"],
        exclude=options["exclude"],
        excludes_surely=is_typed("exclude"),
        statements=listed if file is None else read_statements(file),
        file=("the given list" if listed else "") if file is None else str(file),
        parallel=options["parallel"],
        on_failure=options["on_failure"],
        records=each.records,
    )


def _require_one_way(options: dict[str, Any]) -> None:
    one_table = next((name for name in ("table", "statement") if options[name]), "")
    batch = next((name for name in BATCH if options[name]), "")
    if not batch:
        raise UsageFault("no tables are given", hint="give tables or statements")
    if one_table:
        raise UsageFault(
            f"--{one_table} and --{batch} do not go together",
            hint=f"leave --{one_table} out: --{batch} names the tables",
        )
    if options["tables"] and options["statements"]:
        raise UsageFault(
            "--tables and --statements do not go together", hint="use one command for each"
        )
    if options["tables"] and not (options["alter"] or options["keep"]):
        raise UsageFault("--tables and --alter go together", hint="add --alter")
    if options["statements"] and options["alter"]:
        raise UsageFault("--alter goes with --tables", hint="the file has whole statements")


def _refuse_what_waits(each: MigrationConfig) -> None:
    if each.keep_old_current:
        raise UsageFault(
            "--keep-old-current does not go with many tables: each would be followed for that time"
            " before the next one begins",
            hint="use one command for each table that must be swapped back; --keep-old-current 0s"
            " takes a default back",
        )
    if each.drop_old_after and not math.isinf(each.drop_old_after):
        raise UsageFault(
            "--drop-old-after with a time does not go with many tables: each would wait for it"
            " before the next one begins",
            hint="use --drop-old-after never, and spirit-py cleanup --drop-old later",
        )


def read_statements(file: Path) -> str:
    """Read a file of statements; raises UsageFault."""
    if everybody_may_write(file):
        raise UsageFault(
            f"the file of statements {file} is world-writable, and they are executed",
            hint=f"chmod o-w {file}",
        )
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise UsageFault(
                f"{file} is larger than {_LARGEST_FILE >> 20} MiB", hint="part it into several"
            )
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFault(
            f"the statements cannot be read: {error}", hint="name a file of text in UTF-8"
        ) from error


def migration_config(options: dict[str, Any]) -> MigrationConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    if options["keep"] and options["alter"] is None and not options["statement"]:
        options["alter"] = _REBUILT
    clauses = options["table"] or options["alter"]
    nothing = not options["statement"] and not options["table"] and options["alter"] is None
    if nothing or (options["statement"] and clauses):
        raise UsageFault(
            "the change is not clear: give either --statement, or --table with --alter",
            hint="spirit-py migrate --help shows an example",
        )
    if not options["statement"] and not options["alter"]:
        how = "missing" if options["alter"] is None else "empty"
        raise UsageFault(
            f"--alter is {how}: nothing says how to change the table",
            hint='write the change, such as --alter "ADD COLUMN note VARCHAR(200)"',
        )
    if not options["statement"] and not options["table"]:
        raise UsageFault(
            "--table is missing: --alter goes with the table that it changes",
            hint="add --table; a whole ALTER TABLE statement goes with --statement",
        )
    config = settings(options)
    if config.table and not config.database:
        schema, _, name = config.table.partition(".")
        words = shlex.join(["--database", schema, "--table", name])
        hint = f"write {words}" if schema and name else "add --database"
        raise UsageFault(f"the schema of table {config.table} is not given", hint=hint)
    return config


def settings(options: dict[str, Any]) -> MigrationConfig:
    """Build the configuration but for what is changed; raises UsageFault."""
    complete(options)
    _let_defaults_give_way(options)
    if options["dry_run"] and (options["defer_cutover"] or options["keep_old_current"]):
        raise UsageFault(
            "--dry-run swaps nothing: --defer-cutover and --keep-old-current do not go with it",
            hint="leave them out of the rehearsal",
        )
    copying = [name for name in _COPYING if options[name]]
    if options["native"] and copying:
        flag = f"--{copying[0].replace('_', '-')}"
        raise UsageFault(
            f"--native has no effect with {flag}, which has the rows copied",
            hint="leave one of them out",
        )
    require_archive(options)
    if options["archive_to"] and not options["keep"]:
        raise UsageFault(
            "--archive-to goes with --keep: it archives the rows that are not kept",
            hint="spirit-py archive writes all rows of a table",
        )
    if options["allow_zero_dates"] and options["sql_mode"] is not None:
        raise UsageFault(
            "--allow-zero-dates takes two modes from the server's sql_mode, and --sql-mode replaces"
            " all of it",
            hint="give one of them: --sql-mode without NO_ZERO_DATE and NO_ZERO_IN_DATE, or only"
            " --allow-zero-dates",
        )
    for replica in options["replicas"]:
        host_and_port(replica)
    alike = named_alike(MigrationConfig, options)
    if alike.get("max_lag") == 0:
        alike["max_lag"] = None
    connection = connection_of(options)
    if options["on_replica"] and options["dry_run"]:
        host, port = host_and_port(options["on_replica"])
        connection = replace(
            connection, host=host, port=port or connection.port, socket="", unlogged=True
        )
        # What is written past the binary log reaches no replica, whose lag could be measured by it.
        alike["max_lag"] = None
    return MigrationConfig(
        connection=connection,
        feed=_feed_options(options),
        modes=_modes(options),
        writes_files=bool(options["archive_to"]),
        records=records_of(options),
        named=frozenset(
            name
            for name in _NAMED
            if options[name] is not None and (name != "drop_old_after" or is_typed(name))
        ),
        **alike | {"allow": tuple(window for given in options["allow"] for window in given)},
    )


def _let_defaults_give_way(options: dict[str, Any]) -> None:
    """Take out defaults that do not go with this run, where the run loses no protection by that."""
    giving = []
    if options["dry_run"]:
        giving += ["defer_cutover", "keep_old_current"]
    if options["native"] and any(options[name] for name in _COPYING):
        giving.append("no_shortcut" if is_typed("native") else "native")
    if not options["keep"]:
        giving += ["archive_to", "archive_by"]
    if options["allow_zero_dates"] and options["sql_mode"] is not None:
        giving.append("allow_zero_dates" if is_typed("sql_mode") else "sql_mode")
    for name in giving:
        if not is_typed(name):
            options[name] = False if options[name] is True else None


def _modes(options: dict[str, Any]) -> SessionModes:
    if options["keep"] is not None and not options["keep"].strip():
        raise UsageFault(
            "--keep is empty: every row would stay", hint="write an expression, or leave it out"
        )
    given = options["sql_mode"]
    if given is not None:
        given = ",".join(filter(None, (mode.strip().upper() for mode in given.split(","))))
    return SessionModes(
        sql_mode=given,
        allow_zero_dates=options["allow_zero_dates"],
        innodb_strict_mode=options["innodb_strict_mode"] or "",
        keep=options["keep"] or "",
    )


def _feed_options(options: dict[str, Any]) -> FeedOptions:
    if not options["tag_own_writes"]:
        return FeedOptions(passable=options["passable"])
    from spirit_py.mysql.own_sessions import new_run

    return FeedOptions(own_writes=new_run(), passable=options["passable"])


def require_archive(options: dict[str, Any]) -> None:
    """Refuse an empty folder of an archive, and one that depends on where a command is given.

    The same command has to carry on with the same archive, from any directory.
    """
    path = options["archive_to"]
    if path is not None and not path.strip():
        raise UsageFault(
            "--archive-to is empty: nothing would be archived",
            hint="name a folder, or leave it out",
        )
    if options["archive_by"] is not None and not options["archive_by"].strip():
        raise UsageFault("--archive-by is empty", hint="give an expression, or leave it out")
    if path and is_local(path) and not path.startswith(("/", LOCAL)):
        raise UsageFault(
            f"--archive-to {path} is another folder in another directory",
            hint=f"write {shlex.join(['--archive-to', str(Path(path).absolute())])}",
        )

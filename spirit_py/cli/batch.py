"""``spirit-py migrate --tables`` and ``--statements``: many tables, each by a migration."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.core import ParameterSource

from spirit_py.cli.display import reporters_of
from spirit_py.cli.outcome import can_ask, confirmed, leave_with, say, say_more
from spirit_py.codes import ErrorCode
from spirit_py.config import BatchConfig
from spirit_py.errors import Refusal, UsageFault
from spirit_py.events.event import teller
from spirit_py.events.run import Summary
from spirit_py.records import RecordOptions

if TYPE_CHECKING:
    from pathlib import Path

    from spirit_py.batch.plan import BatchPlan
    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.config import MigrationConfig
    from spirit_py.records import LogFormat

_BATCH: Final = ("tables", "statements")
_ONLY_BATCH: Final = ("exclude", "parallel", "on_failure", "yes")
_LARGEST_FILE: Final = 16 << 20


def is_batch(options: dict[str, Any]) -> bool:
    """Whether many tables are to be changed, each by a migration of its own.

    Raises:
        UsageFault: an option goes only with such a batch.
    """
    if any(options[name] for name in _BATCH):
        return True
    # A team's defaults for batches, from its configuration or the environment, hinder no other.
    source = click.get_current_context().get_parameter_source
    given = [name for name in _ONLY_BATCH if source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise UsageFault(
            f"--{given[0].replace('_', '-')} goes with --tables or --statements",
            hint="leave it out, or add one",
        )
    return False


def batch_config(
    options: dict[str, Any], each: MigrationConfig, *, listed: str = ""
) -> BatchConfig:
    """Build the configuration of a batch.

    Args:
        each: what the other options say about every table.
        listed: statements that a program gives instead of a file.

    Raises:
        UsageFault: options are missing or contradict each other.
    """
    _require_one_way(options | {"statements": listed or options["statements"]})
    _refuse_what_waits(each)
    if options["parallel"] > each.threads:
        raise UsageFault(
            f"--parallel {options['parallel']} needs as many slots, and --threads is"
            f" {each.threads}: each migration takes one at least",
            hint="--threads is of all migrations together, and not above the cores of this machine"
            " unless --spark-master names a cluster",
        )
    file = options["statements"]
    return BatchConfig(
        each=replace(each, records=RecordOptions()),
        patterns=options["tables"],
        exclude=options["exclude"],
        statements=listed if file is None else _read(file),
        file=("the given list" if listed else "") if file is None else str(file),
        parallel=options["parallel"],
        on_failure=options["on_failure"],
        records=each.records,
    )


def _require_one_way(options: dict[str, Any]) -> None:
    """Raise UsageFault where it is not clear what is to be changed."""
    one_table = next((name for name in ("table", "statement") if options[name]), "")
    batch = next((name for name in _BATCH if options[name]), "")
    if not batch:
        raise UsageFault(
            "it is not said which tables are changed", hint="give tables or statements"
        )
    if one_table:
        raise UsageFault(
            f"--{one_table} and --{batch} do not go together",
            hint=f"leave --{one_table} out: --{batch} names the tables",
        )
    if options["tables"] and options["statements"]:
        raise UsageFault(
            "--tables and --statements do not go together", hint="use one command for each"
        )
    if options["tables"] and not options["alter"]:
        raise UsageFault("--tables and --alter go together", hint="add --alter")
    if options["statements"] and (options["alter"] or options["exclude"]):
        name = "alter" if options["alter"] else "exclude"
        raise UsageFault(f"--{name} goes with --tables", hint="leave it out: the file says it all")


def _refuse_what_waits(each: MigrationConfig) -> None:
    """Raise UsageFault for options with which a migration waits long after its swap."""
    if each.keep_old_current:
        raise UsageFault(
            "--keep-old-current does not go with many tables: each would be followed for that time"
            " before the next one begins",
            hint="use one command for each table that must be swapped back",
        )
    if each.drop_old_after and not math.isinf(each.drop_old_after):
        raise UsageFault(
            "--drop-old-after with a time does not go with many tables: each would wait for it"
            " before the next one begins",
            hint="use --drop-old-after never, and spirit-py cleanup --drop-old later",
        )


def _read(file: Path) -> str:
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


def run(config: BatchConfig, shown: ErrorsShown, *, yes: bool) -> NoReturn:
    """Show the plan, ask whether it is meant, carry it out, and leave with the exit code."""
    from spirit_py.batch import plan_batch, reported, run_batch
    from spirit_py.batch.plan import tell_plan

    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    tell = teller(reporter.event)
    with reported(config, reporter):
        plan = plan_batch(config)
        tell_plan(plan, tell)
        refused = plan.refused and config.on_failure == "stop"
        if not (yes or config.each.dry_run or refused):
            _require_agreed(plan, config.records.log_format)
        report = run_batch(config, plan, reporter=reporter, gate=reporter.gate)
    for line in report.summary():
        tell(Summary(said=line))
    if report.error and config.records.log_format == "text":
        say(f"error: {report.error}")
        if report.hint:
            say(f"hint: {report.hint}")
        say_more([report.error_code])
    leave_with(report.exit_code)


def _require_agreed(plan: BatchPlan, log_format: LogFormat) -> None:
    """Ask whether the tables are those that are meant, where patterns have chosen them.

    Raises:
        Refusal: the operator says no, or cannot be asked.
    """
    if not plan.asks:
        return
    if not can_ask(log_format):
        raise Refusal(
            f"patterns have chosen {len(plan.left)} tables, and without a terminal nothing asks"
            " whether these are meant",
            hint="see the list above; to change these tables, add --yes",
            error_code=ErrorCode.NOT_CONFIRMED,
        )
    if not confirmed(f"Change these {len(plan.left)} tables?"):
        raise Refusal(
            "nothing was changed",
            hint="--exclude leaves tables out",
            error_code=ErrorCode.NOT_CONFIRMED,
        )

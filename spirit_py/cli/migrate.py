"""``spirit-py migrate`` and ``spirit-py plan``: one command line, carried out or looked at."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from spirit_py.cli import outcome
from spirit_py.cli.changes import BATCH, batch_config, migration_config, settings
from spirit_py.cli.display import OF_A_RUN, reporters_of, tell_end, tell_summary
from spirit_py.cli.groups import command
from spirit_py.cli.wrong_lines import warn
from spirit_py.errors import Refusal, UnfinishedWork
from spirit_py.events.event import teller
from spirit_py.options.commands import MigrateCommand, PlanCommand
from spirit_py.units import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.plan import Plan, PlanLine
    from spirit_py.status.report import MigrationReport
    from spirit_py.status.reporters import Reporters


def run(config: BatchConfig, shown: ErrorsShown, *, yes: bool) -> int:
    """Show the plan, ask whether it is meant, carry it out, and return the exit code."""
    from spirit_py.batch.entry import reported, run_batch
    from spirit_py.batch.plan import tell_plan
    from spirit_py.batch.planning import plan_batch
    from spirit_py.batch.report import refused_again
    from spirit_py.signals import ended_by_sigterm

    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    with reported(config, reporter):
        with ended_by_sigterm(hint=outcome.ONLY_PLANNED):
            plan = plan_batch(config)
            refused = plan.is_refused(config)
            tell_plan(plan, teller(reporter.event), causes=not refused)
            if plan.asks and not (yes or config.each.dry_run or refused):
                tables, log_format = counted(len(plan.left), "table"), config.records.log_format
                hint = "--exclude leaves tables out"
                what = "; ".join(plan.claims) or f"the patterns match {tables}"
                try:
                    outcome.require_agreed(what, tables, hint, log_format)
                except Refusal as refusal:
                    raise refused_again(refusal, written=plan.written) from refusal
        report = run_batch(config, plan, reporter=reporter, gate=reporter.gate)
    return tell_end(report, report.summary(), reporter, config.records.log_format)


@command(MigrateCommand, outcome.EXIT_CODES)
def migrate(shown: ErrorsShown, options: dict[str, Any]) -> int:
    """Change a table online.

    \b
    spirit-py migrate --host db1 --database shop --table orders \\
        --alter "ADD COLUMN note VARCHAR(200)"
    """  # noqa: D301 - click reads the backspace
    if options["servers"] or options["servers_from"]:
        from spirit_py.cli import fleet

        return fleet.run(options, shown)
    if any(options[name] for name in BATCH):
        return run(batch_config(options, settings(options)), shown, yes=options["yes"])
    config = migration_config(options)
    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    tell_summary(_migrate(config, reporter).summary(warnings=reporter.warnings), reporter)
    return 0


def _migrate(config: MigrationConfig, reporter: Reporters) -> MigrationReport:
    """Run the migration; ask on a terminal before copied rows are dropped, then try again."""
    from spirit_py.migration import entry

    try:
        return entry.migrate(config, reporter=reporter, gate=reporter.gate)
    except UnfinishedWork as refusal:
        if not outcome.can_ask(config.records.log_format):
            raise
        outcome.say(refusal.message)
        for line in refusal.details:
            outcome.say(f"  {line}")
        if not outcome.confirmed("Drop it, and begin with this migration?"):
            raise
    return entry.migrate(replace(config, start_afresh=True), reporter=reporter, gate=reporter.gate)


PLAN_EXIT_CODES: Final = """\b
Exit codes:
  0  the plan is shown
  1  the server stopped answering
  2  refused: the change could not be made as it is; the plan says why"""

_HANGING: Final = " " * 14
_NARROWEST: Final = 40


@command(PlanCommand, PLAN_EXIT_CODES, document="format")
def plan(_: ErrorsShown, options: dict[str, Any]) -> int:
    """Show what migrate would do with the same options, and why; write nothing.

    \b
    spirit-py plan --host db1 --database shop --table orders \\
        --alter "ADD COLUMN note VARCHAR(200)"
    """  # noqa: D301 - click reads the backspace
    warn_of_unused(options)
    if options["servers"] or options["servers_from"]:
        from spirit_py.cli import fleet

        return fleet.show_plan(options)
    return show_plan(_made(options), options["format"])


def show_plan(made: Plan, form: str) -> int:
    """Write a plan to standard output; return the exit code."""
    if form == "json":
        outcome.show_document(made.to_dict())
    else:
        from spirit_py.plan import text_of

        with outcome.output_errors():
            show(text_of(made))
    return 2 if made.refused else 0


for _one in plan.params:
    # Taken, so that a command line of migrate is one of plan, but of no use to its readers.
    if isinstance(_one, click.Option) and _one.name in OF_A_RUN:
        _one.hidden = True


def warn_of_unused(options: dict[str, Any]) -> None:
    """Warn of options that are given and record a run, of which there is none."""
    # A team's defaults for migrate, from its configuration, are no request to plan.
    context = click.get_current_context()
    unused = [
        one.opts[0]
        for one in context.command.params
        if one.name in OF_A_RUN
        and options[one.name]
        and context.get_parameter_source(str(one.name)) is not ParameterSource.DEFAULT_MAP
    ]
    if unused:
        warn(context, f"not used by plan, which runs nothing: {', '.join(unused)}")


def _made(options: dict[str, Any]) -> Plan:
    from spirit_py.plan import make_plan

    sample = options["sample"]
    if any(options[name] for name in BATCH):
        from spirit_py.batch.planning import plan_of_batch

        return plan_of_batch(batch_config(options, settings(options)), sample=sample)
    return make_plan(migration_config(options), sample=sample)


def show(lines: Iterable[PlanLine]) -> None:
    """Write lines to standard output: coloured and wrapped on a terminal."""
    from rich.console import Console
    from rich.text import Text

    from spirit_py.plan.text import STYLES

    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines:
        whole = one_line(text)
        parts = [whole]
        fits = console.width >= _NARROWEST and not outcome.HAS_COMMAND.search(whole)
        if console.is_terminal and fits:
            parts = textwrap.wrap(
                whole,
                console.width,
                subsequent_indent=_HANGING,
                drop_whitespace=False,
                break_on_hyphens=False,
            )
        for part in parts or [""]:
            console.print(Text(part, style=STYLES[style]))

"""``spirit-py plan``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import click

from spirit_py.cli.groups import command
from spirit_py.cli.migrate import batch_config, is_batch, migration_config, settings
from spirit_py.cli.outcome import output_errors, show_document
from spirit_py.cli.wrong_lines import warn
from spirit_py.options.commands import PlanCommand
from spirit_py.units import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.plan import Plan, PlanLine

PLAN_EXIT_CODES: Final = """\b
Exit codes:
  0  the plan is shown
  1  the server stopped answering
  2  refused: the change could not be made as it is; the plan says why"""

_OF_A_RUN: Final = frozenset(
    {"report_json", "report_html", "metrics_listen", "metrics_file", "on_event", "hook_veto"}
)
_HANGING: Final = " " * 14
_NARROWEST: Final = 40


@command(PlanCommand, PLAN_EXIT_CODES, document="format")
def plan(_: ErrorsShown, options: dict[str, Any]) -> int:
    """Show what migrate would do with the same options, and why; write nothing.

    \b
    spirit-py plan --host db1 --database shop --table orders \\
        --alter "ADD COLUMN note VARCHAR(200)"
    """  # noqa: D301 - click reads the backspace
    if unused := _unused(options):
        text = f"not used by plan, which runs nothing: {', '.join(unused)}"
        warn(click.get_current_context(), text)
    made = _made(options)
    if options["format"] == "json":
        show_document(made.to_dict())
    else:
        from spirit_py.plan import text_of

        with output_errors():
            show(text_of(made))
    return 2 if made.refused else 0


def _unused(options: dict[str, Any]) -> list[str]:
    """Return the options that are given and record a run, of which there is none."""
    given = (one for one in plan.params if one.name in _OF_A_RUN and options[one.name])
    return [one.opts[0] for one in given]


def _made(options: dict[str, Any]) -> Plan:
    """Make the plan of one statement, or of a batch."""
    from spirit_py.plan import make_plan

    sample = options["sample"]
    if is_batch(options):
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
        if console.is_terminal and console.width >= _NARROWEST:
            parts = textwrap.wrap(
                whole,
                console.width,
                subsequent_indent=_HANGING,
                drop_whitespace=False,
                break_on_hyphens=False,
            )
        for part in parts or [""]:
            console.print(Text(part, style=STYLES[style]))

"""The sections in which ``--help`` shows the options, with what is needed first at the top."""

from __future__ import annotations

from typing import Any, Final

import click

OUTPUT: Final = "Output"
"""The section with ``--help`` itself."""
_OTHERS: Final = "General"
EXAMPLE: Final = "--max-lag as SPIRIT_PY_MAX_LAG"
"""How an option is written in the environment."""


class SectionedOption(click.Option):
    """An option in a section.

    Args:
        section: its title.
    """

    def __init__(self, *names: Any, section: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose ``--help`` shows options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        for title, options in in_sections(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl([record for _, record in options])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what holds for all options, then the epilog."""
        formatter.write_paragraph()
        formatter.write_text(f"Options can also be set in the environment: {EXAMPLE}.")
        super().format_epilog(ctx, formatter)


def in_sections(
    command: click.Command, context: click.Context
) -> dict[str, list[tuple[click.Option, tuple[str, str]]]]:
    """Return the options of a command by their sections, each as it is written, with its text."""
    found: dict[str, list[tuple[click.Option, tuple[str, str]]]] = {}
    for one in command.get_params(context):
        if isinstance(one, click.Option) and (record := one.get_help_record(context)) is not None:
            others = OUTPUT if OUTPUT in found else _OTHERS
            title = one.section if isinstance(one, SectionedOption) else others
            found.setdefault(title, []).append((one, record))
    return found

"""The command line: options to a frozen configuration, errors to a message, a hint, an exit code.

One module a command; ``groups`` has the options that they share, ``values`` how these are read,
``outcome`` how a command ends. Large modules are imported only when a command runs.
"""

from __future__ import annotations

from pathlib import Path

import click

from spirit_py.cli import (
    checksum,
    cleanup,
    completion,
    ctl,
    explain,
    migrate,
    plan,
    revert,
    status,
    watch,
)
from spirit_py.cli.configfile import config_option
from spirit_py.cli.outcome import EXIT_CODES
from spirit_py.cli.version import version_option
from spirit_py.cli.wrong_lines import JsonAwareGroup


@click.group(
    "spirit-py",
    cls=JsonAwareGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="SPIRIT_PY_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=config_option,
    help="TOML file of defaults for options; read after /etc/spirit-py/config.toml and"
    " ~/.config/spirit-py/config.toml.",
)
@version_option
def main() -> None:
    """Change the schema of a busy MySQL table without blocking it, and prove it."""


main.add_command(migrate.migrate)
main.add_command(plan.plan)
main.add_command(ctl.ctl)
main.add_command(revert.revert)
main.add_command(checksum.checksum)
main.add_command(watch.watch)
main.add_command(status.status)
main.add_command(cleanup.cleanup)
main.add_command(explain.explain)
main.add_command(completion.completion)

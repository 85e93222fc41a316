"""``spirit-py completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "spirit-py"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands and options.

    \b
    spirit-py completion bash > /etc/bash_completion.d/spirit-py
    spirit-py completion zsh > "${fpath[1]}/_spirit-py"
    spirit-py completion fish > ~/.config/fish/completions/spirit-py.fish
    """  # noqa: D301 - click reads the backspace
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, _PROGRAM, "_SPIRIT_PY_COMPLETE").source())

"""``spirit-py explain``: the page about an error code; ``completion``: the script for a shell."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

import spirit_py
from spirit_py.classes import dataclass
from spirit_py.cli import outcome
from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.codes import ErrorCode
from spirit_py.errors import UsageFault
from spirit_py.options.commands import ExplainCommand

#: In a wheel the pages are part of the package, in a checkout they are in the documentation.
_INSTALLED: Final = "error_pages"
_CHECKOUT: Final = "docs/errors"
PHASES: Final = (
    "command", "connection", "preflight", "copy", "feed", "checksum", "swap", "after the swap",
    "control", "any",
)  # fmt: skip
"""When an error comes; in the order of a run."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page about a code, in Markdown; ``exits`` has 0 where it may be a warning."""

    code: ErrorCode
    summary: str
    exits: tuple[int, ...]
    phase: str
    text: str

    def fields(self) -> dict[str, Any]:
        """Return what ``--json`` shows of it."""
        return {
            "code": self.code,
            "summary": self.summary,
            "phase": self.phase,
            "exit_codes": [one for one in self.exits if one],
            "warning": 0 in self.exits,
            "page": self.text,
        }


def read_page(code: ErrorCode) -> Page:
    """Read the page about a code; only a damaged installation has none (OSError)."""
    package = Path(spirit_py.__file__).parent
    folder = package / _INSTALLED
    if not folder.is_dir():
        folder = package.parent / _CHECKOUT
    _, head, text = (folder / f"{code}.md").read_text(encoding="utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return Page(
        code=code,
        summary=fields["summary"],
        exits=tuple(int(part) for part in fields["exit"].split(",")),
        phase=fields["phase"],
        text=text.strip(),
    )


@click.command(cls=SectionedCommand)
@click.argument(
    "codes",
    nargs=-1,
    metavar="[CODE]...",
    shell_complete=lambda _c, _p, begun: [str(one) for one in ErrorCode if one.startswith(begun)],
)
@options_of(ExplainCommand)
def explain(codes: tuple[str, ...], *, as_json: bool) -> None:
    """Explain an error: what it means, what is left on the server, what to do.

    \b
    spirit-py explain                  all codes
    spirit-py explain no-usable-key    the page about one
    spirit-py explain --json           all of it for a program
    """  # noqa: D301 - click reads the backspace
    with outcome.ErrorsShown(verbose=False, document=as_json), outcome.output_errors():
        if as_json:
            asked = [_known(code) for code in codes] or list(ErrorCode)
            exits = [
                {"exit_code": one, "meaning": said} for one, said in outcome.EXIT_MEANINGS.items()
            ]
            errors = [read_page(code).fields() for code in asked]
            outcome.show_document({"errors": errors, "exit_codes": exits})
            return
        if not codes:
            click.echo("\n".join(_overview()))
            return
        for page in [read_page(_known(code)) for code in codes]:
            _show(page.text)
            for line in outcome.more_about([page.code])[1:]:
                click.echo(f"\n{line}")


def _known(text: str) -> ErrorCode:
    wanted = text.strip().lower().replace("_", "-")
    try:
        return ErrorCode(wanted)
    except ValueError:
        near = difflib.get_close_matches(wanted, list(ErrorCode), n=3, cutoff=0.5)
        near += [code for code in ErrorCode if wanted and wanted in code and code not in near]
        alike = f"did you mean {', '.join(near)}? " if near else ""
        raise UsageFault(
            f"there is no code {text!r}", hint=f"{alike}spirit-py explain lists all"
        ) from None


def _overview() -> list[str]:
    pages = [read_page(code) for code in ErrorCode]
    width = max(len(page.code) for page in pages)
    lines: list[str] = []
    for phase in PHASES:
        of_phase = [page for page in pages if page.phase == phase]
        lines += [f"{phase}:", *(f"  {one.code:<{width}}  {one.summary}" for one in of_phase), ""]
    return [*lines, "spirit-py explain CODE shows the page about one."]


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text, hyperlinks=False))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands and options.

    \b
    spirit-py completion bash > /etc/bash_completion.d/spirit-py
    spirit-py completion zsh > "${fpath[1]}/_spirit-py"
    spirit-py completion fish > ~/.config/fish/completions/spirit-py.fish
    """  # noqa: D301 - click reads the backspace
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "spirit-py", "_SPIRIT_PY_COMPLETE").source())

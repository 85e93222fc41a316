"""Modes that the operator chose: the table is changed as by an ALTER in a session with them."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, warn


def check(context: PreflightContext) -> Findings:
    """Report the modes in place of the server's."""
    if not context.facts.chosen:
        return
    modes = "; ".join(f"{name} is {value!r}" for name, value in context.facts.chosen)
    yield warn(
        f"the table is changed as by an ALTER in a session whose {modes}, because of"
        f" {context.config.modes.options}, not under the server's own",
        "a value that would be shortened or replaced still ends the migration",
    )

"""A server that reads JSON text does not read every double in it exactly (MySQL 8.0)."""

from __future__ import annotations

from typing import Final

from spirit_py.preflight.check import Findings, PreflightContext, warn

_ROUNDED: Final = """
SELECT JSON_EXTRACT(CAST('[14.809999999999999]' AS JSON), '$[0]') <> 14.809999999999999e0"""


def check(context: PreflightContext) -> Findings:
    """Warn of such a server where the table has JSON; the program itself does not depend on it."""
    source = context.source
    if all(column.data_type != "json" for column in source.columns):
        return
    if context.session.query(_ROUNDED)[0][0]:
        yield warn(
            f"this server ({context.facts.version}) rounds numbers in JSON text in their last"
            f" digit; the documents of {source.name} are carried exactly all the same",
            "nothing for the migration; text that the application stores as JSON is rounded",
        )

"""Commits must become visible in the order of the binary log (R2, R3)."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse ``binlog_order_commits=OFF``."""
    if context.facts.variables and not context.facts.is_on("binlog_order_commits"):
        yield refuse(
            "binlog_order_commits is OFF: transactions may become visible out of binlog order",
            "SET PERSIST binlog_order_commits = ON",
        )

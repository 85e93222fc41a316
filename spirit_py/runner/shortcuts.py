"""Let the server change the tables itself where that takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import MigrationFailure
from spirit_py.preflight.shortcut import probe_shortcut, try_shortcut
from spirit_py.runner.auxiliary import source_of

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.shortcut import ShortcutResult
    from spirit_py.runner.auxiliary import AuxiliaryTables
    from spirit_py.runner.run import Run


def change_in_place(
    run: Run,
    session: SqlSession,
    contexts: tuple[PreflightContext, ...],
    auxiliary: AuxiliaryTables,
) -> bool:
    """Try the shortcuts; True when nothing is left to do.

    One table is simply tried. Several are to change together, so each is tried on an empty copy
    first, and none is touched unless all of them can. A dry run only looks at the copies.
    """
    if run.config.no_shortcut:
        run.report.reason = "shortcuts were switched off"
        return False
    if run.config.keep_old_current:
        run.report.reason = "--keep-old-current needs the old table"
        return False
    if len(contexts) == 1 and not run.config.dry_run:
        return _settle(run, [_try(run, session, contexts[0])])
    auxiliary.mark(session)
    would = [_probe(run, session, context) for context in contexts]
    if run.config.dry_run or not all(one.algorithm for one in would):
        return _settle(run, would)
    done: list[ShortcutResult] = []
    for context in contexts:
        done.append(_try(run, session, context))
        if done[-1].algorithm is None and len(done) > 1:
            raise MigrationFailure(
                f"{context.table} could not be changed in place, as its copy could:"
                f" {done[-1].reason}; the {len(done) - 1} tables before it are changed",
                hint="migrate the others with a statement of their own",
            )
        if done[-1].algorithm is None:
            break
    return _settle(run, done)


def _try(run: Run, session: SqlSession, context: PreflightContext) -> ShortcutResult:
    with run.session("shortcut", native=True) as native:
        return try_shortcut(native, session, source_of(context), context.statement, run.stop)


def _probe(run: Run, session: SqlSession, context: PreflightContext) -> ShortcutResult:
    with run.session("shortcut", native=True) as native:
        return probe_shortcut(native, session, source_of(context), context.statement)


def _settle(run: Run, results: list[ShortcutResult]) -> bool:
    """Put what came of it into the report."""
    refused = [one for one in results if one.algorithm is None]
    run.report.reason = "; ".join(dict.fromkeys(one.reason for one in refused or results))
    if refused:
        run.message(f"copying, because {run.report.reason}")
        return False
    kinds = sorted({str(one.algorithm) for one in results})
    run.report.algorithm = "instant" if kinds == ["instant"] else "inplace"
    return True

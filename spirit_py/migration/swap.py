"""The swap of all tables in one RENAME, and what is dropped behind it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.proofs import read_proofs, renew_proofs
from spirit_py.cutover.cleanup import drop_old_table
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.names import require_these
from spirit_py.cutover.plan import CutoverLimits, CutoverResult, Swap
from spirit_py.errors import OutcomeUnknown, ServerFault, SpiritError
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.histograms import carry_histograms
from spirit_py.mysql.tables.identity import identity
from spirit_py.mysql.tables.new_table import align_auto_increment, set_auto_increment
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.auxiliary import AuxiliaryTables
    from spirit_py.migration.run import Run
    from spirit_py.migration.work import TableWork
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

#: A server that restarts right behind the swap is waited for.
_PROOF_ATTEMPTS: Final = 8


def swap_tables(
    run: Run,
    works: Sequence[TableWork],
    auxiliary: AuxiliaryTables,
    held_back: Callable[[], str],
) -> CutoverResult:
    """Swap the tables under one lock (R15); ``auxiliary`` learns when they must not be dropped.

    Args:
        held_back: names a sentinel that exists, or gives an empty string.

    Raises:
        HeldBack: there is one, after a try that failed; or a table must be compared once more.
        SpiritError: as :meth:`Cutover.run`.
    """
    counters = auxiliary.counters

    def align(session: SqlSession) -> None:
        """Raise the new tables' AUTO_INCREMENT counters to the sources'."""
        for mapping in mappings:
            if (mapping.source.schema, mapping.source.name) not in counters:
                align_auto_increment(session, mapping)

    def before_lock(session: SqlSession) -> None:
        """Do the same, give counters, renew histograms, note which tables are to be swapped."""
        for mapping in mappings:
            _require_new(session, mapping)
        align(session)
        for mapping in mappings:
            carry_histograms(session, mapping, rebuild=False)
            given = counters.get((mapping.source.schema, mapping.source.name))
            if given:
                set_auto_increment(session, mapping, given)
            proofs.update(_note(session, mapping))

    def check(session: SqlSession) -> None:
        for work in works:
            work.require_proven()
        require_these(session, proofs)
        align(session)

    proofs: dict[tuple[str, str], Identity] = {}
    mappings = [work.mapping for work in works]
    cutover = Cutover(
        run.config.connection,
        [Swap.of(mapping) for mapping in mappings],
        works[0].feed,
        stop=run.stop,
        limits=limits_of(run.config),
        before_lock=before_lock,
        final_checks=check,
        message=run.message,
        guard=run.config.snapshot_guard,
        held_back=held_back,
        note_position=run.config.keep_old_current > 0,
    )
    run.cutover = cutover
    try:
        result = cutover.run()
    except OutcomeUnknown:
        auxiliary.keep = True
        raise
    finally:
        auxiliary.keep = auxiliary.keep or cutover.swapped
        if not (cutover.swapped or cutover.renaming):
            _note_not_swapped(run, mappings)
    run.figures.note_cutover(result)
    run.message(
        f"swapped in try {result.attempts}",
        lock_wait_ms=round(result.lock_wait_ms, 1),
        lock_held_ms=round(result.lock_held_ms, 1),
    )
    return result


def _require_new(session: SqlSession, mapping: TableMapping) -> None:
    """Require the new table to be the one that was made."""
    source, target = mapping.source, mapping.target
    proofs = read_proofs(session, source.schema, source.name)
    require_these(session, {(target.schema, target.name): proofs.new})


def _note(session: SqlSession, mapping: TableMapping) -> dict[tuple[str, str], Identity]:
    """Note which table is going to be the old one, and that the swap is begun; return proofs."""
    source, target = mapping.source, mapping.target
    name = (source.schema, source.name)
    proofs = renew_proofs(session, *name, source=identity(session, *name), swap_begun=True)
    return {(target.schema, target.name): proofs.new, name: proofs.source}


def _note_not_swapped(run: Run, mappings: Sequence[TableMapping]) -> None:
    """Note that no RENAME was made; where that is impossible, the new tables are kept for it."""
    try:
        with run.session("cleanup") as session:
            for mapping in mappings:
                name = (mapping.source.schema, mapping.source.name)
                if read_proofs(session, *name).swap_begun:
                    renew_proofs(session, *name, swap_begun=False)
    except ServerFault as fault:
        _log.info("the end of the swap could not be noted: %s", fault.message)


def limits_of(config: MigrationConfig) -> CutoverLimits:
    """Return the patience of a swap that the configuration asks for."""
    return CutoverLimits(
        lock_wait=config.lock_wait_timeout,
        attempts=config.cutover_attempts,
        kill=not config.no_kill,
        kill_after=config.kill_after,
    )


def drop_old_tables(run: Run, tables: Sequence[tuple[str, str]]) -> None:
    """Drop the old tables, unless they are to stay; the migration is done whatever happens.

    Args:
        tables: schema and name of each table that was changed.
    """
    kept = []
    for schema, table in tables:
        old = AuxiliaryNames.of(table).old
        if run.config.skip_drop_after_cutover:
            kept.append(old)
            continue
        why = _drop(run, schema, table)
        if why:
            kept.append(old)
            run.remark(f"the old table {old}", why)
    run.report.old_table = ", ".join(kept)


def _drop(run: Run, schema: str, table: str) -> str:
    """Drop one old table; give why it is still there, or an empty string."""
    try:
        proof = retrying(run.stop, attempts=_PROOF_ATTEMPTS)(_proof, run, schema, table)
    except SpiritError as error:
        return error.message
    old = AuxiliaryNames.of(table).old
    return drop_old_table(run.config.connection, schema, old, proof=proof, stop=run.stop)


def _proof(run: Run, schema: str, table: str) -> Identity:
    with run.session("cleanup") as session:
        return read_proofs(session, schema, table).source

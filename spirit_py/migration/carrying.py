"""Follow a table from the beginning, or from where an earlier run stopped (R17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.watermark import CopiedSoFar
from spirit_py.copier.fence import end_earlier_chunks
from spirit_py.copier.last_key import last_copied_key
from spirit_py.errors import Refusal
from spirit_py.migration.work import TableWork
from spirit_py.mysql.retry import retrying
from spirit_py.table.values import bound_from_literals

if TYPE_CHECKING:
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.contracts import Applier
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.run import Run
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.mapping import TableMapping


def begin_work(run: Run, mapping: TableMapping, feed: ChangeFeed, applier: Applier) -> TableWork:
    """Follow a table of which nothing is copied yet."""
    return TableWork(
        run=run,
        mapping=mapping,
        feed=feed,
        applier=applier,
        subscription=feed.add_subscription(mapping),
    )


def carry_on(
    run: Run, mapping: TableMapping, feed: ChangeFeed, applier: Applier, record: CheckpointRecord
) -> TableWork:
    """Follow a table where an earlier run stopped.

    Nothing of that run may still write into the new table when its last key is read: everything
    up to there may be a row that was deleted since.
    """
    progress = record.of(mapping.source.schema, mapping.source.name)
    copied_to = _bound(mapping, progress.copied_up_to)
    retrying(run.stop)(end_earlier_chunks, run.config.connection, mapping)
    floor = run.step("floor", lambda session: last_copied_key(session, mapping))
    return TableWork(
        run=run,
        mapping=mapping,
        feed=feed,
        applier=applier,
        subscription=feed.add_subscription(
            mapping, resumed_above=copied_to, keep_up_to=floor, copied=progress.copied
        ),
        before=CopiedSoFar(
            up_to=progress.copied_up_to,
            rows=progress.rows_copied,
            chunks=progress.chunks,
            finished=progress.copied,
        ),
        copied_to=copied_to,
        checked_to=_bound(mapping, progress.checked_up_to),
    )


def _bound(mapping: TableMapping, literals: tuple[str, ...]) -> KeyBound | None:
    """Read a stored bound back; None for the beginning of the table."""
    if not literals:
        return None
    try:
        return bound_from_literals(mapping.key_columns, literals)
    except ValueError as error:
        raise Refusal(
            f"the checkpoint of {mapping.source.schema}.{mapping.source.name} is damaged: {error}",
            hint="drop what is left with spirit-py cleanup, then start the migration again",
        ) from error

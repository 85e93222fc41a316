"""Which rows go to which of several targets (pure).

A target keeps the rows for which the expression of ``--shard-by`` is its name, judged by the server
as ``--keep`` is: the copy and the comparison on the source, the applier among the staged images of
the changed rows. A row that changes its shard is deleted on one target, and written on another. The
expression of a row that gives no target's name is an error of the server, in each of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.classes import replace
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import MoveConfig
    from spirit_py.preflight.check import PreflightContext


def condition(expression: str, name: str, names: Iterable[str]) -> str:
    """Render which rows the target of that name gets; an error of the server for one of nobody.

    The error is 1411, whose text shows the value.
    """
    cases = " ".join(
        f"WHEN {string_literal(one)} THEN {'TRUE' if one == name else 'FALSE'}" for one in names
    )
    nobody = f"CONCAT('no target is named ', IFNULL(({expression}), 'NULL'))"
    # The server looks at ELSE only where no name is equal, and at no constant of it before.
    return f"CASE ({expression}) {cases} ELSE UUID_TO_BIN({nobody}) IS NULL END"


def facing(
    contexts: Sequence[PreflightContext], config: MoveConfig
) -> tuple[PreflightContext, ...]:
    """Return the contexts of the tables as the target gets them that a configuration faces."""
    if not config.shard:
        return tuple(contexts)
    keep = condition(config.shard_by, config.shard, [one.name for one in config.shards])
    modes = replace(config.modes, keep=keep)
    of_all = contexts[0].config
    own = replace(of_all, target=config.target, shard=config.shard, modes=modes)
    return tuple(replace(one, config=own) for one in contexts)


def with_shards(record: CheckpointRecord, names: Sequence[str]) -> CheckpointRecord:
    """Return a new record, with the progress of the tables on each of several targets."""
    first, *others = ([replace(one, shard=name) for one in record.tables] for name in names)
    return replace(
        record, tables=tuple(first), shards=tuple(one for each in others for one in each)
    )

"""Where runs are killed: everywhere in ``make kills``, at a few points in a usual run.

A kill is a named point, and how often it is to be passed for that. The tests of a table here say
what a point needs to be reached: indexes that are built later, related tables, rows that differ.
"""

from __future__ import annotations

import os

Kills = tuple[tuple[str, int], ...]
#: ``all`` kills at every point.
VARIABLE = "SPIRIT_PY_TEST_KILLS"
EVERYWHERE = os.environ.get(VARIABLE) == "all"


def chosen(few: Kills, more: Kills) -> Kills:
    """Return the kills of this run: the few, or with ``make kills`` all."""
    return few + (more if EVERYWHERE else ())


#: Of one table, when there is something to resume.
FEW_OF_A_RUN = (("chunk.committed", 2), ("cutover.renamed", 1))
MORE_OF_A_RUN = (
    ("checksum.locked", 1),
    ("create.done", 1),
    ("feed.started", 1),
    ("checkpoint.written", 1),
    ("checkpoint.writing", 2),
    ("chunk.dispatched", 1),
    # Late in the copy: the rows make seven chunks at least.
    ("chunk.committed", 6),
    ("chunk.executing", 3),
    ("chunk.part", 3),
    ("chunk.executed", 3),
    ("feed.flushing", 1),
    ("feed.flushed", 1),
    ("drain.begun", 1),
    ("checksum.begin", 1),
    ("checksum.compare", 1),
    ("checksum.chunk", 2),
    ("cutover.begin", 1),
    ("cutover.lock", 1),
    ("cutover.locked", 1),
    ("cutover.rename", 1),
    ("cutover.unlocked", 1),
    ("cleanup.old_table", 1),
    ("cleanup.checkpoint", 1),
)
#: Before there is a new table: the next run may begin from the beginning.
OF_A_BEGINNING = (
    ("preflight.done", 1),
    ("checkpoint.created", 1),
    ("create.tried", 1),
    ("create.named", 1),
    ("create.built", 1),
)
#: Where a difference was found.
OF_A_REPAIR = ("checksum.repair", 1)
#: Where indexes are built after the copy.
OF_AN_INDEX_BUILD = (
    ("index.dropped", 1),
    ("index.begin", 1),
    ("index.building", 1),
    ("index.built", 1),
)
#: Where the table has triggers: while the server is asked whether it would make them.
OF_A_TRIAL = ("create.triggers", 1)
#: Where a foreign key was added, and a row has no parent.
FEW_OF_A_SEARCH = (("orphans.chunk", 1),)
MORE_OF_A_SEARCH = (("orphans.dropping", 1),)
#: Where tables have triggers and foreign keys.
FEW_OF_RELATIVES = (("cutover.rename", 1),)
MORE_OF_RELATIVES = (
    ("cutover.lock", 1),
    ("cutover.locked", 1),
    ("cutover.renamed", 1),
    ("cutover.unlocked", 1),
)
#: Of several tables of one command.
FEW_OF_A_BATCH = (("chunk.committed", 2), ("cutover.renamed", 2), ("batch.noting", 7))
MORE_OF_A_BATCH = (
    ("batch.created", 1),
    ("batch.noted", 2),
    ("batch.noted", 5),
    ("cutover.renamed", 1),
    ("cleanup.old_table", 1),
    ("cleanup.checkpoint", 2),
    # Swapped; the next table begins.
    ("batch.noting", 6),
    ("batch.noting", 8),
    ("batch.noted", 6),
)
#: Of a framework's migration, whose statements go online one after another.
OF_A_REVISION = ("revision.begun", "revision.made")
#: Of one that happens as a whole.
FEW_OF_A_WHOLE_REVISION = (("revision.versions_made", 1), ("cutover.renamed", 1))
MORE_OF_A_WHOLE_REVISION = (
    ("revision.versions_noted", 1),
    ("cutover.locked", 1),
    ("cutover.rename", 1),
    ("cutover.unlocked", 1),
    ("cleanup.old_table", 1),
    ("cleanup.old_table", 2),
    ("cleanup.checkpoint", 1),
    ("cleanup.checkpoint", 2),
    ("revision.swapped", 1),
)
#: Of an archive, behind the swap.
OF_AN_ARCHIVE = (
    ("archive.written", 1),
    ("archive.moved", 2),
    ("archive.piece", 2),
    ("archive.prove", 1),
    ("archive.proved", 1),
)
#: Of a fleet: its coordinator, and with ``batch.`` a process of a server.
FEW_OF_A_FLEET = (("fleet.ended", 2), ("fleet.forgotten", 1))
MORE_OF_A_FLEET = (
    ("fleet.wave", 2),
    ("fleet.begins", 2),
    ("fleet.ended", 1),
    ("fleet.ended", 4),
    ("fleet.finished", 1),
    ("fleet.forgotten", 3),
)
#: Of a move to another server.
FEW_OF_A_MOVE = (
    ("chunk.committed", 3),
    ("switch.locked", 1),
    ("switch.arrived", 1),
    ("switch.renamed", 1),
    ("switch.commanded", 1),
)
MORE_OF_A_MOVE = (
    ("checkpoint.created", 1),
    ("move.built", 1),
    ("feed.started", 1),
    ("chunk.executing", 3),
    ("chunk.part", 3),
    ("feed.flushed", 1),
    ("drain.begun", 1),
    ("checksum.chunk", 1),
    ("switch.begin", 1),
    ("switch.lock", 1),
    ("switch.unlocked", 1),
    ("cleanup.checkpoint", 1),
)
#: Between the RENAMEs of several targets, and on the way there.
FEW_OF_SHARDS = (("switch.arrived", 1), ("switch.renamed", 1))
MORE_OF_SHARDS = (
    ("move.built", 2),
    ("chunk.committed", 12),
    ("checksum.chunk", 6),
    ("switch.locked", 1),
    ("switch.arrived", 2),
    ("switch.commanded", 1),
    ("cleanup.checkpoint", 1),
)
#: Between the RENAMEs of several sources, and on the way there.
FEW_OF_SOURCES = (("switch.away", 1), ("switch.renamed", 1))
MORE_OF_SOURCES = (
    ("move.built", 1),
    ("chunk.committed", 12),
    ("checksum.chunk", 2),
    ("switch.locked", 1),
    ("switch.arrived", 1),
    ("switch.away", 2),
    ("switch.commanded", 1),
    ("cleanup.checkpoint", 1),
)
#: While a switch is taken back.
FEW_OF_A_MOVE_UNDONE = (("switch.undoing", 1),)
MORE_OF_A_MOVE_UNDONE = (("switch.undone", 1),)
#: Of the revert of a move.
FEW_OF_A_MOVE_BACK = (("switch.arrived", 1), ("switch.renamed", 1))
MORE_OF_A_MOVE_BACK = (("switch.locked", 1), ("switch.commanded", 1), ("switch.unlocked", 1))
#: Each point at which ``make kills`` kills.
STRUCK = set(OF_A_REVISION) | {
    point
    for point, _ in (
        *FEW_OF_A_RUN,
        *MORE_OF_A_RUN,
        *OF_A_BEGINNING,
        OF_A_REPAIR,
        *OF_AN_INDEX_BUILD,
        OF_A_TRIAL,
        *OF_AN_ARCHIVE,
        *FEW_OF_A_SEARCH,
        *MORE_OF_A_SEARCH,
        *FEW_OF_RELATIVES,
        *MORE_OF_RELATIVES,
        *FEW_OF_A_BATCH,
        *MORE_OF_A_BATCH,
        *FEW_OF_A_FLEET,
        *MORE_OF_A_FLEET,
        *FEW_OF_A_MOVE,
        *MORE_OF_A_MOVE,
        *FEW_OF_SOURCES,
        *MORE_OF_SOURCES,
        *FEW_OF_A_MOVE_UNDONE,
        *MORE_OF_A_MOVE_UNDONE,
        *FEW_OF_A_WHOLE_REVISION,
        *MORE_OF_A_WHOLE_REVISION,
    )
}

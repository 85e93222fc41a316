"""What a fault is, and where one may strike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.scene import Scene
    from tests.kits.point_listener import Hold

#: A fault's doing. The program is held at the point; ``hold.release()`` lets it go on.
Strike = Callable[["Scene", "Hold"], None]

EARLY = (
    "preflight.done",
    "checkpoint.created",
    "create.done",
    "feed.started",
    "checkpoint.writing",
    "checkpoint.written",
)
COPY = (
    "chunk.dispatched",
    "chunk.executing",
    "chunk.part",
    "chunk.executed",
    "chunk.committed",
)
#: Reached only where indexes are built after the copy.
INDEX = ("index.dropped", "index.begin", "index.building", "index.built")
DRAIN = ("drain.begun", "feed.flushing", "feed.flushed")
CHECK = ("checksum.begin", "checksum.locked", "checksum.compare", "checksum.chunk")
SWAP = ("cutover.lock", "cutover.locked", "cutover.rename", "cutover.renamed", "cutover.unlocked")
END = ("cleanup.checkpoint", "cleanup.old_table")
EVERYWHERE = (*EARLY, *COPY, *INDEX, *DRAIN, *CHECK, *SWAP, *END)
#: Points at which no table lock of the program's is held.
UNLOCKED = tuple(p for p in EVERYWHERE if p not in {"checksum.locked", *SWAP[1:4]})
#: Points between the first and the last row that is copied, applied or compared.
AT_WORK = (
    *(*COPY, *INDEX[1:], *DRAIN),
    *("checksum.begin", "checksum.compare", "checksum.chunk", "cutover.lock"),
)

#: Exit codes that a run may truly end with after trouble of any kind.
TROUBLE = frozenset({0, 1, 2})
DONE = frozenset({0})


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        points: where it may strike.
        codes: exit codes that the run it strikes may truly have.
        shape: the only kind of table that it makes sense for; empty for any.
        hook: of :mod:`tests.faults.hooks`, that the command runs with; empty for none.
        expects_repairs: the checksum is to find differences, because the fault made them.
        needs_disk: the server must have a small disk of its own.
        needs_gtid: without GTIDs the program refuses to resume after it.
        bare: the table has no triggers and no keys, and the checksum may repair: rows become others
            behind the feed, and what the triggers count with them.
        loses_rows: rows go, and what a reader compares them with stays.
        before: what the server is given before the run begins.
        between: what happens after the run that it struck, before the next.
    """

    name: str
    strike: Strike
    points: tuple[str, ...] = EVERYWHERE
    codes: frozenset[int] = TROUBLE
    shape: str = ""
    hook: str = ""
    expects_repairs: bool = False
    needs_disk: bool = False
    needs_gtid: bool = False
    bare: bool = False
    loses_rows: bool = False
    before: Callable[[Scene], None] | None = None
    between: Callable[[Scene], None] | None = None

"""What a seed stands for: the same table, workload, fault and place every time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.faults.fault import INDEX
from tests.faults.faults_network import NETWORK_FAULTS
from tests.faults.faults_operator import OPERATOR_FAULTS
from tests.faults.faults_process import PROCESS_FAULTS
from tests.faults.faults_server import SERVER_FAULTS
from tests.faults.shapes import SHAPES

if TYPE_CHECKING:
    from tests.faults.fault import Fault
    from tests.faults.shapes import Line, Shape

FAULTS: tuple[Fault, ...] = (
    *PROCESS_FAULTS,
    *SERVER_FAULTS,
    *NETWORK_FAULTS,
    *OPERATOR_FAULTS,
)
#: Points that a run reaches several times.
_OFTEN = ("chunk.", "checksum.chunk")
_GTID_SHARE = 0.75
_DEFERRED_SHARE = 0.4
_ATTACHED_SHARE = 0.35
_READER_SHARE = 0.5
_ROLLING_SHARE = 0.6
_KEEP_SHARE = 0.25
#: How often a hook is drawn.
_HOOKS = {"small-chunks": 0.9, "quick-checkpoints": 0.6, "quick-flushes": 0.5}


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One run's choices.

    Attributes:
        nth: the fault strikes when the point is reached for the nth time.
        rows: rows of the table at the beginning.
        gtid: whether the server has GTIDs.
        repair: whether the checksum may repair; otherwise any difference fails the run.
        deferred: whether secondary indexes are built after the copy.
        reader: whether an application reads in short transactions what the writers account for.
        hooks: of :mod:`tests.faults.hooks`; the command runs with them every time.
        rolling: the comparison has short snapshots, and no lock.
        line: what ``--keep`` keeps; all rows where there is none.
    """

    seed: int
    shape: Shape
    fault: Fault
    point: str
    nth: int
    rows: int
    gtid: bool
    repair: bool
    deferred: bool
    reader: bool
    hooks: tuple[str, ...]
    rolling: bool
    line: Line | None

    def __str__(self) -> str:
        """Return the choices in one line."""
        place = self.point + (f" ({self.nth})" if self.nth > 1 else "")
        kind = "GTID" if self.gtid else "file"
        with_hooks = "".join(f", {hook}" for hook in self.hooks)
        no_repair = "" if self.repair else ", no repair"
        deferred = ", deferred indexes" if self.deferred else ""
        name = self.shape.name + (" with triggers and keys" if self.shape.attached else "")
        reader = ", a reader" if self.reader else ""
        keeps = f", keeps {self.line.text}" if self.line else ""
        how = (", rolling" if self.rolling else "") + with_hooks
        table = f"{name}, {self.rows} rows, {kind}{no_repair}{deferred}{reader}{keeps}{how}"
        return f"{self.fault.name} at {place}, {table}"


def _drawn(source: random.Random) -> tuple[str, ...]:
    """Draw what makes minutes of a long migration happen within seconds."""
    return tuple(hook for hook, share in _HOOKS.items() if source.random() < share)


def draw(seed: int, *, repair: bool | None = None, keep: bool = False) -> Draw:
    """Choose by the seed alone: consecutive seeds go through all faults, with and without repair.

    Args:
        repair: chooses that from outside.
        keep: rows are left out wherever the fault allows it.
    """
    source = random.Random(f"draw {seed}")
    fault = FAULTS[seed % len(FAULTS)]
    shapes = [shape for shape in SHAPES if fault.shape in {"", shape.name}]
    shape = source.choice(shapes)
    # Rows that are changed behind the feed are changed without what the triggers account for.
    bare = fault.expects_repairs or fault.bare or fault.shape
    # Damage is done to rows that may be left out; and their parents may not be.
    share = 0.0 if fault.expects_repairs else 1.0 if keep else _KEEP_SHARE
    keeping = random.Random(f"keep {seed}")
    line = keeping.choice(shape.lines) if keeping.random() < share else None
    share = 0.0 if bare or line else _ATTACHED_SHARE
    if random.Random(f"attached {seed}").random() < share:
        shape = replace(shape, attached=True)
    # Nor is there an account of such rows; and a full disk may leave no room for the guard.
    unread = fault.expects_repairs or fault.needs_disk or fault.loses_rows
    share = 0.0 if unread or line else _READER_SHARE
    reader = random.Random(f"reader {seed}").random() < share
    point = source.choice(fault.points)
    if repair is None:
        repair = seed // len(FAULTS) % 2 == 0
    return Draw(
        seed=seed,
        shape=shape,
        fault=fault,
        point=point,
        nth=source.randrange(1, 4) if point.startswith(_OFTEN) else 1,
        rows=source.randrange(800, 1500) if shape.wide else source.randrange(2500, 5000),
        gtid=source.random() < _GTID_SHARE or fault.needs_gtid,
        repair=repair or fault.expects_repairs or fault.bare,
        deferred=point in INDEX or random.Random(f"deferred {seed}").random() < _DEFERRED_SHARE,
        reader=reader,
        hooks=(*_drawn(source), *((fault.hook,) if fault.hook else ())),
        rolling=point != "checksum.locked"
        and random.Random(f"rolling {seed}").random() < _ROLLING_SHARE,
        line=line,
    )

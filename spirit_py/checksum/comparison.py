"""What a checksum compares, on which servers, and with which helpers."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.worker import JoinChecksum
from spirit_py.events.event import Tell, untold
from spirit_py.pace import Unhindered

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource
    from spirit_py.pace import Pace
    from spirit_py.spark.gang import GangEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

Follower: TypeAlias = Literal["", "source", "target"]
"""The side that replicates from the other; empty where neither does, or without GTIDs."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The tables, servers and helpers of a comparison; the same for every pass.

    Attributes:
        engine: runs the tasks.
        target: the new table's server; None when that is the source's.
        feed: applies changes to the new table; None compares two tables that nothing keeps
            equal, as they are at the moment of the snapshot.
        follower: of two servers, the side that replicates from the other with GTIDs.
        pace: asked before each chunk, and before rows are repaired.
        tell: reports what happens.
    """

    mapping: TableMapping
    source: ConnectionOptions
    engine: GangEngine
    stop: StopSwitch
    target: ConnectionOptions | None = None
    feed: ChangeSource | None = None
    options: ChecksumOptions = field(default_factory=ChecksumOptions)
    follower: Follower = ""
    pace: Pace = field(default_factory=Unhindered)
    tell: Tell = untold

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return f"{self.mapping.source.schema}.{self.mapping.source.name}"

    @property
    def join(self) -> JoinChecksum:
        """The function that opens the sessions of a task."""
        return JoinChecksum(
            source=self.source,
            target=self.target,
            mapping=self.mapping,
            most_differences=self.options.max_repairs,
            examples=self.options.examples,
        )

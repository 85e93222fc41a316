"""One process that runs ``spirit-py move`` itself, from model servers to others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation import program
from tests.simulation.primitives import stand_in
from tests.simulation.whole import FEED, SERVER, WholeRun, no_java

with stand_in():
    from spirit_py.config import ConnectionOptions, MoveConfig, Shard
    from spirit_py.move.move import run_move
    from spirit_py.move.run import MoveRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.server import Server


class WholeMove(WholeRun):
    """One process with the command; see :class:`tests.simulation.program.Run`."""

    def __init__(
        self,
        ours: Sequence[Server],
        theirs: Sequence[Server],
        *,
        rolling: bool = False,
    ) -> None:
        super().__init__(ours[0], repairs=False, rolling=rolling)
        self.ours, self.theirs = ours, theirs
        program.serve(ours[0], *theirs, *ours[1:])

    def command(self) -> None:
        """Run the command, as it was configured."""
        others = range(1, len(self.theirs) + len(self.ours))
        hosts = [replace(SERVER, host=program.there(number)) for number in others]
        targets = hosts[: len(self.theirs)]
        sources = [SERVER, *hosts[len(targets) :]]
        by = f"`v` % {len(targets)}" if len(targets) > 1 else ""
        config = MoveConfig(
            connection=SERVER,
            target=targets[0],
            shards=_named(targets),
            sources=_named(sources),
            shard_by=f"`id` % {len(sources)}" if len(sources) > 1 else by,
            patterns=("s.t",),
            database="s",
            alter="ADD COLUMN n INT",
            threads=2,
            aggressive=True,
            max_lag=None,
            min_free_disk=0,
            cutover_timeout=600.0,
            drop_old_after=float("inf"),
            defer_indexes="off",
            no_repair=True,
            checksum="rolling" if self.rolling else "snapshot",
            feed=FEED,
        )
        run_move(MoveRun(config, self.reporter, engine_factory=no_java, stop=self.stop))


def _named(several: Sequence[ConnectionOptions]) -> tuple[Shard, ...]:
    """Name several servers by their numbers; one has no name."""
    if len(several) == 1:
        return ()
    return tuple(Shard(name=str(n), connection=one) for n, one in enumerate(several))

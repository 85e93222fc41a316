"""A recheck of rows that differ, where no feed keeps the two compared tables equal.

A table that is kept current from outside (a replica, a job that copies) lags, and two servers have
no common snapshot. So rows that differ are read again, after a pause, in new snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.checksum.by_key import key_batches
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.checksum.worker import SnapshotReader, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.checksum.result import RowDifference
    from spirit_py.checksum.worker import JoinChecksum, Rows
    from spirit_py.stop import StopSwitch


class Recheck:
    """Separates rows that differ from rows that are in motion.

    A row is in motion when it is equal now, or when the new table's row has become what the
    source's was at an earlier reading: then it lags, and will be equal.

    Args:
        join: opens the sessions; a new pair for each reading.
        pauses: seconds to wait before each reading.
        on_wait: called with what is waited for, and an empty text at the end.
    """

    def __init__(
        self,
        join: JoinChecksum,
        pauses: Sequence[float],
        *,
        stop: StopSwitch,
        on_wait: Callable[[str], None],
    ) -> None:
        self._join = join
        self._pauses = tuple(pauses)
        self._stop = stop
        self._on_wait = on_wait
        self._plan = ComparisonPlan(mapping=join.mapping)
        #: For each key the source's hashes at each reading in which the row differed.
        self._seen: dict[tuple[Any, ...], list[_Held]] = {}

    def confirm(self, found: Sequence[RowDifference]) -> list[RowDifference]:
        """Return the rows that differ in every reading, the first ones with their columns."""
        left = list(found)
        for number, pause in enumerate(self._pauses, start=1):
            if not left:
                break
            self._on_wait(f"the recheck of {len(left)} differing rows ({number})")
            if self._stop.wait(pause):
                self._stop.check()
            left = self._look(left, last=number == len(self._pauses))
        self._on_wait("")
        return left

    def _look(self, found: Sequence[RowDifference], *, last: bool) -> list[RowDifference]:
        reader = self._join(0)
        try:
            reader.take_snapshot()
            left = self._left(reader, found)
            if last:
                shown = self._join.examples
                left[:shown] = [reader.explain(difference) for difference in left[:shown]]
        finally:
            reader.close()
        return left

    def _left(self, reader: SnapshotReader, found: Sequence[RowDifference]) -> list[RowDifference]:
        joined = not self._plan.aligned
        extra = [each for each in found if joined and each.kind == "extra"]
        rest = [each for each in found if not (joined and each.kind == "extra")]
        left: list[RowDifference] = []
        for batch in key_batches(each.key for each in rest):
            left += self._still(*reader.look(batch))
        for batch in key_batches(each.key for each in extra):
            left += reader.unmatched(batch)
        return left

    def _still(self, source: Rows, target: Rows) -> list[RowDifference]:
        still: list[RowDifference] = []
        for same in dict.fromkeys([*source, *target]):
            one = {same: source[same]} if same in source else {}
            other = {same: target[same]} if same in target else {}
            difference = differences(one, other)
            if difference and not self._follows(same, _held(one), _held(other)):
                still += difference
        return still

    def _follows(self, same: tuple[Any, ...], source: _Held, target: _Held) -> bool:
        """Return whether the target's row has become what the source's was before."""
        earlier = self._seen.setdefault(same, [])
        follows = target in earlier
        earlier.append(source)
        return follows


#: The hashes of the rows of one key.
_Held = tuple[str, ...]


def _held(rows: Rows) -> _Held:
    """Return the hashes of the rows of the one key in ``rows``, none when there is no row."""
    return tuple(digest for _, hashes in rows.values() for digest in hashes)

"""Rows that differ: compared again one by one, and made equal (R5, R11).

Where tables are kept equal from outside, rows lag: they are read again in new snapshots. So are
those that differ in a rolling pass, each time after the feed has applied what came before.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from spirit_py.binlog.cascades import acting_parents
from spirit_py.checksum.query import ComparisonPlan, Keys
from spirit_py.checksum.rows import differences
from spirit_py.checksum.snapshot import SnapshotLock
from spirit_py.checksum.worker import JoinChecksum, SnapshotReader
from spirit_py.chunk.sizing import part_rows
from spirit_py.classes import dataclass, field, replace
from spirit_py.errors import ChecksumFailure
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.retry import retrying
from spirit_py.units import counted, human_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spirit_py.checksum.result import RowDifference
    from spirit_py.checksum.rows import Rows
    from spirit_py.checksum.snapshot import LockFigures
    from spirit_py.checksum.worker import Comparison
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

_BATCH: Final = 500
#: Of the keys in a statement at most: a key of texts has thousands.
_CHARACTERS: Final = 512 << 10


def comparable_by_key(mapping: TableMapping) -> bool:
    """Return whether a key of the source finds the new table's row also without a source row."""
    return ComparisonPlan(mapping=mapping).aligned


def may_roll(mapping: TableMapping) -> bool:
    """Return whether short snapshots can compare a table.

    Not where cascades change its rows: these doubts are settled only under a lock
    (:mod:`spirit_py.migration.doubts`). Nor where a key may have NULL, by which no row is found.
    """
    nullable = any(column.nullable for column in (*mapping.key_columns, *mapping.new_key))
    return comparable_by_key(mapping) and not (nullable or acting_parents(mapping.source))


def rows_that_differ(
    source: ConnectionOptions,
    mapping: TableMapping,
    keys: Iterable[str],
    *,
    between: Callable[[], object],
    target: ConnectionOptions | None = None,
) -> list[RowDifference]:
    """Return the rows with these keys that differ now; take no lock (:func:`comparable_by_key`).

    ``target`` is None on the source's server. ``between`` is called before each batch of some keys,
    which has a snapshot of its own; its error ends the comparison.
    """
    join = JoinChecksum(
        source=source, target=target, mapping=mapping, most_differences=0, examples=0
    )
    found: list[RowDifference] = []
    with contextlib.closing(join(0)) as reader:
        for batch in key_batches(keys):
            between()
            reader.take_snapshot()
            found += differences(*reader.look(batch))
    return _each_once(found)


def _each_once(found: Iterable[RowDifference]) -> list[RowDifference]:
    """Leave out what two batches found: two spellings of a key may be in both."""
    return list({(one.key, one.kind): one for one in found}.values())


def key_batches(keys: Iterable[str], most: int = _BATCH) -> Iterator[Keys]:
    """Cut keys, each once, into selections for statements of bounded length."""
    batch: list[str] = []
    size = 0
    for key in dict.fromkeys(keys):
        if batch and (len(batch) == most or size + len(key) > _CHARACTERS):
            yield Keys(tuple(batch))
            batch, size = [], 0
        batch.append(key)
        size += len(key)
    if batch:
        yield Keys(tuple(batch))


#: Seconds before each reading of the rows that differ in a rolling pass.
_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)


@dataclass(eq=False)
class Suspects:
    """Rows that differed in a rolling pass, until each was seen equal or is proven to differ.

    ``locked`` takes the figures of the lock for rows that change too often to be seen equal.
    """

    what: Comparison
    wait_for: Callable[[str], None]
    locked: Callable[[LockFigures], None]
    #: The keys, and the number of the chunk that each was in.
    rows: dict[str, int] = field(default_factory=dict, init=False)

    def settle(self) -> tuple[list[RowDifference], int]:
        """Return the rows that really differ, and the number of their chunks; forget the others.

        A row that is equal in a snapshot stays so: whatever is not yet applied of it is its image
        in the snapshot, or a later one, where every change is in the binlog. One that differs is
        read again when all that was committed before is applied.
        """
        what, left = self.what, list(self.rows)
        found: list[RowDifference] = []
        for pause in _PAUSES:
            if what.stop.wait(pause):
                what.stop.check()
            if what.feed is not None:
                what.feed.apply_executed(what.stop, self.wait_for)
            self.wait_for(f"{counted(len(left), 'row')} under change, to be compared again")
            read = partial(rows_that_differ, what.source, what.mapping, left, target=what.target)
            again = retrying(what.stop, locked=LockedBy.of(what.source, what.mapping, what.target))
            found = again(partial(read, between=what.stop.check))
            left = [difference.key for difference in found]
            if not left:
                break
        else:
            found = self._under_lock(left)
        chunks = len({self.rows.get(difference.key) for difference in found})
        self.wait_for("")
        self.rows.clear()
        return found, chunks

    def _under_lock(self, keys: Sequence[str]) -> list[RowDifference]:
        what = self.what
        found: list[RowDifference] = []
        with contextlib.closing(what.join(0)) as reader:
            self.locked(SnapshotLock(what, on_wait=self.wait_for).take(reader.take_snapshot))
            for batch in key_batches(keys):
                found += differences(*reader.look(batch))
            found = _each_once(found)
            shown = what.options.examples
            found[:shown] = [reader.explain(difference) for difference in found[:shown]]
        return found


@dataclass(eq=False)
class Recheck:
    """Separates rows that differ from rows in motion, reading them after ``pauses`` in seconds.

    A row is in motion when it is equal now, or as the source's was at an earlier reading.
    """

    join: JoinChecksum
    pauses: Sequence[float]
    stop: StopSwitch
    show: Callable[..., None]

    def __post_init__(self) -> None:
        self._plan = ComparisonPlan(mapping=self.join.mapping)
        #: For each key the source's hashes at each reading in which it differed.
        self._seen: dict[tuple[Any, ...], list[_Held]] = {}

    def confirm(self, found: Sequence[RowDifference]) -> list[RowDifference]:
        """Return the rows that differ in every reading, the first ones with their columns."""
        left = list(found)
        for number, pause in enumerate(self.pauses, start=1):
            if not left:
                break
            rows = counted(len(left), "differing row")
            self.show(waiting_for=f"the recheck of {rows} ({number})")
            if self.stop.wait(pause):
                self.stop.check()
            self.show(waiting_for="")
            left = self._look(left, last=number == len(self.pauses))
        self.show(doing="")
        return left

    def _look(self, found: Sequence[RowDifference], *, last: bool) -> list[RowDifference]:
        with contextlib.closing(self.join(0)) as reader:
            reader.take_snapshot()
            left = self._left(reader, found)
            if last:
                shown = self.join.examples
                left[:shown] = [reader.explain(difference) for difference in left[:shown]]
        return left

    def _left(self, reader: SnapshotReader, found: Sequence[RowDifference]) -> list[RowDifference]:
        joined = not self._plan.aligned
        extra = [each for each in found if joined and each.kind == "extra"]
        rest = [each for each in found if not (joined and each.kind == "extra")]
        left: list[RowDifference] = []
        looked = 0
        for rows, unmatched in ((rest, False), (extra, True)):
            for batch in key_batches(each.key for each in rows):
                of = f"{human_count(looked)} of {human_count(len(found))}"
                self.show(doing=f"checking them once more, as some may lag: {of}")
                left += reader.unmatched(batch) if unmatched else self._still(*reader.look(batch))
                looked += len(batch.keys)
        return _each_once(left)

    def _still(self, source: Rows, target: Rows) -> list[RowDifference]:
        still: list[RowDifference] = []
        for same in dict.fromkeys([*source, *target]):
            one = {same: source[same]} if same in source else {}
            other = {same: target[same]} if same in target else {}
            difference = differences(one, other)
            if difference:
                earlier = self._seen.setdefault(same, [])
                still += [] if _held(other) in earlier else difference
                earlier.append(_held(one))
        return still


_Held = tuple[str, ...]


def _held(rows: Rows) -> _Held:
    return tuple(digest for _, hashes in rows.values() for digest in hashes)


_SHOWN: Final = 10


class Recopier(Protocol):
    """What a repair needs of an applier."""

    def recopy(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Make the new table's rows of these keys equal to the source's; return their number."""

    def delete_keys(self, mapping: TableMapping, keys: Sequence[str]) -> int:
        """Delete the new table's rows of these keys; return their number."""


def repair(
    applier: Recopier,
    feed: ChangeSource | None,
    mapping: TableMapping,
    differences: Sequence[RowDifference],
    unmatched: Callable[[Keys], list[RowDifference]],
) -> int:
    """Copy the differing rows again; return the number of keys treated.

    Where the order of keys changed, the new table's key cannot ask for a row of the source: extra
    rows are deleted by their own keys, but for those that have one now, by ``unmatched``. Applying
    is paused: an older row image applied between reading and writing a row would be lost.
    """
    _refuse_unknown_values(mapping, differences)
    own = _of_the_new_table(mapping)

    def delete(keys: Sequence[str]) -> int:
        applier.delete_keys(own, [each.key for each in unmatched(Keys(tuple(keys)))])
        return len(keys)

    def alone(difference: RowDifference) -> bool:
        return difference.kind == "extra" and not comparable_by_key(mapping)

    extra = [each.key for each in differences if alone(each)]
    keys = [each.key for each in differences if not alone(each)]
    treated = 0
    # One transaction each: long rows are few.
    most = min(_BATCH, part_rows(mapping.source))
    for rows, work in ((extra, delete), (keys, partial(applier.recopy, mapping))):
        for batch in key_batches(rows, most):
            paused = contextlib.nullcontext() if feed is None else feed.applies_paused()
            with paused:
                try:
                    treated += work(batch.keys)
                finally:
                    if mapping.merging and feed is not None:
                        feed.write_over(mapping)
    if mapping.merging and feed is not None:
        # Copied rows are newer than pending changes: duplicates count only after these.
        feed.block_wait()
    return treated


def _of_the_new_table(mapping: TableMapping) -> TableMapping:
    named = zip(mapping.key.parts, mapping.new_key_columns, strict=True)
    key = replace(mapping.key, parts=tuple(replace(part, column=name) for part, name in named))
    return replace(mapping, source=mapping.target, key=key, keep=mapping.owned)


def _refuse_unknown_values(mapping: TableMapping, differences: Sequence[RowDifference]) -> None:
    missing = [difference for difference in differences if difference.kind == "missing"]
    if not mapping.kept or not missing:
        return
    target = mapping.target.full_name
    columns = ", ".join(column.name for column in mapping.kept)
    raise ChecksumFailure(
        f"{len(missing)} rows are missing in {target}, and it is not known what they had in its"
        f" columns that {mapping.source.name} does not have: {columns}",
        hint=f"insert these rows into {target} with the values that are meant, then run the same"
        " command again",
        details=tuple(str(difference) for difference in missing[:_SHOWN]),
    )

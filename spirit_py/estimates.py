"""How much work there is, how fast it goes, and when it ends: arithmetic for the display (pure).

What cannot be known is None. Work is done when it has committed or was compared. The server's
estimate of rows holds until more were found; bounds of the key always hold. A speed is that of the
last seconds, pauses included: a paused copy has no end. What comes after the current phase is
estimated by the copy's time of a row and measured shares of it; waits are in no estimate.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field, replace
from spirit_py.phases import Phase
from spirit_py.table.schema import FIXED_BYTES, ROW_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from spirit_py.table.names import Name
    from spirit_py.table.schema import Column, Index, IndexPart, TableSchema

RECENT_SECONDS: Final = 10.0
"""The time of a speed that is shown."""
STEADY_SECONDS: Final = 60.0
"""The time of the speed from which the end is computed."""
NEARLY_DONE: Final = 0.999
"""The most that is shown of work that goes on."""
#: A copy whose key leaves no room for more than this part of what is done is nearly at its end.
_SURELY_LEFT: Final = 0.05
#: A backlog that is applied in so many seconds delays nothing.
_TRIVIAL_SECONDS: Final = 2.0
_TRIVIAL_CHANGES: Final = 10_000
#: Steps further apart than this do not count as one stretch of work, beyond twice the usual step.
_GAP_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class RowsLeft:
    """How many rows are not handed out: at ``most``, and probably; None where not known."""

    most: int | None = None
    probable: int | None = None


NOTHING_LEFT: Final = RowsLeft(most=0, probable=0)


def probable_total(
    done: int, *, handed_out: int, left: RowsLeft, estimate: int | None
) -> int | None:
    """Return how many rows there are; None if unknown. ``left`` are those not handed out yet."""
    under_way = done + handed_out
    most = None if left.most is None else under_way + left.most
    if left.probable is not None:
        return under_way + left.probable
    if estimate is not None and estimate > done:
        return estimate if most is None else max(done, min(estimate, most))
    if left.most is not None and left.most <= max(handed_out, done * _SURELY_LEFT):
        return most
    return None


def fraction_of(done: float, total: float | None, *, ended: bool = False) -> float | None:
    """Return the part that is done; below 1 until the work has ended."""
    if ended:
        return 1.0
    return None if not total or total < done else min(NEARLY_DONE, done / total)


class Speed:
    """The speed of a counter that grows by steps. Not thread-safe.

    Where it ``restarts``, a value below the last one is a count that begins again: no step back.
    """

    def __init__(self, *, restarts: bool = False) -> None:
        self._steps: deque[tuple[float, float]] = deque()
        self._restarts = restarts
        self._before = 0.0

    def note(self, now: float, value: float) -> None:
        """Note the counter's value after a step."""
        if self._restarts:
            reached = self._steps[-1][1] if self._steps else value
            self._before = max(self._before, reached - value)
            value += self._before
        self._steps.append((now, value))
        # The one before the window is kept: the first step in it began there.
        while len(self._steps) > 2 and self._steps[1][0] < now - STEADY_SECONDS:
            self._steps.popleft()

    def recent(self, now: float) -> float | None:
        """Return the speed of the last ten seconds; None before there is one."""
        return self._over(now, RECENT_SECONDS)

    def steady(self, now: float) -> float | None:
        """Return the speed of the last minute; None before there is one."""
        return self._over(now, STEADY_SECONDS)

    def _over(self, now: float, seconds: float) -> float | None:
        if len(self._steps) < 2:
            return None
        steps = [step for step in self._steps if step[0] >= now - seconds]
        (last, reached) = self._steps[-1]
        if not steps:
            return 0.0
        if len(steps) == 1:
            steps = [self._steps[-2], self._steps[-1]]
        (first, before) = steps[0]
        usual = 2 * (last - first) / (len(steps) - 1)
        until = now if now - last > max(_GAP_SECONDS, usual) else last
        return (reached - before) / max(until - first, 1e-3)


#: A connection that is opened again within that is not worth a word.
_AWAY_SECONDS: Final = 3.0
SERVER: Final = "server"
"""What work has waited for in an outage, beside the names of the throttlers."""


class Outage:
    """For how long nothing has moved while the server did not answer. Not thread-safe."""

    def __init__(self) -> None:
        self._done: object = None
        self._moved_at = self._counted_at = float("-inf")
        #: The sum of all of them.
        self.seconds = 0.0

    def waited(self, now: float, done: object, trouble: str) -> float | None:
        """Return the seconds since work was ``done``; None without ``trouble``, and at first."""
        if not trouble or done != self._done:
            self._done, self._moved_at = done, now
        if now - self._moved_at < _AWAY_SECONDS:
            return None
        self.seconds += now - max(self._moved_at, self._counted_at)
        self._counted_at = now
        return now - self._moved_at


class ChangeBacklog:
    """What comes in against what is applied. Not thread-safe."""

    def __init__(self) -> None:
        self.wanted, self.applied = Speed(), Speed()
        self._last: float | None = None
        #: Changes a second, at the most.
        self._capacity: float | None = None

    def note(self, now: float, *, wanted: int, applied: int) -> None:
        """Note the changes wanted (received, not dropped or deduplicated), four times a second."""
        if self._last is not None and now - self._last < 0.25:
            return
        self._last = now
        self.wanted.note(now, wanted)
        self.applied.note(now, applied)
        rate = self.applied.recent(now)
        if rate:
            self._capacity = max(rate, self._capacity or 0.0)

    def seconds(self, now: float, pending: int, *, ahead: float = 0.0) -> float | None:
        """Return how long the pending changes take, from ``ahead`` seconds on; None if unknown."""
        if not self._capacity:
            return 0.0 if pending <= _TRIVIAL_CHANGES else None
        coming, going = self.wanted.steady(now) or 0.0, self.applied.steady(now) or 0.0
        then = pending + max(0.0, coming - going) * ahead
        if then <= max(_TRIVIAL_CHANGES / 10, self._capacity * _TRIVIAL_SECONDS):
            return 0.0
        spare = self._capacity - coming
        return then / spare if spare > 0 else None


def seconds_left(left: float | None, speed: float | None) -> float | None:
    """Return how long the rest takes; None where its size or the speed is not known."""
    if left is None or not speed or not math.isfinite(speed):
        return None
    return max(0.0, left) / speed


def together(*seconds: float | None) -> float | None:
    """Return the sum; None where one is not known."""
    known = [one for one in seconds if one is not None]
    return sum(known) if len(known) == len(seconds) else None


SWAP_SECONDS: Final = 1.0
"""Statistics, locks and the swap, if nobody is in front."""
#: A shorter copy says little about the time of a row.
_ENOUGH_SECONDS: Final = 1.0
_ENOUGH_ROWS: Final = 1000
_ESTIMATED: Final = (Phase.COPY, Phase.INDEX, Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM)


@dataclass(frozen=True, kw_only=True)
class TableShares:
    """The work on one table after its copy (index build, comparison), by the time of that."""

    index: float = 0.0
    checksum: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known of a run; times in seconds, None where not known.

    ``eta`` is of the current phase's own work, ``building`` the table whose indexes it is of;
    ``row_seconds`` is the time of copying a row.
    """

    phase: Phase
    eta: float | None
    spent: float | None = None
    row_seconds: float | None
    building: Name | None = None
    rows: Mapping[Name, int | None] = field(default_factory=dict)
    shares: Mapping[Name, TableShares] = field(default_factory=dict)


def row_seconds(rows: int, seconds: float) -> float | None:
    """Return the time of copying a row; None where too little was copied to say it."""
    return None if rows < _ENOUGH_ROWS or seconds < _ENOUGH_SECONDS else seconds / rows


def rest_of_run(seen: Measured) -> dict[str, float | None]:
    """Return the seconds left until the swap, by phase; empty while others are waited for."""
    if seen.phase not in _ESTIMATED:
        return {}
    rest = {seen.phase.value: seen.eta}
    builds = {name: one.index for name, one in seen.shares.items()}
    compared = _of_copy(seen, {name: one.checksum for name, one in seen.shares.items()})
    if seen.phase is Phase.INDEX:
        others = {name: share for name, share in builds.items() if name != seen.building}
        known = together(seen.eta, _of_copy(seen, others))
        expected = _expected(seen, _of_copy(seen, builds))
        rest[Phase.INDEX.value] = expected if known is None else known
    elif seen.phase is Phase.COPY and any(builds.values()):
        rest[Phase.INDEX.value] = _of_copy(seen, builds)
    if seen.phase is not Phase.CHECKSUM:
        rest[Phase.CHECKSUM.value] = compared
    elif seen.eta is None:
        rest[Phase.CHECKSUM.value] = _expected(seen, compared)
    rest[Phase.CUTOVER.value] = SWAP_SECONDS
    return rest


def until(planned: Collection[Phase]) -> str:
    """Return what the estimate leads to, for display."""
    if Phase.CUTOVER not in planned:
        return "the end of the rehearsal"
    return "the deferred swap" if Phase.SENTINEL in planned else "the swap"


def _expected(seen: Measured, whole: float | None) -> float | None:
    """Return what is left of a phase that shows no end yet; None once it takes longer."""
    if whole is None or seen.spent is None or seen.spent >= whole:
        return None
    return whole - seen.spent


def _of_copy(seen: Measured, shares: Mapping[Name, float]) -> float | None:
    each = seen.row_seconds
    shared = [(seen.rows.get(name), share) for name, share in shares.items() if share]
    if each is None:
        return None if shared else 0
    return together(*(None if rows is None else rows * each * share for rows, share in shared))


COMPARED: Final = 0.2
"""Time of comparing a row in both tables by that of copying it."""
COMPARED_STAGED: Final = 0.6
"""The same where the server converts the values once more to compare them."""
#: Parts of the time of a row, in units that the machine gives. Measured on 9.7 (100 000 rows of
#: 280, 460 and 1270 bytes, eleven indexes in turns, the better of two rounds): a row is copied in
#: 25 units and 0.024 for each of its bytes. An index's entry takes 4.5, and 0.004 for each byte of
#: the row that is read, and 0.13 for each byte of the entry that is sorted and written.
_COPIED, _COPIED_BYTE = 25.0, 0.024
_ENTRY, _READ_BYTE, _SORTED_BYTE = 4.5, 0.004, 0.13
#: Comparing the weights of a collation takes longer than comparing bytes.
_WEIGHED: Final = 1.3
_USUAL_ROW: Final = 200.0
_USUAL_TEXT: Final = 24.0
#: Of the types without a fixed width these are short, or nearly so.
_FIXED: Final = FIXED_BYTES | {"decimal": 6, "enum": 2, "set": 4, "bit": 4}


def build_share(table: TableSchema, names: Iterable[str], *, row_bytes: float | None) -> float:
    """Return the time of building indexes by that of copying the rows without them."""
    size = row_bytes or _USUAL_ROW
    copied = _COPIED + _COPIED_BYTE * size
    found = [index for name in names if (index := table.index(name)) is not None]
    return sum(_ENTRY + _READ_BYTE * size + _entry(table, index) for index in found) / copied


def _entry(table: TableSchema, index: Index) -> float:
    primary = table.primary_key
    parts = (*index.parts, *(primary.parts if primary is not None else ()))
    return sum(_part(table, part) for part in parts)


def _part(table: TableSchema, part: IndexPart) -> float:
    column = _column(table, part)
    collation = column.collation if column is not None else None
    weighed = collation is not None and not collation.endswith("_bin")
    return _SORTED_BYTE * _width(column, part.prefix) * (_WEIGHED if weighed else 1.0)


def _column(table: TableSchema, part: IndexPart) -> Column | None:
    known = part.column is not None and table.has_column(part.column)
    return table.column(part.column or "") if known else None


def _width(column: Column | None, prefix: int | None = None, *, filled: float = 1.0) -> float:
    """Return the bytes of a value; ``filled``: of a text, by those that are usual."""
    if column is None:
        return _USUAL_TEXT
    known = _FIXED.get(column.data_type)
    if known is not None:
        return known
    most = prefix or column.length or _USUAL_TEXT
    if column.data_type in {"char", "binary"}:
        return most
    # Of a text that may be long, the length is seldom used up.
    return min(most, filled * min(_USUAL_ROW, _USUAL_TEXT + most / 8))


#: What files hold beside the pages of indexes: a share, and in each one extents that are begun.
_MORE: Final = 1.25
_FILE_BYTES: Final = 8 << 20
_USUAL_ROWS: Final = 100_000
#: What an entry takes beside its values, and what a page leaves free of it.
_ENTRY_HEADER, _PAGE_SHARE = 7.0, 1.3


def likely_sizes(table: TableSchema) -> tuple[int, int]:
    """Return the bytes of rows and of secondary indexes.

    By the columns where the server's cannot be: after a load it has not counted the pages yet. As
    much as the files hold where statistics are out of date.
    """
    rows, indexes = _told_sizes(table)
    if not outdated(table):
        return rows, indexes
    if not table.estimated_rows:
        rows, indexes = _by_columns(replace(table, estimated_rows=_USUAL_ROWS))
    rows = int(table.file_bytes * rows / (rows + indexes))
    return rows, table.file_bytes - rows


def outdated(table: TableSchema) -> bool:
    """Return whether the files hold far more than the statistics say, which then miss rows."""
    begun = _FILE_BYTES * max(1, table.files)
    return table.file_bytes > _MORE * sum(_told_sizes(table)) + begun


def _told_sizes(table: TableSchema) -> tuple[int, int]:
    if table.row_bytes is not None or not table.estimated_rows:
        return table.data_bytes, table.index_bytes
    return _by_columns(table)


def _by_columns(table: TableSchema) -> tuple[int, int]:
    row = ROW_HEADER_BYTES + sum(_width(one) for one in _stored(table))
    indexes = (index_bytes(table, one, table) for one in table.indexes if one.name != "PRIMARY")
    return int(table.estimated_rows * row), sum(indexes)


def index_bytes(table: TableSchema, index: Index, source: TableSchema) -> int:
    """Return the bytes of an index for the rows of a source, whose texts are as long as there."""
    filled = _filled(source)
    primary = table.primary_key
    parts = (*index.parts, *(primary.parts if primary is not None else ()))
    entry = sum(_width(_column(table, part), part.prefix, filled=filled) for part in parts)
    return int(source.estimated_rows * (_ENTRY_HEADER + entry) * _PAGE_SHARE)


def _filled(table: TableSchema) -> float:
    texts = [one for one in _stored(table) if one.data_type not in _FIXED]
    usual = sum(map(_width, texts))
    if table.row_bytes is None or not usual:
        return 1.0
    others = ROW_HEADER_BYTES + sum(_width(one) for one in _stored(table)) - usual
    return max(0.1, (table.row_bytes - others) / usual)


def _stored(table: TableSchema) -> Iterator[Column]:
    return (one for one in table.columns if one.generated != "VIRTUAL")

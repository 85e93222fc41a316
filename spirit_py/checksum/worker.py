"""What a checksum compares, and a task of it: reads both tables in one snapshot.

Orders and answers are JSON, for the mailbox of :mod:`spirit_py.spark.gang`:

============================================  ===================================================
``{"do": "quiet"}``                           ``{}``
``{"do": "snapshot", "short": b}``            ``{}``
``{"do": "release"}``                         ``{}``
``{"do": "compare", "chunk": c}``             ``{"source", "target", "counts", "seconds"}``
``{"do": "count", "side": s, "chunk": c}``    ``{"rows"}``
``{"do": "extra"}``                           ``{"counts"}``
============================================  ===================================================

``quiet`` prepares for a snapshot that opens under a lock. ``rest`` in an order: seconds to rest for
each second of its statements; not while a ``short`` snapshot is open. Differing rows are the task's
result; in a short snapshot their keys are in the answer, ``differing``, as far as these are
``rows.MOST_TOLD`` bytes at most.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from spirit_py import points
from spirit_py.checksum import query
from spirit_py.checksum.query import SOURCE, TARGET, ComparisonPlan, Keys
from spirit_py.checksum.result import ChecksumOptions, Counts, RowDifference, count
from spirit_py.checksum.rows import as_bytes, by_key, differences, first_keys, key_text, unequal
from spirit_py.checksum.staging import HARMLESS_WARNINGS, stage
from spirit_py.chunk.chunk import decode_chunk
from spirit_py.classes import asdict, dataclass, field
from spirit_py.errors import ChecksumFailure
from spirit_py.events.event import Tell, untold
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import TaskRest
from spirit_py.pace import Unhindered, uncounted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checksum.query import Selection, Side
    from spirit_py.checksum.rows import Listed, Rows
    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import ChangeSource, SqlSession
    from spirit_py.pace import HeldUp, Pace
    from spirit_py.spark.gang import GangEngine
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

_SESSION_SECONDS: Final = 86_400
QUIET_SECONDS: Final = 120
"""After so much silence the server ends a session that has a snapshot, or that reads for those: its
process stands still or is gone. A task uses its session several times a second."""


@dataclass(frozen=True, kw_only=True)
class JoinChecksum:
    """Opens the sessions of one task; picklable. ``target`` is None on the source's server."""

    source: ConnectionOptions
    target: ConnectionOptions | None
    mapping: TableMapping
    most_differences: int
    examples: int

    def __call__(self, rank: int) -> SnapshotReader:
        """Return the member of that rank."""
        source = _open(self.source, rank)
        try:
            target = source if self.target is None else _open(self.target, rank)
        except BaseException:
            source.close()
            raise
        return SnapshotReader(self, source, target)


def _open(options: ConnectionOptions, rank: int) -> SqlSession:
    session = connect(options, role=f"checksum-{rank}", wait_timeout=_SESSION_SECONDS)
    try:
        session.execute("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
    except BaseException:
        session.close()
        raise
    return session


class SnapshotReader:
    """One task's sessions and what they do. One thread."""

    def __init__(self, spec: JoinChecksum, source: SqlSession, target: SqlSession) -> None:
        self.session: SqlSession = source
        self._target = target
        self._spec = spec
        self._plan = ComparisonPlan(mapping=spec.mapping)
        self._found: list[RowDifference] = []
        self._rest = TaskRest()
        self._short = self._ends_when_quiet = False
        #: Whether the last chunk of a short snapshot had differing rows: so will the next one.
        self._differed = False
        both = [(SOURCE, source.id), (TARGET, target.id)]
        self.sessions: Sequence[tuple[str, int]] = both if target is not source else both[:1]

    def handle(self, order: str) -> str:
        """Carry out one order."""
        said = json.loads(order)
        if said["do"] == "snapshot":
            if said["short"]:
                self._rest.take()
            self._short = said["short"]
            self._end_when_quiet()
            self.take_snapshot()
            return "{}"
        if said["do"] == "quiet":
            self._end_when_quiet()
            return "{}"
        if said["do"] == "release":
            for session in dict.fromkeys((self.session, self._target)):
                session.execute("COMMIT")
            return "{}"
        if not self._short:
            self._rest.take()
        began = time.monotonic()
        answer = self._answer(said)
        self._rest.owe(time.monotonic() - began, said.get("rest", 0.0))
        return answer

    def _end_when_quiet(self) -> None:
        if not self._ends_when_quiet:
            # Not the target's, which is not used while there are no orders.
            self.session.execute(f"SET SESSION wait_timeout = {QUIET_SECONDS}")
            self._ends_when_quiet = True

    def _answer(self, said: dict[str, Any]) -> str:
        if said["do"] == "extra":
            return json.dumps({"counts": asdict(self._keep(self.unmatched(None)))})
        chunk = decode_chunk(said["chunk"])
        if said["do"] == "count":
            return json.dumps({"rows": self._count(said["side"], chunk)})
        points.reach("checksum.chunk")
        return json.dumps(self._told(chunk) if self._short else self._compare(chunk))

    def result(self) -> list[RowDifference]:
        """Return the differing rows."""
        return self._found

    def close(self) -> None:
        """Close the sessions, and with them snapshot and temporary tables."""
        self._target.close()
        self.session.close()

    def take_snapshot(self) -> None:
        """Open the snapshot; it lasts until the sessions close."""
        # In a READ ONLY transaction the staging tables could not be created.
        read_only = "" if self._plan.staged else ", READ ONLY"
        for session in dict.fromkeys((self.session, self._target)):
            session.execute(f"START TRANSACTION WITH CONSISTENT SNAPSHOT{read_only}")

    def _count(self, side: Side, span: Chunk) -> int:
        session = self.session if side == SOURCE else self._target
        return int(session.query(query.count(self._plan, side, span))[0][0])

    def _compare(self, chunk: Chunk) -> dict[str, Any]:
        began = time.monotonic()
        self._stage(chunk)
        source, target = self._aggregates(chunk)
        seconds = time.monotonic() - began
        counts = Counts() if source == target else self._keep(differences(*self._rows(chunk)))
        if source != target and not counts.total:
            raise _differs_without_a_row(chunk, source, target)
        return {
            "source": source[0],
            "target": target[0],
            "counts": asdict(counts),
            "seconds": seconds,
        }

    def _told(self, chunk: Chunk) -> dict[str, Any]:
        began = time.monotonic()
        self._stage(chunk)
        found: list[RowDifference] = []
        source = target = (0, 0)
        if not self._differed:
            source, target = self._aggregates(chunk)
        if self._differed or source != target:
            mine, theirs = self._listed(chunk, judged=True)
            found = differences(*self._keyed(*unequal(mine, theirs, self._width)))
            if source != target and not found:
                raise _differs_without_a_row(chunk, source, target)
            source, target = (len(mine), 0), (len(theirs), 0)
        self._differed = bool(found)
        return {
            "source": source[0],
            "target": target[0],
            "counts": asdict(count(found)),
            "seconds": time.monotonic() - began,
            "differing": self._findable(first_keys(found)),
        }

    def _findable(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that find their own rows, in the snapshot that has listed these.

        By another key a row would be seen nowhere when it is looked at again, and so be equal.
        """
        if not keys:
            return []
        source, target = self.look(Keys(tuple(keys)))
        seen = {key for key, _ in (*source.values(), *target.values())}
        return [key for key in keys if key in seen]

    def _aggregates(self, chunk: Chunk) -> tuple[tuple[int, int], tuple[int, int]]:
        source = query.aggregate(self._plan, SOURCE, chunk)
        target = query.aggregate(self._plan, TARGET, chunk)
        if self._target is self.session:
            first = self._aggregate(self.session, source, chunk)
            return first, self._aggregate(self._target, target, chunk)
        with ThreadPoolExecutor(1) as helper:
            other = helper.submit(self._aggregate, self._target, target, chunk)
            return self._aggregate(self.session, source, chunk), other.result()

    def _aggregate(self, session: SqlSession, sql: str, chunk: Chunk) -> tuple[int, int]:
        count, digest = session.query(sql)[0]
        self._require_hashed(session, chunk)
        # Of no rows the server gives zeros, as long as its widest possible hash.
        return int(count), int(digest, 16)

    @staticmethod
    def _require_hashed(session: SqlSession, chunk: Selection) -> None:
        """Raise ChecksumFailure after a warning, with which a hash would prove nothing."""
        # For one, such as of a value above max_allowed_packet, which would become NULL.
        given = session.warning_count
        told = session.warnings() if given else []
        serious = [text for _, code, text in told if code not in HARMLESS_WARNINGS]
        if not serious and len(told) < given:
            serious = [f"it gave {given} warnings, of which it keeps {len(told)}"]
        if serious:
            raise _not_hashed(chunk, serious[0])

    def _stage(self, wanted: Selection) -> None:
        self._plan = stage(self.session, self._plan, wanted)

    def _rows(self, wanted: Selection) -> tuple[Rows, Rows]:
        return self._keyed(*self._listed(wanted))

    def _listed(self, wanted: Selection, *, judged: bool = False) -> tuple[Listed, Listed]:
        """List the rows of both sides; of single ones a key's literal may be warned of."""
        source = self.session.query(query.rows(self._plan, SOURCE, wanted))
        if judged:
            self._require_hashed(self.session, wanted)
        target = self._target.query(query.rows(self._plan, TARGET, wanted))
        if judged:
            self._require_hashed(self._target, wanted)
        elif any(row[self._width] is None for row in (*source, *target)):
            raise _not_hashed(wanted, "a hash is NULL")
        return source, target

    def _keyed(self, source: Listed, target: Listed) -> tuple[Rows, Rows]:
        mapping = self._plan.mapping
        return by_key(source, mapping.key_columns), by_key(target, mapping.new_key)

    @property
    def _width(self) -> int:
        return len(self._plan.mapping.key_columns)

    def _keep(self, found: Sequence[RowDifference]) -> Counts:
        room = max(0, self._spec.most_differences - len(self._found))
        for difference in found[:room]:
            shown = len(self._found) < self._spec.examples
            self._found.append(self._explained(difference) if shown else difference)
        return count(found)

    def unmatched(self, among: Keys | None) -> list[RowDifference]:
        """List rows of the new table, all or some, that have no source row."""
        sql = query.unmatched_target_rows(self._plan, self._spec.most_differences, among)
        keys = [key_text(self._plan.mapping.new_key, row) for row in self.session.query(sql)]
        return [RowDifference(key=key, kind="extra") for key in keys]

    def look(self, keys: Keys) -> tuple[Rows, Rows]:
        """Read the rows of some keys of both sides."""
        self._stage(keys)
        return self._rows(keys)

    def explain(self, difference: RowDifference) -> RowDifference:
        """Look up which columns of a changed row differ."""
        self._stage(Keys((difference.key,)))
        return self._explained(difference)

    def _explained(self, difference: RowDifference) -> RowDifference:
        if difference.kind != "changed":
            return difference
        source = self.session.query(query.values(self._plan, SOURCE, difference.key))
        target = self._target.query(query.values(self._plan, TARGET, difference.key))
        if len(source) != 1 or len(target) != 1:
            return difference
        compared = self._plan.mapping.compared
        names = tuple(
            pair.old.name
            for pair, one, other in zip(compared, source[0], target[0], strict=True)
            if as_bytes(one) != as_bytes(other)
        )
        return RowDifference(key=difference.key, kind="changed", columns=names)


def _not_hashed(wanted: Selection, why: str) -> ChecksumFailure:
    return ChecksumFailure(
        f"the server could not hash every row of chunk {wanted}: {why}",
        hint="raise max_allowed_packet on the server, then run the same command again",
    )


def _differs_without_a_row(
    chunk: Chunk, source: tuple[int, int], target: tuple[int, int]
) -> ChecksumFailure:
    return ChecksumFailure(
        f"chunk {chunk} differs ({source[0]} and {target[0]} rows), but no row in it does"
    )


Follower: TypeAlias = Literal["", "source", "target"]
"""The side that replicates from the other; empty where neither does, or without GTIDs."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The tables, servers and helpers of a comparison; the same for every pass.

    ``target`` is None on the source's server, ``feed`` where nothing keeps the tables equal.
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
    held_up: HeldUp = uncounted

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return self.mapping.source.full_name

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

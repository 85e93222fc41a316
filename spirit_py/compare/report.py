"""The result of a comparison of two tables: written as JSON, and shown as a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.checksum.result import Counts, shown_key
from spirit_py.classes import asdict, dataclass, field
from spirit_py.status.report import OutcomeReport
from spirit_py.units import counted, human_count, human_seconds

if TYPE_CHECKING:
    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.compare.column_matching import Matching


#: Figures that the checksum has under the same name.
_SAME: Final = ("rows", "chunks", "passes", "differences", "remaining", "in_motion", "snapshots")


@dataclass(kw_only=True)
class CompareReport(OutcomeReport):
    """Figures of one run; counts, seconds and milliseconds as the names say.

    ``missing`` and ``extra`` rows are only in the source or target, in all passes. ``remaining``
    rows still differ at the end; those ``in_motion`` were equal at a recheck. ``one_moment``: every
    snapshot showed both tables at the same moment. ``rows_counted``: a separate count proves that
    all rows were compared.
    """

    source: dict[str, str] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=dict)
    key: str = ""
    columns: list[list[str]] = field(default_factory=list)
    ignored_columns: list[str] = field(default_factory=list)
    only_in_source: list[str] = field(default_factory=list)
    only_in_target: list[str] = field(default_factory=list)
    computed_columns: list[str] = field(default_factory=list)
    rows: int = 0
    chunks: int = 0
    passes: int = 0
    differences: int = 0
    missing: int = 0
    extra: int = 0
    changed: int = 0
    remaining: int = 0
    in_motion: int = 0
    difference_examples: list[dict[str, Any]] = field(default_factory=list)
    chunks_repaired: int = 0
    snapshots: int = 0
    one_moment: bool = False
    rows_counted: bool = False
    lock_wait_ms: float = 0.0
    lock_held_ms: float = 0.0
    gather_seconds: float = 0.0
    compare_seconds: float = 0.0
    threads: int = 0

    def note_matching(self, matching: Matching) -> None:
        """Enter the compared columns, and those that are not."""
        mapping = matching.mapping
        self.key = f"{mapping.key.name} ({', '.join(mapping.key.columns)})"
        self.columns = [[pair.old.name, pair.new.name] for pair in mapping.compared]
        self.ignored_columns = list(matching.ignored)
        self.only_in_source = list(matching.only_source)
        self.only_in_target = list(matching.only_target)
        self.computed_columns = list(matching.computed)

    def note_result(self, result: ChecksumResult) -> None:
        """Enter the result of the checksum, also of one that failed."""
        for name in _SAME:
            setattr(self, name, getattr(result, name))
        for kind, rows in asdict(result.counts).items():
            setattr(self, kind, rows)
        self.chunks_repaired = result.repaired_chunks
        self.one_moment = result.one_moment and result.snapshots > 0
        self.rows_counted = result.rows_counted and result.passes > 0
        self.lock_wait_ms = round(result.lock_wait_ms, 3)
        self.lock_held_ms = round(result.lock_held_ms, 3)
        self.gather_seconds = round(result.gather_seconds, 3)
        self.compare_seconds = round(result.seconds, 3)
        self.difference_examples = [
            {"row": shown_key(one.key), "kind": one.kind, "columns": list(one.columns)}
            for one in result.examples
        ]

    @property
    def names(self) -> str:
        """Both tables, with their servers where they have the same name."""
        sides = self.source, self.target
        one, other = (f"{side['schema']}.{side['table']}" for side in sides)
        if one == other:
            one, other = (f"{one} on {side['address']}" for side in sides)
        return f"{one} and {other}"

    def summary(self) -> list[str]:
        """Return the lines of the summary of a finished comparison."""
        verdict = {
            "equal": "are equal",
            "repaired": "are equal now, after a repair",
            "different": "differ",
        }[self.outcome]
        rows = f"{human_count(self.rows)} rows, {len(self.columns)} columns"
        warned = counted(len(self.warnings), "warning")
        shown = f"; {warned}, shown above" if self.warnings else ""
        lines = [f"{self.names} {verdict}: {rows} in {human_seconds(self.seconds)}{shown}"]
        if self.differences:
            counts = Counts(missing=self.missing, extra=self.extra, changed=self.changed)
            different = counted(self.differences, "row")
            lines.append(f"  different  {different} in the target: {counts}")
        if self.in_motion:
            lines.append(
                f"  in motion  {counted(self.in_motion, 'row')} differed at first, equal a moment"
                " later"
            )
        lines.append(f"  snapshot   {self._snapshot()}")
        return lines

    def _snapshot(self) -> str:
        moment = "both tables at one moment" if self.one_moment else "not of one moment"
        counted = "" if self.rows_counted else ", rows not counted again"
        locked = f"locked for {self.lock_held_ms:.0f} ms" if self.lock_held_ms else "without a lock"
        return f"{moment}, {locked}{counted}"


def advice(result: ChecksumResult, *, repair: bool, unrepaired: str, unfit: int = 0) -> str:
    """Return what to do about rows that differ; ``unrepaired``: why none of them was repaired.

    ``unfit`` of them do not fit into the target.
    """
    if unrepaired:
        return f"; {unrepaired}"
    if repair:
        more = "; more rows differ than are repaired at once: the same command goes on"
        return more if result.unlisted and result.remaining > unfit else ""
    once = "; so many differ that {} of them were not looked at once more"
    few = once.format(counted(result.unlisted, "row")) if result.unlisted else ""
    return f"{few}; --repair writes the source's rows to the target"

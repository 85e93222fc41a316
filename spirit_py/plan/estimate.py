"""Times from a sample, by factors that were measured on idle servers (pure; docs/benchmarks.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.checksum.query import ComparisonPlan
from spirit_py.estimates import COMPARED, COMPARED_STAGED, build_share
from spirit_py.plan.model import PhaseTime, TimePlan
from spirit_py.units import counted

if TYPE_CHECKING:
    from spirit_py.plan.model import IndexesPlan
    from spirit_py.plan.sample import Sample
    from spirit_py.table.mapping import TableMapping

COPY_FACTOR: Final = 1.6
HASH_FACTOR: Final = 2.0
FIXED: Final = 0.8
_TOLERANCE: Final = 0.3
_FEW_ROWS: Final = 20_000


def time_of(
    mapping: TableMapping, indexes: IndexesPlan | None, sample: Sample, *, before: int = 0
) -> TimePlan:
    """Return the time of a copy; ``before``: rows that an earlier run has copied."""
    if not sample.rows:
        return TimePlan(how=f"no sample was taken: {sample.trouble}")
    source = mapping.source
    rows = max(0, source.estimated_rows - before)
    copied = rows * sample.row_copied * COPY_FACTOR
    copied += 2 * source.data_bytes * (sample.log_byte or 0.0)
    deferred = indexes.deferred if indexes is not None else ()
    share = build_share(mapping.target, deferred, row_bytes=source.row_bytes)
    built = source.estimated_rows * sample.row_copied * COPY_FACTOR * share
    hashed = source.estimated_rows * sample.row_hashed * HASH_FACTOR
    phases = [PhaseTime(phase="copy", seconds=round(copied, 1))]
    if deferred:
        phases.append(PhaseTime(phase="index", seconds=round(built, 1)))
    phases += [
        PhaseTime(phase="checksum", seconds=round(hashed, 1)),
        PhaseTime(phase="others", seconds=FIXED),
    ]
    whole = copied + built + hashed + FIXED
    off = _TOLERANCE + min(0.5, sample.spread / 4) + (0.3 if sample.rows < _FEW_ROWS else 0.0)
    cut = f"; the sample was cut short: {sample.trouble}" if sample.trouble else ""
    return TimePlan(
        seconds=round(whole, 1),
        least=round(whole / (1 + off), 1),
        most=round(whole * (1 + off), 1),
        phases=tuple(phases),
        how=f"from {counted(sample.rows, 'row')} copied and hashed by"
        f" {counted(sample.sessions, 'session')} in"
        f" {sample.seconds:.1f} s{cut}; other users of the server, its pace, throttles and locks"
        " may make it longer",
        sample_rows=sample.rows,
        sample_seconds=sample.seconds,
    )


def comparison_time(mapping: TableMapping, sample: Sample) -> float | None:
    """Return the seconds of comparing every row, from rows hashed as they are; None without any."""
    if not sample.rows:
        return None
    staged = COMPARED_STAGED / COMPARED if ComparisonPlan(mapping=mapping).staged else 1.0
    return mapping.source.estimated_rows * sample.row_hashed * HASH_FACTOR * staged

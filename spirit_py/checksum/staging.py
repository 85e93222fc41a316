"""Stage a chunk's values for the server to convert, also where some do not fit the new type.

docs/verification.md has the steps. Also halved is a chunk for which INSERT IGNORE fails (JSON,
geometry) or notes something about text in a DECIMAL: digits cut off, or what strict mode refuses.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.checksum import staging_sql
from spirit_py.errors import PacketTooSmall, ServerFault
from spirit_py.mysql.evaluation import as_stored, evaluating
from spirit_py.mysql.faults import PACKET_TOO_SMALL, RAISE_PACKET
from spirit_py.mysql.lost_values import MOST_WARNINGS, VALUE_ERRORS, read_complaint
from spirit_py.table.keys import INTEGERS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spirit_py.checksum.query import ComparisonPlan, Selection
    from spirit_py.contracts import SqlSession

#: A deprecated character set or collation: the value is converted exactly.
HARMLESS_WARNINGS: Final = frozenset({1287, 3719, 3778})
_STAGED: Final = re.compile(r"_spirit_py_c(\d+)")
_NUMBERS: Final = INTEGERS | {"decimal", "float", "double"}
_ROWS: Final = 1000


def stage(session: SqlSession, plan: ComparisonPlan, wanted: Selection) -> ComparisonPlan:
    """Fill the staging tables with some rows; return the plan by which to read them."""
    if not plan.staged:
        return plan
    plan = replace(plan, unfit=False)
    rows = session.query(staging_sql.select_staged(plan, wanted))
    _make(session, plan)
    _fill(session, plan, rows)
    try:
        with evaluating(session, plan.mapping, notes=True):
            session.execute(staging_sql.convert_stage(plan))
    except ServerFault as fault:
        if not _about_a_value(fault):
            raise
    else:
        return plan
    plan = replace(plan, unfit=True)
    _make(session, plan)
    for begin in range(0, len(rows), _ROWS):
        _stage_what_fits(session, plan, rows[begin : begin + _ROWS])
    return plan


def _refuse_cut(session: SqlSession, plan: ComparisonPlan) -> None:
    """Raise PacketTooSmall if a value, put together of pieces, became NULL: it is too large."""
    told = session.warnings() if session.warning_count else []
    for _, code, text in told:
        if code in PACKET_TOO_SMALL:
            raise PacketTooSmall(
                f"a row of {plan.mapping.source.full_name} has a value that is too large:"
                f" {text} (error {code})",
                hint=RAISE_PACKET,
            )


def _make(session: SqlSession, plan: ComparisonPlan) -> None:
    with as_stored(session):
        for side in ("old", "new"):
            session.execute(staging_sql.drop_stage(plan, side))
            session.execute(staging_sql.create_stage(plan, side))


def _fill(session: SqlSession, plan: ComparisonPlan, rows: Sequence[Sequence[Any]]) -> None:
    with as_stored(session):
        for statement in staging_sql.fill_stage(plan, rows):
            session.execute(statement)
            _refuse_cut(session, plan)


def _about_a_value(fault: ServerFault) -> bool:
    return fault.code in VALUE_ERRORS or "'_spirit_py_c" in fault.text


def _stage_what_fits(
    session: SqlSession, plan: ComparisonPlan, rows: Sequence[Sequence[Any]]
) -> None:
    session.execute(staging_sql.empty_old(plan))
    _fill(session, plan, rows)
    if len(rows) == 1:
        _stage_one(session, plan)
        return
    found = _ignoring(session, plan)
    if found is None:
        session.execute(staging_sql.empty_old(plan))
        middle = len(rows) // 2
        _stage_what_fits(session, plan, rows[:middle])
        _stage_what_fits(session, plan, rows[middle:])
        return
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, places in found.items():
        alike[tuple(sorted(places))].append(number)
    for marked, numbers in alike.items():
        session.execute(staging_sql.mark_unfit(plan, marked, numbers))


def _ignoring(session: SqlSession, plan: ComparisonPlan) -> dict[int, set[int]] | None:
    """Convert values that fit; return each row's places of the others; None if ambiguous."""
    try:
        with evaluating(session, plan.mapping, notes=True):
            session.execute(staging_sql.convert_stage(plan, verb="INSERT IGNORE"))
            count = session.warning_count
            said = session.warnings() if count else []
    except ServerFault as fault:
        if not _about_a_value(fault):
            raise
        return None
    # There a note may be an error in strict mode.
    texts_to_decimal = {
        place
        for place, pair in enumerate(plan.staged)
        if pair.new.data_type == "decimal" and pair.old.data_type not in _NUMBERS
    }
    found = places_of(said, doubtful=texts_to_decimal) if len(said) >= count else None
    if found is None:
        session.execute(staging_sql.take_back(plan))
    return found


def places_of(
    said: Sequence[tuple[str, int, str]], *, doubtful: Collection[int] = ()
) -> dict[int, set[int]] | None:
    """Read warnings: each row's places of columns; None if one is unclear, as at ``doubtful``."""
    if len(said) >= MOST_WARNINGS:
        return None
    found: dict[int, set[int]] = defaultdict(set)
    for level, code, text in said:
        about, noted = read_complaint(text), level == "Note"
        staged = _STAGED.fullmatch(about.column)
        number = int(staged[1]) if staged and about.row else None
        if code in HARMLESS_WARNINGS or (noted and number is not None and number not in doubtful):
            continue
        if number is None or noted or code not in VALUE_ERRORS:
            return None
        found[about.row].add(number)
    return found


def _stage_one(session: SqlSession, plan: ComparisonPlan) -> None:
    places = range(len(plan.staged))
    fitting = [place for place in places if _fits(session, plan, place)]
    with evaluating(session, plan.mapping, notes=True):
        session.execute(staging_sql.convert_stage(plan, fitting))
    unfit = [place for place in places if place not in fitting]
    if unfit:
        session.execute(staging_sql.mark_unfit(plan, unfit, (1,)))


def _fits(session: SqlSession, plan: ComparisonPlan, place: int) -> bool:
    try:
        with evaluating(session, plan.mapping, notes=True):
            session.execute(staging_sql.convert_stage(plan, (place,)))
    except ServerFault as fault:
        if not _about_a_value(fault):
            raise
        return False
    session.execute(staging_sql.take_back(plan))
    return True

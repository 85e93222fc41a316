"""Deletes and rows written as literals, without a staging table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.applier.batch import delete_keys, replace_rows
from spirit_py.applier.verdicts import UNDEFINED_CHARACTER, judge_warnings
from spirit_py.mysql.evaluation import evaluating
from spirit_py.mysql.faults import SYNTAX_ERROR
from spirit_py.mysql.values.lost_values import DEPRECATED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.applier.batch import Bounds
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

_HARMLESS: Final = (DEPRECATED, UNDEFINED_CHARACTER, SYNTAX_ERROR)


def delete(session: SqlSession, mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> None:
    """Delete the rows of these keys, which mean the same in the new table.

    A syntax warning is about a hint that an older server does not know.
    """
    for statement in delete_keys(mapping, keys, bounds):
        with evaluating(session, mapping):
            session.execute(statement)
            judge_warnings(session, mapping, allowed=_HARMLESS)


def replace(
    session: SqlSession,
    mapping: TableMapping,
    rows: Sequence[str],
    bounds: Bounds,
    judged: Callable[[], AbstractContextManager[None]],
) -> None:
    """Write rows over others.

    Args:
        judged: the context of each statement and the check of its warnings.
    """
    for statement in replace_rows(mapping, rows, bounds):
        with evaluating(session, mapping), judged():
            session.execute(statement)
            judge_warnings(session, mapping, rows)

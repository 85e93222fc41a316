"""Commits are timed while none of the migrations of this process works.

Each migration of a batch times small commits before its copy and again every ten minutes
(:mod:`spirit_py.throttle.adaptive`). Another copy beside it would count as the application's load,
and everything measured later would look fast. So the others begin nothing for this second or two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.throttle.throttler import ALL_WORK

if TYPE_CHECKING:
    from spirit_py.throttle.adaptive import Adaptive


class Measures:
    """The paces of all migrations that run side by side. Any thread may call it."""

    def __init__(self) -> None:
        self._paces: tuple[Adaptive, ...] = ()

    def join(self, pace: Adaptive) -> OthersMeasure:
        """Add the pace of a migration; return what holds it back while another one measures."""
        self._paces = (*self._paces, pace)
        return OthersMeasure(self, pace)

    def leave(self, pace: Adaptive) -> None:
        """Remove the pace of a migration that has ended; safe to call again."""
        self._paces = tuple(one for one in self._paces if one is not pace)

    def measuring(self, but: Adaptive) -> bool:
        """Return whether another one than this measures now."""
        return any(one.measuring for one in self._paces if one is not but)


class OthersMeasure:
    """Holds a migration back while another one beside it times commits."""

    name: Final = "other measure"
    holds: Final = ALL_WORK
    every: Final = 0

    def __init__(self, measures: Measures, pace: Adaptive) -> None:
        self._measures = measures
        self._pace = pace
        # What the others have begun ends before the commits count.
        pace.settles = True

    def look(self) -> str:
        """Return what is waited for."""
        if self._measures.measuring(self._pace):
            return "the measure of commits for another table of the batch"
        return ""

    def close(self) -> None:
        """End it: the other migrations are no longer held back."""
        self._measures.leave(self._pace)

"""A pace that a test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.pace import Unhindered

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.pace import Work


class SetPace(Unhindered):
    """A pace with everything set by the test; it counts how often each kind of work asked.

    Args:
        why: returns what a kind of work has to wait for.
    """

    def __init__(
        self,
        *,
        why: Callable[[Work], str] = lambda _: "",
        most_tasks: int = 256,
        part: int = 2 << 20,
        rest: float = 0.0,
        chunk_seconds: float = 0.5,
    ) -> None:
        """Keep the values, which may be changed."""
        super().__init__(chunk_seconds)
        self.why = why
        self.most_tasks = most_tasks
        self.part = part
        self.rest = rest
        self.asked: dict[Work, int] = {}

    def reason(self, work: Work) -> str:
        """Return the reason."""
        self.asked[work] = self.asked.get(work, 0) + 1
        return self.why(work)

    def tasks(self, most: int) -> int:
        """Return the number of tasks."""
        return min(most, self.most_tasks)

    def part_bytes(self) -> int:
        """Return the size of a transaction."""
        return self.part

    def rest_after(self, seconds: float) -> float:
        """Return the rest."""
        return seconds * self.rest

"""How often a comparison looks whether its servers are there."""

from __future__ import annotations

from typing import Any

from spirit_py.compare import checks
from spirit_py.config import ConnectionOptions


class Looks:
    """The event that ends the looks after some, each with what work is done by then."""

    def __init__(self, done: list[int]) -> None:
        self.done = done
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        """Note the pause; True at the end."""
        self.pauses.append(seconds)
        return len(self.pauses) > len(self.done)

    def now(self) -> int:
        """Return the work that is done at this look."""
        return self.done[len(self.pauses) - 1]


def test_looks_are_rarer_while_the_servers_answer_and_no_work_is_done(monkeypatch):
    """Each is a login; a server that is away, and work that goes on, are seen at once again."""
    looks = Looks([1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2])
    away = 10
    monkeypatch.setattr(checks, "_trouble", lambda *_: "away" * (len(looks.pauses) == away + 1))
    stopping: Any = looks
    checks.Sight([ConnectionOptions()], looks.now).run(stopping)
    assert looks.pauses == [1, 1, 2, 4, 8, 8, 8, 8, 8, 1, 2, 1, 2]

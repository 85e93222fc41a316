"""A server that is told to lack what its version has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.mysql.capabilities import Capability
from spirit_py.mysql.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def lack(monkeypatch: pytest.MonkeyPatch, *missing: Capability) -> None:
    """Have the program of this process go by a server that cannot do these."""
    really = Capability.of
    monkeypatch.setattr(
        Capability, "of", lambda self, version: self not in missing and really(self, version)
    )


def answer(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[tuple[Any, ...]]]) -> None:
    """Have the server answer so to statements that begin like that."""
    query: Callable[..., Any] = Session.query

    def answered(self: Session, sql: str, parameters: Any = None) -> Any:
        given = [answers[begin] for begin in answers if sql.startswith(begin)]
        return given[0] if given else query(self, sql, parameters)

    monkeypatch.setattr(Session, "query", answered)

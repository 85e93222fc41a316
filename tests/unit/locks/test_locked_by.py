"""Whose lock is waited for: each table is looked for on the server that has it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from spirit_py.errors import ServerFault
from spirit_py.locks import look
from spirit_py.locks.look import LockedBy

if TYPE_CHECKING:
    import pytest

    from spirit_py.config import ConnectionOptions

MAPPING: Any = SimpleNamespace(
    source=SimpleNamespace(schema="here", name="t"),
    target=SimpleNamespace(schema="there", name="u"),
)


def test_each_table_is_looked_for_on_its_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that another table has on the other server says nothing; one may be away."""
    asked: list[Any] = []
    first, second, alone = (cast("ConnectionOptions", name) for name in "ABC")

    def connect(server: str, **_: Any) -> Any:
        asked.append(server)
        if server == "A":
            raise ServerFault(2003, "away", where="test")
        return contextlib.nullcontext(server)

    def found(server: str, _: str, tables: Any) -> Any:
        asked.append(tables)
        return [SimpleNamespace(own=False)] if server == "B" else []

    monkeypatch.setattr(look, "connect", connect)
    monkeypatch.setattr(look, "_of_tables", found)
    assert LockedBy.of(first, MAPPING, second)().startswith("the end of a lock on there.u: ")
    assert asked == ["A", "B", [("there", "u")]]
    asked.clear()
    assert LockedBy.of(alone, MAPPING)() == ""
    assert asked == ["C", [("here", "t"), ("there", "u")]]

"""Whose lock is waited for: each table is looked for on the server that has it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from spirit_py.errors import ServerFault
from spirit_py.locks import look
from spirit_py.locks.look import LockedBy, require_definable

if TYPE_CHECKING:
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


def test_a_backup_keeps_only_definitions_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only writes rows passes LOCK INSTANCE FOR BACKUP; a request may be for no table."""
    asked: list[str] = []

    class Asked:
        """A session that shows no locks."""

        def query(self, sql: str) -> list[Any]:
            asked.append(sql)
            return []

    monkeypatch.setattr(look, "connect", lambda *_, **__: contextlib.nullcontext(Asked()))
    options = cast("ConnectionOptions", "A")
    assert LockedBy((options, [("s", "t")]))() == ""
    assert LockedBy((options, ()), defines=True)() == ""
    assert ["LIKE 'BACKUP%'" in sql for sql in asked] == [False, True]
    assert "IN ((NULL, NULL))" in asked[1]


def test_nothing_is_made_behind_a_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait in the global lock that another may want; who is in front is named."""
    holders: list[str] = []
    monkeypatch.setattr(look, "_of_tables", lambda *_: holders)
    session: Any = SimpleNamespace(id=7)
    require_definable(session)
    holders.append("session 8 of backup@web1")
    with pytest.raises(ServerFault, match="on the whole server: session 8 of backup") as raised:
        require_definable(session)
    assert raised.value.code == 1205

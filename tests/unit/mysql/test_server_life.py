"""Which restarts of a server prove that nothing was lost (R25)."""

from __future__ import annotations

import pytest

from spirit_py.codes import ErrorCode
from spirit_py.errors import HistoryLost
from spirit_py.mysql.facts import KEEPS_ALL, Seen, ServerLife, named, relaxed

SAFE = {name: value.lower() for name, value in KEEPS_ALL.items()}
RELAXED = {"sync_binlog": "0"}


def seen(started: int, settings: dict[str, str]) -> Seen:
    """Return what a server says that was started then."""
    return Seen("uuid", "", started, settings, "ON")


def test_a_life_without_a_restart_goes_on_whatever_is_set() -> None:
    """Only a crash loses anything."""
    life = ServerLife(100, {})
    life.go_on(seen(100, RELAXED))
    life.go_on(seen(100, {}))
    assert life.relaxed == RELAXED


def test_a_restart_that_keeps_all_begins_another_life() -> None:
    """The next restart is judged from there."""
    life = ServerLife(100, {})
    life.go_on(seen(200, {}))
    life.go_on(seen(200, {}))
    assert life.started == 200


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [(RELAXED, {}, {}), ({}, RELAXED, {}), ({}, {}, RELAXED)],
)
def test_one_relaxed_reading_makes_a_restart_one_that_may_lose(
    before: dict[str, str], between: dict[str, str], after: dict[str, str]
) -> None:
    """R25: what was in force at the crash is not known, so the worst of all readings counts."""
    life = ServerLife(100, before)
    life.go_on(seen(100, between))
    for _ in range(2):
        with pytest.raises(HistoryLost, match="sync_binlog=0") as caught:
            life.go_on(seen(200, after))
        assert caught.value.error_code is ErrorCode.SERVER_RESTARTED
    assert life.started == 100


def test_settings_that_may_lose_are_named() -> None:
    """In any case of letters; one that is missing counts as relaxed."""
    assert relaxed(SAFE) == {}
    assert named(relaxed(SAFE | {"sync_binlog": "100"})) == "sync_binlog=100"
    assert set(relaxed({})) == set(KEEPS_ALL)

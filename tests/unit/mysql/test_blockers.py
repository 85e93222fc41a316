"""Who may be killed for the table lock."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from spirit_py.locks import look
from spirit_py.locks.blockers import Blocker, KillPolicy, reason_to_spare, remedy

if TYPE_CHECKING:
    from typing import Any

    from spirit_py.config import KillMode

KILLABLE = Blocker(
    key=(40, 1), session=7, user="app", host="web1", idle=True, seconds=60, rows_modified=10
)


def spared(blocker: Blocker, mode: KillMode = "all", *, in_front_for: float = 30.0) -> str:
    """Return the reason to spare a blocker that may be killed after 10 seconds."""
    kills = KillPolicy(mode=mode, after=10.0)
    return reason_to_spare(blocker, kills, in_front_for=in_front_for)


def test_a_slow_session_may_be_killed():
    """A session that is in the way for long, with little to roll back, may be killed."""
    assert spared(KILLABLE) == ""
    assert spared(dataclasses.replace(KILLABLE, rows_modified=1_000_000)) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"session": None}, "XA RECOVER"),
        ({"system": True}, "belongs to the server"),
        ({"own": True}, "belongs to this program"),
        ({"table_locks": True}, "LOCK TABLES"),
        ({"defining": True}, "definition"),
        ({"rows_modified": None}, "grant PROCESS"),
        ({"rows_modified": 1_000_001}, "1000001 rows"),
        ({"certain": False}, "not visible"),
    ],
)
@pytest.mark.parametrize("mode", ["idle", "all"])
def test_each_rule_spares_a_blocker_on_its_own(change, reason, mode):
    """Each rule spares on its own, and says why."""
    assert reason in spared(dataclasses.replace(KILLABLE, **change), mode)


def test_nobody_is_killed_by_default():
    """R23: ending sessions is the operator's choice."""
    assert reason_to_spare(KILLABLE, KillPolicy(), in_front_for=1e9)


def test_a_running_statement_is_killed_only_when_all_may_be():
    """R23: idle spares who executes, and who has begun to idle between two statements."""
    busy = dataclasses.replace(KILLABLE, idle=False)
    pausing = dataclasses.replace(KILLABLE, seconds=1)
    assert [spared(each, "all") for each in (KILLABLE, busy, pausing)] == ["", "", ""]
    assert spared(KILLABLE, "idle") == ""
    assert "executing" in spared(busy, "idle")
    assert "idle for only 1 s" in spared(pausing, "idle")


def test_a_fast_session_is_spared():
    """A session that has been in the way for a moment only is merely fast."""
    assert "only" in spared(KILLABLE, in_front_for=9.9)
    assert spared(KILLABLE, in_front_for=10.0) == ""


def test_blocker_says_what_it_does():
    """The text for the log names the session and what it does, without values."""
    busy = dataclasses.replace(
        KILLABLE, idle=False, rows_modified=None, statement="SELECT `a` FROM `t` WHERE `b` = ?"
    )

    assert str(KILLABLE) == (
        "session 7 of app@web1, idle in a transaction for 60 s, rows changed: 10"
    )
    assert str(busy) == (
        "session 7 of app@web1, executing for 60 s, rows changed: unknown,"
        " last statement: SELECT `a` FROM `t` WHERE `b` = ?"
    )
    assert "prepared XA" in str(dataclasses.replace(KILLABLE, session=None))


BY_HAND = "; to end them: KILL 7 (RDS: CALL mysql.rds_kill)"
BY_IDLE = f"{BY_HAND} (--kill-blockers idle kills those that idle in a transaction)"
BY_ALL = f"{BY_HAND} (--kill-blockers all kills those that execute a statement, too)"
BY_NO_MODE = f"{BY_HAND} (no --kill-blockers kills such a session)"
SOON = "; it is killed in 13 s (--kill-after 30s)"


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({}, {"never": BY_IDLE, "idle": SOON, "all": SOON}),
        ({"seconds": 5}, {"idle": SOON.replace("13", "25"), "all": SOON}),
        ({"idle": False}, {"never": BY_ALL, "idle": BY_ALL, "all": SOON}),
        ({"table_locks": True}, dict.fromkeys(("never", "idle", "all"), BY_NO_MODE)),
        ({"system": True}, dict.fromkeys(("never", "idle", "all"), "")),
    ],
)
def test_what_ends_a_blocker_is_what_would_end_it(change, ends):
    """Its time, a mode that would kill it, or a kill by hand: never a mode that spares it."""
    blocker = dataclasses.replace(KILLABLE, **change)
    for mode, end in ends.items():
        assert remedy([blocker], KillPolicy(mode=mode), lambda _: 17.0) == end


def test_a_blocker_that_the_server_did_not_kill_is_left_to_the_operator():
    """Its time is over, and it is still there."""
    assert remedy([KILLABLE], KillPolicy(mode="idle"), lambda _: 31.0) == BY_HAND


def test_of_several_blockers_each_has_its_end():
    """Some are killed, others are not."""
    other = dataclasses.replace(KILLABLE, key=(41, 1), session=8, idle=False)
    end = remedy([KILLABLE, other], KillPolicy(mode="idle"), lambda _: 17.0)
    assert end == "; 1 of them killed in 13 s (--kill-after 30s)" + BY_ALL.replace("7", "8", 1)


def test_lock_tables_is_no_transaction():
    """Whoever idles with it has to unlock, not to commit."""
    text = str(dataclasses.replace(KILLABLE, table_locks=True))
    assert text.startswith("session 7 of app@web1, idle with LOCK TABLES or a global lock for 60 s")


@pytest.mark.parametrize("kind", ["BACKUP LOCK", "BACKUP TABLES LOCK"])
def test_a_lock_for_a_backup_is_in_front_of_a_definition(kind):
    """Percona Server has a type of its own for LOCK TABLES FOR BACKUP, of which no name is sure."""
    asked: list[str] = []

    class Shown:
        """A session that shows one holder of such a lock."""

        origin = ""

        def query(self, sql: str, _: object = ()) -> list[tuple[Any, ...]]:
            asked.append(sql)
            if "OWNER_EVENT_ID, LOCK_STATUS" in sql:
                return [(40, 1, 7, "b", "h", "", "Sleep", 9, "", "one", 1.0, 0)]
            if "OWNER_THREAD_ID IN" in sql:
                return [(40, kind, "SHARED")]
            return [(0,)] if "IS_USED_LOCK" in sql else []

    session: Any = Shown()
    request = look.LockRequest(tables=[("s", "t")], defines=True)
    (found,) = look.find_in_front(session, request)
    assert "OBJECT_TYPE LIKE 'BACKUP%') AND LOCK_TYPE = 'SHARED'" in asked[0]
    assert found.table_locks

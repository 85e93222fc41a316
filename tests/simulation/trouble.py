"""What a DBA, an accident or another application does to a server while the command runs.

Each trouble is a function of a :class:`Scene`, which returns whether it had an effect. A world has
one or two of them. After those in :data:`MAY_END` a run may end with an error for good where an
earlier run has begun the swap: it says truly that the table is not migrated, and that its operator
has to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.program import CLIENT_ERRORS, NEW, T
from tests.simulation.statements import REVOKE, answer, execute

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.simulation.server import Server, Session

#: What :data:`REVOKE` takes one of.
REVOKED: Final = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "LOCK TABLES", "TRIGGER"),
)


@dataclass
class Scene:
    """The server, the dice, and how to connect to the server as soon as it takes connections."""

    server: Server
    random: random.Random
    connected: Callable[[str], Session]

    def soon(self) -> None:
        """Let some time pass."""
        longest = self.random.choice((0.01, 0.1, 0.5, 1.0, 2.0, 5.0))
        self.server.scheduler.sleep(longest * self.random.random())

    def dba(self, *, logged: bool = True, schema: str = "s") -> Session:
        """Open a session of a DBA; ``logged`` as ``sql_log_bin``."""
        session = self.connected("dba")
        session.logged, session.schema = logged, schema
        return session

    def restart(self, lost: int = 0) -> bool:
        """Kill the server, and start it again after a while; return whether anything is lost."""
        forgot = self.server.crash(lost)
        self.server.scheduler.sleep(self.random.choice((0.0, 1.0, 20.0)))
        self.server.restart()
        return forgot

    def disturb(self, name: str, act: Callable[[Scene], object]) -> None:
        """Do something to the server, and note it if it had an effect."""
        if act(self):
            self.server.happened.add(name)


def send(scene: Scene, sql: str, *, logged: bool = True, schema: str = "s") -> bool:
    """Send a statement in a session of its own; return whether it met no error."""
    session = scene.dba(logged=logged, schema=schema)
    scene.server.scheduler.tell(f"dba: {sql}{'' if logged else ' (sql_log_bin=0)'}")
    return _done(session, partial(execute, session, sql, ()))


def _done(session: Session, act: Callable[[], object]) -> bool:
    """Return whether a session's act, its last one, meets no error."""
    try:
        act()
    except CLIENT_ERRORS:
        return False
    finally:
        session.server.end(session)
    return True


def _restore(scene: Scene) -> bool:
    """A dump of the table is restored, in no event."""
    rows = dict(scene.server.tables[T].rows)
    scene.soon()
    session = scene.dba(logged=False)
    scene.server.scheduler.tell("dba: the table is restored from a dump (sql_log_bin=0)")
    return _done(session, partial(execute, session, "dba restore s.t", (rows,)))


def _crash_with_loss(kind: str) -> Callable[[Scene], bool]:
    def crash(scene: Scene) -> bool:
        scene.server.relaxed = kind
        scene.soon()
        return scene.restart(scene.random.randrange(1, 6))

    return crash


def _filter(scene: Scene) -> bool:
    """The server restarts with ``binlog_ignore_db=scratch``; then TRUNCATE under USE scratch."""
    scene.server.ignored = "scratch"
    scene.restart()
    if scene.random.random() < 0.7:
        scene.soon()
        send(scene, "TRUNCATE TABLE `s`.`t`", schema="scratch")
    scene.soon()
    scene.server.ignored = ""
    scene.restart()
    return True


def _log_off(scene: Scene) -> bool:
    """The binlog cannot be written under ``binlog_error_action=IGNORE_ERROR``."""
    scene.server.logs = False
    scene.server.scheduler.tell("the binlog is closed by an error")
    scene.soon()
    scene.server.scheduler.sleep(1.0)
    scene.restart()
    return True


def _reset(scene: Scene) -> bool:
    scene.server.reset_log()
    return True


def _number_used_again(scene: Scene) -> bool:
    """After a restart an application gets the number that the locking session had."""
    server = scene.server
    for _ in range(200):
        swapping = [one.number for one in server.sessions.values() if one.role == "cutover"]
        if swapping:
            break
        server.scheduler.sleep(0.02)
    else:
        return False
    server.crash()
    server.restart()
    sessions: list[Session] = []
    while not sessions or sessions[-1].number < swapping[0]:
        sessions.append(scene.dba())
    server.scheduler.tell(f"session {swapping[0]} is an application's now: TRUNCATE")
    last = sessions.pop()
    done = _done(last, partial(execute, last, "TRUNCATE TABLE `s`.`t`", ()))
    for session in sessions:
        server.end(session)
    return done


def _statement_write(scene: Scene) -> bool:
    """A client writes with ``binlog_format=STATEMENT``: no row is in the binlog."""
    keys = sorted(scene.server.tables[T].rows)
    sql = "UPDATE `s`.`t` SET v = 900 WHERE id = "
    return bool(keys) and send(scene, f"{sql}{scene.random.choice(keys)}")


def _revoke(scene: Scene) -> None:
    """A right on the schema is taken from the program's account, and given back after a while.

    It has its effect where a statement is refused.
    """
    server = scene.server
    right = scene.random.choice(REVOKED)
    server.scheduler.tell(f"dba: REVOKE {right} ON `s`.*")
    server.revoked = frozenset({right})
    server.scheduler.sleep(scene.random.choice((0.3, 2.0, 10.0, 60.0)) * scene.random.random())
    server.scheduler.tell(f"dba: GRANT {right} ON `s`.*")
    server.revoked = frozenset()


def _damage(scene: Scene) -> bool:
    """A row of the new table is changed or deleted, in no event, before any row is compared."""
    server = scene.server
    for _ in range(500):
        if any(role.startswith("checksum") for role in server.roles):
            return False
        found = server.tables.get(NEW)
        if found is not None and found.rows and scene.random.random() < 0.2:
            break
        server.scheduler.sleep(0.02)
    else:
        return False
    key = scene.random.choice(sorted(found.rows))
    sql = scene.random.choice(("UPDATE `s`.`_t_new` SET `v` = 901", "DELETE FROM `s`.`_t_new`"))
    session = scene.dba(logged=False)
    server.scheduler.tell(f"dba: {sql} of row {key} (sql_log_bin=0)")
    # No step of others since the look: nothing is compared yet.
    return _done(session, partial(answer, session, f"{sql} WHERE `id` = {key}", ()))


def _late_duplicates(scene: Scene) -> bool:
    """Behind the comparison rows get values that others have, and the feed loses its connection."""
    server = scene.server
    for _ in range(5000):
        comparing = any(one.role.startswith("checksum") for one in server.sessions.values())
        if not comparing and any(role.startswith("checksum") for role in server.roles):
            break
        server.scheduler.sleep(0.005)
    else:
        return False
    session = scene.dba()

    def write() -> None:
        rows = sorted(server.tables[T].rows.items())
        values = [row[1] for _, row in rows[1:] if row[1] is not None]
        execute(session, "BEGIN", ())
        for (key, _), value in zip(rows, values[:2], strict=False):
            execute(session, f"client update s.t {key},{value}", ())
            server.scheduler.tell(f"row {key} gets the value {value}, which another has")
        execute(session, "COMMIT", ())

    done = _done(session, write)
    for one in list(server.sessions.values()):
        if one.role == "feed":
            server.scheduler.tell("the feed's connection is cut")
            server.cut(one)
    return done


TROUBLES: Final[dict[str, Callable[[Scene], object]]] = {
    "truncate": lambda scene: send(scene, "TRUNCATE TABLE `s`.`t`"),
    "hidden truncate": lambda scene: send(scene, "TRUNCATE TABLE `s`.`t`", logged=False),
    "restore": _restore,
    "rebuild": lambda scene: send(scene, "OPTIMIZE TABLE `s`.`t`"),
    "hidden rebuild": lambda scene: send(scene, "OPTIMIZE TABLE `s`.`t`", logged=False),
    "commits lost": _crash_with_loss("engine"),
    "log lost": _crash_with_loss("log"),
    "filter": _filter,
    "log off": _log_off,
    "reset": _reset,
    "number used again": _number_used_again,
    "statement write": _statement_write,
}
#: A run may refuse after these, as long as its word is true; the next one that may go on must.
MAY_END: Final = frozenset(TROUBLES)
#: What the comparison must find and mend.
DAMAGE: Final = "damage"
TROUBLES[DAMAGE] = _damage
#: Two rows have one value of a new unique key, and nothing that is received is all of it.
LATE_DUPLICATES: Final = "late duplicates"
TROUBLES[LATE_DUPLICATES] = _late_duplicates
#: A run may fail after this; the next one with the right must not.
TROUBLES[REVOKE] = _revoke

"""A revert that nobody has prepared: the old table is kept, and follows from the swap on (R15)."""

from __future__ import annotations

import math
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.config import RevertConfig
from spirit_py.errors import (
    Aborted,
    Interrupted,
    LeftAfterChange,
    MigrationFailure,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.locks.named import migration_lock
from spirit_py.migration.control.command import control
from spirit_py.migration.control.verbs import Verbs
from spirit_py.migration.listing import migrations
from spirit_py.migration.reverse.keeper import ReverseReplicationLost
from spirit_py.migration.reverse.phase import WayBack
from spirit_py.migration.reverse.revert import Revert
from spirit_py.migration.swap import attachments
from spirit_py.mysql.connect import connect
from spirit_py.mysql.session import Session
from spirit_py.phases import Phase
from spirit_py.plan import make_plan
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall
from tests.kits.binlogs import purge_binlogs
from tests.kits.capabilities import answer
from tests.kits.cleanup import clean
from tests.kits.connection import account, connection_options
from tests.kits.draw import seed_of
from tests.kits.engine import SharedEngine
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import once_at, start
from tests.kits.reverse import QUICK, Client
from tests.kits.tables import tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.migration.migration_status import MigrationShown
    from tests.kits.migrate import Migrating

SEED = seed_of("SPIRIT_PY_TEST_SEED")
ALTER = "ADD COLUMN extra INT NOT NULL DEFAULT 3, MODIFY v BIGINT NOT NULL"
HOUR = 3600.0


@dataclass(kw_only=True)
class Kept:
    """A table of a few rows, its migration, and what reverts that."""

    db: Any
    engine: Any

    def migrate(self, *, alter: str = ALTER, **more: Any) -> Migrating:
        """Begin to change the table; the old one is kept for an hour by default."""
        given: dict[str, Any] = {"drop_old_after": HOUR, "no_shortcut": True, **more}
        return start(self.engine, self.db, table="t", alter=alter, **given)

    def in_grace(self, **more: Any) -> Migrating:
        """Begin to change the table, and wait until the old one is only kept."""
        running = self.migrate(**more)
        running.wait_until(lambda: _phase(running) is Phase.GRACE, "the grace")
        return running

    def revert(
        self, table: str = "t", connection: ConnectionOptions | None = None
    ) -> RecordingReporter:
        """Swap back as ``spirit-py revert`` does; return what it reported."""
        notes, engine = RecordingReporter(), SharedEngine(self.engine)
        config = RevertConfig(
            connection=connection or connection_options(self.db),
            database=self.db.name,
            table=table,
            threads=2,
            feed=QUICK,
        )
        made = Revert(config, notes, engine_factory=lambda _: engine, stop=StopSwitch())
        made.run()
        return notes

    def shown(self) -> MigrationShown:
        """Return what ``spirit-py status`` shows."""
        given = {"database": self.db.name, "table": "t"}
        (found,) = migrations(connection_options(self.db), **given, max_age=HOUR)
        return found

    def columns(self) -> list[str]:
        """Return the table's columns."""
        return [str(row[0]) for row in self.db.query("SHOW COLUMNS FROM t")]

    def rows(self) -> dict[int, tuple[int, str]]:
        """Return the table's rows by their keys."""
        return {key: (v, u) for key, v, u in self.db.query("SELECT id, v, u FROM t")}


def _phase(running: Migrating) -> Phase | None:
    seen = running.told.snapshots
    return seen[-1].phase if seen else None


@pytest.fixture
def kept(db, engine) -> Kept:
    """Make the table."""
    db.execute(
        "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL,"
        " u VARCHAR(40) NOT NULL UNIQUE)"
    )
    values = ", ".join(f"({n}, {n * 7}, 'first{n}')" for n in range(1, 301))
    db.execute(f"INSERT INTO t (id, v, u) VALUES {values}")
    return Kept(db=db, engine=engine)


FIRST = {n: (n * 7, f"first{n}") for n in range(1, 301)}


@pytest.mark.slow
def test_no_write_since_the_swap_is_lost(kept):
    """Clients write before, during and after the swap, with no process there, and meanwhile."""
    print(f"SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201 - to repeat a failure
    clients = [Client(kept.db, "t", number, SEED) for number in range(3)]

    def go_on(writes: int) -> None:
        goals = [client.writes + writes for client in clients]
        until(
            lambda: all(one.writes >= goal for one, goal in zip(clients, goals, strict=True)),
            "more writes",
        )

    go_on(30)
    kept.migrate(drop_old_after=math.inf).end()
    assert kept.columns() == ["id", "v", "u", "extra"]
    go_on(100)
    assert "spirit-py revert swaps back" in "\n".join(kept.shown().lines())
    said = kept.revert()
    go_on(30)
    for client in clients:
        client.stop()
    assert [client.errors for client in clients] == [[]] * len(clients)
    expected = {key: row for client in clients for key, row in client.rows.items()}
    assert kept.columns() == ["id", "v", "u"]
    assert kept.rows() == expected | FIRST
    assert set(tables(kept.db)) == {"t"}
    assert said.said(" 0 chunks repaired")
    assert said.said("the binlog since the swap")


@pytest.mark.slow
def test_the_process_that_waits_to_drop_the_old_table_swaps_it_back(kept):
    """It holds the table's lock, so it is asked; its run ends as reverted."""
    running = kept.in_grace()
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    kept.db.execute("DELETE FROM t WHERE id = 8")
    kept.db.execute("INSERT INTO t (id, v, u) VALUES (1000, 1, 'first8')")
    said = kept.revert()
    assert running.end().outcome == "reverted"
    assert said.said("has its old definition again")
    assert kept.columns() == ["id", "v", "u"]
    expected = {**FIRST, 7: (-1, "first7"), 1000: (1, "first8")}
    del expected[8]
    assert kept.rows() == expected
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_a_revert_goes_on_where_the_waiting_process_was_stopped(kept):
    """The place stays in the checkpoint table: the same command, and a revert, find it there."""
    for _ in range(2):
        running = kept.in_grace()
        running.stop.request(Interrupted(signal.SIGTERM))
        with pytest.raises(Interrupted):
            running.end()
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    assert kept.revert().said("the binlog since the swap")
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_a_privilege_that_only_the_way_back_needs_is_named_with_its_grant(kept):
    """The old table keeps the values of a dropped column, so it is updated; then it goes on."""
    kept.db.execute("ALTER TABLE t DROP INDEX u, ALTER u SET DEFAULT 'none'")
    running = kept.in_grace(alter="DROP u")
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    on_schema = (
        "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
        " CREATE TEMPORARY TABLES ON {db}.*"
    )
    on_server = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.*"
    with account(kept.db, on_schema, on_server) as options:
        with pytest.raises(SpiritError, match="lacks UPDATE") as caught:
            kept.revert(connection=options)
        grant, _, rest = caught.value.hint.partition(";")
        assert "run the same command again" in rest
        kept.db.execute(grant)
        kept.revert(connection=options)
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}


@pytest.mark.slow
def test_a_revert_that_fails_leaves_the_grace_as_it_was(kept):
    """Duplicates of an old unique key: nothing is lost, and the revert may be repeated."""
    running = kept.in_grace(alter="ADD COLUMN extra INT, DROP INDEX u")
    kept.db.execute("INSERT INTO t (id, v, u) VALUES (1000, 1, 'first8')")
    with pytest.raises(SpiritError, match="are duplicates"):
        kept.revert()
    kept.db.execute("DELETE FROM t WHERE id = 1000")
    kept.revert()
    assert running.end().outcome == "reverted"
    assert kept.rows() == FIRST
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
@pytest.mark.parametrize("happens", ["a definition", "the binlog", "the old table"])
def test_what_makes_it_impossible_is_said_and_the_old_table_stays(kept, happens):
    """DDL by others, or a binlog that was purged; cleanup drops the table when told to."""
    kept.migrate(drop_old_after=math.inf).end()
    kept.db.execute("INSERT INTO t (v, u) VALUES (1, 'more')")
    if happens == "a definition":
        kept.db.execute("ALTER TABLE t ADD COLUMN theirs INT")
    elif happens == "the old table":
        kept.db.execute("DROP TABLE _t_old")
    else:
        purge_binlogs(kept.db)
    assert "spirit-py revert is not possible" in "\n".join(kept.shown().lines())
    for _ in range(2):
        with pytest.raises(Refusal, match="cannot be swapped back"):
            kept.revert()
    assert "extra" in kept.columns()
    if happens == "the old table":
        return
    assert "_t_old" in tables(kept.db)
    clean(kept.db, old=True)
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_what_could_never_be_swapped_back_is_said_beforehand(kept):
    """A dropped NOT NULL column has no value in new rows: said by plan, migration and revert."""
    why = "NOT NULL without a default"
    alter = "DROP COLUMN v"
    found = make_plan(
        config_for(kept.db, table="t", alter=alter, drop_old_after=HOUR), sample=False
    )
    assert [note for note in found.warnings if why in note.cause]
    assert not found.refusals
    running = kept.migrate(alter=alter, drop_old_after=math.inf)
    assert running.end().outcome == "done"
    assert running.told.said(why)
    with pytest.raises(Refusal, match=why):
        kept.revert()


@pytest.mark.slow
def test_the_way_back_goes_on_when_reverse_replication_has_ended(kept):
    """``--keep-old-current`` for a moment, then the grace: the place goes on from there."""
    running = kept.in_grace(keep_old_current=0.5)
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    kept.revert()
    assert running.end().outcome == "reverted"
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}


@pytest.mark.slow
def test_cleanup_says_that_it_ends_the_way_back(kept):
    """The old table is dropped only when told to, and the way back with it."""
    kept.migrate(drop_old_after=math.inf).end()
    said = clean(kept.db, old=False)
    assert "spirit-py revert still swaps back" in said
    assert kept.revert().said("has its old definition again")
    assert kept.rows() == FIRST


@pytest.mark.slow
def test_a_grace_that_is_over_ends_the_way_back(kept):
    """The old table goes, and the revert says that nothing is kept."""
    assert kept.migrate(drop_old_after=0.5).end().outcome == "done"
    with pytest.raises(Refusal, match="is not noted"):
        kept.revert()


@pytest.mark.slow
def test_a_name_is_taken_as_the_server_stores_it(kept, monkeypatch):
    """With lower_case_table_names=1 in lower case, however it is written."""
    kept.migrate(drop_old_after=math.inf).end()
    answer(monkeypatch, {"SELECT @@GLOBAL.lower_case_table_names": [(1,)]})
    given = {"database": kept.db.name.upper(), "table": "T"}
    (shown,) = migrations(connection_options(kept.db), **given, max_age=HOUR)
    assert shown.tables == (f"{kept.db.name}.t",)
    kept.revert(table="T")
    assert kept.rows() == FIRST
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_as_long_as_the_drop_is_held_back_the_old_table_can_be_swapped_back(kept):
    """The grace is over, a throttler keeps the old table, and a revert is not held back by it."""
    running = kept.in_grace()
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    running = kept.migrate(drop_old_after=0.001, max_load=(("Threads_connected", 0.0),))
    running.wait_until(
        lambda: any("drop of _t_old" in one.waiting_for for one in running.told.snapshots[-1:]),
        "drop that is held back",
    )
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    kept.revert()
    assert running.end().outcome == "reverted"
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_in_a_pause_of_the_drop_the_way_back_is_an_abort_and_the_same_revert(kept):
    """After a resume the old table would be dropped at once: its time has passed."""

    def ctl(verb: str) -> None:
        given: Any = {"database": kept.db.name, "table": "t", "arguments": {}}
        control(connection_options(kept.db), verb=verb, say=lambda _: None, **given)

    running = kept.in_grace()
    ctl("pause")
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    running = kept.migrate(drop_old_after=0.001)
    running.wait_until(
        lambda: any("drop of _t_old" in one.waiting_for for one in running.told.snapshots[-1:]),
        "drop that is held back",
    )
    with pytest.raises(Refusal, match="swaps nothing back") as refused:
        kept.revert()
    assert "spirit-py ctl abort" in refused.value.hint
    ctl("abort")
    with pytest.raises(Aborted):
        running.end()
    assert kept.revert().said("has its old definition again")
    assert kept.rows() == FIRST
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_a_revert_between_reverse_replication_and_the_grace_is_answered(kept, monkeypatch):
    """It waits for the one that swaps back in the grace, and is not refused in between."""
    found, can_answer = WayBack.of, Verbs.can_answer
    asking: list[BackgroundCall] = []
    left: list[object] = []

    def looked_at(verbs: Verbs, request: Any) -> bool:
        if not (can := can_answer(verbs, request)):
            left.append(request)
        return can

    def later(run: Any, table: tuple[str, str]) -> Any:
        # What kept the old table current takes no more requests.
        assert run.keeper.hands_over
        asking.append(BackgroundCall(kept.revert))
        until(lambda: left, "a request that is left for later")
        return found(run, table)

    monkeypatch.setattr(WayBack, "of", later)
    monkeypatch.setattr(Verbs, "can_answer", looked_at)
    running = kept.migrate(keep_old_current=0.5)
    until(lambda: asking, "the end of reverse replication")
    asking[0].result()
    assert running.end().outcome == "reverted"
    assert kept.rows() == FIRST
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_tables_that_were_changed_together_go_back_together(kept):
    """Whichever is named; a column with values only in the new definition is lost, as is said."""
    kept.db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    kept.db.execute("INSERT INTO u VALUES (1, 1), (2, 2)")
    statement = f"ALTER TABLE t {ALTER}; ALTER TABLE u ADD COLUMN e INT"
    given: dict[str, Any] = {"table": "", "alter": "", "statement": statement}
    start(kept.engine, kept.db, **given, no_shortcut=True, drop_old_after=math.inf).end()
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    kept.db.execute("INSERT INTO u VALUES (3, 3, 3)")
    said = kept.revert(table="u")
    assert said.said("a revert loses the values of column e")
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}
    assert kept.db.query("SELECT * FROM u ORDER BY id") == [(1, 1), (2, 2), (3, 3)]
    assert set(tables(kept.db)) == {"t", "u"}


@pytest.mark.slow
def test_a_later_migration_of_one_table_ends_the_way_back_of_the_others(kept):
    """They have no way back together any more; nothing of them is unreadable for that."""
    kept.db.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    statement = f"ALTER TABLE t {ALTER}; ALTER TABLE u ADD COLUMN e INT"
    given: dict[str, Any] = {"no_shortcut": True, "drop_old_after": math.inf}
    start(kept.engine, kept.db, table="", alter="", statement=statement, **given).end()
    kept.db.execute("DROP TABLE _u_old")
    start(kept.engine, kept.db, table="u", alter="ADD COLUMN f INT", **given).end()
    shown = kept.shown()
    assert shown.reverse is not None
    assert "which another migration has changed since" in shown.reverse.reason
    with pytest.raises(Refusal, match=r"u, which another migration has changed since"):
        kept.revert()
    clean(kept.db, old=True)
    start(kept.engine, kept.db, table="t", alter="ADD COLUMN g INT", **given).end()
    assert {"extra", "g"} <= set(kept.columns())


class Killed(BaseException):
    """No program code handles it."""


@pytest.mark.slow
@pytest.mark.parametrize("then", ["revert", "migrate"])
def test_a_revert_that_was_killed_after_its_swap_back_is_finished(kept, monkeypatch, then):
    """What was swapped out is dropped by a revert, or by the migration's own command."""

    def kill() -> None:
        raise Killed

    kept.migrate(drop_old_after=math.inf).end()
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    with monkeypatch.context() as patched:
        once_at(patched, "cleanup.old_table", kill)
        with pytest.raises(Killed):
            kept.revert()
    assert kept.columns() == ["id", "v", "u"]
    assert "_t_undone" in tables(kept.db)
    if then == "revert":
        kept.revert()
    else:
        assert kept.migrate(drop_old_after=math.inf).end().outcome == "reverted"
    assert kept.rows() == {**FIRST, 7: (-1, "first7")}
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
def test_the_place_of_a_deferred_swap_is_noted_too(kept):
    """It is that of the swap, whenever that is made."""
    running = kept.migrate(drop_old_after=math.inf, defer_cutover=True)
    running.wait_until(lambda: _phase(running) is Phase.SENTINEL, "the deferral")
    kept.db.execute("UPDATE t SET v = -1 WHERE id = 7")
    kept.db.execute("DROP TABLE _t_snt")
    assert running.end().outcome == "done"
    kept.db.execute("UPDATE t SET v = -2 WHERE id = 9")
    kept.revert()
    assert kept.rows() == {**FIRST, 7: (-1, "first7"), 9: (-2, "first9")}


@pytest.mark.slow
def test_a_table_that_was_emptied_since_is_not_swapped_back(kept):
    """TRUNCATE is DDL: what the old table holds is the operator's to see."""
    kept.migrate(drop_old_after=math.inf).end()
    kept.db.execute("TRUNCATE TABLE t")
    with pytest.raises(ReverseReplicationLost):
        kept.revert()
    assert "_t_old" in tables(kept.db)


@pytest.mark.slow
def test_two_reverts_at_once_make_one(kept):
    """The second is answered as the first, or finds that it was made."""
    running = kept.in_grace()
    calls = [BackgroundCall(kept.revert) for _ in range(2)]
    ended = []
    for call in calls:
        try:
            ended.append(call.result())
        except Refusal as refusal:
            ended.append(refusal)
    assert any(not isinstance(one, Refusal) for one in ended)
    assert running.end().outcome == "reverted"
    assert kept.rows() == FIRST
    assert set(tables(kept.db)) == {"t"}


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
def test_a_revert_names_the_session_that_only_reads_the_table(reads, kept):
    """An archive holds the table's lock for hours, and takes no requests: it has to be ended."""
    kept.migrate(drop_old_after=math.inf).end()
    options = connection_options(kept.db)
    with connect(options, role="test") as session:
        # As a process leaves it that was killed.
        if reads:
            RequestQueue(kept.db.name, "t").create(session)
    with (
        migration_lock(options, (kept.db.name, "t"), stop=StopSwitch(), reads=reads),
        pytest.raises(Refusal, match=r"works on .*\.t \(server session \d+, .*takes no requests"),
    ):
        kept.revert()
    await_lock_freed(kept.db)
    kept.revert()
    assert kept.rows() == FIRST


@pytest.mark.slow
def test_a_revert_leaves_a_child_alone_that_another_run_works_on(kept):
    """The swap back alters the child: a migration of it, of days perhaps, would end with that."""
    kept.db.execute("CREATE TABLE c (a BIGINT PRIMARY KEY, FOREIGN KEY (a) REFERENCES t (id))")
    kept.migrate(alter="ADD COLUMN extra INT", drop_old_after=math.inf).end()
    before = kept.db.query("SHOW CREATE TABLE c")
    options = connection_options(kept.db)
    with (
        migration_lock(options, (kept.db.name, "c"), stop=StopSwitch()),
        pytest.raises(Refusal, match=r"another run works on .*\.c \(server session"),
    ):
        kept.revert()
    assert kept.db.query("SHOW CREATE TABLE c") == before
    await_lock_freed(kept.db, "c")
    kept.revert()
    assert kept.columns() == ["id", "v", "u"]


@pytest.mark.slow
def test_a_run_that_ended_before_the_place_was_noted_says_so(kept, monkeypatch):
    """The change is done; the same command says that there is no way back, and so does a revert."""

    def kill() -> None:
        raise Killed

    with monkeypatch.context() as patched:
        once_at(patched, "cutover.renamed", kill)
        with pytest.raises(Killed):
            kept.migrate().end()
    again = kept.in_grace()
    assert again.told.said("the earlier run ended before it noted the place of its swap")
    with pytest.raises(Refusal, match="is not noted"):
        kept.revert()
    again.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        again.end()


@pytest.mark.slow
def test_a_foreign_key_that_the_change_dropped_is_named_with_what_adds_it_again(kept):
    """The old table comes back as the swap has left it: without the key."""
    kept.db.execute("CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p SELECT v FROM t")
    kept.db.execute("ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (v) REFERENCES p (id)")
    running = kept.in_grace(alter="ADD COLUMN extra INT, DROP FOREIGN KEY fk")
    running.stop.request(Interrupted(signal.SIGTERM))
    with pytest.raises(Interrupted):
        running.end()
    said = kept.revert().text
    (added,) = re.findall(r"not back: (ALTER TABLE .* ADD CONSTRAINT `fk` .*)", said)
    assert "REFERENCES" not in str(kept.db.query("SHOW CREATE TABLE t")[0][1])
    kept.db.execute(added)
    assert "CONSTRAINT `fk` FOREIGN KEY" in str(kept.db.query("SHOW CREATE TABLE t")[0][1])


@pytest.mark.slow
@pytest.mark.parametrize("then", ["revert", "migrate"])
@pytest.mark.parametrize("phase", [Phase.KEEP, Phase.GRACE])
def test_a_swap_back_whose_triggers_are_not_settled_is_ended_by_the_next_run(
    kept, monkeypatch, phase, then
):
    """The process that waits ends: it neither follows on, nor drops what has the originals."""
    kept.db.execute("CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v + 1")
    follows = HOUR if phase is Phase.KEEP else 0.0
    running = kept.migrate(keep_old_current=follows)
    running.wait_until(lambda: _phase(running) is phase, "the way back")
    send, settle, sent = Session.execute_packet, attachments.settle_left, list[str]()

    def killed(session: Session, statements: Any) -> Any:
        to = [str(one).startswith("RENAME") for one in statements].index(True) + 1
        assert send(session, statements[:to]) == (to, None)
        kept.db.execute(f"KILL {session.id}")
        sent.append("RENAME")
        return to, ServerFault(2013, "Lost connection to server", where="test")

    def refused(*given: Any, **more: Any) -> None:
        if sent:
            raise MigrationFailure("a long transaction")
        settle(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "execute_packet", killed)
        patched.setattr(attachments, "settle_left", refused)
        with pytest.raises(SpiritError, match="not settled: a long transaction"):
            kept.revert()
        with pytest.raises(LeftAfterChange, match="not settled: a long transaction") as ended:
            running.end()
    assert "the old definition is in place again" in ended.value.hint
    assert not running.told.said("still runs")
    assert kept.columns() == ["id", "v", "u"]
    assert {"t", "_t_undone", "_t_chkpnt"} <= set(tables(kept.db))
    await_lock_freed(kept.db)
    if then == "revert":
        kept.revert()
    else:
        assert kept.migrate(keep_old_current=follows).end().outcome == "reverted"
    assert [row[0] for row in kept.db.query("SHOW TRIGGERS")] == ["tr"]
    assert set(tables(kept.db)) == {"t"}

"""Which sessions are the program's: proven by named locks, with and without performance_schema."""

from __future__ import annotations

import contextlib
import dataclasses
import threading

import pytest

from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql import own_sessions
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import earlier_sessions, end_earlier_sessions, end_lost
from spirit_py.mysql.own_sessions import (
    claim,
    of_run,
    ours,
    run_label,
    sessions_of_run,
    slot_holders,
    take_slot,
)
from tests.kits.connection import options_of
from tests.kits.waiting import until


@pytest.fixture
def options(db):
    """How to reach the server, for a run on table ``t``."""
    return dataclasses.replace(options_of(db.server), label=run_label([(db.name, "t")]))


def test_a_session_of_ours_is_known_to_all_of_the_same_options(db, options):
    """Another program's session is not, and neither is one that has ended."""
    with connect(options, role="test") as asking, db.connect() as application:
        with connect(options, role="test") as session:
            number = session.id
            token = options.label.split()[0]
            assert ours(asking, [number, application.thread_id()]) == {number}
            assert of_run(asking, token, [number, asking.id]) == {number, asking.id}
            assert sessions_of_run(asking, token) == {number, asking.id}
            with connect(options_of(db.server), role="test") as stranger:
                assert ours(stranger, [number, stranger.id]) == {stranger.id}
                assert of_run(stranger, token, [number, stranger.id]) == {number}
        # The server takes a moment to forget a session that was closed.
        until(lambda: ours(asking, [number]) == set(), "the end of the session")


def test_an_earlier_run_of_another_account_or_machine_is_found_by_its_table(db, options):
    """Its sessions are ended; those of this run and of other tables stay (R18)."""
    earlier = dataclasses.replace(options, label=run_label([(db.name, "t")]), origin="elsewhere")
    other = dataclasses.replace(options, label=run_label([(db.name, "u")]))
    with (
        connect(options, role="test") as ours_now,
        connect(earlier, role="chunk", asks_for_lock=True) as stale,
        connect(other, role="chunk") as unrelated,
    ):
        assert earlier_sessions(ours_now, options.label) == [stale.id]
        assert end_earlier_sessions(ours_now, options.label) == 1
        assert not stale.alive()
        assert unrelated.alive()
        assert ours_now.alive()


def test_a_lost_session_executes_nothing_once_it_is_ended(db, options):
    """R18: what it waited for the server is not done later; sessions of others go on."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with (
        connect(options, role="control") as lost,
        connect(options_of(db.server), role="test") as stranger,
        connect(options, role="test") as asking,
        db.connect() as blocker,
    ):
        blocker.cursor().execute("LOCK TABLES t WRITE")
        held = threading.Thread(target=late, args=(lost, f"{db.name}.t"))
        held.start()
        until(lambda: db.query(
            "SELECT 1 FROM information_schema.PROCESSLIST"
            f" WHERE ID = {lost.id} AND STATE LIKE 'Waiting for table%'"
        ), "the statement that waits")  # fmt: skip
        end_lost(asking, options, {lost.id, stranger.id})
        assert stranger.alive()
        blocker.cursor().execute("UNLOCK TABLES")
        held.join(30)
        assert db.query("SHOW COLUMNS FROM t LIKE 'n'") == []


def late(session, table):
    """Change the table, as soon as it can be changed."""
    with contextlib.suppress(ServerFault):
        session.execute(f"ALTER TABLE {table} ADD COLUMN n INT")


def test_a_run_over_several_tables_is_found_by_each_of_them(db, options):
    """A later run needs only one table in common."""
    several = dataclasses.replace(options, label=run_label([(db.name, "t"), (db.name, "u")]))
    later = run_label([(db.name, "u")])
    with connect(several, role="test") as stale, connect(options, role="test") as asking:
        assert earlier_sessions(asking, later) == [stale.id]


def test_sessions_whose_numbers_would_share_a_slot_are_both_found(db, options, monkeypatch):
    """The second one takes the next slot that is free, around the end too."""
    monkeypatch.setattr(own_sessions, "SLOTS", 2)
    with (
        connect(options_of(db.server), role="a") as a,
        connect(options_of(db.server), role="b") as b,
    ):
        for session in (a, b):
            take_slot(session.query, 1, "of a test")
        assert slot_holders(a, "of a test") == {a.id, b.id}
        with (
            connect(options_of(db.server), role="c") as third,
            pytest.raises(MigrationFailure, match="2 sessions"),
        ):
            take_slot(third.query, 1, "of a test")


def test_a_name_that_another_session_holds_is_not_claimed(db, options):
    """A session that could be taken for another one does not work."""
    with (
        connect(options, role="a") as first,
        connect(options, role="b") as second,
        pytest.raises(MigrationFailure, match=rf"another session \({first.id}\) holds the named"),
    ):
        claim(second.query, first.id, origin=options.origin)

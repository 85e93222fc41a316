"""R26: an account that may only log in takes every named lock that can be guessed."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pymysql
import pytest

from spirit_py import points
from spirit_py.checkpoint.examination import runs_seen
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.locks.look import LockRequest, find_in_front
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_earlier_sessions
from spirit_py.mysql.own_sessions import _OF_SESSION, SLOTS, _slot, run_label, token_of
from spirit_py.table.names import lock_name
from tests.integration.test_status import DEAD
from tests.kits.connection import account, make_account, options_of
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import Migrating, config_for, migrate_here

_NUMBERS = 1000
_AT_ONCE = 500
_THREADS: Any = ThreadEngine()


class Usurper:
    """An account with USAGE alone, and the names that it holds in one session."""

    def __init__(self, db, options):
        self._db = db
        self._options = options
        self.begin()

    def begin(self):
        """Log in."""
        self._connection = pymysql.connect(
            host=self._options.host,
            port=self._options.port,
            user=self._options.user,
            password=self._options.password,
        )
        self.number = self._connection.thread_id()

    def take(self, names):
        """Take the names that are free, and return how many of all it holds now."""
        names, held = list(names), 0
        with self._connection.cursor() as cursor:
            for begin in range(0, len(names), _AT_ONCE):
                some = names[begin : begin + _AT_ONCE]
                cursor.execute("SELECT " + ", ".join(f"GET_LOCK('{name}', 0)" for name in some))
                held += sum(cursor.fetchall()[0])
        return held

    def guesses(self, table="t"):
        """Every name of a session to come, of a slot or of a piece of work that can be guessed."""
        on_table = lock_name("migration", self._db.name, table).rpartition(":")[2]
        ((last,),) = self._db.query("SELECT MAX(ID) FROM performance_schema.processlist")
        yield from (f"{_OF_SESSION}{last + n}" for n in range(1, _NUMBERS))
        for slot in range(SLOTS):
            yield _slot(on_table, slot)
            for purpose in ("table", "copy", "chunk"):
                yield f"spirit-py:{purpose}:{on_table}:{slot}"
        yield lock_name("index", self._db.name, f"_{table}_new")

    def close(self):
        """End the session."""
        with contextlib.suppress(pymysql.err.Error):
            self._connection.close()


@pytest.fixture
def usurper(db):
    """Have the account, logged in."""
    with account(db, "USAGE ON *.*") as options, contextlib.closing(Usurper(db, options)) as found:
        yield found


def make_table(db, rows=300):
    """Fill the table ``t``."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20))")
    values = ", ".join(f"({n}, 'r{n}')" for n in range(rows))
    db.execute(f"INSERT INTO t (a, b) VALUES {values}")


def test_a_run_ends_well_whoever_has_taken_the_names_that_can_be_guessed(db, usurper, monkeypatch):
    """Before it begins and while it copies; deferred indexes and the swap too."""
    make_table(db)
    names = len(list(usurper.guesses()))
    taken = [usurper.take(usurper.guesses())]

    def take_again(name, **_):
        if name in {"create.done", "chunk.executed"} and len(taken) < 3:
            # The first session held a name of the table: the run has ended it.
            usurper.close()
            usurper.begin()
            taken.append(usurper.take(usurper.guesses()))

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", take_again)
    report, _ = migrate_here(
        _THREADS,
        config_for(
            db, table="t", alter="MODIFY a BIGINT, ADD KEY b (b)", no_shortcut=True,
            defer_indexes="on",
        ),
    )  # fmt: skip
    assert len(taken) == 3
    assert min(taken) > names / 2
    assert (report.outcome, report.chunks_repaired) == ("done", 0)


def test_who_holds_the_lock_of_a_migration_is_named(db, usurper):
    """That name is the same for all; whoever holds it keeps a run away, and can be found."""
    make_table(db, 3)
    assert usurper.take([lock_name("migration", db.name, "t")]) == 1
    config = config_for(db, table="t", alter="MODIFY a BIGINT")
    with pytest.raises(Refusal) as refused:
        Migrating(_THREADS, config).end()
    assert f"server session {usurper.number}, u{db.name[2:14]}@" in refused.value.message
    assert f"KILL {usurper.number}" in refused.value.hint


def test_a_session_counts_as_ours_by_a_name_that_only_it_could_take(db, usurper):
    """R24: who takes the names of his own number stays an application, and can be ended for us."""
    make_table(db, 3)
    number = usurper.number
    with connect(options_of(db.server), role="test") as session:
        usurper.take([f"spirit-py:session:{number}", f"spirit-py:origin::{number}"])
        db.execute(f"GRANT SELECT ON `{db.name}`.* TO u{db.name[2:14]}")
        with usurper._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{db.name}`.t")
            (found,) = find_in_front(session, LockRequest(tables=[(db.name, "t")]))
        assert (found.session, found.own) == (number, False)


def test_an_earlier_run_is_found_although_the_names_of_its_table_were_taken(db, usurper):
    """R18: its token is in the checkpoint; who only holds names of the table keeps nobody away."""
    make_table(db, 3)
    config = config_for(
        db, table="t", alter="MODIFY a BIGINT", no_shortcut=True, defer_cutover=True,
        defer_timeout=0.0,
    )  # fmt: skip
    with pytest.raises(MigrationFailure):
        migrate_here(_THREADS, config)
    usurper.take(usurper.guesses())
    tables = [(db.name, "t")]
    dead = dataclasses.replace(options_of(db.server), label=run_label(tables))
    told: list[str] = []
    with (
        _lesser(db) as lesser,
        connect(options_of(db.server), role="test") as session,
        connect(dead, role="chunk", asks_for_lock=True) as stale,
    ):
        figures = dataclasses.replace(DEAD, run=token_of(dead.label))
        CheckpointTable(db.name, "t").write(session, figures)
        with connect(lesser, role="test") as unprivileged:
            ended = end_earlier_sessions(unprivileged, run_label(tables), warn=told.append)
        assert (ended, stale.alive()) == (0, True)
        assert f"server session {usurper.number}," in told[0]

        found = runs_seen(session, tables)
        end_earlier_sessions(session, run_label(tables), tokens=found)
        assert not stale.alive()


@contextlib.contextmanager
def _lesser(db):
    """Have an account that may migrate, and may not KILL the sessions of others."""
    name = f"l{db.name[2:14]}"
    try:
        yield make_account(db, name, "ALL ON {db}.*")
    finally:
        db.execute(f"DROP USER {name}")

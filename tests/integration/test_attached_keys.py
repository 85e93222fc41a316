"""Foreign keys at the swap: where they are after it, and in every state that can be left."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.attached.record import AttachmentsNote
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import CutoverFailure, ServerFault
from spirit_py.migration.swap.attachments import SwapAttachments, settle_left
from spirit_py.mysql.processlist import FRESH_SECONDS
from spirit_py.mysql.session import Session
from tests.kits.attached import Swapping, definitions, loose_ends, run_killed_after
from tests.kits.background import BackgroundCall
from tests.kits.cutover import PATIENT, ProvenCutover, SnapshotSource, lock_request
from tests.kits.locking import looking
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.attached.sequence import SwapStatements

#: Name: the tables that are swapped, and the definitions of all, in the order of their creation.
SHAPES = {
    "child": (
        ("t",),
        {
            "p": "id INT PRIMARY KEY",
            "q": "id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY ab (a, b)",
            "t": "id INT PRIMARY KEY, p INT, q INT, a INT, b INT, KEY own (q),"
            " CONSTRAINT named FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE,"
            " FOREIGN KEY (a, b) REFERENCES q (a, b) ON DELETE RESTRICT ON UPDATE CASCADE,"
            " CONSTRAINT q FOREIGN KEY (q) REFERENCES q (id) ON DELETE SET NULL",
        },
    ),
    "parent": (
        ("t",),
        {
            "t": "id INT PRIMARY KEY, p INT, UNIQUE KEY p (p)",
            "c": "id INT PRIMARY KEY, a INT, b INT, KEY own (b, a),"
            " FOREIGN KEY (a) REFERENCES t (id) ON DELETE SET NULL ON UPDATE CASCADE,"
            " CONSTRAINT named FOREIGN KEY (b) REFERENCES t (p) ON DELETE NO ACTION",
            "d": "id INT PRIMARY KEY, CONSTRAINT d_to_t FOREIGN KEY (id) REFERENCES t (id)",
        },
    ),
    "self": (
        ("t",),
        {
            "t": "id INT PRIMARY KEY, up INT, p INT,"
            " FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE,"
            " CONSTRAINT other FOREIGN KEY (p) REFERENCES t (id)",
            "c": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id)",
        },
    ),
    "names like generated ones": (
        ("t",),
        {
            "p": "id INT PRIMARY KEY",
            "t": "id INT PRIMARY KEY, p INT,"
            " CONSTRAINT t_ibfk_of_p FOREIGN KEY (p) REFERENCES p (id),"
            " CONSTRAINT T_ibfk_1 FOREIGN KEY (p) REFERENCES p (id),"
            " CONSTRAINT t_IBFK_2 FOREIGN KEY (p) REFERENCES p (id),"
            " CONSTRAINT t_ibfk_ FOREIGN KEY (p) REFERENCES p (id),"
            " CONSTRAINT t_ibfk_03 FOREIGN KEY (p) REFERENCES p (id)",
        },
    ),
    "together": (
        ("t", "c"),
        {
            "p": "id INT PRIMARY KEY",
            "t": "id INT PRIMARY KEY, p INT, back INT, KEY back (back),"
            " FOREIGN KEY (p) REFERENCES p (id)",
            "c": "id INT PRIMARY KEY, p INT,"
            " CONSTRAINT up FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE",
            "d": "id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES t (id),"
            " FOREIGN KEY (q) REFERENCES c (id)",
        },
    ),
}
CYCLE = "ALTER TABLE t ADD CONSTRAINT round FOREIGN KEY (back) REFERENCES c (id) ON DELETE SET NULL"


def made(db, shape: str) -> Swapping:
    """Make the tables of a shape, with a few rows each."""
    names, tables = SHAPES[shape]
    for table, definition in tables.items():
        db.execute(f"CREATE TABLE `{table}` ({definition})")
    if shape == "together":
        db.execute(CYCLE)
    return Swapping(db, names)


class Copied(SnapshotSource):
    """A change source whose new tables have all rows already."""

    def flush_under_table_lock(self, session: Any, only: Any = None) -> None:
        """Write nothing."""


def cutover(
    swapping: Swapping,
    attached: SwapAttachments,
    *,
    source: Any = None,
    limits: Any = PATIENT,
    note_position: bool = False,
) -> ProvenCutover:
    """Return the swap."""
    return ProvenCutover(
        swapping.db,
        swapping.swaps,
        source or Copied(*swapping.swaps),
        attached=attached,
        limits=limits,
        tell=swapping.process.tell,
        stop=swapping.process.stop,
        note_position=note_position,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_swap_leaves_every_key_as_a_native_alter_does(db, shape):
    """Names, actions, indexes: SHOW CREATE TABLE of all tables is as before."""
    swapping = made(db, shape)
    tables = SHAPES[shape][1]
    before = definitions(db, tables)
    attached = swapping.attachments()
    result = cutover(swapping, attached).run()
    assert definitions(db, tables) == before
    assert loose_ends(db) == []
    assert "rename" in result.steps_ms
    attached.finish()
    with swapping.session() as session:
        assert CheckpointTable(db.name, swapping.names[0]).read(session, AttachmentsNote) is None


@pytest.mark.draws(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_packet_that_stopped_anywhere_is_undone_or_completed(db, shape):
    """After each of its statements; before the RENAME nothing has changed, after it all is done."""
    swapping = made(db, shape)
    tables = SHAPES[shape][1]
    before = definitions(db, tables)
    number, renamed = 0, False
    attached = swapping.attachments()
    attached.survey()
    length = len(attached.statements.all)
    assert length >= 4
    for number in range(length + 1):
        renamed = run_killed_after(swapping, number)
        with swapping.session() as session:
            settle_left(swapping.process, session, [(db.name, swapping.names[0])])
        assert definitions(db, tables) == before, f"after {number} statements"
        assert loose_ends(db) == [], f"after {number} statements"
        if renamed:
            back_again(swapping)
    assert renamed


def back_again(swapping: Swapping) -> None:
    """Drop the old tables, and make new copies."""
    for name in swapping.names:
        swapping.db.execute(f"DROP TABLE `_{name}_old`")
        swapping.db.execute(f"CREATE TABLE `_{name}_new` LIKE `{name}`")


def test_a_child_that_is_made_right_before_the_lock_costs_a_try(db):
    """R24: what is attached is proven under the lock; the next try takes the new child along."""
    swapping = made(db, "parent")
    attached = swapping.attachments()
    source = Copied(*swapping.swaps)
    late: list[str] = []

    def make(*_: object) -> None:
        if not late:
            late.append("late")
            db.execute("CREATE TABLE late (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))")

    source.hooks["applies_paused"] = make
    result = cutover(swapping, attached, source=source).run()
    assert result.attempts == 2
    assert "late" in result.failures[0]
    assert loose_ends(db) == []
    assert "REFERENCES `t` (`id`)" in definitions(db, ["late"])["late"]


@pytest.mark.parametrize("behind", [False, True], ids=["before the RENAME", "after it"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_statement_that_fails_is_undone_or_sent_again_under_the_lock(
    db, shape, behind, monkeypatch
):
    """Before the RENAME the swap fails, and nothing has changed; after it, the rest is sent."""
    swapping = made(db, shape)
    tables = SHAPES[shape][1]
    before = definitions(db, tables)
    attached = swapping.attachments()
    whole: Any = SwapAttachments.statements.fget  # type: ignore[attr-defined]

    def failing(self: SwapAttachments) -> SwapStatements:
        found = whole(self)
        bad = "ALTER TABLE `t` DROP FOREIGN KEY `there_is_none`"
        if behind:
            return replace(found, after=(found.after[0], bad, *found.after[1:]))
        return replace(found, before=(*found.before, bad))

    monkeypatch.setattr(SwapAttachments, "statements", property(failing))
    swap = cutover(swapping, attached)
    if behind:
        assert swap.run().attempts == 1
    else:
        with pytest.raises(CutoverFailure, match="1091"):
            swap.run()
    assert definitions(db, tables) == before
    assert loose_ends(db) == []
    assert not any("settled" in line for line in swapping.process.messages)


@pytest.mark.parametrize("kills", [3, 99], ids=["for a while", "for ever"])
def test_a_reverse_feed_does_not_begin_before_what_is_settled_later(db, kills, monkeypatch):
    """KILL QUERY after the RENAME: sent again under the lock; else no place is noted before it."""
    swapping = made(db, "child")
    before = definitions(db, SHAPES["child"][1])
    attached = swapping.attachments()
    send, sent = Session.execute_packet, []

    def interrupted(session: Session, statements: Any) -> Any:
        if session.role != "cutover":
            return send(session, statements)
        sent.append(statements)
        if len(sent) > kills:
            return send(session, statements)
        if len(sent) == 1:
            done = attached.statements.before
            send(session, (*done, attached.statements.rename))
            return len(done) + 1, ServerFault(1317, "interrupted", where="a test")
        return 0, ServerFault(1317, "interrupted", where="a test")

    with monkeypatch.context() as patched:
        patched.setattr(Session, "execute_packet", interrupted)
        result = cutover(swapping, attached, note_position=True).run()
    assert bool(result.after_rename) == (kills == 3)
    assert (loose_ends(db) == []) == (kills == 3)
    attached.finish()
    assert loose_ends(db) == []
    assert definitions(db, SHAPES["child"][1]) == before


#: A table that others use, and why it is locked with the swap of ``t``.
BESIDE = {
    "p": "its parent",
    "c": "its child",
    "q": "a parent of its child, by the server itself",
    "g": "a child of its child, which a cascade would change",
    "l": "a table that a trigger of the child writes to",
}


@pytest.mark.slow
@pytest.mark.parametrize("table", BESIDE)
def test_no_lock_is_requested_while_somebody_old_is_on_a_table_beside(db, table):
    """R23: a transaction that has read it goes on, and so do all who come after it."""
    db.execute(
        "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE q (id INT PRIMARY KEY);"
        "CREATE TABLE l (id INT);"
        "CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id));"
        "CREATE TABLE c (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES q (id),"
        " FOREIGN KEY (id) REFERENCES t (id));"
        "CREATE TABLE g (id INT PRIMARY KEY,"
        " FOREIGN KEY (id) REFERENCES c (id) ON DELETE CASCADE);"
        "CREATE TRIGGER filled AFTER INSERT ON c FOR EACH ROW INSERT INTO l VALUES (NEW.id)"
    )
    swapping = Swapping(db, ("t",))
    attached = swapping.attachments()
    swap = cutover(swapping, attached, limits=looking())
    with contextlib.closing(db.connect(autocommit=False)) as old:
        with contextlib.closing(old.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM `{table}` FOR UPDATE")
        until(
            lambda: age_of(db, old.thread_id()) > 1,
            "a transaction older than a second",
            pause=FRESH_SECONDS,
        )
        running = BackgroundCall(swap.run)
        until(lambda: any("is not requested" in m for m in swapping.process.messages), "a message")
        assert lock_request(db) is None
        old.commit()
    assert running.result().attempts == 1
    assert loose_ends(db) == []
    said = " ".join(swapping.process.messages)
    assert f"{db.name}.{table}" in said


@pytest.mark.parametrize("statement", ["LOCK TABLES u WRITE", "INSERT INTO u VALUES (1)"])
def test_no_lock_is_requested_while_a_table_of_a_view_is_locked(db, statement):
    """R23: the RENAME opens what views over the table read; it passes those who write there."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY)")
    db.execute("CREATE VIEW v AS SELECT t.id FROM t; CREATE VIEW w AS SELECT u.id FROM u JOIN v")
    swapping = Swapping(db, ("t",))
    swap = cutover(swapping, swapping.attachments(), limits=looking(old=0.0))
    with contextlib.closing(db.connect(autocommit=False)) as other:
        other.query(statement)
        who, said = f"session {other.thread_id()} of", swapping.process.messages
        running = BackgroundCall(swap.run)
        if "LOCK" in statement:
            until(lambda: any(who in line for line in said), "a message")
            assert lock_request(db) is None
            other.query("UNLOCK TABLES")
        assert running.result().attempts == 1
        assert any(who in line for line in said) is ("LOCK" in statement)


def age_of(db, session: int) -> int:
    """Return the seconds since the transaction of a session began."""
    return int(
        db.query(
            "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0)"
            " FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s",
            (session,),
        )[0][0]
    )

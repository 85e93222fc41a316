"""The statements that carry triggers over a swap, on a real server, cut off after each of them."""

from __future__ import annotations

import contextlib
from typing import Any

import MySQLdb
import pytest

from spirit_py.attached.sequence import renaming
from spirit_py.attached.triggers.catalogue import (
    read_places,
    read_triggers,
    require_same,
    trigger_moves,
    withdraw,
)
from spirit_py.attached.triggers.model import moves_of
from spirit_py.attached.triggers.statements import (
    OWN_SETTINGS,
    copies,
    create,
    placed,
    renamed,
    withdrawn,
)
from spirit_py.errors import Refusal
from spirit_py.table.names import Swap
from tests.kits.attached import Swapping
from tests.kits.tables import open_session

_TRY_AGAIN = 1213
_AUDIT = "INSERT INTO audit (who, id) VALUES ('{}', NEW.id)"


def make_tables(db, *triggers: str) -> None:
    """Create the table, the new table and what the triggers write to."""
    db.execute(
        "DROP TABLE IF EXISTS t, _t_new, _t_old, audit, seen; CREATE TABLE seen (id INT);"
        "CREATE TABLE t (id INT PRIMARY KEY, v INT);"
        "CREATE TABLE _t_new LIKE t; CREATE TABLE audit (who VARCHAR(9), id INT)"
    )
    for trigger in triggers:
        db.execute(trigger)


class Carrying:
    """One swap with triggers, its statements sent one after the other."""

    def __init__(self, db) -> None:
        self.db = db
        self.table = (db.name, "t")
        with open_session(db) as session:
            self.before = read_triggers(session, *self.table, also=("_t_new", "_t_old"))
        self.moves = moves_of(self.before, "abcdef")
        self.notes = [move.note for move in self.moves]
        old = renamed(self.moves, {self.table: "_t_old"})
        self.statements = [
            *copies(self.moves, {self.table: "_t_new"}),
            "RENAME TABLE t TO _t_old, _t_new TO t",
            *placed(self.notes, old),
        ]

    def send(self, connection: Any, statements: Any) -> None:
        """Send statements in one session, each in a packet of its own."""
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)

    def session(self) -> Any:
        """Open a session that sends such statements."""
        connection = self.db.connect()
        cursor = connection.cursor()
        cursor.execute("SET @spirit_py_sql_mode = @@sql_mode")
        return connection

    def settle(self) -> None:
        """Send what remains, or what undoes, under the lock."""
        there = {row[0] for row in self.db.query("SHOW TABLES")}
        names = [(self.db.name, name) for name in ("t", "_t_new", "_t_old") if name in there]
        connection = self.session()
        locks = ", ".join(f"{name} WRITE" for _, name in names)
        connection.cursor().execute(f"LOCK TABLES {locks}")
        with open_session(self.db) as session:
            if "_t_new" in there:
                rest = withdrawn(
                    self.notes, {(self.db.name, "t"): "_t_new"}, read_places(session, names)
                )
            else:
                beside = [note.name for note in self.notes]
                read = [
                    read_triggers(session, *name, also=("t", "_t_old"), beside=beside)
                    for name in names
                ]
                rest = placed(self.notes, [trigger for found in read for trigger in found])
        self.send(connection, rest)
        connection.close()

    def now(self) -> Any:
        """Return the triggers that the table has now."""
        with open_session(self.db) as session:
            return read_triggers(session, *self.table, also=("_t_new", "_t_old"))


def snapshot(db, level: str = "REPEATABLE-READ") -> Any:
    """Open a transaction that has read something."""
    connection = db.connect()
    cursor = connection.cursor()
    cursor.execute(f"SET SESSION transaction_isolation = '{level}'")
    cursor.execute("BEGIN")
    cursor.execute("SELECT COUNT(*) FROM seen")
    cursor.fetchall()
    return connection


def write(connection: Any, key: int) -> bool:
    """Insert a row; return whether it is committed, or the transaction is to be tried again."""
    try:
        connection.cursor().execute(f"INSERT INTO t VALUES ({key}, 0)")
    except MySQLdb.OperationalError as error:
        if error.args[0] != _TRY_AGAIN:
            raise
        connection.rollback()
        return False
    connection.commit()
    return True


TWO = (
    f"CREATE TRIGGER first AFTER INSERT ON t FOR EACH ROW BEGIN {_AUDIT.format('first')}; END",
    f"CREATE TRIGGER second AFTER INSERT ON t FOR EACH ROW {_AUDIT.format('second')}",
)


@pytest.mark.slow
def test_a_committed_write_fires_each_trigger_once_wherever_the_sequence_is_cut_off(db):
    """Also one whose snapshot is of any moment before."""
    make_tables(db, *TWO)
    length = len(Carrying(db).statements)
    refused = 0
    for sent in range(length + 1):
        make_tables(db, *TWO)
        carrying = Carrying(db)
        ours = carrying.session()
        ours.cursor().execute("LOCK TABLES t WRITE, _t_new WRITE")
        others = [snapshot(db)]
        for statement in carrying.statements[:sent]:
            carrying.send(ours, [statement])
            others.append(snapshot(db))
        ours.close()
        fresh = snapshot(db, "READ-COMMITTED")
        assert write(fresh, 1), f"a fresh write is refused after {sent} statements"
        committed = {1}
        for key, other in enumerate([*others, snapshot(db)], start=2):
            if write(other, key):
                committed.add(key)
            else:
                refused += 1
            other.close()
        fresh.close()
        found = sorted(db.query("SELECT who, id FROM audit"))
        assert found == sorted((who, key) for key in committed for who in ("first", "second")), sent
        carrying.settle()
        assert carrying.now() == carrying.before, sent
        db.execute("DELETE FROM audit; INSERT INTO t VALUES (99, 0)")
        assert sorted(db.query("SELECT who, id FROM audit")) == [("first", 99), ("second", 99)]
    assert refused, "no snapshot was old enough to be refused: the test proves nothing"


def test_a_writer_that_has_set_its_clock_is_judged_by_the_servers(db):
    """It is refused as others are, for some seconds after a RENAME whose session was killed."""
    make_tables(db, *TWO)
    carrying = Carrying(db)
    ours = carrying.session()
    ours.cursor().execute("LOCK TABLES t WRITE, _t_new WRITE")
    for statement in carrying.statements:
        carrying.send(ours, [statement])
        if statement == "RENAME TABLE t TO _t_old, _t_new TO t":
            break
    ours.close()
    for key, clock in enumerate(("DEFAULT", "2000000000"), start=1):
        other = snapshot(db)
        other.cursor().execute(f"SET SESSION timestamp = {clock}")
        assert not write(other, key)
        other.close()
    carrying.settle()
    assert carrying.now() == carrying.before


@contextlib.contextmanager
def charset(db, client: str, connection: str) -> Any:
    """Have a session of another character set, whose statements are bytes."""
    session = db.connect()
    cursor = session.cursor()
    cursor.execute(f"SET character_set_client = {client}, collation_connection = {connection}")
    yield cursor
    session.close()


def test_a_trigger_keeps_every_byte_and_every_setting(db):
    """Modes, character sets, collations, orphaned definers, comments and the order."""
    long = "n" * 64
    make_tables(
        db,
        "CREATE DEFINER = 'no`b\"o@dy'@'%' TRIGGER `tr``1` BEFORE INSERT ON t FOR EACH ROW"
        " /* c1 */ BEGIN /* in */ SET NEW.v = 1; -- dash\n END /* behind */",
        f"CREATE TRIGGER `{long}` AFTER DELETE ON t FOR EACH ROW w: BEGIN LEAVE w; END",
        "CREATE TRIGGER Ünï€ AFTER DELETE ON t FOR EACH ROW w: BEGIN LEAVE w; END w",
        "CREATE TRIGGER plain AFTER DELETE ON t FOR EACH ROW PRECEDES Ünï€"
        " INSERT INTO audit VALUES ('\\'', 1) /* c */ -- last",
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
        """CREATE TRIGGER "t;2" BEFORE INSERT ON "t" FOR EACH ROW SET @"q" = '\\', NEW."v" = 3;""",
        "SET sql_mode = DEFAULT",
    )
    with charset(db, "latin1", "latin1_german2_ci") as cursor:
        cursor.execute(
            "CREATE TRIGGER `\u00fc` BEFORE INSERT ON t FOR EACH ROW PRECEDES `t;2`"
            " SET @x = 'f\u00fcr \u00a0'".encode("latin-1")
        )
    with charset(db, "sjis", "utf8mb4_bin") as cursor:
        cursor.execute(
            b"CREATE TRIGGER sj AFTER UPDATE ON t FOR EACH ROW"
            b" SET @x = '\x83\x5c', @y = _binary'\xff\xfe'"
        )
    carrying = Carrying(db)
    assert len(carrying.before) == 7
    ours = carrying.session()
    ours.cursor().execute("LOCK TABLES t WRITE, _t_new WRITE")
    carrying.send(ours, carrying.statements)
    ours.close()
    assert carrying.now() == carrying.before
    with open_session(db) as session:
        assert not read_places(session, [(db.name, "_t_old")])


@pytest.mark.parametrize("sent", [0, 2, 4])
def test_what_was_sent_before_the_rename_is_undone(db, sent):
    """The temporary triggers go; those of the table were never touched."""
    make_tables(db, *TWO)
    carrying = Carrying(db)
    ours = carrying.session()
    carrying.send(ours, carrying.statements[:sent])
    ours.close()
    carrying.settle()
    assert carrying.now() == carrying.before
    with open_session(db) as session:
        assert not read_places(session, [(db.name, "_t_new")])


@pytest.mark.parametrize("by_role", [False, True])
def test_a_gate_sees_what_it_must_with_the_least_privileges_of_a_definer(db, by_role):
    """The catalogue shows a definer its own triggers, and no more is needed."""
    make_tables(db)
    user, role = f"d{db.name[2:10]}", f"r{db.name[2:10]}"
    holder = role if by_role else user
    db.execute(
        f"CREATE USER {user}; CREATE ROLE {role}; GRANT TRIGGER, SELECT, INSERT ON t TO {holder};"
        f"GRANT INSERT ON audit TO {holder};"
        + (f"GRANT {role} TO {user}; SET DEFAULT ROLE ALL TO {user}" if by_role else "")
    )
    try:
        db.execute(
            f"CREATE DEFINER = {user} TRIGGER x AFTER INSERT ON t FOR EACH ROW"
            f" BEGIN {_AUDIT.format('x')}; END"
        )
        carrying = Carrying(db)
        ours = carrying.session()
        writer = db.connect()
        writer.cursor().execute("SET SESSION transaction_isolation = 'READ-COMMITTED'")
        for key, statement in enumerate(carrying.statements):
            carrying.send(ours, [statement])
            assert write(writer, key)
            assert db.query("SELECT who, id FROM audit") == [("x", key)], statement
            db.execute("DELETE FROM audit")
    finally:
        db.execute(f"DROP USER {user}; DROP ROLE {role}")


#: Letters of which one byte is that of a backquote. At the end of a name the server itself misreads
#: such a letter when it opens the table: it keeps the names in UTF-8 (measured, 9.7).
LETTERS = {
    "sjis": "\u30c1",
    "cp932": "\u30c1",
    "gbk": "\u50e0",
    "big5": "\u6ce8",
    "gb18030": "\u50e0",
    "swe7": "\u00e9",
}


def in_client(client: str, name: str) -> bytes:
    """Return a name, quoted, as a client of a character set writes it."""
    if client == "swe7":
        return name.replace("\u00e9", "``").join("``").encode("ascii")
    return name.join("``").encode({"sjis": "shift_jis"}.get(client, client))


def sent_in_one_packet(db, swap: Swap) -> None:
    """Try the triggers of a table on the new one, and swap them; require that they are as before.

    All that moves them is sent at once, as by a swap.
    """
    with open_session(db) as session:
        moves = trigger_moves(session, (swap,), "abcdef")
        before = read_triggers(session, *swap.name)
        assert before
        for move in moves:
            require_same(session, move, swap)
        statements = [
            *copies(moves, {swap.name: swap.new}),
            renaming((swap,)),
            *placed([move.note for move in moves], renamed(moves, {swap.name: swap.old})),
        ]
        assert session.execute_packet(statements) == (len(statements), None)
        assert read_triggers(session, *swap.name) == before
        assert not read_places(session, [(swap.schema, swap.old)])


@pytest.mark.parametrize("client", LETTERS)
def test_names_may_have_letters_with_the_byte_of_a_backquote(db, client):
    """Of trigger, table, schema and definer, and in the clause about the order."""
    letter = LETTERS[client]
    schema, table = f"{db.name}{letter}x", f"t{letter}x"
    db.execute(
        f"CREATE DATABASE `{schema}`; CREATE TABLE `{schema}`.`{table}` (id INT PRIMARY KEY);"
        f"CREATE TABLE `{schema}`.`_{table}_new` LIKE `{schema}`.`{table}`"
    )
    try:
        with charset(db, client, "utf8mb4_bin") as cursor:
            on = b".".join(in_client(client, one) for one in (schema, table))
            for name in (f"{letter}x", f"x{letter}x"):
                cursor.execute(
                    b"CREATE DEFINER = %s@%s TRIGGER %s.%s AFTER INSERT ON %s FOR EACH ROW"
                    b" SET @seen = CONCAT(@seen, 1)"
                    % (
                        in_client(client, f"u{letter}x"),
                        b"localhost",
                        in_client(client, schema),
                        in_client(client, name),
                        on,
                    )
                )
        sent_in_one_packet(
            db, Swap(schema=schema, table=table, new=f"_{table}_new", old=f"_{table}_old")
        )
    finally:
        db.execute(f"DROP DATABASE `{schema}`")


@pytest.mark.parametrize("client", LETTERS)
def test_nothing_behind_the_byte_of_a_backquote_in_a_name_is_executed(db, client):
    """The settings and the CREATE TRIGGER are sent together, so a name could hold statements."""
    make_tables(db)
    name = f"{LETTERS[client]} BEFORE INSERT ON t FOR EACH ROW SET@a=1;DROP TABLE seen#"
    with charset(db, client, "utf8mb4_bin") as cursor:
        cursor.execute(
            b"CREATE TRIGGER %s BEFORE INSERT ON t FOR EACH ROW BEGIN END" % in_client(client, name)
        )
    swap = Swap(schema=db.name, table="t", new="_t_new", old="_t_old")
    try:
        sent_in_one_packet(db, swap)
    finally:
        assert db.query("SHOW TABLES LIKE 'seen'"), "a part of the name was executed"


def test_a_name_with_a_backquote_and_a_letter_with_its_byte_is_refused(db):
    """The server reads it as another name."""
    make_tables(db)
    with charset(db, "cp932", "utf8mb4_bin") as cursor:
        cursor.execute("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN END")
    db.execute("RENAME TABLE t TO `\u30c1``x`")
    with open_session(db) as session, pytest.raises(Refusal, match="cannot be written in cp932"):
        read_triggers(session, db.name, "\u30c1`x")


def made_by_a_latin1_client(db) -> Swapping:
    """Make a table whose name is not ASCII, with two triggers of a client in latin1."""
    db.execute("CREATE TABLE `t\u00fc` (id INT PRIMARY KEY)")
    with charset(db, "latin1", "latin1_bin") as cursor:
        for name in "ab":
            cursor.execute(
                f"CREATE TRIGGER {name} BEFORE INSERT ON `t\u00fc` FOR EACH ROW BEGIN END".encode(
                    "latin-1"
                )
            )
    return Swapping(db, ("t\u00fc",))


@pytest.mark.parametrize("behind", [False, True], ids=["before the RENAME", "behind it"])
def test_what_a_packet_left_is_settled_in_its_own_session(db, behind):
    """The session has the settings of the trigger at which it was interrupted."""
    swapping = made_by_a_latin1_client(db)
    (swap,) = swapping.swaps
    with swapping.session() as session:
        before = read_triggers(session, *swap.name)
    attached = swapping.attachments()
    attached.survey()
    packet = attached.statements
    settings = [
        at
        for at, one in enumerate(packet.all)
        if str(one).startswith("SET SESSION character_set_client = latin1")
        and packet.renamed_after(at) == behind
    ]
    with contextlib.closing(swapping.session()) as session:
        session.execute(
            f"LOCK TABLES `{swap.schema}`.`{swap.table}` WRITE, `{swap.schema}`.`{swap.new}` WRITE"
        )
        sent = settings[1] + 1
        assert session.execute_packet(packet.all[:sent]) == (sent, None)
        attached.settle(session)
    with swapping.session() as session:
        assert read_triggers(session, *swap.name) == before
        assert not read_places(session, [(swap.schema, swap.new), (swap.schema, swap.old)])


def test_a_trial_is_withdrawn_in_the_session_that_it_left(db):
    """Also where that has the settings of the trigger."""
    swapping = made_by_a_latin1_client(db)
    (swap,) = swapping.swaps
    with swapping.session() as session:
        moves = trigger_moves(session, (swap,), "abcdef")
        trial = create(moves[0].trigger, name=moves[0].temporary, table=swap.new)
        assert session.execute_packet(trial) == (len(trial), None)
        withdraw(session, moves, swap)
        session.execute(OWN_SETTINGS)
        assert not read_places(session, [(swap.schema, swap.new)])

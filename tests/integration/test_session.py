"""Sessions on a real server: what values come back, which settings hold, how faults look."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket

import MySQLdb
import pytest

from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect, evaluate_with
from spirit_py.mysql.evaluation import (
    DATE_SQL_MODE,
    OWN_SQL_MODE,
    STRICT_SQL_MODE,
    accept_stored,
    as_stored,
    evaluation_settings,
)
from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.faults import connection_lost, connection_refusal
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.processlist import optimizes_now, process_list
from spirit_py.mysql.session import OWN_QUERIES
from tests.kits.background import BackgroundCall
from tests.kits.connection import connection_options
from tests.kits.waiting import until


@pytest.fixture
def session(db):
    """Return a session of the program in the test's schema."""
    with connect(connection_options(db), database=db.name, role="test") as opened:
        yield opened


VALUES = """
SELECT 1, -5, 18446744073709551615, COUNT(*), @@port > 0, CAST(2001 AS YEAR),
       1.50, SUM(1), 1e0 / 3, CAST(1.1 AS FLOAT), DATE '2024-02-29', TIME '-10:00:00.5',
       TIMESTAMP '2024-01-01 00:00:00.25', CAST('0000-00-00' AS DATE),
       'ä😀', _latin1 X'E4', CAST('{"a": 1}' AS JSON), '100%', '',
       X'00FF', b'1', CAST('x' AS BINARY), POINT(0, 0), NULL"""


def test_values_come_back_in_the_types_that_are_documented(session):
    """Integers are int, other numbers and times text, text str, bytes bytes, NULL None."""
    assert session.query(VALUES)[0] == (
        1, -5, 18446744073709551615, 1, 1, 2001,
        "1.50", "1", "0.3333333333333333", "1.1", "2024-02-29", "-10:00:00.5",
        "2024-01-01 00:00:00.25", "0000-00-00",
        "ä😀", "ä", '{"a": 1}', "100%", "",
        b"\x00\xff", b"\x01", b"x", bytes(4) + b"\x01\x01" + bytes(19), None,
    )  # fmt: skip


@pytest.mark.vector
def test_a_vector_comes_back_as_bytes(db, session):
    """A VECTOR is bytes."""
    assert session.query("SELECT STRING_TO_VECTOR('[1]')") == [(b"\x00\x00\x80?",)]


def test_columns_come_back_by_their_type(db, session):
    """Columns come back by their type; a binary collation does not make text bytes."""
    db.execute(
        "CREATE TABLE c (e ENUM('a','ü'), s SET('x','y'), t TEXT COLLATE utf8mb4_bin, l LONGTEXT,"
        " b LONGBLOB, vb VARBINARY(3), bi BIT(9), v VARCHAR(5) CHARACTER SET latin1 COLLATE"
        " latin1_bin, ti TINYINT UNSIGNED, bg BIGINT UNSIGNED, m MEDIUMINT, sm SMALLINT)"
    )
    db.execute(
        "INSERT INTO c VALUES ('ü', 'x,y', 'ä', 'long', X'FF', X'00', b'101', 'ä', 255,"
        " 18446744073709551615, -8388608, -1)"
    )

    assert session.query("SELECT * FROM c") == [
        ("ü", "x,y", "ä", "long", b"\xff", b"\x00", b"\x00\x05", "ä", 255, 2**64 - 1, -8388608, -1)
    ]


def test_parameters_of_every_type_arrive_as_given(session):
    """Parameters of each type arrive as they were given."""
    given = (1, -(2**63), "a'\\ü%s", b"\xff\x00'\\", None)

    assert session.query("SELECT %s, %s, %s, %s, %s", given) == [given]
    assert session.warning_count == 0


def test_a_lost_peer_is_noticed_within_a_minute(session):
    """A statement may run for hours without a byte, so the system asks whether anybody is there."""
    with socket.socket(fileno=os.dup(session.fileno())) as wire:
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, between, count, unanswered = (
            wire.getsockopt(socket.IPPROTO_TCP, option)
            for option in (
                *(socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT),
                socket.TCP_USER_TIMEOUT,
            )
        )
    assert idle + between * count <= 60
    assert 0 < unanswered <= 60_000


def test_a_statement_returns_its_affected_rows_or_value(session):
    """A statement gives its affected rows, a query can give one value."""
    session.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)")

    assert session.execute("REPLACE INTO a VALUES (1, 1), (2, 2)") == 2
    assert session.execute("REPLACE INTO a VALUES (1, 3)") == 2
    assert session.execute("DELETE FROM a WHERE id > %s", (5,)) == 0
    assert session.value("SELECT v FROM a WHERE id = 1") == 3
    assert session.value("SELECT v FROM a WHERE id = 7") is None


def test_warnings_are_counted_and_read_with_their_numbers(session):
    """Warnings are counted and read with their numbers."""
    session.execute("CREATE TABLE w (v TINYINT)")
    session.execute("INSERT IGNORE INTO w VALUES (1000)")

    assert session.warning_count == 1
    assert session.warnings() == [("Warning", 1264, "Out of range value for column 'v' at row 1")]


def test_a_call_runs_one_statement_only(session):
    """A second statement in one call is a syntax error, not a second statement."""
    with pytest.raises(ServerFault) as fault:
        session.execute("DO 1; DO 2")
    assert fault.value.code == 1064


SETTINGS = [
    "sql_mode",
    "time_zone",
    "transaction_isolation",
    "autocommit",
    "foreign_key_checks",
    "unique_checks",
    "lock_wait_timeout",
    "innodb_lock_wait_timeout",
    "wait_timeout",
    "binlog_row_image",
    "innodb_strict_mode",
    "sql_require_primary_key",
    "character_set_client",
    "character_set_connection",
    "max_execution_time",
    "sql_safe_updates",
    "sql_auto_is_null",
    "transaction_read_only",
    "completion_type",
    "sql_select_limit",
    "max_error_count",
    "sql_notes",
]


def read_settings(session):
    """Read the settings that matter from a session."""
    values = session.query("SELECT " + ", ".join(f"@@SESSION.{name}" for name in SETTINGS))[0]
    return dict(zip(SETTINGS, values, strict=True))


def test_the_sessions_settings_hold_whatever_the_globals(db):
    """The program's settings hold, however the server is set up."""
    for name, value in {
        "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
        "time_zone": "+05:30",
        "transaction_isolation": "SERIALIZABLE",
        "autocommit": "OFF",
        "foreign_key_checks": "ON",
        "unique_checks": "OFF",
        "lock_wait_timeout": 1,
        "innodb_lock_wait_timeout": 1,
        "wait_timeout": 2,
        "binlog_row_image": "MINIMAL",
        "innodb_strict_mode": "OFF",
        "sql_require_primary_key": "ON",
        "max_execution_time": 1,
        "sql_safe_updates": "ON",
        "sql_auto_is_null": "ON",
        "transaction_read_only": "ON",
        "completion_type": "RELEASE",
        "sql_select_limit": 3,
        "max_error_count": 0,
        "sql_notes": "OFF",
        "character_set_server": "latin1",
    }.items():
        db.set_global(name, value)

    with connect(connection_options(db), role="test") as session:
        found = read_settings(session)
        role = session.value("SELECT @spirit_py_role")

    assert set(found.pop("sql_mode").split(",")) == set(STRICT_SQL_MODE.split(","))
    assert found == {
        "time_zone": "+00:00",
        "transaction_isolation": "READ-COMMITTED",
        "autocommit": 1,
        "foreign_key_checks": 0,
        "unique_checks": 1,
        "lock_wait_timeout": 30,
        "innodb_lock_wait_timeout": 3,
        "wait_timeout": 28800,
        "binlog_row_image": "FULL",
        "innodb_strict_mode": 1,
        "sql_require_primary_key": 0,
        "character_set_client": "utf8mb4",
        "character_set_connection": "utf8mb4",
        "max_execution_time": 0,
        "sql_safe_updates": 0,
        "sql_auto_is_null": 0,
        "transaction_read_only": 0,
        "completion_type": "NO_CHAIN",
        "sql_select_limit": 2**64 - 1,
        "max_error_count": 65_535,
        "sql_notes": 1,
    }
    assert role == "test"


def test_a_session_evaluates_by_the_settings_it_was_given(db):
    """A session evaluates by the settings it was given, and goes back to them after a change."""
    mode = f"{STRICT_SQL_MODE},NO_UNSIGNED_SUBTRACTION"
    numbers = ("div_precision_increment", "9")
    given = (("sql_mode", mode), ("lc_time_names", "de_DE"), numbers)
    computed = "MONTHNAME('2026-03-01'), CAST(1 / 7 AS CHAR), CAST(1 AS UNSIGNED) - 2"
    evaluating = dataclasses.replace(connection_options(db), settings=given)
    with connect(evaluating, role="test") as session:
        found = session.query(f"SELECT {computed}")[0]
        session.execute("SET SESSION sql_mode = ''")
        session.execute(f"SET SESSION sql_mode = {OWN_SQL_MODE}")
        again = str(session.value("SELECT @@SESSION.sql_mode"))
    assert found == ("März", "0.142857142", -1)
    assert set(again.split(",")) == set(mode.split(","))


def test_no_session_of_ours_changes_what_an_applications_write_computes(db):
    """An open table keeps how its generated columns were resolved, for whoever uses it next (R22).

    Sessions whose ids are equal modulo the number of the server's caches share open tables.
    """
    db.set_global("sql_mode", "NO_UNSIGNED_SUBTRACTION")
    chosen = ServerFacts(version="9.7.4", variables={"sql_mode": "STRICT_ALL_TABLES"})
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, d BIGINT AS (a - 9) STORED)")
    db.execute("SET SESSION sql_mode = @@GLOBAL.sql_mode; INSERT INTO t (id, a) VALUES (1, 1)")
    ((caches,),) = db.query("SELECT @@GLOBAL.table_open_cache_instances")
    with contextlib.closing(db.connect()) as application, contextlib.ExitStack() as opened:
        write = application.cursor()
        ours = opened.enter_context(connect(connection_options(db), role="test"))
        while (ours.id - application.thread_id()) % int(caches):
            ours = opened.enter_context(connect(connection_options(db), role="test"))

        def write_after(step):
            db.execute("FLUSH TABLES t")
            step()
            write.execute("UPDATE t SET a = 1 - a WHERE id = 1")

        look = functools.partial(ours.query, f"SELECT * FROM {db.name}.t")
        write_after(look)
        with as_stored(ours):
            write_after(look)
        evaluate_with(ours, evaluation_settings(chosen))
        write_after(look)
        ours.execute(f"SET SESSION sql_mode = {DATE_SQL_MODE}")
        write_after(look)
        accept_stored(ours)
        write_after(look)
    assert db.query("SELECT d FROM t") == [(-9,)]


def test_an_accounts_first_statements_change_no_mode(db, account):
    """The ALTER is read under the server's mode; init_connect is not run for root."""
    plain = dataclasses.replace(connection_options(db), user=account("plain"), password="p'w")
    db.set_global("init_connect", "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
    for native in (True, False):
        with connect(plain, role="alter", native=native) as session:
            assert "ANSI" not in session.value("SELECT @@SESSION.sql_mode")


def test_native_session_keeps_the_servers_mode(db):
    """A native session converts as a client of the operator would."""
    db.set_global("sql_mode", "NO_ENGINE_SUBSTITUTION")
    db.set_global("time_zone", "+05:30")

    with connect(connection_options(db), role="alter", native=True, lock_wait_timeout=7) as session:
        found = read_settings(session)

    assert (found["sql_mode"], found["time_zone"]) == ("NO_ENGINE_SUBSTITUTION", "+05:30")
    assert (found["lock_wait_timeout"], found["foreign_key_checks"]) == (7, 1)


@pytest.fixture
def account(db):
    """Return a function that creates an account of the test's own."""
    names = []

    def create(suffix: str, clause: str = "", grant: str = "") -> str:
        name = f"{db.name}_{suffix}"
        db.execute(f"CREATE USER `{name}` IDENTIFIED BY 'p''w' {clause}")
        names.append(name)
        if grant:
            db.execute(f"GRANT {grant} TO `{name}`")
        return name

    yield create
    for name in names:
        db.execute(f"DROP USER `{name}`")


def test_settings_that_need_a_privilege_are_set_only_where_they_differ(db, account):
    """Settings that need a privilege are only set where the server's differ."""
    user = account("plain")
    plain = dataclasses.replace(connection_options(db), user=user, password="p'w")

    with connect(plain, role="test") as session:
        assert read_settings(session)["binlog_row_image"] == "FULL"

    # Preflight refuses such a server, and that needs a session.
    db.set_global("binlog_row_image", "MINIMAL")
    with connect(plain, role="test") as session:
        assert read_settings(session)["binlog_row_image"] == "MINIMAL"

    chosen = dataclasses.replace(plain, settings=(("innodb_strict_mode", "0"),))
    with pytest.raises(ServerFault) as fault:
        connect(chosen, role="test")
    assert fault.value.code == 1227


def cipher(session) -> str:
    """Return the cipher of the session's connection; empty without TLS."""
    return session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1]


def test_tls_is_used_when_it_is_asked_for_or_required(db, account):
    """TLS is used when it is asked for or required, and the password works with and without."""
    user = account("tls", "REQUIRE SSL")
    strict = dataclasses.replace(connection_options(db), user=user, password="p'w")

    with connect(strict, role="test") as session:
        assert cipher(session)
    with connect(
        dataclasses.replace(connection_options(db), ssl_mode="PREFERRED"), role="test"
    ) as session:
        assert cipher(session)
    with connect(
        dataclasses.replace(connection_options(db), ssl_mode="DISABLED"), role="test"
    ) as session:
        assert not cipher(session)
    with pytest.raises(ServerFault, match="1045"):
        connect(dataclasses.replace(strict, ssl_mode="DISABLED"), role="test")
    with pytest.raises(ServerFault, match="2026"):
        connect(dataclasses.replace(strict, ssl_mode="VERIFY_IDENTITY"), role="test")


def test_a_server_that_takes_only_tls_is_reached(db):
    """A server that refuses plain connections is reached with TLS, or the cause is named."""
    db.set_global("require_secure_transport", "ON")

    with connect(connection_options(db), role="test") as session:
        assert cipher(session)
    plain = dataclasses.replace(connection_options(db), ssl_mode="DISABLED")
    with pytest.raises(ServerFault) as fault:
        connect(plain, role="test")
    assert "requires TLS" in connection_refusal(fault.value, plain).message


def test_a_socket_file_is_used_when_one_is_given(db):
    """A socket file is used when one is given."""
    path = db.query("SELECT @@socket")[0][0]
    by_socket = dataclasses.replace(
        connection_options(db), socket=path, host="no-such-host.invalid"
    )

    with connect(by_socket, role="test") as session:
        assert session.value("SELECT 1") == 1
    assert by_socket.address == path


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"host": "no-such-host.invalid"}, "the host no-such-host.invalid is unknown"),
        ({"port": 1}, "no server answers there"),
        ({"socket": "/no/such/socket"}, "no server answers there"),
        ({"password": "wrong"}, "does not accept user"),
        ({"user": "nobody_here"}, "does not accept user nobody_here"),
    ],
)
def test_a_refused_connection_is_explained_without_the_password(db, change, cause):
    """Each way in which the first connection can fail is explained, without the password."""
    changed = dataclasses.replace(connection_options(db), **change)

    with pytest.raises(ServerFault) as fault:
        connect(changed, role="test")

    refusal = connection_refusal(fault.value, changed)
    assert cause in refusal.message
    assert refusal.hint
    assert changed.password not in refusal.message + refusal.hint + str(fault.value)


def test_an_unknown_database_is_named(db):
    """An unknown database is named."""
    with pytest.raises(ServerFault) as fault:
        connect(connection_options(db), database="no_such_db", role="test")
    assert "no_such_db" in connection_refusal(fault.value, connection_options(db)).message


def test_a_killed_session_is_lost_and_not_opened_again(db, session):
    """A killed session is not alive, is not opened again by itself, and reads as lost."""
    assert session.alive()
    with connect(connection_options(db), role="test") as other:
        assert kill_session(other, session.id) == ""

    assert not session.alive()
    with pytest.raises(ServerFault) as fault:
        session.query("SELECT 1")
    assert connection_lost(fault.value)


def test_a_session_survives_its_killed_statement(db, session):
    """A killed statement ends with its own number, and the session lives on."""
    slow = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE SLEEP(60)"
    running = BackgroundCall(lambda: session.query(slow))
    busy = (
        "SELECT 1 FROM performance_schema.threads"
        f" WHERE processlist_id = {session.id} AND processlist_state = 'User sleep'"
    )
    until(lambda: db.query(busy), "the statement")
    with connect(connection_options(db), role="test") as other:
        assert kill_session(other, session.id, statement=True) == ""

    with pytest.raises(ServerFault, match="1317"):
        running.result()
    assert session.alive()


def test_a_session_of_a_system_user_is_not_killed_by_a_connection_admin(db, account, session):
    """The refusal names what is missing: CONNECTION_ADMIN is there."""
    user = account("killer")
    db.execute(f"GRANT CONNECTION_ADMIN ON *.* TO '{user}'@'%'")
    plain = dataclasses.replace(connection_options(db), user=user, password="p'w")
    with connect(plain, role="test") as killer:
        assert "SYSTEM_USER" in kill_session(killer, session.id)
    assert session.alive()


def test_kill_needs_a_privilege_for_other_accounts(db, account, session):
    """Killing another account's session needs a privilege, killing our own account's does not."""
    user = account("killer")
    plain = dataclasses.replace(connection_options(db), user=user, password="p'w")

    with connect(plain, role="test") as killer, connect(plain, role="test") as victim:
        assert "CONNECTION_ADMIN" in kill_session(killer, session.id)
        assert kill_session(killer, victim.id) == ""
        assert kill_session(killer, 2**31) == ""
    assert session.alive()


@pytest.mark.slow
def test_answer_later_than_the_read_timeout(db):
    """An answer that takes longer than the read timeout reads as a lost connection."""
    with connect(connection_options(db), role="test", read_timeout=5) as session:
        with pytest.raises(ServerFault) as fault:
            session.query("SELECT SLEEP(600)")
        assert connection_lost(fault.value)
        db.kill(session.id)


def test_a_session_may_be_closed_twice(db):
    """A session may be closed twice, and is a context."""
    with connect(connection_options(db), role="test") as session:
        session.close()
    session.close()
    with pytest.raises(ServerFault):
        session.query("SELECT 1")
    assert not session.alive()
    assert f"id={session.id}" in repr(session)


def test_the_statements_of_others_are_read_whatever_bytes_they_have(db):
    """A client sends the bytes of a binary value as they are, and the server shows them so."""
    other = db.connect()
    number = other.thread_id()
    call = BackgroundCall(lambda: other.query(b"SELECT SLEEP(60), '\xff\x81'"))
    with connect(connection_options(db), role="test") as session:

        def shown():
            return [str(row[7]) for row in process_list(session) if "SLEEP" in str(row[7])]

        until(shown, "the statement")
        assert shown() == ["SELECT SLEEP(60), '\ufffd\ufffd'"]
        assert not optimizes_now(session)
        assert session.value("SELECT @@character_set_results") == "utf8mb4"
    db.kill(number)
    with contextlib.suppress(MySQLdb.Error):
        call.result()


def test_the_writes_of_this_process_are_counted(db):
    """What is an INSERT or UPDATE of ours is no other's; a REPLACE is not counted on the server."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    with connect(connection_options(db), database=db.name, role="test") as session:
        before = OWN_QUERIES.writes(session.address)
        for sql in (
            "INSERT INTO t VALUES (1, 1)",
            "UPDATE t SET n = 2",
            "REPLACE INTO t VALUES (2, 2)",
        ):
            session.execute(sql)
        assert OWN_QUERIES.writes(session.address) == before + 2
        reads = OWN_QUERIES.reads(session.address)
        assert list(session.stream("SELECT n FROM t", 1)) == [((2,),), ((2,),)]
        assert OWN_QUERIES.reads(session.address) == reads + 1

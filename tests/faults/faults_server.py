"""Faults of the server, and of others who use it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import MySQLdb

from mysql_words import reset_binlogs
from tests.faults.fault import (
    AT_WORK,
    COPY,
    DONE,
    DRAIN,
    EARLY,
    UNLOCKED,
    Fault,
)
from tests.faults.faults_process import kill_driver
from tests.faults.host import MIGRATOR

if TYPE_CHECKING:
    from tests.faults.scene import Scene
    from tests.kits.point_listener import Hold

_BALLAST = "ballast"
_STEP = 1 << 20


def _kill_all(scene: Scene, how: str, *, only: str = "") -> None:
    """Kill every session of the program, or what it runs."""
    with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
        for number, text in scene.sessions().items():
            if text.startswith(only):
                with contextlib.suppress(MySQLdb.Error):
                    cursor.execute(f"KILL {how} {number}")


def kill_queries(scene: Scene, hold: Hold) -> None:
    """End the statements of the program again and again, for a while."""
    hold.release()
    for _ in scene.lasting(scene.random.uniform(0.5, 2.5)):
        _kill_all(scene, "QUERY")


def kill_sessions(scene: Scene, hold: Hold) -> None:
    """End the sessions of the program again and again, for a while."""
    _kill_all(scene, "CONNECTION")
    hold.release()
    for _ in scene.lasting(scene.random.uniform(0.0, 2.5)):
        _kill_all(scene, "CONNECTION")


def kill_feed(scene: Scene, hold: Hold) -> None:
    """End the session that sends the binlog."""
    _kill_all(scene, "CONNECTION", only="Binlog Dump")


def restart(scene: Scene, hold: Hold) -> None:
    """Shut the server down in order, and start it again after a while."""
    scene.host.server._end(signal.SIGTERM)
    hold.release()
    scene.last(scene.random.choice((0.0, 2.0)))
    scene.host.server.resume()


def crash(scene: Scene, hold: Hold) -> None:
    """Kill the server, and let it recover after a while."""
    scene.host.server.kill()
    hold.release()
    scene.last(scene.random.choice((0.0, 2.0)))
    scene.host.server.resume()


def pause_server(scene: Scene, hold: Hold) -> None:
    """Stop the server's process for a while: it keeps its connections and says nothing."""
    number = scene.host.server.pid
    assert number is not None
    os.kill(number, signal.SIGSTOP)
    hold.release()
    scene.last(scene.random.uniform(1, 5))
    os.kill(number, signal.SIGCONT)


def other_server(scene: Scene, hold: Hold) -> None:
    """Put another server behind the address: same data, another server_uuid."""
    server = scene.host.server
    server.kill()
    assert server.datadir is not None
    (server.datadir / "auto.cnf").unlink()
    server.resume()


def too_many_connections(scene: Scene, hold: Hold) -> None:
    """Refuse all connections for a while."""
    with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET GLOBAL max_connections = 1")
        hold.release()
        scene.last(scene.random.uniform(0.5, 4))
        cursor.execute("SET GLOBAL max_connections = 500")


def read_only(scene: Scene, hold: Hold) -> None:
    """Take no writes for a while."""
    with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 10")
        cursor.execute("SET GLOBAL super_read_only = ON")
        hold.release()
        scene.last(scene.random.uniform(0.5, 4))
        cursor.execute("SET GLOBAL super_read_only = OFF")
        cursor.execute("SET GLOBAL read_only = OFF")


def small_packets(scene: Scene, hold: Hold) -> None:
    """Lower max_allowed_packet to a MiB, with rows of hundreds of KB."""
    scene.host.execute("SET GLOBAL max_allowed_packet = 1048576")


def rotate(scene: Scene, hold: Hold) -> None:
    """Begin new binlog files, and delete those that are not read."""
    for _ in range(scene.random.randrange(1, 4)):
        scene.host.execute("FLUSH BINARY LOGS")
    hold.release()
    latest = scene.host.query("SHOW BINARY LOGS")[-1][0]
    scene.host.execute(f"PURGE BINARY LOGS TO '{latest}'")


def purge_between(scene: Scene) -> None:
    """Delete the binlog that a resume would need."""
    scene.host.execute("FLUSH BINARY LOGS")
    latest = scene.host.query("SHOW BINARY LOGS")[-1][0]
    scene.host.execute(f"PURGE BINARY LOGS TO '{latest}'")


def reset_between(scene: Scene) -> None:
    """Forget all binlogs and GTIDs."""
    ((version,),) = scene.host.query("SELECT VERSION()")
    scene.host.execute(reset_binlogs(version))


def reset(scene: Scene, hold: Hold) -> None:
    """Forget all binlogs and GTIDs while the feed reads them."""
    reset_between(scene)


def relaxed(scene: Scene) -> None:
    """Let the server write its redo log when it likes, as no durable server does."""
    scene.host.execute(
        "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
        "SET GLOBAL innodb_flush_log_at_timeout = 2700",
        "SET GLOBAL sync_binlog = 0",
    )


def crash_relaxed(scene: Scene, hold: Hold) -> None:
    """Kill a server that has promised nothing: rows that were committed, and applied, are gone."""
    scene.last(0.3)
    with scene.rewritten("a crash without durability"):
        scene.host.server.kill()
        scene.host.server.resume()
    hold.release()


def restore_unlogged(scene: Scene, hold: Hold) -> None:
    """Restore the table as the dump of a server with GTIDs does: other rows, nothing logged."""
    key = ", ".join(scene.draw.shape.key)
    with (
        scene.rewritten("a restore without the log"),
        contextlib.closing(scene.connect()) as session,
        session.cursor() as cursor,
    ):
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("CREATE TABLE restored LIKE t")
        cursor.execute("INSERT INTO restored SELECT * FROM t")
        cursor.execute(f"DELETE FROM restored ORDER BY {key} LIMIT {scene.random.randrange(1, 9)}")
        cursor.execute("DROP TABLE t")
        cursor.execute("RENAME TABLE restored TO t")
    hold.release()


def full_disk(scene: Scene, hold: Hold) -> None:
    """Fill the server's disk for a while. A server that does not recover by itself is restarted."""
    ballast = scene.host.disk / _BALLAST
    size = 0
    with ballast.open("wb") as file:
        for step in (_STEP, 4096):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step
    hold.release()
    scene.last(scene.random.uniform(1, 4))
    ballast.unlink()
    # The server looks once a minute whether its binlog has room again: too long to wait for.
    if not _writes(scene):
        scene.host.server.kill()
        scene.host.server.resume()


def _writes(scene: Scene) -> bool:
    """Return whether the server takes a write within seconds."""
    try:
        with (
            contextlib.closing(scene.connect(read_timeout=4)) as session,
            session.cursor() as cursor,
        ):
            cursor.execute("CREATE TABLE IF NOT EXISTS probe (i INT)")
            cursor.execute("DROP TABLE probe")
    except MySQLdb.Error:
        return False
    return True


def lock_rows(scene: Scene, hold: Hold) -> None:
    """Hold row locks on the new table, taken in an order that makes deadlocks."""
    hold.release()
    with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        cursor.execute("SET SESSION lock_wait_timeout = 1")
        for _ in scene.lasting(scene.random.uniform(1, 4)):
            with contextlib.suppress(MySQLdb.Error):
                _lock_some(scene, cursor)


def _lock_some(scene: Scene, cursor: Any) -> None:
    """Lock some rows of the new table, highest first, and give them back."""
    columns = ", ".join(scene.draw.shape.key)
    descending = ", ".join(f"{name} DESC" for name in scene.draw.shape.key)
    cursor.execute("BEGIN")
    try:
        for _ in range(3):
            offset = scene.random.randrange(scene.draw.rows)
            cursor.execute(
                f"SELECT {columns} FROM _t_new ORDER BY {descending} LIMIT {offset}, 5 FOR UPDATE"
            )
        scene.last(0.3)
    finally:
        cursor.execute("ROLLBACK")


def hold_table(scene: Scene, hold: Hold) -> None:
    """Keep a transaction open that has read the table: table locks must wait, or end it."""
    with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM t")
        hold.release()
        scene.last(scene.random.choice((0.5, 2.0, 7.0)))
        with contextlib.suppress(MySQLdb.Error):
            cursor.execute("COMMIT")


def other_ddl(scene: Scene, hold: Hold) -> None:
    """Change the table's definition from another session."""
    scene.host.execute(f"ALTER TABLE {scene.name}.t ADD COLUMN other INT NULL DEFAULT 7")
    scene.definition = scene.show_create()


def hidden_write(scene: Scene, hold: Hold) -> None:
    """Change rows without leaving a trace in the binlog: only the checksum can find them."""
    application = scene.application
    with (
        application.paused(),
        contextlib.closing(scene.connect()) as session,
        session.cursor() as cursor,
    ):
        cursor.execute("SET SESSION sql_log_bin = 0")
        for writer in application.writers:
            for number in scene.random.sample(sorted(writer.journal.rows), 3):
                before = writer.journal.rows[number]
                after = before._replace(body="an unseen write", value=4)
                cursor.execute(*writer._update_sql(number, before, after))
                writer.journal.acknowledge([(number, before, after)], "hidden")


def revoke_sight(scene: Scene, hold: Hold) -> None:
    """Take the privilege without which the server shows no triggers."""
    scene.host.execute(f"REVOKE TRIGGER ON *.* FROM {MIGRATOR}@'%'")


def put_back(scene: Scene) -> None:
    """Give the account its privileges back, and the server its options."""
    scene.host.put_back()


def filter_logs(scene: Scene, hold: Hold) -> None:
    """Restart the server with a filter of a schema that nobody has."""
    scene.host.restart("--binlog-ignore-db=of_nobody")


SERVER_FAULTS = (
    Fault(name="kill-query", strike=kill_queries),
    Fault(name="kill-sessions", strike=kill_sessions, codes=frozenset({0, 1, 2, 3})),
    Fault(name="kill-feed", strike=kill_feed, points=AT_WORK, codes=DONE),
    Fault(name="server-restart", strike=restart, codes=frozenset({0, 1, 2, 3})),
    Fault(name="server-crash", strike=crash, codes=frozenset({0, 1, 2, 3})),
    Fault(name="pause-server", strike=pause_server),
    Fault(
        name="other-server",
        strike=other_server,
        points=(*COPY, *DRAIN, "cutover.lock", "cutover.rename"),
        codes=frozenset({0, 1, 2, 3}),
        needs_gtid=True,
    ),
    Fault(name="max-connections", strike=too_many_connections),
    Fault(name="read-only", strike=read_only, points=UNLOCKED),
    Fault(
        name="small-packets", strike=small_packets, shape="wide", points=(*EARLY, *COPY), codes=DONE
    ),
    Fault(name="rotate-logs", strike=rotate, codes=DONE),
    Fault(
        name="purge-logs",
        strike=kill_driver,
        between=purge_between,
        points=(*COPY, *DRAIN),
        codes=frozenset({-9}),
    ),
    Fault(
        name="reset-logs-between",
        strike=kill_driver,
        between=reset_between,
        points=(*COPY, *DRAIN),
        codes=frozenset({-9}),
    ),
    Fault(name="reset-logs", strike=reset, points=AT_WORK),
    Fault(
        name="revoke-trigger",
        strike=revoke_sight,
        between=put_back,
        points=AT_WORK,
        codes=frozenset({1}),
    ),
    Fault(
        name="binlog-filter",
        strike=filter_logs,
        between=put_back,
        points=(*COPY, *DRAIN),
        codes=frozenset({1, 2}),
    ),
    Fault(name="relaxed-crash", strike=crash_relaxed, points=AT_WORK, before=relaxed, bare=True),
    Fault(
        name="restore-unlogged",
        strike=restore_unlogged,
        points=(*COPY, "drain.begun", "checksum.begin", "cutover.lock"),
        codes=frozenset({1}),
        bare=True,
        loses_rows=True,
    ),
    Fault(name="disk-full", strike=full_disk, codes=frozenset({0, 1, 2, 3}), needs_disk=True),
    Fault(name="lock-rows", strike=lock_rows, points=(*COPY, *DRAIN), codes=DONE),
    Fault(
        name="hold-table",
        strike=hold_table,
        points=("checksum.begin", "cutover.lock", *COPY),
        codes=DONE,
    ),
    Fault(
        name="other-ddl",
        strike=other_ddl,
        points=(*COPY, "drain.begun"),
        codes=frozenset({1}),
    ),
    Fault(
        name="hidden-write",
        strike=hidden_write,
        points=("drain.begun", "checksum.begin"),
        codes=DONE,
        expects_repairs=True,
    ),
)

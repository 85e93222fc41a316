"""Every refusal before the first row is copied, played by ``plan`` and by ``migrate``.

Both refuse with the same codes. ``migrate`` stops where checks refuse, and ``plan`` goes on: it may
say more, never less. The cases of ``tests/cases`` are compared in ``test_plan_cases.py``, missing
privileges in ``test_plan.py``.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from mysql_server import ServerOptions, running
from spirit_py.config import FeedOptions
from spirit_py.errors import Refusal
from spirit_py.mysql.capabilities import Capability
from spirit_py.preflight.checks import disk_space
from spirit_py.table.names import lock_name
from spirit_py.watch.source import ScopeSource
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.capabilities import lack
from tests.kits.command import codes_told, command_line, run_here, run_words_here
from tests.kits.connection import options_of
from tests.kits.resume import Interruption

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from spirit_py.spark.gang import GangEngine
    from tests.kits.tcp_proxy import TcpProxy

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), n INT NOT NULL, c CHAR(9))"
ROWS = "INSERT INTO t VALUES (1, NULL, 'same', 1, 'x'), (2, NULL, 'same', 2, 'y')"
ANY = "ADD d INT, FORCE"


class Refused(NamedTuple):
    """A refusal: its code, the change and the options, what is there, and the server's settings."""

    code: str
    alter: str = ANY
    options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the name of the test."""
        rest = " ".join((self.alter, *self.options, *self.setup, *map(str, self.settings)))
        return re.sub(r"\W+", "-", f"{self.code} {rest}")[:70]


def option(code: str, *options: str) -> Refused:
    """Return what is refused for an option."""
    return Refused(code, options=options)


def there(code: str, *setup: str, options: tuple[str, ...] = ()) -> Refused:
    """Return what is refused for something that is on the server."""
    return Refused(code, setup=setup, options=options)


def setting(name: str, value: str) -> Refused:
    """Return what is refused for a setting of the server."""
    return Refused("server-settings", settings=((name, value),))


KEPT = ("--keep-old-current", "1h")
NAMED = ("--table", "k")
CHILD_OF_ID = "CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))"
CHILD = "CREATE TABLE child (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t (a))"
REFUSALS = [
    Refused("auto-increment", "MODIFY a INT AUTO_INCREMENT UNIQUE"),
    Refused("clause-not-supported", "RENAME TO u"),
    Refused("clause-not-supported", "ADD c INT, ADD FOREIGN KEY (a) REFERENCES t (id)"),
    Refused("column-not-convertible", "ADD p POINT NOT NULL"),
    Refused("definition-refused", "DROP COLUMN nonesuch"),
    Refused("duplicates-for-unique-key", "ADD UNIQUE KEY u (b)"),
    Refused("keep-refused", "FORCE", options=("--keep", "a > RAND()")),
    Refused("new-not-null", "MODIFY a INT NOT NULL"),
    Refused("no-usable-key", "DROP PRIMARY KEY"),
    Refused("other-modes-accept", "ADD d DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'"),
    Refused("definition-refused", "ADD a INT"),
    Refused("foreign-key", "DROP FOREIGN KEY nonesuch"),
    Refused("statement-not-understood", "ADD d INT DEFAULT 'x"),
    Refused("zero-dates", "ADD d DATE NOT NULL"),
    Refused(
        "members-in-use",
        "MODIFY e ENUM('x')",
        setup=("ALTER TABLE t ADD e ENUM('x', 'y') NOT NULL DEFAULT 'y'",),
    ),
    Refused(
        "member-twice",
        setup=("SET SESSION sql_mode = ''", "ALTER TABLE t ADD e ENUM('x', 'x')"),
        settings=(("sql_mode", ""),),
    ),
    Refused(
        "table-too-wide",
        "MODIFY b INT",
        setup=("ALTER TABLE t ADD w VARCHAR(65400) CHARACTER SET latin1",),
    ),
    Refused(
        "padded-char",
        "MODIFY c VARCHAR(9)",
        settings=(("sql_mode", "STRICT_TRANS_TABLES,PAD_CHAR_TO_FULL_LENGTH"),),
    ),
    Refused(
        "foreign-key",
        "DROP COLUMN a",
        setup=("ALTER TABLE t ADD UNIQUE KEY (a)", CHILD),
    ),
    Refused(
        "foreign-key",
        "DROP KEY a, FORCE",
        setup=("ALTER TABLE t ADD UNIQUE KEY a (a)", CHILD),
    ),
    Refused("foreign-key", "PARTITION BY KEY (id)", setup=(CHILD_OF_ID,)),
    Refused(
        "trigger-not-kept",
        "DROP COLUMN a, FORCE",
        setup=("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",),
    ),
    there(
        "trigger-not-kept",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        options=("--triggers", "refuse"),
    ),
    there("check-name", f"ALTER TABLE t ADD CONSTRAINT t_chk_{'x' * 58} CHECK (n > 0)"),
    there("name-taken", "CREATE TABLE _t_new (id INT)"),
    there("name-taken", "CREATE TABLE _t_old (id INT)"),
    there("name-taken", "CREATE TABLE _t_chkpnt (id INT)"),
    there("name-taken", "CREATE TABLE _t_undone (id INT)", options=KEPT),
    there("no-usable-key", "CREATE TABLE k (id INT)", options=NAMED),
    there(
        "nullable-key",
        "CREATE TABLE k (id INT UNIQUE)",
        "INSERT INTO k VALUES (NULL)",
        options=(*NAMED, "--allow-nullable-unique-key"),
    ),
    there("table-not-suitable", "CREATE VIEW k AS SELECT * FROM t", options=NAMED),
    there("table-not-suitable", "CREATE TABLE k (id INT PRIMARY KEY) ENGINE=MyISAM", options=NAMED),
    option("limit-not-watchable", "--max-load", "Nonesuch=1"),
    option("limit-not-watchable", "--critical-load", "Nonesuch=1"),
    option("limit-not-watchable", "--throttle-query", "SELECT nonesuch"),
    option("limit-not-watchable", "--max-lag", "1s", "--replica", "127.0.0.1:1"),
    option("no-such-table", "--table", "nonesuch"),
    option("no-such-table", "--database", "nonesuch"),
    option("passed-writes", "--pass-statement-writes", "{schema}.t"),
    option("table-not-suitable", "--database", "mysql", "--table", "user"),
    option("wrong-options", "--sql-mode", "NONESUCH"),
    setting("binlog_row_image", "MINIMAL"),
    setting("binlog_row_value_options", "PARTIAL_JSON"),
    setting("binlog_order_commits", "OFF"),
    setting("read_only", "ON"),
    Refused(
        "name-taken no-usable-key server-settings",
        options=NAMED,
        setup=("CREATE TABLE k (id INT)", "CREATE TABLE _k_new (id INT)"),
        settings=(("binlog_row_image", "MINIMAL"),),
    ),
]


#: Were once refused otherwise, or not at all, by one of the two.
FIXED = [
    Refused("foreign-key", "MODIFY id BIGINT", setup=(CHILD_OF_ID,)),
    Refused("foreign-key no-usable-key", "DROP COLUMN id", setup=(CHILD_OF_ID,)),
    Refused("reverse-not-possible", "DROP COLUMN n", KEPT),
    Refused("server-settings", settings=(("binlog_format", "STATEMENT"),)),
    Refused("statement-not-understood", "ADD d INTT"),
    Refused("wrong-options", ""),
    there(
        "snapshot-guard",
        "ALTER TABLE t ROW_FORMAT=COMPRESSED",
        options=("--snapshot-guard", "on"),
    ),
]


@pytest.fixture
def table(db: Database) -> Database:
    """Return a schema with a table of two rows."""
    db.execute(TABLE)
    db.execute(ROWS)
    return db


def codes(done: CompletedProcess[str]) -> set[str]:
    """Return the codes of what a command refuses: of a plan's document, or of its errors.

    Where no plan could be made, the document is the error.
    """
    assert done.returncode == 2, done.stdout + done.stderr
    if done.stdout.startswith("{"):
        document = json.loads(done.stdout)
        return {note["code"] for note in document.get("refusals", [document])}
    return codes_told(done.stderr)


def both(db: Database, *options: str) -> tuple[set[str], set[str]]:
    """Return the codes of what a plan and a migration with the same options refuse."""
    plan = run_here(db, "plan", *options, "--format", "json", "--no-sample")
    return codes(plan), codes(run_here(db, "migrate", *options))


@pytest.mark.slow
@pytest.mark.parametrize("case", FIXED, ids=str)
def test_a_plan_refuses_what_a_migration_refuses(table: Database, case: Refused) -> None:
    """The same codes, exit code 2, and no table is made or changed."""
    play(table, case)


@pytest.mark.slow
@pytest.mark.draws(8)
@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_a_plan_refuses_what_a_migration_refuses_for_whatever_cause(
    table: Database, case: Refused
) -> None:
    """The same, of those that are drawn by the day."""
    play(table, case)


def play(table: Database, case: Refused) -> None:
    """Prepare the server for a case, and play it by both commands."""
    for statement in case.setup:
        table.execute(statement)
    before = table.query("SHOW TABLES"), table.query("CHECKSUM TABLE t")
    for name, value in case.settings:
        table.set_global(name, value)
    options = [text.replace("{schema}", table.name) for text in case.options]

    planned, refused = both(table, "--alter", case.alter, *options)

    assert planned == refused == set(case.code.split())
    assert (table.query("SHOW TABLES"), table.query("CHECKSUM TABLE t")) == before


def test_a_plan_goes_on_after_the_first_refusal(table: Database) -> None:
    """A migration stops before the new table is made; a plan also says what would come next."""
    table.execute("CREATE TABLE _t_new (id INT)")

    planned, refused = both(table, "--alter", "MODIFY a INT NOT NULL")

    assert refused == {"name-taken"}
    assert planned == {"name-taken", "new-not-null"}


def test_a_full_disk_is_refused_by_both(table: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is this machine's; what it has free is told otherwise."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1)
    assert both(table, "--alter", ANY) == ({"no-disk-space"}, {"no-disk-space"})
    # What is not made in place after all, and what is.
    changed = "MODIFY a BIGINT"
    assert both(table, "--alter", changed) == ({"no-disk-space"}, {"no-disk-space"})
    before = table.query("SHOW TABLES")
    instant = ("--alter", "ADD d INT")
    assert run_here(table, "plan", *instant, "--no-sample").returncode == 0
    assert run_here(table, "migrate", *instant).returncode == 0
    assert table.query("SHOW TABLES") == before


def test_a_disk_too_small_for_a_new_index_is_refused_by_both(
    table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows have room; only the new definition shows that its index has none."""
    table.execute(
        "INSERT INTO t (id, a, n) WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL"
        " SELECT i + 1 FROM n WHERE i < 1900) SELECT i, i, i FROM n"
    )
    table.query("ANALYZE TABLE t")
    ((rows,),) = table.query(
        "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 't'"
        " AND TABLE_SCHEMA = DATABASE()"
    )
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 2 * rows + 1)
    alter = ("--alter", "ADD INDEX (a)", "--no-shortcut")
    assert both(table, *alter) == ({"no-disk-space"}, {"no-disk-space"})


def test_a_server_that_is_too_old_is_refused_by_both(
    table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is of today, and is told to lack what is needed."""
    lack(monkeypatch, Capability.OFFSETS)
    assert both(table, "--alter", ANY) == ({"server-not-supported"}, {"server-not-supported"})


@pytest.mark.slow
def test_cascades_that_the_server_does_not_log_are_refused_by_both(
    table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server logs them, and is told to lack that."""
    lack(monkeypatch, Capability.LOGGED_CASCADES)
    table.execute("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE")
    assert both(table, "--alter", ANY) == ({"foreign-key"}, {"foreign-key"})


def test_a_named_spark_without_java_is_refused_by_both(
    table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of the process do the work of executors of another machine in no case."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    options = ("--alter", ANY, "--spark-master", "local[2]")
    assert both(table, *options) == ({"java-missing"}, {"java-missing"})
    assert table.query("SHOW TABLES") == [("t",)]


def test_a_proxy_that_numbers_sessions_itself_is_refused_by_both(
    table: Database, proxy: TcpProxy
) -> None:
    """It may spread sessions over several servers."""
    proxy.renumbers = True
    options = ("--alter", ANY, "--host", f"{proxy.host}:{proxy.port}")
    assert both(table, *options) == ({"not-one-server"}, {"not-one-server"})
    assert table.query("SHOW TABLES") == [("t",)]


def test_more_tables_than_a_record_can_name_are_refused_by_both(db: Database) -> None:
    """As of a move with --tables 'shop.%'; no table is read before that."""
    text = ";".join(f"ALTER TABLE t{number} FORCE" for number in range(1001))
    told = "1001 tables are more than one run takes (1000)"
    for command in ("plan", "migrate"):
        words = [*command_line(db, command)[3:], "--statement", text]
        done = run_words_here(words, SPIRIT_PY_PASSWORD=db.server.password)
        assert done.returncode == 2, done
        said = " ".join((done.stdout + done.stderr).split())
        assert told in said, done
        assert "several runs" in said, done


@pytest.mark.slow
def test_tags_need_gtids_for_both(db_file: Database) -> None:
    """The server has none."""
    db_file.execute(TABLE)
    options = ("--alter", ANY, "--tag-own-writes")
    assert both(db_file, *options) == ({"tagged-writes"}, {"tagged-writes"})


@pytest.mark.slow
def test_a_running_migration_is_left_alone_by_both(table: Database) -> None:
    """Its lock is held by a session that never says what it does."""
    with contextlib.closing(table.connect()) as other:
        other.query(f"SELECT GET_LOCK('{lock_name('migration', table.name, 't')}', 0)")
        other.store_result()
        assert both(table, "--alter", ANY) == ({"already-running"}, {"already-running"})


@pytest.mark.slow
def test_unfinished_work_is_kept_by_both(
    table: Database, engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change, and a rehearsal of the same one, would drop rows that are copied."""
    table.execute("INSERT INTO t (id, n) VALUES (3, 3), (4, 4)")
    Interruption(monkeypatch).at(engine, table, "chunk.committed", alter=ANY)
    tables = table.query("SHOW TABLES")

    wanted = ({"unfinished-work"}, {"unfinished-work"})
    assert both(table, "--alter", "ADD z INT, FORCE") == wanted
    assert both(table, "--alter", ANY, "--dry-run") == wanted
    assert table.query("SHOW TABLES") == tables


@pytest.mark.slow
def test_a_server_that_hides_or_receives_writes_is_refused_by_both(
    request: pytest.FixtureRequest,
) -> None:
    """A filtered binlog, replicated changes that are not in it, and a channel that may write."""
    flags = ("--binlog-ignore-db=scratch", "--log-replica-updates=OFF")
    options = ServerOptions(buffer_pool="32M", extra=flags)
    with (
        running(options, provider=request.config.stash[PROVIDER]) as server,
        contextlib.closing(Database(server, "shop")) as shop,
    ):
        shop.execute(TABLE)
        shop.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1")
        shop.execute("START REPLICA SQL_THREAD")
        planned, refused = both(shop, "--alter", ANY)
        with (
            contextlib.closing(
                ScopeSource(options_of(server), FeedOptions(), database="", table="")
            ) as watched,
            pytest.raises(Refusal, match="log_replica_updates=OFF") as unlogged,
        ):
            watched.open("")
        assert "RESET REPLICA ALL" in unlogged.value.hint
        shop.execute("STOP REPLICA")
    assert planned == refused == {"binlog-filtered", "other-writers", "replica"}

"""Every check, on a real server: what it refuses, in which words, and that nothing is written."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from spirit_py.checkpoint.proofs import note_proofs
from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions, MigrationConfig, SessionModes
from spirit_py.errors import Interrupted, Refusal, UsageFault
from spirit_py.estimates import likely_sizes
from spirit_py.mysql import duplicates
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import ServerFacts, read_facts, require_mysql
from spirit_py.mysql.own_sessions import new_run
from spirit_py.mysql.session import Session
from spirit_py.mysql.tables import definition
from spirit_py.mysql.tables.identity import identity
from spirit_py.preflight.check import Severity
from spirit_py.preflight.checks import disk_space, server_settings
from spirit_py.preflight.checks import duplicates as duplicates_check
from spirit_py.preflight.checks.names import is_ours
from spirit_py.preflight.checks.syntax import read_intent
from spirit_py.preflight.preflight import (
    check_after_create,
    check_before_create,
    mapping_of,
    prepare,
)
from tests.kits.connection import granted, make_account
from tests.kits.schema_tools import open_schema_tools

TABLE = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20))"


@pytest.fixture
def desk(db):
    """Open a desk in a schema with an ordinary table, on a server as it is by default."""
    db.set_global("sync_binlog", 1)
    db.set_global("innodb_flush_log_at_trx_commit", 1)
    db.execute(TABLE)
    with open_schema_tools(db) as found:
        yield found


def refusals(desk, alter="ADD c INT", **more) -> list[str]:
    """Run the first checks; return the causes and remedies of what they refuse."""
    with pytest.raises(Refusal) as refused:
        desk.before(alter, **more)
    error = refused.value
    assert error.exit_code == 2
    if not error.details:
        assert error.hint
    return [error.message, error.hint, *error.details]


def test_an_ordinary_table_passes_without_a_finding(desk):
    """An ordinary table on an ordinary server passes without a word."""
    assert desk.before("ADD c INT") == ()
    mapping, warnings = desk.after("ADD c INT")
    assert (mapping.key.name, warnings) == ("PRIMARY", ())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("sync_binlog", "0"),
        ("innodb_flush_log_at_trx_commit", "2"),
        ("binlog_error_action", "IGNORE_ERROR"),
    ],
)
def test_a_server_that_may_lose_commits_is_warned_of(db, desk, setting, value):
    """R25: the setting, what follows from it, and how to set it otherwise."""
    db.set_global(setting, value)
    (found,) = desk.before("ADD c INT")
    assert f"({setting}={value})" in found.cause
    assert "the next one compares every row" in found.cause
    assert f"SET PERSIST {setting} = " in found.remedy


@pytest.mark.parametrize(
    ("change", "cause", "remedy"),
    [
        ({"alter": "ALTER TABLE t ADD c INT"}, "a whole statement", "or use --statement"),
        ({"alter": "create index i on t (a)"}, "a whole statement", "or use --statement"),
        ({"statement": "ADD c INT"}, "neither ALTER TABLE nor", "with --table and --alter"),
        ({"statement": "ALTR TABLE t ADD c INT"}, "neither ALTER TABLE nor", "ALTER TABLE ..."),
    ],
)
def test_a_text_in_the_wrong_option_is_not_answered_with_the_servers_syntax_error(
    desk, change, cause, remedy
):
    """The server cannot read it either, and knows nothing of the options."""
    with pytest.raises(UsageFault) as refused:
        read_intent(desk.session, replace(desk.config(""), **change), "")
    assert cause in refused.value.message
    assert remedy in refused.value.hint


def test_a_name_that_the_log_may_have_in_lower_case_is_refused(db, desk):
    """As on macOS: changes would be under another name."""
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    context = replace(context, facts=facts_with(desk, lower_case_table_names="2"))
    assert not any("lower_case" in one.cause for one in server_settings.server_settings(context))
    named = replace(context, found=replace(context.source, name="Orders"))
    told = server_settings.server_settings(named)
    (found,) = [one for one in told if "lower_case" in one.cause]
    assert (found.severity.value, "rename" in found.remedy) == ("refusal", True)


def test_a_server_that_rounds_json_doubles_is_warned_of(db, desk):
    """A server whose parser makes another double of JSON text is named, and only such a one."""
    db.execute("ALTER TABLE t ADD j JSON")
    rounds = db.query("SELECT CAST('[14.809999999999999]' AS JSON) = JSON_ARRAY(14.81e0)")[0][0]
    assert ["rounds numbers in JSON text" in each.cause for each in desk.before("ADD c INT")] == (
        [True] * rounds
    )


MANY_HOURS = "CALL mysql.rds_set_configuration('binlog retention hours', {});"


@pytest.mark.parametrize(
    ("kept", "days", "found"),
    [
        ("NULL", 0, [("purges its binary log as soon as it can, and the mig", MANY_HOURS, 24)]),
        ("72", 0, []),
        ("72", 4, [("keeps its binary log for 259200 s: spirit-py revert is", MANY_HOURS, 96)]),
        # It is not told to keep it for longer than it can.
        ("72", 30, [("keeps its binary log for 259200 s: spirit-py revert is", MANY_HOURS, 168)]),
        ("168", 30, [("for 604800 s", "Amazon RDS keeps it for no more than {} h", 168)]),
    ],
)
def test_a_retention_of_rds_that_is_too_short_is_a_warning_with_the_call(
    db, desk, kept, days, found
):
    """Tried with a procedure of that name: the service itself was not there to be tried."""
    db.execute(
        "CREATE PROCEDURE mysql.rds_show_configuration() SELECT 'binlog retention hours' AS name,"
        f" {kept} AS value, 'text' AS description"
    )
    try:
        warned = desk.before("ADD c INT", drop_old_after=86_400.0 * days)
    finally:
        db.execute("DROP PROCEDURE mysql.rds_show_configuration")
    said = [f for f in warned if f.check == "binlog_retention"]
    assert [f.remedy for f in said] == [remedy.format(hours) for _, remedy, hours in found]
    assert all(cause in f.cause for f, (cause, *_) in zip(said, found, strict=True))


def test_a_short_retention_of_the_binlog_is_a_warning(db, desk):
    """A paused run could not resume."""
    db.set_global("binlog_expire_logs_seconds", 600)
    (found,) = [f for f in desk.before("ADD c INT") if f.check == "binlog_retention"]
    assert "for 600 s" in found.cause
    assert found.remedy.startswith("SET PERSIST binlog_expire_logs_seconds =")


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ("SECONDARY_ENGINE=rapid", [True]),
        ("COMMENT='it''s \\\\' SECONDARY_ENGINE=rapid", [True]),
        ("COMMENT='it''s no SECONDARY_ENGINE=rapid'", []),
    ],
)
def test_a_secondary_engine_is_a_warning_that_nothing_is_loaded(db, desk, options, warned):
    """The swap puts another table in place; that one was never loaded. A comment has none."""
    db.execute(f"CREATE TABLE loaded (id INT PRIMARY KEY, a INT) {options}")
    db.execute("DROP TABLE t; RENAME TABLE loaded TO t")
    _, found = desk.after("MODIFY a BIGINT")
    assert ["SECONDARY_LOAD" in one.remedy for one in found] == warned


def test_the_checks_write_nothing(db, desk):
    """The checks leave no table, no setting and no row behind."""
    before = db.query("SELECT @@gtid_executed")
    desk.before("ADD c INT")
    assert db.query("SELECT @@gtid_executed") == before


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("binlog_format", "MIXED", "binlog_format is MIXED"),
        ("binlog_format", "STATEMENT", "binlog_format is STATEMENT"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image is MINIMAL"),
        ("binlog_row_image", "NOBLOB", "binlog_row_image is NOBLOB"),
        ("binlog_row_value_options", "PARTIAL_JSON", "PARTIAL_JSON"),
        ("binlog_order_commits", "OFF", "binlog_order_commits is OFF"),
        ("read_only", "ON", "takes no writes (read_only=ON)"),
        ("super_read_only", "ON", "takes no writes (super_read_only=ON)"),
    ],
)
def test_a_setting_that_hides_changes_is_refused_by_name(db, desk, name, value, cause):
    """A setting that would hide changes or forbid writes is refused by name."""
    db.set_global("read_only", 0)
    db.set_global(name, value)
    message, hint, *_ = refusals(desk)
    assert cause in message
    assert hint


def facts_with(desk, **variables) -> ServerFacts:
    """Return the server's facts with other values of some variables."""
    facts = read_facts(desk.session)
    return ServerFacts(
        version=variables.pop("version", facts.version),
        variables=dict(facts.variables) | variables,
    )


def with_facts(desk, **variables) -> list[str]:
    """Run the first checks with other facts, for what a running server cannot be changed to."""
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    changed = type(context)(
        **{name: getattr(context, name) for name in context.__dataclass_fields__}
        | {"facts": facts_with(desk, **variables)}
    )
    with pytest.raises(Refusal) as refused:
        check_before_create([changed])
    return [refused.value.message, *refused.value.details]


def test_a_server_without_a_binary_log_is_refused(desk):
    """A server without a binary log is refused."""
    assert "log_bin=OFF" in with_facts(desk, log_bin="OFF")[0]


def test_what_a_service_starts_its_servers_with_is_set_as_the_service_does_it(desk):
    """Nobody can give such a server an option: the parameter group is named."""
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    unlogged = facts_with(desk, log_bin="OFF", aurora_version="3.07.1")
    with pytest.raises(Refusal, match="log_bin=OFF") as refused:
        check_before_create([replace(context, facts=unlogged)])
    assert "binlog_format to 'ROW' in the DB cluster parameter group" in refused.value.hint
    off = facts_with(desk, performance_schema="OFF", aurora_version="3.07.1")
    found = check_before_create([replace(context, facts=off)])
    (remedy,) = [one.remedy for one in found if "performance_schema is OFF" in one.cause]
    assert remedy.startswith("set performance_schema to ON in the DB cluster parameter group")


def test_a_server_without_performance_schema_is_a_warning(desk):
    """What is lost is named."""
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    changed = replace(context, facts=facts_with(desk, performance_schema="OFF"))
    (warning,) = check_before_create([changed])
    assert "performance_schema is OFF: index builds show no progress" in warning.cause


def test_all_failures_are_reported_together(db, desk):
    """Every failure is named in one answer, whichever part it is about."""
    db.set_global("binlog_row_image", "MINIMAL")
    db.set_global("binlog_order_commits", "OFF")
    db.execute("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1")
    db.execute("CREATE TABLE _t_new (id INT)")
    text = "\n".join(refusals(desk, triggers="refuse"))
    assert "4 checks" in text
    for cause in ("MINIMAL", "binlog_order_commits", "trigger g", "_t_new"):
        assert cause in text
    assert text.count("remedy: ") == 4


@pytest.mark.parametrize(
    ("version", "comment", "cause"),
    [
        ("11.4.2-MariaDB-log", "", "MariaDB"),
        ("5.5.5-10.6.1-MariaDB", "", "MariaDB"),
        ("10.11.6", "mariadb.org binary distribution", "MariaDB"),
        ("8.0.11-TiDB-v8.1.0", "TiDB Server (Apache License 2.0)", "is TiDB .*not MySQL"),
        ("5.7.25", "OceanBase 4.2.1.0", "is OceanBase .*not MySQL"),
        ("8.0.30-Vitess", "", "is Vitess .*not MySQL"),
        ("8.0.34", "PlanetScale", "is PlanetScale .*not MySQL"),
        ("5.7.44-log", "MySQL Community Server", "8.0.19 or later"),
        ("8.0.18", "MySQL Community Server", "8.0.19 or later"),
    ],
)
def test_mariadb_and_old_servers_are_refused(desk, version, comment, cause):
    """Other servers are refused by name, and so is a MySQL that is too old."""
    with pytest.raises(Refusal, match=cause) as refused:
        require_mysql(facts_with(desk, version=version, version_comment=comment))
    assert refused.value.hint


@pytest.mark.parametrize("version", ["8.0.19", "8.0.44", "8.4.0-debug", "9.7.4-2"])
def test_every_mysql_from_8_0_is_taken(desk, version):
    """MySQL 8.0 and everything later is taken."""
    require_mysql(facts_with(desk, version=version, version_comment="MySQL"))


#: What makes it, what is asked for, and the cause that is named.
REFUSED = [
    ("", {"table": "nonesuch"}, "there is no table"),
    ("", {"database": "nonesuch"}, "there is no schema nonesuch"),
    ("", {"database": "mysql", "table": "user"}, "is a system schema"),
    ("CREATE VIEW k AS SELECT * FROM t", {"table": "k"}, "is a view"),
    ("CREATE TABLE k (id INT PRIMARY KEY) ENGINE=MyISAM", {"table": "k"}, "engine MyISAM"),
    ("CREATE TABLE k (id INT PRIMARY KEY) ENGINE=MEMORY", {"table": "k"}, "engine MEMORY"),
    *(
        (f"CREATE TABLE k ({columns})", {"table": "k"}, "neither a primary key")
        for columns in (
            "id INT",
            "id INT, KEY (id)",
            "id INT, UNIQUE (id)",
            "id VARCHAR(9) NOT NULL, UNIQUE (id(3))",
            "id INT NOT NULL, UNIQUE ((id + 1))",
        )
    ),
    (f"ALTER TABLE t ADD CONSTRAINT t_chk_{'x' * 58} CHECK (a > 0)", {}, "more than 64"),
    ("", {"alter": "ADD c INTT"}, "near 'INTT'"),
    ("", {"alter": "FROBNICATE c"}, "near 'FROBNICATE c'"),
    ("", {"alter": "ADD INDEX"}, "near ''"),
    ("", {"alter": "ADD c INT DEFAULT 'x"}, "near ''x'"),
    ("", {"alter": "RENAME TO u"}, "cannot be renamed"),
    ("", {"alter": "ADD c INT, ALGORITHM=COPY"}, "ALGORITHM"),
]


@pytest.mark.parametrize(("make", "asked", "cause"), REFUSED)
def test_what_cannot_be_migrated_is_refused_as_what_it_is(db, desk, make, asked, cause):
    """No InnoDB base table, no key that tells rows apart, no room for a name, no such statement."""
    db.execute("SET SESSION sql_generate_invisible_primary_key = OFF")
    if make:
        db.execute(make)
    assert cause in refusals(desk, **asked)[0]


def test_a_key_of_the_servers_own_making_is_usable(db, desk):
    """The invisible primary key of the server's own making is a key like any other."""
    db.execute("SET SESSION sql_generate_invisible_primary_key = ON")
    db.execute("CREATE TABLE k (a INT)")
    desk.session.execute("SET SESSION show_gipk_in_create_table_and_information_schema = OFF")
    assert desk.before("ADD c INT", table="k") == ()


def test_a_swapped_primary_key_passes_where_another_key_stays(db, desk):
    """A swapped primary key passes where another unique key stays."""
    db.execute("ALTER TABLE t ADD u INT NOT NULL, ADD UNIQUE (u)")
    mapping, _ = desk.after("MODIFY id INT, DROP PRIMARY KEY, ADD PRIMARY KEY (u)")
    assert mapping.key.columns == ("u",)


@pytest.mark.slow
@pytest.mark.parametrize("alter", ["ADD COLUMN z INT", "DROP INDEX b, ADD FULLTEXT INDEX c (b)"])
def test_documents_with_numbers_of_the_applications_are_not_copied(db, desk, alter):
    """The server takes ascending numbers alone (error 182), and no row is written in that order."""
    db.execute(DOCUMENTS)
    db.execute("INSERT INTO t VALUES (1, 20, 'x'), (2, 30, 'y')")
    (first, hint, *_) = after(desk, alter)
    assert "FTS_DOC_ID" in first
    assert "--native" in hint


@pytest.mark.parametrize("alter", ["DROP INDEX b", "DROP COLUMN FTS_DOC_ID"])
def test_without_their_index_or_their_numbers_documents_are_copied(db, desk, alter):
    """Then every order will do."""
    db.execute(DOCUMENTS)
    mapping, _ = desk.after(alter)
    assert mapping.key.name == "PRIMARY"


def test_every_trigger_is_refused_by_name_on_demand(db, desk):
    """--triggers refuse: each trigger is named."""
    db.execute("CREATE TRIGGER g1 BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1")
    db.execute("CREATE TRIGGER g2 AFTER DELETE ON t FOR EACH ROW SET @x = 1")
    text = "\n".join(refusals(desk, triggers="refuse"))
    assert "trigger g1 (BEFORE INSERT)" in text
    assert "trigger g2 (AFTER DELETE)" in text


@pytest.mark.parametrize("name", ["_t_new", "_t_old", "_t_chkpnt"])
def test_leftovers_of_another_tool_are_named_and_kept(db, desk, name):
    """A table of another tool under an auxiliary name is named and not touched."""
    db.execute(f"CREATE TABLE {name} (id INT); INSERT INTO {name} VALUES (7)")
    message, hint, *_ = refusals(desk)
    assert name in message
    assert name in hint
    assert db.query(f"SELECT id FROM {name}") == [(7,)]


def test_a_sentinel_made_by_hand_is_no_leftover(db, desk):
    """An operator may defer the cutover before the start; it is told what is waited for."""
    db.execute("CREATE TABLE _t_snt (id INT)")
    (context,) = prepare(desk.session, desk.config("ADD c INT"))
    (finding,) = check_before_create([context])
    assert finding.severity is Severity.WARNING
    assert "_t_snt exists: the swap waits" in finding.cause


def a_record(schema: str) -> CheckpointRecord:
    """Return a record that can be read."""
    return CheckpointRecord(
        statement="ALTER",
        tables=(TableProgress(schema=schema, table="t"),),
        server_uuid="u",
        phase="copy",
    )


@pytest.mark.slow
def test_only_the_new_table_that_was_noted_is_our_own(db, desk):
    """The new table that was noted is the program's own; another one and an old one never are."""
    db.execute("CREATE TABLE _t_new (id INT)")
    store = CheckpointTable(db.name, "t")
    store.create(desk.session, a_record(db.name))
    assert "is not the one that an earlier run" in refusals(desk)[0]
    numbers = identity(desk.session, db.name, "_t_new")
    note_proofs(desk.session, db.name, "t", new=numbers)
    assert is_ours(*prepare(desk.session, desk.config("ADD c INT")))
    assert desk.before("ADD c INT") == ()
    db.execute("CREATE TABLE _t_old (id INT)")
    assert "_t_old exists" in refusals(desk)[0]


def test_a_checkpoint_that_is_none(db, desk):
    """A table that only has the checkpoint's name proves nothing."""
    db.execute("CREATE TABLE _t_chkpnt (id INT, record TEXT); CREATE TABLE _t_new (id INT)")
    assert not is_ours(*prepare(desk.session, desk.config("ADD c INT")))
    assert "2 checks" in refusals(desk)[0]


def test_a_check_whose_name_has_no_room_where_the_new_table_is_built_is_refused(db, desk):
    """That name is longer than those of the swap; error 1059 of the server's has no remedy."""
    name = "t_chk_".ljust(57, "x")
    db.execute(f"ALTER TABLE t ADD CONSTRAINT {name[:-1]} CHECK (a > -9)")
    assert desk.before("ADD c INT") == ()
    db.execute(f"ALTER TABLE t ADD CONSTRAINT {name} CHECK (a > -9)")
    assert f"{name} would get a name of more than 64" in refusals(desk)[0]


@pytest.mark.parametrize("name", ["_t_old_chk_1", "_T_NEW_CHK_1", "_t_new_chk_2"])
def test_a_name_that_a_check_gets_on_its_way_is_not_one_of_another_table(db, desk, name):
    """Names are unique in a schema: the swap, after the copy, would fail with error 3822."""
    db.execute("ALTER TABLE t ADD CHECK (a > -9), ADD CONSTRAINT t_a CHECK (a > -8)")
    db.execute("CREATE TABLE o (a INT, CONSTRAINT _t_old_chk_7 CHECK (a > 0))")
    assert len(desk.before("ADD c INT")) == 1
    db.execute(f"ALTER TABLE o ADD CONSTRAINT {name} CHECK (a > 0)")
    assert f"{name} of table o has a name that one of t gets" in refusals(desk)[0]


def test_a_check_that_loses_its_name_is_warned_of(db, desk):
    """A CHECK constraint that loses its name is a warning."""
    db.execute("ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0), ADD CHECK (a < 9)")
    (warning,) = desk.before("ADD c INT")
    assert "positive will be called _positive" in warning.cause


def test_too_little_disk_space_is_refused_where_it_is_known(db, desk, monkeypatch):
    """Too little free space is refused where it is known."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda facts: 100)
    assert "100 B free" in refusals(desk, "FORCE")[0]
    assert "100 B free" in after(desk, "ADD c INT")[0]
    monkeypatch.setattr(disk_space, "free_bytes", lambda facts: None)
    assert desk.before("ADD c INT") == ()
    monkeypatch.setattr(disk_space, "_SMALL", 1)
    (warning,) = desk.before("ADD c INT")
    assert "cannot be seen" in warning.cause


GIB = 1 << 30


def room_told(desk, monkeypatch, alter, *, free, binlog=None, logged=True):
    """Return what the disk check finds for a table t of 100 GiB of rows, and how grave that is."""
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: free)
    monkeypatch.setattr(disk_space, "free_for_binlog", lambda _: binlog)
    config = desk.config(alter, defer_indexes="off", no_shortcut=True)
    (context,) = prepare(desk.session, config)
    assert context.found is not None
    found = replace(context.found, estimated_rows=1 << 30, data_bytes=100 * GIB, index_bytes=0)
    connection = replace(context.config.connection, unlogged=not logged)
    config = replace(context.config, connection=connection)
    context = replace(context, found=found, config=config)
    return [(one.severity.value, one.cause) for one in disk_space.disk_space(context)]


def test_each_disk_has_its_own_part(db, desk, monkeypatch):
    """The binary log may have one, or not be written; the room of a DATA DIRECTORY is not known."""
    told = partial(room_told, desk, monkeypatch)
    ((severity, said),) = told("ADD c INT", free=150 * GIB)
    assert (severity, "100.0 GiB for the binary log" in said) == ("refusal", True)
    assert told("ADD c INT", free=150 * GIB, binlog=150 * GIB) == []
    ((severity, said),) = told("ADD c INT", free=150 * GIB, binlog=50 * GIB)
    assert (severity, "the disk of the binary log" in said) == ("refusal", True)
    assert told("ADD c INT", free=150 * GIB, logged=False) == []
    written = prepare(desk.session, desk.config("ADD c INT"))[0].source.create_sql
    monkeypatch.setattr(
        definition, "show_create", lambda *_: f"{written} DATA DIRECTORY = '/elsewhere/'"
    )
    ((severity, _),) = told("ADD c INT", free=50 * GIB)
    assert severity == "warning"
    # Nor is it right before the server's own rebuild.
    (context,) = prepare(desk.session, desk.config("ADD c INT", native=GIB))
    assert told("ADD c INT", free=1000)
    assert disk_space.lacking_room(context) is None


def test_pages_that_are_compressed_are_so_in_one_place_alone(db, desk, monkeypatch):
    """Rows are four times as large in the binary log, and in a new table that is not compressed."""
    db.execute("DROP TABLE t")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")
    told = partial(room_told, desk, monkeypatch)
    dynamic = "ROW_FORMAT=DYNAMIC, KEY_BLOCK_SIZE=0"
    for alter, table in (("ADD c INT", 100), (dynamic, 400)):
        ((_, said),) = told(alter, free=(table + 399) * GIB)
        assert f"{table}.0 GiB for the new table and 400.0 GiB for the binary log" in said
        assert told(alter, free=(table + 401) * GIB) == []


@pytest.mark.slow
def test_room_for_indexes_that_are_added_is_counted(db, desk, monkeypatch):
    """The rows alone have room; with the new index it is refused, and without one it is not."""
    db.execute(
        "INSERT INTO t (id) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 900) SELECT i FROM n"
    )
    db.execute("ANALYZE TABLE t")
    rows, indexes = likely_sizes(prepare(desk.session, desk.config("ADD c INT"))[0].source)
    monkeypatch.setattr(disk_space, "free_bytes", lambda facts: 2 * rows + indexes + 1)
    assert desk.after("ADD c INT")[1] == ()
    assert "with its new indexes" in after(desk, "ADD c INT, ADD INDEX (c)")[0]


def test_the_files_of_many_tables_are_found_by_one_query(db, desk, monkeypatch):
    """The server looks at all tablespaces for each; a table with partitions has several."""
    db.execute("CREATE TABLE t1 (id INT PRIMARY KEY)")
    db.execute("CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3")
    asked, query = list[str](), Session.query

    def noted(self, sql, *more):
        asked.append(sql)
        return query(self, sql, *more)

    monkeypatch.setattr(Session, "query", noted)
    names = ["t", "t1", "p", "absent"]
    statement = "; ".join(f"ALTER TABLE `{db.name}`.`{name}` ADD c INT" for name in names)
    asking = replace(desk.config("ADD c INT"), statement=statement, alter="", table="")
    found = [context.found for context in prepare(desk.session, asking)]
    assert [one and one.files for one in found] == [1, 1, 3, None]
    assert all(one.file_bytes >= 3 * 16_384 for one in found if one)
    assert sum("INNODB_TABLESPACES" in sql for sql in asked) == 1


def test_a_large_old_table_and_the_adaptive_hash_index_are_warned_of(db, desk, monkeypatch):
    """Its drop would hold up everyone who opens a table; not where it is left to the operator."""
    monkeypatch.setattr(server_settings, "_LARGE_TO_DROP", 1)
    db.execute("ANALYZE TABLE t")
    db.set_global("innodb_adaptive_hash_index", "ON")
    (warning,) = desk.before("ADD c INT")
    assert "innodb_adaptive_hash_index is ON" in warning.cause
    assert desk.before("ADD c INT", drop_old_after=math.inf) == ()
    db.set_global("innodb_adaptive_hash_index", "OFF")
    assert desk.before("ADD c INT") == ()


def test_a_key_of_parts_of_values_tells_no_rows_apart(db, desk):
    """The remedy is no second primary key."""
    db.execute("DROP TABLE t; CREATE TABLE t (b VARBINARY(99), a INT, PRIMARY KEY (b(20)))")
    said = refusals(desk)
    assert "cannot be told apart" in said[0]
    assert "whole columns natively first: PRIMARY has parts" in said[1]


@pytest.mark.slow
def test_replicas_that_may_not_take_the_new_table_without_a_key_are_warned_of(
    db, desk, monkeypatch
):
    """Only where there are some, the table has no key, and the server asks for one."""
    monkeypatch.setattr(server_settings, "known_replicas", lambda _: ["one"])
    db.set_global("sql_require_primary_key", "ON")
    assert desk.before("ADD c INT") == ()
    db.execute("ALTER TABLE t ADD UNIQUE (id), DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)")
    db.execute("SET SESSION sql_require_primary_key = OFF; ALTER TABLE t DROP PRIMARY KEY")
    (warning,) = desk.before("ADD PRIMARY KEY (id)")
    assert "REQUIRE_TABLE_PRIMARY_KEY_CHECK = ON stops at it" in warning.cause
    db.set_global("sql_require_primary_key", "OFF")
    assert desk.before("ADD PRIMARY KEY (id)") == ()
    db.set_global("sql_require_primary_key", "ON")
    monkeypatch.setattr(server_settings, "known_replicas", lambda _: [])
    assert desk.before("ADD PRIMARY KEY (id)") == ()


def test_an_old_table_that_is_kept_for_longer_than_asked_is_said(desk):
    """It follows for ``--keep-old-current``, and is not dropped before."""
    (warning,) = desk.before("ADD c INT", drop_old_after=3600.0, keep_old_current=7200.0)
    assert "--drop-old-after (1h00m) is shorter than --keep-old-current" in warning.cause
    assert desk.before("ADD c INT", drop_old_after=9000.0, keep_old_current=7200.0) == ()
    assert desk.before("ADD c INT", keep_old_current=7200.0) == ()


@pytest.mark.parametrize("way", ["keep_old_current", "drop_old_after"])
def test_the_name_that_a_revert_needs_is_looked_at_beforehand(db, desk, way):
    """The table that it swaps out gets it: days later it would be refused."""
    db.execute("CREATE TABLE _t_undone (id INT)")
    with pytest.raises(Refusal, match="_t_undone exists: a revert needs the name"):
        desk.before("ADD c INT", **{way: 3600.0})
    assert desk.before("ADD c INT") == ()


LISTED = "PARTITION BY LIST (id) (PARTITION p VALUES IN (1))"
RANGES = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN ({}), PARTITION q VALUES LESS THAN"


@pytest.mark.parametrize(
    ("table", "alter", "refused", "warned"),
    [
        ("b INT NOT NULL DEFAULT 0, CHECK (b <> 0)", "DROP b", "'t_chk_1' is violated", ""),
        ("b INT NOT NULL DEFAULT 0, CHECK (b >= 0)", "DROP b", "", ""),
        ("b INT DEFAULT 0, CHECK (b <> 0) NOT ENFORCED", "DROP b", "", ""),
        ("b INT, CHECK (b IS NOT NULL)", "DROP b", "'t_chk_1' is violated", ""),
        ("b INT, c INT AS (b) STORED NOT NULL", "DROP b, DROP c", "'c' cannot be null", ""),
        ("b INT DEFAULT 3, c INT DEFAULT (b), CONSTRAINT x CHECK (b <> c)",
         "DROP b, DROP c, DROP CHECK x", "'x' is violated", ""),
        ("b INT DEFAULT (a), CONSTRAINT x CHECK (b < 9)", "DROP b", "", ""),
        ("b INT, CONSTRAINT x CHECK (a < b)", "DROP b, DROP CONSTRAINT x", "", "CHECK x ((`a` <"),
        ("CONSTRAINT x CHECK (a < 9)", "ALTER CHECK x NOT ENFORCED", "", "CHECK x ((`a` < 9))"),
        (f") {LISTED}", "REMOVE PARTITIONING", "", "into none of them"),
        (f") {RANGES.format(3)} (9))", "PARTITION BY KEY ()", "", "into none of them"),
        (f") {RANGES.format(3)} MAXVALUE)", "REMOVE PARTITIONING", "", ""),
    ],
)  # fmt: skip
def test_what_an_old_table_will_not_take_is_said_beforehand(
    db, desk, table, alter, refused, warned
):
    """Its CHECKs and partitions stay, and dropped columns have their defaults in new rows."""
    end = "" if table.startswith(")") else ")"
    comma = "" if table.startswith(")") else ", "
    db.execute(f"DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT{comma}{table}{end}")
    (context,) = prepare(desk.session, desk.config(alter, keep_old_current=60.0))
    target = desk.create(alter)
    if refused:
        with pytest.raises(Refusal, match=f"the old table refuses it: .*{refused}") as found:
            check_after_create(context, target)
        assert found.value.error_code is ErrorCode.REVERSE_NOT_POSSIBLE
    else:
        causes = [one.cause for one in check_after_create(context, target)[1]]
        assert len(causes) == bool(warned)
        assert warned in "".join(causes)
    later = replace(context, config=desk.config(alter, drop_old_after=60.0))
    causes = [one.cause for one in check_after_create(later, target)[1]]
    assert ["spirit-py revert will not be possible: " in one for one in causes] == [True] * bool(
        refused
    )
    unasked = replace(context, config=desk.config(alter))
    assert check_after_create(unasked, target)[1] == ()


def test_little_room_for_sorting_indexes_is_said(db, desk, monkeypatch):
    """Deferred indexes are sorted in files of their size, which may have a disk of their own."""
    db.execute("ALTER TABLE t ADD INDEX sorted (a)")
    db.execute("ANALYZE TABLE t")
    monkeypatch.setattr(disk_space, "free_bytes", lambda facts: 3 << 14)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    (warning,) = desk.before("ADD c INT")
    assert "sorted in files" in warning.cause
    assert "innodb_tmpdir" in warning.remedy


def test_free_space_of_another_machine_is_not_judged(desk):
    """A data directory that is not on this machine, or is another server's, says nothing."""
    assert disk_space.free_bytes(facts_with(desk, datadir="/nonesuch")) is None
    assert disk_space.free_bytes(facts_with(desk, server_uuid="another")) is None


def test_two_statements_for_one_table_are_refused(desk):
    """Two statements may not change the same table: the second one's start is not clear."""
    config = MigrationConfig(
        connection=desk.options,
        database=desk.schema,
        statement="ALTER TABLE t ADD c INT; ALTER TABLE t ADD d INT",
    )
    with pytest.raises(Refusal, match="changed by two statements"):
        prepare(desk.session, config)


def test_sql_mode_of_the_server_reads_the_statement(db, desk):
    """A double quote is read as the server's sql_mode says."""
    db.set_global("sql_mode", "ANSI_QUOTES")
    (context,) = prepare(desk.session, desk.config('DROP COLUMN "a"'))
    assert context.statement.dropped == {"a"}
    assert check_before_create([context]) == ()


ALL = (
    "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
    " CREATE TEMPORARY TABLES ON {db}.*"
)
GLOBAL = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, CONNECTION_ADMIN ON *.*"
SEEN = "SELECT ON performance_schema.*"


def findings_of(desk, options, **config) -> list[str]:
    """Run the first checks as an make_account; give its lines."""
    with connect(options, database=desk.schema, role="driver") as session:
        (context,) = prepare(session, desk.config("ADD c INT", **config))
        try:
            return [warning.cause for warning in check_before_create([context])]
        except Refusal as error:
            return [error.message, error.hint, *error.details]


@pytest.fixture
def user(db):
    """Yield an make_account's name; the make_account is dropped afterwards."""
    name = f"u_{db.name[-10:]}"
    yield name
    db.execute(f"DROP USER IF EXISTS {name}; DROP ROLE IF EXISTS r_{name}")


@pytest.mark.gtid
def test_all_privileges_that_are_asked_for(db, desk, user):
    """The listed grants are enough to pass."""
    assert findings_of(desk, make_account(db, user, ALL, GLOBAL, SEEN)) == []


@pytest.mark.parametrize(
    "privilege",
    [
        *("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER"),
        *("LOCK TABLES", "CREATE TEMPORARY TABLES"),
    ],
)
def test_a_privilege_missing_on_the_schema_is_named_with_its_grant(db, desk, user, privilege):
    """A privilege that is missing on the schema is named with the GRANT that gives it."""
    kept = ALL.replace(f"{privilege},", "").replace(f", {privilege} ON", " ON")
    assert privilege not in kept.split(" ON ")[0].split(", ")
    text = "\n".join(findings_of(desk, make_account(db, user, kept, GLOBAL, SEEN)))
    assert f"lacks {privilege} on `{db.name}`.*" in text
    assert f"GRANT {privilege}, " in text
    assert f" ON {granted(db.name)} TO `{user}`@`%`;" in text


@pytest.mark.parametrize("privilege", ["REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS"])
def test_a_missing_global_privilege_is_named_with_its_grant(db, desk, user, privilege):
    """A global privilege that is missing is named with the GRANT that gives it."""
    kept = GLOBAL.replace(f"{privilege}, ", "")
    text = "\n".join(findings_of(desk, make_account(db, user, ALL, kept, SEEN)))
    assert f"lacks {privilege} on *.*" in text
    assert f"GRANT {privilege} ON *.* TO `{user}`@`%`;" in text


def test_all_missing_grants_come_as_one_block(db, desk, user):
    """An operator pastes one line, whatever is missing, in whichever scope."""
    kept, rest = ALL.replace("INSERT, DELETE, ", ""), GLOBAL.replace("PROCESS, ", "")
    message, hint = findings_of(desk, make_account(db, user, kept, rest, SEEN))
    assert f"lacks INSERT, DELETE on `{db.name}`.*; PROCESS on *.*" in message
    assert hint == (
        f"GRANT INSERT, DELETE, ALTER, CREATE, CREATE TEMPORARY TABLES, DROP, INDEX, LOCK TABLES,"
        f" SELECT, TRIGGER ON {granted(db.name)} TO `{user}`@`%`;"
        f" GRANT PROCESS ON *.* TO `{user}`@`%`;"
    )


@pytest.mark.gtid
def test_limits_of_the_account_that_a_run_may_meet_are_warned_of(db, desk, user):
    """It would end in the middle with error 1226; a comment names none, and many sessions do."""
    account = make_account(db, user, ALL, GLOBAL, SEEN)
    db.execute(f"ALTER USER {user} WITH MAX_USER_CONNECTIONS 500 COMMENT 'MAX_QUERIES_PER_HOUR 9'")
    assert findings_of(desk, account) == []
    db.execute(
        f"ALTER USER {user} WITH MAX_QUERIES_PER_HOUR 7000 MAX_UPDATES_PER_HOUR 3000"
        " MAX_CONNECTIONS_PER_HOUR 900 MAX_USER_CONNECTIONS 20"
    )
    (warning,) = findings_of(desk, account)
    assert (
        "(MAX_QUERIES_PER_HOUR 7000, MAX_UPDATES_PER_HOUR 3000, MAX_CONNECTIONS_PER_HOUR 900,"
        " MAX_USER_CONNECTIONS 20)"
    ) in warning
    db.execute(
        f"ALTER USER {user} WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0"
        " MAX_CONNECTIONS_PER_HOUR 0 MAX_USER_CONNECTIONS 0"
    )
    db.set_global("max_user_connections", 15)
    (warning,) = findings_of(desk, account)
    assert "max_user_connections is 15: " in warning


OPTIONAL = {
    "XA_RECOVER_ADMIN": "XA_RECOVER_ADMIN: the change feed cannot see which transactions",
    "SEEN": "SELECT on `performance_schema`.*: index builds show no progress",
}


@pytest.mark.gtid
def test_a_missing_connection_admin_is_warned_of_where_it_is_needed(db, desk, user):
    """R23: only --kill-blockers needs it, and that is said before the copy."""
    kept = GLOBAL.replace(", CONNECTION_ADMIN", "")
    account = make_account(db, user, ALL, kept, SEEN)
    assert findings_of(desk, account) == []
    for mode in ("idle", "all"):
        (warning,) = findings_of(desk, account, kill_blockers=mode)
        assert "lacks CONNECTION_ADMIN" in warning
    db.execute("CREATE PROCEDURE mysql.rds_kill(IN thread BIGINT) DO thread")
    hours = "'binlog retention hours', 72"
    db.execute(f"CREATE PROCEDURE mysql.rds_show_configuration() SELECT {hours}")
    try:
        # On RDS nobody can grant that privilege.
        db.execute(f"GRANT EXECUTE ON PROCEDURE mysql.rds_show_configuration TO {user}")
        with connect(account, database=desk.schema, role="driver") as session:
            (context,) = prepare(session, desk.config("ADD c INT", kill_blockers="idle"))
            found = check_before_create([context])
        (needed,) = [one.remedy for one in found if one.check == "blockers"]
        assert needed == f"GRANT EXECUTE ON PROCEDURE mysql.rds_kill TO `{user}`@`%`;"
        db.execute(needed)
        assert findings_of(desk, account, kill_blockers="idle") == []
    finally:
        db.execute("DROP PROCEDURE mysql.rds_kill; DROP PROCEDURE mysql.rds_show_configuration")


@pytest.mark.gtid
def test_metadata_locks_that_cannot_be_seen_are_warned_of(db, desk):
    """R23: what is lost is said before the copy; no instrument is enabled for it."""
    switch = (
        "UPDATE performance_schema.setup_instruments SET ENABLED = '{}'"
        " WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    )
    db.execute(switch.format("NO"))
    try:
        (plain,) = findings_of(desk, desk.options)
        (killing,) = findings_of(desk, desk.options, kill_blockers="all")
    finally:
        db.execute(switch.format("YES"))
    assert "wait/lock/metadata/sql/mdl is disabled" in plain
    assert "--kill-blockers kills no session" in killing


@pytest.mark.gtid
@pytest.mark.parametrize("missing", list(OPTIONAL))
def test_a_privilege_that_a_migration_can_do_without_is_a_warning(db, desk, user, missing):
    """It says what is lost; without performance_schema the view of locks is lost too."""
    held = GLOBAL.replace(f"{missing}, ", "").replace(f", {missing}", "")
    seen = () if missing == "SEEN" else (SEEN,)
    warning, *more = sorted(findings_of(desk, make_account(db, user, ALL, held, *seen)))
    assert f"lacks {OPTIONAL[missing]}" in warning
    assert [line[:14] for line in more] == ["metadata locks"] * (missing == "SEEN")


@pytest.mark.gtid
def test_privileges_of_an_active_role_count(db, desk, user):
    """Privileges of an active role count; those of an inactive one are hinted at."""
    db.execute(f"CREATE ROLE r_{user}")
    for grant in (ALL, GLOBAL, SEEN):
        db.execute(f"GRANT {grant.format(db=f'`{db.name}`')} TO r_{user}")
    options = make_account(db, user)
    db.execute(f"GRANT r_{user} TO {user}; SET DEFAULT ROLE r_{user} TO {user}")
    assert findings_of(desk, options) == []
    db.execute(f"SET DEFAULT ROLE NONE TO {user}; GRANT SELECT ON `{db.name}`.* TO {user}")
    assert "SET DEFAULT ROLE" in "\n".join(findings_of(desk, options))


@pytest.mark.gtid
def test_grants_on_the_table_alone_are_not_enough(db, desk, user):
    """Grants on the table alone do not reach the tables beside it."""
    on_table = "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER ON {db}."
    names = ("t", "_t_new", "_t_old", "_t_chkpnt", "_t_ctl", "_t_snt")
    rest = ("LOCK TABLES, CREATE TEMPORARY TABLES ON {db}.*", GLOBAL, SEEN)
    text = "\n".join(findings_of(desk, make_account(db, user, on_table + "t", *rest)))
    assert "INSERT, DELETE, CREATE, DROP" in text
    each = [on_table + name for name in names]
    account = make_account(db, user, *each, *rest)
    found = findings_of(desk, account)
    assert "lacks CREATE, DROP, ALTER on `" in found[0]
    db.execute(f"GRANT CREATE, DROP, ALTER ON `{db.name}`.* TO {user}")
    assert findings_of(desk, account) == []


@pytest.mark.gtid
def test_an_old_table_that_keeps_dropped_values_is_updated(db, desk, user):
    """The GRANT that is named is enough; nothing else asks for UPDATE."""
    account = make_account(db, user, ALL, GLOBAL, SEEN)
    with connect(account, role="test") as session:
        db.execute("ALTER TABLE t ADD g INT AS (a + 1)")
        for alter, kept in (("DROP b", 0.0), ("ADD c INT", 60.0), ("DROP g, FORCE", 60.0)):
            plain = prepare(session, desk.config(alter, keep_old_current=kept))
            assert check_before_create(plain) == ()
        config = desk.config("DROP b", keep_old_current=60.0)
        with pytest.raises(Refusal, match="lacks UPDATE") as refused:
            check_before_create(prepare(session, config))
    assert refused.value.hint.startswith("GRANT UPDATE, ")
    db.execute(refused.value.hint)
    with connect(account, role="test") as session:
        assert check_before_create(prepare(session, config)) == ()


@pytest.mark.gtid
def test_own_writes_need_the_right_to_number_transactions(db, desk, user):
    """--tag-own-writes: the smallest privilege is named, the copy goes on without the option."""
    with connect(make_account(db, user, ALL, GLOBAL, SEEN), role="test") as session:
        config = desk.config("ADD c INT", feed=FeedOptions(own_writes=new_run()))
        with pytest.raises(Refusal, match="lacks REPLICATION_APPLIER") as refused:
            check_before_create(prepare(session, config))
    assert "leave --tag-own-writes out" in refused.value.hint
    allowed = make_account(db, user, ALL, GLOBAL, SEEN, "REPLICATION_APPLIER ON *.*")
    with connect(allowed, role="test") as session:
        assert check_before_create(prepare(session, config)) == ()


def test_own_writes_need_gtids(db_file):
    """--tag-own-writes: without GTIDs nothing can be marked as received."""
    db_file.execute(TABLE)
    with open_schema_tools(db_file) as desk:
        feed = FeedOptions(own_writes=new_run())
        assert "gtid_mode=ON" in refusals(desk, feed=feed)[0]


def passing(db, *names) -> FeedOptions:
    """Vouch for tables of the test's schema."""
    return FeedOptions(passable=tuple((db.name, name) for name in names))


@pytest.mark.parametrize("name", ["t", "_t_new", "_t_old", "_t_chkpnt", "_t_snt", "_t_undone"])
def test_a_migrated_table_cannot_be_passed_over(db, desk, name):
    """R13: its rows must be known; nor for a table beside it."""
    message, hint, *_ = refusals(desk, feed=passing(db, "other", name))
    assert f"--pass-statement-writes {db.name}.{name}: a write to it is one to" in message
    assert "binlog_format=ROW" in hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("INSERT INTO t (a) VALUES (NEW.id)", True),
        ("UPDATE `t` SET a = 1", True),
        ("SET @a = 't /* t */' -- t", False),
        ("/* t */ INSERT INTO t2 VALUES (1)", False),
        ("SET @a = 1 /*M! INSERT INTO t2 VALUES (1) */", True),
    ],
)
def test_a_table_whose_trigger_names_a_migrated_one_may_not_be_passed(db, desk, body, refused):
    """R13: rows that a trigger writes in STATEMENT format are nowhere; a view hides no table."""
    db.execute("CREATE TABLE other (id INT)")
    db.execute("CREATE TABLE t2 (id INT)")
    db.execute("CREATE VIEW v AS SELECT * FROM other")
    db.execute("CREATE VIEW w AS SELECT v.id FROM v, t")
    assert desk.before("ADD c INT", feed=passing(db, "other", "v")) == ()
    assert "is one to" in refusals(desk, feed=passing(db, "w"))[0]
    db.execute(f"CREATE TRIGGER tr BEFORE INSERT ON other FOR EACH ROW {body}")
    for name in ("other", "v"):
        if refused:
            message, *_ = refusals(desk, feed=passing(db, name))
            assert f"the trigger tr of {db.name}.other names a migrated table" in message
        else:
            assert desk.before("ADD c INT", feed=passing(db, name)) == ()


@pytest.mark.gtid
def test_triggers_that_the_account_may_not_see_are_the_operator_s_word(db, desk, user):
    """R13: the option needs no grant on other schemas; what was not looked at is said."""
    feed = FeedOptions(passable=(("percona", "checksums"),))
    with connect(make_account(db, user, ALL, GLOBAL, SEEN), role="test") as session:
        (warning,) = check_before_create(prepare(session, desk.config("ADD c INT", feed=feed)))
    assert "may not see its triggers" in warning.cause


def test_reload_is_not_needed_without_gtids(db_file):
    """A commit of the feed's own proves its start, instead of FLUSH BINARY LOGS (R2)."""
    db_file.execute(TABLE)
    db_file.set_global("sync_binlog", 1)
    db_file.set_global("innodb_flush_log_at_trx_commit", 1)
    name = f"u_{db_file.name[-10:]}"
    try:
        with open_schema_tools(db_file) as desk:
            assert findings_of(desk, make_account(db_file, name, ALL, GLOBAL, SEEN)) == []
    finally:
        db_file.execute(f"DROP USER IF EXISTS {name}")


def test_a_prepared_xa_transaction_is_a_warning(db, desk):
    """A prepared and undecided XA transaction is a warning."""
    other = db.connect()
    other.query("XA START 'x'")
    other.query("INSERT INTO t (a) VALUES (1)")
    other.query("XA END 'x'")
    other.query("XA PREPARE 'x'")
    (warning,) = desk.before("ADD c INT")
    assert "1 XA transactions are prepared" in warning.cause
    other.query("XA ROLLBACK 'x'")


DOCUMENTS = (
    "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, FTS_DOC_ID BIGINT UNSIGNED NOT NULL,"
    " b VARCHAR(50), UNIQUE KEY FTS_DOC_ID_INDEX (FTS_DOC_ID), FULLTEXT KEY b (b))"
)


def after(desk, alter) -> list[str]:
    """Run the checks on the new table; return the lines of the refusal."""
    with pytest.raises(Refusal) as refused:
        desk.after(alter)
    return [refused.value.message, refused.value.hint, *refused.value.details]


DUPLICATES = [
    ("(a INT)", "(1), (2), (2), (NULL), (NULL)", "ADD UNIQUE (a)", "a=2 in 2 rows"),
    ("(a INT, b INT)", "(1, 2), (1, 3), (1, 3)", "ADD UNIQUE (a, b)", "a=1, b=3 in 2 rows"),
    ("(a VARCHAR(9))", "('x'), ('X')", "ADD UNIQUE (a)", "in 2 rows"),
    ("(a VARCHAR(9))", "('abc'), ('abd')", "ADD UNIQUE (a(2))", "a='ab' in 2 rows"),
    ("(a VARCHAR(9))", "('x'), ('y'), ('Y')", "ADD UNIQUE ((lower(a)))", "='y' in 2 rows"),
    ("(a INT, b INT, UNIQUE u (a, b))", "(1, 1), (1, 2)", "DROP b", "a=1 in 2 rows"),
    (
        "(a VARCHAR(9) COLLATE utf8mb4_bin UNIQUE)",
        "('x'), ('X')",
        "MODIFY a VARCHAR(9) COLLATE utf8mb4_general_ci",
        "in 2 rows",
    ),
    (
        "(a VARCHAR(9) COLLATE utf8mb4_0900_bin UNIQUE)",
        "('x'), ('x ')",
        "MODIFY a VARCHAR(9) COLLATE utf8mb4_bin",
        "in 2 rows",
    ),
    (
        "(a VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin UNIQUE)",
        "('\u00e9'), ('e')",
        "CONVERT TO CHARACTER SET utf8mb4",
        "in 2 rows",
    ),
    ("(a VARCHAR(9) UNIQUE)", "('1'), ('01')", "MODIFY a INT", "a=1 in 2 rows"),
    ("(a DECIMAL(5,2) UNIQUE)", "(1.04), (1.01)", "MODIFY a DECIMAL(5,1)", "a='1.0' in 2 rows"),
    (
        "(a DATETIME(3) UNIQUE)",
        "('2024-01-01 00:00:00.1'), ('2024-01-01 00:00:00.2')",
        "MODIFY a DATETIME",
        "in 2 rows",
    ),
    ("(a VARBINARY(9) UNIQUE)", "(X'61'), (X'6100')", "MODIFY a BINARY(9)", "X'61"),
    (
        "(a JSON)",
        "('[1, 2]'), ('[2, 3]'), ('4'), ('[5, 5]')",
        "ADD UNIQUE ((CAST(a AS UNSIGNED ARRAY)))",
        "=2 in 2 rows",
    ),
    ("(a INT)", "(1), (2)", "ADD c INT NOT NULL, ADD UNIQUE (c)", "c=0 in 2 rows"),
    ("(a INT)", "(1), (2)", "ADD c INT DEFAULT 7, ADD UNIQUE (c)", "in 2 rows"),
    ("(a INT)", "(1), (2)", "ADD c INT AS (a DIV 3), ADD UNIQUE (c)", "c=0 in 2 rows"),
    (
        "(a INT NOT NULL)",
        "(1), (1)",
        "MODIFY id INT NOT NULL UNIQUE, DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
        "a=1 in 2 rows",
    ),
]


#: Names that the program's statements give to tables and columns of their own.
OUR_NAMES = [
    ("(n INT, k0 INT)", "(7, 1), (0, 1), (0, 1)", "ADD UNIQUE (n)", "n=0 in 2 rows"),
    ("(n INT, k0 INT)", "(0, 1), (1, 1), (1, 2)", "ADD UNIQUE (k0)", "k0=1 in 2 rows"),
    ("(k0 INT, k1 INT)", "(1, 2), (3, 2)", "ADD UNIQUE (k1)", "k1=2 in 2 rows"),
    ("(k1 INT, n INT)", "(1, 2), (1, 2), (2, 1)", "ADD UNIQUE ((n + 1), k1)", "k1=1 in 2 rows"),
    ("(d INT, m0 INT)", "(5, 1), (5, 2)", "ADD UNIQUE (d)", "d=5 in 2 rows"),
    (
        "(j JSON, v INT, m0 INT)",
        "('[1]', 5, 1), ('[1, 2]', 5, 1), ('[1]', 6, 1)",
        "ADD UNIQUE ((CAST(j AS UNSIGNED ARRAY)), (v + 1))",
        "=6 in 2 rows",
    ),
    (
        "(_spirit_py_element JSON, _spirit_py_rows INT)",
        "('[1]', 5), ('[1, 2]', 5)",
        "ADD UNIQUE ((CAST(_spirit_py_element AS UNSIGNED ARRAY)), (_spirit_py_rows + 1))",
        "=6 in 2 rows",
    ),
]


@pytest.mark.parametrize(("columns", "rows", "alter", "example"), [*DUPLICATES, *OUR_NAMES])
def test_duplicates_of_a_new_key_are_named_before_the_copy(db, desk, columns, rows, alter, example):
    """Rows that a new UNIQUE key takes for equal are named before the copy."""
    db.execute("DROP TABLE t")
    db.execute(f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {columns[1:]}")
    names = ", ".join(row[0] for row in db.query("SHOW COLUMNS FROM t") if row[0] != "id")
    db.execute(f"INSERT INTO t ({names}) VALUES {rows}")
    message, hint, *details = after(desk, alter)
    assert "meets duplicates" in message
    assert hint
    assert any(example in line for line in details), details
    assert len(details) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "rows", "alter"),
    [
        ("(a INT)", "(1), (2), (NULL), (NULL)", "ADD UNIQUE (a)"),
        ("(a VARCHAR(9))", "('x'), ('X')", "ADD UNIQUE ((CAST(a AS BINARY(9))))"),
        ("(a INT)", "(1), (1)", "ADD UNIQUE (a, id)"),
        ("(a INT)", "(1), (1)", "ADD c INT, ADD UNIQUE (c)"),
        (
            "(a JSON)",
            "('[5, 5]'), ('[6]'), ('[]'), (NULL)",
            "ADD UNIQUE ((CAST(a AS UNSIGNED ARRAY)))",
        ),
        ("(a VARCHAR(9) UNIQUE)", "('x'), ('y')", "CONVERT TO CHARACTER SET latin1"),
        ("(a INT, n INT DEFAULT 7)", "(1), (2)", "ADD UNIQUE (a)"),
        ("(a INT, k0 INT DEFAULT 7)", "(1), (2)", "ADD UNIQUE (a)"),
    ],
)
def test_rows_that_the_new_key_can_hold_are_not_refused(db, desk, columns, rows, alter):
    """Rows that the new key can hold together are not refused."""
    db.execute("DROP TABLE t")
    db.execute(f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {columns[1:]}")
    db.execute(f"INSERT INTO t (a) VALUES {rows}")
    mapping, _ = desk.after(alter)
    assert mapping.key.name == "PRIMARY"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a INT, KEY k (a, id)", "i"),
        ("a INT, KEY k (a DESC)", "i"),
        ("a VARCHAR(20), KEY k (a, id)", "CONCAT(IF(id % 2, 'x', 'X'), LPAD(i, 3, 0))"),
        ("a DATETIME(3), KEY k (a)", "'2024-01-01' + INTERVAL i SECOND"),
        ("a DECIMAL(9, 2), KEY k (a)", "i / 2"),
        ("a VARBINARY(9), KEY k (a)", "LPAD(i, 5, 0)"),
    ],
)
def test_ranges_of_an_index_find_every_duplicate_once(db, desk, monkeypatch, column, value):
    """Short statements find every duplicate once, wherever it is, beside NULLs and frequent values.

    A range holds all rows of a value, also where these are more than its size.
    """
    monkeypatch.setattr(duplicates, "RANGE_ROWS", 4)
    db.execute(f"DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {column})")
    db.execute(
        "INSERT INTO t (id) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 50) SELECT i FROM n"
    )
    places = "CASE WHEN id <= 5 THEN NULL WHEN id BETWEEN 20 AND 24 THEN 20 WHEN id = 50 THEN 49"
    db.execute(
        f"UPDATE t JOIN (SELECT id AS n, {places} ELSE id END AS i FROM t) q ON q.n = t.id"
        f" SET a = {value}"
    )
    db.execute("ANALYZE TABLE t")
    (context,) = prepare(desk.session, desk.config("ADD UNIQUE u (a)"))
    mapping = mapping_of(context, desk.create("ADD UNIQUE u (a)"))
    (index,) = mapping.tightened
    looked: list[int] = []
    hashed: list[int] = []
    found = duplicates.duplicates_for(
        desk.session, mapping, index, seen=looked.append, hashing=hashed.append
    )
    assert sorted(each.rows for each in found) == [2, 5]
    assert len(looked) > 8
    assert not hashed
    walked = duplicates.duplicates_for(desk.session, mapping, index, limit=1)
    assert len(walked) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "alter", "value"),
    [
        ("a INT", "ADD UNIQUE u (a)", "i DIV 3"),
        ("a DOUBLE", "ADD UNIQUE u (a)", "IF(i % 2, -1e0, 1e0) * (i DIV 25) / 7"),
        ("a VARCHAR(20)", "ADD UNIQUE u (a)", "CONCAT(IF(i % 2, 'é', 'E'), i DIV 2)"),
        (
            "a VARCHAR(20) COLLATE utf8mb4_bin",
            "ADD UNIQUE u (a)",
            "CONCAT(i DIV 2, IF(i % 2, ' ', ''))",
        ),
        ("a VARCHAR(20)", "ADD UNIQUE u (a)", "CONCAT(i DIV 2, IF(i % 2, ' ', ''))"),
        ("a TEXT", "ADD UNIQUE u (a(3))", "CONCAT(100 + i DIV 4, i)"),
        ("a BLOB", "ADD UNIQUE u (a(3))", "CONCAT(100 + i DIV 4, i)"),
        ("a VARCHAR(20)", "ADD UNIQUE u ((LOWER(a)))", "CONCAT(IF(i % 2, 'a', 'A'), i DIV 2)"),
        ("a JSON", "ADD UNIQUE u ((CAST(a AS UNSIGNED ARRAY)))", "JSON_ARRAY(i, i + 20, i)"),
        ("a ENUM('x','y','z'), b BIT(3)", "ADD UNIQUE u (a, b)", "1 + i % 3"),
        ("a TIMESTAMP NULL", "ADD UNIQUE u (a)", "'2026-03-01' + INTERVAL i DIV 2 HOUR"),
        ("a VARCHAR(20)", "MODIFY a INT, ADD UNIQUE u (a)", "CONCAT('0', i DIV 2)"),
        ("a VARCHAR(20)", "MODIFY a INT, ADD UNIQUE u (a)", "CONCAT('no', i)"),
    ],
)
def test_hashes_find_what_one_statement_finds(db, desk, monkeypatch, column, alter, value):
    """Without an index short statements find what one statement over the whole table finds."""
    monkeypatch.setattr(duplicates, "RANGE_ROWS", 7)
    db.execute(
        f"DROP TABLE t; CREATE TABLE t (k VARCHAR(9), id INT, {column}, PRIMARY KEY (k, id DESC))"
    )
    db.execute(
        "INSERT INTO t (k, id, a) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < 50) SELECT i % 4, i, IF(i IN (10, 11), NULL, {value}) FROM n"
    )
    if "BIT" in column:
        db.execute("UPDATE t SET b = id % 5")
    desk.session.execute("SET SESSION sql_require_primary_key = ON")
    (context,) = prepare(desk.session, desk.config(alter))
    mapping = mapping_of(context, desk.create(alter))
    (index,) = mapping.tightened
    looked: list[int] = []
    found = duplicates.duplicates_for(desk.session, mapping, index, 100, seen=looked.append)
    wanted = desk.session.query(duplicates.duplicates_sql(mapping, index, 100))
    assert sorted((str(one.values[-1]).lower(), one.rows) for one in found) == sorted(
        (str(row[-2]).lower(), int(row[-1])) for row in wanted
    )
    assert len(looked) >= 50 // 7 + 2


def test_a_search_takes_no_more_room_than_is_known_before(db, desk, monkeypatch):
    """An index with few values is not walked, since one statement would group most of the table."""
    monkeypatch.setattr(duplicates, "RANGE_ROWS", 20)
    db.execute("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY few (a))")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 90) SELECT i, i % 2, i FROM n"
    )
    db.execute("ANALYZE TABLE t")
    (context,) = prepare(desk.session, desk.config("ADD UNIQUE u (a, b)"))
    mapping = mapping_of(context, desk.create("ADD UNIQUE u (a, b)"))
    (index,) = mapping.tightened
    looked: list[int] = []
    assert duplicates.duplicates_for(desk.session, mapping, index, seen=looked.append) == ()
    assert len(looked) > 90 // 20
    assert duplicates.search_room(desk.session, mapping) >= 90 * 100


def test_one_frequent_value_is_searched_in_short_statements_too(db, desk, monkeypatch):
    """No statement groups its rows, whatever the mean is; the room is counted when it is met."""
    monkeypatch.setattr(duplicates, "RANGE_ROWS", 20)
    db.execute("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY k (a))")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 200) SELECT i, IF(i BETWEEN 50 AND 179, 70, i), i DIV 2 FROM n"
    )
    db.execute("ANALYZE TABLE t")
    (context,) = prepare(desk.session, desk.config("ADD UNIQUE u (a, b)"))
    mapping = mapping_of(context, desk.create("ADD UNIQUE u (a, b)"))
    (index,) = mapping.tightened
    looked: list[int] = []
    hashed: list[int] = []
    found = duplicates.duplicates_for(
        desk.session, mapping, index, 500, seen=looked.append, hashing=hashed.append
    )
    assert len(found) == 65
    assert len(looked) >= 2 * (200 // 20)
    assert duplicates.search_room(desk.session, mapping) == 0
    (room,) = hashed
    assert room >= 90 * 200
    monkeypatch.setattr(duplicates_check, "free_bytes", lambda _: 10)
    with pytest.raises(Refusal, match="in a temporary tablespace, and the server has 10 B free"):
        check_after_create(context, mapping.target)


@pytest.mark.slow
def test_a_search_without_room_is_refused_before_it_begins(db, desk, monkeypatch):
    """No statement fills the server's disk; where its room is not known, a warning has the size."""
    db.execute("INSERT INTO t (a) VALUES (1), (1)")
    db.execute("ANALYZE TABLE t")
    monkeypatch.setattr(duplicates_check, "free_bytes", lambda _: 10)
    with pytest.raises(Refusal, match="in a temporary tablespace, and the server has 10 B free"):
        desk.after("ADD UNIQUE u (a)")
    monkeypatch.setattr(duplicates_check, "free_bytes", lambda _: None)
    monkeypatch.setattr(duplicates_check, "_LARGE", 1)
    db.execute("DELETE FROM t LIMIT 1")
    (warning,) = desk.after("ADD UNIQUE u (a)")[1]
    assert "cannot be seen" in warning.cause


def test_a_stop_ends_the_search_without_an_index(db, desk, monkeypatch):
    """Between two ranges too; the temporary tables are gone."""
    monkeypatch.setattr(duplicates, "RANGE_ROWS", 2)
    db.execute("INSERT INTO t (a) VALUES (1), (2), (3), (4), (5), (6)")
    (context,) = prepare(desk.session, desk.config("ADD UNIQUE u (a)"))
    mapping = mapping_of(context, desk.create("ADD UNIQUE u (a)"))
    (index,) = mapping.tightened

    def stop(rows: int) -> None:
        if rows > 2:
            raise Interrupted(2)

    # Of all sessions: what others had before is theirs.
    temporary = "SELECT TABLE_ID FROM information_schema.INNODB_TEMP_TABLE_INFO"
    before = desk.session.query(temporary)
    with pytest.raises(Interrupted):
        duplicates.duplicates_for(desk.session, mapping, index, seen=stop)
    assert set(desk.session.query(temporary)) <= set(before)


@pytest.mark.parametrize(
    ("made", "alter"),
    [
        ("ALTER TABLE t ADD KEY k (a)", "ADD UNIQUE u (a)"),
        ("ALTER TABLE t DROP PRIMARY KEY, DROP id, ADD UNIQUE (a)", "ADD c INT"),
        ("DO 0", "MODIFY a INT NOT NULL"),
    ],
)
def test_a_look_at_all_rows_begins_when_it_may(db, desk, made, alter):
    """Each asks first, also for what throttles it."""
    db.execute(made)
    db.execute("INSERT INTO t (a) VALUES (1), (2), (3), (4), (5), (6)")
    asked: list[int] = []

    def stop() -> None:
        asked.append(1)
        raise Interrupted(2)

    (context,) = prepare(desk.session, desk.config(alter, allow_nullable_unique_key=True))
    target = desk.create(alter)
    with pytest.raises(Interrupted):
        check_after_create(replace(context, check_stop=stop), target)
    assert len(asked) == 1


def test_at_most_ten_duplicates_are_shown(db, desk):
    """At most ten examples are given."""
    db.execute(
        "INSERT INTO t (a) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 50) SELECT i DIV 2 FROM n"
    )
    message, _, *details = after(desk, "ADD UNIQUE (a)")
    assert "10 or more values" in message
    assert len(details) == 10


@pytest.mark.slow
def test_a_timestamp_that_would_turn_null_into_now_is_refused(db, desk):
    """A TIMESTAMP that becomes NOT NULL is refused where NULL would mean now."""
    db.execute("ALTER TABLE t ADD ts TIMESTAMP NULL")
    desk.after("MODIFY ts TIMESTAMP NOT NULL")
    db.set_global("explicit_defaults_for_timestamp", "OFF")
    assert "explicit_defaults_for_timestamp" in after(desk, "MODIFY ts TIMESTAMP NOT NULL")[0]


ZERO_DATE = "ADD d DATE NOT NULL"
#: What is in the table, the change, and the cause that is named; without one the change passes.
LOSES = [
    ("", "MODIFY id INT, DROP PRIMARY KEY", "before and after"),
    ("INSERT INTO t (id, a) VALUES (42, NULL)", "MODIFY a INT NOT NULL", "in the row with id=42"),
    ("INSERT INTO t (id, a) VALUES (42, 1)", "MODIFY a INT NOT NULL", ""),
    ("ALTER TABLE t MODIFY id INT", "MODIFY a INT AUTO_INCREMENT UNIQUE", "AUTO_INCREMENT"),
    ("", "ADD p POINT NOT NULL", "no value"),
    ("", "ADD p VECTOR(3) NOT NULL", "no value"),
    ("", ZERO_DATE, ""),
    ("INSERT INTO t (a) VALUES (1)", ZERO_DATE, "NO_ZERO_DATE"),
    *(
        (
            f"ALTER TABLE t ADD e {old}; INSERT INTO t (id, e) VALUES (7, {value})",
            f"MODIFY e {new}",
            cause,
        )
        for old, value, new, cause in (
            ("ENUM('x', 'y')", "'y'", "ENUM('x', 'z')", "in the row with id=7"),
            ("ENUM('x', 'y')", "'x'", "ENUM('x', 'z')", ""),
            ("ENUM('x', 'y')", "'y'", "ENUM('y', 'x')", ""),
            ("ENUM('x', 'y')", "'y'", "ENUM('Y', 'x')", ""),
            ("SET('x', 'y')", "'x,y'", "SET('x')", "in the row with id=7"),
            ("SET('x', 'y')", "'x'", "SET('x')", ""),
            ("SET('x', 'y')", "'x,y'", "SET('y', 'x')", ""),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "alter", "cause"), LOSES)
def test_what_the_new_table_cannot_hold_is_refused_before_the_copy(db, desk, make, alter, cause):
    """A key, a value that rows have, or one that they must get; what fits is not refused."""
    if make:
        db.execute(make)
    if cause:
        assert cause in after(desk, alter)[0]
    else:
        desk.after(alter)


def test_a_zero_date_passes_where_the_server_takes_it(db, desk):
    """The modes of the server decide, as for a native ALTER."""
    db.execute("INSERT INTO t (a) VALUES (1)")
    db.set_global("sql_mode", "STRICT_ALL_TABLES")
    desk.after(ZERO_DATE)


@pytest.mark.slow
def test_a_search_that_takes_too_long_is_a_warning(db, desk, monkeypatch):
    """A look that does not end in its time is a warning."""
    db.execute("ALTER TABLE t ADD e ENUM('x', 'y')")
    db.execute(
        "INSERT INTO t (a) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 900) SELECT i FROM n"
    )
    db.execute("INSERT INTO t (a) SELECT t.a FROM t, t AS u LIMIT 300000")
    monkeypatch.setattr("spirit_py.preflight.check.SECONDS", 0.001)
    _, warnings = desk.after("MODIFY a INT NOT NULL, MODIFY e ENUM('x')")
    assert len(warnings) == 2
    assert all("was not known" in warning.cause for warning in warnings)


def test_a_new_auto_increment_column_is_warned_of(db, desk):
    """A new AUTO_INCREMENT column is numbered in the order of the copy: a warning."""
    db.execute("ALTER TABLE t MODIFY id INT")
    _, (warning,) = desk.after("ADD n INT AUTO_INCREMENT UNIQUE")
    assert "order in which rows are copied" in warning.cause


@pytest.mark.slow
def test_a_new_numbered_column_has_twice_as_many_numbers_as_rows(db, desk):
    """A chunk reserves up to two for each of its rows that it writes: a native ALTER needs one."""
    db.execute("ALTER TABLE t MODIFY id INT")
    db.execute(
        "INSERT INTO t (id) WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 190) SELECT i FROM n"
    )
    db.execute("ANALYZE TABLE t")
    with pytest.raises(Refusal, match=r"numbers up to 127, and about \d+ rows are"):
        desk.after("ADD n TINYINT AUTO_INCREMENT UNIQUE")
    desk.after("ADD n TINYINT UNSIGNED AUTO_INCREMENT UNIQUE")
    desk.after("ADD n TINYINT AUTO_INCREMENT UNIQUE", modes=SessionModes(keep="id < 130"))


@pytest.mark.parametrize(
    ("alter", "lost"),
    [
        ("MODIFY id BIGINT", True),
        ("MODIFY id BIGINT AUTO_INCREMENT", False),
        ("MODIFY id BIGINT DEFAULT 7", False),
        ("MODIFY id BIGINT, MODIFY a INT NOT NULL AUTO_INCREMENT UNIQUE", True),
    ],
)
def test_a_column_that_is_numbered_no_more_is_warned_of(db, desk, alter, lost):
    """MODIFY has the whole definition: what it does not name is gone, and INSERTs fail then."""
    db.execute("DROP TABLE t; CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL)")
    _, warnings = desk.after(alter)
    fails = "an INSERT without it fails, or gets 0"
    assert [one.cause for one in warnings] == lost * [
        f"column id is AUTO_INCREMENT no more, and has no default: {fails}"
    ]


@pytest.mark.parametrize(
    ("alter", "refused"),
    [
        ("MODIFY c VARCHAR(9)", True),
        ("ADD g VARCHAR(20) AS (CONCAT(c, '|')) STORED", True),
        ("ADD CHECK (LENGTH(c) < 9)", True),
        ("MODIFY a BIGINT", False),
        ("MODIFY c CHAR(12)", False),
    ],
)
def test_a_char_that_would_keep_its_blanks_is_refused(db, desk, alter, refused):
    """Under PAD_CHAR_TO_FULL_LENGTH a CHAR that is converted or computed with is refused."""
    db.execute("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT, c CHAR(9))")
    (context,) = prepare(desk.session, desk.config(alter))
    target = desk.create(alter)
    padding = {**context.facts.variables, "sql_mode": "PAD_CHAR_TO_FULL_LENGTH"}
    context = replace(context, facts=replace(context.facts, variables=padding))
    if not refused:
        check_after_create(context, target)
        return
    with pytest.raises(Refusal, match="CHAR column c"):
        check_after_create(context, target)

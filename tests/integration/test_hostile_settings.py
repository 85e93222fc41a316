"""Globals of the server that new sessions inherit: whatever they are, a migration is right."""

from __future__ import annotations

import contextlib

import MySQLdb
import pytest

from tests.kits.migrate import config_for, migrate_here
from tests.kits.resume import assert_nothing_left

OPTIMIZER_OFF = (
    "index_merge=off,mrr=off,block_nested_loop=off,materialization=off,semijoin=off,"
    "derived_merge=off,use_index_extensions=off,condition_fanout_filter=off,"
    "derived_condition_pushdown=off,skip_scan=off,hash_join=off,prefer_ordering_index=off"
)
GROUPS = {
    "limits": {
        "sql_select_limit": 1,
        "max_join_size": 1,
        "max_execution_time": 1,
        "max_error_count": 0,
        "group_concat_max_len": 4,
        "sql_safe_updates": 1,
        "lock_wait_timeout": 1,
        "innodb_lock_wait_timeout": 1,
    },
    "transactions": {
        "autocommit": 0,
        "completion_type": 2,
        "transaction_isolation": "SERIALIZABLE",
        "unique_checks": 0,
        "foreign_key_checks": 0,
        "updatable_views_with_limit": 0,
    },
    "read only": {"transaction_read_only": 1, "autocommit": 0, "completion_type": 1},
    "memory": {
        "range_optimizer_max_mem_size": 1,
        "eq_range_index_dive_limit": 1,
        "tmp_table_size": 1024,
        "max_heap_table_size": 16384,
        "big_tables": 1,
        "internal_tmp_mem_storage_engine": "MEMORY",
        "join_buffer_size": 128,
        "sort_buffer_size": 32768,
        "max_sort_length": 4,
        "max_length_for_sort_data": 4,
        "read_rnd_buffer_size": 1,
    },
    "engines": {
        "default_tmp_storage_engine": "MyISAM",
        "default_storage_engine": "MyISAM",
        "innodb_strict_mode": 0,
        "explicit_defaults_for_timestamp": 0,
    },
    "hidden keys": {
        "sql_generate_invisible_primary_key": 1,
        "show_gipk_in_create_table_and_information_schema": 0,
        "sql_require_primary_key": 1,
    },
    "texts": {
        "sql_quote_show_create": 0,
        "show_create_table_verbosity": 1,
        "print_identified_with_as_hex": 1,
        "show_create_table_skip_secondary_engine": 1,
        "end_markers_in_json": 1,
        "information_schema_stats_expiry": 31536000,
        "character_set_results": "latin1",
        "character_set_client": "latin1",
        "character_set_connection": "latin1",
        "collation_connection": "latin1_german2_ci",
        "lc_time_names": "de_DE",
        "lc_messages": "de_DE",
        "default_week_format": 3,
        "sql_auto_is_null": 1,
        "sql_notes": 0,
    },
    "session state": {
        "session_track_gtids": "ALL_GTIDS",
        "session_track_schema": 1,
        "session_track_state_change": 1,
        "session_track_system_variables": "*",
        "session_track_transaction_info": "CHARACTERISTICS",
        "optimizer_trace": "enabled=on",
        "profiling": 1,
        "resultset_metadata": "NONE",
        "select_into_disk_sync": 1,
        "windowing_use_high_precision": 0,
        "xa_detach_on_prepare": 0,
        "div_precision_increment": 0,
        "low_priority_updates": 1,
        "old_alter_table": 1,
        "use_secondary_engine": "OFF",
    },
    "optimizer": {
        "optimizer_switch": OPTIMIZER_OFF,
        "optimizer_search_depth": 0,
        "optimizer_prune_level": 0,
        "max_seeks_for_key": 1,
        "cte_max_recursion_depth": 0,
    },
    "modes": {
        "sql_mode": "ANSI,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,"
        "PIPES_AS_CONCAT,IGNORE_SPACE,REAL_AS_FLOAT,NO_DIR_IN_CREATE"
    },
}
#: The server or its version may not know, or not let anybody set for all, some of them.
_NOT_HERE = {1193, 1228, 1231, 1232}


@contextlib.contextmanager
def hostile(db, values):
    """Set globals, and set them back; only those that the server has."""
    before = {}
    try:
        for name, value in values.items():
            known = db.query("SHOW GLOBAL VARIABLES LIKE %s", (name,))
            if not known:
                continue
            old = db.query(f"SELECT @@GLOBAL.{name}")[0][0]
            try:
                db.execute(f"SET GLOBAL {name} = %s", (value,))
            except MySQLdb.Error as error:
                if error.args[0] not in _NOT_HERE:
                    raise
            else:
                before[name] = old
        yield before
    finally:
        for name, value in before.items():
            db.execute(f"SET GLOBAL {name} = %s", (value,))


@pytest.mark.draws(4)
@pytest.mark.parametrize("group", GROUPS)
def test_a_migration_survives_hostile_globals(db, engine, group):
    """Rows of all kinds arrive whole, also in wide and unusual keys, and nothing stays behind."""
    db.execute(
        "CREATE TABLE t (a INT, b VARCHAR(20), v INT AUTO_INCREMENT, `sp ``ace` DECIMAL(9,3),"
        " ts TIMESTAMP NULL, note TEXT, PRIMARY KEY (a, b), UNIQUE (v), KEY (ts))"
    )
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        " 3000) SELECT i DIV 3, CONCAT('é', i), i, i / 7, FROM_UNIXTIME(i * 1000), REPEAT('ö', 40)"
        " FROM n"
    )
    digest = "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', a, b, v, `sp ``ace`, ts, note))) FROM t"
    with hostile(db, GROUPS[group]) as given:
        assert given
        want = db.query(digest)
        # Under old_alter_table=ON, the counter's ALTER before the swap would build the table anew.
        alter = "MODIFY v BIGINT AUTO_INCREMENT, ADD UNIQUE (a, v), AUTO_INCREMENT = 7000"
        config = config_for(db, table="t", alter=alter, no_shortcut=True)
        report, _ = migrate_here(engine, config)
    assert db.query(digest) == want
    assert "AUTO_INCREMENT=7000 " in db.query("SHOW CREATE TABLE t")[0][1]
    assert report.chunks_repaired == 0
    assert report.rows_copied == 3000
    assert_nothing_left(db)

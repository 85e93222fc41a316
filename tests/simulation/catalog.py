"""What a whole run asks the model server besides: its settings, its catalogue, DDL of the program.

The answers are those of MySQL 9.7.4 for tables without keys of others, triggers, CHECKs and
partitions (:mod:`tests.simulation.whole`).
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import MySQLdb

from spirit_py.sql import string_literal
from tests.simulation.server import EXCLUSIVE, Unknown, fault
from tests.simulation.statements import (
    _ID,
    _STAGED,
    Rows,
    _add,
    _nothing,
    _predicate,
    _replace,
    _selected,
    delete_of,
    read_to_write,
    statement,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.server import Name, Row, Session, Table

_HEX: Final = r"_utf8mb4 X'([0-9a-f]*)'"
#: The comments of the program's own tables, whose rows are a number, a text and a time.
RECORDS: Final = ("id", "record", "written_at")
_COLLATION: Final = "utf8mb4_0900_ai_ci"
VARIABLES: Final = {
    "basedir": "/usr/",
    "binlog_expire_logs_seconds": "2592000",
    "binlog_format": "ROW",
    "binlog_order_commits": "ON",
    "binlog_row_image": "FULL",
    "binlog_row_value_options": "",
    "binlog_error_action": "ABORT_SERVER",
    "block_encryption_mode": "aes-128-ecb",
    "datadir": "/var/lib/mysql/",
    "default_week_format": "0",
    "div_precision_increment": "4",
    "explicit_defaults_for_timestamp": "ON",
    "gtid_mode": "ON",
    "innodb_adaptive_hash_index": "OFF",
    "innodb_buffer_pool_size": "134217728",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_strict_mode": "ON",
    "innodb_tmpdir": "",
    "lc_time_names": "en_US",
    "log_bin": "ON",
    "lower_case_table_names": "0",
    "max_allowed_packet": "67108864",
    "performance_schema": "ON",
    "read_only": "OFF",
    "sql_mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES",
    "super_read_only": "OFF",
    "sync_binlog": "1",
    "time_zone": "SYSTEM",
    "version_comment": "model",
}


def _text(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal).decode()


def _visible(session: Session, name: Name) -> Table:
    """Return a table, or the session's temporary one of that name."""
    return session.temporary.get(name) or session.server.table(name)


# -- settings

for _pattern in (
    r"/\*!80030 SET SESSION show_gipk_in_create_table_and_information_schema = ON \*/",
    r"SET SESSION character_set_results = binary, .*",
    r"SET @spirit_py_(?:run|sql_mode|syntax) ?=.*",
    r"(?:PREPARE|DEALLOCATE PREPARE) spirit_py_syntax.*",
    r"SET SESSION foreign_key_checks = [01]",
    r"SET SESSION time_zone = .*, SESSION timestamp = .*",
    r"SET SESSION time_zone = (?:_utf8mb4 X)?'[^']*'",
    r"SET SESSION lock_wait_timeout = \d+, max_execution_time = \d+",
    # Nothing of the kind is there.
    r"SHOW GLOBAL VARIABLES LIKE 'aurora_server_id'",
    r"SELECT .* FROM information_schema\.ROUTINES WHERE .*",
    r"SELECT [A-Z_, ]+ FROM information_schema\.VIEW_TABLE_USAGE WHERE .*",
    r"SELECT CONSTRAINT_NAME FROM information_schema\.TABLE_CONSTRAINTS WHERE .*",
    r"SELECT .* FROM performance_schema\.replication_(?:applier_filters|connection_status) ?.*",
    r"SHOW REPLICAS?(?: STATUS)?",
    r"SELECT PROCESSLIST_ID FROM performance_schema\.threads WHERE PROCESSLIST_COMMAND IN .*",
    r"SELECT PROCESSLIST_ID, PROCESSLIST_USER, .* WHERE PROCESSLIST_COMMAND = 'Query' .*",
    r"SELECT t\.PROCESSLIST_ID FROM performance_schema\.metadata_locks g JOIN .*",
    r"SELECT 1 FROM information_schema\.COLUMNS WHERE .* AND GENERATION_EXPRESSION <> ''",
    r"SELECT PARTITION_NAME, .* FROM information_schema\.PARTITIONS .*",
    r"SELECT [A-Z_, ]+ FROM information_schema\.TRIGGERS WHERE .*",
    r"SELECT .* FROM performance_schema\.threads WHERE PROCESSLIST_INFO .*OPTIMIZE.*",
    r"SELECT EVENT_NAME, .* FROM performance_schema\.file_summary_by_event_name WHERE .*",
):
    statement(_pattern)(_nothing)


#: What an account may be granted on a schema, as far as the program needs it.
RIGHTS: Final = frozenset(
    (
        *("ALTER", "CREATE", "CREATE VIEW", "DELETE", "DROP", "INDEX", "INSERT", "LOCK TABLES"),
        *("REFERENCES", "SELECT", "SHOW VIEW", "TRIGGER", "UPDATE"),
    )
)


def _constant(pattern: str, *rows: tuple[Any, ...]) -> None:
    statement(pattern)(lambda *_: list(rows))


_constant(
    r"SELECT MEMBER_ROLE FROM performance_schema\.replication_group_members WHERE .*",
)


@statement(r"SHOW GLOBAL VARIABLES(?: WHERE Variable_name IN \((?P<names>.*)\))?")
def _variables(session: Session, found: re.Match[str], *_: Any) -> Rows:
    rows = [*VARIABLES.items(), ("server_uuid", session.server.uuid)]
    names = found["names"]
    return rows if names is None else [row for row in rows if string_literal(row[0]) in names]


_constant(r"SELECT CURRENT_USER\(\).*", ("u@%", 0))
_constant(r"SHOW CREATE USER CURRENT_USER\(\)", ("CREATE USER `u`@`%` REQUIRE NONE",))
_constant(r"SELECT @@SESSION\.innodb_strict_mode", (1,))


@statement(r"SHOW GRANTS")
def _grants(session: Session, *_: Any) -> Rows:
    revoked = session.server.revoked
    if not revoked:
        return [("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION",)]
    own = ", ".join(sorted(RIGHTS - revoked))
    return [
        ("GRANT RELOAD, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`",),
        ("GRANT BINLOG_ADMIN,CONNECTION_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `u`@`%`",),
        ("GRANT SELECT ON `performance_schema`.* TO `u`@`%`",),
        (f"GRANT {own} ON `s`.* TO `u`@`%`",),
    ]


_constant(r"SELECT @@GLOBAL\.lower_case_table_names", (0,))
_constant(r"SELECT @@GLOBAL\.datadir, .*", (VARIABLES["datadir"], "another machine", "/var/lib/b"))
_constant(r"SELECT @@GLOBAL\.binlog_expire_logs_seconds", (2_592_000,))
_constant(r"SELECT @@GLOBAL\.innodb_flush_log_at_trx_commit", (1,))
_constant(r"SELECT @@SESSION\.lock_wait_timeout, @@max_execution_time", (50, 0))
_constant(
    r"SELECT COLLATION_NAME, CHARACTER_SET_NAME, PAD_ATTRIBUTE FROM information_schema\.COLLATIONS",
    (_COLLATION, "utf8mb4", "NO PAD"),
)
_constant(r"SHOW GLOBAL STATUS WHERE Variable_name IN \(.*\)", ("Threads_running", "1"))
_constant(
    r"SELECT NAME, COUNT, .* FROM information_schema\.INNODB_METRICS WHERE .*",
    ("lock_deadlocks", "0", "2026-11-26 14:26:16", None),
    ("lock_timeouts", "0", "2026-11-26 14:26:16", None),
)


@statement(rf"DO (GET|RELEASE)_LOCK\({_HEX}(?:, (\d+))?\)")
def _do_lock(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    if found[1] == "GET":
        session.server.take_named(session, _text(found[2]), float(found[3]))
    else:
        session.server.release_named(session, _text(found[2]))


@statement(
    r"SELECT @@GLOBAL\.server_uuid, @@GLOBAL\.hostname, @@GLOBAL\.port, CONNECTION_ID\(\),.*"
)
def _where(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    names = re.findall(rf"IS_USED_LOCK\({_HEX}\)", found[0])
    holders = [session.server.holder(_text(name)) for name in names]
    return [(session.server.uuid, "sim", 3306, session.number, session.number, *holders)]


@statement(r"SELECT DATE_FORMAT\(UTC_TIMESTAMP\(6\), '%Y-%m-%dT%H:%i:%s\.%f'\)")
def _now(session: Session, *_: Any) -> Rows:
    seconds = session.server.unix_time - 1_700_000_000
    return [(f"2023-11-14T{int(seconds // 3600):02d}:{int(seconds // 60) % 60:02d}:00.000000",)]


@statement(r"SELECT @@GLOBAL\.server_uuid, UNIX_TIMESTAMP\(CURRENT_TIMESTAMP\(6\)\)")
def _clock(session: Session, *_: Any) -> Rows:
    return [(session.server.uuid, f"{session.server.unix_time:.6f}")]


@statement(r"SELECT UNIX_TIMESTAMP\(NOW\(6\)\)")
def _seconds(session: Session, *_: Any) -> Rows:
    return [(f"{session.server.unix_time:.6f}",)]


@statement(r"SHOW BINARY LOGS")
def _files(session: Session, *_: Any) -> Rows:
    server = session.server
    ends = [file.before for file in server.files[1:]] + [len(server.binlog)]
    return [(file.name, file.end_of(end)) for file, end in zip(server.files, ends, strict=True)]


# -- the catalogue


@statement(
    r"SELECT TABLE_NAME FROM information_schema\.TABLES"
    r" WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
def _stored_name(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [(given[1],)] if tuple(given) in session.server.tables else []


@statement(r"SELECT TABLE_TYPE, TABLE_COMMENT FROM information_schema\.TABLES WHERE .*")
def _kind(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    table = session.server.tables.get(tuple(given))
    return [] if table is None else [("BASE TABLE", table.comment)]


@statement(
    r"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema\.TABLES WHERE TABLE_COMMENT .*"
)
def _marked(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    mark, schema, _, table, _ = given
    return sorted(
        name
        for name, one in session.server.tables.items()
        if one.comment == mark and schema in {"", name[0]} and table in {"", name[1]}
    )


@statement(r"SELECT ENGINE, TABLE_COLLATION, .* FROM information_schema\.TABLES WHERE .*")
def _of_table(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    schema, name = given
    found = session.server.tables.get((schema, name))
    if found is None:
        return []
    return [("InnoDB", _COLLATION, len(found.rows), 16_384, 0, None, schema, name)]


@statement(r"SELECT c\.COLUMN_NAME, c\.ORDINAL_POSITION, .* FROM information_schema\.COLUMNS c .*")
def _of_columns(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    found = session.server.tables.get(tuple(given))
    return [
        (
            *(column, at, "int", "int", "YES" if at > 1 else "NO", None, None, None, None),
            *(10, 0, None, None, "", "", None, ""),
        )
        for at, column in enumerate(found.columns if found else (), 1)
    ]


@statement(r"SELECT INDEX_NAME, NON_UNIQUE, .* FROM information_schema\.STATISTICS WHERE .*")
def _of_indexes(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    found = session.server.tables.get(tuple(given))
    if found is None:
        return []
    names = [("PRIMARY", found.columns[0]), *((found.columns[i],) * 2 for i in found.unique)]
    return [(name, 0, column, None, None, "A", "YES", "BTREE") for name, column in names]


@statement(r"SELECT index_name, SUM\(stat_value\) \* .* FROM mysql\.innodb_index_stats WHERE .*")
def _index_sizes(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    found = session.server.tables.get((given[0], given[1]))
    if found is None:
        return []
    return [(name, 16_384) for name in ("PRIMARY", *(found.columns[i] for i in found.unique))]


@statement(r"SELECT NAME, FILE_SIZE FROM information_schema\.INNODB_TABLESPACES WHERE .*")
def _tablespaces(_session: Session, _: re.Match[str], _given: Sequence[Any]) -> Rows:
    return []


@statement(rf"SHOW CREATE TABLE {_ID}")
def _definition(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[1], found[2])
    temporary = "TEMPORARY " if name in session.temporary else ""
    table = _visible(session, name)
    return [(found[2].encode(), create_text(found[2], table, temporary).encode())]


def create_text(name: str, table: Table, temporary: str = "") -> str:
    """Return the definition of a table of whole numbers."""
    if name == _PROBE[1]:
        virtual = f"GENERATED ALWAYS AS ({table.comment}) VIRTUAL"
        return f"CREATE {temporary}TABLE `{name}` (\n  `{name}` tinyint(1) {virtual}\n)"
    key, *others = table.columns
    lines = [f"`{key}` int NOT NULL", *(f"`{column}` int DEFAULT NULL" for column in others)]
    lines.append(f"PRIMARY KEY (`{key}`)")
    lines += [f"UNIQUE KEY `{table.columns[i]}` (`{table.columns[i]}`)" for i in table.unique]
    body = ",\n  ".join(lines)
    return (
        f"CREATE {temporary}TABLE `{name}` (\n  {body}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        f" COLLATE={_COLLATION}"
    )


@statement(rf"SHOW FULL COLUMNS FROM {_ID}")
def _full_columns(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    columns = _visible(session, (found[1], found[2])).columns
    if found[2] == "_spirit_py_shape":
        columns = ("n", "p0")
    return [
        (one, "int", None, "YES" if at else "NO", "" if at else "PRI", None, "NULL", "select", "")
        for at, one in enumerate(columns)
    ]


@statement(rf"SHOW INDEX FROM {_ID}")
def _index(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    table = _visible(session, (found[1], found[2]))
    named = [("PRIMARY", table.columns[0]), *((table.columns[i],) * 2 for i in table.unique)]
    return [
        (found[2], 0, name, 1, column, "A", 0, None, None, "", "BTREE", "", "", "YES", None)
        for name, column in named
    ]


@lru_cache(maxsize=256)
def _like(pattern: str) -> re.Pattern[str]:
    """Compile a LIKE with ESCAPE '|'."""
    parts = re.findall(r"\|.|%|_|[^|%_]+", pattern)
    said = {"%": ".*", "_": "."}
    return re.compile("".join(said.get(p) or re.escape(p.lstrip("|")) for p in parts), re.DOTALL)


@statement(
    r"SELECT NAME, TABLE_ID, @@GLOBAL\.server_uuid FROM information_schema\.INNODB_TABLES WHERE .*"
)
def _numbers(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [
        (f"{schema}/{name}", table.number, session.server.uuid)
        for (schema, name), table in session.server.tables.items()
        if any(_like(str(one)).fullmatch(f"{schema}/{name}") for one in given)
    ]


@statement(r"SELECT CAST\(UNIX_TIMESTAMP\(CREATE_TIME\) AS SIGNED\) FROM .*")
def _born(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    found = session.server.tables.get(tuple(given))
    return [] if found is None else [(found.born,)]


_constant(r"SELECT ROW_FORMAT FROM information_schema\.TABLES WHERE .*", ("Dynamic",))


@statement(rf"ANALYZE NO_WRITE_TO_BINLOG TABLE {_ID}")
def _analyze(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    session.server.table((found[1], found[2]))
    return [(f"{found[1]}.{found[2]}", "analyze", "status", "OK")]


# -- DDL


def _logged(session: Session, found: re.Match[str]) -> None:
    session.server.ddl(session, found[0])
    session.server.end_statement(session)


@statement(rf"CREATE TEMPORARY TABLE {_ID} \((.*)\) ENGINE=.*")
def _create_temporary(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    columns = tuple(re.findall(r"`(\w+)` (?:int|BIGINT)", found[3]))
    copied = re.search(r"SELECT (.*) FROM", found[0])
    if copied:
        columns += tuple(re.findall(r"`(\w+)`", copied[1]))
    session.temporary[found[1], found[2]] = session.server.made(columns)


@statement(rf"DROP TEMPORARY TABLE IF EXISTS ((?:{_ID}(?:, )?)+)")
def _drop_temporary(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    for name in re.findall(_ID, found[1]):
        session.temporary.pop(name, None)


# -- the search for duplicates of a new unique key, by hashes: here the values themselves

_HASHES: Final = r"`(\w+)`\.`(_spirit_py_hashes)`"


@statement(r"SELECT COLLATION_NAME FROM information_schema\.COLLATIONS WHERE PAD_ATTRIBUTE = .*")
def _padded(*_: Any) -> Rows:
    return []


@statement(
    rf"INSERT IGNORE INTO {_HASHES} \([^()]*\) SELECT DISTINCT UNHEX\(.*`(\w+)` AS BINARY.*"
    rf" FROM \(SELECT .* FROM {_ID} FORCE INDEX \(`PRIMARY`\) WHERE (.*)\) AS \S+ WHERE .*"
)
def _hash(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    name = (found[4], found[5])
    at = session.server.table(name).columns.index(found[3])
    rows = [row for row in read_to_write(session, name, found[6]) if row[at] is not None]
    hashes = {row[0]: (row[at].to_bytes(8, signed=True), row[0]) for row in rows}
    session.temporary[found[1], found[2]].rows.update(hashes)
    session.server.end_statement(session)
    return len(rows)


@statement(rf"SELECT `\w+` FROM {_HASHES} WHERE TRUE ORDER BY `\w+` LIMIT 1 OFFSET \d+")
def _hash_far_on(*_: Any) -> Rows:
    return []


@statement(rf"SELECT `\w+` FROM {_HASHES} WHERE TRUE AND TRUE GROUP BY `\w+` HAVING .*")
def _hashes_of_several(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    rows = session.temporary[found[1], found[2]].rows.values()
    counts = Counter(hashed for hashed, _ in rows)
    return [(hashed,) for hashed, number in counts.items() if number > 1]


@statement(
    rf"SELECT `\w+`\.`(\w+)`, COUNT\(\*\) FROM \(SELECT .* FROM {_ID} WHERE \(`id`\) IN"
    rf" \(SELECT \S+ FROM {_HASHES} WHERE \S+ = X'(\w+)'\)\) AS \S+ WHERE .*"
)
def _values_of_several(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name, hashed = (found[2], found[3]), bytes.fromhex(found[6])
    at = session.server.table(name).columns.index(found[1])
    hashes = session.temporary[found[4], found[5]].rows
    rows = session.server.read(session, name)
    values = Counter(row[at] for key, row in rows.items() if hashes.get(key, ("",))[0] == hashed)
    session.server.end_statement(session)
    return [(value, number) for value, number in values.items() if value is not None and number > 1]


@statement(rf"CREATE TABLE {_ID} \(id INT NOT NULL.* COMMENT='([^']*)'")
def _create_records(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    name = (found[1], found[2])
    if name in session.server.tables:
        raise fault(1050, f"Table '{name[1]}' already exists")
    session.server.create(name, RECORDS).comment = found[3]
    _logged(session, found)


@statement(
    rf"CREATE TABLE IF NOT EXISTS {_ID} \(id INT PRIMARY KEY\) ENGINE=InnoDB COMMENT='([^']*)'"
)
def _create_sentinel(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    name = (found[1], found[2])
    if name not in session.server.tables:
        session.server.create(name, ("id",)).comment = found[3]
    _logged(session, found)


@statement(rf"CREATE TABLE {_ID} LIKE {_ID}")
def _create_like(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    server, name = session.server, (found[1], found[2])
    like = server.table((found[3], found[4]))
    if name in server.tables:
        raise fault(1050, f"Table '{name[1]}' already exists")
    server.create(name, like.columns, unique=like.unique)
    _logged(session, found)


@statement(rf"ALTER TABLE {_ID} ADD COLUMN (\w+) INT(?:, ADD UNIQUE KEY \w+ \((\w+)\))?")
def _add_column(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    name = (found[1], found[2])
    table = _visible(session, name)
    if name not in session.temporary:
        session.server.lock_table(session, name, EXCLUSIVE)
    table.columns += (found[3],)
    if found[4]:
        table.unique += (table.columns.index(found[4]),)
    table.rows = {key: (*row, None) for key, row in table.rows.items()}
    table.born = int(session.server.unix_time)
    if name not in session.temporary:
        session.server.outdate_snapshots(table)
        _logged(session, found)


@statement(rf"ALTER TABLE {_ID} FORCE")
def _rebuild(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    name = (found[1], found[2])
    if name not in session.temporary:
        session.server.lock_table(session, name, EXCLUSIVE)
        session.server.table(name).born = int(session.server.unix_time)
        _logged(session, found)


@statement(r"SHOW SESSION STATUS LIKE 'Handler_read(?:%|_next)'")
def _rows_read(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    read = [("Handler_read_next", str(session.read_next))]
    if "%" in found[0]:
        read += [("Handler_read_prev", "0"), ("Handler_read_rnd_next", "0")]
    return read


@statement(r"FLUSH STATUS")
def _flush_status(session: Session, *_: Any) -> None:
    session.read_next = 0


@statement(rf"SELECT 1 FROM {_ID} LIMIT 0")
def _readable(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    session.server.table((found[1], found[2]))
    return []


@statement(rf"ALTER TABLE {_ID} RENAME TO {_ID}")
def _rename_to(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    pairs = [((found[1], found[2]), (found[3], found[4]))]
    session.server.rename(session, pairs, found[0])
    session.server.end_statement(session)


@statement(rf"DROP TABLE IF EXISTS ((?:{_ID}(?:, )?)+)")
def _drop(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    server = session.server
    for name in re.findall(_ID, found[1]):
        if name in server.tables:
            server.lock_table(session, name, EXCLUSIVE)
            gone = server.tables[name]
            server.tables = {other: t for other, t in server.tables.items() if other != name}
            # Nobody keeps others from it: who waits for a name that it had looks for that again.
            gone.granted.clear()
            if gone.queue:
                server.changed()
    _logged(session, found)


# -- the program's rows


@statement(rf"INSERT INTO {_ID} \(record\) VALUES \({_HEX}\)")
def _add_record(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[1], found[2])
    table = server.table(name)
    session.last_number = table.counter = max(table.counter, 0, *table.rows) + 1
    row = (table.counter, _text(found[3]), server.unix_time)
    number = server.write(session, name, lambda _: [(row[0], row)])
    server.end_statement(session)
    return number


@statement(r"SELECT LAST_INSERT_ID\(\)")
def _last_number(session: Session, *_: Any) -> Rows:
    return [(session.last_number,)]


@statement(rf"REPLACE INTO {_ID} \(id, record\) VALUES \((-?\d+), (?:{_HEX}|'')\)")
def _write_record(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[1], found[2])
    server.table(name)
    row = (int(found[3]), _text(found[4] or ""), server.unix_time)
    number = server.write(session, name, lambda _: [(row[0], row)])
    server.end_statement(session)
    return number


@statement(
    rf"REPLACE INTO {_ID} \(id, record, written_at\)"
    rf" SELECT id, {_HEX}, written_at FROM {_ID} WHERE id = (-?\d+)"
)
def _amend_record(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[1], found[2])
    server.table(name)
    key, text = int(found[6]), _text(found[3])

    def changing(rows: dict[Any, Row]) -> list[tuple[Any, Row]]:
        return [(key, (key, text, rows[key][2]))] if key in rows else []

    number = server.write(session, name, changing)
    server.end_statement(session)
    return number


_EXPRESSIONS: Final[dict[str, Callable[[Row, float], Any]]] = {
    "1": lambda _row, _now: 1,
    "written_at": lambda row, _now: row[2],
    "TIMESTAMPDIFF(MICROSECOND, written_at, CURRENT_TIMESTAMP(6))": lambda row, now: int(
        1e6 * (now - row[2])
    ),
}


@statement(rf"SELECT (.*?) FROM {_ID} FORCE INDEX \(PRIMARY\) WHERE id = (-?\d+)")
def _read_record(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[2], found[3])
    row = session.server.read(session, name).get(int(found[4]))
    session.server.end_statement(session)
    if row is None:
        return []
    if found[1].startswith("IF(LENGTH(record)"):
        return [(row[1],)]
    if found[1] not in _EXPRESSIONS:
        raise Unknown(f"the model server does not know the value {found[1]}")
    return [(_EXPRESSIONS[found[1]](row, session.server.unix_time),)]


@statement(rf"DELETE FROM {_ID} WHERE id = (-?\d+)(?: AND record = {_HEX})?")
def _forget_record(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    name, key = (found[1], found[2]), int(found[3])

    def gone(rows: Any) -> list[tuple[int, None]]:
        right = key in rows and (found[4] is None or rows[key][1] == _text(found[4]))
        return [(key, None)] if right else []

    number = session.server.write(session, name, gone)
    session.server.end_statement(session)
    return number


@statement(
    rf"SELECT id, IF\(LENGTH\(record\) .* FROM {_ID} FORCE INDEX \(PRIMARY\)"
    r" WHERE (?:TRUE|id ([=>]) (-?\d+)) .*"
)
def _requests(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    rows = session.server.read(session, (found[1], found[2]))
    session.server.end_statement(session)
    wanted = int(found[4]) if found[4] else 0
    asked = {None: lambda _: True, "=": wanted.__eq__, ">": wanted.__lt__}[found[3]]
    return [(key, row[1]) for key, row in sorted(rows.items()) if asked(key)]


@statement(rf"DELETE FROM {_ID} WHERE written_at < CURRENT_TIMESTAMP\(6\) - INTERVAL \d+ SECOND")
def _old_requests(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    session.server.table((found[1], found[2]))
    return 0


@statement(r"SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema\.TABLES WHERE .*")
def _sizes(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [(16_384, 0)] if tuple(given) in session.server.tables else []


@statement(
    r"SELECT TABLE_NAME FROM information_schema\.TABLES"
    r" WHERE TABLE_SCHEMA = %s AND LEFT\(TABLE_NAME, CHAR_LENGTH\(%s\)\) = %s AND TABLE_TYPE ="
    r" 'BASE TABLE'"
)
def _beginning_with(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    schema, start, _ = given
    names = session.server.tables
    return [(name,) for other, name in names if other == schema and name.startswith(start)]


# -- a move to another server


@statement(
    r"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema\.TABLES"
    r" WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN .* ORDER BY 1, 2"
)
def _matching(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [tuple(given)] if tuple(given) in session.server.tables else []


_constant(r"SELECT LOCATE\(%s, @@GLOBAL\.gtid_executed\)", (0,))
_constant(r"SELECT 1 FROM information_schema\.SCHEMATA WHERE SCHEMA_NAME = %s", (1,))


@statement(rf"SELECT CONCAT\((IF\(`.*)\), 0 FROM {_ID} FORCE INDEX \(`PRIMARY`\) WHERE (.*)")
def _literals(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    """Read rows as the literals of whole numbers, joined by commas."""
    name = (found[2], found[3])
    columns = session.server.table(name).columns
    at = [columns.index(one) for one in re.findall(r"IF\(`(\w+)` IS NULL", found[1])]
    rows = list(_selected(session, name, found[4]))
    session.server.end_statement(session)
    texts = (("NULL" if row[i] is None else str(row[i]) for i in at) for row in rows)
    return [(", ".join(one), 0) for one in texts]


@statement(
    rf"CREATE TABLE {_ID} \( (`id` int NOT NULL, .*) PRIMARY KEY \(`id`\)"
    r"((?:, UNIQUE KEY `\w+` \(`\w+`\))*) \) ENGINE=.*"
)
def _create_apart(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    name = (found[1], found[2])
    if name in session.server.tables:
        raise fault(1050, f"Table '{name[1]}' already exists")
    columns = tuple(re.findall(r"`(\w+)` int", found[3]))
    unique = tuple(map(columns.index, re.findall(r"\(`(\w+)`\)", found[4])))
    session.server.create(name, columns, unique=unique)
    _logged(session, found)


# -- which rows are kept, or go where, and rows of a state

_PROBE: Final = ("s", "_spirit_py_kept")


@statement(
    rf"ALTER TABLE {_ID} ADD COLUMN _spirit_py_kept BOOL GENERATED ALWAYS AS \((.*) \) VIRTUAL"
)
def _probed(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.temporary[found[1], found[2]].comment = found[3]


@statement(r"SELECT \(\(.*\) IS (?:TRUE|NOT FALSE)\) FROM .* LIMIT 1")
def _judged_once(session: Session, *_: Any) -> Rows:
    return [(1,)]


@statement(
    rf"SELECT `id`, ((?:CAST\(`\w+` AS SIGNED\)(?:, )?)+) FROM {_ID} FORCE INDEX \(`PRIMARY`\)"
    r" WHERE (.*)"
)
def _keyed_rows(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    """Read rows by their numbers, each with its key."""
    name = (found[2], found[3])
    columns = session.server.table(name).columns
    at = [columns.index(one) for one in re.findall(r"`(\w+)`", found[1])]
    rows = [(row[0], *(row[i] for i in at)) for row in _selected(session, name, found[4])]
    session.server.end_statement(session)
    return rows


@statement(rf"INSERT INTO {_STAGED} \([^()]*\) SELECT [^()]* FROM {_STAGED}")
def _convert_keys(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    rows = dict(session.temporary[found[3], found[4]].rows)
    session.temporary[found[1], found[2]].rows = rows
    return len(rows)


@statement(rf"DELETE {_ID} FROM {_STAGED} STRAIGHT_JOIN {_ID} ON \S+ = \S+(?: AND (.*))?")
def _delete_staged(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    keys = list(session.temporary[found[3], found[4]].rows)
    number = delete_of(session, (found[1], found[2]), keys, found[7])
    session.server.end_statement(session)
    return number


@statement(
    rf"(INSERT|INSERT IGNORE|REPLACE) INTO {_ID} \((`[^()]*)\) SELECT [^()]* FROM {_STAGED}"
    rf" STRAIGHT_JOIN {_STAGED} ON \S+ = \S+(?: AND (.*))?"
)
def _insert_staged(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    latest = {number for number, _ in session.temporary[found[5], found[6]].rows.values()}
    names = re.findall(r"`(\w+)`", found[4])
    holds = _predicate(found[9] or "TRUE", tuple(names))
    staged = session.temporary[found[7], found[8]].rows.values()
    rows = [row[1:] for row in staged if row[0] in latest and holds(row[1:])]
    write = _replace if found[1] == "REPLACE" else _add
    name, number = (found[2], found[3]), 0
    if found[1] != "INSERT IGNORE":
        number = write(session, name, names, rows)
    else:
        for row in rows:
            try:
                number += write(session, name, names, [row])
            except MySQLdb.Error as error:
                session.warnings.append(("Warning", *error.args))
    session.server.end_statement(session)
    return number


@statement(
    r"SELECT (?:CAST\(`id` AS SIGNED\)|`id`) FROM \(SELECT \S+ FROM .*"
    rf" LEFT JOIN {_ID} ON .* WHERE \S+ IS NULL\) AS left_over"
)
def _left_over(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    """Read the keys of the latest staged rows that the table does not have."""
    stage = {name: table for (_, name), table in session.temporary.items()}
    latest = {number for number, _ in stage["_spirit_py_stage_keys"].rows.values()}
    staged = stage["_spirit_py_stage_rows"].rows.values()
    there = session.server.read(session, (found[1], found[2]))
    return [(row[1],) for row in staged if row[0] in latest and row[1] not in there]


@statement(rf"SELECT MIN\(`(\w+)`\), MAX\(`\w+`\) FROM {_ID}")
def _ends(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    keys = sorted(session.server.read(session, (found[2], found[3])))
    session.server.end_statement(session)
    return [(keys[0], keys[-1]) if keys else (None, None)]


@statement(rf"EXPLAIN FORMAT=TRADITIONAL SELECT `\w+` FROM {_ID} WHERE (.*)")
def _explained(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    """Only the number of rows is read, the tenth column."""
    return [(*[None] * 9, len(session.server.table((found[1], found[2])).rows))]


@statement(
    rf"SELECT /\*\+ .* \*/ COUNT\(\*\), SUM\((.*)\) FROM \(SELECT .* FROM {_ID}"
    r" FORCE INDEX \(PRIMARY\) WHERE .*\) AS sampled"
)
def _sampled(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[2], found[3])
    rows = session.server.read(session, name).values()
    holds = _predicate(found[1], session.server.table(name).columns)
    session.server.end_statement(session)
    return [(len(rows), sum(map(holds, rows)))]

"""The statements that the program sends, and what the model server does with each.

A statement that is not here is an error of the simulation, ``Unknown``, never a silent success:
whoever changes the program's SQL says here what it means.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import MySQLdb

from tests.simulation.server import (
    EXCLUSIVE,
    LOCKED_READ,
    LOCKED_WRITE,
    UUID,
    Name,
    Row,
    Server,
    Session,
    Unknown,
    fault,
    interval,
    numbers,
)

Rows = list[tuple[Any, ...]]
Handler = Callable[[Session, "re.Match[str]", Sequence[Any]], "Rows | int | None"]

_HANDLERS: list[tuple[re.Pattern[str], Handler]] = []
_ID: Final = r"`(\w+)`\.`(\w+)`"
_LEVEL: Final = re.compile(r"SESSION transaction_isolation ?= ?'([A-Z-]+)'")
_TEXT: Final = re.compile(r"_utf8mb4 X'([0-9a-fA-F]*)'")
_CALL: Final = re.compile(
    r"(GET_LOCK|IS_USED_LOCK|RELEASE_LOCK)\(_utf8mb4 X'([0-9a-f]*)'(?:, (\d+))?\)"
)


def statement(pattern: str) -> Callable[[Handler], Handler]:
    """Register what a statement does; the first pattern that matches whole counts."""

    def register(handler: Handler) -> Handler:
        _HANDLERS.append((re.compile(pattern, re.DOTALL), handler))
        return handler

    return register


@lru_cache(maxsize=50_000)
def _find(sql: str) -> tuple[Handler, re.Match[str]]:
    text = " ".join(sql.split())
    for pattern, handler in _HANDLERS:
        found = pattern.fullmatch(text)
        if found:
            return handler, found
    raise Unknown(f"the model server does not know: {text[:600]}")


def _known(server: Server, sql: str) -> tuple[Handler, re.Match[str]]:
    """Return what a statement does; the server notes one that nobody knows, whoever hides it."""
    try:
        return _find(sql)
    except Unknown as error:
        server.caught.append(str(error))
        raise


def _answer(
    session: Session, handler: Handler, found: re.Match[str], given: Sequence[Any]
) -> Rows | int | None:
    try:
        return handler(session, found, given)
    except Unknown as error:
        session.server.caught.append(str(error))
        raise


def execute(session: Session, sql: str, parameters: Sequence[Any]) -> tuple[Rows, int]:
    """Execute one statement; return its rows and the number of affected ones."""
    if session.gone:
        session.require_life()
    server = session.server
    handler, found = _known(server, sql)
    scheduler = server.scheduler
    scheduler.step()
    if session.role:
        _begin_ours(server, sql)
    if session.gone:
        session.require_life()
    task = session.waits = scheduler.current
    if task is not None:
        task.served = True
    session.begin(sql)
    try:
        answered = _answer(session, handler, found, parameters)
    except MySQLdb.Error:
        if session.alive and not session.open and session.committing is None:
            server.rollback(session)
        raise
    finally:
        session.doing = ""
        session.waits = None
        session.interrupted = False
        session.idle_since = scheduler.now
        if session.killed or (task is not None and task.doomed):
            server.end(session)
        if task is not None:
            task.served = False
            if task.doomed:
                scheduler.end_if_doomed(task)
    if session.gone:
        session.require_life()
    if isinstance(answered, int):
        return [], answered
    return answered or [], 0


#: A right is taken from the program's account, and given back.
REVOKE: Final = "revoke"
#: Rights that statements need on the tables that they name.
_RIGHTS: Final = (
    (r"LOCK TABLES ", ("LOCK TABLES", "SELECT")),
    (r"CREATE TABLE \S+ LIKE ", ("CREATE", "SELECT")),
    (r"CREATE TABLE ", ("CREATE",)),
    (r"DROP TABLE |TRUNCATE TABLE ", ("DROP",)),
    (r"RENAME TABLE ", ("ALTER", "DROP", "CREATE", "INSERT")),
    (r"ALTER TABLE ", ("ALTER",)),
    (r"(?:ANALYZE|OPTIMIZE) ", ("SELECT", "INSERT")),
    (r"INSERT .*\bSELECT\b", ("INSERT", "SELECT")),
    (r"INSERT .*ON DUPLICATE", ("INSERT", "UPDATE")),
    (r"INSERT ", ("INSERT",)),
    (r"REPLACE .*\bSELECT\b", ("INSERT", "DELETE", "SELECT")),
    (r"REPLACE ", ("INSERT", "DELETE")),
    (r"UPDATE ", ("UPDATE", "SELECT")),
    (r"DELETE ", ("DELETE", "SELECT")),
    (r"(?:SELECT|WITH) ", ("SELECT",)),
)


@lru_cache(maxsize=50_000)
def _rights(sql: str) -> tuple[str, ...]:
    """Return the rights on the schema that a statement needs."""
    text = " ".join(sql.split())
    if "`s`.`" not in text:
        return ()
    return next((rights for start, rights in _RIGHTS if re.match(start, text)), ())


def _begin_ours(server: Server, sql: str) -> None:
    """Count a statement of the program; refuse it where it has no right any more, from now on."""
    if server.counted is not None:
        server.counted()
    for right in _rights(sql) if server.revoked else ():
        if right in server.revoked:
            of_columns = right == "SELECT" and sql.startswith(("UPDATE", "DELETE"))
            server.happened.add(REVOKE)
            code = 1143 if of_columns else 1044 if right == "LOCK TABLES" else 1142
            raise fault(code, f"{right} command denied to user 'u'@'%'")


def answer(session: Session, sql: str, parameters: Sequence[Any]) -> tuple[Rows, int]:
    """Execute a statement that never waits, without a step of the scheduler."""
    session.require_life()
    handler, found = _known(session.server, sql)
    answered = _answer(session, handler, found, parameters)
    return ([], answered) if isinstance(answered, int) else (answered or [], 0)


def _nothing(_session: Session, _found: re.Match[str], _given: Sequence[Any]) -> None:
    return None


# -- a session's settings

for _pattern in (
    r"SET SESSION max_error_count=\d+",
    r"SET SESSION `sql_notes`=[01]",
    r"SET SESSION character_set_results = (?:binary|utf8mb4)",
    r"SET SESSION `?sql_mode`? ?=.*",
    r"SET SESSION `time_zone`=.*",
    r"SET SESSION information_schema_stats_expiry = 0",
    # A write in that format is known by its text.
    r"SET SESSION binlog_format = 'STATEMENT'",
    r"DO 0",
):
    statement(_pattern)(_nothing)


@statement(r"SET SESSION wait_timeout = (\d+)(?:, SESSION net_read_timeout = .*)?")
def _wait_timeout(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.wait_timeout = float(found[1])


@statement(r"SET NAMES .*")
def _prepare(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.row_wait, session.lock_wait, session.role, session.unchecked = _settings(found[0])
    _isolate(session, found, _)
    session.server.roles.add(session.role)


@statement(r"SET SESSION transaction_isolation = '[A-Z-]+'")
def _isolate(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    if level := _LEVEL.search(found[0]):
        session.repeats = level[1] == "REPEATABLE-READ"


@lru_cache(maxsize=10_000)
def _settings(text: str) -> tuple[float, float, str, bool]:
    """Return the waits for a row and for a table, the role, and whether no key is checked."""
    row = float(re.search(r"innodb_lock_wait_timeout=(\d+)", text)[1])  # type: ignore[index]
    table = float(re.search(r"SESSION lock_wait_timeout=(\d+)", text)[1])  # type: ignore[index]
    role = re.search(r"@spirit_py_role=_utf8mb4 X'(\w+)'", text)
    return (
        row,
        table,
        bytes.fromhex(role[1]).decode() if role else "",
        "foreign_key_checks=0" in text,
    )


@statement(r"SET SESSION lock_wait_timeout = (\d+)")
def _lock_wait(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.lock_wait = float(found[1])


@statement(r"SET SESSION sql_log_bin = ([01])")
def _log_bin(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.logged = found[1] == "1"


@statement(r"USE `(\w+)`")
def _use(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.schema = found[1]


_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    (
        "SELECT @@SESSION.binlog_row_image, @@SESSION.innodb_strict_mode,"
        " @@SESSION.sql_require_primary_key"
    ): ("FULL", 1, 0),
    "SELECT @@SESSION.max_allowed_packet": (67_108_864,),
    "SELECT @@SESSION.max_user_connections": (0,),
    "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.lower_case_table_names": ("ON", 0),
    "SELECT @@version": ("9.7.4",),
    "SELECT VERSION()": ("9.7.4",),
    "SELECT @@GLOBAL.performance_schema": (1,),
    "SELECT @@GLOBAL.sql_mode": ("ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES",),
    "SELECT @@SESSION.sql_mode": ("",),
    "SELECT @@SESSION.sql_mode, @@SESSION.time_zone": ("", "SYSTEM"),
}


@statement("|".join(re.escape(text) for text in _VALUES))
def _value(_: Session, found: re.Match[str], __: Sequence[Any]) -> Rows:
    return [_VALUES[found[0]]]


@statement(r"SELECT @@(?:GLOBAL\.)?server_uuid(, @@GLOBAL\.gtid_mode)?")
def _uuid(session: Session, found: re.Match[str], __: Sequence[Any]) -> Rows:
    return [(session.server.uuid, "ON") if found[1] else (session.server.uuid,)]


@statement(r"SHOW WARNINGS")
def _warnings(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    return list(session.warnings)


@statement(r"SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema\.COLLATIONS")
def _collations(*_: Any) -> Rows:
    return [(63, "binary", "binary"), (255, "utf8mb4", "utf8mb4_0900_ai_ci")]


@statement(r"SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
def _foreign_keys(*_: Any) -> Rows:
    return [("innodb_native_foreign_keys", "OFF")]


@statement(r"XA RECOVER(?: CONVERT XID)?")
def _recover(session: Session, *_: Any) -> Rows:
    return [(1, len(xid), 0, f"0x{xid.encode().hex()}") for xid in session.server.prepared]


# -- named locks and other sessions


@statement(r"SELECT (?:(?:GET_LOCK|IS_USED_LOCK|RELEASE_LOCK)\([^()]*\)(?:, )?)+")
def _locks(session: Session, found: re.Match[str], given: Sequence[Any]) -> Rows:
    server = session.server
    function, calls = _calls(found[0])
    if not calls:
        return [(_call(server, session, function, given),)]
    if function == "IS_USED_LOCK":
        # Of all slots of a run, in one statement.
        named = server.named
        return [tuple([named[n][0].number if n in named else None for _, (n, *_) in calls])]
    return [tuple([_call(server, session, function, more) for function, more in calls])]


@lru_cache(maxsize=50_000)
def _calls(text: str) -> tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return the functions of named locks in a statement, and what each is given.

    Before them the only function that there is; empty for several.
    """
    calls = tuple(
        (function, (bytes.fromhex(name).decode(), *((seconds,) if seconds else ())))
        for function, name, seconds in _CALL.findall(text)
    )
    functions = {function for function, _ in calls} or {text.split()[1].partition("(")[0]}
    return functions.pop() if len(functions) == 1 else "", calls


def _call(server: Server, session: Session, function: str, given: Sequence[Any]) -> int | None:
    if function == "IS_USED_LOCK":
        return server.holder(str(given[0]))
    if function == "GET_LOCK":
        return server.take_named(session, str(given[0]), float(given[1]))
    return server.release_named(session, str(given[0]))


@statement(r"SELECT IF\(GET_LOCK\(%s, %s\), IF\(IS_USED_LOCK\(%s\) IS NULL, -1, 1\), 0\)")
def _chunk_lock(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    lock, seconds, licence = given
    if not session.server.take_named(session, lock, float(seconds)):
        return [(0,)]
    return [(-1 if session.server.holder(licence) is None else 1,)]


@statement(r"SELECT RELEASE_LOCK\(%s\) IS NOT NULL AND IS_USED_LOCK\(%s\) = CONNECTION_ID\(\)")
def _release(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    released = session.server.release_named(session, given[0])
    return [(int(released is not None and session.server.holder(given[1]) == session.number),)]


@statement(r"KILL (?:(CONNECTION|QUERY) )?(\d+)")
def _kill(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    if found[1] == "QUERY":
        session.server.kill_query(int(found[2]))
    else:
        session.server.kill(int(found[2]))


# -- the binlog


@statement(r"SELECT WAIT_FOR_EXECUTED_GTID_SET\(%s, %s\)")
def _wait_for(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    server = session.server
    wanted = numbers(str(given[0]))
    arrived = server.wait_until(
        session,
        f"the transactions {given[0]}",
        lambda: wanted.issubset(server.executed()),
        float(given[1]),
    )
    return [(0 if arrived else 1,)]


@statement(r"SELECT GTID_SUBTRACT\(%s, @@GLOBAL\.gtid_executed\)")
def _missing(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [(interval(numbers(str(given[0])) - set(session.server.executed())),)]


@statement(
    r"SELECT @@GLOBAL\.server_uuid, @@GLOBAL\.gtid_executed, CAST\(UNIX_TIMESTAMP\(\) AS SIGNED\)"
    r" - CAST\(CAST\(VARIABLE_VALUE AS UNSIGNED\) AS SIGNED\), .* WHERE VARIABLE_NAME = 'Uptime'"
)
def _life(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    server = session.server
    engine, log = (2 if server.relaxed == "engine" else 1), (0 if server.relaxed == "log" else 1)
    action = "IGNORE_ERROR" if server.forgives else "ABORT_SERVER"
    life = server.uuid, interval(server.executed()), server.started
    return [(*life, engine, log, action, "ON", "", 1)]


@statement(r"SELECT @@GLOBAL\.gtid_owned")
def _owned(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    found = [f"{one.number}#{one.session}" for one in session.server.binlog if not one.visible]
    return [(f"{UUID}:{':'.join(found)}" if found else "",)]


@statement(r"SELECT @@GLOBAL\.gtid_executed, @@GLOBAL\.gtid_purged")
def _purged(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    return [(interval(session.server.executed()), "")]


@statement(r"SHOW (?:BINARY LOG|MASTER) STATUS")
def _status(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    server = session.server
    if not server.logs:
        return []
    return [(*server.log_end, "", server.ignored, interval(server.executed()))]


# -- rows


#: The condition that a row goes to one of several targets of a move, by what a column leaves over.
_SHARD: Final = re.compile(
    r"\(\(CASE \((?:`\w+`\.`\w+`\.)?(`\w+`) % (\d+)\) (.*?) ELSE UUID_TO_BIN\(.*? END\) IS TRUE\)"
)


def _of_shard(found: re.Match[str]) -> str:
    ((name,),) = [re.findall(r"X'(\w+)' THEN TRUE", found[3])]
    return f"({found[1]} % {found[2]} = {bytes.fromhex(name).decode()})"


#: What decides whether a row is kept: an expression that is true, or at least not false.
_JUDGED: Final = re.compile(
    r"\(\((\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\) IS (TRUE|NOT FALSE)\)"
)
_IS_NULL: Final = re.compile(r"\((?:`\w+`\.){0,2}(`\w+`) is null\)")
_QUALIFIED: Final = re.compile(r"`\w+`\.`\w+`\.(`\w+`)")


def _judged(found: re.Match[str]) -> str:
    """Write an expression in Python: one column IS NULL, or operators of which NULL makes NULL."""
    text, names = found[1], "|".join(sorted(set(re.findall(r"`\w+`(?!\.)", found[1]))))
    if null := _IS_NULL.fullmatch(text):
        return f"({null[1]} is None)"
    if re.search(r"[A-Za-z]", re.sub(r"`\w+`\.?", "", text)):
        raise Unknown(f"the model server does not know the expression: {text}")
    text = _QUALIFIED.sub(r"\1", text)
    known = " and ".join(f"{name} is not None" for name in names.split("|"))
    if found[2] == "TRUE":
        return f"({known} and {text})"
    return f"(not ({known}) or {text})"


@cache
def _predicate(text: str, columns: tuple[str, ...]) -> Callable[[Row], bool]:
    """Compile a WHERE clause of comparisons of columns with whole numbers."""
    source = re.sub(r"`r`\.", "", text)
    source = _SHARD.sub(_of_shard, source)
    source = _JUDGED.sub(_judged, source) if " IS " in source else source
    source = re.sub(
        r"\((`\w+`)\) IN \(((?:\(-?\d+\)(?:, )?)+)\)",
        lambda found: " OR ".join(f"{found[1]} = {n}" for n in re.findall(r"-?\d+", found[2])),
        source,
    )
    source = re.sub(r"`(\w+)`", lambda found: f"row[{columns.index(found[1])}]", source)
    source = re.sub(r"(?<![<>!])=", "==", source)
    source = source.replace(" AND ", " and ").replace(" OR ", " or ").replace("TRUE", "True")
    if re.search(r"[A-Za-z_]{2,}", re.sub(r"\b(row|and|or|not|is|True|None)\b", "", source)):
        raise Unknown(f"the model server does not know the condition: {text}")
    code: Callable[[Row], bool] = eval(f"lambda row: {source}")  # noqa: S307
    return code


def _selected(session: Session, name: Name, where: str) -> Iterator[Row]:
    rows = session.server.read(session, name)
    holds = _predicate(where, session.server.table(name).columns)
    return (rows[key] for key in sorted(rows) if holds(rows[key]))


def read_to_write(session: Session, name: Name, where: str) -> list[Row]:
    """Return the rows that a statement writes elsewhere, locked where its level wants that."""
    rows = list(_selected(session, name, where))
    if not session.repeats:
        return rows
    session.server.lock_rows(session, name, [row[0] for row in rows])
    return list(_selected(session, name, where))


#: What decides, behind the range of the key, which rows are kept.
_KEPT: Final = re.compile(r" AND \(\(.* IS .*\)")


@statement(
    rf"REPLACE INTO {_ID} \(([^()]*)\) SELECT ([^()]*) FROM {_ID}"
    r" FORCE INDEX \(`PRIMARY`\) WHERE (.*)"
)
def _copy(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server = session.server
    into, source = (found[1], found[2]), (found[5], found[6])
    old = [server.table(source).columns.index(one) for one in re.findall(r"`(\w+)`", found[4])]
    if " IS " in found[7]:
        within = _KEPT.sub("", found[7])
        session.read_next += sum(1 for _ in _selected(session, source, within))
    copied = [tuple(row[at] for at in old) for row in read_to_write(session, source, found[7])]
    number = _replace(session, into, re.findall(r"`(\w+)`", found[3]), copied)
    session.info = f"Records: {len(copied)}  Duplicates: 0  Warnings: 0"
    server.end_statement(session)
    return number


@statement(rf"REPLACE INTO {_ID} \((`[^()]*)\) VALUES (.*)")
def _write(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    names = re.findall(r"`(\w+)`", found[3])
    number = _replace(session, (found[1], found[2]), names, _tuples(found[4]))
    session.server.end_statement(session)
    return number


@lru_cache(maxsize=10_000)
def _tuples(text: str) -> tuple[Row, ...]:
    return tuple(
        tuple(None if value.strip() == "NULL" else int(value) for value in one.split(","))
        for one in re.findall(r"\(([^()]*)\)", text)
    )


def _replace(session: Session, name: Name, names: list[str], rows: Iterable[Row]) -> int:
    """REPLACE rows; columns that are not named are NULL."""
    given = list(rows)

    def changing(_: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        # The table that has the name when its lock is there.
        columns = session.server.table(name).columns
        at = [names.index(column) if column in names else -1 for column in columns]
        for row in given:
            new = tuple(row[i] if i >= 0 else None for i in at)
            yield new[0], new

    return session.server.write(session, name, changing)


def _add(session: Session, name: Name, names: list[str], rows: Iterable[Row]) -> int:
    """INSERT rows; 1062 for one whose key, or unique value, is there."""
    given = list(rows)

    def changing(there: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        for row in given:
            new = dict(zip(names, row, strict=True))
            key, *_ = values = tuple(map(new.get, session.server.table(name).columns))
            if key in there:
                raise fault(1062, f"Duplicate entry '{key}' for key '{name[1]}.PRIMARY'")
            yield key, values

    return session.server.write(session, name, changing, replacing=False)


_STAGE: Final = r"`(\w+)`\.`(_spirit_py_stage_rows)`"


@statement(
    rf"INSERT INTO {_STAGE} \(([^()]*)\) SELECT [^()]* FROM {_ID}"
    r" FORCE INDEX \(`PRIMARY`\) WHERE (.*)"
)
def _stage(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """Put rows of the source into the session's temporary table."""
    source = (found[4], found[5])
    at = [session.server.table(source).columns.index(c) for c in re.findall(r"`(\w+)`", found[3])]
    rows = [tuple(row[i] for i in at) for row in read_to_write(session, source, found[6])]
    session.temporary[found[1], found[2]].rows = dict(enumerate(rows))
    session.server.end_statement(session)
    return len(rows)


@statement(rf"REPLACE INTO {_ID} \(([^()]*)\) SELECT [^()]* FROM {_STAGE} ORDER BY `\w+`")
def _write_stage(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    rows = session.temporary[found[4], found[5]].rows.values()
    number = _replace(session, (found[1], found[2]), re.findall(r"`(\w+)`", found[3]), list(rows))
    session.server.end_statement(session)
    return number


_STAGED: Final = r"`(\w+)`\.`(_spirit_py_stage_(?:keys|rows|new_keys|row_keys))`"


@statement(rf"INSERT INTO {_STAGED} \(([^()]*)\) VALUES (.*?)(?: ON DUPLICATE KEY UPDATE .*)?")
def _fill_stage(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """Stage rows by their number, or the latest number of each key."""
    rows = session.temporary[found[1], found[2]].rows
    new = list(_tuples(found[4]))
    by_key = found[2].endswith("_keys")
    rows.update({row[1] if by_key else row[0]: row for row in new})
    return len(new)


@statement(r"SET SESSION autocommit = ([01])")
def _autocommit(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    if found[1] == "1":
        session.server.commit(session)
    session.open = found[1] == "0"


@statement(rf"DELETE FROM {_ID} WHERE \(`(\w+)`\) IN \(((?:\(-?\d+\)(?:, )?)+)\)(?: AND (.*))?")
def _delete(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    keys = [row[0] for row in _tuples(found[4])]
    number = delete_of(session, (found[1], found[2]), keys, found[5])
    session.server.end_statement(session)
    return number


def delete_of(session: Session, name: Name, keys: Iterable[Any], where: str | None) -> int:
    """Delete the rows of keys, of one source where a condition says so."""
    own = _predicate(where or "TRUE", session.server.table(name).columns)
    return session.server.write(
        session, name, lambda rows: ((key, None) for key in keys if key in rows and own(rows[key]))
    )


@statement(
    rf"SELECT `(\w+)` FROM {_ID} FORCE INDEX \(`PRIMARY`\) WHERE (.*)"
    r" ORDER BY `\w+`( DESC)? LIMIT 1(?: OFFSET (\d+))?"
)
def _boundary(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[2], found[3])
    at = session.server.table(name).columns.index(found[1])
    keys = [row[at] for row in _selected(session, name, found[4])]
    if found[5]:
        keys.reverse()
    session.server.end_statement(session)
    offset = int(found[6] or 0)
    return [(key,) for key in keys[offset : offset + 1]]


@statement(
    rf"SELECT COUNT\(\*\), HEX\(BIT_XOR\(UNHEX\(SHA2\(CONCAT\((.*)\), 256\)\)\)\) FROM {_ID} AS `r`"
    r" FORCE INDEX \(`PRIMARY`\) WHERE (.*)"
)
def _hash(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[2], found[3])
    columns = session.server.table(name).columns
    at = [columns.index(column) for column in re.findall(r"`r`\.`(\w+)`", found[1])]
    if seconds := session.server.reading():
        session.server.wait_until(session, "a chunk that is read", lambda: False, seconds)
    number = digest = 0
    for row in _selected(session, name, found[4]):
        number += 1
        digest ^= _digest(tuple(row[i] for i in at))
    session.server.end_statement(session)
    return [(number, f"{digest:064X}")]


@lru_cache(maxsize=10_000)
def _digest(values: Row) -> int:
    return int.from_bytes(hashlib.sha256(repr(values).encode()).digest(), "big")


@statement(rf"SELECT `r`\.`(\w+)`, (?:IFNULL\(.*\)|`r`\.`\w+`)(?:, .*)? FROM {_ID} AS `r` .*")
def _values_of_rows(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    """The columns of rows that differ: only examples for a report."""
    return []


@statement(
    rf"SELECT `r`\.`(\w+)`, SHA2\(CONCAT\((.*)\), 256\), `r`\.`\w+` FROM {_ID} AS `r`"
    r" FORCE INDEX \(`PRIMARY`\) WHERE (.*?)(?: ORDER BY .*)?"
)
def _hashes(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[3], found[4])
    columns = session.server.table(name).columns
    at = [columns.index(column) for column in re.findall(r"`r`\.`(\w+)`", found[2])]
    rows = list(_selected(session, name, found[5]))
    session.server.end_statement(session)
    return [(row[0], f"{_digest(tuple(row[i] for i in at)):064x}", row[0]) for row in rows]


@statement(rf"SELECT COUNT\(\*\) FROM {_ID}(?: AS `r` FORCE INDEX \(`PRIMARY`\) WHERE (.*))?")
def _count(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    number = sum(1 for _ in _selected(session, (found[1], found[2]), found[3] or "TRUE"))
    session.server.end_statement(session)
    return [(number,)]


@statement(rf"SELECT 1 FROM {_ID} LIMIT 1(?: FOR SHARE NOWAIT)?")
def _any(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    rows = session.server.read(session, (found[1], found[2]))
    session.server.end_statement(session)
    return [(1,)] if rows else []


@statement(r"(?:BEGIN|START TRANSACTION)")
def _begin(session: Session, *_: Any) -> None:
    if session.lock_tables is not None:
        session.server.commit(session)
        session.server.unlock_tables(session)
    session.open = True


@statement(r"START TRANSACTION WITH CONSISTENT SNAPSHOT(?:, READ ONLY)?")
def _snapshot(session: Session, *given: Any) -> None:
    _begin(session, *given)
    session.server.begin_snapshot(session)


@statement(r"COMMIT")
def _commit(session: Session, *_: Any) -> None:
    session.server.commit(session)


@statement(r"ROLLBACK")
def _rollback(session: Session, *_: Any) -> None:
    session.server.rollback(session)


# -- locks and names of tables


@statement(rf"LOCK TABLES ((?:{_ID} (?:READ|WRITE)(?:, )?)+)")
def _lock_tables(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    server = session.server
    server.commit(session)
    server.unlock_tables(session)
    wanted = {
        (schema, name): LOCKED_WRITE if kind == "WRITE" else LOCKED_READ
        for schema, name, kind in re.findall(rf"{_ID} (READ|WRITE)", found[1])
    }
    try:
        # In the order of their names, as the server takes them.
        for name in sorted(wanted):
            server.lock_table(session, name, wanted[name])
    except BaseException:
        server.unlock_tables(session)
        raise
    session.lock_tables = wanted


@statement(r"UNLOCK TABLES")
def _unlock_tables(session: Session, *_: Any) -> None:
    session.server.unlock_tables(session)


@statement(rf"SELECT 1 FROM {_ID} AS spirit_py_probe LIMIT 0")
def _probe(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    if session.lock_tables is not None:
        raise fault(1100, "Table 'spirit_py_probe' was not locked with LOCK TABLES")
    session.server.table((found[1], found[2]))
    return []


@statement(rf"RENAME TABLE ((?:{_ID} TO {_ID}(?:, )?)+)")
def _rename(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    server = session.server
    pairs = [((a, b), (c, d)) for a, b, c, d in re.findall(rf"{_ID} TO {_ID}", found[1])]
    server.rename(session, pairs, found[0])
    if session.lock_tables is not None:
        renamed = dict(pairs)
        session.lock_tables = {
            renamed.get(name, name): mode for name, mode in session.lock_tables.items()
        }
    else:
        server.end_statement(session)


@statement(rf"ALTER TABLE {_ID} (ADD|DROP) COLUMN `_spirit_py_guard`.*, ALGORITHM=INSTANT")
def _guard(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    """Older snapshots cannot read the table any more."""
    server = session.server
    name = (found[1], found[2])
    if session.lock_tables is None:
        server.lock_table(session, name, EXCLUSIVE)
    table = server.table(name)

    server.ddl(session, found[0], lambda: server.outdate_snapshots(table))
    server.end_statement(session)


@statement(
    r"SELECT TABLE_NAME FROM information_schema\.TABLES"
    r" WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN \([%s, ]+\)"
)
def _names(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    schema, *wanted = given
    return [(name,) for name in wanted if (schema, name) in session.server.tables]


@statement(
    r"SELECT COLUMN_NAME, COLUMN_COMMENT FROM information_schema\.COLUMNS"
    r" WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
def _columns(session: Session, _: re.Match[str], given: Sequence[Any]) -> Rows:
    return [(name, "") for name in session.server.table(tuple(given)).columns]


@statement(r"SELECT MAX\(TOTAL_ROW_VERSIONS\) FROM information_schema\.INNODB_TABLES .*")
def _versions(*_: Any) -> Rows:
    return [(0,)]


@statement(r"SELECT trx_mysql_thread_id, age FROM \( .*")
def _old_transactions(*_: Any) -> Rows:
    return []


@statement(r"SELECT ENABLED, EXISTS .* FROM performance_schema\.setup_instruments .*")
def _instruments(*_: Any) -> Rows:
    return [("YES", 1, "0")]


@statement(r"SELECT 1 FROM performance_schema\.threads WHERE PROCESSLIST_ID = CONNECTION_ID\(\)")
def _sees_threads(*_: Any) -> Rows:
    return [(1,)]


@statement(r"SHOW GLOBAL STATUS LIKE 'Performance_schema_thread_instances_lost'")
def _lost_threads(*_: Any) -> Rows:
    return [("Performance_schema_thread_instances_lost", "0")]


@statement(
    r"SELECT (COUNT\(\*\)|PROCESSLIST_ID) FROM performance_schema\.threads"
    r" WHERE PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= %s"
    r" AND PROCESSLIST_ID IN \(([0-9, ]*)\)"
)
def _idle(session: Session, found: re.Match[str], given: Sequence[Any]) -> Rows:
    server = session.server
    asked = {int(number) for number in found[2].split(",")}
    idle = [
        one.number
        for one in server.sessions.values()
        if one.number in asked
        and one.waits is None
        and server.scheduler.now - one.idle_since >= float(given[0])
    ]
    return [(len(idle),)] if found[1].startswith("COUNT") else [(number,) for number in idle]


@statement(r"SHOW (?:FULL )?PROCESSLIST")
def _processlist(session: Session, _: re.Match[str], __: Sequence[Any]) -> Rows:
    return [
        (one.number, "u", "sim:1", None, "Query" if one.waits else "Sleep", 0, "", one.doing)
        for one in session.server.sessions.values()
    ]


for _pattern in (
    # No table has a foreign key, a trigger or a histogram.
    r"SELECT r\.CONSTRAINT_SCHEMA, .*",
    r"SELECT f\.ID, .*",
    r"SELECT (?:TRIGGER_NAME|EVENT_OBJECT_SCHEMA), .*",
    r"SELECT COLUMN_NAME, HISTOGRAM .*",
):
    statement(_pattern)(_nothing)


# -- what applications send


@statement(rf"INSERT (IGNORE )?INTO {_ID} \((?!record\))([^()]*)\) VALUES (.*)")
def _insert(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[2], found[3])
    named = re.findall(r"`(\w+)`", found[4])
    new = [dict(zip(named, row, strict=True)) for row in _tuples(found[5])]

    def changing(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        columns = server.table(name).columns
        for row in new:
            key = row[columns[0]]
            if key not in rows:
                yield key, tuple(row.get(column) for column in columns)
            elif not found[1]:
                raise fault(1062, f"Duplicate entry '{key}' for key '{name[1]}.PRIMARY'")

    number = server.write(session, name, changing)
    server.end_statement(session)
    return number


@statement(rf"UPDATE {_ID} SET `(\w+)` = (\d+) WHERE (.*)")
def _update(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[1], found[2])

    def changing(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        columns = server.table(name).columns
        at, value, holds = columns.index(found[3]), int(found[4]), _predicate(found[5], columns)
        for key, row in rows.items():
            if holds(row):
                yield key, (*row[:at], value, *row[at + 1 :])

    number = server.write(session, name, changing)
    server.end_statement(session)
    return number


@statement(rf"DELETE FROM {_ID} WHERE (`\w+` = \d+)")
def _delete_where(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[1], found[2])

    def changing(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        holds = _predicate(found[3], server.table(name).columns)
        return ((key, None) for key, row in rows.items() if holds(row))

    number = server.write(session, name, changing)
    server.end_statement(session)
    return number


@statement(rf"SELECT ((?:`\w+`(?:, )?)+) FROM {_ID}(?: WHERE ((?:(?! GROUP | ORDER ).)*))?")
def _select(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    name = (found[2], found[3])
    rows = list(_selected(session, name, found[4] or "TRUE"))
    columns = session.server.table(name).columns
    at = [columns.index(column) for column in re.findall(r"`(\w+)`", found[1])]
    session.server.end_statement(session)
    return [tuple(row[i] for i in at) for row in rows]


#: Clients of the model, and the world itself, send these shorter forms.


@statement(r"world note (\w+)")
def _note(session: Session, found: re.Match[str], given: Sequence[Any]) -> None:
    session.server.notes[found[1]] = given[0]


@statement(r"world create (\w+)\.(\w+) (.*)")
def _create(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    server, name = session.server, (found[1], found[2])
    if name in server.tables:
        server.lock_table(session, name, EXCLUSIVE)
    server.create(name, tuple(found[3].split(",")))
    server.end_statement(session)


@statement(r"client (insert|update|delete) (\w+)\.(\w+) (.*)")
def _client(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    server, name = session.server, (found[2], found[3])
    values = tuple(None if value == "NULL" else int(value) for value in found[4].split(","))

    def changing(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        if found[1] == "insert" and values[0] not in rows:
            yield values[0], values + (None,) * (len(server.table(name).columns) - len(values))
        elif found[1] == "update" and values[0] in rows:
            old = rows[values[0]]
            yield values[0], (values[0], *values[1:], *old[len(values) :])
        elif found[1] == "delete" and values[0] in rows:
            yield values[0], None

    number = server.write(session, name, changing, replacing=False)
    server.end_statement(session)
    return number


@statement(r"client key (\w+)\.(\w+) (\d+),(\d+)")
def _change_key(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """UPDATE of a row's key; nothing where there is no such row."""
    server, name, old, new = session.server, (found[1], found[2]), int(found[3]), int(found[4])

    def changing(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        if old in rows:
            yield old, (new, *rows[old][1:])

    number = server.write(session, name, changing, replacing=False)
    server.end_statement(session)
    return number


@statement(r"client move (\w+)\.(\w+) (\d+),(\d+)")
def _move(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """Give the value of one row to another: two statements of a transaction."""
    server, name, one, other = session.server, (found[1], found[2]), int(found[3]), int(found[4])
    moved: list[Any] = []

    def take(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        moved[:] = [rows[one][1]] if one in rows and other in rows and one != other else []
        if moved:
            yield one, (one, None, *rows[one][2:])

    def give(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        if moved and other in rows:
            yield other, (other, moved[0], *rows[other][2:])

    session.open, before = True, session.open
    number = server.write(session, name, take, replacing=False)
    number += server.write(session, name, give, replacing=False)
    session.open = before
    server.end_statement(session)
    return number


@statement(r"XA START '(\w+)'")
def _start_xa(session: Session, *_: Any) -> None:
    session.open = True


@statement(r"XA END '(\w+)'")
def _end_xa(session: Session, *_: Any) -> None:
    return None


@statement(r"(?:client prepare (\w+)|XA PREPARE '(\w+)')")
def _prepare_xa(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.server.prepare(session, found[1] or found[2])


@statement(r"XA (COMMIT|ROLLBACK) '(\w+)'")
def _decide(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.server.decide(session, found[2], found[1])


@statement(r"client trade (\w+)\.(\w+) (\d+),(\d+)")
def _trade(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """Exchange the values of two rows, which both have one of them in between."""
    server, name, one, other = session.server, (found[1], found[2]), int(found[3]), int(found[4])
    values: list[Any] = []

    def give(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        there = one in rows and other in rows and one != other
        values[:] = [rows[one][1], rows[other][1]] if there else []
        if values:
            yield other, (other, values[0], *rows[other][2:])

    def take(rows: dict[Any, Row]) -> Iterator[tuple[Any, Row | None]]:
        if values and one in rows:
            yield one, (one, values[1], *rows[one][2:])

    session.open, before = True, session.open
    number = server.write(session, name, give) + server.write(session, name, take)
    session.open = before
    server.end_statement(session)
    return number


@statement(r"client decide (\w+) (COMMIT|ROLLBACK)")
def _decide_xa(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.server.decide(session, found[1], found[2])


@statement(rf"TRUNCATE TABLE {_ID}")
def _truncate(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    session.server.replace_rows(session, (found[1], found[2]), {}, found[0])
    session.server.end_statement(session)


@statement(r"dba restore (\w+)\.(\w+)")
def _restored(session: Session, found: re.Match[str], given: Sequence[Any]) -> None:
    """DROP TABLE, CREATE TABLE and INSERT of a dump, as one statement."""
    server, name = session.server, (found[1], found[2])
    server.replace_rows(session, name, given[0], "DROP TABLE t; CREATE TABLE t; INSERT INTO t")
    server.end_statement(session)


@statement(rf"OPTIMIZE TABLE {_ID}")
def _optimize(session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
    """The table is built again: the same rows, another number."""
    server, name = session.server, (found[1], found[2])
    server.lock_table(session, name, EXCLUSIVE)
    rows = dict(server.table(name).rows)
    server.replace_rows(session, name, rows, found[0], logged_late=True)
    server.end_statement(session)


@statement(rf"UPDATE {_ID} SET v = (\d+) WHERE id = (\d+)")
def _statement_write(session: Session, found: re.Match[str], _: Sequence[Any]) -> int:
    """A write whose text is in the binlog, in the place of its rows."""
    server, name, key = session.server, (found[1], found[2]), int(found[4])
    number = server.write(
        session,
        name,
        lambda rows: [(key, (key, int(found[3]), *rows[key][2:]))] if key in rows else [],
    )
    server.commit(session, text=found[0])
    return number


_GRANTED: Final = {
    "SR": "SHARED_READ",
    "SW": "SHARED_WRITE",
    "SRO": "SHARED_READ_ONLY",
    "SNRW": "SHARED_NO_READ_WRITE",
    "X": "EXCLUSIVE",
}


@statement(r"SELECT g\.OWNER_THREAD_ID, .*")
def _in_front(session: Session, found: re.Match[str], given: Sequence[Any]) -> Rows:
    """Sessions that hold a lock on a table, or wait for a strong one."""
    server = session.server
    if given:
        waiter = server.sessions.get(given[0])
        tables = {t: "" for t in server.tables.values() if any(p[0] is waiter for p in t.queue)}
    else:
        waiter, tables = session, {}
        parts = re.findall(
            r"OBJECT_SCHEMA = _utf8mb4 X'(\w+)' AND OBJECT_NAME = _utf8mb4 X'(\w+)'"
            r" AND \(LOCK_STATUS = 'GRANTED' AND LOCK_TYPE NOT IN \(([^)]*)\)",
            found[0],
        )
        for schema, name, allowed in parts:
            table = server.tables.get(
                (bytes.fromhex(schema).decode(), bytes.fromhex(name).decode())
            )
            if table is not None:
                tables[table] = allowed
    seen: dict[Session, bool] = {}
    for table, allowed in tables.items():
        for holder, modes in table.granted.items():
            if any(f"'{_GRANTED[mode]}'" not in allowed for mode in modes):
                seen.setdefault(holder, False)
        if not given:
            for other, mode, _ in table.queue:
                if mode in {"SRO", "SNRW", "X"}:
                    seen[other] = True
    now = server.scheduler.now
    return [
        (
            *(one.number, 1, one.number, "u", "h", "s", "Query" if one.waits else "Sleep"),
            *(int(now - one.idle_since), "", "thread/sql/one_connection", now - one.began, asks),
        )
        for one, asks in seen.items()
        if one is not waiter
    ]


@statement(r"SELECT OWNER_THREAD_ID, OBJECT_TYPE, LOCK_TYPE FROM .* IN \(([0-9, ]+)\)")
def _held(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    asked = {int(number) for number in found[1].split(",")}
    return [
        (holder.number, "TABLE", _GRANTED[mode])
        for table in session.server.tables.values()
        for holder, modes in table.granted.items()
        if holder.number in asked
        for mode in modes
    ]


@statement(r"SELECT trx_mysql_thread_id, trx_rows_modified, trx_started, .* IN \(([0-9, ]+)\)")
def _modified(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    asked = {int(number) for number in found[1].split(",")}
    sessions = session.server.sessions
    there = [number for number in asked if number in sessions]
    return [(number, len(sessions[number].changes), "", 0) for number in there]


@statement(r"client read (\w+)\.(\w+)")
def _client_read(session: Session, found: re.Match[str], _: Sequence[Any]) -> Rows:
    rows = session.server.read(session, (found[1], found[2]))
    session.server.end_statement(session)
    return list(rows.values())

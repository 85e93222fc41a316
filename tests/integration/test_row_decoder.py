"""The row decoder against a real server: what it renders is stored as the same value (R5, R9).

``SPIRIT_PY_SEED`` replays a run, ``SPIRIT_PY_FUZZ_ROWS`` sets the rows of each family.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import struct
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import MySQLdb
import pytest

import raw_events
from spirit_py.binlog.codec.jsonb import timestamp_sql
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.codec.scalars import CODECS
from spirit_py.binlog.codec.tablemap import parse_table_map
from spirit_py.binlog.wire import PARTIAL_UPDATE_ROWS
from spirit_py.errors import SchemaChanged, UnreadableChange
from spirit_py.mysql.tables.definition import read_table
from spirit_py.sql import identifier_list
from spirit_py.table.keys import comparable
from spirit_py.table.values import (
    bound_from_key,
    bound_from_row,
    key_select_expressions,
    row_key_sql,
)
from tests.kits.draw import seed_of
from tests.kits.row_families import FAMILIES, KEYS, LEAVES, family_for
from tests.kits.tables import map_table, open_session

SEED = seed_of("SPIRIT_PY_SEED")
ROWS = int(os.environ.get("SPIRIT_PY_FUZZ_ROWS", "240"))
BATCH, PORTION = 40, 2000
_DECIMAL_IN_JSON = re.compile(r"CAST\((-?\d+\.\d+) AS DECIMAL\(\d+,\d+\)\)")
LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"


class Recorder:
    """Reads the raw row events of the server from the binlog, from its creation on."""

    def __init__(self, db):
        self._schema = db.name
        self._connect = lambda: raw_events.connect(
            db.server.host, db.server.port, db.server.user, db.server.password
        )
        with closing(self._connect()) as reader:
            self._start = raw_events.position(reader)

    def events(self):
        """Return the table maps and rows events since the last call, of all schemas, in order."""
        wanted = {raw_events.TABLE_MAP, PARTIAL_UPDATE_ROWS, *raw_events.ROWS}
        with closing(self._connect()) as reader:
            end = raw_events.position(reader)
            events = raw_events.read_events(reader, self._start)
            found = [event for event in events if event.type in wanted]
        self._start = end
        return found

    def changes(self, compilers):
        """Return ``(table, change)`` of the tables that ``compilers`` names."""
        codecs, followed, found = {}, {}, []
        for event in self.events():
            table_id, shape = event.body[:6], event.body[6:]
            if event.type == raw_events.TABLE_MAP:
                table_map = parse_table_map(event.body)
                ours = table_map.schema == self._schema and table_map.table in compilers
                if ours and shape not in codecs:
                    codecs[shape] = compilers[table_map.table](table_map)
                followed[table_id] = codecs[shape] if ours else None
            elif codec := followed[table_id]:
                rows = codec.rows(event.type, event.body)
                found += [(codec.schema.name, change) for change in rows]
        return found


def last_table_map(db, recorder):
    """Return the last table map of the test's schema."""
    events = [e for e in recorder.events() if e.type == raw_events.TABLE_MAP]
    return [m for m in (parse_table_map(e.body) for e in events) if m.schema == db.name][-1]


def definition_of(db):
    """Read the definition of table ``t``."""
    with open_session(db) as session:
        schema = read_table(session, db.name, "t")
    assert schema is not None
    return schema


def apply(db, mapping, changes):
    """Apply changes as the program does: in order, staged rows without strict mode."""
    names = identifier_list(pair.new.name for pair in mapping.pairs)
    keys = identifier_list(mapping.new_key_columns)
    with open_session(db) as session, open_session(db) as loose:
        loose.execute(LOOSE)

        def write(rows):
            if rows:
                chosen = loose if rows[0].staged else session
                values = ", ".join(row.sql for row in rows)
                chosen.execute(f"REPLACE INTO _t_new ({names}) VALUES {values}")
                assert rows[0].staged or not session.warning_count, (session.warnings(), rows)

        rows: list[Any] = []
        for change in changes:
            gone = change.before is not None and (
                change.after is None or change.before.key != change.after.key
            )
            row = None if change.after is None else change.after.render()
            other = row is not None and rows and row.staged != rows[0].staged
            if gone or other or len(rows) >= BATCH:
                write(rows)
                rows = []
            if gone:
                session.execute(f"DELETE FROM _t_new WHERE ({keys}) IN ({change.before.key_sql})")
            if row is not None:
                rows.append(row)
        write(rows)


def assert_equal_tables(db, family, mapping):
    """Compare every column of every row in a form that shows all of the stored value."""
    shown = ", ".join(
        f"({family.compare.format(c=f'`{column.name}`')})"
        for column in mapping.source.columns
        if column.name in family.columns or column.generated
    )
    last = -1
    while True:
        sql = f"SELECT id, {shown} FROM {{}} WHERE id > {last} ORDER BY id LIMIT {PORTION}"
        rows = db.query(sql.format("t"))
        assert rows == db.query(sql.format("_t_new"))
        if not rows:
            return
        last = rows[-1][0]


class Latest:
    """Digests of the latest image of each key, rendered: the SQL holds every value and type.

    Only the precision that a DECIMAL inside JSON was made with is left out; its value is not.
    """

    def __init__(self):
        self.images = {}

    def take(self, change):
        """Take in one change."""
        if change.before is not None:
            self.images.pop(change.before.key, None)
        if change.after is not None:
            sql = _DECIMAL_IN_JSON.sub(r"\1", change.after.render().sql)
            self.images[change.after.key] = hashlib.sha256(sql.encode()).digest()


@pytest.mark.parametrize("name", FAMILIES)
def test_random_rows_survive_the_decoder(db, name):
    """Inserted, updated and deleted rows of every type arrive unchanged in a twin table."""
    print(f"SPIRIT_PY_SEED={SEED}")  # noqa: T201  to replay a failure
    rng = random.Random(f"{SEED} {name}")
    family = family_for(db.server, name)
    definitions = ", ".join(f"`{c}` {kind}" for c, (kind, _) in family.columns.items())
    db.execute(LEAVES)
    db.execute(f"CREATE TABLE t (id int unsigned PRIMARY KEY, {definitions}{family.extra})")
    mapping = map_table(db)
    pairs = tuple(replace(pair, old=pair.new) for pair in mapping.pairs)
    twin_mapping = replace(mapping, source=mapping.target, pairs=pairs)
    recorder = Recorder(db)
    db.execute(LOOSE)
    compilers = {
        "t": lambda table_map: RowCodec.compile(table_map, mapping),
        "_t_new": lambda table_map: RowCodec.compile(table_map, twin_mapping),
    }
    latest = {"t": Latest(), "_t_new": Latest()}

    def follow():
        changes = recorder.changes(compilers)
        for table, change in changes:
            latest[table].take(change)
        apply(db, mapping, [change for table, change in changes if table == "t"])

    def value(column):
        kind, make = family.columns[column]
        nullable = "not null" not in kind
        return "NULL" if nullable and rng.random() < 0.15 else make(rng)

    columns = list(family.columns)
    db.set_global("binlog_row_metadata", "MINIMAL")
    for start in range(0, ROWS, BATCH):
        rows = (
            f"({number}, {', '.join(value(c) for c in columns)})"
            for number in range(start, min(start + BATCH, ROWS))
        )
        db.execute(f"INSERT INTO t (id, {identifier_list(columns)}) VALUES {', '.join(rows)}")
        if start % PORTION == 0:
            follow()
    follow()
    assert_equal_tables(db, family, mapping)

    db.set_global("binlog_row_metadata", "FULL")
    for number in rng.sample(range(ROWS), ROWS // 4):
        chosen = rng.sample(columns, rng.randint(1, len(columns)))
        sets = ", ".join(f"`{column}` = {value(column)}" for column in chosen)
        moved = number + rng.choice([0, 0, 10**6])
        db.execute(f"UPDATE t SET {sets}, id = {moved} WHERE id = {number}")
    gone = rng.sample(range(ROWS), ROWS // 5)
    db.execute(f"DELETE FROM t WHERE id IN ({', '.join(map(str, gone))})")
    follow()
    follow()
    assert_equal_tables(db, family, mapping)
    assert latest["t"].images == latest["_t_new"].images
    assert len(latest["t"].images) >= ROWS * 3 // 5


@pytest.mark.parametrize("name", KEYS)
def test_keys_from_images_equal_and_order_as_the_servers(db, name):
    """A key read from the binlog and from SELECT is the same bound, and sorts as the server."""
    print(f"SPIRIT_PY_SEED={SEED}")  # noqa: T201  to replay a failure
    rng = random.Random(f"{SEED} key {name}")
    definition, make = KEYS[name]
    db.execute(f"CREATE TABLE t (k {definition} NOT NULL, n int NOT NULL, PRIMARY KEY (k, n))")
    mapping = map_table(db)
    recorder = Recorder(db)
    db.execute(LOOSE)
    rows = ", ".join(f"({make(rng)}, {rng.randrange(3)})" for _ in range(min(ROWS, 2000)))
    db.execute(f"INSERT IGNORE INTO t VALUES {rows}")

    columns = mapping.key_columns
    compilers = {"t": lambda table_map: RowCodec.compile(table_map, mapping)}
    images = [change.after for _, change in recorder.changes(compilers)]
    with open_session(db) as session:
        expressions = ", ".join(key_select_expressions(columns))
        selected = session.query(f"SELECT {expressions} FROM t ORDER BY k, n")
        from_select = [bound_from_row(columns, row) for row in selected]
        from_images = [bound_from_key(columns, image.key) for image in images]
        assert {b.literals for b in from_images} == {b.literals for b in from_select}
        assert len(from_images) == len(from_select) > 1
        keys = [bound.comparable for bound in from_select]
        if comparable(columns):
            assert keys == sorted(key for key in keys if key is not None)
            assert set(keys) == {image.key for image in images}
            assert len(set(keys)) == len(keys)
        else:
            assert set(keys) == {None}

        assert {image.key_sql for image in images} == {row_key_sql(columns, r) for r in selected}
        chosen = [image.key_sql for image in images[::2]]
        gone = session.execute(f"DELETE FROM t WHERE (`k`, `n`) IN ({', '.join(chosen)})")
        assert gone == len(chosen)
        assert session.warning_count == 0
        left = images[1]
        assert session.execute(f"DELETE FROM t WHERE (k, n) IN ({left.key_sql})") == 1


@pytest.mark.slow
def test_every_bound_literal_finds_its_own_row(db):
    """``column = literal`` with the literals of a bound finds exactly the row it came from."""
    for name, (definition, make) in KEYS.items():
        rng = random.Random(f"{SEED} bound {name}")
        db.execute(f"CREATE TABLE t (k {definition} NOT NULL PRIMARY KEY)")
        with open_session(db) as session:
            session.execute(LOOSE)
            for value in [make(rng) for _ in range(20)]:
                session.execute(f"INSERT IGNORE INTO t VALUES ({value})")
            columns = (definition_of(db).column("k"),)
            (expression,) = key_select_expressions(columns)
            for row in session.query(f"SELECT {expression} FROM t"):
                (literal,) = bound_from_row(columns, row).literals
                found = session.query(f"SELECT {expression} FROM t WHERE k = {literal}")
                assert found == [row], (SEED, name, literal)
        db.execute("DROP TABLE t")


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_partial_images_are_refused_by_name(db, image):
    """A session that hides columns from the binlog is found at its first change (R13)."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b text)")
    db.execute("INSERT INTO t VALUES (1, 2, 'x')")
    mapping = map_table(db)
    recorder = Recorder(db)
    db.execute(f"SET SESSION binlog_row_image = '{image}'")
    db.execute("UPDATE t SET a = 3 WHERE id = 1")
    with pytest.raises(UnreadableChange, match=rf"{db.name}\.t .*all columns") as caught:
        recorder.changes({"t": lambda table_map: RowCodec.compile(table_map, mapping)})
    assert "binlog_row_image" in caught.value.hint


def test_a_timestamp_in_a_document_never_becomes_null(db):
    """R9: JSON_TABLE by itself makes null of what a session's time zone has not."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp(6) NULL, j json)")
    mapping = map_table(db)
    recorder = Recorder(db)
    compilers = {"t": lambda table_map: RowCodec.compile(table_map, mapping)}
    ends = ["0000-00-00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999"]

    def document(number):
        db.execute(f"UPDATE t SET j = JSON_OBJECT('at', at) WHERE id = {number}")
        return [change for _, change in recorder.changes(compilers)]

    db.execute("SET time_zone = '+00:00', sql_mode = ''")
    for number, at in enumerate(ends):
        db.execute(f"INSERT INTO t VALUES ({number}, '{at}', NULL)")
        changes = document(number)
        apply(db, mapping, changes)
    assert db.query("SELECT * FROM _t_new") == db.query("SELECT * FROM t")
    assert db.query("SELECT DISTINCT JSON_TYPE(j->'$.at') FROM _t_new") == [("TIMESTAMP",)]

    # The same moment as in the last row, whose local time east of it no session in '+00:00' has.
    db.execute("SET time_zone = '+01:00'")
    with pytest.raises(UnreadableChange, match="the TIMESTAMP '2038-01-19 04:14:07"):
        document(len(ends) - 1)[-1].after.render()
    # Nor has one in a time zone of a write, such as an hour of the spring, all that '+00:00' has.
    db.execute("SET time_zone = '-01:00'")
    with pytest.raises(MySQLdb.Error, match="Value is out of range"):
        db.query(f"SELECT JSON_ARRAY({timestamp_sql(ends[-1])})")


def test_partial_json_is_refused_by_name(db):
    """A partial JSON update, which carries no row image, is found at its first change (R13)."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, j json)")
    db.execute("INSERT INTO t VALUES (1, JSON_OBJECT('a', REPEAT('x', 400), 'b', 1))")
    mapping = map_table(db)
    recorder = Recorder(db)
    db.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    db.execute("UPDATE t SET j = JSON_SET(j, '$.b', 2) WHERE id = 1")
    with pytest.raises(UnreadableChange, match="event of type 39"):
        recorder.changes({"t": lambda table_map: RowCodec.compile(table_map, mapping)})


def test_document_updated_in_place_is_read_around_its_gaps(db):
    """A document that the server changed in place, leaving gaps, is rendered as it is now."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, j json)")
    db.execute("INSERT INTO t VALUES (1, JSON_OBJECT('a', REPEAT('x', 400), 'b', 'long enough'))")
    mapping = map_table(db)
    recorder = Recorder(db)
    db.execute("UPDATE t SET j = JSON_SET(j, '$.b', 'short', '$.a', 1) WHERE id = 1")
    compilers = {"t": lambda table_map: RowCodec.compile(table_map, mapping)}
    apply(db, mapping, [change for _, change in recorder.changes(compilers)])
    assert db.query("SELECT CAST(j AS CHAR) FROM _t_new") == [('{"a": 1, "b": "short"}',)]


ALTERS = [
    "MODIFY a bigint",
    "MODIFY a int unsigned",
    "MODIFY a int NOT NULL",
    "MODIFY v varchar(21)",
    "MODIFY v varchar(20) CHARACTER SET latin1",
    "MODIFY d decimal(10,3)",
    "MODIFY ts timestamp(3) NULL",
    "MODIFY c char(70)",
    f"MODIFY e enum({', '.join(repr(f'm{n}') for n in range(300))})",
    "ADD x int",
    "DROP a",
    "RENAME COLUMN a TO z",
]


@pytest.mark.slow
@pytest.mark.parametrize("alter", ALTERS)
def test_table_map_of_an_altered_table_is_refused(db, alter):
    """Rows written after somebody altered the table are not taken for rows of ours (R14)."""
    db.set_global("binlog_row_metadata", "FULL" if "RENAME" in alter else "MINIMAL")
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int, v varchar(20), d decimal(10,2),"
        " ts timestamp NULL, c char(60), e enum('m0', 'm1'), y year)"
    )
    mapping = map_table(db)
    recorder = Recorder(db)
    db.execute("INSERT INTO t (id) VALUES (1)")
    RowCodec.compile(last_table_map(db, recorder), mapping)
    db.execute("DELETE FROM t")
    db.execute(f"ALTER TABLE t {alter}")
    db.execute("INSERT INTO t (id, v, d, ts, c, e) VALUES (2, '', 0, NULL, '', 'm1')"
               if "NOT NULL" not in alter else "INSERT INTO t (id, a) VALUES (2, 0)")  # fmt: skip
    with pytest.raises(SchemaChanged, match=rf"{db.name}\.t"):
        RowCodec.compile(last_table_map(db, recorder), mapping)


def test_plain_values_are_those_of_the_server(db):
    """Values for ``watch`` equal what the server shows, and carry what JSON text cannot."""
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, u bigint unsigned, m mediumint, dc decimal(20,5),"
        " f float, db double, b bit(12), y year, da date, ti time(3), dt datetime(6),"
        " ts timestamp(1) NULL, c char(5), l varchar(9) CHARACTER SET latin1,"
        " sj varchar(9) CHARACTER SET sjis, bi binary(4), e enum('a', ''), s set('x', 'y'),"
        " j json, n int, v int GENERATED ALWAYS AS (id * 2) VIRTUAL, h int INVISIBLE DEFAULT 9)"
    )
    recorder = Recorder(db)
    db.execute(LOOSE)
    db.execute(
        "INSERT INTO t (id, u, m, dc, f, db, b, y, da, ti, dt, ts, c, l, sj, bi, e, s, j, n) VALUES"
        " (1, 18446744073709551615, -8388608, -0.00001, 0.1, 1e-300, 0xabc, 0, '2023-02-31',"
        " '-00:00:00.5', '0000-00-00 00:00:00.000001', '2024-05-06 07:08:09.1', 'ä ', 'é€',"
        " _sjis X'8341', X'6100', 'no such', 'x,y', '{\"k\": [1.5, null, \"é\"]}', NULL)"
    )
    schema = definition_of(db)
    ((_, change),) = recorder.changes({"t": lambda tm: RowCodec.for_schema(tm, schema)})
    values = change.after.values()
    assert json.loads(json.dumps(values)) == values
    assert values == {
        "id": 1, "u": 2**64 - 1, "m": -8388608, "dc": "-0.00001", "f": 0.1, "db": 1e-300,
        "b": 0xABC, "y": 0, "da": "2023-02-31", "ti": "-00:00:00.500",
        "dt": "0000-00-00 00:00:00.000001", "ts": "2024-05-06 07:08:09.1", "c": "ä", "l": "é€",
        "sj": {"charset": "sjis", "hex": "8341"}, "bi": {"hex": "61000000"}, "e": 0, "s": "x,y",
        "j": '{"k": [1.5, null, "é"]}', "n": None, "v": 2, "h": 9,
    }  # fmt: skip


def test_json_text_for_readers_is_that_of_the_server(db):
    """A document's text for ``watch`` reads as the server's own text of it."""
    rng = random.Random(f"{SEED} json text")
    db.execute(LEAVES)
    db.execute("CREATE TABLE t (id int PRIMARY KEY, j json)")
    recorder = Recorder(db)
    db.execute(LOOSE)
    _, make = FAMILIES["jsons"]().columns["j"]
    for number in range(60):
        db.execute(f"INSERT INTO t VALUES ({number}, {make(rng)})")
    schema = definition_of(db)
    changes = recorder.changes({"t": lambda tm: RowCodec.for_schema(tm, schema)})
    found = {change.after.key[0]: change.after.values()["j"] for _, change in changes}
    server = dict(db.query("SELECT id, CAST(j AS CHAR) FROM t"))

    def read(text):
        return json.loads(text, parse_float=lambda t: Decimal(repr(float(t))), strict=False)

    assert {n: read(t) for n, t in found.items()} == {n: read(t) for n, t in server.items()}, SEED


@pytest.mark.slow
def test_doubles_of_any_bits_survive_in_documents(db):
    """Ten thousand doubles of any bits, and one at the deepest level, reach a twin as they are."""
    rng = random.Random(f"{SEED} doubles")
    drawn = (struct.unpack("<d", rng.randbytes(8))[0] for _ in range(10_000))
    doubles = [number for number in drawn if math.isfinite(number)]
    doubles += [-0.0, 1.0, 5e-324, 1e308, 1e22, 1e23, 14.809999999999999]
    deep = "14.809999999999999e0"
    for level in range(99):
        deep = f"JSON_OBJECT('k', {deep}, 'n', NULL)" if level % 2 else f"JSON_ARRAY({deep}, '')"
    db.execute("CREATE TABLE t (id int PRIMARY KEY, j json)")
    recorder = Recorder(db)
    literals = (text if "e" in text else f"{text}e0" for text in map(repr, doubles))
    db.execute(f"INSERT INTO t VALUES (1, JSON_ARRAY({', '.join(literals)})), (2, {deep})")
    mapping = map_table(db)
    changes = recorder.changes({"t": lambda table_map: RowCodec.compile(table_map, mapping)})
    for _, change in changes:
        db.execute(f"INSERT INTO _t_new VALUES {change.after.render().sql}")
    same = (
        "SELECT COUNT(*) FROM t JOIN _t_new USING (id) WHERE SHA2(t.j, 256) = SHA2(_t_new.j, 256)"
    )
    assert db.query(same) == [(2,)]
    found = json.loads(db.query("SELECT j FROM _t_new WHERE id = 1")[0][0])
    assert list(map(repr, map(float, found))) == list(map(repr, doubles))


def test_python_reads_single_byte_charsets_as_the_server(db):
    """Text for ``watch`` is decoded only in charsets that Python knows as the server does."""
    sizes = dict(
        db.query("SELECT character_set_name, maxlen FROM information_schema.character_sets")
    )
    compared = 0
    for charset, codec in CODECS.items():
        if sizes.get(charset) != 1:
            continue
        found = db.query(
            "SELECT "
            + ", ".join(f"CONVERT(_{charset} X'{n:02x}' USING utf8mb4)" for n in range(256))
        )
        for number, server in enumerate(found[0]):
            text = bytes([number]).decode(codec, "replace")
            assert text in {server, "\N{REPLACEMENT CHARACTER}"}, (charset, number)
            compared += 1
    assert compared > 2000

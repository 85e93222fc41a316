"""A narrower column takes a literal as a native ALTER converts the value, or not at all (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.errors import ServerFault, ValueLost
from spirit_py.feed.subscription import rows_are_independent
from spirit_py.table.values import RenderedRow
from spirit_py.threads import StopSwitch
from tests.integration.test_row_decoder import LOOSE, Recorder
from tests.kits.connection import connection_options
from tests.kits.tables import map_table, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.mysql.session import Session

Outcome: TypeAlias = tuple[Any, ...] | str

SIGNED = (
    "0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, 65535, 65536, 8388607, 8388608,"
    " 16777215, 16777216, 2147483647, 2147483648, -2147483648, -2147483649, 4294967295, 4294967296,"
    " 9223372036854775807, -9223372036854775808"
)
UNSIGNED = (
    "0, 1, 127, 128, 255, 256, 65535, 65536, 2147483647, 2147483648, 4294967295, 4294967296,"
    " 9223372036854775807, 9223372036854775808, 18446744073709551615"
)
DECIMALS = "0, -0.00, 1.25, -1.25, 9.99, 99.99, -99.99, 100, -100, 999.99, 12345678.99"
#: Two letters fit; blanks behind them, and what is like a blank.
LETTERS = "'', 'a', 'ab', 'abc', 'ab ', 'ab   ', ' ab', '  ', '   ', 'ab\\t', 'ab\\0', 'ab\\n'"
WIDE_LETTERS = f"{LETTERS}, 'ää', 'äää', 'ä  ', '😀😀', '😀😀😀', '😀a '"
LONG_LETTERS = (
    "'', 'a ', REPEAT('a', 255), REPEAT('a', 256), CONCAT(REPEAT('a', 255), ' '),"
    " CONCAT(REPEAT('a', 254), '  '), REPEAT(' ', 256)"
)
BYTES = "X'', X'61', X'6162', X'616263', X'616200', X'616220', X'00', X'000000', X'2020', X'202020'"
LONG_BYTES = "X'', REPEAT(X'00', 255), REPEAT(X'00', 256), REPEAT(X'20', 256)"

INTEGERS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
#: Old type, new type, values of the old one.
PAIRS = [
    *(("BIGINT", new, SIGNED) for new in INTEGERS[:-1]),
    *(("BIGINT", f"{new} UNSIGNED", SIGNED) for new in INTEGERS),
    *(("BIGINT UNSIGNED", new, UNSIGNED) for new in INTEGERS),
    *(("BIGINT UNSIGNED", f"{new} UNSIGNED", UNSIGNED) for new in INTEGERS[:-1]),
    ("BIGINT", "INT(7) ZEROFILL", SIGNED),
    ("BIGINT(20) ZEROFILL", "INT(5) ZEROFILL", UNSIGNED),
    ("BIGINT(20) ZEROFILL", "INT", UNSIGNED),
    ("DECIMAL(10,2)", "DECIMAL(4,2)", DECIMALS),
    ("DECIMAL(10,2)", "DECIMAL(6,4)", DECIMALS),
    ("DECIMAL(10,2)", "DECIMAL(10,2) UNSIGNED", DECIMALS),
    ("DECIMAL(10,2)", "DECIMAL(4,2) ZEROFILL", DECIMALS),
    ("BIT(9)", "BIT(3)", "0, 7, 8, 511"),
    *(
        (f"{old} {text}", f"{new} {text}", WIDE_LETTERS)
        for old, new in (
            ("VARCHAR(9)", "VARCHAR(2)"),
            ("CHAR(9)", "VARCHAR(2)"),
        )
        for text in ("COLLATE utf8mb4_0900_bin", "COLLATE utf8mb4_bin")
    ),
    ("TEXT", "VARCHAR(2)", WIDE_LETTERS),
    ("LONGTEXT", "TINYTEXT", f"{LONG_LETTERS}, REPEAT('ä', 128), CONCAT(REPEAT('ä', 127), '  ')"),
    (
        "VARCHAR(200)",
        "TINYTEXT",
        "REPEAT('😀', 63), REPEAT('😀', 64), CONCAT(REPEAT('😀', 63), '    ')",
    ),
    ("VARCHAR(9)", "VARCHAR(2) COLLATE utf8mb4_0900_bin", WIDE_LETTERS),
    *(
        (f"{old} CHARACTER SET {charset}", f"VARCHAR(2) CHARACTER SET {charset}", LETTERS)
        for old in ("VARCHAR(9)", "CHAR(9)")
        for charset in (
            *("latin1", "ascii", "cp1251", "dec8", "gbk", "sjis"),
            *("ucs2", "utf16", "utf32", "utf8mb3"),
        )
    ),
    ("TEXT CHARACTER SET latin1", "TINYTEXT CHARACTER SET latin1", LONG_LETTERS),
    ("TEXT CHARACTER SET utf16", "TINYTEXT CHARACTER SET utf16", LONG_LETTERS),
    ("VARBINARY(9)", "VARBINARY(2)", BYTES),
    ("BINARY(5)", "BINARY(2)", BYTES),
    ("VARBINARY(9)", "BINARY(2)", BYTES),
    ("BINARY(3)", "VARBINARY(2)", BYTES),
    ("BLOB", "VARBINARY(2)", BYTES),
    ("BLOB", "BINARY(2)", BYTES),
    ("LONGBLOB", "TINYBLOB", f"{BYTES}, {LONG_BYTES}"),
]  # fmt: skip

#: Of a native ALTER: the type is deprecated.
_DEPRECATED = {1287, 1681, 3719, 3778}


@pytest.fixture
def session(db: Any) -> Iterator[Session]:
    """Open a session with the program's settings."""
    with open_session(db) as found:
        yield found


@pytest.fixture
def applier(db: Any) -> Iterator[SqlApplier]:
    """Return an applier that does not try again."""
    made = SqlApplier(connection_options(db), sessions=1, batch_rows=100, stop=StopSwitch())
    yield made
    made.close()


def stored(db: Any, table: str) -> Outcome:
    """Return the value of a table's only row, by its bytes."""
    rows = db.query(f"SELECT HEX(CAST(v AS BINARY)) FROM {table}")
    return tuple(rows[0]) if rows else "no row"


def native(db: Any, session: Session, old: str, new: str, number: int) -> Outcome:
    """Alter a table that holds one of the rows; "lost" for an error or a warning about it."""
    db.execute(f"DROP TABLE IF EXISTS n; CREATE TABLE n (id INT PRIMARY KEY, v {old} NULL)")
    db.execute(f"INSERT INTO n SELECT * FROM t WHERE id = {number}")
    try:
        session.execute(f"ALTER TABLE n MODIFY v {new} NULL")
    except ServerFault:
        return "lost"
    said = session.warnings() if session.warning_count else []
    return "lost" if any(code not in _DEPRECATED for _, code, _ in said) else stored(db, "n")


@pytest.mark.slow
@pytest.mark.draws(8)
@pytest.mark.parametrize(("old", "new", "values"), PAIRS, ids=[f"{o} - {n}" for o, n, _ in PAIRS])
def test_a_literal_is_stored_as_a_native_alter_converts_the_value(
    db: Any, session: Session, applier: SqlApplier, old: str, new: str, values: str
) -> None:
    """What fits has the same bytes, what does not is an error, and no trace of it stays."""
    db.execute(LOOSE)
    db.execute(f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v {old} NULL)")
    mapping = map_table(db, f"MODIFY v {new} NULL")
    assert not mapping.converted
    assert mapping.pairs[1].narrowed
    recorder = Recorder(db)
    each = " UNION ALL SELECT ".join(f"NULL, {value}" for value in _parts(values))
    db.execute(f"INSERT IGNORE INTO t SELECT NULL, NULL UNION ALL SELECT {each}")
    changes = recorder.changes({"t": lambda table_map: RowCodec.compile(table_map, mapping)})

    fitting = 0
    for _, change in changes:
        ((number,),) = [change.after.key]
        expected = native(db, session, old, new, number)
        if expected == "lost":
            with pytest.raises(ValueLost, match="'v'"):
                applier.upsert_rows(mapping, [change.after.render()])
            assert stored(db, "_t_new") == "no row"
        else:
            applier.upsert_rows(mapping, [change.after.render()])
            assert stored(db, "_t_new") == expected
            fitting += 1
        db.execute("DELETE FROM _t_new")
    assert 0 < fitting < len(changes) or "BINARY" in old


def _parts(values: str) -> list[str]:
    """Part values at commas outside parentheses; no value here has one."""
    parts, depth = [""], 0
    for letter in values:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


KEYS = [
    ("BIGINT", "TINYINT UNSIGNED", "1, 2, 200, 255", "-1, 256, 9223372036854775807"),
    ("BIGINT UNSIGNED", "INT", "1, 2, 2147483647", "2147483648, 18446744073709551615"),
    ("DECIMAL(10,2)", "DECIMAL(4,2)", "1.25, -99.99, 99.99", "100.00, -100.00, 12345678.99"),
    ("VARBINARY(9)", "VARBINARY(2)", "X'61', X'6162', X''", "X'616200', X'616263', X'616220'"),
    ("VARCHAR(9) COLLATE utf8mb4_0900_bin", "VARCHAR(2) COLLATE utf8mb4_0900_bin",
     "'a', 'ab', 'a ', ''", "'ab ', 'abc', 'a  '"),
    ("VARCHAR(9) COLLATE utf8mb4_0900_ai_ci", "VARCHAR(2) COLLATE utf8mb4_0900_ai_ci",
     "'a', 'ab', 'a ', ''", "'ab ', 'ABc', 'A  '"),
    ("VARCHAR(9) COLLATE utf8mb4_bin", "VARCHAR(2) COLLATE utf8mb4_bin", "'a', 'ab', ''", "'abc'"),
    ("CHAR(9) COLLATE utf8mb4_0900_bin", "VARCHAR(2) COLLATE utf8mb4_0900_bin",
     "'a', 'ab'", "'abc', 'ab\\t'"),
    ("BIT(9)", "BIT(3)", "1, 2, 7", "8, 9, 511"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "second", ["", "m INT NOT NULL DEFAULT 5, "], ids=["alone", "with another"]
)
@pytest.mark.parametrize(("old", "new", "fitting", "unfit"), KEYS, ids=[o for o, *_ in KEYS])
def test_a_narrowed_key_finds_its_rows_by_the_old_literal(
    db: Any, applier: SqlApplier, old: str, new: str, fitting: str, unfit: str, second: str
) -> None:
    """Rows stay apart and in order; a key that does not fit finds none, and is no fault."""
    db.execute(f"{LOOSE}, sql_mode = ''")
    key = "k, m" if second else "k"
    db.execute(f"CREATE TABLE t (k {old} NOT NULL, {second}n INT, PRIMARY KEY ({key}))")
    mapping = map_table(db, f"MODIFY k {new} NOT NULL")
    assert rows_are_independent(mapping)
    assert not mapping.merging
    assert mapping.key_order_kept
    recorder = Recorder(db)
    numbers = {value: n for n, value in enumerate([*_parts(fitting), *_parts(unfit)])}
    for value, number in numbers.items():
        db.execute(f"INSERT INTO t (k, n) VALUES ({value}, {number})")
    changes = recorder.changes({"t": lambda table_map: RowCodec.compile(table_map, mapping)})
    images = [change.after for _, change in changes]
    few = len(_parts(fitting))
    applier.upsert_rows(mapping, [image.render() for image in images[:few]])
    in_order = "SELECT n FROM {} FORCE INDEX (PRIMARY) WHERE n < {} ORDER BY {}"
    assert db.query(in_order.format("_t_new", few, key)) == db.query(in_order.format("t", few, key))
    for image in images[few:]:
        with pytest.raises(ValueLost, match="'k'"):
            applier.upsert_rows(mapping, [image.render()])
    applier.delete_keys(mapping, [image.key_sql for image in images[few:]])
    assert len(db.query("SELECT 1 FROM _t_new")) == few
    applier.delete_keys(mapping, [image.key_sql for image in images[1:]])
    assert db.query("SELECT n FROM _t_new") == [(0,)]


@pytest.mark.slow
def test_blanks_are_not_cut_beside_a_rounded_column(db: Any, applier: SqlApplier) -> None:
    """Notes are switched off where only generated columns cause them, but not here."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), d DOUBLE, g DECIMAL(9,1) AS (d) STORED)"
    )
    mapping = map_table(db, "MODIFY v VARCHAR(2)")
    applier.upsert_rows(mapping, [RenderedRow(sql="(2, 'ab', 1.25)")])
    with pytest.raises(ValueLost, match="'v'"):
        applier.upsert_rows(mapping, [RenderedRow(sql="(1, 'ab ', 1.25)")])
    assert db.query("SELECT id FROM _t_new") == [(2,)]

"""Archives: rows as Parquet files that other programs read, proved before anything is dropped."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import random
import re
import signal
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset as parquet
import pytest
from pyarrow.parquet import read_metadata, write_table

from spirit_py.archiving import archive as archive_module
from spirit_py.archiving.archive import Archive
from spirit_py.archiving.columns import StoredTable
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.archiving.rows import batches_of
from spirit_py.config import SessionModes
from spirit_py.errors import Interrupted, Refusal, ServerFault, ValueLost
from spirit_py.migration.entry import archive
from spirit_py.migration.figures import Figures
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from tests.kits import kills
from tests.kits.command import run
from tests.kits.connection import connection_options
from tests.kits.draw import seed_of
from tests.kits.engine import SharedEngine, ThreadEngine
from tests.kits.migrate import config_for, migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import Interruption, assert_nothing_left, kill_at, once_at, start
from tests.kits.row_families import FAMILIES, LEAVES, family_for
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spirit_py.config import MigrationConfig
    from spirit_py.status.report import MigrationReport

SEED = seed_of("SPIRIT_PY_TEST_SEED")
ROWS = 150
LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"
#: Set by lanes in which nothing is drawn.
EVERY_VARIABLE = "SPIRIT_PY_GENTLE"
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
KEEP = "at >= '2026-02-01'"


def some(of: Sequence[Any], count: int = 1) -> list[Any]:
    """Return what this run plays: a few, drawn by its seed, and in lanes that draw nothing all."""
    every = kills.EVERYWHERE or os.environ.get(EVERY_VARIABLE) == "all"
    return list(of) if every else random.Random(SEED).sample(list(of), count)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the small tables of tests into many ranges all the same."""
    monkeypatch.setattr("spirit_py.archiving.archive._FEWEST_ROWS", 100)
    monkeypatch.setattr("spirit_py.archiving.archive._FILE_BYTES", 1)


def archiving(db: Any, folder: Path, keep: str = "", **more: Any) -> MigrationConfig:
    """Return the configuration of an archive of table ``t``."""
    return config_for(db, table="t", modes=SessionModes(keep=keep), archive_to=str(folder), **more)


def archive_here(config: MigrationConfig, engine: Any) -> MigrationReport:
    """Archive in this process, with the Spark of all tests."""
    shared: Any = SharedEngine(engine)
    return archive(config, reporter=RecordingReporter(), engine_factory=lambda _: shared)


def read_back(folder: Path, db: Any) -> list[dict[str, Any]]:
    """Return the rows of an archive as another program reads them, by ``id``."""
    files = [str(one) for one in (folder / f"{db.name}.t").rglob("*.parquet")]
    rows = parquet.dataset(files).to_table().to_pylist() if files else []
    return sorted((row for row in rows if row), key=lambda row: row["id"])


def make_days(db: Any, rows: int = 1000) -> None:
    """Make a table of which 31 of 90 rows are of January, and some of no day."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, at DATE, v VARCHAR(20))")
    db.execute(
        "SET SESSION cte_max_recursion_depth = 100000; INSERT INTO t (at, v)"
        f" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        " SELECT IF(i % 50, '2026-01-01' + INTERVAL i % 90 DAY, NULL), CONCAT('row ', i) FROM n"
    )


def left_out(db: Any, table: str = "t") -> list[tuple[Any, ...]]:
    """Return the rows that the condition leaves out, as the server has them."""
    return db.query(f"SELECT id, at, v FROM {table} WHERE NOT ({KEEP} <=> TRUE) ORDER BY id")


@pytest.mark.slow
@pytest.mark.parametrize("name", some(sorted(FAMILIES), 2))
def test_every_type_comes_back_as_the_server_has_it(name, db, spark_engine, tmp_path):
    """Another program reads each value of each type as the server shows it."""
    print(f"SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201  to replay a failure
    rng = random.Random(f"{SEED} {name}")
    family = family_for(db.server, name)
    definitions = ", ".join(f"`{c}` {kind}" for c, (kind, _) in family.columns.items())
    db.execute(LEAVES)
    db.execute(f"CREATE TABLE t (id int unsigned PRIMARY KEY, {definitions}{family.extra})")
    db.execute(LOOSE)

    def value(column):
        kind, make = family.columns[column]
        nullable = "not null" not in kind
        return "NULL" if nullable and rng.random() < 0.15 else make(rng)

    names = ", ".join(f"`{column}`" for column in family.columns)
    for at in range(ROWS):
        values = ", ".join(map(value, family.columns))
        db.execute(f"INSERT INTO t (id, {names}) VALUES ({at}, {values})")
    report = archive_here(archiving(db, tmp_path), spark_engine)
    assert report.archived[0]["rows"] == ROWS
    back = read_back(tmp_path, db)
    assert [row["id"] for row in back] == list(range(ROWS))
    for column, (kind, _) in family.columns.items():
        here = [one for (one,) in db.query(f"SELECT {_shown(column, kind)} FROM t ORDER BY id")]
        beside: list[str | None] = [dict(row.get("_mysql") or ()).get(column) for row in back]
        read = [row[column] for row in back]
        if kind.startswith(TEXTS):
            found = _bytes_of(db, read, kind, beside)
        else:
            found = [_as_text(one, kind, two) for one, two in zip(read, beside, strict=True)]
        assert found == here, (column, kind)


def _shown(column: str, kind: str) -> str:
    """Return what to ask the server for a text of a value, without the program's expressions."""
    name = f"`{column}`"
    if kind.startswith(TEXTS):
        return f"HEX({name})"
    if kind.startswith(("enum", "set")):
        return f"HEX(CONVERT({name} USING utf8mb4))"
    if kind.startswith(("binary", "varbinary", "vector", "point srid")) or kind.partition(" ")[
        0
    ].endswith("blob"):
        return f"HEX({name})" if "point" not in kind else f"HEX(SUBSTR(CAST({name} AS BINARY), 5))"
    if kind.startswith("geometry"):
        return f"HEX(CAST({name} AS BINARY))"
    if kind.startswith(("float", "double")):
        return f"CAST({name} AS DOUBLE) + 0e0"
    if kind.startswith(("bit", "year")):
        return f"CAST({name} + 0 AS CHAR)"
    return f"CAST({name} AS CHAR)"


def _as_text(value: Any, kind: str, beside: str | None) -> Any:
    """Return the same text of a value that was read back, and of what is beside it."""
    if value is None:
        return None if beside is None else _without_zeros(beside, kind)
    if kind.startswith("geometry"):
        return f"{int(beside or 0).to_bytes(4, 'little').hex()}{value.hex()}".upper()
    if isinstance(value, bytes):
        return value.hex().upper()
    if kind.startswith(("enum", "set")):
        return value.encode().hex().upper()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        text = f"{value:%H:%M:%S.%f}"
        return _without_zeros(f"{value.year:04d}-{value:%m-%d} {text}", kind)
    if isinstance(value, dt.date):
        return f"{value.year:04d}-{value:%m-%d}"
    return value if isinstance(value, (str, float)) else str(value)


def _without_zeros(text: str, kind: str) -> str:
    digits = int(kind.partition("(")[2][:1] or 0) if "(" in kind else 0
    return text if kind.startswith("date ") or kind == "date" else text[: 20 + digits].rstrip(".")


def _bytes_of(db: Any, values: list[Any], kind: str, beside: list[str | None]) -> list[str | None]:
    """Return text that was read back in the digits of its character set, as the server has it."""
    charset = kind.partition("character set ")[2].partition(" ")[0]
    sent = ", ".join(
        "NULL" if one is None else f"HEX(CONVERT(_utf8mb4 X'{one.encode().hex()}' USING {charset}))"
        for one in values
    )
    (found,) = db.query(f"SELECT {sent}")
    return [two if one is None else one for one, two in zip(found, beside, strict=True)]


def query(sql: str) -> list[Any]:
    """Return what DuckDB answers."""
    return duckdb.sql(sql).fetchall()  # type: ignore[union-attr]


def proved(folder: Path, db: Any) -> dict[str, Any]:
    """Return what the archive's manifest says."""
    found: dict[str, Any] = json.loads((folder / f"{db.name}.t" / "_manifest.json").read_text())
    return found


@pytest.mark.slow
def test_what_a_migration_leaves_out_is_archived_before_it_is_dropped(
    db, spark_engine, tmp_path, small_ranges
):
    """Kept and archived rows together are those of the old table, and nothing is left behind."""
    make_days(db)
    wanted = left_out(db)
    report, told = migrate_here(
        spark_engine, archiving(db, tmp_path, KEEP, alter="ADD COLUMN w INT")
    )
    assert report.outcome == "done"
    assert tables(db) == ["t"]
    assert not left_out(db)
    back = read_back(tmp_path, db)
    assert [(row["id"], row["at"], row["v"]) for row in back] == wanted
    (said,) = report.archived
    assert (said["rows"], said["kept"]) == (len(wanted), 1000 - len(wanted))
    manifest = proved(tmp_path, db)
    assert manifest["rows"] == {"archived": len(wanted), "kept": 1000 - len(wanted)}
    assert len(manifest["files"]) == said["files"] > 3
    assert sum(one["rows"] for one in manifest["files"]) == len(wanted)
    assert manifest["server"]["uuid"] == db.query("SELECT @@server_uuid")[0][0]
    found = query(f"SELECT count(*) FROM read_parquet('{tmp_path}/*/*.parquet')")
    assert found == [(len(wanted),)]
    assert f"archived {len(wanted)} rows of" in told.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "nth"),
    some(kills.OF_AN_ARCHIVE, 2),
)
def test_an_archive_that_was_stopped_is_carried_on_by_the_same_command(
    point, nth, db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """Wherever it is stopped, the old table stays, and no row is there twice afterwards."""
    make_days(db)
    wanted = left_out(db)
    asked: dict[str, Any] = {
        "modes": SessionModes(keep=KEEP),
        "alter": "ADD COLUMN w INT",
        "archive_to": str(tmp_path),
    }
    Interruption(monkeypatch).at(spark_engine, db, point, nth, **asked)
    assert left_out(db, "_t_old") == wanted
    report = start(spark_engine, db, **asked).end()
    assert [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path, db)] == wanted
    assert report.archived[0]["rows"] == len(wanted)
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen((("archive.moved", 1),), kills.OF_AN_ARCHIVE)
)
def test_an_archive_that_was_killed_is_carried_on_by_the_same_command(point, nth, db, tmp_path):
    """The process dies with its JVM; the same command needs no other, and ends with 0."""
    make_days(db)
    wanted = left_out(db)
    change = ("--table", "t", "--keep", KEEP, "--archive-to", str(tmp_path / "a"))
    with PointListener(tmp_path / "s") as listener:
        assert kill_at(db, listener, point, nth, change=change)
    assert left_out(db, "_t_old") == wanted
    done = run(db, "migrate", *change, "--no-shortcut")
    assert done.returncode == 0, done.stderr
    assert [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path / "a", db)] == wanted
    assert_nothing_left(db)


@pytest.mark.slow
def test_an_old_table_is_not_dropped_without_its_archive(db, spark_engine, tmp_path, monkeypatch):
    """A command that leaves the option out is refused; with another folder it carries on."""
    make_days(db, 200)
    wanted = left_out(db)
    asked: dict[str, Any] = {
        "modes": SessionModes(keep=KEEP),
        "alter": "ADD COLUMN w INT",
        "archive_to": str(tmp_path / "one"),
    }
    Interruption(monkeypatch).at(spark_engine, db, "archive.written", 1, **asked)
    with pytest.raises(Refusal, match="before the old table is dropped") as refused:
        start(spark_engine, db, **{**asked, "archive_to": ""}).end()
    assert f"--archive-to {tmp_path}/one" in refused.value.hint
    assert left_out(db, "_t_old") == wanted
    start(spark_engine, db, **{**asked, "archive_to": str(tmp_path / "two")}).end()
    assert len(read_back(tmp_path / "two", db)) == len(wanted)
    assert_nothing_left(db)


@pytest.mark.slow
def test_an_archive_that_fails_leaves_the_old_table(db, spark_engine, tmp_path, monkeypatch):
    """The change is done, the error says so, and the rows are all there."""
    make_days(db, 200)
    wanted = left_out(db)

    def of_somebody_else() -> None:
        (tmp_path / f"{db.name}.t").mkdir()
        (tmp_path / f"{db.name}.t" / "mine.parquet").write_text("not ours")

    once_at(monkeypatch, "cutover.renamed", of_somebody_else)
    asked = archiving(db, tmp_path, KEEP, alter="ADD COLUMN w INT")
    with pytest.raises(ArchiveFailure, match=r"the old table is kept: .* it is not empty"):
        migrate_here(spark_engine, asked)
    assert left_out(db, "_t_old") == wanted
    assert (tmp_path / f"{db.name}.t" / "mine.parquet").read_text() == "not ours"


@pytest.mark.parametrize("what", ["a file", "a pattern"])
def test_a_folder_that_would_be_refused_after_the_swap_is_refused_before(
    db, spark_engine, tmp_path, what
):
    """One that is not empty, such as last month's, and a name that Spark reads as many.

    Nothing of a stranger's is read, written over or deleted, by ``archive`` neither.
    """
    make_days(db, 50)
    folder = tmp_path / ("a" if what == "a file" else "a{b,c}")
    theirs = folder / f"{db.name}.t" / "rows.parquet"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("of last month")
    why = "is not empty" if what == "a file" else "many folders"
    with pytest.raises(Refusal, match=why):
        migrate_here(spark_engine, archiving(db, folder, KEEP, alter="ADD COLUMN w INT"))
    with pytest.raises(Refusal, match=why):
        archive_here(archiving(db, folder), spark_engine)
    assert theirs.read_text() == "of last month"
    assert "w" not in db.query("SHOW CREATE TABLE t")[0][1].split("`")
    assert_nothing_left(db)


def _flip_a_byte(file: Path) -> None:
    """Damage the last byte of the pages of ``v``."""
    column = read_metadata(file).row_group(0).column(2)
    content = bytearray(file.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size - 1] ^= 1
    file.write_bytes(content)


def _lose(file: Path) -> None:
    file.unlink()


def _swap_rows(file: Path) -> None:
    """Have a whole file with a value of another row."""
    table = parquet.dataset([str(file)]).to_table()
    at = table.schema.get_field_index("v")
    values = ["another", *table.column("v").to_pylist()[1:]]
    write_table(table.set_column(at, table.schema.field(at), [values]), file)


@pytest.mark.slow
@pytest.mark.parametrize("damage", some([_flip_a_byte, _lose, _swap_rows]))
def test_a_damaged_file_is_found_and_written_again(
    damage, db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """The proof reads every file back, also those of an earlier run, and names no wrong success."""
    make_days(db)
    config = archiving(db, tmp_path, KEEP)
    folder = tmp_path / f"{db.name}.t"

    def spoil() -> None:
        for crc in folder.glob(".*.crc"):
            crc.unlink()
        damage(min(folder.glob("rows-000001-*.parquet")))

    once_at(monkeypatch, "archive.prove", spoil)
    with pytest.raises(ArchiveFailure, match=r"1 piece of .* a file was damaged"):
        archive_here(config, spark_engine)
    assert not (folder / "_manifest.json").exists()
    monkeypatch.undo()
    archive_here(config, spark_engine)
    rows = [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path, db)]
    assert rows == left_out(db)


@pytest.mark.slow
def test_equal_rows_that_become_other_equal_rows_are_found(db, spark_engine, tmp_path, monkeypatch):
    """A table without a key may have a row twice: their hashes do not take each other away."""
    db.execute("CREATE TABLE t (id INT, v VARCHAR(20))")
    db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'twice'), (2, 'twice')")

    def twice_another() -> None:
        db.execute("UPDATE t SET v = 'other' WHERE id = 2")

    once_at(monkeypatch, "archive.prove", twice_another)
    with pytest.raises(ArchiveFailure, match="written meanwhile"):
        archive_here(archiving(db, tmp_path), spark_engine)
    monkeypatch.undo()
    archive_here(archiving(db, tmp_path), spark_engine)
    assert [row["v"] for row in read_back(tmp_path, db)] == ["one", "other", "other"]


WRITES = [
    "UPDATE t SET v = 'written' WHERE id = 95",
    "INSERT INTO t (id, at, v) VALUES (100000, '2026-01-01', 'late')",
    "UPDATE t SET at = '2026-01-03' WHERE id = 50",
]


@pytest.mark.slow
@pytest.mark.parametrize("write", some(WRITES))
def test_rows_that_are_written_meanwhile_are_no_success(
    write, db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """Rows that change between their reading and the proof are found, and are read again."""
    make_days(db)
    config = archiving(db, tmp_path, KEEP)
    once_at(monkeypatch, "archive.prove", lambda: db.execute(write))
    with pytest.raises(ArchiveFailure, match="written meanwhile"):
        archive_here(config, spark_engine)
    monkeypatch.undo()
    archive_here(config, spark_engine)
    rows = [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path, db)]
    assert rows == left_out(db)


@pytest.mark.slow
@pytest.mark.parametrize("point", some(["archive.prove", "counted"]))
def test_rows_that_are_gone_from_the_table_stay_in_the_files(
    point, db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """They may be the only copy: a partition was emptied meanwhile, or rows were purged."""
    make_days(db)
    before = left_out(db)
    gone = "DELETE FROM t WHERE id BETWEEN 91 AND 200"
    if point == "counted":
        real = archive_module._count

        def count(session: Any, table: str) -> int:
            db.execute(gone)
            return real(session, table)

        monkeypatch.setattr(archive_module, "_count", count)
    else:
        once_at(monkeypatch, point, lambda: db.execute(gone))
    config = archiving(db, tmp_path, KEEP)
    with pytest.raises(ArchiveFailure, match="written meanwhile"):
        archive_here(config, spark_engine)
    monkeypatch.undo()
    with pytest.raises(ArchiveFailure, match="written meanwhile") as raised:
        archive_here(config, spark_engine)
    assert "have rows that the table has no more" in raised.value.hint
    rows = [(row["id"], row["at"], row["v"]) for row in read_back(tmp_path, db)]
    assert rows == before
    assert archive_here(archiving(db, tmp_path / "b", KEEP), spark_engine).archived


@pytest.mark.slow
def test_files_are_parted_by_an_expression(db, spark_engine, tmp_path):
    """A folder for each value; NULL has one too, and every reader finds the rows."""
    make_days(db)
    report = archive_here(archiving(db, tmp_path, archive_by="MONTH(at)"), spark_engine)
    folder = tmp_path / f"{db.name}.t"
    parts = {one.name for one in folder.iterdir() if not one.name.startswith((".", "_"))}
    assert parts == {f"month_at={n}" for n in ("1", "2", "3", "__HIVE_DEFAULT_PARTITION__")}
    found = query(
        "SELECT count(*), count(DISTINCT month_at), count(DISTINCT id)"
        f" FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
    )
    assert found[0][0] == found[0][2] == 1000
    assert report.archived[0]["rows"] == 1000


@pytest.mark.slow
def test_a_value_that_is_no_name_of_a_folder_has_its_digest_there(db, spark_engine, tmp_path):
    """A long one, bytes that are no text, and one with a line's end."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARBINARY(400))")
    values = {1: b"plain", 2: b"x" * 300, 3: b"\xff\x00\xfe", 4: b"a\nb", 5: None}
    for key, value in values.items():
        db.execute("INSERT INTO t VALUES (%s, %s)", (key, value))
    report = archive_here(archiving(db, tmp_path, archive_by="v"), spark_engine)
    assert report.archived[0]["rows"] == len(values)
    folder = tmp_path / f"{db.name}.t"
    found = query(
        f"SELECT id, v FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = false)"
    )
    assert {key: value if value is None else bytes(value) for key, value in found} == values
    names = {one.name for one in folder.iterdir() if one.name.startswith("v_=")}
    assert len(names) == len(values)
    others = names - {"v_=plain", "v_=__HIVE_DEFAULT_PARTITION__"}
    assert len(others) == 3
    assert all(re.fullmatch(r"v_=sha256-[0-9a-f]{16}", one) for one in others)


PARTED_BY = ("b", "e", "s", "d", "z", "n", "g", "v", "d > 0", "DATE(z)", "hidden", "at")


@pytest.mark.slow
@pytest.mark.parametrize("expression", some(PARTED_BY, 3))
def test_a_value_of_any_type_has_a_folder(expression, db, spark_engine, tmp_path):
    """The proof has the server's word for each row's folder, so that a success is one."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, b BIT(20), e ENUM('a', 'b/c'), s SET('x', 'y=z'),"
        " d DECIMAL(65,30), z DATETIME(3), n TIME(2), at TIMESTAMP(6) NULL,"
        " g INT GENERATED ALWAYS AS (id * 7) STORED,"
        " v VARCHAR(20) GENERATED ALWAYS AS (CONCAT(e, ':', id)) VIRTUAL, hidden INT INVISIBLE)"
    )
    db.execute(LOOSE)
    db.execute(
        "INSERT INTO t (id, b, e, s, d, z, n, at, hidden) VALUES"
        " (1, b'1000001', 'a', 'x,y=z', -1.5, '0000-00-00', '-838:59:58.25', NULL, 5),"
        f" (2, b'11111111111111111111', '', '', {'9' * 35}.{'9' * 30}, '2026-02-31 01:02:03.5',"
        " '00:00:00', '2026-01-01 00:00:00.000001', -5),"
        " (3, 0, 'b/c', 'x', 0, '2026-01-01', '838:59:59', '2038-01-19 03:14:07', 0),"
        " (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    assert (
        archive_here(archiving(db, tmp_path, archive_by=expression), spark_engine).archived[0][
            "rows"
        ]
        == 4
    )
    assert [row["id"] for row in read_back(tmp_path, db)] == [1, 2, 3, 4]


ODD = ("a:b", "100%", "x=y", "%41", "ä/é", "__HIVE_DEFAULT_PARTITION__", " ", "", "A", "a", None)


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
def test_a_row_in_a_wrong_folder_is_found(moved, db, spark_engine, tmp_path, monkeypatch):
    """A reader takes the folder's word; the proof compares it with the server's."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))")
    for key, value in enumerate(ODD):
        db.execute("INSERT INTO t VALUES (%s, %s)", (key, value))
    config = archiving(db, tmp_path, archive_by="v")
    folder = tmp_path / f"{db.name}.t"

    def move() -> None:
        for file in folder.glob("v_=A/*.parquet"):
            (folder / "v_=a" / f"rows-000000-9{file.name[-12:]}").write_bytes(file.read_bytes())
            file.unlink()

    if not moved:
        assert archive_here(config, spark_engine).archived[0]["rows"] == len(ODD)
        return
    once_at(monkeypatch, "archive.prove", move)
    with pytest.raises(ArchiveFailure, match=r"1 piece of .* a file was damaged"):
        archive_here(config, spark_engine)
    monkeypatch.undo()
    archive_here(config, spark_engine)
    found = query(
        f"SELECT id, v_ FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
    )
    assert {ODD[key]: value for key, value in found if ODD[key] in {"A", "a"}} == {
        "A": "A",
        "a": "a",
    }


KEYS = [
    "CREATE TABLE t (id INT, at DATE, v VARCHAR(20))",
    "CREATE TABLE t (id INT NOT NULL, at DATE, v VARCHAR(20) NOT NULL, PRIMARY KEY (v, id))",
    (
        "CREATE TABLE t (id INT NOT NULL, at DATE, v VARCHAR(20) NOT NULL COLLATE"
        " utf8mb4_0900_bin, UNIQUE KEY (v DESC, id))"
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, at DATE, v VARCHAR(20)) PARTITION BY HASH (id)"
        " PARTITIONS 3"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("definition", some(KEYS))
def test_tables_with_every_kind_of_key_are_archived(
    definition, db, spark_engine, tmp_path, small_ranges
):
    """Also one without a key, which is read as one range."""
    db.execute(definition)
    for at in range(0, 400, 40):
        rows = ", ".join(f"({n}, '2026-01-02', '{n % 7} row')" for n in range(at, at + 40))
        db.execute(f"INSERT INTO t VALUES {rows}")
    archive_here(archiving(db, tmp_path), spark_engine)
    assert [row["id"] for row in read_back(tmp_path, db)] == list(range(400))


@pytest.mark.slow
def test_strange_names_are_kept(db, spark_engine, tmp_path):
    """Names of columns that Spark would read otherwise, and one that the program itself uses."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, `a b` INT, `c``d` DATE, `e.f` TEXT, `_mysql` INT,"
        " `gé,;` GEOMETRY, `it's` DATETIME(3), `\\x` DATE,"
        " `_metadata` INT)"
    )
    db.execute(LOOSE)
    db.execute(
        "INSERT INTO t VALUES (1, 2, '0000-00-00', 'x', 3, ST_GeomFromText('POINT(1 2)', 4326),"
        " '2026-02-31 01:02:03.5', '2026-00-00', 4)"
    )
    archive_here(archiving(db, tmp_path), spark_engine)
    (row,) = read_back(tmp_path, db)
    assert (row["a b"], row["e.f"], row["_mysql"]) == (2, "x", 3)
    assert row["_metadata"] == 4
    assert dict(row["__mysql"]) == {
        "c`d": "0000-00-00",
        "gé,;": "4326",
        "it's": "2026-02-31 01:02:03.500000",
        "\\x": "2026-00-00",
    }


def test_a_name_that_the_files_would_not_have_is_refused(db, tmp_path):
    """Hadoop puts its settings in the place of ``${...}``; no Spark is started for it."""
    engine = ThreadEngine(at_start=lambda: pytest.fail("Spark was started"))
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, `${spark.app.name}` INT)")
    with pytest.raises(Refusal, match="would have another name"):
        archive_here(archiving(db, tmp_path), engine)
    with pytest.raises(Refusal, match="would have another name"):
        migrate_here(engine, archiving(db, tmp_path, "id > 1", alter="ADD w INT"))
    assert_nothing_left(db)


@pytest.mark.slow
def test_nothing_to_archive_is_proved_too(db, spark_engine, tmp_path, monkeypatch):
    """An empty table, and one of which every row is kept; no rows are shown of the first."""
    shown: list[int] = []
    monkeypatch.setattr(Figures, "archiving", lambda *given: shown.append(given[2]))
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    assert archive_here(archiving(db, tmp_path), spark_engine).archived[0]["rows"] == 0
    assert set(shown) == {0}
    db.execute("DROP TABLE t")
    make_days(db, 50)
    report = archive_here(archiving(db, tmp_path / "kept", "id > 0"), spark_engine)
    assert (report.archived[0]["rows"], report.archived[0]["kept"]) == (0, 50)
    assert sum(one["rows"] for one in proved(tmp_path / "kept", db)["files"]) == 0


def test_a_view_is_not_archived_and_named_as_one(db, tmp_path):
    """It was said not to be there, with the question whether its own name is meant."""
    engine = ThreadEngine(at_start=lambda: pytest.fail("Spark was started"))
    db.execute("CREATE VIEW t AS SELECT 1")
    with pytest.raises(Refusal, match="is a view, not a base table"):
        archive_here(archiving(db, tmp_path), engine)


@pytest.mark.slow
def test_another_archive_is_not_added_to(db, spark_engine, tmp_path):
    """Of other rows, or of a table that was made anew under the name; the same one is proved."""
    make_days(db, 100)
    archive_here(archiving(db, tmp_path, KEEP), spark_engine)
    assert archive_here(archiving(db, tmp_path, KEEP), spark_engine).outcome == "archived"
    with pytest.raises(Refusal, match="it holds another archive"):
        archive_here(archiving(db, tmp_path), spark_engine)
    db.execute("ALTER TABLE t ADD COLUMN w INT")
    with pytest.raises(Refusal, match="it holds another archive"):
        archive_here(archiving(db, tmp_path, KEEP), spark_engine)


FORGED = [
    (
        "000000.json",
        '{"format": 5, "lower": [], "upper": ["1 OR 1=1"], "written": true}',
        "note",
    ),
    ("000000.json", '{"format": 5, "lower": ["5"], "upper": ["9"], "written": true}', "follow"),
    ("000000.json", "no JSON", "note"),
    ("begun.json", '{"format": 5, "table": "x", "digest": "", "rows": -1}', "another version"),
    ("../rows.parquet", "x", "not of this archive"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "content", "why"), some(FORGED, 2))
def test_what_is_read_of_a_folder_is_not_believed(
    file, content, why, db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """Whoever may write to the folder can neither send SQL nor have rows counted (R26)."""
    make_days(db)
    config = archiving(db, tmp_path, KEEP)
    stop_at(monkeypatch, "archive.moved", config, spark_engine)
    folder = tmp_path / f"{db.name}.t"
    for crc in folder.rglob(".*.crc"):
        crc.unlink()
    (folder / "_archive" / file).write_text(content)
    with pytest.raises(Refusal, match=why):
        archive_here(config, spark_engine)


def stop_at(monkeypatch: Any, point: str, config: Any, engine: Any) -> None:
    """Have an archive end with an error at a point."""

    def fail() -> None:
        raise ArchiveFailure("the test stops it")

    with monkeypatch.context() as patched:
        once_at(patched, point, fail)
        with pytest.raises(ArchiveFailure, match="the test stops it"):
            archive_here(config, engine)


@pytest.mark.slow
def test_a_file_that_is_added_before_the_proof_is_no_success(
    db, spark_engine, tmp_path, small_ranges, monkeypatch
):
    """Readers of the folder would find its rows; no piece has them."""
    make_days(db, 300)
    folder = tmp_path / f"{db.name}.t"

    def add() -> None:
        content = min(folder.glob("rows-*.parquet")).read_bytes()
        (folder / "rows-000099-00000.parquet").write_bytes(content)

    once_at(monkeypatch, "archive.prove", add)
    with pytest.raises(Refusal, match=r"rows-000099-00000\.parquet is not of this archive"):
        archive_here(archiving(db, tmp_path, KEEP), spark_engine)
    assert not (folder / "_manifest.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["stopped", "failed"])
def test_a_piece_that_cannot_be_hashed_ends_the_others_work(
    ends, db, spark_engine, tmp_path, monkeypatch, small_ranges
):
    """Hours of reading would be for nothing: a stop, and a fault of the server."""
    make_days(db, 2000)
    asked, first = itertools.count(), list[threading.Thread]()
    failed, real = threading.Event(), Archive._hashed

    def fails(self: Archive, piece: Any) -> Any:
        if next(asked) == 0:
            first.append(threading.current_thread())
            if ends == "stopped":
                self.stop.request(Interrupted(signal.SIGINT))
            failed.set()
            if ends == "failed":
                raise ServerFault(1030, "Got error 168", where="test")
        assert failed.wait(DEADLINE)
        if ends == "failed":
            first[0].join(DEADLINE)
            assert not first[0].is_alive()
        return real(self, piece)

    monkeypatch.setattr(Archive, "_hashed", fails)
    ended = Interrupted if ends == "stopped" else ArchiveFailure
    with pytest.raises(ended, match="SIGINT" if ends == "stopped" else "Got error 168"):
        migrate_here(
            spark_engine,
            archiving(db, tmp_path, KEEP, alter="ADD COLUMN w INT", threads=2),
        )
    pieces = len({file.name[:11] for file in tmp_path.rglob("rows-*.parquet")})
    assert next(asked) <= 2 < pieces
    assert tables(db) == ["_t_chkpnt", "_t_old", "t"]


@pytest.mark.slow
def test_a_proved_archive_is_never_written_over(db, spark_engine, tmp_path, small_ranges):
    """The rows may be gone from the table by now: the same command again keeps every file.

    A second proof of the same rows leaves the manifest; one that says something else is replaced.
    """
    make_days(db, 300)
    config = archiving(db, tmp_path, KEEP)
    archive_here(config, spark_engine)
    before = read_back(tmp_path, db)
    file = tmp_path / f"{db.name}.t" / "_manifest.json"
    said, made = file.read_text(), file.stat().st_mtime_ns
    archive_here(config, spark_engine)
    assert (file.read_text(), file.stat().st_mtime_ns) == (said, made)
    changed = said.replace(f'"archived": {len(before)}', f'"archived": {len(before) + 1}')
    assert changed != said
    file.write_text(changed)
    archive_here(config, spark_engine)
    assert proved(tmp_path, db)["rows"] == json.loads(said)["rows"]
    db.execute("DELETE FROM t WHERE at < '2026-02-01'")
    for _ in range(2):
        with pytest.raises(Refusal, match="it holds a proved archive"):
            archive_here(config, spark_engine)
    (tmp_path / f"{db.name}.t" / "_archive" / "000000.json").unlink()
    with pytest.raises(Refusal, match=r"it holds a proved archive, and .*000000.json is not there"):
        archive_here(config, spark_engine)
    assert before
    assert read_back(tmp_path, db) == before
    assert proved(tmp_path, db)["rows"]["archived"] == len(before)


def test_an_empty_folder_is_no_folder(db):
    """A variable of a script that is not set must not drop rows without an archive."""
    make_days(db, 50)
    done = run(db, "migrate", "--table", "t", "--keep", KEEP, "--archive-to", "")
    assert done.returncode == 2
    assert "--archive-to is empty" in done.stderr
    assert len(db.query("SELECT id FROM t")) == 50


def make_half_a_pair(db: Any, charset: str) -> None:
    """Make a table that has half of a surrogate pair, which is a letter to ucs2."""
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(50) CHARACTER SET ucs2)")
    db.execute(
        "INSERT INTO u VALUES (1, 'a'), (2, NULL),"
        " (7, CONCAT(REPEAT(_ucs2 x'0078', 40), _ucs2 x'D8000062'))"
    )
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50)) CHARSET {charset}")
    db.execute("INSERT INTO t SELECT * FROM u")


def test_a_text_with_half_a_surrogate_pair_is_named(db):
    """No driver reads it, and nothing but the row's text tells which row it is."""
    make_half_a_pair(db, "utf8mb4")
    with connect(connection_options(db), role="archive") as session:
        table = read_table(session, db.name, "t")
        assert table is not None
        kept = StoredTable.of(table)
        statement = f"SELECT {', '.join(kept.selected)} FROM {table.quoted}"
        with pytest.raises(ValueLost, match="half of a surrogate pair") as lost:
            list(batches_of(session, statement, kept))
    # Spark keeps what ends a task: no part of the value.
    assert "7878" not in lost.value.message
    found = lost.value.message.partition("found by ")[2].replace("column", "v")
    assert db.query(f"SELECT id FROM t WHERE {found}") == [(7,)]


@pytest.mark.slow
def test_a_text_of_utf8mb3_with_half_a_surrogate_pair_is_beside(db, spark_engine, tmp_path):
    """The server makes question marks of it, in the hash of the rows, too: that proved them."""
    make_half_a_pair(db, "utf8mb3")
    archive_here(archiving(db, tmp_path), spark_engine)
    found = [(row["v"], dict(row["_mysql"] or ())) for row in read_back(tmp_path, db)]
    assert found == [("a", {}), (None, {}), (None, {"v": "78" * 40 + "EDA08062"})]


@pytest.mark.slow
def test_pieces_that_keep_other_texts_beside_are_of_another_archive(
    db, spark_engine, tmp_path, monkeypatch
):
    """As of a version to which an ENUM was whole: its pieces were read back as damaged."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', X'F040') CHARACTER SET sjis);"
        " INSERT INTO t VALUES (1, 2), (2, 1); COMMIT"
    )
    with monkeypatch.context() as patch:
        patch.setattr("spirit_py.archiving.columns.whole", lambda *_: True)
        stop_at(monkeypatch, "archive.piece", archiving(db, tmp_path), spark_engine)
    with pytest.raises(Refusal, match="it holds another archive"):
        archive_here(archiving(db, tmp_path), spark_engine)

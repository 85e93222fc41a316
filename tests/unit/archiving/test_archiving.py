"""What an archive decides without a server: batches, hashes of many rows, names of folders."""

from __future__ import annotations

import hashlib
import logging
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.logger import PySparkLogger

from spirit_py.archiving.archive import Archive
from spirit_py.archiving.columns import HASH_DIGITS, StoredTable
from spirit_py.archiving.folder import _Here
from spirit_py.archiving.notes import ArchiveFolder, Tally, folder_of, piece_of
from spirit_py.archiving.ranges import _column_of
from spirit_py.archiving.rows import _BATCH_BYTES, _STEP_ROWS, BATCH_ROWS, _sized
from spirit_py.archiving.session import SparkTables
from spirit_py.chunk.chunk import KeyRange
from spirit_py.errors import Refusal
from spirit_py.table.keys import KeyBound
from spirit_py.table.names import archive_folder
from spirit_py.threads import StopSwitch
from tests.kits.definitions import column, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def test_batches_end_by_rows_or_by_bytes():
    """Short rows by their number, long ones by what is in memory."""
    short = [[(number,) for number in range(BATCH_ROWS)]] * 3
    assert [len(batch) for batch in _sized(short)] == [BATCH_ROWS] * 3
    long = [[("x" * (_BATCH_BYTES // 4), number) for number in range(_STEP_ROWS)]] * 12
    # One row may be longer: no more than that is fetched beyond the limit.
    assert [len(batch) for batch in _sized(long)] == [4] * 3
    assert list(_sized([])) == []


def test_hashes_of_rows_are_added_up_in_any_order():
    """Two equal rows are not the same as two other equal rows, or as none."""
    hashes = [
        int(hashlib.sha256(text).hexdigest()[:HASH_DIGITS], 16) for text in (b"a", b"b", b"c")
    ]
    a, b, c = (Tally(1, one) for one in hashes)
    assert a.plus(b).plus(c) == c.plus(b).plus(a)
    assert a.plus(a) != b.plus(b)
    assert len({one.digits for one in (Tally(), a.plus(a), b.plus(b), a.plus(b))}) == 4
    assert {len(one.digits) for one in (Tally(), a, a.plus(b).plus(c))} == {HASH_DIGITS}


def test_folders_have_plain_names():
    """Of the table below the folder that was given, and of an expression."""
    assert archive_folder("s3a://bucket/x/", ("shop", "orders")) == "s3a://bucket/x/shop.orders"
    altered = archive_folder("s3a://bucket/x/", ("shop", "a/b c"))
    assert altered.startswith("s3a://bucket/x/shop.a_2Fb_20c-")
    assert _column_of("YEAR(created_at)", lambda _: False) == "year_created_at"
    assert _column_of("`é`", lambda _: False) == "part"
    assert _column_of("v", lambda name: name == "v") == "v_"


@pytest.mark.parametrize(
    "names",
    [
        (("a.b", "c"), ("a", "b.c")),
        (("a", "t%"), ("a", "t_25")),
        (("訂單", "表" * 30), ("訂單", "表" * 31)),
    ],
)
def test_no_two_tables_have_one_folder(names):
    """Both would be refused there, one of them after the swap."""
    one, other = (archive_folder("/x", name) for name in names)
    assert one != other
    assert max(map(len, (one, other))) < 3 + 255


def test_a_table_with_long_values_is_known():
    """Only there a few rows at a time are in memory."""
    plain = table(column("id"), column("v", "varchar(20)"))
    assert not StoredTable.of(plain).wide
    for kind in ("longblob", "text", "json", "geometry"):
        wide = replace(plain, columns=(*plain.columns, column("w", kind)))
        assert StoredTable.of(wide).wide


def test_a_piece_may_have_any_number_of_files():
    """One for each value of ``--archive-by`` and each task, of which there may be many."""
    assert piece_of("id=7/rows-000012-123456.parquet") == 12
    assert piece_of("rows-000012-00003.parquet") == 12
    assert piece_of("rows-000012-3.parquet") == -1


def test_the_folder_of_a_file_stands_for_a_value():
    """As Spark writes what a folder's name cannot hold."""
    assert folder_of("rows-000012-00003.parquet") == ""
    assert folder_of("year=2024/rows-000012-00003.parquet") == "2024"
    assert folder_of("v=a%3Ab%25%2F%3D/rows-000012-00003.parquet") == "a:b%/="
    assert folder_of("v=x=y/rows-000012-00003.parquet") == "x=y"


@pytest.mark.parametrize(
    ("estimated", "there", "rows"),
    [(4_000, 4_100, 1_001), (0, 900, 1_000), (0, 50_000, 32_768), (4_000, 50_000, 1 << 20)],
)
def test_an_old_estimate_makes_no_small_files(estimated: int, there: int, rows: int) -> None:
    """Of a table that was empty when its statistics were made, each file would have 1000 rows."""

    class Table:
        table = SimpleNamespace(row_bytes=256 * bool(estimated), estimated_rows=estimated)

        def cut(self, _query: Any, rows: int, _within: KeyRange) -> Iterator[KeyRange]:
            for end in range(rows, there, rows):
                yield KeyRange(upper=KeyBound(literals=(str(end),)))
            yield KeyRange()

    given: Any = {"what": Table(), "step": lambda work: work(SimpleNamespace(query=None))}
    rest: Any = dict.fromkeys(("path", "born", "context", "connection", "engine", "progress"))
    archive = Archive(**given, **rest, turn=bool, slots=4, stop=StopSwitch())
    assert archive._rows_of_a_range() == rows


def noted_by(tmp_path: Path, upper: Sequence[str]) -> ArchiveFolder:
    """Return a folder of this machine, without Spark, in which pieces are written and noted."""
    folder = ArchiveFolder.__new__(ArchiveFolder)
    read = SimpleNamespace(bound=lambda of: KeyBound(literals=tuple(of)) if of else None)
    more: Any = {"_what": read, "_parted_by": None, "_run": "run", "_of": _Here(str(tmp_path))}
    vars(folder).update(more, path=str(tmp_path))
    bounds = [None, *(KeyBound(literals=(one,)) if one else None for one in upper)]
    for number, (lower, end) in enumerate(pairwise(bounds)):
        folder.note(number, KeyRange(lower=lower, upper=end), written=True)
        (tmp_path / f"rows-{number:06d}-00000.parquet").write_text(str(number))
    return folder


def test_the_files_of_a_piece_that_is_written_anew_are_put_aside(tmp_path: Path) -> None:
    """The table may have more rows by now, and yet not all that they have."""
    folder = noted_by(tmp_path, ["5", "9", ""])
    (tmp_path / "rows-000003-00000.parquet").write_text("not noted yet")
    folder.note(
        1, KeyRange(lower=KeyBound(literals=("5",)), upper=KeyBound(literals=("9",))), written=False
    )
    assert folder.noted()[1] == [1]
    names = [one.name for one in folder.data_files()]
    assert names == ["rows-000000-00000.parquet", "rows-000002-00000.parquet"]
    put = tmp_path / "_archive" / "replaced" / "run"
    assert (put / "rows-000001-00000.parquet.old").read_text() == "1"
    assert (put / "rows-000003-00000.parquet.old").read_text() == "not noted yet"


def test_the_files_of_a_last_piece_whose_note_is_gone_are_put_aside(tmp_path: Path) -> None:
    """A small table has one piece, and its files may have rows that the table has no more."""
    folder = noted_by(tmp_path, [""])
    (tmp_path / "_archive" / "000000.json").unlink()
    assert folder.noted() == ([], [])
    put = tmp_path / "_archive" / "replaced" / "run" / "rows-000000-00000.parquet.old"
    assert put.read_text() == "0"


@pytest.mark.parametrize("lost", [["000001.json"], ["000001.json", "000002.json"]])
def test_nothing_is_deleted_behind_a_note_that_is_gone(lost: list[str], tmp_path: Path) -> None:
    """Not every file system replaces a note in one step, and pieces behind it may be kept ones."""
    folder = noted_by(tmp_path, ["5", "9", ""])
    before = folder.data_files()
    for name in lost:
        (tmp_path / "_archive" / name).unlink()
    with pytest.raises(Refusal, match=r"000001\.json is not there, and later pieces are"):
        folder.noted()
    assert folder.data_files() == before


def test_a_manifest_that_is_nested_too_deeply_is_not_the_same(tmp_path: Path) -> None:
    """Whoever may write to the folder could have ended every run of the command (R26)."""
    folder = noted_by(tmp_path, [""])
    (tmp_path / "_manifest.json").write_text("[" * 100_000)
    assert folder.says_the_same("{}") == ""


def test_one_range_of_a_piece_is_cut_and_hashed_at_a_turn() -> None:
    """A global lock that comes meanwhile waits for one statement, and no range is cut for later."""
    done: list[str] = []
    bounds = [None, *(KeyBound(literals=(str(at),)) for at in (10, 20, 30))]

    class Table:
        def cut(self, query: Any, rows: int, within: KeyRange) -> Iterator[KeyRange]:
            assert rows == 0
            query("cut")
            for lower, upper in pairwise(bounds[bounds.index(within.lower) :]):
                yield KeyRange(lower=lower, upper=upper)

        def hashes_of(self, within: KeyRange, part: str) -> str:
            return f"hash {within}{part}"

    def asked(statement: str) -> list[Any]:
        done.append(statement)
        return []

    given: Any = {
        "what": Table(),
        "step": lambda work: work(SimpleNamespace(query=asked)),
        "turn": lambda: done.append("turn"),
    }
    rest: Any = dict.fromkeys(("path", "born", "context", "connection", "engine", "progress"))
    archive = Archive(**given, **rest, slots=1, stop=StopSwitch())
    archive._hashed(KeyRange(upper=bounds[-1]))
    ranges = ("(-inf; 10]", "(10; 20]", "(20; 30]")
    assert done == [one for each in ranges for one in ("turn", "cut", f"hash {each}")]


def test_pysparks_own_logger_is_silent_for_as_long_as_an_archive_works(monkeypatch):
    """It is the application's, too, in a program that goes on; two archives may overlap."""
    session = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))
    sessions = type("Sessions", (), {"__new__": lambda *_: session})
    sql = SimpleNamespace(SparkSession=sessions, functions=None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    logger: Any = PySparkLogger.getLogger("SQLQueryContextLogger")
    shown: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: shown.append(record.getMessage()))
    monkeypatch.setattr(logger, "handlers", [handler])
    one, other = (SparkTables(None, "archive of s.t", StopSwitch()) for _ in range(2))
    logger.error("of both", errorClass="X")
    one.close()
    logger.error("of the other", errorClass="X")
    other.close()
    logger.error("of nobody", errorClass="X")
    assert shown == ["of nobody"]
    monkeypatch.setattr(sessions, "__new__", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SparkTables(None, "archive of s.t", StopSwitch())
    logger.error("where Spark failed", errorClass="X")
    assert shown[1:] == ["where Spark failed"]

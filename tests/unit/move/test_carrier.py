"""The literals of a row that is read from another server."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.move import carrier
from spirit_py.move.carrier import _literals, rows_in
from tests.kits.chunks import chunk, mapping, primary
from tests.kits.definitions import column

TEXT = b'[1, "a"]'.hex()
TYPES = '["ARRAY", "INTEGER", "STRING"]'


@pytest.mark.parametrize(
    ("parts", "literals"),
    [
        (["1", TEXT, TYPES], ["1", f"_utf8mb4 X'{TEXT}'"]),
        (["1", None, None], ["1", "NULL"]),
        (["1", None, TYPES], None),
        (["1", TEXT, '["ARRAY"]'], ["1", f"_utf8mb4 X'{TEXT}'"]),
        ([None, TEXT, TYPES], None),
    ],
    ids=["document", "null", "no text", "plain", "too long"],
)
def test_a_document_without_its_text_is_no_null(parts, literals):
    """NULL has no types of nodes; a value that has them was not given by the server."""
    assert _literals(parts, {1}) == literals


class Reader:
    """A session that counts the rows that were fetched."""

    def __init__(self, *answers: list[Any]) -> None:
        self.fetched, self.at_a_time, self._answers = 0, 0, iter(answers)

    def stream(self, _sql: str, rows: int):
        """Yield the rows of the next answer one by one."""
        self.at_a_time = rows
        for row in next(self._answers):
            self.fetched += 1
            yield [row]


TABLE = mapping(primary("id"), column("id", "int"), column("b", "blob"))


def test_no_more_rows_are_in_memory_than_are_written_at_a_time(monkeypatch):
    """Rows of megabytes may follow each other in a table whose rows are short."""
    monkeypatch.setattr(carrier, "_GATHERED", 1000)
    reader: Any = Reader([("1, X'" + "00" * 200 + "'", "0")] * 30)
    read = 0
    for before, rows in rows_in(reader, TABLE, chunk(0, None, None)):
        assert before == read
        assert len(rows) <= 3
        read += len(rows)
        assert reader.fetched == read
    assert read == 30


@pytest.mark.parametrize(
    ("kind", "at_a_time"),
    [("varchar", 100), ("mediumblob", 1), ("json", 1), ("geometry", 1), ("vector", 1)],
)
def test_rows_that_may_be_long_are_fetched_one_by_one(kind, at_a_time):
    """Hundred rows of a document each may take more memory than the process has."""
    reader: Any = Reader([])
    table = mapping(primary("id"), column("id", "int"), column("b", kind))
    assert list(rows_in(reader, table, chunk(0, None, None))) == []
    assert reader.at_a_time == at_a_time


def test_rows_longer_than_the_average_make_no_larger_transaction():
    """Each list is one: a chunk is cut by the average length of the table's rows."""
    long = [(f"{n}, '{'x' * 1_000_000}'", "0") for n in range(8)]
    reader: Any = Reader(long)
    found = [rows for _, rows in rows_in(reader, TABLE, chunk(0, None, None))]
    assert sum(map(len, found)) == 8
    assert max(sum(len(row.sql) for row in rows) for rows in found) < 6_000_000


def test_where_the_text_of_one_row_is_too_long_all_are_read_anew(monkeypatch):
    """Column by column, from the first one on; the rest of the answer is read to its end before."""
    monkeypatch.setattr(carrier, "_GATHERED", 20)
    texts = [("1, X'00000000'", "0"), ("2, X'00000000'", "0"), (None, "0"), ("4, X'00'", "0")]
    reader: Any = Reader(texts, [(n, n, b"x") for n in range(1, 5)])
    found = list(rows_in(reader, TABLE, chunk(0, None, None)))
    assert reader.fetched == 8
    assert [before for before, _ in found] == [0, 0, 2]
    assert [len(rows) for _, rows in found] == [2, 2, 2]

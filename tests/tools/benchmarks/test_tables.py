"""What the application writes, and to which rows."""

import pickle
import re

import pytest

from benchmarks import tables

TABLES = {
    "sysbench": tables.SYSBENCH,
    "indexed": tables.INDEXED,
    "text key": tables.TEXT_KEY,
    "wide": tables.WIDE,
}


def test_one_write_in_four_deletes_a_text_key():
    """The others insert as many, and update."""
    kinds = [tables.TEXT_KEY.write(n, n, 1000).split()[0] for n in range(400)]
    assert kinds.count("DELETE") == 100
    assert kinds.count("INSERT") == 100
    assert kinds.count("UPDATE") == 200


def test_the_key_of_a_row_is_the_one_that_the_server_computed():
    """The first 32 digits of the number's SHA-256, in groups."""
    assert tables.text_key(1) == "6b86b273-ff34-fce1-9d6b-804eff5a3f57"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", tables.text_key(77))


def test_writes_reach_every_row_once_before_any_twice():
    """Deletes are not of rows that are gone."""
    assert {tables.row_of(number, 1000) for number in range(1000)} == set(range(1, 1001))


def test_the_wide_table_has_60_columns():
    """Key, document and text included."""
    assert len(re.findall(r"^\w+ |, (?=[a-z]+\d? )", tables.WIDE.definition)) == 60
    assert tables.WIDE.columns.count(",") == 58


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_goes_to_the_process_of_the_writers(table):
    """It is pickled with all that it needs."""
    assert pickle.loads(pickle.dumps(table)).write(5, 5, 100) == table.write(5, 5, 100)

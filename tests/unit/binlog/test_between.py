"""Writes to a new table between two runs: which are noted, and which were ours."""

from __future__ import annotations

import pytest

from spirit_py.binlog.events import Place, StatementSeen
from spirit_py.binlog.position import FileFrontier, FilePlace, GtidFrontier, GtidSet
from spirit_py.binlog.resumption import BetweenRuns, reached_at
from spirit_py.binlog.wire import name_key

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"
NEW = name_key("s", "_t_new")


def by_gtid() -> BetweenRuns:
    """Look from behind number 5 up to number 9."""
    behind, until = (GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-{n}")) for n in (5, 9))
    return BetweenRuns([("s", "_t_new"), ("s", "_u_new")], behind=behind, until=until)


def by_file() -> BetweenRuns:
    """Look at the same stretch without GTIDs."""
    behind, until = (FileFrontier(UUID, FilePlace(f"b.00000{n}", 500)) for n in (2, 3))
    return BetweenRuns([("s", "_t_new"), ("s", "_u_new")], behind=behind, until=until)


def gtid(number: int) -> Place:
    """Return a place in a transaction."""
    return Place("b.000001", 700, UUID, number)


def said(sql: str, number: int, **more: object) -> StatementSeen:
    """Return a statement in a transaction."""
    return StatementSeen(gtid(number), "s", sql, 9, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "noted"), [(5, False), (6, True), (9, True), (10, False)])
def test_rows_between_two_sets_are_noted(number, noted):
    """Neither what the earlier run wrote nor what this one writes counts."""
    between = by_gtid()
    between.rows(NEW, gtid(number), prepared=False)
    assert between.written_by_others == ({("s", "_t_new")} if noted else set())


@pytest.mark.parametrize(
    ("file", "offset", "noted"),
    [
        ("b.000002", 500, False),
        ("b.000002", 501, True),
        ("b.000003", 4, True),
        ("b.000003", 500, True),
        ("b.000003", 501, False),
        ("b.000010", 4, False),
    ],
)
def test_rows_between_two_places_are_noted(file, offset, noted):
    """Without GTIDs file and offset tell."""
    between = by_file()
    between.rows(NEW, Place(file, offset), prepared=False)
    assert bool(between.written_by_others) is noted


def test_other_tables_do_not_count():
    """A write to a table that nobody compared says nothing."""
    between = by_gtid()
    between.rows(name_key("s", "t"), gtid(7), prepared=False)
    between.rows(name_key("other", "_t_new"), gtid(7), prepared=False)
    assert not between.written_by_others


def test_rows_of_an_xa_transaction_count_wherever_they_are():
    """They come when it is decided, and that may be any time later."""
    between = by_gtid()
    between.rows(NEW, gtid(3), prepared=True)
    assert between.written_by_others == {("s", "_t_new")}


@pytest.mark.parametrize(
    ("sql", "number", "noted"),
    [
        ("TRUNCATE TABLE `_T_new`", 7, True),
        ("TRUNCATE TABLE `_t_new`", 5, False),
        ("TRUNCATE TABLE `_t_new`", 10, False),
        ("TRUNCATE TABLE `t`", 7, False),
    ],
)
def test_statements_that_name_the_table_count(sql, number, noted):
    """TRUNCATE leaves no row behind, and none in the binlog."""
    between = by_gtid()
    between.statement(said(sql, number))
    assert between.written_by_others == ({("s", "_t_new")} if noted else set())


def about(table: str) -> BetweenRuns:
    """Look at everything that is about one table."""
    everything = GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-9"))
    return BetweenRuns([("s", table)], behind=GtidFrontier(UUID, GtidSet()), until=everything)


def test_a_name_with_a_backquote_is_found():
    """It is doubled in statements."""
    between = about("_a`b_new")
    between.statement(said("TRUNCATE `_a``b_new`", 3))
    assert between.written_by_others


def test_a_name_is_found_in_every_reading():
    """Of a client with another character set; one that cannot be read may hold any such name."""
    for event in (
        said("TRUNCATE `_tÃ«st_new`", 3, other="TRUNCATE `_tëst_new`"),
        said("TRUNCATE `_tebst_new`", 3, certain=False),
    ):
        between = about("_tëst_new")
        between.statement(event)
        assert between.written_by_others
    between = about("_test_new")
    between.statement(said("TRUNCATE `_tebst_new`", 3, certain=False))
    assert not between.written_by_others


def test_positions_are_read_back():
    """As they are stored; a text that is none gives nothing, and then all of it counts."""
    found = reached_at(f"gtid;{UUID};{UUID}:1-5")
    assert isinstance(found, GtidFrontier)
    assert found.gtids.has(UUID, 5)
    place = reached_at(f"file;{UUID};b.000002;500")
    assert isinstance(place, FileFrontier)
    assert place.place == FilePlace("b.000002", 500)
    assert reached_at("") is None

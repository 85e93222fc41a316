"""GTID sets, file places and positions as text."""

from __future__ import annotations

import random

import pytest

from spirit_py.binlog.events import Place
from spirit_py.binlog.position import (
    FileFrontier,
    FilePlace,
    GtidFrontier,
    GtidSet,
    read_position,
)
from tests.kits.draw import seed_of

A = "16e8969d-e4d3-11f1-b00c-02fc00000001"
B = "17b0f0fa-e4d3-11f1-97c7-02fc00000001"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        (f"{A}:1-5", f"{A}:1-5"),
        (f"{A}:1-5:7,\n{B}:3", f"{A}:1-5:7,{B}:3"),
        (f"{A}:1-2:spirit:1:4-5", f"{A}:1-2,{A}:spirit:1:4-5"),
        (f"{A}:1-2:3-4:6", f"{A}:1-4:6"),
        (f"{A.upper()}:5:1", f"{A}:1:5"),
    ],
)
def test_sets_are_read_as_the_server_prints_them(text: str, shown: str) -> None:
    """Ranges, several servers, tags, capitals and line breaks are read, and neighbours merge."""
    assert str(GtidSet.parse(text)) == shown


@pytest.mark.parametrize("text", ["x", f"{A}", f"{A}:", f"{A}:5-3", f"{A}:0", f"{A}:1:-2", "1-2"])
def test_what_is_not_a_set_is_refused(text: str) -> None:
    """Text that the server would not take raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        GtidSet.parse(text)


def test_the_encoding_is_the_servers() -> None:
    """The bytes equal those of a PREVIOUS_GTIDS event that MySQL 9.7 wrote, with a tag."""
    found = GtidSet.parse(f"{A}:1-2:spirit:1")
    assert found.encode().hex() == (
        "0102000000000001"
        "16e8969de4d311f1b00c02fc00000001"
        "00"
        "0100000000000000"
        "0100000000000000"
        "0300000000000000"
        "16e8969de4d311f1b00c02fc00000001"
        "0c737069726974"
        "0100000000000000"
        "0100000000000000"
        "0200000000000000"
    )


def test_a_set_without_tags_has_the_old_encoding() -> None:
    """Servers before 8.3 must be able to read the set."""
    assert GtidSet.parse(f"{A}:1-2").encode().hex() == (
        "010000000000000016e8969de4d311f1b00c02fc00000001"
        "010000000000000001000000000000000300000000000000"
    )


def test_set_operations_agree_with_plain_sets() -> None:
    """Random unions, differences and questions give what Python's own sets give."""
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    for _ in range(300):
        ours = [GtidSet(), GtidSet()]
        plain: list[set[tuple[str, int]]] = [set(), set()]
        for _ in range(rng.randrange(30)):
            which, tsid, start = rng.randrange(2), rng.choice([A, f"{A}:x"]), rng.randrange(1, 40)
            stop = start + rng.randrange(1, 5)
            ours[which].add_range(tsid, start, stop)
            plain[which] |= {(tsid, n) for n in range(start, stop)}
        assert ours[0].contains(ours[1]) == (plain[0] >= plain[1])
        number = rng.randrange(1, 40)
        assert ours[0].has(A, number) == ((A, number) in plain[0])
        union, difference = ours[0].copy(), ours[0].copy()
        union.update(ours[1])
        difference.subtract(ours[1])
        for made, wanted in ((union, plain[0] | plain[1]), (difference, plain[0] - plain[1])):
            assert {(t, n) for t, a, b in made.ranges() for n in range(a, b)} == wanted
            assert GtidSet.parse(str(made)) == made


def test_positions_survive_their_text() -> None:
    """Both kinds come back from their opaque text as they were."""
    for gtids in (f"{A}:1-5,{A}:tag:1", ""):
        found = read_position(GtidFrontier(A, GtidSet.parse(gtids)).text())
        assert isinstance(found, GtidFrontier)
        assert (found.server_uuid, str(found.gtids)) == (A, gtids)
    place = FilePlace("binlog.000009", 4)
    found = read_position(FileFrontier(A, place).text())
    assert isinstance(found, FileFrontier)
    assert (found.server_uuid, found.place) == (A, place)


OTHER_TEXTS = [
    *("", "gtid;x;y", f"file;{A};binlog;4", f"file;{A};b.01;x", "{}"),
    *(f"file;{A};b.01;-5", f"file;{A};b.01;3"),
]


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_other_text_is_not_a_position(text: str) -> None:
    """A damaged position raises ValueError instead of resuming somewhere."""
    with pytest.raises(ValueError, match=r"."):
        read_position(text)


def test_files_are_ordered_by_number() -> None:
    """binlog.1000000 comes after binlog.999999, though not as text."""
    assert FilePlace("binlog.1000000", 4).reaches(FilePlace("binlog.999999", 900))
    assert not FilePlace("binlog.000002", 3).reaches(FilePlace("binlog.000002", 4))


def test_a_place_behind_4_gib_is_not_resumed_from() -> None:
    """The dump command has 32 bits: the place before stays until the next file (4 GiB rule)."""
    frontier = FileFrontier(A, FilePlace("b.000001", 4))
    frontier.advance(Place("b.000001", 5000))
    frontier.advance(Place("b.000001", 2**32 + 7))
    assert frontier.text() == f"file;{A};b.000001;5000"
    assert frontier.reaches(FileFrontier(A, FilePlace("b.000001", 2**32 + 7)))
    assert frontier.copy().text() == frontier.text()
    frontier.advance(Place("b.000002", 4))
    assert frontier.text() == f"file;{A};b.000002;4"


def test_a_gtid_frontier_gains_transactions() -> None:
    """Advancing adds one transaction, absorbing adds another frontier's."""
    frontier = GtidFrontier(A, GtidSet.parse(f"{A}:1-5"))
    later = frontier.empty()
    later.advance(Place("b.000001", 9, A, 6))
    later.advance(Place("b.000001", 9))
    assert not frontier.reaches(later)
    frontier.absorb(later)
    assert frontier.text() == f"gtid;{A};{A}:1-6"

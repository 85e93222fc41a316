"""A pass that read nothing, or not every chunk, is no pass."""

from __future__ import annotations

import pytest

from spirit_py.checksum.ledger import PassLedger
from spirit_py.checksum.result import Counts
from spirit_py.checksum.worker import decode_chunk, encode_chunk
from spirit_py.chunk.chunk import Chunk, KeyBound
from spirit_py.errors import ChecksumFailure


def bound(number: int | None) -> KeyBound | None:
    """Return the position of an integer key."""
    return None if number is None else KeyBound(literals=(str(number),), comparable=(number,))


def chunk(number: int, lower: int | None, upper: int | None) -> Chunk:
    """Return a chunk of an integer key."""
    return Chunk(number=number, lower=bound(lower), upper=bound(upper), target_rows=10)


def begun(*chunks: Chunk) -> PassLedger:
    """Return a ledger with these chunks handed out."""
    ledger = PassLedger()
    ledger.begin_segment()
    for each in chunks:
        ledger.segment.dispatch(each)
    return ledger


def test_a_whole_pass():
    """Chunks without a gap, all answered, whose rows add up, make a pass."""
    ledger = begun(chunk(0, None, 5), chunk(1, 5, None))
    ledger.segment.answer(1, 4, 4, Counts())
    ledger.segment.answer(0, 5, 6, Counts(extra=1))
    assert ledger.end_segment(9, 10, aligned=True) == 0
    assert (ledger.complete, ledger.rows, ledger.chunks) == (True, 9, 2)
    assert (ledger.differing_chunks, ledger.differences) == (1, 1)


def test_segments_follow_each_other():
    """A new snapshot goes on above the last one's end, and the figures add up."""
    ledger = begun(chunk(0, None, 5))
    ledger.segment.answer(0, 5, 5, Counts())
    ledger.end_segment(5, 5, aligned=True)
    assert not ledger.complete
    ledger.begin_segment()
    with pytest.raises(ChecksumFailure, match="does not follow"):
        ledger.segment.dispatch(chunk(1, 6, None))
    ledger.segment.dispatch(chunk(1, 5, None))
    assert ledger.segment.span == Chunk(number=0, lower=bound(5), upper=None, target_rows=0)
    ledger.segment.answer(1, 2, 2, Counts())
    ledger.end_segment(2, 2, aligned=True)
    assert (ledger.complete, ledger.rows, ledger.chunks) == (True, 7, 2)


def test_a_segment_begun_again_forgets_the_lost_one():
    """What a lost gang has compared does not count."""
    ledger = begun(chunk(0, None, 5), chunk(1, 5, None))
    ledger.segment.answer(0, 5, 5, Counts(changed=3))
    ledger.begin_segment()
    ledger.segment.dispatch(chunk(2, None, None))
    ledger.segment.answer(2, 9, 9, Counts())
    ledger.end_segment(9, 9, aligned=True)
    assert (ledger.rows, ledger.chunks, ledger.differences) == (9, 1, 0)


def test_gap_between_chunks():
    """A chunk that does not begin where the last one ended is refused."""
    with pytest.raises(ChecksumFailure, match="does not follow"):
        begun(chunk(0, None, 5), chunk(1, 6, None))


def test_first_chunk_above_the_beginning():
    """A pass that does not begin at the beginning is refused."""
    with pytest.raises(ChecksumFailure, match="does not follow"):
        begun(chunk(0, 1, None))


def test_chunk_after_the_end():
    """Nothing follows the chunk that is open above."""
    with pytest.raises(ChecksumFailure, match="does not follow"):
        begun(chunk(0, None, None), chunk(1, None, None))


def test_no_chunk_is_no_pass():
    """A segment that read nothing does not end, even when the tables are empty."""
    with pytest.raises(ChecksumFailure, match="0 of 0 chunks"):
        begun().end_segment(0, 0, aligned=True)


def test_a_chunk_without_an_answer():
    """A segment with a chunk that nobody compared does not end."""
    ledger = begun(chunk(0, None, 5), chunk(1, 5, None))
    ledger.segment.answer(0, 5, 5, Counts())
    with pytest.raises(ChecksumFailure, match="1 of 2 chunks"):
        ledger.end_segment(5, 5, aligned=True)


def test_an_answer_twice():
    """One chunk's answer does not stand for another's."""
    ledger = begun(chunk(0, None, 5), chunk(1, 5, None))
    ledger.segment.answer(0, 5, 5, Counts())
    with pytest.raises(ChecksumFailure, match="without having been asked"):
        ledger.segment.answer(0, 5, 5, Counts())


@pytest.mark.parametrize(("source", "target"), [(8, 7), (7, 8)])
def test_rows_that_no_chunk_held(source, target):
    """The chunks must hold what an independent count finds, on both sides."""
    ledger = begun(chunk(0, None, None))
    ledger.segment.answer(0, 7, 7, Counts())
    with pytest.raises(ChecksumFailure, match="a count 8"):
        ledger.end_segment(source, target, aligned=True)


def test_rows_beyond_a_join():
    """Where rows are looked up by key, those of the new table beyond them are extra."""
    ledger = begun(chunk(0, None, None))
    ledger.segment.answer(0, 7, 7, Counts())
    assert ledger.end_segment(7, 9, aligned=False) == 2


def test_chunks_travel():
    """A chunk that went through the mailbox is the same range."""
    travelled = decode_chunk(encode_chunk(chunk(3, 5, None)))
    assert (travelled.number, travelled.lower, travelled.upper) == (
        3,
        KeyBound(literals=("5",)),
        None,
    )

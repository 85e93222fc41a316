"""A pass that read nothing, or not every chunk, is no pass."""

from __future__ import annotations

import pytest

from spirit_py.checksum.result import Counts, PassCoverage
from spirit_py.chunk.chunk import Chunk
from spirit_py.errors import ChecksumFailure
from spirit_py.table.keys import KeyBound


def bound(number: int | None) -> KeyBound | None:
    """Return the position of an integer key."""
    return None if number is None else KeyBound(literals=(str(number),), comparable=(number,))


def chunk(number: int, lower: int | None, upper: int | None) -> Chunk:
    """Return a chunk of an integer key."""
    return Chunk(number=number, lower=bound(lower), upper=bound(upper), target_rows=10)


def begun(*chunks: Chunk) -> PassCoverage:
    """Return a coverage with these chunks handed out."""
    coverage = PassCoverage()
    coverage.begin_segment()
    for each in chunks:
        coverage.segment.dispatch(each)
    return coverage


def test_chunks_without_a_gap_make_a_pass():
    """Chunks without a gap, all answered, whose rows add up, make a pass."""
    coverage = begun(chunk(0, None, 5), chunk(1, 5, None))
    coverage.segment.answer(1, 4, 4, Counts())
    coverage.segment.answer(0, 5, 6, Counts(extra=1))
    assert coverage.end_segment(9, 10, aligned=True) == 0
    assert (coverage.complete, coverage.rows, coverage.chunks) == (True, 9, 2)
    assert (coverage.differing_chunks, coverage.differences) == (1, 1)


def test_segments_follow_each_other():
    """A new snapshot goes on above the last one's end, and the figures add up."""
    coverage = begun(chunk(0, None, 5))
    coverage.segment.answer(0, 5, 5, Counts())
    coverage.end_segment(5, 5, aligned=True)
    assert not coverage.complete
    coverage.begin_segment()
    with pytest.raises(ChecksumFailure, match="does not follow"):
        coverage.segment.dispatch(chunk(1, 6, None))
    coverage.segment.dispatch(chunk(1, 5, None))
    coverage.segment.answer(1, 2, 2, Counts())
    coverage.end_segment(2, 2, aligned=True)
    assert (coverage.complete, coverage.rows, coverage.chunks) == (True, 7, 2)


def test_a_key_in_another_order_shows_extra_rows_at_the_end():
    """Its new table has as many rows as the source, but for those that were missing."""
    coverage = begun(chunk(0, None, 5))
    coverage.segment.answer(0, 5, 3, Counts(missing=2))
    assert coverage.end_segment(5, 0, aligned=False) == 0
    coverage.begin_segment()
    coverage.segment.dispatch(chunk(1, 5, None))
    coverage.segment.answer(1, 4, 4, Counts())
    assert coverage.end_segment(4, 8, aligned=False, below=5) == 1


def test_a_segment_begun_again_forgets_the_lost_one():
    """What a lost gang has compared does not count."""
    coverage = begun(chunk(0, None, 5), chunk(1, 5, None))
    coverage.segment.answer(0, 5, 5, Counts(changed=3))
    coverage.begin_segment()
    coverage.segment.dispatch(chunk(2, None, None))
    coverage.segment.answer(2, 9, 9, Counts())
    coverage.end_segment(9, 9, aligned=True)
    assert (coverage.rows, coverage.chunks, coverage.differences) == (9, 1, 0)


def test_a_gap_between_chunks_is_refused():
    """A chunk that does not begin where the last one ended is refused."""
    with pytest.raises(ChecksumFailure, match="does not follow"):
        begun(chunk(0, None, 5), chunk(1, 6, None))


def test_a_first_chunk_above_the_beginning_is_refused():
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
    coverage = begun(chunk(0, None, 5), chunk(1, 5, None))
    coverage.segment.answer(0, 5, 5, Counts())
    with pytest.raises(ChecksumFailure, match="1 of 2 chunks"):
        coverage.end_segment(5, 5, aligned=True)


def test_an_answer_that_comes_twice_is_refused():
    """One chunk's answer does not stand for another's."""
    coverage = begun(chunk(0, None, 5), chunk(1, 5, None))
    coverage.segment.answer(0, 5, 5, Counts())
    with pytest.raises(ChecksumFailure, match="without having been asked"):
        coverage.segment.answer(0, 5, 5, Counts())


@pytest.mark.parametrize(("source", "target"), [(8, 7), (7, 8)])
def test_rows_that_no_chunk_held_are_refused(source, target):
    """The chunks must hold what an independent count finds, on both sides."""
    coverage = begun(chunk(0, None, None))
    coverage.segment.answer(0, 7, 7, Counts())
    with pytest.raises(ChecksumFailure, match="a count 8"):
        coverage.end_segment(source, target, aligned=True)


def test_rows_beyond_a_join_count_as_extra():
    """Where rows are looked up by key, those of the new table beyond them are extra."""
    coverage = begun(chunk(0, None, None))
    coverage.segment.answer(0, 7, 7, Counts())
    assert coverage.end_segment(7, 9, aligned=False) == 2

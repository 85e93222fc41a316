"""What is copied without a gap, in whatever order the chunks commit."""

from __future__ import annotations

from spirit_py.copier.prefix import CopiedPrefix, CopiedSoFar
from tests.kits.chunks import chunk


def test_nothing_is_copied_at_first():
    """Neither before the first chunk, nor while it runs."""
    prefix = CopiedPrefix()
    assert prefix.so_far() == CopiedSoFar()
    prefix.dispatched(chunk(0, None, 10))
    assert prefix.so_far() == CopiedSoFar()


def test_a_gap_holds_the_prefix_back():
    """A chunk that commits early counts when those before it have committed."""
    prefix = CopiedPrefix()
    chunks = [chunk(0, None, 10), chunk(1, 10, 20), chunk(2, 20, 30)]
    for each in chunks:
        prefix.dispatched(each)
    prefix.committed(chunks[1], 7)
    assert prefix.so_far().rows == 0
    prefix.committed(chunks[0], 10)
    assert prefix.so_far() == CopiedSoFar(up_to=("20",), rows=17, chunks=2)
    prefix.committed(chunks[2], 1)
    assert prefix.so_far() == CopiedSoFar(up_to=("30",), rows=18, chunks=3)


def test_it_goes_on_where_an_earlier_run_stopped():
    """Rows and chunks of earlier runs count; the last chunk ends the table."""
    prefix = CopiedPrefix(CopiedSoFar(up_to=("100",), rows=90, chunks=3))
    assert prefix.so_far().up_to == ("100",)
    last = chunk(0, 100, None)
    prefix.dispatched(last)
    prefix.committed(last, 5)
    assert prefix.so_far() == CopiedSoFar(rows=95, chunks=4, finished=True)


def test_an_empty_rest_is_finished_too():
    """A table of which nothing is left to cut is copied."""
    prefix = CopiedPrefix(CopiedSoFar(up_to=("100",), rows=90, chunks=3))
    prefix.finish()
    assert prefix.so_far() == CopiedSoFar(rows=90, chunks=3, finished=True)

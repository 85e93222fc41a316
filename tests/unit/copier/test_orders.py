"""What a task is told about a chunk, and what it answers, as texts in the mailbox."""

from __future__ import annotations

from dataclasses import replace

from spirit_py.chunk.chunk import decode_chunk, encode_chunk
from spirit_py.copier.meter import ChunkCopied
from spirit_py.copier.task import ChunkOrder
from spirit_py.table.keys import KeyBound
from tests.kits.chunks import bound, chunk

CUT = replace(chunk(3, 5, None), cuts=(bound(7), bound(9)))


def test_a_chunk_survives_the_mailbox():
    """A chunk that went through the mailbox is the same range with the same parts."""
    travelled = decode_chunk(encode_chunk(CUT))
    assert (travelled.number, travelled.lower, travelled.upper) == (
        3,
        KeyBound(literals=("5",)),
        None,
    )
    assert [part.lower for part in travelled.parts] == [
        KeyBound(literals=(literal,)) for literal in "579"
    ]
    assert [part.upper for part in travelled.parts[:-1]] == [
        part.lower for part in travelled.parts[1:]
    ]


def test_each_part_has_a_gtid_of_its_own():
    """The numbers of a chunk's parts follow one another."""
    order = ChunkOrder.decode(ChunkOrder(chunk=CUT, visibility="u:1-9", gtid="v:7").encode())
    assert order.visibility == "u:1-9"
    assert [order.gtid_of(part) for part in range(3)] == ["v:7", "v:8", "v:9"]
    assert ChunkOrder(chunk=CUT).gtid_of(2) == ""


def test_an_answer_survives_the_mailbox():
    """Figures come back as they were."""
    answer = ChunkCopied(number=3, rows=70, seconds=0.25, retries=1)
    assert ChunkCopied.decode(answer.encode()) == answer

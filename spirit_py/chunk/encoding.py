"""A chunk as JSON, for an order to a task: only SQL text, no comparable keys (pure)."""

from __future__ import annotations

from typing import Any

from spirit_py.chunk.chunk import Chunk, KeyBound


def encode_chunk(chunk: Chunk) -> dict[str, Any]:
    """Turn a chunk into JSON's types."""
    return {
        "number": chunk.number,
        "lower": None if chunk.lower is None else chunk.lower.literals,
        "upper": None if chunk.upper is None else chunk.upper.literals,
        "rows": chunk.target_rows,
        "cuts": [cut.literals for cut in chunk.cuts],
    }


def decode_chunk(said: dict[str, Any]) -> Chunk:
    """Turn :func:`encode_chunk`'s result back into a chunk."""
    return Chunk(
        number=said["number"],
        lower=_bound(said["lower"]),
        upper=_bound(said["upper"]),
        target_rows=said["rows"],
        cuts=tuple(KeyBound(literals=tuple(cut)) for cut in said["cuts"]),
    )


def _bound(literals: list[str] | None) -> KeyBound | None:
    return None if literals is None else KeyBound(literals=tuple(literals))

"""The checkpoint record is read back whole, or refused."""

from __future__ import annotations

import json

import pytest

from spirit_py.checkpoint.record import CheckpointRecord, UnreadableCheckpoint, from_text, to_text

RECORD = CheckpointRecord(
    statement="ADD COLUMN x INT",
    schema="shop",
    table="orders",
    server_uuid="u",
    phase="copy",
    position="opaque",
    copied_up_to=("1", "_utf8mb4 X'61'"),
    rows_copied=7,
)


def test_a_record_comes_back_as_it_was():
    """Writing and reading lose nothing."""
    assert from_text(to_text(RECORD)) == RECORD


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "not JSON"),
        ("[]", "format None"),
        (json.dumps({"format": 99}), "format 99"),
        (json.dumps({"format": 1, "statement": "x"}), "fields differ"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text, reason):
    """A record of another format is never guessed at (R17)."""
    with pytest.raises(UnreadableCheckpoint, match=reason):
        from_text(text)

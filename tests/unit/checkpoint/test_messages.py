"""Processes of different versions understand each other, or the operator learns why not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from spirit_py.checkpoint.codec import FORMAT, UnreadableCheckpoint, message_from_text, to_text
from spirit_py.checkpoint.live import DONE, FAILED, Answer, LiveFigures, Request
from spirit_py.checkpoint.queue import Asked, Malformed, RequestQueue
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.errors import MigrationFailure

TOKEN = "0123456789abcdef"
REQUEST = Request(verb="pause", token=TOKEN, arguments={"a": "b"})
ANSWER = Answer(token=TOKEN, state=DONE, said=("paused",))
FIGURES = LiveFigures(
    table="s.t", elapsed=1.0, phase_elapsed=1.0, host="h", pid=1, run="r", program="p", phase="copy"
)


class Rows:
    """A session in which one row of the checkpoint table is found."""

    def __init__(self, text: str) -> None:
        """Have the row."""
        self.text = text

    def query(self, sql: str, *_: object):
        """Return it with its number, or as the one value that is asked for."""
        if "IS_USED_LOCK" in sql:
            return [(None,)]
        return [(16, self.text)] if sql.lstrip().startswith("SELECT id") else [(self.text,)]

    def execute(self, *_: object) -> int:
        """Change nothing."""
        return 0


def changed(row: Any, drop: tuple[str, ...] = (), **more: object) -> Any:
    """Return a row as another version would write it."""
    found = json.loads(to_text(row)) | more
    return Rows(json.dumps({name: value for name, value in found.items() if name not in drop}))


class Crowd(Rows):
    """A session in which the table of the requests has many rows."""

    def __init__(self, *texts: str) -> None:
        """Number them from 1."""
        super().__init__("")
        self.rows = list(enumerate(texts, start=1))
        self.queries = 0

    def query(self, sql: str, *given: object):
        """Return as many as are asked for, behind the number that is asked for."""
        if not sql.startswith("SELECT id"):
            return super().query(sql, *given)
        self.queries += 1
        behind, most = re.search(r"id > (\d+)", sql), re.search(r"LIMIT (\d+)", sql)
        first = int(behind[1]) if behind else 0
        return self.rows[first:][: int(most[1]) if most else 0]


def queue() -> RequestQueue:
    """Return the queue of a table."""
    return RequestQueue("s", "t")


@pytest.mark.parametrize("more", [{}, {"of_tomorrow": {"x": [1]}}])
def test_a_field_of_another_version_is_passed_over(more):
    """In a request, in an answer, and in the figures of now."""
    assert queue().waiting(changed(REQUEST, **more)) == [Asked(number=16, request=REQUEST)]
    assert queue().answer_to(changed(ANSWER, **more), 16, TOKEN) == ANSWER
    table = CheckpointTable("s", "t")
    assert table.read(changed(FIGURES, **more), LiveFigures) == FIGURES


def test_answers_that_nobody_reads_hide_no_request():
    """However many there are; of requests no more are read than are needed."""
    many: Any = Crowd(*[to_text(ANSWER)] * 1000, to_text(REQUEST))
    assert queue().waiting(many) == [Asked(number=1001, request=REQUEST)]
    many = Crowd(*["rubbish"] * 1000)
    assert (len(queue().waiting(many)), many.queries) == (200, 1)


def test_a_field_that_another_version_does_not_write_has_its_default():
    """An older process knows no code of errors and counts fewer figures."""
    assert queue().answer_to(changed(ANSWER, drop=("error_code", "hint")), 16, TOKEN) == ANSWER
    table = CheckpointTable("s", "t")
    assert table.read(changed(FIGURES, drop=("feed_lag", "paused")), LiveFigures) == FIGURES


def test_what_cannot_be_understood_is_refused_with_its_reason():
    """A request ends no process, and an answer is no defect of the program."""
    (found,) = queue().waiting(changed(REQUEST, drop=("verb",)))
    assert isinstance(found, Malformed)
    assert "without verb" in found.why
    with pytest.raises(MigrationFailure, match="cannot be read: it has format") as failed:
        queue().answer_to(changed(ANSWER, format=FORMAT + 1), 16, TOKEN)
    assert "version" in failed.value.hint
    with pytest.raises(MigrationFailure, match="cannot be read: the answer of a failure says why"):
        queue().answer_to(changed(ANSWER, state=FAILED, said=[]), 16, TOKEN)
    with pytest.raises(UnreadableCheckpoint, match="has format"):
        message_from_text("[]", Request)

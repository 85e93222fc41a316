"""The rows of reverse replication are read back whole, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spirit_py.checkpoint.codec import (
    FORMAT,
    UnreadableCheckpoint,
    from_text,
    message_from_text,
    to_text,
)
from spirit_py.checkpoint.live import WORKING, Answer, Request
from spirit_py.checkpoint.record import ReverseRecord, ReverseTable
from spirit_py.errors import Interrupted, OutcomeUnknown, Refusal, SpiritError
from spirit_py.migration.reverse.keeper import ReverseReplicationLost
from spirit_py.table.build import ReverseChanges

TABLE = ReverseTable(
    schema="s",
    table="t",
    old="_t_old",
    undone="_t_undone",
    changes=ReverseChanges(renames={"b": "a"}, added=frozenset({"gone"}), dropped=frozenset({"n"})),
    now_shape="1",
    old_shape="2",
    losses=("s.t: a revert loses the values of column n",),
)
RECORD = ReverseRecord(tables=(TABLE,), position="p;'x'", until=17.5)


def test_every_row_comes_back_as_it_was():
    """Record, request and answer lose nothing in their JSON."""
    assert from_text(to_text(RECORD), ReverseRecord) == RECORD
    request = Request.of("revert", {"skip-drop": "yes"})
    assert from_text(to_text(request), Request) == request
    answer = Answer(token="t", state=WORKING, said=("one", "two"), details=("d",), exit_code=1)
    assert from_text(to_text(answer), Answer) == answer


@pytest.mark.parametrize(
    "change", [{"format": FORMAT + 1}, {"more": 1}, {"tables": []}, {"tables": [{"schema": "s"}]}]
)
def test_a_record_of_another_form_is_refused(change):
    """Another format, other fields, no tables: none of it is guessed at."""
    found = {**json.loads(to_text(RECORD)), **change}
    with pytest.raises(UnreadableCheckpoint):
        from_text(json.dumps(found), ReverseRecord)


@pytest.mark.parametrize("text", ["", "{", "[]", "1"])
def test_text_that_is_no_json_object_is_refused(text):
    """Neither an empty text, nor half an object, nor a list."""
    with pytest.raises(UnreadableCheckpoint):
        from_text(text, ReverseRecord)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refusal("no", hint="h", details=("d",)), Refusal),
        (OutcomeUnknown("lost", hint="h", details=("d",)), OutcomeUnknown),
        (ReverseReplicationLost("gone", hint="h", details=("d",)), SpiritError),
    ],
)
def test_a_failure_arrives_with_its_exit_code(error, kind):
    """What failed in the asked process fails the command that asked in the same way."""
    told = from_text(to_text(Answer.of_error("t", error)), Answer).as_error()
    assert isinstance(told, kind)
    assert (told.message, told.hint, told.details) == (error.message, error.hint, error.details)
    assert told.exit_code == error.exit_code


def test_a_signal_to_the_process_that_was_asked_is_a_plain_failure():
    """The exit code of a signal is only for the process that got it."""
    told = from_text(to_text(Answer.of_error("t", Interrupted(15))), Answer).as_error()
    assert (told.exit_code, told.message) == (1, "interrupted by SIGTERM")


def test_every_request_has_a_lock_of_its_own():
    """By it the asked process knows that a command waits, for this and nothing else (R26)."""
    asked = Request.of("set", {"nice": "1"})
    assert asked.lock != Request.of("set", {"nice": "1"}).lock
    assert asked.lock != replace(asked, verb="abort").lock
    assert asked.lock != replace(asked, arguments={"nice": "2"}).lock
    assert asked.lock == replace(asked).lock


@pytest.mark.parametrize(
    "change",
    [
        *({"token": "0" * 15}, {"token": "x" * 16}, {"verb": "a\x1b[2J"}),
        *({"arguments": found} for found in ({"a": "\n"}, {"a": "1" * 3000}, {"a": 1}, [1])),
    ],
)
def test_a_request_has_a_token_and_short_printable_texts(change):
    """It is shown in logs and on terminals, and anybody with INSERT may have written it (R26)."""
    found = {**json.loads(to_text(Request.of("pause", {}))), **change}
    with pytest.raises(UnreadableCheckpoint):
        message_from_text(json.dumps(found), Request)

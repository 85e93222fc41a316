"""From what can be seen after a lost answer to what it means."""

from __future__ import annotations

import itertools

import pytest

from spirit_py.attached.sequence import NO_ANSWER, Evidence, ExistingTables, Verdict, judge
from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions
from spirit_py.cutover import rename
from spirit_py.errors import AnotherServer, MigrationFailure, ServerFault, SpiritError

BEFORE = ExistingTables(source=True, new=True, old=False)
AFTER = ExistingTables(source=True, new=False, old=True)


def seen(*tables: ExistingTables, fence: int | None = None, server: str = "ours") -> Evidence:
    """Return what a look at our server showed."""
    return Evidence(server=server, fence=fence, tables=tables)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (seen(AFTER), Verdict.DONE),
        (seen(AFTER, AFTER), Verdict.DONE),
        (seen(BEFORE), Verdict.NOT_DONE),
        (seen(BEFORE, BEFORE), Verdict.NOT_DONE),
        (seen(BEFORE, AFTER), Verdict.UNKNOWN),
        (seen(), Verdict.UNKNOWN),
        (seen(fence=7), Verdict.END_SESSION),
        (seen(BEFORE, fence=7), Verdict.END_SESSION),
        (seen(AFTER, fence=7), Verdict.END_SESSION),
        (seen(AFTER, server="another"), Verdict.UNKNOWN),
        (seen(BEFORE, server="another"), Verdict.UNKNOWN),
        (Evidence(server="", unseen="another server answers"), Verdict.UNKNOWN),
        (NO_ANSWER, Verdict.LOOK_AGAIN),
    ],
)
def test_the_names_prove_the_outcome_once_the_session_is_gone(evidence, verdict):
    """Done and not done are proven by the names, once the locking session is proven gone."""
    assert judge(evidence, server="ours") is verdict


def test_every_other_set_of_names_is_unknown():
    """Names that are neither those before nor those after the swap prove nothing."""
    for source, new, old in itertools.product((True, False), repeat=3):
        names = ExistingTables(source=source, new=new, old=old)
        if names not in {BEFORE, AFTER}:
            assert judge(seen(names), server="ours") is Verdict.UNKNOWN, names


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (AnotherServer("another server answers"), Verdict.UNKNOWN),
        (
            MigrationFailure("another run has taken over", error_code=ErrorCode.ALREADY_RUNNING),
            Verdict.UNKNOWN,
        ),
        (ServerFault(2003, "Can't connect", where="look"), Verdict.LOOK_AGAIN),
    ],
)
def test_who_may_not_look_has_seen_nothing(monkeypatch, error: SpiritError, verdict):
    """R14, R15: the server that was sent the RENAME is not the one that answers, or not for us."""

    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(rename, "connect", refused)
    evidence = rename.look(ConnectionOptions(), fence="a", swaps=[])
    assert judge(evidence, server="ours") is verdict
    assert evidence.unseen == ("" if verdict is Verdict.LOOK_AGAIN else error.message)

"""Messages between the driver and its own threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.spark import member as module
from spirit_py.spark.member import MemoryMailbox
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession


class Pinged:
    """A session that counts its statements."""

    id = 7

    def __init__(self) -> None:
        self.statements: list[str] = []

    def execute(self, sql: str, _parameters: Any = None) -> int:
        """Note one statement."""
        self.statements.append(sql)
        return 0


@pytest.fixture
def session() -> SqlSession:
    """Return a session of a member."""
    return Pinged()  # type: ignore[return-value] # what the mailbox needs of one


def test_what_is_posted_ends_a_member_s_wait(session, monkeypatch):
    """No order waits for the next look."""
    monkeypatch.setattr(module, "_PING_SECONDS", 60.0)
    mailbox = MemoryMailbox(session)
    member = mailbox.join(1, session)
    found = []

    def await_orders() -> None:
        member.wait(0.002)
        found.extend(member.orders())

    thread = threading.Thread(target=await_orders)
    thread.start()
    mailbox.post(0, [(1, "for another member")])
    mailbox.post(1, [(1, "copy")])
    thread.join(30.0)
    assert found == [(1, "copy")]


def test_orders_that_were_posted_before_the_wait_are_found_at_once(session, monkeypatch):
    """The driver posts the first orders before the members have joined."""
    monkeypatch.setattr(module, "_PING_SECONDS", 60.0)
    mailbox = MemoryMailbox(session)
    mailbox.post(0, [(1, "copy")])
    member = mailbox.join(0, session)
    member.wait(0.002)
    assert member.orders() == [(1, "copy")]


def test_a_member_without_orders_uses_its_session_between_two_waits(session, monkeypatch):
    """The server counts it as idle otherwise, and a lost one is noticed by it."""
    monkeypatch.setattr(module, "_PING_SECONDS", 0.0)
    member = MemoryMailbox(session).join(0, session)
    member.wait(0.001)
    assert member.orders() == []
    assert session.statements == ["DO 0"]


def test_a_member_that_carries_out_one_order_after_another_asks_nothing_beside(
    session, monkeypatch
):
    """A session that has just answered is alive."""
    monkeypatch.setattr(module, "_LONG_SECONDS", 60.0)
    member = MemoryMailbox(session).join(0, session)
    for number in range(50):
        member.write({"rank": 0, "sessions": [], "answers": [(number, "")]})
        member.orders()
    assert len(session.statements) <= 1


def test_what_a_member_writes_ends_the_driver_s_wait(session):
    """No answer waits for the next look."""
    mailbox = MemoryMailbox(session)
    member = mailbox.join(0, session)
    found = []

    def await_answer() -> None:
        mailbox.await_letter(60.0, StopSwitch())
        found.extend(mailbox.letters())

    thread = threading.Thread(target=await_answer)
    thread.start()
    member.write({"rank": 0})
    thread.join(30.0)
    assert found == [(7, {"rank": 0})]

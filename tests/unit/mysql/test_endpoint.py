"""What sessions show of the servers behind an address."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from spirit_py.mysql.endpoint import SeenSession, what_is_wrong

NUMBERS = (11, 12, 15)
ONE_SERVER = tuple(
    SeenSession(
        greeted=number,
        server=("db1:3306", "uuid-1"),
        numbers=(number, number),
        holders=NUMBERS,
    )
    for number in NUMBERS
)


def changed(which: int, **changes):
    """Return the sessions with one of them changed."""
    return [replace(one, **changes) if i == which else one for i, one in enumerate(ONE_SERVER)]


def test_one_server_is_one_server():
    """Every session is where all are, has the number of its greeting, and sees all locks."""
    assert what_is_wrong(ONE_SERVER) == ""


@pytest.mark.parametrize(
    ("sessions", "trouble"),
    [
        # A load balancer, DNS with several addresses.
        (
            changed(1, server=("db2:3306", "uuid-2")),
            "3 sessions reached 2 servers, db1:3306 uuid-1, db2:3306 uuid-2",
        ),
        # Instances of one Aurora cluster.
        (changed(2, server=("db1:3306", "uuid-1", "writer")), "reached 2 servers"),
        # ProxySQL: numbers of its own in the greeting, of the server in a query, or in neither.
        (changed(0, numbers=(71, 71)), "greeted as 11 is session 71 of the server, so a proxy"),
        (changed(0, numbers=(11, 71)), "greeted as 11 is session 71 of the server, so a proxy"),
        (changed(0, holders=(71, 12, 15)), "session 11 took a named lock, .* held by 71"),
        # Reads and writes go to different servers.
        (changed(0, holders=(None, None, None)), "session 11 finds it held by nobody"),
        # Statements of one session go to different sessions.
        (changed(1, holders=(11, 12, None)), "session 15 took .* session 12 finds it held by no"),
    ],
)
def test_what_is_not_one_server_is_told_apart(sessions, trouble):
    """R14, R15: each way in which sessions or statements are shared out shows somewhere."""
    assert re.search(trouble, what_is_wrong(sessions))

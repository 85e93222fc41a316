"""Which servers may not be repaired from each other, as their variables say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.compare import checks
from spirit_py.compare.checks import one_group
from spirit_py.errors import ServerFault
from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.grants import Grants
from spirit_py.mysql.replication import channels

GROUP = "5f2d8f0e-0c5c-4b43-8d1e-4b7a3c1f0001"


def member(name: str | None) -> ServerFacts:
    """Return a server with this name of a group; none without the plugin."""
    variables = {} if name is None else {"group_replication_group_name": name}
    return ServerFacts(version="9.7.4", variables=variables)


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        (member(GROUP), member(GROUP.upper()), True),
        (member(GROUP), member(GROUP.replace("5f", "6f")), False),
        (member(GROUP), member(None), False),
        (member(""), member(""), False),
        (member(None), member(None), False),
    ],
)
def test_members_of_one_group_are_not_repaired_from_each_other(
    source: ServerFacts, target: ServerFacts, refused: bool
) -> None:
    """A secondary that is late would have the rows of the primary deleted."""
    assert bool(list(one_group(source, target))) is refused


class Session:
    """A session for which some statements are refused."""

    def __init__(self, *refused: str, code: int, rows: tuple[tuple[object, ...], ...] = ()) -> None:
        self._refused, self._code, self._rows = refused, code, rows

    def query(self, sql: str, _: object = None) -> tuple[tuple[object, ...], ...]:
        """Answer like a server without replication."""
        if any(part in sql for part in self._refused):
            raise ServerFault(self._code, "denied", where="test")
        if "replication_group_members" in sql:
            return ()
        return self._rows if "replication_connection" in sql else ((1, 0),)


def side(what: str, session: Session) -> Any:
    """Return one side of a comparison."""
    grants = Grants(lines=(), account="u@h")
    facts = ServerFacts(version="9.7.4", variables={"server_uuid": what})
    return SimpleNamespace(what=what, session=session, grants=grants, facts=facts)


@pytest.mark.parametrize(
    ("refused", "code", "remedy"),
    [
        (("threads", "REPLICA"), 1227, "GRANT REPLICATION CLIENT ON *.* TO `u`@`h`;"),
        (("replication_",), 1142, "GRANT SELECT ON `performance\\_schema`.* TO `u`@`h`;"),
    ],
    ids=["nothing of performance_schema", "a part of it"],
)
def test_an_account_that_may_not_see_gets_the_grant_for_what_was_asked(refused, code, remedy):
    """SELECT is no remedy where performance_schema is off, or too small for all sessions."""
    there = side("target", Session(*refused, code=code))
    (finding,) = checks._replication(there, side("source", Session(code=0)), "harm")
    assert finding.remedy == f"on that server: {remedy}"


def test_a_promoted_replica_is_told_how_to_forget_its_source():
    """It has the settings of its former replication until then."""
    found = Session(code=0, rows=(("", "OFF", "", "OFF", "source", 0),))
    (finding,) = checks._replication(side("target", found), side("source", found), "harm")
    assert "RESET REPLICA ALL" in finding.remedy
    assert "mysql.rds_reset_external_master" in finding.remedy


def test_a_channel_is_explained_by_its_own_error():
    """A replica of several sources has a worker's error for each."""
    errors = {"east": "no such row", "west": "duplicate key"}

    def query(sql: str, given: Any = ()) -> Any:
        if "replication_connection" in sql:
            return [(name, "ON", "", "OFF", f"source-{name}", 0) for name in errors]
        if "LAST_ERROR_MESSAGE" in sql:
            return [(text,) for name, text in errors.items() if not given or name in given]
        return [] if "lost" in sql else [(1,)]

    session: Any = SimpleNamespace(query=query)
    found = [one.trouble for one in channels(session)]
    assert found == [f"its applier is OFF: {text}" for text in errors.values()]

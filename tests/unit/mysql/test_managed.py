"""Managed services are recognised by what only they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.mysql.endpoint import Service, how_to_set, kept_seconds, service_of
from spirit_py.mysql.facts import ServerFacts


class Routines:
    """A session of a server with some procedures in the schema mysql."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def query(self, _sql: str, _parameters: object = None) -> list[tuple[Any, ...]]:
        """Return the procedures."""
        return [(name,) for name in self._names]


@pytest.mark.parametrize(
    ("version", "variables", "routines", "service"),
    [
        ("8.0.36", {}, (), Service.NONE),
        ("8.0.36", {"aurora_version": "3.07.1"}, ("rds_show_configuration",), Service.AURORA),
        ("8.0.36", {"basedir": "/rdsdbbin/mysql-8.0.36/"}, (), Service.RDS),
        ("8.0.36", {}, ("rds_show_configuration",), Service.RDS),
        ("8.0.36-google", {}, (), Service.CLOUD_SQL),
        ("8.0.36", {"version_comment": "(Google)"}, (), Service.CLOUD_SQL),
        ("8.0.36", {}, ("az_replication_start",), Service.AZURE),
    ],
)
def test_a_service_is_recognised(version, variables, routines, service):
    """By a variable, the version, a folder or a procedure."""
    session: Any = Routines(*routines)
    assert service_of(session, ServerFacts(version=version, variables=variables)) is service


def test_a_setting_is_changed_as_the_service_does_it():
    """Where SET PERSIST is denied, it is not named."""
    said = {service: how_to_set(service, "binlog_format", "'ROW'") for service in Service}
    assert said.pop(Service.NONE) == "SET PERSIST binlog_format = 'ROW'"
    assert not [text for text in said.values() if "PERSIST" in text]
    assert "DB cluster parameter group" in said[Service.AURORA]


@pytest.mark.parametrize(
    ("hours", "aurora", "seconds"),
    [
        (None, False, 3600.0),
        (("24",), False, 86_400.0),
        (("24",), True, 86_400.0),
        (("0",), False, 300.0),
        ((None,), False, 300.0),
        ((None,), True, 0.0),
    ],
)
def test_the_hours_of_rds_count_where_it_has_some(hours, aurora, seconds):
    """They are how long the binlog is kept, whatever binlog_expire_logs_seconds says.

    Without any, a file goes as soon as RDS has copied it; Aurora does not say when.
    """

    def query(sql: str) -> list[tuple[Any, ...]]:
        if "ROUTINES" in sql:
            return [(1,)] if hours else []
        if "aurora_version" in sql:
            return [("aurora_version", "3.08")] if aurora else []
        if sql.startswith("CALL"):
            return [("binlog retention hours", *(hours or ()))]
        return [(3600,)]

    session: Any = SimpleNamespace(query=query)
    assert kept_seconds(session) == seconds

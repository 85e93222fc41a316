"""Managed services are recognised by what only they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import ServerFault
from spirit_py.mysql.endpoint import HOW_TO_LOG, Service, how_to_set, kept_seconds, service_of
from spirit_py.mysql.facts import ServerFacts
from spirit_py.sql import string_literal


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


def test_the_binary_log_is_switched_on_as_the_service_does_it():
    """Nobody starts a server of a service with an option."""
    said = dict(HOW_TO_LOG)
    assert said.pop(Service.NONE) == "start the server with --log-bin"
    assert not [text for text in said.values() if "--log-bin" in text]
    assert "automated backups" in said[Service.RDS]
    assert set(HOW_TO_LOG) == set(Service)


@pytest.mark.parametrize(
    ("hours", "variables", "seconds"),
    [
        (None, {}, 3600.0),
        (("24",), {}, 86_400.0),
        (("24",), {"aurora_version": "3.08"}, 86_400.0),
        (("0",), {}, 300.0),
        ((None,), {}, 300.0),
        ((None,), {"aurora_version": "3.08"}, 0.0),
        # Without EXECUTE the procedure is not listed, and may not be called.
        (None, {"basedir": "/rdsdbbin/mysql-8.0.36/"}, 0.0),
        (None, {"aurora_version": "3.08"}, 0.0),
    ],
)
def test_the_hours_of_rds_count_where_it_has_some(hours, variables, seconds):
    """They are how long the binlog is kept, whatever binlog_expire_logs_seconds says.

    Without any, a file goes as soon as RDS has copied it; Aurora does not say when.
    """
    settings = {"binlog_expire_logs_seconds": "3600", **variables}
    assert kept(settings, "rds_show_configuration" if hours else "", hours) == seconds


@pytest.mark.parametrize(
    ("settings", "routine", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "0"}, "", 0.0),
        ({"binlog_expire_logs_seconds": "0"}, "az_replication_start", 300.0),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "2"}, "", 172_800.0),
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "ON"}, "", 60.0),
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, "", 0.0),
    ],
)
def test_every_setting_counts_that_has_files_purged(settings, routine, seconds):
    """MySQL 8.0 has days or seconds, and 0 of the other; Azure keeps nothing at 0."""
    assert kept(settings, routine) == seconds


def kept(settings: dict[str, str], routine: str, hours: Any = None) -> float:
    """Return the retention of a server with these settings, and one routine of its service."""

    def query(sql: str) -> list[tuple[Any, ...]]:
        if sql == "SELECT VERSION()":
            return [("8.0.36",)]
        if sql.startswith("SHOW GLOBAL VARIABLES WHERE Variable_name IN"):
            return [
                (name, value) for name, value in settings.items() if string_literal(name) in sql
            ]
        if "ROUTINES" in sql:
            return [(routine,)] if routine else []
        if hours is None:
            raise ServerFault(1370, "execute command denied", where="server")
        return [("binlog retention hours", *hours)]

    session: Any = SimpleNamespace(query=query)
    return kept_seconds(session)

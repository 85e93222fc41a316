"""Proxies and load balancers between the program and its server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from spirit_py.command_config import CompareConfig
from spirit_py.compare.run import compare
from spirit_py.config import MigrationConfig, RevertConfig
from spirit_py.errors import AnotherServer, Refusal
from spirit_py.events.copy import ChecksumBegun
from spirit_py.migration.cleanup import clean_up
from spirit_py.migration.reverse.revert import Revert
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.migrate import config_for, migrate_here
from tests.kits.replica import ACCOUNT, replicated_pair
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import ALTER, make_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.events.event import Event
    from tests.kits.replica import ReplicatedPair


def never(_: str) -> NoReturn:
    """Fail: nothing is to be asked or reported."""
    raise AssertionError("asked")


def make_table_of_both(both: ReplicatedPair) -> None:
    """Make a table of one row on the source, and wait until the replica has it."""
    both.at.execute(f"GRANT ALL ON *.* TO {ACCOUNT}")
    both.at.execute("CREATE DATABASE r")
    both.at.execute("CREATE TABLE r.t (id INT PRIMARY KEY, v INT)")
    both.at.execute("INSERT INTO r.t VALUES (1, 1)")
    both.at.execute("SELECT @@GLOBAL.gtid_executed")
    both.of.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", both.at.fetchall()[0])


@pytest.mark.slow
def test_a_proxy_that_passes_bytes_through_is_no_hindrance(db, proxy, engine):
    """A tunnel or a TCP balancer in front of one server."""
    make_table(db)
    through = connection_options(db, proxy)
    report, _ = migrate_here(engine, config_for(db, connection=through, table="t", alter=ALTER))
    assert report.outcome == "done"


def test_a_proxy_that_speaks_the_protocol_itself_is_refused(db, proxy, engine):
    """R24: its numbers of sessions are not the server's, by which sessions are killed."""
    make_table(db)
    proxy.renumbers = True
    through = connection_options(db, proxy)
    with pytest.raises(Refusal, match="so a proxy stands between") as refused:
        migrate_here(engine, config_for(db, connection=through, table="t", alter=ALTER))
    assert "the address of the server itself" in refused.value.hint
    assert refused.value.exit_code == 2
    assert db.query("SHOW TABLES") == [("t",)]


@pytest.mark.slow
@pytest.mark.gtid
def test_a_balancer_between_a_source_and_its_replica_is_refused(proxy_to, engine):
    """R14: before anything is written, with both servers named; one server behind it is none."""
    with replicated_pair() as both:
        make_table_of_both(both)
        proxy = proxy_to((both.source.host, both.source.port))
        through = replace(both.options, host=proxy.host, port=proxy.port)
        with connect_first(through, role="test") as session:
            require_one_server(session, through)

        proxy.targets.append((both.replica.host, both.replica.port))
        asked: dict[str, Any] = {"connection": through, "database": "r", "table": "t"}
        compared: dict[str, Any] = {"database": "r", "table": "t", "target_database": "r"}
        tried: list[Callable[[], object]] = [
            lambda: migrate_here(engine, MigrationConfig(**asked, alter="ADD c INT")),
            lambda: Revert(
                RevertConfig(**asked),
                RecordingReporter(),
                engine_factory=lambda _: ThreadEngine(),
                stop=StopSwitch(),
            ).run(),
            lambda: clean_up(through, database="r", table="t", ask=never, ask_old=never, say=never),
            lambda: compare(
                CompareConfig(source=through, **compared, target_table="u"),
                reporter=RecordingReporter(),
                engine_factory=lambda _: ThreadEngine(),
            ),
        ]
        for command in tried:
            with pytest.raises(Refusal, match="4 sessions reached 2 servers") as refused:
                command()
            assert str(both.source.port) in refused.value.message
            assert str(both.replica.port) in refused.value.message
        both.at.execute("SHOW TABLES IN r")
        assert both.at.fetchall() == (("t",),)


@pytest.mark.slow
@pytest.mark.gtid
def test_an_address_that_leads_elsewhere_in_the_middle_ends_the_command(proxy_to):
    """R14: a comparison would compare the replica with itself, a cleanup forget what is left."""
    with replicated_pair() as both:
        make_table_of_both(both)
        proxy = proxy_to((both.source.host, both.source.port))
        source = replace(both.options, host=proxy.host, port=proxy.port)
        replica = replace(both.options, host=both.replica.host, port=both.replica.port)

        class LeadsElsewhere(RecordingReporter):
            def event(self, event: Event) -> None:
                super().event(event)
                if isinstance(event, ChecksumBegun):
                    proxy.targets[:] = [(both.replica.host, both.replica.port)]

        of_table: dict[str, Any] = {"database": "r", "table": "t"}
        to_table: dict[str, Any] = {"target_database": "r", "target_table": "t"}
        with pytest.raises(AnotherServer, match="another server answers"):
            compare(
                CompareConfig(source=source, target=replica, **of_table, **to_table),
                reporter=LeadsElsewhere(),
                engine_factory=lambda _: ThreadEngine(),
            )

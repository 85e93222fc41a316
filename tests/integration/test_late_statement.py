"""A statement that the server carries out after the run has lost its connection, and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spirit_py.classes import replace
from spirit_py.errors import ServerFault
from tests.kits.connection import connection_options
from tests.kits.migrate import Migrating, config_for
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database
    from tests.kits.tcp_proxy import TcpProxy


_OURS = """
SELECT 1 FROM performance_schema.user_variables_by_thread WHERE variable_name = 'spirit_py_role'"""


def test_a_table_is_not_made_after_the_run_has_dropped_what_it_made(
    db: Database, engine: GangEngine, proxy: TcpProxy
) -> None:
    """R18: the session whose connection was cut is ended first; nobody would know the name."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    server = connection_options(db)
    through = replace(server, host=proxy.host, port=proxy.port, ssl_mode="DISABLED")
    proxy.hold_back(b"` LIKE `%b`.`t`" % db.name.encode())
    run = Migrating(
        engine, config_for(db, connection=through, table="t", alter="ADD n INT", no_shortcut=True)
    )
    with pytest.raises(ServerFault, match="ost connection"):
        run.end()
    assert proxy.held.is_set()
    proxy.let_go.set()
    until(lambda: proxy.connections == 0, "the held request to have reached the server")
    until(lambda: not db.query(_OURS), "the server to have carried out what it got")
    assert db.query("SHOW TABLES") == [("t",)]

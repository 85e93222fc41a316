"""The TLS modes of a connection: what is tried next, and what is not."""

from __future__ import annotations

import contextlib

import MySQLdb
import pymysql
import pytest

from spirit_py.binlog import connection as binlog
from spirit_py.binlog.position import FilePlace
from spirit_py.config import ConnectionOptions
from spirit_py.errors import FeedFailure, Refusal, ServerFault
from spirit_py.mysql import connect as connections
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import ACCESS_DENIED
from spirit_py.mysql.tls import driver
from spirit_py.mysql.tls.modes import TLS_FAULT, TLS_REQUIRED
from tests.kits.greedy_server import GreedyServer

FAR = ConnectionOptions(host="db1", user="u", password="wrong")
NEAR = ConnectionOptions(host="127.0.0.1", user="u", password="wrong")


NO_TLS = "TLS/SSL error: SSL is required, but the server does not support it"


@pytest.mark.parametrize(
    ("options", "code", "text", "tried"),
    [
        (FAR, ACCESS_DENIED, "denied", ["REQUIRED"]),
        (FAR, TLS_FAULT, NO_TLS, ["REQUIRED", "DISABLED"]),
        (FAR, TLS_FAULT, "TLS/SSL error: unsupported protocol", ["REQUIRED"]),
        (NEAR, ACCESS_DENIED, "denied", ["DISABLED", "REQUIRED"]),
        (NEAR, TLS_REQUIRED, "insecure transport", ["DISABLED", "REQUIRED"]),
        (FAR, 2003, "no answer", ["REQUIRED"]),
    ],
)
def test_a_denied_password_is_not_sent_again_in_the_clear(monkeypatch, options, code, text, tried):
    """Under TLS a denial is the last word; an account that requires TLS is tried with it (R20)."""
    modes = []

    def refuse(**arguments):
        modes.append(arguments["ssl_mode"])
        raise MySQLdb.OperationalError(code, text)

    monkeypatch.setattr(MySQLdb, "connect", refuse)
    monkeypatch.setattr(driver, "shown_certificate", lambda *_: b"certificate")
    monkeypatch.setattr(connections, "verify_again", lambda *_: None)
    with pytest.raises(ServerFault):
        connect(options, role="test")
    assert modes == tried


@pytest.mark.parametrize(("options", "tries"), [(FAR, 1), (NEAR, 2)])
def test_nor_is_it_by_the_change_feed(monkeypatch, options, tries):
    """The binlog's connection is another driver's, and goes by the same rule (R20)."""
    made = []

    def refuse(*_, **__):
        made.append(True)
        raise pymysql.err.OperationalError(ACCESS_DENIED, "refused")

    monkeypatch.setattr(binlog, "_DumpConnection", refuse)
    with pytest.raises((ServerFault, FeedFailure, pymysql.err.OperationalError, binlog.StreamLost)):
        binlog.BinlogConnection(
            options,
            gtids=None,
            place=FilePlace("binlog.000001", 4),
            server_uuid="u",
            replica_uuid="r",
            heartbeat=1.0,
            silence=1.0,
        )
    assert len(made) == tries


def test_the_feed_sends_no_server_the_password_in_the_clear():
    """R20: whoever stands between may ask for it; without TLS that is refused."""
    with GreedyServer() as server:
        options = ConnectionOptions(
            host=server.host, port=server.port, user="joe", password="s3cret", ssl_mode="DISABLED"
        )
        with pytest.raises((FeedFailure, binlog.StreamLost), match=r"in the clear|in clear text"):
            binlog.BinlogConnection(
                options,
                gtids=None,
                place=FilePlace("binlog.000001", 4),
                server_uuid="u",
                replica_uuid="r",
                heartbeat=1.0,
                silence=3.0,
            )
        assert b"joe" in server.heard
        assert b"s3cret" not in server.heard


def test_no_session_sends_the_password_in_the_clear():
    """R26: nor does the client library, of whichever version, for a server that asks for it."""
    with GreedyServer() as server:
        options = ConnectionOptions(
            host=server.host, port=server.port, user="joe", password="s3cret", ssl_mode="DISABLED"
        )
        with pytest.raises(ServerFault):
            connect(options, role="test")
        assert b"joe" in server.heard
        assert b"s3cret" not in server.heard


def test_no_server_reads_a_file_of_this_machine(tmp_path):
    """R26: LOAD DATA LOCAL is off, which a server may ask for in answer to any statement."""
    file = tmp_path / "private"
    file.write_text("of this machine")
    with GreedyServer(str(file)) as server:
        options = ConnectionOptions(
            host=server.host, port=server.port, user="joe", password="s3cret", ssl_mode="DISABLED"
        )
        with pytest.raises(ServerFault):
            connect(options, role="test", read_timeout=5)
        assert b"SET NAMES" in server.heard
        assert b"of this machine" not in server.heard


@pytest.mark.parametrize(
    ("version", "fault", "said"),
    [
        ("10.11.6-MariaDB", (1193, "Unknown system variable 'transaction_read_only'"), "MariaDB"),
        ("5.7.44-log", (1193, "Unknown system variable 'information_schema_stats_expiry'"), "5.7"),
        (
            "8.0.36-28.1",
            (1105, "Percona-XtraDB-Cluster prohibits use of GET_LOCK with pxc_strict_mode"),
            "Percona XtraDB Cluster",
        ),
    ],
)
def test_a_server_that_cannot_do_the_first_statements_is_refused_by_its_name(
    version, fault, said, monkeypatch
):
    """It is asked for its version then; cannot-connect would have been the answer."""
    code, text = fault
    closed: list[bool] = []

    class Other(contextlib.AbstractContextManager):
        """A session whose first SET fails."""

        def execute(self, *_: object) -> int:
            raise ServerFault(code, text, where="server")

        def query(self, *_: object) -> list[tuple[str, str]]:
            return [(version, "")]

        def fileno(self) -> int:
            return 0

        role = "driver"

        def __exit__(self, *_: object) -> None:
            closed.append(True)

    monkeypatch.setattr(connections, "_open", lambda *_, **__: None)
    monkeypatch.setattr(connections, "Session", lambda *_, **__: Other())
    monkeypatch.setattr(connections, "probe", lambda _: None)
    with pytest.raises(Refusal, match=said) as refused:
        connections.connect_first(ConnectionOptions(), role="driver")
    assert refused.value.error_code == "server-not-supported"
    assert closed

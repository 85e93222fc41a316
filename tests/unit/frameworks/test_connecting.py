"""The connection of a framework is carried over as strictly as it is, or refused."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from spirit_py.errors import UsageFault
from spirit_py.frameworks.alembic.changing import _arguments
from spirit_py.frameworks.connecting import arguments_of

CA = {"ssl_ca": "/ca"}
IDENTITY = {**CA, "ssl_mode": "VERIFY_IDENTITY"}
AUTHORITY = {**CA, "ssl_mode": "VERIFY_CA"}
IDENTITY_IN = {"ssl_capath": "/cas", "ssl_mode": "VERIFY_IDENTITY"}
CLIENT = {"ssl_cert": "/c", "ssl_key": "/k"}
REQUIRED = {"ssl_mode": "REQUIRED"}
UNNAMED = {"ca": "/ca", "check_hostname": False}
ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
ADDED_MODE = "SET @@session.sql_mode = CONCAT(@@sql_mode, ',ANSI'), autocommit=1"


@pytest.mark.parametrize(
    ("driver", "given", "arguments"),
    [
        (
            "mysqldb",
            {"host": "db1", "port": "3307", "user": "u", "passwd": "p", "db": "s", "charset": "x"},
            {"host": "db1", "port": 3307, "user": "u", "password": "p"},
        ),
        ("mysqldb", {"unix_socket": "/s", "host": "db1", "port": 1}, {"socket": "/s"}),
        ("mysqldb", {"read_default_file": "/f"}, {"defaults_file": "/f"}),
        ("mysqldb", {"read_default_group": "client"}, {}),
        ("mysqldb", {"ssl": {}}, {}),
        ("mysqldb", {"ssl": True}, {"ssl_mode": "REQUIRED"}),
        ("mysqldb", {"ssl": {"ca": "/ca", "key": "/k"}}, CA | {"ssl_key": "/k"}),
        ("mysqldb", {"ssl": {"ca": "/ca"}, "ssl_mode": "VERIFY_IDENTITY"}, IDENTITY),
        ("mysqldb", {"ssl_mode": "disabled"}, {"ssl_mode": "DISABLED"}),
        ("mysqldb", {"ssl": {"cert": "/c", "key": "/k"}}, CLIENT | REQUIRED),
        ("pymysql", {"ssl": {"ca": "/ca"}}, IDENTITY),
        ("pymysql", {"ssl": {"ca": "/ca", "check_hostname": False}}, CA),
        ("pymysql", {"ssl": UNNAMED | {"verify_mode": "required"}}, AUTHORITY),
        ("pymysql", {"ssl": {"fake": None, "check_hostname": False}}, {"ssl_mode": "REQUIRED"}),
        ("pymysql", {"ssl_ca": "/ca"}, CA),
        ("pymysql", CA | {"ssl_verify_identity": True, "ssl_verify_cert": True}, IDENTITY),
        ("pymysql", {"ssl_ca": "/ca", "ssl_verify_cert": True}, AUTHORITY),
        ("pymysql", {"ssl_disabled": True, "ssl_ca": "/ca"}, {"ssl_mode": "DISABLED"}),
        ("asyncmy", {"ssl": {"capath": "/cas"}}, IDENTITY_IN),
        ("mysqlconnector", {"ssl_ca": "/ca", "ssl_verify_cert": "true"}, AUTHORITY),
        ("mysqlconnector", {"ssl_ca": "/ca", "ssl_verify_identity": "1"}, IDENTITY),
        ("mysqlconnector", {"ssl_ca": "/ca", "ssl_verify_identity": "false"}, CA),
        ("mysqlconnector", {"ssl_disabled": "True"}, {"ssl_mode": "DISABLED"}),
        ("mysqlconnector", {"ssl_disabled": False, "use_pure": True}, {}),
        ("mysqlconnector", CLIENT, CLIENT | REQUIRED),
        ("mysqlconnector", {"auth_plugin": "caching_sha2_password"}, {}),
        ("mysqldb", {"init_command": "SET sql_mode='STRICT_TRANS_TABLES,ANSI'"}, {}),
        ("mysqldb", {"init_command": ADDED_MODE}, {}),
        ("mysqldb", {"init_command": ISOLATION}, {}),
        ("mysqldb", {"init_command": "SET NAMES utf8mb4 COLLATE utf8mb4_bin"}, {}),
    ],
)
def test_a_driver_s_arguments_mean_the_same_here(driver, given, arguments):
    """R26: server, account and TLS are taken over; TLS is never weaker than the driver's."""
    assert arguments_of(driver, given) == arguments


@pytest.mark.parametrize(
    ("driver", "given", "named"),
    [
        ("mysqldb", {"ssl": {"ca": "/ca", "cipher": "x"}}, "ssl.cipher"),
        ("mysqldb", {"ssl": ssl.create_default_context()}, "ssl"),
        ("aiomysql", {"ssl": ssl.create_default_context()}, "ssl"),
        ("pymysql", {"ssl": {"ca": "/ca", "password": "x"}}, "ssl.password"),
        ("pymysql", {"ssl_ca": "/ca", "ssl_key_password": "x"}, "ssl_key_password"),
        ("pymysql", {"ssl_verify_cert": True}, "ssl_verify_cert"),
        ("pymysql", {"ssl": {"verify_mode": "required"}}, "ssl.verify_mode"),
        ("mysqlconnector", {"tls_versions": ["TLSv1.3"]}, "tls_versions"),
        ("mysqlconnector", {"tls_ciphersuites": ["x"]}, "tls_ciphersuites"),
        ("mysqlconnector", {"ssl_ca": "/ca", "ssl_cipher": "x"}, "ssl_cipher"),
        ("mariadbconnector", {"ssl_crl": "/crl"}, "ssl_crl"),
        ("mysqlconnector", {"auth_plugin": "mysql_clear_password"}, "auth_plugin"),
        ("mysqlconnector", {"option_files": "/f"}, "option_files"),
        ("mysqlconnector", {"failover": ()}, "failover"),
        ("mysqldb", {"read_default_group": "shop"}, "read_default_group"),
        ("mysqldb", {"init_command": "SET time_zone='+00:00'"}, "init_command"),
        ("mysqldb", {"init_command": "SET sql_mode='', foreign_key_checks=0"}, "init_command"),
        ("mysqldb", {"init_command": "SET autocommit=1; SET ROLE dba"}, "init_command"),
        ("mysqldb", {"server_public_key_path": "/k"}, "server_public_key_path"),
        ("pymysql", {"bind_address": "10.0.0.1"}, "bind_address"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_its_name(driver, given, named):
    """R26: rather than a change over a weaker connection, or in another session than was meant."""
    with pytest.raises(UsageFault, match=rf"the setting {named} of"):
        arguments_of(driver, given)


@pytest.mark.parametrize("given", [{"ssl": ssl.create_default_context()}, {"tls_versions": ["x"]}])
def test_the_team_s_settings_decide_about_tls_where_they_say_so(given):
    """R26: with ssl_mode among them, what the driver is told of TLS need not be understood."""
    told = {"ssl_mode": "REQUIRED"}
    assert arguments_of("mysqlconnector", {"host": "db1", **given}, told) == {"host": "db1"}


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ({"host": "db2"}, {"host": "db1", "port": 1}),
        ({"host": "localhost"}, {"socket": "/s"}),
        ({"socket": "/t"}, {}),
        ({"socket": ""}, {"host": "db1", "port": 1}),
        ({}, {"socket": "/s"}),
    ],
)
def test_of_a_host_and_a_socket_the_team_s_is_the_only_one(told, arguments):
    """Both would be two servers."""
    assert arguments_of("mysqldb", {"unix_socket": "/s", "host": "db1", "port": 1}, told) == (
        arguments
    )


def reached(told: dict[str, Any], url: str = "", **engine: Any) -> dict[str, Any]:
    """Return the arguments for an engine's connection."""
    made = sa.create_engine(f"mysql+pymysql://joe:secret@db1/shop{url}", **engine)
    connection: Any = SimpleNamespace(engine=made)
    return _arguments(connection, told)


def test_what_an_engine_is_told_beside_its_url_arrives():
    """R26: connect_args, which count more than the URL, and the settings of its query."""
    wanted = {"host": "db1", "user": "joe", "password": "secret"}
    assert reached({}) == wanted
    assert reached({}, "?ssl_ca=/ca") == wanted | IDENTITY
    assert reached({}, connect_args={"ssl": {"ca": "/ca"}, "port": 1}) == wanted | IDENTITY | {
        "port": 1
    }
    with pytest.raises(UsageFault, match=r"ssl\.cipher"):
        reached({}, "?ssl_ca=/ca&ssl_cipher=x")
    with pytest.raises(UsageFault, match="the setting ssl of"):
        reached({}, connect_args={"ssl": ssl.create_default_context()})


def test_an_engine_that_does_not_show_how_it_connects_is_refused():
    """R26: a creator, or an event, may add anything; the settings say what, or nothing is sent."""
    with pytest.raises(UsageFault, match="function of its own"):
        reached({}, creator=lambda: None)
    told = {"ssl_mode": "VERIFY_IDENTITY", "ssl_ca": "/ca"}
    assert reached(told, creator=lambda: None)["host"] == "db1"
    made = sa.create_engine("mysql+pymysql://joe@db1/shop")
    sa.event.listen(made, "do_connect", lambda *_: None)
    connection: Any = SimpleNamespace(engine=made)
    with pytest.raises(UsageFault, match="function of its own"):
        _arguments(connection, {})

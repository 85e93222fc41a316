"""The list of servers: what it may hold, and what is refused with its place."""

from __future__ import annotations

import os

import pytest

from spirit_py.errors import UsageFault
from spirit_py.fleet import servers
from spirit_py.fleet.servers import of_command, of_file, read_servers

TOML = """
[[server]]
name = "shop-1"
host = "db1:3307"
database = "shop_1"
group_suffix = "_shop"
labels = {region = "eu", tier = 1}

[[server]]
dsn = "mysql://app@db2/shop_2"
"""
LINES = """
# one a line
mysql://app@db1:3307/shop_1 name=shop-1 region=eu tier=1 group_suffix=_shop

mysql://app@db2/shop_2
"""


def test_both_forms_are_read():
    """Names, labels and the options of the command line; without a name, the address."""
    first, second = read_servers(TOML, "list")
    assert (first.name, dict(first.labels)) == ("shop-1", {"region": "eu", "tier": "1"})
    assert dict(first.options) == {
        "host": "db1:3307",
        "database": "shop_1",
        "defaults_group_suffix": "_shop",
    }
    assert second.name == "db2/shop_2"
    first, second = read_servers(LINES, "list")
    assert (first.name, dict(first.labels)) == ("shop-1", {"region": "eu", "tier": "1"})
    assert first.options["dsn"]["host"] == "db1"
    assert first.options["defaults_group_suffix"] == "_shop"
    assert second.name == "db2/shop_2"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no server"),
        ("# nothing\n", "names no server"),
        ("mysql://db1 name=a\nmysql://db2 name=a\n", "two servers of the name a"),
        ("mysql://db1/a\nmysql://db1/a\n", "two servers of the name db1/a"),
        ("db1:3306\n", "list, line 1: begins with"),
        ("mysql://db1 eu\n", "list, line 1: word 2 is no label"),
        ("mysql://db1 region=a/b\n", "list, line 1: the label region, or its value"),
        ("mysql://db1 name=a;b\n", "list, line 1: 'a;b' is no name"),
        ("mysql://db1 name=..\n", "list, line 1: '..' is no name"),
        ("mysql://db1 name=.\n", "list, line 1: '.' is no name"),
        ("[[server]\n", "list is no TOML"),
        pytest.param(f"[[server]]\nlabels={'[' * 5000}\n", "list is no TOML", id="nested"),
        ("[server]\nhost='a'\n", "list has more than servers"),
        ("[[server]]\nhost='a'\n[other]\n", "list has more than servers: other"),
        ("[[server]]\npassword='x'\n", "list, server 1: there is no password of a server"),
        ("[[server]]\nhost=1\n", "list, server 1: host is no text"),
        ("[[server]]\nport='1'\n", "list, server 1: '1' is no port"),
        ("[[server]]\nhost='a'\nlabels='x'\n", "list, server 1: labels are no table"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, told):
    """And a password in a URL is in no message."""
    with pytest.raises(UsageFault, match=told.replace("[", r"\[")):
        read_servers(text, "list")


@pytest.mark.parametrize("url", ["mysqlx://app:secret@db1/a", "mysql://app:a secret@db1/a"])
def test_a_password_is_not_told(url):
    """Also where the URL cannot be read."""
    with pytest.raises(UsageFault) as refused:
        read_servers(f"{url}\n", "list")
    assert "secret" not in f"{refused.value.message}{refused.value.hint}"


def test_a_list_that_others_may_write_is_refused(tmp_path):
    """It decides who gets the password; with a password in it, others may not read it either."""
    file = tmp_path / "list"
    file.write_text("mysql://db1 name=a\n")
    file.chmod(0o644)
    assert [one.name for one in of_file(file)] == ["a"]
    file.chmod(0o666)
    with pytest.raises(UsageFault, match="world-writable"):
        of_file(file)
    file.write_text("mysql://app:secret@db1 name=a\n")
    file.chmod(0o644)
    with pytest.raises(UsageFault, match="holds a password"):
        of_file(file)
    file.chmod(0o600)
    assert [one.name for one in of_file(file)] == ["a"]


def test_a_command_prints_the_list_or_fails():
    """Its exit code counts, and what it prints must be text."""
    assert [one.name for one in of_command("echo mysql://db1 name=a")] == ["a"]
    with pytest.raises(UsageFault, match="ended with exit code 3"):
        of_command("echo mysql://db1; exit 3")
    with pytest.raises(UsageFault, match="gave no list"):
        of_command(r"printf 'mysql://db1 name=\377'")


def test_a_process_that_the_command_leaves_behind_is_not_waited_for(tmp_path):
    """Also where that has a session of its own, and keeps the output open."""
    held = tmp_path / "held"
    os.mkfifo(held)
    left = f"setsid sh -c 'read -r word < {held}' & echo mysql://db1 name=a"
    try:
        assert [one.name for one in of_command(left)] == ["a"]
    finally:
        held.write_text("end\n")


def test_a_command_that_prints_without_end_is_ended(monkeypatch):
    """It is not waited for until its time is over."""
    monkeypatch.setattr(servers, "_LARGEST", 1 << 20)
    with pytest.raises(UsageFault, match="printed more than 1 MiB"):
        of_command("yes")


def test_the_command_gets_none_of_our_secrets(monkeypatch):
    """An inventory needs no password of ours, and may hand its environment on (R20)."""
    for name in ("SPIRIT_PY_PASSWORD", "SPIRIT_PY_TARGET_PASSWORD", "MYSQL_PWD"):
        monkeypatch.setenv(name, "hush-hush")
    monkeypatch.setenv("INVENTORY", "db7")
    (server,) = of_command("env | grep -q hush-hush && exit 3; echo mysql://db1 name=$INVENTORY")
    assert server.name == "db7"


@pytest.mark.parametrize("word", ["database=shop", "replicas=db1b", "port=3307", "host=db2"])
def test_what_reaches_a_server_is_no_label(word):
    """A schema or a replica that is taken for a label would be left out without a word."""
    with pytest.raises(UsageFault, match="is no label"):
        read_servers(f"mysql://db1 {word}", "list")

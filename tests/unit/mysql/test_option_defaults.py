"""The usual option files, the login path file and URLs, as the mysql client has them."""

from __future__ import annotations

import pickle

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from spirit_py.errors import UsageFault
from spirit_py.mysql.option_files import DefaultsOptions, read_defaults, read_dsn


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder of its own, and no global option files but one in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_TEST_LOGIN_FILE", raising=False)
    monkeypatch.setattr("spirit_py.mysql.option_files._GLOBAL", (tmp_path / "etc.cnf",))
    return tmp_path


def write_login_file(path, text: str) -> None:
    """Write a file as ``mysql_config_editor`` does: four bytes, a key, and each line sealed."""
    head = bytes(range(20))
    key = bytearray(16)
    for place, byte in enumerate(head):
        key[place % 16] ^= byte
    data = bytes(4) + head
    for line in text.splitlines(keepends=True):
        plain = line.encode()
        padding = 16 - len(plain) % 16
        sealer = Cipher(algorithms.AES(bytes(key)), modes.ECB()).encryptor()  # noqa: S305 - the format's
        sealed = sealer.update(plain + bytes([padding]) * padding) + sealer.finalize()
        data += len(sealed).to_bytes(4, "little") + sealed
    path.write_bytes(data)
    path.chmod(0o600)


def test_later_files_win_and_the_login_path_file_is_the_last(home):
    """Global, extra, the home folder's, then the login path file: each wins over those before."""
    (home / "etc.cnf").write_text("[client]\nhost=etc\nport=1\nuser=etc\npassword=etc\n")
    (home / "extra.cnf").write_text("[client]\nport=2\nuser=extra\npassword=extra\n")
    (home / ".my.cnf").write_text("[client]\nuser=home\npassword=home\n")
    write_login_file(home / ".mylogin.cnf", '[client]\npassword = "login"\n')

    assert read_defaults(DefaultsOptions(extra=home / "extra.cnf")) == {
        "host": "etc",
        "port": "2",
        "user": "home",
        "password": "login",
    }


def test_one_named_file_takes_the_place_of_the_usual_ones(home):
    """With --defaults-file no other option file is read."""
    (home / ".my.cnf").write_text("[client]\nuser=home\nhost=home\n")
    (home / "own.cnf").write_text("[client]\nuser=own\n")

    assert read_defaults(DefaultsOptions(file=home / "own.cnf")) == {"user": "own"}


def test_no_defaults_leaves_all_but_the_login_path(home):
    """With --no-defaults the usual files are not read; a login path is."""
    (home / ".my.cnf").write_text("[client]\nuser=home\n")
    write_login_file(home / ".mylogin.cnf", "[db1]\nhost = db1\n")

    assert read_defaults(DefaultsOptions(usual=False)) == {}
    assert read_defaults(DefaultsOptions(usual=False, login_path="db1")) == {"host": "db1"}


def test_groups_with_a_suffix_are_read_beside_the_others(home):
    """[client_shop] counts with the suffix _shop."""
    (home / ".my.cnf").write_text("[client]\nuser=one\nport=3\n[client_shop]\nuser=shop\n")

    assert read_defaults(DefaultsOptions(suffix="_shop")) == {"user": "shop", "port": "3"}


def test_a_file_that_everybody_may_write_is_passed_over(home, caplog):
    """A file that everybody may write is ignored, and that is said."""
    path = home / ".my.cnf"
    path.write_text("[client]\nuser=home\n")
    path.chmod(0o666)

    assert read_defaults(DefaultsOptions()) == {}
    assert "world-writable" in caplog.text


@pytest.mark.parametrize("option", ["file", "extra"])
def test_a_named_file_that_everybody_may_write_is_refused(home, option):
    """R26: the mysql client ignores it; who has named one is told how to mend that."""
    path = home / "own.cnf"
    path.write_text("[client]\nhost=elsewhere\n")
    path.chmod(0o666)

    with pytest.raises(UsageFault, match=f"the option file {path} is world-writable") as fault:
        read_defaults(DefaultsOptions(**{option: path}))
    assert fault.value.hint == f"chmod o-w {path}"


@pytest.mark.parametrize("line", ["!include more/other.cnf", "!includedir more"])
def test_an_included_file_that_everybody_may_write_is_passed_over(home, line, caplog):
    """R26: as the mysql client does it."""
    (home / ".my.cnf").write_text(f"[client]\nuser=one\n{line}\n")
    other = home / "more" / "other.cnf"
    other.parent.mkdir()
    other.write_text("[client]\nuser=other\n")
    assert read_defaults(DefaultsOptions()) == {"user": "other"}
    other.chmod(0o666)
    assert read_defaults(DefaultsOptions()) == {"user": "one"}
    assert "world-writable" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no"),
        ("[other]\nuser = x\n", "there is no login path db1"),
        (b"short", "cannot read the login path file .*damaged"),
        (bytes(24) + (16).to_bytes(4, "little") + b"x", "damaged"),
    ],
)
def test_a_login_path_that_is_not_there_is_refused_by_name(home, content, message):
    """A login path without its file, its group or its key is refused."""
    path = home / ".mylogin.cnf"
    if isinstance(content, str):
        write_login_file(path, content)
    elif content is not None:
        path.write_bytes(content)
        path.chmod(0o600)

    with pytest.raises(UsageFault, match=message) as fault:
        read_defaults(DefaultsOptions(login_path="db1"))
    assert fault.value.hint


def test_a_login_file_that_others_may_read_is_refused(home):
    """As the mysql client: such a file is not used; who names a login path is told."""
    path = home / ".mylogin.cnf"
    write_login_file(path, "[client]\nuser = x\n[db1]\nhost = h\n")
    path.chmod(0o644)

    assert read_defaults(DefaultsOptions()) == {}
    with pytest.raises(UsageFault, match="accessible to other users"):
        read_defaults(DefaultsOptions(login_path="db1"))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mysql://db1", {"host": "db1"}),
        (
            "mysql://joe:p%40ss@db1:3307/shop?ssl_mode=required&ssl-ca=/ca.pem",
            {
                "host": "db1",
                "port": "3307",
                "user": "joe",
                "password": "p@ss",
                "database": "shop",
                "ssl-mode": "required",
                "ssl-ca": "/ca.pem",
            },
        ),
        (
            "mysql+mysqldb://joe:@[::1]:1/",
            {"host": "::1", "port": "1", "user": "joe", "password": ""},
        ),
        ("mysql://[fe80::1%25eth0]/", {"host": "fe80::1%eth0"}),
        ("mysql://db1?ssl-ca=/a+b.pem", {"host": "db1", "ssl-ca": "/a+b.pem"}),
        ("mysql:///shop?socket=/run/s", {"database": "shop", "socket": "/run/s"}),
    ],
)
def test_a_url_gives_the_options_of_a_connection(url, found):
    """User, password, host, port, schema and TLS of a URL; nothing that it does not name."""
    assert read_dsn(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "postgres://joe:hush@db1",
        "db1:3306",
        "mysql://joe:hush@db1:port/",
        "mysql://joe:hush@db1:0/",
        "mysql://joe:hush@db1/shop/orders",
        "mysql://joe:hush@db1?charset=hush",
        "mysql://joe:hush@db1?ssl-mode=perhaps",
        "mysql://joe:hush@[db1",
        "mysql://joe:hush%E4@db1/",
        "mysql://joe:hush@db1?socket=%FF",
    ],
)
def test_a_url_that_means_nothing_is_refused_without_its_password(url):
    """What is wrong is said, and what to write; the password is not repeated."""
    with pytest.raises(UsageFault) as fault:
        read_dsn(url)
    assert "hush" not in str(pickle.loads(pickle.dumps(fault.value))).replace("charset", "")
    assert fault.value.hint

"""Option files of MySQL become connection options."""

from __future__ import annotations

import pytest

from spirit_py.config import ConnectionOptions, TlsMaterial
from spirit_py.errors import UsageFault
from spirit_py.mysql.option_files import GROUPS, connection_options, read_dsn
from spirit_py.mysql.option_files import read_option_file as read_groups
from tests.kits.certificates import Authority


def read_option_file(path):
    """Read the groups of clients in general and of this program."""
    return read_groups(path, GROUPS)


@pytest.fixture
def option_file(tmp_path):
    """Return a function that writes an option file."""

    def write(text: str, name: str = "my.cnf"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_only_our_groups_are_read_and_the_last_line_wins(option_file):
    """Only the groups for clients in general and for this program are read; the last line wins."""
    path = option_file(
        "# comment\n; comment\n[mysqld]\nport=1\n[client]\nhost = db1\nport=3307\nuser=joe\n"
        "[mysql]\nuser=other\n[spirit-py]\nuser=mig\nno-value\n"
    )

    assert read_option_file(path) == {"host": "db1", "port": "3307", "user": "mig", "no-value": ""}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("password=secret", "secret"),
        ("password = secret  ", "secret"),
        ("password=a#b", "a"),
        ("password=a'#b", "a'#b"),
        ('password="a\\"#b"', 'a"#b'),
        ('password=a"b#c"d', 'a"b#c"d'),
        ('password="ab"#c', "ab"),
        ("password=#a", ""),
        ("password=a # comment", "a"),
        ('password="a # b"', "a # b"),
        ("password='it''s'", "it''s"),
        ("password='a=b' # comment", "a=b"),
        (r"password=a\sb\\c\td", "a b\\c\td"),
        (r"password=a\qb", r"a\qb"),
        (r'password="a\"b"', 'a"b'),
        ('password="a"b"', 'a"b'),
        ("password=''a''", "'a'"),
        ('password="', '"'),
        ("password=a\x0cb\x85c\u2028d", "a\x0cb\x85c\u2028d"),
        ("password=", ""),
        ("password=ümlaut", "ümlaut"),
    ],
)
def test_values_are_read_as_the_mysql_clients_read_them(option_file, line, value):
    """Quotes, escapes and comments are read as the MySQL clients read them."""
    assert read_option_file(option_file(f"[client]\n{line}\n")) == {"password": value}


def test_spellings_of_one_option_are_one_option(option_file):
    """Underscores, capitals and loose- do not make another option."""
    path = option_file("[Client]\nssl_ca=/ca\nloose-SSL-Mode=required\n")

    assert read_option_file(path) == {"ssl-ca": "/ca", "ssl-mode": "required"}


def test_included_files_are_read_where_they_stand(option_file, tmp_path):
    """Included files and folders are read where they stand."""
    option_file("[client]\nuser=one\nhost=one\n", "extra.cnf")
    (tmp_path / "more").mkdir()
    option_file("[client]\nuser=two\n", "more/a.cnf")
    option_file("[client]\nuser=not read\n", "more/a.txt")
    path = option_file("!include extra.cnf\n!includedir more\n[client]\nport=5\n")

    assert read_option_file(path) == {"user": "two", "host": "one", "port": "5"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user=joe\n", "line 1: an option stands before"),
        ("[client]\n!include missing.cnf\n", "cannot read the option file"),
        ("!include my.cnf\n", "include each other"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_name(option_file, text, message):
    """A file that makes no sense is refused by name."""
    with pytest.raises(UsageFault, match=message) as fault:
        read_option_file(option_file(text))
    assert fault.value.hint


def test_a_mark_of_an_editor_is_no_option(option_file):
    """Some write one in front of UTF-8 text."""
    assert read_option_file(option_file("\ufeff[client]\nuser=u\n")) == {"user": "u"}


def test_a_file_that_is_not_text_is_refused(option_file):
    """A file that is not text is refused."""
    path = option_file("")
    path.write_bytes(b"[client]\nuser=\xff\n")

    with pytest.raises(UsageFault, match="not UTF-8"):
        read_option_file(path)


def test_all_that_a_connection_needs_comes_from_the_file(tmp_path):
    """Everything a connection needs comes out of the file."""
    authority = Authority(tmp_path).file
    stored = {
        "host": "db1",
        "port": "3307",
        "user": "joe",
        "password": "hush",
        "connect-timeout": "3",
        "ssl-ca": str(authority),
        "ssl-key": "",
        "ssl-mode": "verify_identity",
        "default-character-set": "latin1",
    }

    assert connection_options(stored) == ConnectionOptions(
        host="db1",
        port=3307,
        user="joe",
        password="hush",
        connect_timeout=3,
        tls=TlsMaterial(authorities=authority.read_bytes()),
        ssl_mode="VERIFY_IDENTITY",
    )


def test_the_command_line_wins_over_the_file():
    """What the command line gave wins; what it did not give is None."""
    stored = {"host": "db1", "port": "3307", "user": "joe", "password": "hush"}

    found = connection_options(stored, {"host": "db2", "port": None, "user": None, "password": ""})

    assert (found.host, found.port, found.user, found.password) == ("db2", 3307, "joe", "")


def test_host_of_the_command_line_beats_socket_of_the_file():
    """A socket in the file is not used when the command line names a host or a port."""
    stored = {"socket": "/run/mysqld.sock"}

    assert connection_options(stored).socket == "/run/mysqld.sock"
    assert connection_options(stored, {"host": "db2"}).socket == ""
    assert connection_options(stored, {"port": 3307}).socket == ""


@pytest.mark.parametrize("option", ["port", "connect-timeout"])
def test_zero_is_the_default_as_for_the_mysql_client(option):
    """A handshake that may take no time fails."""
    assert connection_options({option: "0"}) == ConnectionOptions()


@pytest.mark.parametrize(
    ("stored", "seconds"), [("31536001", 43_200), ("43200", 43_200), ("-1", 10)]
)
def test_the_time_to_connect_is_bounded_as_by_the_mysql_client(stored, seconds):
    """The driver of the binlog's connection refuses one of more than a year, or below zero."""
    assert connection_options({"connect-timeout": stored}).connect_timeout == seconds


@pytest.mark.parametrize(("host", "socket"), [("db1", ""), ("127.0.0.1", ""), ("localhost", "/s")])
def test_a_socket_is_used_where_no_other_machine_is_named(host, socket):
    """Whichever file names it: so does the mysql client."""
    assert connection_options({"socket": "/s", "host": host}).socket == socket
    assert connection_options({"host": host}, {"socket": "/s"}).socket == "/s"


@pytest.mark.parametrize(
    ("protocol", "socket"),
    [("tcp", ""), ("TCP", ""), ("socket", "/s"), ("SOCKET", "/s"), ("", "/s")],
)
def test_the_protocol_decides_between_a_socket_and_a_port(protocol, socket):
    """The socket may be another server's, of another file; one that is given counts more."""
    stored = {"socket": "/s", "host": "localhost", "port": "3307", "protocol": protocol}
    assert connection_options(stored).socket == socket
    assert connection_options(stored, {"socket": "/t"}).socket == "/t"


def test_without_options_the_connection_is_the_local_default():
    """Without a file and without options the connection is the local default."""
    assert connection_options({}) == ConnectionOptions()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"port": "many"}, "port=many"),
        ({"ssl-mode": "maybe"}, "ssl-mode=maybe"),
        ({"protocol": "memory"}, "protocol=memory"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(stored, message):
    """A value that makes no sense is refused by name."""
    with pytest.raises(UsageFault, match=message):
        connection_options(stored)


def test_a_file_that_everybody_may_write_is_refused_wherever_it_is_named(option_file):
    """It says where the password goes: also that of --target-defaults-file."""
    path = option_file("[client]\nhost=evil\n")
    path.chmod(0o666)
    with pytest.raises(UsageFault, match="is world-writable"):
        read_option_file(path)


@pytest.mark.parametrize("url", ["mysql://root:12?secret@db/shop", "mysql://app:?hunter2@db/shop"])
def test_a_part_of_a_password_is_in_no_error_about_the_url(url):
    """A question mark in it begins the parameters."""
    with pytest.raises(UsageFault) as raised:
        read_dsn(url)
    assert not any(word in str(raised.value) for word in ("secret", "hunter2"))

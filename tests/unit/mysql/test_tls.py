"""TLS: which attempts a mode means, what a failure means, and the files that it needs."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import pytest

from spirit_py.config import ConnectionOptions, TlsMaterial
from spirit_py.errors import ServerFault, UsageFault
from spirit_py.mysql.option_files import connection_options
from spirit_py.mysql.tls import driver
from spirit_py.mysql.tls.driver import file_of, read_material
from spirit_py.mysql.tls.modes import (
    ENCRYPTED,
    PLAIN,
    CertificateCheck,
    TlsAttempt,
    attempts,
    explain_tls,
    next_may_do,
)
from tests.kits.certificates import Authority

AUTHORITY = TlsAttempt(encrypted=True, check=CertificateCheck.AUTHORITY)
IDENTITY = TlsAttempt(encrypted=True, check=CertificateCheck.IDENTITY)
CA = TlsMaterial(authorities=b"x")
CLIENT = TlsMaterial(certificate=b"x", key=b"y")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Return an authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"host": "db1"}, (ENCRYPTED, PLAIN)),
        ({"host": "127.0.0.1"}, (PLAIN, ENCRYPTED)),
        ({"host": "127.0.0.1", "ssl_mode": "PREFERRED"}, (ENCRYPTED, PLAIN)),
        ({"host": "127.0.0.1", "tls": CA}, (AUTHORITY,)),
        ({"host": "127.0.0.1", "tls": CLIENT}, (ENCRYPTED,)),
        ({"host": "db1", "ssl_mode": "DISABLED", "tls": CA}, (PLAIN,)),
        ({"host": "db1", "ssl_mode": "REQUIRED", "tls": CA}, (ENCRYPTED,)),
        ({"host": "db1", "ssl_mode": "VERIFY_CA", "tls": CA}, (AUTHORITY,)),
        ({"host": "db1", "ssl_mode": "VERIFY_IDENTITY", "tls": CA}, (IDENTITY,)),
        ({"socket": "/s"}, (PLAIN,)),
        ({"socket": "/s", "ssl_mode": "PREFERRED"}, (PLAIN,)),
        ({"socket": "/s", "ssl_mode": "REQUIRED"}, (ENCRYPTED,)),
    ],
)
def test_a_mode_means_what_it_means_to_the_mysql_client(given, expected):
    """With the stated differences: this machine first without TLS, a certificate means TLS."""
    assert attempts(ConnectionOptions(**given)) == expected


@pytest.mark.parametrize(
    ("attempt", "code", "text", "expected"),
    [
        (ENCRYPTED, 2026, "TLS/SSL error: SSL is required, but the server does not ...", True),
        (ENCRYPTED, 2026, "SSL connection error: SSL is required but the server ...", True),
        (ENCRYPTED, 2026, "TLS/SSL error: certificate verify failed", False),
        (ENCRYPTED, 2026, "TLS/SSL error: Connection reset by peer (104)", False),
        (ENCRYPTED, 1045, "Access denied", False),
        (PLAIN, 1045, "Access denied", True),
        (PLAIN, 3159, "insecure transport", True),
        (PLAIN, 2061, "reported error: Authentication requires secure connection.", True),
        (PLAIN, 2003, "no answer", False),
    ],
)
def test_only_a_server_without_tls_is_met_without_it(attempt, code, text, expected):
    """R20: no failure under TLS, other than that there is none, leads to a plain connection."""
    assert next_may_do(attempt, code, text) is expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("TLS/SSL error: SSL is required, but the server does not support it", "offers no TLS"),
        ("TLS: certificate has expired", "the server's certificate has expired"),
        ("sslv3 alert certificate expired", "does not accept the client certificate"),
        ("TLS/SSL error: tlsv1 alert unknown ca", "does not accept the client certificate"),
        ("self-signed certificate in certificate chain", "not signed by an authority"),
        ("unable to get local issuer certificate", "not signed by an authority"),
        ("Hostname mismatch, certificate is not valid for 'db1'.", "is not for db1"),
        ("IP address mismatch, certificate is not valid for '1.1.1.1'.", "is not for db1"),
        ("Fingerprint verification of server certificate failed", "on each connection"),
        ("Fingerprint validation of peer certificate failed", "on each connection"),
        ("TLS: unsupported protocol", "no common TLS version or cipher"),
        ("something else", "TLS failed: something else"),
    ],
)
def test_a_tls_failure_has_a_cause_and_a_next_step(text, cause):
    """In the words of OpenSSL and of all drivers."""
    found, remedy = explain_tls(text, "db1")
    assert cause in found
    assert remedy


def test_certificates_and_keys_are_read_where_the_command_runs(authority, tmp_path):
    """A pair in one file may be named once; a folder holds authorities under their hashes."""
    client = authority.sign("client")
    both = tmp_path / "both.pem"
    both.write_bytes(client.certificate.read_bytes() + client.key.read_bytes())
    assert read_material({"ssl-cert": str(both)}) == TlsMaterial(
        certificate=both.read_bytes(), key=both.read_bytes()
    )
    (tmp_path / "0123abcd.0").write_bytes(authority.file.read_bytes())
    (tmp_path / "README").write_text("no certificate")
    read = read_material({"ssl-capath": str(tmp_path)})
    assert read.authorities == authority.file.read_bytes()
    assert read_material({"ssl-ca": ""}) == TlsMaterial()


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({"ssl-ca": "absent.pem"}, "cannot read --ssl-ca .*absent.pem: No such file"),
        ({"ssl-capath": "."}, "no certificate under the name of its hash"),
        ({"ssl-capath": "absent"}, "cannot read --ssl-capath .*absent: No such file"),
        ({"ssl-ca": "text.pem"}, "--ssl-ca .*text.pem holds no usable certificate"),
        ({"ssl-cert": "c.pem", "ssl-key": "other.key"}, "c.pem and --ssl-key .*: key values mis"),
        ({"ssl-cert": "c.pem", "ssl-key": "locked.key"}, "private key .* is encrypted"),
        ({"ssl-cert": "c.pem", "ssl-key": "text.pem"}, "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_option_and_path(
    authority, tmp_path, paths, message
):
    """Before any server is asked."""
    first, second = authority.sign("first"), authority.sign("second")
    (tmp_path / "text.pem").write_text("no PEM")
    (tmp_path / "c.pem").write_bytes(first.certificate.read_bytes())
    (tmp_path / "other.key").write_bytes(second.key.read_bytes())
    (tmp_path / "locked.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(UsageFault, match=message) as refused:
        read_material({option: str(tmp_path / name) for option, name in paths.items()})
    assert refused.value.hint


@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY"])
def test_verifying_needs_an_authority(mode):
    """As in the mysql client: nothing is verified by whatever this machine happens to trust."""
    with pytest.raises(UsageFault, match="nothing to verify") as refused:
        connection_options({}, {"ssl_mode": mode})
    assert "--ssl-ca" in refused.value.hint


def test_each_option_of_tls_comes_from_the_command_line_or_else_from_the_file(authority):
    """The mode of one and the authority of the other go together."""
    stored = {"ssl-mode": "required", "ssl-ca": str(authority.file)}
    found = connection_options(stored, {"ssl_mode": "VERIFY_IDENTITY", "ssl_ca": None})
    assert (found.ssl_mode, found.tls.authorities) == (
        "VERIFY_IDENTITY",
        authority.file.read_bytes(),
    )


def test_no_key_shows_and_every_process_gets_it():
    """R20: options travel to executors on other machines, which have none of the files."""
    options = ConnectionOptions(tls=TlsMaterial(key=b"s3cret", certificate=b"c"))
    assert "s3cret" not in repr(options)
    assert pickle.loads(pickle.dumps(options)).tls.key == b"s3cret"


def test_contents_become_files_that_libraries_can_read():
    """One file for one content, in memory where the system has that."""
    path = file_of(b"content")
    assert Path(path).read_bytes() == Path(path).read_bytes() == b"content"
    assert file_of(b"content") == path
    assert file_of(b"other") != path


@pytest.mark.parametrize(
    ("connector_c", "attempt", "mode", "with_file"),
    [
        (True, PLAIN, "DISABLED", True),
        (True, ENCRYPTED, "REQUIRED", True),
        (True, AUTHORITY, "REQUIRED", True),
        (True, IDENTITY, "REQUIRED", True),
        (False, PLAIN, "DISABLED", False),
        (False, ENCRYPTED, "REQUIRED", False),
        (False, AUTHORITY, "VERIFY_CA", False),
        (False, IDENTITY, "VERIFY_IDENTITY", False),
    ],
)
def test_each_library_is_told_what_it_can_do(monkeypatch, connector_c, attempt, mode, with_file):
    """Connector/C gets the fingerprint of the certificate, libmysqlclient its own modes."""
    monkeypatch.setattr(driver, "_algorithm", lambda: "sha1")
    monkeypatch.setattr(driver, "_is_connector_c", lambda: connector_c)
    monkeypatch.setattr(driver, "shown_certificate", lambda *_: b"certificate")
    arguments = driver.tls_arguments(ConnectionOptions(host="db1", tls=CA), attempt)
    assert arguments["ssl_mode"] == mode
    assert ("read_default_file" in arguments) is with_file
    verified = attempt.check is not CertificateCheck.NOTHING
    assert arguments.get("ssl", {}).keys() == ({"ca"} if verified else set())


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        *(("3.3.20", "sha1"), ("3.4.8", "sha256"), ("3.1.27-MariaDB", "sha1")),
        *(("10.5.8", "sha1"), ("11.3.2", "sha1"), ("11.8.2", "sha256"), ("12.1.0", "sha256")),
    ],
)
def test_a_fingerprint_is_one_that_the_library_compares(monkeypatch, version, expected):
    """Connector/C knows SHA-2 from 3.4 on, and calls itself by MariaDB's version in some builds."""
    from MySQLdb import _mysql

    monkeypatch.setattr(_mysql, "get_client_info", lambda: version)
    assert driver._algorithm.__wrapped__() == expected


@pytest.mark.parametrize(
    ("algorithm", "given", "setting"),
    [
        ("sha256", {"host": "db1"}, "restricted-auth=caching_sha2_password"),
        ("sha256", {"socket": "/s"}, None),
        ("sha1", {"host": "db1"}, "plugin-dir=/dev/null"),
    ],
)
def test_without_tls_no_plugin_may_send_the_password_as_it_is(
    monkeypatch, algorithm, given, setting
):
    """R26: Connector/C from 3.4 on is told the plugins that it may use; 3.3 crashes then."""
    monkeypatch.setattr(driver, "_is_connector_c", lambda: True)
    monkeypatch.setattr(driver, "_algorithm", lambda: algorithm)
    arguments = driver.tls_arguments(ConnectionOptions(**given), PLAIN)
    file = arguments.get("read_default_file")
    assert (file is None) is (setting is None)
    if file is not None:
        text = Path(file).read_text()
        assert setting in text
        assert "clear" not in text


@pytest.mark.parametrize(
    "packet",
    [b"\x05\0\0\0\x0b\x08\x05\x1a\0", b"\0\0\0\0", b"\x01\0\0\0\xff", b"\x03\0\0\0\x0a8."],
    ids=["X Protocol", "empty", "short error", "short greeting"],
)
def test_who_greets_as_no_mysql_server_is_a_fault_of_the_connection(packet):
    """Such as a port of the X Protocol: it ended the command as a defect of this program."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(packet)
        with pytest.raises(ServerFault, match="no MySQL server answers there") as fault:
            driver._ask_for_tls(ours, "here")
    assert fault.value.code == 2003


@pytest.mark.parametrize(
    ("option", "named", "writable"),
    [
        *(("ssl-ca", "file", "file"), ("ssl-cert", "file", "file")),
        *(("ssl-capath", "folder", "file"), ("ssl-capath", "folder", "folder")),
    ],
)
def test_what_everybody_may_write_says_whom_to_trust_to_nobody(tmp_path, option, named, writable):
    """R26: whoever writes it passes for the server."""
    places = {"folder": tmp_path, "file": tmp_path / "0a1b2c3d.0"}
    places["file"].write_bytes(b"x")
    places[writable].chmod(0o777)
    with pytest.raises(UsageFault, match="world-writable") as refused:
        read_material({option: str(places[named])})
    assert refused.value.hint == f"chmod o-w {places[writable]}"

"""TLS in every mode of the mysql client, against a server whose certificate the test makes."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess

import pytest

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.position import FilePlace
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql import connect as connections
from spirit_py.mysql.connect import connect, connect_first
from spirit_py.mysql.tls import driver
from spirit_py.mysql.tls.modes import attempts
from spirit_py.throttle.replica import options_of_replica
from tests.fixtures.feed import fill
from tests.fixtures.mysql import connect as plain_session
from tests.kits.certificates import Authority
from tests.kits.command import MINUTE, command_line, environment
from tests.kits.connection import account, options_of
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import ALTER, make_table
from tests.kits.tls import material, named, server_tls, server_without_tls, verifying

GRANTS = (
    (
        "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
        " CREATE TEMPORARY TABLES ON {db}.*"
    ),
    "SELECT ON performance_schema.*",
    (
        "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, CONNECTION_ADMIN,"
        " RELOAD ON *.*"
    ),
)
BINLOG = "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
DUMP_CIPHERS = """
SELECT s.VARIABLE_VALUE
FROM performance_schema.threads t JOIN performance_schema.status_by_thread s USING (THREAD_ID)
WHERE t.PROCESSLIST_USER = %s AND s.VARIABLE_NAME = 'Ssl_cipher'
  AND t.PROCESSLIST_COMMAND IN ('Binlog Dump', 'Binlog Dump GTID')"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Return the authority of the server's certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Return an authority that signed nothing of the server's."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def right(authority, mysql):
    """Return a certificate for the server's host."""
    return authority.sign("right", named(mysql.host))


@pytest.fixture(scope="module")
def elsewhere(authority):
    """Return a certificate of the same authority, for another host."""
    return authority.sign("elsewhere", "DNS:db.example")


@pytest.fixture
def tls(db):
    """Return what the server shows, to be changed."""
    with server_tls(db) as shown:
        yield shown


def cipher(session) -> str:
    """Return the cipher of a session; empty without TLS."""
    return session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1]


def dump(options) -> None:
    """Open a dump from the first file of the binlog."""
    BinlogConnection(
        options,
        gtids=None,
        place=FilePlace("binlog.000001", 4),
        server_uuid="",
        replica_uuid="r",
        heartbeat=1.0,
        silence=5.0,
    )


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_the_right_certificate_is_accepted_in_every_mode(db, tls, authority, right, mode):
    """Each mode encrypts the session."""
    tls.show(right, authority)
    with connect_first(verifying(db, mode, authority.file), role="test") as session:
        assert cipher(session)


def test_verify_ca_accepts_any_host_name(db, tls, authority, elsewhere):
    """As in the mysql client; VERIFY_IDENTITY refuses it and names the host and the way on."""
    tls.show(elsewhere, authority)
    with connect_first(verifying(db, "VERIFY_CA", authority.file), role="test") as session:
        assert cipher(session)
    with pytest.raises(Refusal, match=f"is not for {db.server.host}") as refused:
        connect_first(verifying(db, "VERIFY_IDENTITY", authority.file), role="test")
    assert "--ssl-mode VERIFY_CA" in refused.value.hint


@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY"])
def test_a_certificate_of_another_authority_is_refused(db, tls, authority, right, stranger, mode):
    """Where something is verified; below that every certificate will do, as in the mysql client."""
    tls.show(right, authority)
    with pytest.raises(Refusal, match="not signed by an authority of --ssl-ca") as refused:
        connect_first(verifying(db, mode, stranger.file), role="test")
    assert "ca.pem" in refused.value.hint
    with connect_first(verifying(db, "REQUIRED", stranger.file), role="test") as session:
        assert cipher(session)


def test_an_expired_certificate_is_refused(db, tls, authority):
    """Under VERIFY_CA too: who verifies is told that it has expired."""
    tls.show(authority.sign("expired", named(db.server.host), days=-1), authority)
    with pytest.raises(Refusal, match="has expired"):
        connect_first(verifying(db, "VERIFY_CA", authority.file), role="test")


def test_the_certificate_that_the_server_made_itself_passes_verify_ca(db):
    """It names no host, so only VERIFY_IDENTITY refuses it."""
    ((text,),) = db.query("SELECT LOAD_FILE(CONCAT(@@datadir, @@ssl_ca))")
    if text is None:
        pytest.skip("the server does not let its ca.pem be read")
    options = verifying(db, "VERIFY_CA")
    content = text if isinstance(text, bytes) else text.encode()
    own = dataclasses.replace(options, tls=dataclasses.replace(options.tls, authorities=content))
    with connect_first(own, role="test") as session:
        assert cipher(session)
    with pytest.raises(Refusal, match="is not for"):
        connect_first(dataclasses.replace(own, ssl_mode="VERIFY_IDENTITY"), role="test")


@pytest.mark.slow
def test_a_server_without_tls_never_sees_the_password(authority, proxy_to):
    """R20: not even where the login is not cached; PREFERRED and DISABLED log in without TLS."""
    with server_without_tls() as server, contextlib.closing(plain_session(server)) as session:
        proxy = proxy_to((server.host, server.port))
        proxy.record = True
        reached = dataclasses.replace(options_of(server), host=proxy.host, port=proxy.port)
        trusting = dataclasses.replace(reached, tls=material(authority.file))
        for mode in ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"):
            session.cursor().execute("FLUSH PRIVILEGES")
            with pytest.raises(Refusal, match="offers no TLS") as refused:
                connect_first(dataclasses.replace(trusting, ssl_mode=mode), role="test")
            assert "--ssl-mode DISABLED" in refused.value.hint
        for mode in ("PREFERRED", "DISABLED"):
            session.cursor().execute("FLUSH PRIVILEGES")
            options = dataclasses.replace(reached, ssl_mode=mode)
            with connect_first(options, role="test") as own:
                assert not cipher(own)
        assert server.user.encode() in proxy.heard
        assert server.password.encode() not in proxy.heard


def test_a_renewed_certificate_is_verified_again(db, tls, authority, right, stranger):
    """A run of days outlives a certificate: the next one is verified like the first."""
    options = verifying(db, "VERIFY_IDENTITY", authority.file)
    tls.show(right, authority)
    connect(options, role="test").close()
    tls.show(authority.sign("renewed", named(db.server.host)), authority)
    connect(options, role="test").close()
    tls.show(stranger.sign("strange", named(db.server.host)), stranger)
    with pytest.raises(ServerFault, match=r"self-signed|unable to get"):
        connect(options, role="test")


def test_an_account_that_demands_a_client_certificate_gets_it(db, tls, authority, right, stranger):
    """REQUIRE X509: with the certificate; without it, and with a stranger's, the cause is named."""
    tls.show(right, authority)
    client, foreign = authority.sign("client"), stranger.sign("foreign")
    with account(db) as plain:
        db.execute(f"ALTER USER {plain.user} REQUIRE X509")
        reached = dataclasses.replace(plain, ssl_mode="VERIFY_IDENTITY")
        known = dataclasses.replace(reached, tls=material(authority.file, client))
        missing = dataclasses.replace(reached, tls=material(authority.file))
        strange = dataclasses.replace(reached, tls=material(authority.file, foreign))
        with connect_first(known, role="test") as session:
            assert cipher(session)
        with pytest.raises(Refusal, match="does not accept user") as refused:
            connect_first(missing, role="test")
        assert "a client certificate (--ssl-cert and --ssl-key)" in refused.value.hint
        with pytest.raises(Refusal, match=r"not accept the client certificate"):
            connect_first(strange, role="test")


def test_sessions_that_meet_a_renewal_at_once_are_all_opened(
    db, tls, authority, right, monkeypatch
):
    """One finds its certificate replaced when another has verified the new one already."""
    tls.show(right, authority)
    options = verifying(db, "VERIFY_IDENTITY", authority.file)
    connect(options, role="test").close()
    tls.show(authority.sign("again", named(db.server.host)), authority)
    log_in = connections._driver_connection

    def overtaken(arguments, where):
        try:
            return log_in(arguments, where)
        except ServerFault:
            monkeypatch.setattr(connections, "_driver_connection", log_in)
            connect(options, role="test").close()
            raise

    monkeypatch.setattr(connections, "_driver_connection", overtaken)
    with connect(options, role="test") as session:
        assert cipher(session)


def test_only_the_certificate_that_was_checked_is_accepted(db, tls, authority, right, elsewhere):
    """One between two connections cannot show the right one to Python and another to the driver."""
    tls.show(right, authority)
    options = verifying(db, "VERIFY_IDENTITY", authority.file)
    way = attempts(options)[0]
    checked = driver.shown_certificate(options, way)
    tls.show(elsewhere, authority)
    with pytest.raises(ServerFault, match="not valid for"):
        connect(options, role="test")
    with pytest.MonkeyPatch.context() as patch:
        # Whoever stands between shows the right one whenever Python asks.
        patch.setattr(driver, "_shown", lambda *_: checked)
        with pytest.raises(Refusal, match="another certificate on each connection"):
            connect_first(options, role="test")


@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY"])
def test_the_feed_verifies_like_the_rest(scene, authority, right, elsewhere, stranger, mode):
    """The binlog comes through another driver, under the same rules."""
    with server_tls(scene.db) as tls:
        tls.show(right if mode == "VERIFY_IDENTITY" else elsewhere, authority)
        scene.tables()
        feed = scene.open(connection=verifying(scene.db, mode, authority.file))
        fill(scene.db, 10)
        scene.drain()
        scene.assert_equal()
        assert feed._stream._reader.connection._connection._secure
        scene.close()
        with pytest.raises(StreamLost, match=r"self-signed|unable to get"):
            dump(verifying(scene.db, mode, stranger.file))
        if mode == "VERIFY_IDENTITY":
            tls.show(elsewhere, authority)
            with pytest.raises(StreamLost, match="not valid for"):
                dump(verifying(scene.db, mode, authority.file))


@pytest.mark.slow
def test_the_feed_needs_tls_where_it_is_required():
    """R20: a greeting without TLS, from the server or from who stands between, is the end."""
    with server_without_tls() as server:
        options = dataclasses.replace(options_of(server), ssl_mode="REQUIRED")
        with pytest.raises(StreamLost, match="SSL is required"):
            dump(options)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY"])
def test_executors_verify_without_the_files(db, tls, tmp_path, mysql, spark_engine, mode):
    """What a task needs travels with it: the files need not be where it runs."""
    own = Authority(tmp_path)
    tls.show(own.sign("server", named(mysql.host)), own)
    with account(db) as options:
        db.execute(f"ALTER USER {options.user} REQUIRE X509")
        carried = material(own.file, own.sign("client"))
        reached = dataclasses.replace(options, ssl_mode=mode, tls=carried)
        strange = dataclasses.replace(
            reached, tls=dataclasses.replace(carried, authorities=Authority(tmp_path, "b").pem)
        )
        for file in tmp_path.iterdir():
            file.unlink()

        def ciphers(rank: int) -> str:
            with connect(reached if rank == 0 else strange, role="test") as session:
                return str(session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])

        first, second = spark_engine.run_gang(ciphers, size=2, group="tls", description="tls")
        assert first.result
        assert first.error is None
        assert isinstance(second.error, ServerFault)
        assert "TLS: " in second.error.message


@pytest.mark.slow
@pytest.mark.gtid
@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY"])
def test_a_whole_migration_is_encrypted(db, tls, authority, right, elsewhere, mysql, engine, mode):
    """Every session of the driver and of the feed: the account may not log in otherwise."""
    tls.show(right if mode == "VERIFY_IDENTITY" else elsewhere, authority)
    make_table(db)
    with account(db, *GRANTS) as options:
        db.execute(f"ALTER USER {options.user} REQUIRE X509")
        reached = dataclasses.replace(
            options, ssl_mode=mode, tls=material(authority.file, authority.sign("client"))
        )
        config = config_for(
            db,
            connection=reached,
            table="t",
            alter=ALTER,
            no_shortcut=True,
        )
        migrating = Migrating(engine, config)
        ciphers: set[str] = set()
        while migrating.running:
            ciphers |= {used for (used,) in db.query(DUMP_CIPHERS, (options.user,))}
        assert migrating.end().outcome == "done"
        # A dump that ends has none any more.
        assert ciphers - {""}


def test_replicas_are_reached_under_the_same_rules(db, tls, authority, elsewhere, stranger):
    """What measures a replica's lag verifies its certificate as that of the source."""
    refused = pytest.raises(ServerFault, match=r"self-signed|unable to get")
    tls.show(elsewhere, authority)
    for trusted, expected in ((authority, contextlib.nullcontext()), (stranger, refused)):
        options = verifying(db, "VERIFY_CA", trusted.file)
        with expected:
            connect(options_of_replica(options, options.host, options.port), role="test").close()


@pytest.fixture
def options(db, tls, authority, right, tmp_path):
    """Return the TLS options of a command line, and an account that demands them all."""
    tls.show(right, authority)
    client = authority.sign("client")
    words = {
        "ssl-mode": "verify_identity",
        "ssl-ca": str(authority.file),
        "ssl-cert": str(client.certificate),
        "ssl-key": str(client.key),
    }
    with account(db, "ALL ON {db}.*", "SELECT ON performance_schema.*", BINLOG) as user:
        db.execute(f"ALTER USER {user.user} REQUIRE X509")
        yield words, user


def as_words(options: dict[str, str], prefix: str = "") -> list[str]:
    """Return options as words of a command line."""
    return [word for name, value in options.items() for word in (f"--{prefix}{name}", value)]


@pytest.mark.slow
def test_the_options_reach_every_connection_of_a_command(db, options, stranger):
    """The command watch reads the binlog, through the account that demands a client certificate."""
    given, user = options
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    done = finished(db, user, "watch", "--until", "now", *as_words(given))
    assert done.returncode == 0, done.stderr
    refused = finished(
        db, user, "watch", "--until", "now", *as_words(given | {"ssl-ca": str(stranger.file)})
    )
    assert refused.returncode == 2
    assert "not signed by an authority of --ssl-ca" in refused.stderr


@pytest.mark.slow
def test_the_target_of_a_comparison_has_options_of_its_own(db, options, stranger):
    """They take the place of all of the source's, which is reached without any here."""
    given, user = options
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY)")
    source = options_of(db.server)
    there = ("--table", "t", "--target-table", "u", "--target-user", user.user)
    done = finished(db, source, "checksum", *there, *as_words(given, "target-"), target=user)
    assert done.returncode == 0, done.stderr
    strange = as_words(given | {"ssl-ca": str(stranger.file)}, "target-")
    refused = finished(db, source, "checksum", *there, *strange, target=user)
    assert refused.returncode == 2
    assert "not signed by an authority of --ssl-ca" in refused.stderr


def finished(db, user, command, *words, target=None):
    """Run a command to its end, as this account."""
    line = command_line(db, command, *words)
    line[line.index("--user") + 1] = user.user
    secrets = {"SPIRIT_PY_PASSWORD": user.password}
    if target is not None:
        secrets["SPIRIT_PY_TARGET_PASSWORD"] = target.password
    return subprocess.run(
        line,
        env=environment(db, **secrets),
        capture_output=True,
        text=True,
        timeout=4 * MINUTE,
        check=False,
    )

"""Which replicas are watched, while another thread finds new ones."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, TlsMaterial
from spirit_py.errors import ServerFault
from spirit_py.mysql.replication import KnownReplica
from spirit_py.throttle import lag, replica
from spirit_py.throttle.lag import LagThrottler, Replicas, address_of, unnamed
from spirit_py.throttle.replica import ReplicaState, ReplicaWatch, pause_after
from spirit_py.throttle.settings import LiveSettings, PaceSettings
from spirit_py.throttle.unapplied import Behind, Mark


def test_replicas_may_be_found_while_others_are_listed() -> None:
    """The copy asks how far they are in its own thread: a new one must not end it."""
    replicas = Replicas(ConnectionOptions(), ["one:3306", "two:3306"])

    class Found:
        address = "one:3306"
        state = ReplicaState()

        @property
        def uuid(self) -> str:
            replicas._add("three:3306", ConnectionOptions(host="three"))
            return "uuid-1"

    found: Any = Found()
    replicas._watches["one:3306"] = found
    assert [one.address for one in replicas.watched()] == ["one:3306", "two:3306"]
    assert [one.address for one in replicas.watched()][2:] == ["three:3306"]


def test_a_replica_that_is_back_at_another_address_is_looked_at_there() -> None:
    """Its earlier address does not answer any more."""
    replicas = Replicas(ConnectionOptions(), [])
    away, back = (
        SimpleNamespace(address=f"{name}:3306", uuid="uuid-1", state=ReplicaState(lost=lost))
        for name, lost in (("one", True), ("two", False))
    )
    known: Any = {"one:3306": away, "two:3306": back}
    replicas._watches.update(known)
    assert [one.address for one in replicas.watched()] == ["two:3306"]


def test_a_source_without_replicas_is_asked_only_to_find_some(monkeypatch) -> None:
    """Nothing is compared with where it is."""
    now, marks = 0.0, []
    replicas = Replicas(ConnectionOptions(), clock=lambda: now)
    monkeypatch.setattr(replicas._source, "mark", lambda: marks.append(now))
    monkeypatch.setattr(replicas._source, "session", lambda: None)
    monkeypatch.setattr(lag, "known_replicas", lambda _: [])
    for look in range(251):
        now = look / 10
        replicas.look()
    assert marks == [0.0, 10.0, 20.0]


def test_replicas_that_could_not_be_looked_for_are_looked_for_again(monkeypatch) -> None:
    """Otherwise the copy would run on as with a server that has none; a verdict is told of."""
    replicas = Replicas(ConnectionOptions(), clock=lambda: 0.0)
    monkeypatch.setattr(replicas._source, "mark", lambda: None)
    monkeypatch.setattr(replicas._source, "session", lambda: None)
    faults: list[Exception] = [ValueError("no number"), ServerFault(2013, "lost", where="test")]

    def raises(_: object) -> None:
        raise faults[0] if faults else ServerFault(1105, "not here", where="test")

    monkeypatch.setattr(lag, "known_replicas", raises)
    while faults:
        with pytest.raises(type(faults[0])):
            replicas.look()
        faults.pop(0)
    replicas.look()
    assert "not here" in replicas.unlisted


def test_a_new_replica_takes_the_place_of_one_that_has_gone(monkeypatch) -> None:
    """Replicas come and go for weeks; one that is only away, and still listed, keeps its place."""
    replicas = Replicas(given("VERIFY_IDENTITY", b"ca"), [])
    session: Any = None

    def listed(*names: str) -> list[str]:
        known = [KnownReplica(host=one, port=3306, uuid=one, server_id=1) for one in names]
        monkeypatch.setattr(lag, "known_replicas", lambda _: known)
        replicas._discover(session)
        return [one.address.removesuffix(":3306") for one in replicas.watched()]

    first = [f"r{number}" for number in range(lag._MOST_FOUND)]
    assert listed(*first) == first
    for one in replicas.watched():
        one.well = True
    assert listed(*first[2:], "new") == first
    assert replicas.beyond == "new:3306"
    for one in replicas.watched()[:3]:
        one._state = ReplicaState(lost=True)
    assert listed(*first[2:], "new") == [*first[1:], "new"]
    assert listed(*first[2:], "new", "newer") == [*first[2:], "new", "newer"]
    # A warning names them.
    assert replicas.forgotten == {"r0:3306", "r1:3306"}
    assert listed(*first[2:], "new", "newer", "newest") == [*first[2:], "new", "newer"]
    replicas.close()


def test_an_address_that_was_never_well_is_forgotten_with_its_replica(monkeypatch) -> None:
    """Anyone with REPLICATION SLAVE names it; it held the work back after they had gone."""
    replicas = Replicas(given("VERIFY_IDENTITY", b"ca"), ["named"], also_known=True)
    known = [KnownReplica(host=one, port=3306, uuid=one, server_id=1) for one in ("real", "false")]
    session: Any = None
    for found in (known, known, []):
        monkeypatch.setattr(lag, "known_replicas", lambda _, found=found: found)
        replicas._discover(session)
        watched = {one.address: one for one in replicas.watched()}
        watched["real:3306"].well = True
        assert ("false:3306" in watched) is bool(found)
    assert list(watched) == ["named:3306", "real:3306"]
    said: list[str] = []
    monkeypatch.setattr(replicas, "look", lambda: None)
    settings = LiveSettings(PaceSettings(threads=2, max_lag=10.0))
    throttler = LagThrottler(replicas, settings, strict=False, warn=said.append)
    for _ in range(2):
        throttler.look()
    assert [line.partition(" is watched no more")[0] for line in said] == ["replica false:3306"]
    replicas.close()


def test_an_address_that_has_refused_the_login_gets_no_other_when_it_is_back(monkeypatch) -> None:
    """The account may be locked after a few."""
    logins: list[str] = []

    def refuses(options: ConnectionOptions, **_: Any) -> None:
        logins.append(options.host)
        raise ServerFault(1045, "Access denied", where="test")

    monkeypatch.setattr(replica, "connect", refuses)
    replicas = Replicas(given("VERIFY_IDENTITY", b"ca"), clock=lambda: 0.0)
    monkeypatch.setattr(replicas._source, "mark", lambda: Mark(at=0.0))
    monkeypatch.setattr(replicas._source, "session", lambda: None)
    one = KnownReplica(host="false", port=3306, uuid="u", server_id=1)
    for found in ([one], [], [one]):
        monkeypatch.setattr(lag, "known_replicas", lambda _, found=found: found)
        replicas._found_at = float("-inf")
        replicas.look()
        replicas.settle(60.0)
    assert [watch.refused for watch in replicas.watched()] == [True]
    replicas.close()
    assert logins == ["false"]


def given(mode: str, authorities: bytes = b"") -> ConnectionOptions:
    """Return the options of a run."""
    return ConnectionOptions(
        host="db1", password="s3cret", ssl_mode=mode, tls=TlsMaterial(authorities=authorities)
    )


@pytest.mark.parametrize(
    ("options", "host"),
    [
        (given(""), "db2"),
        (given("DISABLED"), "db2"),
        (given("PREFERRED"), "127.0.0.1"),
        (given("REQUIRED"), "localhost"),
        (given("REQUIRED", b"ca"), "db2"),
        (given("VERIFY_IDENTITY"), "db2"),
        (given("VERIFY_IDENTITY", b"ca"), "db2\x1b[2J"),
        (given("VERIFY_IDENTITY", b"ca"), "db2,db3"),
        (given("VERIFY_IDENTITY", b"ca"), ""),
    ],
)
def test_no_password_goes_to_an_address_that_is_not_proved(
    options: ConnectionOptions, host: str
) -> None:
    """R26: below verified TLS, this machine's own addresses included, and for what is no name."""
    assert unnamed(options, host, 3306) is None


@pytest.mark.parametrize("mode", ["", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_an_address_that_nobody_named_must_be_in_the_certificate(mode: str) -> None:
    """R26: also where only the authority is verified at the address that was named."""
    found = unnamed(given(mode, b"ca"), "db2", 3307)
    assert found is not None
    assert (found.host, found.port, found.ssl_mode) == ("db2", 3307, "VERIFY_IDENTITY")


def test_what_a_replica_says_of_itself_is_shown_escaped() -> None:
    """A terminal takes no orders from a replica's name."""
    assert address_of("db2", 3306) == "db2:3306"
    assert address_of("::1", 3306) == "[::1]:3306"
    assert "\x1b" not in address_of("\x1b[2J", 3306)


def test_a_refused_login_is_repeated_ever_more_rarely() -> None:
    """R26: at a replica that was named; one that is only away is tried every few seconds."""
    refused = ServerFault(1045, "Access denied", where="test")
    away = ServerFault(2003, "no route", where="test")
    assert [pause_after(refused, count) for count in (1, 2, 3, 4)] == [2.0, 4.0, 8.0, 16.0]
    assert pause_after(refused, 100) == 300.0
    assert [pause_after(away, count) for count in (1, 2, 100)] == [0.5, 1.0, 5.0]


def with_one(watch: Any) -> Any:
    """Return replicas of which one is watched."""
    return SimpleNamespace(
        look=lambda: None,
        watched=lambda: [watch],
        **dict.fromkeys(("unlisted", "beyond"), ""),
        **dict.fromkeys(("silent", "unproved", "forgotten"), ()),
    )


def test_another_server_behind_a_replica_s_name_is_a_warning(monkeypatch) -> None:
    """A name of several servers leads to one of them after each loss of the session."""
    answers = iter(["uuid-1", "uuid-1", "uuid-2", "uuid-2"])
    session = SimpleNamespace(value=lambda _: next(answers))
    monkeypatch.setattr(replica, "connect", lambda *_, **__: session)
    monkeypatch.setattr(replica, "applier_lag", lambda *_, **__: 0.0)
    source: Any = None
    watch = ReplicaWatch(ConnectionOptions(), address="db:3306", source=source, named=True)
    said: list[str] = []
    settings = LiveSettings(PaceSettings(threads=2, max_lag=10.0))
    throttler = LagThrottler(with_one(watch), settings, strict=True, warn=said.append)
    told = []
    for _ in range(4):
        watch._open()
        throttler.look()
        told.append(len(said))
    assert told == [0, 0, 1, 1]
    assert "replica db:3306 is another server than before (uuid-2, not uuid-1)" in said[0]


def test_whatever_fails_in_a_look_is_a_failed_look(monkeypatch) -> None:
    """The watch goes on: a replica is not left unwatched for what an answer was."""
    failures = iter([ValueError("no greeting"), ServerFault(2003, "away", where="test")])
    stopping = threading.Event()
    seen: list[str] = []

    def looked(watch: ReplicaWatch) -> None:
        seen.append(watch.state.trouble)
        if len(seen) == 2:
            stopping.set()

    def refuses(*_: object, **__: object) -> None:
        raise next(failures)

    monkeypatch.setattr(replica, "connect", refuses)
    source: Any = None
    options = ConnectionOptions()
    watch = ReplicaWatch(options, address="a:1", source=source, named=False, on_look=looked)
    monkeypatch.setattr(replica, "pause_after", lambda *_: 0.0)
    watch.interval = 0.0
    watch._run(stopping)
    assert "no greeting" in seen[0]
    assert "away" in seen[1]


@pytest.mark.parametrize("strict", [False, True])
def test_a_replica_that_dies_behind_slows_nothing_down_but_where_it_is_relied_on(strict) -> None:
    """What was seen of it last stays, and is no lag of now."""
    state = ReplicaState(behind=Behind(lag=9.5, unapplied=1 << 20, speed=1e5), looked_at=100.0)
    watch = SimpleNamespace(address="one:3306", uuid="uuid-1", was="", state=state)
    replicas = with_one(watch)
    now = [100.0]
    settings = LiveSettings(PaceSettings(threads=2, max_lag=10.0))
    throttler = LagThrottler(
        replicas, settings, strict=strict, warn=lambda _: None, clock=lambda: now[0]
    )
    throttler.look()
    assert throttler.pressure() > 0.8
    assert throttler.part_bytes() is not None
    watch.state = state._replace(trouble="cannot connect", since=100.5, lost=True)
    now[0] = 120.0
    throttler.look()
    assert (throttler.pressure() > 0.8) is strict
    assert (throttler.part_bytes() is not None) is strict

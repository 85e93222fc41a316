"""From which positions of earlier runs the stream may go on, where own writes were not received."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from spirit_py.binlog import resumption, wire
from spirit_py.binlog.position import LogFile
from spirit_py.binlog.resumption import frontier_of, why_unreachable
from spirit_py.config import ConnectionOptions
from spirit_py.errors import FeedFailure, NeverExecuted, PositionNotFound
from spirit_py.mysql.own_sessions import is_own, own_uuid

SERVER = "16e8969d-e4d3-11f1-b00c-02fc00000001"
OWN = own_uuid("a run", "s", "t")


class Server:
    """A session that answers the two questions about GTID sets."""

    def __init__(self, executed: str, purged: str, owned: str = "", then: str = "") -> None:
        self._sets = executed, purged
        self._owned, self._then = owned, then
        self.waits = 0

    def query(self, sql: str, _: Any = None) -> list[tuple[Any, ...]]:
        """Answer; what is owned is executed after the first wait, where ``then`` says so."""
        if "WAIT_FOR" in sql:
            self.waits += 1
            if self._then:
                self._sets, self._owned = (self._then, self._sets[1]), ""
            return [(0,)]
        if "gtid_owned" in sql:
            return [(self._owned,)]
        return [(SERVER, "ON")] if "gtid_mode" in sql else [self._sets]


def resumed(server: Server, gtids: str, *, whole: bool) -> str:
    """Return the set that a stream from this position begins with."""
    session: Any = server
    position = f"gtid;{SERVER};{gtids}"
    return frontier_of(session, position, address="db1", whole=whole).text().split(";")[2]


def test_what_was_copied_unseen_counts_as_received() -> None:
    """Also where it is purged: else the server would send it all, or refuse."""
    server = Server(f"{SERVER}:1-90,{OWN}:1-50", f"{SERVER}:1-10,{OWN}:1-20")
    assert resumed(server, f"{SERVER}:1-60", whole=False) == f"{SERVER}:1-60,{OWN}:1-50"


def test_a_stream_of_everything_may_follow_the_new_table() -> None:
    """``spirit-py watch`` may follow the new table itself."""
    kept = Server(f"{SERVER}:1-90,{OWN}:1-50", f"{SERVER}:1-10")
    assert resumed(kept, f"{SERVER}:1-60,{OWN}:1-3", whole=True) == f"{SERVER}:1-60,{OWN}:1-3"
    with pytest.raises(PositionNotFound, match="no longer has"):
        resumed(Server(f"{SERVER}:1-90,{OWN}:1-50", f"{OWN}:1-20"), f"{SERVER}:1-60", whole=True)


def test_a_commit_that_stalls_is_waited_for() -> None:
    """R17: it was received before it is executed, which is no proof that it is of another log."""
    owned = f"{SERVER}:59#75:60#8"
    server = Server(f"{SERVER}:1-58", "", owned, then=f"{SERVER}:1-60")
    assert resumed(server, f"{SERVER}:1-60", whole=False) == f"{SERVER}:1-60"
    assert server.waits == 1


def test_a_commit_that_stalls_on_keeps_what_an_earlier_run_left(monkeypatch: Any) -> None:
    """R17: an error that proves nothing, so that nothing starts afresh."""
    monkeypatch.setattr(resumption, "_COMMITS_WITHIN", -1.0)
    server = Server(f"{SERVER}:1-59", "", f"{SERVER}:60#75")
    with pytest.raises(FeedFailure, match=f"are stalled in their commit: {SERVER}:60") as caught:
        resumed(server, f"{SERVER}:1-60", whole=False)
    assert caught.value.error_code == "commits-stalled"
    assert not isinstance(caught.value, PositionNotFound)


def test_a_transaction_that_nobody_commits_was_never_executed_here() -> None:
    """Another one may be under way meanwhile."""
    server = Server(f"{SERVER}:1-58", "", f"{SERVER}:59#75")
    with pytest.raises(PositionNotFound, match=f"never executed {SERVER}:59-60") as caught:
        resumed(server, f"{SERVER}:1-60", whole=False)
    # It is lost, and what gets its number by and by is another one.
    assert not isinstance(caught.value, NeverExecuted)
    assert server.waits == 0


def test_a_reset_after_the_checkpoint_is_noticed_in_spite_of_the_wait(monkeypatch: Any) -> None:
    """The checkpoint's age was measured before the wait, so the server's time is, too."""

    class Waited(Server):
        """Its clock shows ten seconds more after the wait."""

        def query(self, sql: str, _: Any = None) -> list[tuple[Any, ...]]:
            if "UNIX_TIMESTAMP" in sql:
                return [(SERVER, 1000.0 + 10.0 * self.waits)]
            return super().query(sql)

    server = Waited(f"{SERVER}:1-58", "", f"{SERVER}:59-60#8", then=f"{SERVER}:1-60")
    monkeypatch.setattr(resumption, "connect", lambda *_, **__: contextlib.nullcontext(server))
    monkeypatch.setattr(resumption, "end_of_binlog", lambda _: None)
    monkeypatch.setattr(resumption, "binlog_files", lambda _: [("b.000001", 4)])
    monkeypatch.setattr(resumption, "_created_at", lambda *_: 985)
    why = why_unreachable(ConnectionOptions(), f"gtid;{SERVER};{SERVER}:1-60", age=20.0)
    assert "was reset since" in why
    assert server.waits == 1


@pytest.mark.parametrize(
    ("file", "reset"),
    [("binlog.000123", True), ("binlog.000002", False), ("mysql-bin.000123", False)],
)
def test_numbers_of_files_are_compared_under_one_name(
    monkeypatch: Any, file: str, reset: bool
) -> None:
    """Another ``log_bin`` begins at 1 again, and nothing is missing."""
    session: Any = None
    monkeypatch.setattr(resumption, "binlog_files", lambda _: [("binlog.000009", 4)])
    refused = pytest.raises(PositionNotFound, match="was reset")
    with refused if reset else contextlib.nullcontext():
        resumption.require_log(ConnectionOptions(), session, SERVER, LogFile(file, 1000))


FIRST = "0b2f5a1c-e4d3-11f1-b00c-02fc00000002"


def moved(executed: str, purged: str = "") -> str:
    """Return where a stream goes on whose position is of another server."""
    session: Any = Server(executed, purged)
    return frontier_of(session, f"gtid;{FIRST};{FIRST}:1-60", address="db1", whole=False).text()


def test_a_promoted_replica_goes_on_where_its_source_was_left() -> None:
    """It has executed the position and has the binlog of the rest; from now on it is the server."""
    found = moved(f"{FIRST}:1-90,{SERVER}:1-7", f"{FIRST}:1-10")
    assert found == f"gtid;{SERVER};{FIRST}:1-60"


@pytest.mark.parametrize(
    ("executed", "purged", "why"),
    [
        (f"{FIRST}:1-59,{SERVER}:1-7", "", f"never executed {FIRST}:60"),
        (f"{FIRST}:1-90", f"{FIRST}:1-70", f"no longer has {FIRST}:61-70"),
        (f"{FIRST}:1-70:72-90", "", "there are gaps"),
    ],
)
def test_another_server_without_proof_is_refused(executed: str, purged: str, why: str) -> None:
    """R17: behind on the first one, without the binlog, or with a gap behind the position."""
    with pytest.raises(PositionNotFound, match=why) as caught:
        moved(executed, purged)
    # It may come by here: waiting helps.
    assert isinstance(caught.value, NeverExecuted) == ("no longer" not in why)


def test_a_place_in_the_log_of_another_server_never_comes_here() -> None:
    """Whoever follows it is not told to wait."""
    session: Any = Server(f"{FIRST}:1-90", "")
    with pytest.raises(PositionNotFound, match="counts there alone") as caught:
        frontier_of(session, f"file;{FIRST};b.000001;4", address="db1", whole=False)
    assert not isinstance(caught.value, NeverExecuted)


GROUP = "aaaaaaaa-e4d3-11f1-b00c-02fc00000003"


@pytest.mark.parametrize("own", ["", f",{FIRST}:1-5"])
def test_another_member_of_a_group_goes_on_where_its_identifier_has_no_gap(own: str) -> None:
    """R17: what the first server wrote before it was in the group proves nothing."""

    def on_another_member(executed: str, position: str = "1-60") -> str:
        text = f"gtid;{FIRST};{GROUP}:{position}{own}"
        session: Any = Server(executed + own, "")
        return frontier_of(session, text, address="db1", whole=False).text()

    found = on_another_member(f"{GROUP}:1-90")
    assert found == f"gtid;{SERVER};{','.join(sorted(f'{GROUP}:1-60{own}'.split(',')))}"
    blocks = "1-60:1000001-1000009"
    assert on_another_member(f"{GROUP}:1-60:1000001-1000050", blocks)
    with pytest.raises(PositionNotFound, match=f"{GROUP}:1-70:72-90: there are gaps"):
        on_another_member(f"{GROUP}:1-70:72-90")


def test_a_gap_of_tagged_transactions_is_one() -> None:
    """R17: they are of the first server, too."""
    with pytest.raises(PositionNotFound, match=f"{FIRST}:tag:1-3:5: there are gaps"):
        moved(f"{FIRST}:1-90:tag:1-3:5")


def test_another_server_without_gtids_is_refused() -> None:
    """A file and an offset say nothing there."""
    session: Any = Server("", "")
    with pytest.raises(PositionNotFound, match="without GTIDs"):
        frontier_of(session, f"file;{FIRST};binlog.000009;4", address="db1", whole=False)


def test_identifiers_of_runs_and_tables_differ() -> None:
    """They are uuids, known by their beginning."""
    found = {own_uuid(run, s, t) for run in "ab" for s in ("s", "st") for t in ("t", "tt")}
    assert len(found) == 8
    assert all(is_own(tsid) and len(tsid) == 36 for tsid in found)
    assert not is_own(SERVER)


def test_looking_at_the_oldest_file_leaves_no_session_behind(monkeypatch) -> None:
    """The server notices a closed dump only when it next sends something, so it is ended."""
    ended: list[int] = []

    class Dump:
        """Yields the one event that is wanted, or breaks."""

        id = 77
        event = wire.HEADER.pack(1000, wire.FORMAT_DESCRIPTION, 1, 19, 0, 0)

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def read(self) -> list[bytes]:
            return [self.event]

        def interrupt(self) -> None:
            pass

        def close(self) -> None:
            pass

    monkeypatch.setattr(resumption, "BinlogConnection", Dump)
    monkeypatch.setattr(resumption, "end_sessions", lambda _, ids: ended.extend(ids))
    options = ConnectionOptions()
    assert resumption._created_at(options, "b.000001", SERVER) == 1000
    monkeypatch.setattr(Dump, "event", b"broken")
    with pytest.raises(FeedFailure, match="cannot be read"):
        resumption._created_at(options, "b.000001", SERVER)
    assert ended == [77, 77]

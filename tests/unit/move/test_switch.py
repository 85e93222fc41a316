"""What a try of a switch leaves for the next one."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.cutover.plan import SwapGate, TryFailed
from spirit_py.errors import AnotherServer, ServerFault
from spirit_py.events.event import untold
from spirit_py.migration.swap.same_tables import MOVED
from spirit_py.move import checks
from spirit_py.move.renames import _seen
from spirit_py.move.switch import Switch
from spirit_py.mysql.tables import new_table
from spirit_py.pace import uncounted
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import GuardMode


def test_what_holds_a_switch_back_takes_nothing_of_the_time_for_its_locks():
    """Between two calls, that is; nor does a blocker of before count as one of so long."""
    run: Any = SimpleNamespace(
        config=MigrationConfig(connection=ConnectionOptions(), database="shop", table="t"),
        stop=StopSwitch(),
        show=str,
        tell=untold,
        held_up=uncounted,
        task="",
    )
    nothing: Any = None
    gate = SwapGate()
    switch = Switch(run, [], MOVED, gate, check=nothing, behind=nothing)
    running: list[bool] = []
    monitor: Any = switch._tries
    monitor.run = lambda _attempt: running.append(switch._tried._began is not None)
    assert switch._turns.clock is switch._tried
    assert switch._origin(run).front.clock is switch._tried
    switch.run()
    assert (running, switch._tried._began) == ([True], None)


def test_a_request_in_vain_counts_with_what_it_waited():
    """R23: the pause after it is as long as after a swap's, and the event says it."""

    def acquire() -> None:
        lock.waited_ms = 2500.0
        raise ServerFault(1205, "Lock wait timeout exceeded", where="cutover session")

    lock = SimpleNamespace(waited_ms=0.0, acquire=acquire)
    switch: Any = object.__new__(Switch)
    switch._policy = SimpleNamespace(wait=2.5)
    switch._run = SimpleNamespace(show=str, stop=SimpleNamespace(check=lambda: None))
    switch._tries = SimpleNamespace(number=1, waited_ms=0.0)
    origin: Any = SimpleNamespace(front=SimpleNamespace(described=lambda: "session 7"))
    watch: Any = SimpleNamespace(blockers=["session 7"], verdict="")
    side: Any = SimpleNamespace(lock=lock, watch=watch)
    sides: Any = SimpleNamespace(here=[side], ours=[(origin, side)])
    with pytest.raises(TryFailed, match="blocked by session 7"):
        switch._lock(sides)
    assert switch._tries.waited_ms == 2500.0


def test_another_server_does_not_show_whether_a_rename_was_made():
    """R14, R15: it ends the look at once, and nothing is taken back for it."""
    asked: list[str] = []

    def opened() -> Any:
        asked.append("look")
        raise AnotherServer("another server answers")

    nothing: Any = None
    assert _seen(opened, "fence", [], nothing, made="old", seconds=60.0) is None
    assert asked == ["look"]


def test_under_the_locks_no_server_is_silent_while_others_work():
    """R23: the looks and the guard of many tables take seconds, and each server lets go after 4."""
    alive: list[str] = []
    seen: dict[str, bool] = {}

    @contextlib.contextmanager
    def kept_alive(_longest: float, **_: object) -> Iterator[None]:
        alive.append("")
        yield
        alive.pop()

    def note(what: str) -> None:
        seen[what] = bool(alive)

    switch: Any = object.__new__(Switch)
    switch._steps, switch._feeds = {}, []
    switch._run = SimpleNamespace(stop=SimpleNamespace(check=lambda: None))
    switch._check = lambda _sides: note("checks")
    guard = SimpleNamespace(apply=lambda _session: note("guard"))
    target = SimpleNamespace(guard=guard, pairs=[])
    side = SimpleNamespace(session=None, lock=SimpleNamespace(verify=lambda: note("locks")))
    sides: Any = SimpleNamespace(ours=[], theirs=[(target, side)], all=[side], verdict="")
    sides.kept_alive = kept_alive
    switch._prove(sides)
    assert seen == {"checks": True, "guard": True, "locks": True}


def test_counters_of_many_tables_are_read_in_one_query_of_each_server():
    """R23: both tables are locked meanwhile."""

    class Server:
        def __init__(self, counters: dict[str, int | None]) -> None:
            self.counters, self.sent = counters, list[str]()

        def query(self, sql: str, given: Any = ()) -> Any:
            self.sent.append("query")
            asked = zip(given[::2], given[1::2], strict=True)
            return [(*one, self.counters[one[1]]) for one in asked if one[1] in self.counters]

    mappings = []
    for name in ("a", "b", "c"):
        both = (SimpleNamespace(schema="shop", name=one) for one in (name, f"_{name}_new"))
        pair = SimpleNamespace(new=SimpleNamespace(auto_increment=True))
        pair.old = pair.new
        source, target = both
        mappings.append(SimpleNamespace(pairs=[pair], source=source, target=target))
    here = Server({"a": 7, "b": None, "c": 9})
    there = Server({"_a_new": None, "_b_new": 4, "_c_new": 9})
    given: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            new_table,
            "set_auto_increment",
            lambda _session, mapping, counter: given.append((mapping.source.name, counter)),
        )
        servers: Any = (here, there)
        tables: Any = mappings
        new_table.align_apart(servers[0], servers[1], tables)
    assert (here.sent, there.sent, given) == (["query"], ["query"], [("a", "7")])


@pytest.mark.parametrize(
    ("tables", "guard", "said"),
    [
        (checks.MOST_GUARDED, "auto", ""),
        (checks.MOST_GUARDED + 1, "auto", "--snapshot-guard off"),
        (checks.MOST_GUARDED + 1, "off", ""),
        (checks.MOST_UNGUARDED + 1, "off", "move fewer in one run"),
    ],
)
def test_so_many_tables_that_no_switch_may_be_made_are_warned_of(
    tables: int, guard: GuardMode, said: str
) -> None:
    """Each is altered twice and renamed while the source is locked, for 5 s at most."""
    found = [one.remedy for one in checks.many_at_once(tables, guard)]
    assert len(found) == bool(said)
    assert all(said in one for one in found)

"""When rows in doubt are compared, hold a swap back, or count for nothing."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.binlog.cascades import DoubtfulKeys
from spirit_py.binlog.codec.rows import RowChange, RowImage
from spirit_py.binlog.events import Doubt
from spirit_py.errors import HeldBack
from spirit_py.migration import doubts
from spirit_py.migration.doubts import Doubts, require_settled
from spirit_py.migration.pair import Pair
from spirit_py.threads import StopSwitch
from tests.kits.row_images import mapping

CODEC: Any = SimpleNamespace(key_sql=lambda key: f"({key[0]})")


class Table:
    """A table with rows in doubt, on a server whose count of deadlocks the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 100) -> None:
        self.count: Any = 1
        self.looks: list[list[str]] = []
        self.differing = 0
        self.keys = DoubtfulKeys(most)
        process: Any = SimpleNamespace(
            step=lambda _name, work, *, stop: work(None),
            show=lambda _: None,
            tell=lambda *_, **__: None,
            config=SimpleNamespace(connection=None, target=None),
            session=lambda _: contextlib.nullcontext(),
        )
        feed: Any = SimpleNamespace(catch_up=lambda _: None)
        self.doubts = Doubts(
            job=process, mapping=mapping(), feed=feed, stop=StopSwitch(), keys=self.keys
        )
        monkeypatch.setattr(doubts, "count_deadlocks", lambda _: self.count)
        monkeypatch.setattr(doubts, "rows_that_differ", self._look)

    def _look(
        self, _connection: Any, _mapping: Any, keys: list[str], *, between: Any, target: Any = None
    ) -> list[Any]:
        between()
        self.looks.append(keys)
        return [SimpleNamespace(key=key) for key in keys[: self.differing]]

    def cascade(self, key: int) -> None:
        """Let a cascade change a row."""
        image = RowImage(CODEC, (key,), b"")
        self.keys.receive([RowChange("delete", image, None)], Doubt.CASCADED)
        self.keys.transaction_ended(cascaded=True)

    def compare(self, *, whole: bool = True) -> None:
        """Compare the table."""
        self.doubts.compared(self.doubts.begin_comparison(whole=whole), whole=whole)

    def is_held(self) -> bool:
        """Whether the swap is held back under the lock."""
        session: Any = None
        try:
            require_settled([self.doubts], session)
        except HeldBack:
            return True
        return False


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table that was compared when the count was 1."""
    made = Table(monkeypatch)
    made.compare()
    return made


def test_without_a_deadlock_since_the_comparison_no_doubt_counts(table: Table) -> None:
    """What came before the comparison is settled by it, what came since by the count."""
    table.cascade(1)
    table.doubts.settle()
    assert not table.looks
    assert not table.is_held()


def test_rows_are_read_when_the_count_has_changed(table: Table) -> None:
    """Equal rows are in no doubt any more; then the count is not even read under the lock."""
    table.cascade(1)
    table.count = 2
    table.doubts.settle()
    assert table.looks == [["(1)"]]
    table.count = RuntimeError
    assert not table.is_held()


def test_a_count_from_before_the_lock_is_not_trusted(table: Table) -> None:
    """A statement may have had its deadlock before the look, and commit after it."""
    table.count = 2
    table.cascade(1)
    table.doubts.settle()
    table.cascade(2)
    assert table.is_held()
    table.doubts.settle()
    assert table.looks == [["(1)"], ["(2)"]]
    # From here on the count is that of the lock: nobody was between deadlock and commit.
    table.cascade(3)
    assert not table.is_held()


def test_an_unreadable_count_never_settles_anything(table: Table) -> None:
    """The account lacks PROCESS, or the counter is off."""
    table.count = None
    table.compare()
    table.cascade(1)
    assert table.is_held()
    table.doubts.settle()
    assert table.looks == [["(1)"]]
    assert not table.is_held()


def test_what_a_resumed_comparison_has_not_read_stays_in_doubt(table: Table) -> None:
    """It began above what an earlier run had compared."""
    table.cascade(1)
    table.doubts.begin_comparison(whole=False)
    assert table.doubts.since_comparison
    table.doubts.begin_comparison(whole=True)
    assert not table.doubts.since_comparison


def test_a_comparison_that_began_later_counts_only_from_its_own_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part of a table settles nothing, whatever the count is."""
    table = Table(monkeypatch)
    table.cascade(1)
    table.compare(whole=False)
    assert table.is_held()


@pytest.mark.parametrize("why", ["differs", "too many"])
def test_the_whole_table_is_compared_when_rows_differ_or_are_not_known(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Until it was compared no key counts as settled."""
    table = Table(monkeypatch, most=1)
    table.compare()
    table.differing = 1
    table.count = 2
    for key in range(1, 3 if why == "too many" else 2):
        table.cascade(key)
    table.doubts.settle()
    assert bool(table.looks) == (why == "differs")
    assert table.doubts.must_compare
    assert table.is_held()
    table.compare()
    assert not table.doubts.must_compare
    assert not table.is_held()


def test_doubts_from_times_without_a_deadlock_are_forgotten(table: Table) -> None:
    """So the bound of their number, and a later run, hardly ever meet any."""
    table.cascade(1)
    table.doubts.relieve()
    assert not table.keys.since(0)
    table.cascade(2)
    table.count = 2
    table.doubts.relieve()
    assert table.keys.literals() == ["(2)"]
    assert table.is_held()
    table.cascade(3)
    table.doubts.relieve()
    assert table.keys.literals() == ["(2)"], "since the lock of the swap there was no deadlock"


@pytest.mark.parametrize("optional", [False, True])
def test_while_a_comparison_runs_it_is_the_base_unless_it_may_be_given_up(
    table: Table, optional: bool
) -> None:
    """What had its deadlock before it, and is received after its beginning, it compares."""
    table.cascade(1)
    table.count = 2
    table.doubts.begin_comparison(whole=True, optional=optional)
    table.cascade(2)
    assert table.doubts.since_comparison
    table.doubts.relieve()
    assert table.keys.literals() == (["(1)", "(2)"] if optional else ["(1)"])
    assert table.doubts.since_comparison is optional


def test_a_comparison_that_began_above_what_an_earlier_run_compared_is_no_base(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R17: a statement with a deadlock may have changed a row that it does not read."""
    table = Table(monkeypatch)
    table.doubts.begin_comparison(whole=False)
    table.cascade(1)
    table.doubts.relieve()
    assert table.keys.since(0)


def test_keys_that_were_not_kept_count_no_more_without_a_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table need not be compared as a whole for them."""
    table = Table(monkeypatch, most=1)
    table.compare()
    table.cascade(1)
    table.cascade(2)
    assert table.keys.literals() is None
    table.doubts.relieve()
    assert table.keys.literals() == []


def test_what_comes_while_rows_are_read_stays_in_doubt(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be applied behind the snapshot in which they are equal."""
    table.cascade(1)
    table.count = 2

    def reading(*_: Any, **__: Any) -> list[Any]:
        table.cascade(2)
        return []

    monkeypatch.setattr(doubts, "rows_that_differ", reading)
    table.doubts.settle()
    assert table.keys.literals() == ["(2)"]


def test_what_comes_while_the_count_is_read_stays_in_doubt(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deadlock may be one that the count did not have yet."""
    table.cascade(1)

    def counting(_: Any) -> int:
        table.cascade(2)
        return 1

    monkeypatch.setattr(doubts, "count_deadlocks", counting)
    table.doubts.relieve()
    assert table.keys.literals() == ["(2)"]


@pytest.mark.parametrize("stop", [None, StopSwitch()])
def test_a_comparison_with_a_switch_of_its_own_may_be_given_up(stop: StopSwitch | None) -> None:
    """So that of a deferred swap, which is made when the sentinel is dropped meanwhile."""

    def begin(*, whole: bool, optional: bool) -> None:
        raise LookupError(whole, optional)

    pair: Any = SimpleNamespace(
        tables=SimpleNamespace(look=lambda: None, taken_over=0),
        feed=SimpleNamespace(lapses=0),
        _tell_begun=lambda _: None,
        _compared_before=lambda: None,
        job=SimpleNamespace(config=SimpleNamespace(checksum="snapshot")),
        mapping=mapping(),
        doubts=SimpleNamespace(begin_comparison=begin),
    )
    with pytest.raises(LookupError) as called:
        Pair.check(pair, stop)
    assert called.value.args == (True, stop is not None)

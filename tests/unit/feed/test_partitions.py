"""Partitions of the apply by key: who owns a key, what waits for what, what is safe."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spirit_py.binlog.events import Place
from spirit_py.chunk.watermark import WatermarkTracker
from spirit_py.feed.buffer import ChangeBuffer, Filters
from spirit_py.feed.ledger import Epoch, Ledger
from spirit_py.feed.partitions import MERGE_ROWS, SPLIT_ROWS, Partition, Partitions
from tests.kits.draw import seed_of
from tests.kits.memory_stream import CountFrontier
from tests.kits.row_images import Image

SEED = seed_of("SPIRIT_PY_SEED")
KEYS = 60


def buffer(*, divisible: bool = True, comparable: bool = True) -> ChangeBuffer:
    """Build a buffer whose copy has ended."""
    filters = Filters(tracker=WatermarkTracker((False,)), may_drop=False, by_range=True)
    filters.active = False
    return ChangeBuffer(comparable=comparable, filters=filters, divisible=divisible)


def add(made: ChangeBuffer, *keys: int, text: str = "") -> None:
    """Let changes of keys wait."""
    for key in keys:
        image: Any = Image((key,), text=text)
        made.add_all([(image, False, False)], Epoch(CountFrontier()))


def keys_of(changes: Any) -> list[int]:
    """Return the keys of changes."""
    return [change.image.key[0] for change in changes]


class Model:
    """A table that a stream of changes is applied to, as a database would see it.

    Version ``n`` of a key is what the ``n``-th transaction wrote.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffer = buffer()
        self.ledger = Ledger(CountFrontier())
        self.written: dict[int, list[int]] = {}
        self.table: dict[int, int] = {}
        self.transactions = 0
        self.running: list[Partition] = []

    def commit(self) -> None:
        """Receive a transaction, which changes some keys."""
        self.transactions += 1
        self.ledger.began()
        hot = self.random.random() < 0.5
        for key in self.random.sample(
            range(KEYS // 10 if hot else KEYS), self.random.randint(1, 4)
        ):
            image: Any = Image((key,), text=str(self.transactions))
            self.buffer.add_all([(image, False, False)], self.ledger.current)
            self.written.setdefault(key, []).append(self.transactions)
        self.ledger.committed(Place("m", self.transactions))

    def begin(self) -> None:
        """Let a worker take a batch."""
        partitions = self.buffer.partitions
        partitions.ask(self.transactions, insist=self.random.random() < 0.5)
        ready = list(partitions.ready())
        if ready:
            chosen = self.random.choice(ready)
            if self.buffer.take(chosen, self.random.randint(1, 5), 1 << 30):
                self.running.append(chosen)

    def end(self) -> None:
        """Let a batch succeed, or fail after a part of it was written."""
        if not self.running:
            return
        chosen = self.running.pop(self.random.randrange(len(self.running)))
        failed = self.random.random() < 0.3
        for change in chosen.taken:
            if not failed or self.random.random() < 0.5:
                key, version = change.image.key[0], int(change.image.text)  # type: ignore[attr-defined]
                assert self.table.get(key, 0) <= version, "an older image came later"
                self.table[key] = version
        (self.buffer.give_back if failed else self.buffer.applied)(chosen)

    def divide(self) -> None:
        """Split or merge somewhere, whatever is being applied."""
        partitions = self.buffer.partitions
        chosen = self.random.choice(partitions.live)
        place = partitions.live.index(chosen)
        if self.random.random() < 0.5:
            key = (self.random.randrange(KEYS),)
            inside = (chosen.low is None or key > chosen.low) and (
                place + 1 == len(partitions.live) or key < (partitions.live[place + 1].low or key)
            )
            if inside:
                partitions.split_at(chosen, key)
            else:
                partitions.split(chosen)
        elif place + 1 < len(partitions.live):
            partitions.merge(chosen, partitions.live[place + 1])

    def check(self) -> None:
        """Hold every promise against what was received."""
        partitions = self.buffer.partitions
        for each in partitions.live:
            for change in each.changes():
                assert partitions.route(change.image.key) is each, "a key is where it is looked for"
        lows = [each.low for each in partitions.live[1:]]
        assert partitions.live[0].low is None
        assert lows == sorted(set(lows))  # type: ignore[type-var]
        flying = [key for each in self.running for key in keys_of(each.taken)]
        assert len(flying) == len(set(flying)), "two workers write one key"
        self.ledger.settle()
        safe = int(self.ledger.safe_text().partition(";")[2])
        for key, versions in self.written.items():
            needed = max((v for v in versions if v <= safe), default=0)
            replayed = any(v > safe for v in versions)
            assert replayed or self.table.get(key, 0) >= needed, "a resumed run would miss it"

    def drain(self) -> None:
        """Apply all that is left."""
        for _ in range(100 * KEYS):
            self.begin()
            self.end()
            self.check()
            if not self.buffer.pending:
                return
        raise AssertionError("what is pending is never applied")


@pytest.mark.parametrize("run", range(40))
def test_keys_stay_in_order_and_the_position_safe(run: int) -> None:
    """Whatever is split, merged, applied or given back, in any order: nothing is lost (R7)."""
    seed = SEED + run
    print(f"SPIRIT_PY_SEED={seed}")  # noqa: T201  to replay a failure
    model = Model(seed)
    steps = (model.commit, model.commit, model.begin, model.end, model.divide)
    for _ in range(300):
        model.random.choice(steps)()
        model.check()
    model.drain()
    assert model.table == {key: versions[-1] for key, versions in model.written.items()}
    assert model.buffer.bytes == model.buffer.pending == 0
    model.ledger.settle()
    assert model.ledger.safe_text() == f"memory;{model.transactions}"


def test_a_child_begins_only_after_its_parents() -> None:
    """What the parent applies may be an older change of the child's key."""
    made = buffer()
    partitions = made.partitions
    add(made, 1, 9, text="old")
    partitions.ask(1, insist=True)
    parent = partitions.live[0]
    made.take(parent, 100, 1 << 30)
    add(made, 1, 9, text="new")
    partitions.split_at(parent, (5,))
    partitions.ask(2, insist=True)
    assert list(partitions.ready()) == []
    assert not partitions.done(1)
    with pytest.raises(ValueError, match="being applied"):
        made.take(partitions.live[1], 100, 1 << 30)
    made.applied(parent)
    assert [keys_of(each.changes()) for each in partitions.ready()] == [[1], [9]]


def test_a_child_does_not_wait_for_keys_that_are_not_its_own() -> None:
    """What is split off beside a slow batch can be applied at once."""
    made = buffer()
    partitions = made.partitions
    add(made, *range(3))
    partitions.ask(1, insist=True)
    slow = partitions.live[0]
    made.take(slow, 100, 1 << 30)
    add(made, *range(10))
    partitions.split_at(slow, (5,))
    left, right = partitions.live
    assert left.parents == {slow}
    assert not right.parents
    partitions.split_at(left, (3,))
    assert [len(each.parents) for each in partitions.live] == [1, 0, 0]
    partitions.ask(2, insist=True)
    assert list(partitions.ready()) == partitions.live[1:]
    made.applied(slow)
    assert list(partitions.ready()) == partitions.live


def test_a_merged_child_waits_for_both_parents() -> None:
    """Also for the parents of parents that never began."""
    made = buffer()
    partitions = made.partitions
    add(made, *range(10))
    partitions.ask(1, insist=True)
    root = partitions.live[0]
    partitions.split_at(root, (5,))
    left, right = partitions.live
    made.take(left, 2, 1 << 30)
    made.take(right, 2, 1 << 30)
    partitions.split_at(right, (7,))
    partitions.merge(left, partitions.live[1])
    child = partitions.live[0]
    assert child.parents == {left, right}
    made.applied(right)
    assert list(partitions.ready()) == [partitions.live[1]]
    made.applied(left)
    assert list(partitions.ready()) == partitions.live


def test_what_failed_goes_to_the_children() -> None:
    """A batch of a partition that was divided meanwhile waits again where its keys are now."""
    made = buffer()
    partitions = made.partitions
    add(made, 1, 9, text="old")
    parent = partitions.live[0]
    made.take(parent, 100, 1 << 30)
    add(made, 9, text="new")
    partitions.split_at(parent, (5,))
    made.give_back(parent)
    waiting = [[(k.image.key[0], k.image.text) for k in p.changes()] for p in partitions.live]  # type: ignore[attr-defined]
    assert waiting == [[(1, "old")], [(9, "new")]]
    assert made.pending == 2
    assert made.counters.deduplicated == 1


def test_a_slow_batch_holds_up_its_partition_only() -> None:
    """The others' batches are taken and settled while it is being applied."""
    made = buffer()
    partitions = made.partitions
    add(made, *range(10))
    partitions.split_at(partitions.live[0], (5,))
    slow, other = partitions.live
    partitions.ask(1, insist=True)
    made.take(slow, 100, 1 << 30)
    for round_number in range(2, 5):
        made.take(other, 100, 1 << 30)
        made.applied(other)
        add(made, 1, 7)
        partitions.ask(round_number, insist=False)
        assert list(partitions.ready()) == [other]
    assert not partitions.done(1), "the slow partition's changes were asked for"
    made.applied(slow)
    assert partitions.done(1)


def test_a_hot_partition_is_split_and_idle_ones_are_merged() -> None:
    """Into about equal parts, several for each worker; when all is applied one is enough."""
    made = buffer()
    partitions = made.partitions
    add(made, *range(SPLIT_ROWS))
    partitions.balance(2)
    assert len(partitions.live) == 1, "not worth it"
    add(made, *range(SPLIT_ROWS, 20 * SPLIT_ROWS))
    partitions.balance(2)
    sizes = [len(each.waiting) for each in partitions.live]
    assert len(sizes) >= 8
    assert max(sizes) < 3 * min(sizes)
    assert sum(sizes) == 20 * SPLIT_ROWS
    partitions.ask(1, insist=True)
    while ready := list(partitions.ready()):
        made.take(ready[0], 1000, 1 << 30)
        made.applied(ready[0])
    assert partitions.done(1)
    add(made, *range(MERGE_ROWS // 2))
    partitions.balance(2)
    assert len(partitions.live) == 1
    assert partitions.splits == partitions.merges == len(sizes) - 1


def test_a_key_that_is_alone_cannot_be_split() -> None:
    """One row is one partition's, however hot it is."""
    made = buffer()
    add(made, 5)
    assert not made.partitions.split(made.partitions.live[0])
    assert len(made.partitions.live) == 1


@pytest.mark.parametrize("comparable", [True, False])
def test_what_is_not_divisible_stays_whole(comparable: bool) -> None:
    """A queue, and a table in which one row's change may touch another row."""
    made = buffer(divisible=False, comparable=comparable)
    add(made, *range(3 * SPLIT_ROWS))
    made.partitions.balance(8)
    assert len(made.partitions.live) == 1
    if comparable:
        with pytest.raises(ValueError, match="whole"):
            made.partitions.split(made.partitions.live[0])


def test_a_queue_is_never_divisible() -> None:
    """Nobody but the server could say which partition a key is in."""
    with pytest.raises(ValueError, match="one partition"):
        Partitions(ordered=True, divisible=True)


def test_a_round_covers_what_waited_at_the_call() -> None:
    """What comes later waits for the next one, so that a hot row is written once."""
    made = buffer()
    partitions = made.partitions
    add(made, 1, 2, 3)
    partitions.ask(1, insist=True)
    add(made, 4)
    only = partitions.live[0]
    made.take(only, 2, 1 << 30)
    made.applied(only)
    assert not partitions.done(1)
    assert keys_of(made.take(only, 1, 1 << 30)) == [3]
    made.applied(only)
    assert partitions.done(1)
    assert not only.ready
    assert keys_of(only.changes()) == [4]


def test_who_does_not_insist_adds_nothing_to_a_round() -> None:
    """Else a flush that somebody waits for would never end while changes keep coming."""
    made = buffer()
    partitions = made.partitions
    add(made, 1, 2, 3)
    partitions.ask(1, insist=True)
    only = partitions.live[0]
    made.take(only, 1, 1 << 30)
    made.applied(only)
    add(made, 4, 5)
    partitions.ask(2, insist=False)
    assert (only.quota, only.asked) == (2, 1)
    partitions.ask(3, insist=True)
    assert (only.quota, only.asked) == (4, 3)


def test_what_is_merged_when_all_is_done_is_done() -> None:
    """Though its parents were asked in different rounds."""
    made = buffer()
    partitions = made.partitions
    add(made, 1, 9)
    partitions.split_at(partitions.live[0], (5,))
    left, right = partitions.live
    partitions.ask(1, insist=True)
    made.take(left, 1, 1 << 30)
    made.applied(left)
    partitions.ask(2, insist=False)
    made.take(right, 1, 1 << 30)
    made.applied(right)
    assert (left.finished, right.finished) == (2, 1)
    partitions.merge(left, right)
    assert partitions.done(2)


def test_a_round_given_up_is_done() -> None:
    """Nobody waits for a batch that failed."""
    made = buffer()
    add(made, *range(10))
    partitions = made.partitions
    partitions.ask(1, insist=True)
    only = partitions.live[0]
    made.take(only, 2, 1 << 30)
    partitions.give_up()
    assert not partitions.done(1), "it still writes"
    made.give_back(only)
    assert partitions.done(1)
    assert partitions.waiting == 10


def test_a_change_behind_a_delete_is_of_another_row() -> None:
    """So is a later one, also of a batch that was given back: the delete may not be made."""
    made = buffer()
    image: Any = Image((1,))
    epoch = Epoch(CountFrontier())
    whole = made.partitions.live[0]

    def anew() -> list[bool]:
        return [change.anew for change in whole.waiting.values()]  # type: ignore[union-attr]

    made.add_all([(image, False, False)], epoch)
    assert anew() == [False]
    made.add_all([(image, True, False), (image, False, True), (image, False, False)], epoch)
    assert anew() == [True]
    made.partitions.ask(1, insist=True)
    made.take(whole, 10, 1 << 30)
    made.add_all([(image, False, False)], epoch)
    made.give_back(whole)
    assert anew() == [True]


@pytest.mark.parametrize("given_back", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_a_row_anew_is_pending_with_the_delete_before_it(given_back: bool, first: int) -> None:
    """R7: from behind the delete alone nothing says that it is another; an XA row is earlier."""
    made = buffer()
    image: Any = Image((1,))
    epochs = [Epoch(CountFrontier(), number=number) for number in range(3)]
    whole = made.partitions.live[0]
    made.partitions.ask(1, insist=True)
    made.add_all([(image, True, False)], epochs[first])
    if given_back:
        made.take(whole, 10, 1 << 30)
    made.add_all([(image, False, True)], epochs[1 - first])
    if given_back:
        made.give_back(whole)
    made.add_all([(image, False, False)], epochs[2])
    assert [one.pending for one in epochs] == [1, 0, 0]
    made.take(whole, 10, 1 << 30)
    made.applied(whole)
    assert [one.pending for one in epochs] == [0, 0, 0]

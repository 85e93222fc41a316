"""How a batch of changes is divided among threads, and what stays in order."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.classes import replace
from spirit_py.errors import FeedFailure
from spirit_py.feed.apply import PART_BYTES, Appliers, BatchApplier
from spirit_py.feed.ledger import Epoch
from spirit_py.feed.partitions import Pending
from tests.kits.definitions import column
from tests.kits.draw import seed_of
from tests.kits.memory_stream import MemoryImage
from tests.kits.row_images import mapping
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEED = seed_of("SPIRIT_PY_SEED")
EPOCH: Any = Epoch(None)  # type: ignore[arg-type]


class Recorder:
    """An applier that notes its calls, and how many ran at the same time."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...], Any]] = []
        self.threads: set[str] = set()
        self.together: threading.Barrier | None = None
        self.fails: str = ""
        self._lock = threading.Lock()

    def _note(self, kind: str, texts: Sequence[str], session: Any) -> None:
        if self.together is not None:
            self.together.wait(60)
        with self._lock:
            self.calls.append((kind, tuple(texts), session))
            self.threads.add(threading.current_thread().name)
        if self.fails and self.fails in texts:
            raise FeedFailure(f"cannot write {self.fails}")

    def upsert_rows(self, _: Any, rows: Sequence[Any], session: Any = None) -> int:
        """Note rows."""
        self._note("upsert", [row.sql for row in rows], session)
        return len(rows)

    def write_in_order(self, _: Any, changes: Sequence[Any], session: Any = None) -> None:
        """Note keys."""
        self._note("in order", [change.key for change in changes], session)

    def delete_keys(self, _: Any, keys: Sequence[str], session: Any = None) -> int:
        """Note keys."""
        self._note("delete", keys, session)
        return len(keys)


@pytest.fixture
def recorder() -> Recorder:
    """Return an applier that writes nothing."""
    return Recorder()


@pytest.fixture
def batches(recorder: Recorder) -> Iterator[BatchApplier]:
    """Return a batch applier of two threads and ten rows a part."""
    appliers = Appliers(2, time.monotonic)
    made = BatchApplier(recorder, appliers, batch_rows=10)  # type: ignore[arg-type]
    yield made
    made.close()


def change(key: int, *, deleted: bool = False, size: int = 100) -> Pending:
    """Build a change."""
    image: Any = MemoryImage((key,), f"({key})")
    return Pending(image, deleted, EPOCH, 0, size, fresh=False, key=image.key)


def test_a_key_is_in_exactly_one_part(batches: BatchApplier, recorder: Recorder) -> None:
    """Any batch of distinct keys is written whole, in parts of at most so many rows and bytes."""
    made = random.Random(SEED)
    keys = made.sample(range(10_000), 300)
    sizes = {key: made.choice([100, 1000, PART_BYTES // 3, 2 * PART_BYTES]) for key in keys}
    batch = [change(k, deleted=made.random() < 0.3, size=sizes[k]) for k in keys]
    batches.apply(mapping(), batch, in_order=False, session=None)
    written = [text for _, texts, _ in recorder.calls for text in texts]
    assert sorted(written) == sorted(f"({key})" for key in keys), f"SPIRIT_PY_SEED={SEED}"
    for _, texts, _ in recorder.calls:
        part = [int(text.strip("()")) for text in texts]
        assert part == sorted(part)
        assert len(part) <= 10
        assert len(part) == 1 or sum(sizes[key] for key in part) <= PART_BYTES
    deleted = {f"({c.image.key[0]})" for c in batch if c.deleted}
    assert {t for kind, texts, _ in recorder.calls if kind == "delete" for t in texts} == deleted


def test_the_row_that_had_the_key_goes_first_where_columns_keep_values(
    batches: BatchApplier, recorder: Recorder
) -> None:
    """No other table pays for it: there a write replaces whatever the row was."""
    plain = mapping()
    keeps = replace(plain, kept=(column("gone", nullable=True),))
    batch = [change(1), change(2)._replace(anew=True), change(3, deleted=True)]
    for of in (plain, keeps):
        batches.apply(of, batch, in_order=False, session=None)
    assert [(kind, texts) for kind, texts, _ in recorder.calls] == [
        ("delete", ("(3)",)),
        ("upsert", ("(1)", "(2)")),
        ("delete", ("(2)", "(3)")),
        ("upsert", ("(1)", "(2)")),
    ]


def test_parts_run_side_by_side(batches: BatchApplier, recorder: Recorder) -> None:
    """Two parts are written at the same time, or this would wait for ever."""
    recorder.together = threading.Barrier(2)
    batches.apply(mapping(), [change(n) for n in range(20)], in_order=False, session=None)
    assert len(recorder.threads) == 2


def test_no_part_is_written_behind_a_batch_that_cannot_be_spread(
    batches: BatchApplier, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changes are given back, and newer ones of the same keys may be written at once."""
    begun, go_on, submit = threading.Event(), threading.Event(), ThreadPoolExecutor.submit
    write = recorder.upsert_rows

    def slow(*args: Any) -> int:
        begun.set()
        assert go_on.wait(2 * DEADLINE)
        return write(*args)

    def first_alone(pool: ThreadPoolExecutor, work: Any) -> Any:
        if not begun.is_set():
            future = submit(pool, work)
            assert begun.wait(DEADLINE)
            return future
        threading.Thread(target=go_on_behind_it).start()
        raise RuntimeError("can't start new thread")

    def go_on_behind_it() -> None:
        turn: Any = batches._appliers.turn
        try:
            until(lambda: bool(turn._waiters), "the batch waits")
        finally:
            go_on.set()

    monkeypatch.setattr(recorder, "upsert_rows", slow)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", first_alone)
    with pytest.raises(RuntimeError):
        batches.apply(mapping(), [change(n) for n in range(40)], in_order=False, session=None)
    assert [len(texts) for _, texts, _ in recorder.calls] == [10]
    monkeypatch.undo()
    batches.close()
    assert len(recorder.calls) == 1


def test_parts_go_on_when_batches_of_other_tables_have_ended(recorder: Recorder) -> None:
    """As many batches as may be applied at a time were under way when these parts came."""
    appliers = Appliers(2, time.monotonic)
    under_way = [appliers.begin(), appliers.begin()]
    applier = BatchApplier(recorder, appliers, batch_rows=10)  # type: ignore[arg-type]
    batch = [change(key) for key in range(40)]
    applying = threading.Thread(
        target=lambda: applier.apply(mapping(), batch, in_order=False, session=None), daemon=True
    )
    applying.start()
    until(lambda: bool(appliers.turn._waiters), "a part waits")  # type: ignore[attr-defined]
    assert recorder.calls == []
    for began in under_way:
        appliers.end(0, began, ready=0)
    applying.join(DEADLINE)
    assert not applying.is_alive()
    assert len(recorder.calls) == 4
    applier.close()


def test_the_queue_keeps_its_order(batches: BatchApplier, recorder: Recorder) -> None:
    """Changes of keys that cannot be compared are applied one part after the other."""
    kinds = [False] * 15 + [True] * 3 + [False] * 4
    batch = [change(n % 7, deleted=deleted) for n, deleted in enumerate(kinds)]
    batches.apply(mapping(), batch, in_order=True, session=None)
    assert [(kind, len(texts)) for kind, texts, _ in recorder.calls] == [
        ("in order", 10), ("in order", 10), ("in order", 2),
    ]  # fmt: skip
    assert [t for _, texts, _ in recorder.calls for t in texts] == [f"({n % 7})" for n in range(22)]
    assert recorder.threads == {threading.current_thread().name}


def test_with_a_session_everything_runs_there(batches: BatchApplier, recorder: Recorder) -> None:
    """Under the table lock no other session could write."""
    session: Any = object()
    batches.apply(mapping(), [change(n) for n in range(35)], in_order=False, session=session)
    assert {given for _, _, given in recorder.calls} == {session}
    assert recorder.threads == {threading.current_thread().name}


def test_a_fault_is_raised_when_every_part_has_ended(
    batches: BatchApplier, recorder: Recorder
) -> None:
    """Nothing of a failed batch is still being written when it is given back."""
    recorder.fails = "(5)"
    with pytest.raises(FeedFailure, match=r"cannot write \(5\)"):
        batches.apply(mapping(), [change(n) for n in range(50)], in_order=False, session=None)
    assert len(recorder.calls) == 5

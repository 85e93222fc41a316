"""Keys that are compared by weight: one change for each key, in order, and nobody waits (R6)."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from spirit_py.errors import ChangesNotFlushed, Interrupted, ServerFault
from spirit_py.feed import apply, flusher
from tests.kits.chunks import chunk
from tests.kits.definitions import column
from tests.kits.draw import seed_of
from tests.kits.feed_scene import DEADLINE, Scene, until
from tests.kits.memory_stream import delete, upsert
from tests.kits.row_images import mapping

SEED = seed_of("SPIRIT_PY_SEED")
T = ("s", "t")
TEXT_KEY = mapping(key=column("id", "varchar(20)"))


def test_the_latest_of_equal_texts_is_applied(scene: Scene) -> None:
    """R6: 'a' and 'A' are one key here, so only the last of their images is written."""
    feed, _ = scene.open(table=TEXT_KEY)
    scene.stream.commit(T, upsert("a"), upsert("b"), upsert("A", before="a"), delete("B"))
    feed.block_wait()
    feed.flush()
    assert scene.applier.calls == [("delete", ["(B)"]), ("upsert", ["(A)"])]
    found = feed.statistics()
    assert (found.received, found.applied, found.deduplicated) == (5, 2, 3)
    assert (found.pending, found.buffered_bytes) == (0, 0)


def test_nothing_waits_for_the_weights(scene: Scene) -> None:
    """Changes are received and counted while the question is open; the position waits (R7)."""
    scene.stream.may_weigh.clear()
    feed, _ = scene.open(table=TEXT_KEY)
    start = feed.position()
    scene.stream.commit(T, upsert("a"))
    scene.stream.commit(T, upsert("A"), upsert("b"))
    feed.block_wait()
    until(lambda: bool(scene.stream.weighed))
    assert feed.pending() == 3
    assert not feed.all_changes_flushed()
    assert feed.position() == start
    assert scene.applier.calls == []
    scene.stream.may_weigh.set()
    feed.flush()
    assert feed.all_changes_flushed()
    assert feed.position() == "memory;2"


@pytest.mark.parametrize("has_gtids", [True, False])
def test_a_change_waits_for_the_chunks_that_were_in_flight_when_it_came(
    scene: Scene, has_gtids: bool
) -> None:
    """R4: whenever its key gets its weight; one that came before them need not wait."""
    scene.stream.has_gtids = has_gtids
    feed, subscription = scene.open(table=TEXT_KEY, copying=True)
    scene.stream.may_weigh.clear()
    scene.stream.commit(T, upsert("a"))
    feed.block_wait()
    subscription.dispatch(chunk(0, None, 10))
    scene.stream.commit(T, upsert("b"))
    feed.block_wait()
    scene.stream.may_weigh.set()
    feed.flush()
    assert set(scene.applier.table) == ({"a"} if has_gtids else set())
    assert not feed.all_changes_flushed()
    subscription.committed(chunk(0, None, 10))
    feed.flush()
    assert set(scene.applier.table) == {"a", "b"}


def test_a_flush_covers_what_has_no_weight_yet(scene: Scene) -> None:
    """Everything received before the call is applied, in however many questions."""
    feed, _ = scene.open(table=TEXT_KEY)
    texts = [f"k{n}" for n in range(2 * apply.BATCH_ROWS + 7)]
    scene.stream.commit(T, *map(upsert, texts))
    feed.block_wait()
    feed.flush()
    assert len(scene.applier.table) == len(texts)
    assert max(scene.stream.weighed) <= apply.BATCH_ROWS


def test_each_text_is_asked_for_once_in_a_batch(scene: Scene) -> None:
    """A row that changes often costs one weight."""
    scene.stream.may_weigh.clear()
    feed, _ = scene.open(table=TEXT_KEY)
    scene.stream.commit(T, upsert("x"))
    until(lambda: bool(scene.stream.weighed))
    scene.stream.commit(T, *(upsert("a") for _ in range(50)), upsert("b"))
    feed.block_wait()
    scene.stream.may_weigh.set()
    feed.flush()
    assert scene.stream.weighed == [1, 2]


def test_any_history_leads_to_the_state_of_the_source(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5, R6: whatever the batches, each key ends as its last change says."""
    monkeypatch.setattr("spirit_py.feed.apply.BATCH_ROWS", 7)
    made = random.Random(SEED)
    feed, _ = scene.open(table=TEXT_KEY, batch_rows=5, apply_threads=3)
    rows: dict[str, str] = {}
    for number in range(300):
        changes: list[Any] = []
        for _ in range(made.randint(1, 5)):
            key = made.choice("abcdefgh")
            text = made.choice([key, key.upper()])
            if key in rows and made.random() < 0.4:
                changes.append(delete(rows.pop(key).strip("()").partition(",")[0]))
            else:
                before = rows[key].strip("()").partition(",")[0] if key in rows else None
                rows[key] = f"({text}, {number})"
                changes.append(upsert(text, rows[key], before=before))
        scene.stream.commit(T, *changes)
        if made.random() < 0.1:
            feed.block_wait()
            feed.flush()
    feed.block_wait()
    feed.flush()
    # As the server does: a text replaces the row of an equal one.
    written: dict[str, str] = {}
    for kind, items in scene.applier.calls:
        for item in items:
            key = item.strip("()").partition(",")[0].casefold()
            written.pop(key, None)
            if kind == "upsert":
                written[key] = item
    assert written == rows, f"SPIRIT_PY_SEED={SEED}"


def test_a_question_that_fails_for_good_ends_the_feed(scene: Scene) -> None:
    """The fault is the feed's, and nothing was applied or passed over."""
    scene.stream.unweighable = ServerFault(1064, "no such function", where="test")
    feed, _ = scene.open(table=TEXT_KEY)
    start = feed.position()
    scene.stream.commit(T, upsert("a"))
    until(lambda: scene.stop.requested)
    with pytest.raises(ServerFault, match="no such function"):
        feed.flush()
    assert feed.position() == start
    assert scene.applier.calls == []


def test_a_flush_under_the_lock_does_not_wait_for_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: the application waits behind the lock, so the attempt is given up, nothing lost."""
    monkeypatch.setattr(flusher, "_WEIGHED_WITHIN", 0.05)
    scene.stream.may_weigh.clear()
    feed, _ = scene.open(table=TEXT_KEY)
    scene.stream.commit(T, upsert("a"))
    feed.block_wait()
    session: Any = object()
    with pytest.raises(ChangesNotFlushed, match="which keys are equal"):
        feed.flush_under_table_lock(session)
    assert feed.pending() == 1
    monkeypatch.setattr(flusher, "_WEIGHED_WITHIN", DEADLINE)
    scene.stream.may_weigh.set()
    feed.flush_under_table_lock(session)
    assert feed.all_changes_flushed()


def test_a_stop_ends_a_flush_under_the_lock_without_another_reason(scene: Scene) -> None:
    """Not the server is slow: what is left pending is the caller's to see."""
    scene.stream.may_weigh.clear()
    feed, _ = scene.open(table=TEXT_KEY)
    scene.stream.commit(T, upsert("a"))
    feed.block_wait()
    stopping = threading.Timer(0.1, scene.stop.request, [Interrupted(15)])
    stopping.start()
    session: Any = object()
    feed.flush_under_table_lock(session)
    stopping.join()
    assert not feed.all_changes_flushed()


def test_a_feed_can_be_closed_while_a_question_is_open(scene: Scene) -> None:
    """Closing the stream ends the question, and the thread with it."""
    scene.stream.may_weigh.clear()
    feed, _ = scene.open(table=TEXT_KEY)
    scene.stream.commit(T, upsert("a"))
    until(lambda: bool(scene.stream.weighed))
    closing = threading.Thread(target=feed.close)
    closing.start()
    closing.join(DEADLINE)
    assert not closing.is_alive()


def test_a_changed_collation_of_the_key_keeps_the_queue(scene: Scene) -> None:
    """R6, R21: a finer new key may hold rows of both spellings, so each image counts."""
    from dataclasses import replace

    finer = column("id", "varchar(20)", collation="utf8mb4_bin", pad_space=True)
    target = replace(TEXT_KEY.target, columns=(finer, *TEXT_KEY.target.columns[1:]))
    pair = replace(TEXT_KEY.pairs[0], new=finer)
    table = replace(TEXT_KEY, target=target, pairs=(pair, *TEXT_KEY.pairs[1:]))
    feed, subscription = scene.open(table=table)
    assert subscription.weights is None
    scene.stream.commit(T, upsert("a"), upsert("A", before="a"))
    feed.block_wait()
    feed.flush()
    assert scene.stream.weighed == []

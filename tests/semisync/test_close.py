"""A feed is closed within seconds while commits stall, and leaves nothing behind."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.errors import SpiritError
from tests.fixtures.feed import Scene
from tests.semisync.stall import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.mysql import Database
    from tests.semisync.stall import Stall

pytestmark = pytest.mark.semisync

#: Far below the wait_timeout that the feed is given, after which a proof would end by itself.
SOON = 15.0
OURS = (
    "SELECT processlist_info FROM performance_schema.threads t"
    " JOIN performance_schema.user_variables_by_thread v USING (thread_id)"
    " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = %s"
    " AND processlist_command = 'Query' AND processlist_info LIKE %s"
)


@pytest.fixture
def gtid_scene(source_db: Database) -> Iterator[Scene]:
    """Return a table and a feed on the source with GTIDs."""
    made = Scene(source_db)
    yield made
    made.close()


@pytest.fixture
def file_scene(file_db: Database) -> Iterator[Scene]:
    """Return a table and a feed on the server without GTIDs."""
    made = Scene(file_db)
    yield made
    made.close()


def _inserts(scene: Scene) -> threading.Thread:
    """Insert a row in a thread, because the commit is going to wait."""
    session = scene.db.connect()

    def insert() -> None:
        with session.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1, 'a', 1)")

    thread = threading.Thread(target=insert, name="stalled-insert")
    thread.start()
    return thread


def _runs(stall: Stall, role: str, statement: str) -> Any:
    """Wait until a session of ours executes a statement."""
    what = f"the {role} session's {statement}"
    return until(lambda: stall.admin.run(OURS, role, statement), what)


def _close(scene: Scene) -> float:
    """Close the feed; return the seconds it took."""
    began = time.monotonic()
    scene.close()
    return time.monotonic() - began


def test_a_feed_closes_while_its_proof_waits_in_its_commit(
    file_scene: Scene, stall_file: Stall
) -> None:
    """Without GTIDs: the proof's own commit stalls, nothing else waits for it, close ends it."""
    file_scene.tables()
    feed = file_scene.open(flush_interval=0.05, copying=True, wait_timeout=60.0)
    with stall_file.held():
        writer = _inserts(file_scene)
        _runs(stall_file, "feed-proof", "DROP TABLE IF EXISTS %")
        began = time.monotonic()
        feed.block_wait()
        assert time.monotonic() - began < SOON
        assert feed.pending() == 1
        assert _close(file_scene) < SOON
    writer.join()


def test_a_feed_closes_during_a_wait_for_visibility(gtid_scene: Scene, stall: Stall) -> None:
    """With GTIDs: a thread that waits for visibility is told that the feed was closed."""
    gtid_scene.tables()
    feed = gtid_scene.open(wait_timeout=60.0)
    failures: list[SpiritError] = []

    def pause() -> None:
        try:
            with feed.applies_paused():
                pass
        except SpiritError as error:
            failures.append(error)

    with stall.held():
        writer = _inserts(gtid_scene)
        until(lambda: feed.pending() == 1, "the change")
        waiting = threading.Thread(target=pause, name="pause")
        waiting.start()
        _runs(stall, "feed-proof", "SELECT WAIT_FOR_EXECUTED_GTID_SET%")
        assert _close(gtid_scene) < SOON
        waiting.join(SOON)
        assert not waiting.is_alive()
    writer.join()
    assert len(failures) == 1


def test_a_feed_closes_while_a_batch_waits_in_its_commit(gtid_scene: Scene, stall: Stall) -> None:
    """A batch of the applier whose commit stalls cannot be killed; close does not wait for it."""
    gtid_scene.tables()
    gtid_scene.open(flush_interval=0.05, wait_timeout=60.0)
    with stall.held():
        writer = _inserts(gtid_scene)
        _runs(stall, "apply", "REPLACE INTO %")
        assert _close(gtid_scene) < SOON
    writer.join()

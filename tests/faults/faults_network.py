"""Faults of the network between the program and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.fault import AT_WORK, COPY, DONE, EVERYWHERE, SWAP, UNLOCKED, Fault

if TYPE_CHECKING:
    from tests.faults.scene import Scene
    from tests.kits.point_listener import Hold

_REQUESTS = (b"REPLACE INTO", b"LOCK TABLES", b"UNLOCK TABLES", b"SELECT", b"RELEASE_LOCK", b"DROP")


def cut(scene: Scene, hold: Hold) -> None:
    """Cut every connection; new ones are accepted."""
    scene.host.proxy.cut()


def refuse(scene: Scene, hold: Hold) -> None:
    """Cut every connection and refuse new ones, for a while."""
    scene.host.proxy.stop()
    hold.release()
    scene.last(scene.random.uniform(0.5, 4))
    scene.host.proxy.start()


def black_hole(scene: Scene, hold: Hold) -> None:
    """Let nothing pass for a while; then what was held comes, or the connections are cut."""
    proxy = scene.host.proxy
    proxy.black_hole = True
    hold.release()
    scene.last(scene.random.uniform(1, 6))
    if scene.random.random() < 0.5:
        proxy.cut()
    proxy.black_hole = False


def delay(scene: Scene, hold: Hold) -> None:
    """Hold every packet for a moment, for a while."""
    proxy = scene.host.proxy
    proxy.delay = scene.random.uniform(0.02, 0.1)
    hold.release()
    scene.last(scene.random.uniform(1, 4))
    proxy.delay = 0.0


def lose_rename(scene: Scene, hold: Hold) -> None:
    """Lose the answer to RENAME."""
    scene.host.proxy.lose_reply(b"RENAME TABLE")


def lose_rename_and_more(scene: Scene, hold: Hold) -> None:
    """Lose the answer to RENAME, and make the tables unreachable for a while."""
    proxy = scene.host.proxy
    proxy.lose_reply(b"RENAME TABLE")
    hold.release()
    if scene.until(lambda: proxy.lost.is_set() or scene.process.poll() is not None, 60):
        proxy.stop()
        scene.last(scene.random.choice((1.0, 4.0)))
        proxy.start()


def lose_reply(scene: Scene, hold: Hold) -> None:
    """Lose the answer to the next request of one kind."""
    scene.host.proxy.lose_reply(scene.random.choice(_REQUESTS))


NETWORK_FAULTS = (
    Fault(name="cut", strike=cut, codes=frozenset({0, 1, 2, 3})),
    Fault(name="refuse", strike=refuse, codes=frozenset({0, 1, 2, 3})),
    Fault(name="black-hole", strike=black_hole, codes=frozenset({0, 1, 2, 3})),
    Fault(name="delay", strike=delay, points=UNLOCKED, codes=DONE),
    Fault(name="lose-rename", strike=lose_rename, points=("cutover.lock", *SWAP[1:3]), codes=DONE),
    Fault(
        name="lose-rename-and-look",
        strike=lose_rename_and_more,
        points=("cutover.lock", "cutover.rename"),
        codes=frozenset({0, 1, 3}),
    ),
    Fault(name="lose-reply", strike=lose_reply, points=(*COPY, *AT_WORK), codes=frozenset({0, 1})),
)

__all__ = ["EVERYWHERE", "NETWORK_FAULTS"]

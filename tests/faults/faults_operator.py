"""What operators do to a run with ``spirit-py ctl``: it must cost nothing but time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.faults.fault import CHECK, COPY, DONE, DRAIN, EARLY, END, INDEX, SWAP, Fault
from tests.faults.host import MIGRATOR
from tests.faults.scene import REPOSITORY

if TYPE_CHECKING:
    from tests.faults.scene import Scene
    from tests.kits.point_listener import Hold

_ANSWER_SECONDS = 120.0
#: Requests are read from the creation of the checkpoint table on.
_HEARD = (*EARLY[2:], *COPY, *INDEX, *DRAIN, *CHECK, *SWAP, *END)
#: Why a verb may truly be refused, by where the program was held.
_TOO_LATE = (
    "the tables are swapped",
    "too late",
    "its outcome is not known yet",
    "no process works on",
    "ended before it answered",
    "the process has just ended",
)


def _command(scene: Scene, *words: str) -> list[str]:
    proxy = scene.host.proxy
    return [
        *(sys.executable, "-m", "spirit_py", "ctl", "--host", f"{proxy.host}:{proxy.port}"),
        *("--user", MIGRATOR, "--database", scene.name, "--table", "t", *words),
    ]


def _start(scene: Scene, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _command(scene, *words),
        cwd=REPOSITORY,
        env=scene.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _is_done(scene: Scene, asked: subprocess.Popen[str], words: tuple[str, ...]) -> bool:
    """Wait for the answer; return whether it was done, and not too late."""
    said, complaint = asked.communicate(timeout=_ANSWER_SECONDS)
    if asked.returncode == 0:
        return True
    late = any(text in complaint for text in _TOO_LATE)
    # The tables of requests and of the checkpoint go a moment before the process ends.
    goes = ("takes no requests now", "or has swapped it and ends")
    gone = any(text in complaint for text in goes)
    late = late or (gone and scene.swapped())
    assert late, f"ctl {words} ended with {asked.returncode}: {said}{complaint}"
    return False


def _ask(scene: Scene, *words: str) -> bool:
    return _is_done(scene, _start(scene, *words), words)


def pause_and_resume(scene: Scene, hold: Hold) -> None:
    """Pause the run for a while, twice."""
    for _ in range(2):
        if not _ask(scene, "pause"):
            return
        hold.release()
        scene.last(scene.random.uniform(0.5, 2.0))
        _ask(scene, "resume")


def change_settings(scene: Scene, hold: Hold) -> None:
    """Slow the run down, and let it go again."""
    ratio = str(scene.random.choice((0.1, 0.5, 1.0)))
    if not _ask(scene, "set", "threads=1", f"nice={ratio}", "chunk-time=50ms"):
        return
    hold.release()
    scene.last(scene.random.uniform(0.5, 2.0))
    _ask(scene, "set", "threads=2", "nice=0", "chunk-time=1s")


def postpone_and_cut_over(scene: Scene, hold: Hold) -> None:
    """Postpone the swap for a while."""
    if not _ask(scene, "postpone"):
        return
    hold.release()
    scene.last(scene.random.uniform(1.0, 4.0))
    _ask(scene, "cutover")


def abort(scene: Scene, hold: Hold) -> None:
    """Abort the run; the same command resumes."""
    _abort(scene, hold)


def abort_for_good(scene: Scene, hold: Hold) -> None:
    """Abort the run, and drop what it copied."""
    scene.notes["dropped"] = _abort(scene, hold, "--cleanup")


def _abort(scene: Scene, hold: Hold, *more: str) -> bool:
    asked = _start(scene, "abort", *more)
    log = scene.attempts[-1].log
    scene.until(
        lambda: asked.poll() is not None or "aborted by" in log.read_text(errors="replace"),
        _ANSWER_SECONDS,
    )
    hold.release()
    return _is_done(scene, asked, ("abort", *more))


def nothing_is_left(scene: Scene) -> None:
    """After ``abort --cleanup`` the source is alone, unless the swap came first."""
    if scene.notes.get("dropped") and not scene.swapped():
        assert scene.tables() == scene.base, scene.tables()


_ABORTED = frozenset({0, 143})

OPERATOR_FAULTS = (
    Fault(name="ctl-pause", strike=pause_and_resume, points=_HEARD, codes=DONE),
    Fault(name="ctl-set", strike=change_settings, points=_HEARD, codes=DONE),
    Fault(name="ctl-postpone", strike=postpone_and_cut_over, points=_HEARD, codes=DONE),
    Fault(name="ctl-abort", strike=abort, points=_HEARD, codes=_ABORTED),
    Fault(
        name="ctl-abort-cleanup",
        strike=abort_for_good,
        points=_HEARD,
        codes=_ABORTED,
        between=nothing_is_left,
    ),
)

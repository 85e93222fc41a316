"""Faults of the program's own processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.faults.fault import (
    AT_WORK,
    CHECK,
    COPY,
    DONE,
    DRAIN,
    EARLY,
    EVERYWHERE,
    Fault,
)
from tests.faults.scene import REPOSITORY

if TYPE_CHECKING:
    from tests.faults.scene import Scene
    from tests.kits.point_listener import Hold

_LEAVE_SECONDS = 60.0
_EXECUTOR = ("chunk.executing", "chunk.part", "chunk.executed", "checksum.chunk")


def kill_driver(scene: Scene, _hold: Hold) -> None:
    """End the driver as the kernel would: nothing of it runs any more."""
    scene.send(signal.SIGKILL)
    scene.process.wait()


def kill_after_checkpoint(scene: Scene, hold: Hold) -> None:
    """End the driver and its workers when a checkpoint has noted what stands at the point.

    All at once, as a machine is lost: a worker that lives on for a moment would still copy the
    chunk that it stands before.
    """
    if "quick-checkpoints" in scene.draw.hooks:
        written = scene.listener.count("checkpoint.written")
        enough = written + 2
        scene.until(lambda: scene.listener.count("checkpoint.written") >= enough, 120)
    scene.send(signal.SIGSTOP)
    for process in scene.processes():
        if process != scene.process.pid:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
    kill_driver(scene, hold)


def interrupt(scene: Scene, _hold: Hold) -> None:
    """Send SIGINT."""
    scene.send(signal.SIGINT)


def terminate(scene: Scene, _hold: Hold) -> None:
    """Send SIGTERM."""
    scene.send(signal.SIGTERM)


def interrupt_twice(scene: Scene, _hold: Hold) -> None:
    """Send SIGINT again while the first one is still being dealt with: the point is held."""
    scene.send(signal.SIGINT)
    log = scene.attempts[-1].log
    scene.until(lambda: "stopping and cleaning up" in log.read_text(errors="replace"), 20)
    scene.send(signal.SIGINT)
    scene.until(lambda: scene.process.poll() is not None, _LEAVE_SECONDS)


def hang_up(scene: Scene, _hold: Hold) -> None:
    """Close the terminal: nothing may come of it."""
    scene.send(signal.SIGHUP)


def kill_jvm(scene: Scene, _hold: Hold) -> None:
    """Kill Spark's JVM."""
    jvm = scene.jvm()
    assert jvm is not None, f"there is no JVM among {scene.processes()}"
    os.kill(jvm, signal.SIGKILL)


def kill_worker(scene: Scene, hold: Hold) -> None:
    """Kill the Python worker that stands at the point; Spark runs its task again."""
    os.kill(hold.pid, signal.SIGKILL)


def pause_worker(scene: Scene, hold: Hold) -> None:
    """Stop a Python worker for a while."""
    os.kill(hold.pid, signal.SIGSTOP)
    hold.release()
    scene.last(scene.random.uniform(1, 4))
    with contextlib.suppress(OSError):
        os.kill(hold.pid, signal.SIGCONT)


def pause_driver(scene: Scene, hold: Hold) -> None:
    """Stop the driver for a while, sometimes for longer than it may hold a table lock."""
    os.kill(scene.process.pid, signal.SIGSTOP)
    hold.release()
    scene.last(scene.random.choice((1.0, 3.0, 9.0)))
    with contextlib.suppress(OSError):
        os.kill(scene.process.pid, signal.SIGCONT)


def pause_everything(scene: Scene, hold: Hold) -> None:
    """Stop driver, JVM and workers together, as a suspended machine does."""
    stopped = list(scene.processes())
    for number in stopped:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGSTOP)
    hold.release()
    scene.last(scene.random.choice((1.0, 3.0, 9.0)))
    for number in stopped:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGCONT)


def second_run(scene: Scene, _hold: Hold) -> None:
    """Start the same command beside the one that runs: it must refuse and disturb nothing."""
    done = subprocess.run(
        scene.command(),
        cwd=REPOSITORY,
        env=scene.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LEAVE_SECONDS,
        check=False,
    )
    assert done.returncode == 2, f"a second run ended with {done.returncode}: {done.stderr}"
    assert "another" in done.stderr, done.stderr


def nothing(_scene: Scene, _hold: Hold) -> None:
    """Do nothing: the trouble is elsewhere."""


PROCESS_FAULTS = (
    Fault(name="kill-driver", strike=kill_driver, codes=frozenset({-9})),
    Fault(
        name="kill-driver-at-copy",
        strike=kill_after_checkpoint,
        points=(*COPY, *DRAIN),
        codes=frozenset({-9}),
    ),
    Fault(name="sigint", strike=interrupt, codes=frozenset({0, 130})),
    Fault(name="sigterm", strike=terminate, codes=frozenset({0, 143})),
    Fault(name="sigint-twice", strike=interrupt_twice, codes=frozenset({0, 130, 3})),
    Fault(name="hang-up", strike=hang_up, codes=DONE),
    Fault(
        name="kill-jvm",
        strike=kill_jvm,
        points=(*COPY, *CHECK),
        codes=frozenset({0, 1}),
        hook="spark-first",
    ),
    Fault(
        name="kill-worker",
        strike=kill_worker,
        points=_EXECUTOR,
        codes=DONE,
        hook="spark-first",
    ),
    Fault(
        name="pause-worker",
        strike=pause_worker,
        points=_EXECUTOR,
        codes=DONE,
        hook="spark-first",
    ),
    Fault(name="pause-driver", strike=pause_driver),
    Fault(name="pause-everything", strike=pause_everything),
    Fault(
        name="second-run",
        strike=second_run,
        points=(*EARLY[1:], *AT_WORK),
        codes=DONE,
    ),
    Fault(name="clock-jump", strike=nothing, hook="clock", points=EVERYWHERE, codes=DONE),
)

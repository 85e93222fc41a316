"""One seeded run: a table, an application, a migration, a fault, a resume, the checks."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.draw import draw
from tests.faults.judge import Violation, after_attempt, at_the_end
from tests.faults.scene import Scene
from tests.kits.point_listener import PointListener

if TYPE_CHECKING:
    from tests.faults.host import Host

MOST_ATTEMPTS = 4
#: Seconds that the application goes on to write on the table after the end.
_WRITE_ON = 0.3


@dataclass(kw_only=True)
class Verdict:
    """What came of a run.

    Attributes:
        struck: the point was reached, and the fault happened there.
        codes: exit codes of the runs of the command.
        read: what the reader did, where there is one.
        problem: empty when all is well.
        evidence: folder with logs and reports; kept only with a problem.
    """

    seed: int
    what: str
    fault: str
    bug: str = ""
    struck: bool = False
    codes: list[int | None] = field(default_factory=list)
    repaired: int = 0
    acknowledged: int = 0
    unknown: int = 0
    read: str = ""
    seconds: float = 0.0
    problem: str = ""
    evidence: str = ""

    def __str__(self) -> str:
        """Return the verdict in one line."""
        outcome = "ok  " if not self.problem else "FAIL"
        struck = "" if self.struck else " NOT REACHED"
        struck += f" with the bug {self.bug}" if self.bug else ""
        repaired = f", {self.repaired} chunks repaired" if self.repaired else ""
        line = (
            f"{outcome} SEED={self.seed} {self.what}{struck}: exit {self.codes},"
            f" {self.acknowledged} writes, {self.unknown} unknown{repaired}{self.read},"
            f" {self.seconds:.1f} s"
        )
        return f"{line}\n     {self.problem}\n     {self.evidence}" if self.problem else line


def run(
    seed: int, host: Host, *, repair: bool | None = None, keep: bool = False, bug: str = ""
) -> Verdict:
    """Carry out the run of a seed; what goes wrong is in the verdict.

    Args:
        bug: of :mod:`tests.faults.hooks`, planted into the command.
    """
    drawn = draw(seed, repair=repair, keep=keep)
    verdict = Verdict(seed=seed, what=str(drawn), fault=drawn.fault.name, bug=bug)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"spirit-py-faults-{seed}-"))
    with PointListener(folder / "points") as listener:
        scene = Scene(
            host=host,
            draw=drawn,
            folder=folder,
            listener=listener,
            bug=bug,
        )
        try:
            _through(scene)
            verdict.repaired = at_the_end(scene)
        except (Violation, TimeoutError) as error:
            verdict.problem = str(error)
        except Exception:
            verdict.problem = traceback.format_exc()
        finally:
            scene.end_processes()
        verdict.struck = scene.struck
        verdict.codes = [attempt.code for attempt in scene.attempts]
        _tidy(scene, verdict)
    if verdict.problem:
        verdict.evidence = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    verdict.seconds = time.monotonic() - began
    return verdict


def _through(scene: Scene) -> None:
    """Migrate with the fault, then without, until it is done."""
    scene.host.recover()
    if scene.draw.fault.before is not None:
        scene.draw.fault.before(scene)
    scene.load()
    _struck_attempt(scene)
    while scene.attempts[-1].code != 0:
        if len(scene.attempts) >= MOST_ATTEMPTS:
            raise Violation(f"not done after {len(scene.attempts)} runs")
        before = scene.tables()
        attempt = scene.start()
        scene.finish(attempt)
        after_attempt(scene, attempt, before)
    scene.until(lambda: False, _WRITE_ON)
    after_attempt(scene, scene.attempts[-1], scene.base)


def _struck_attempt(scene: Scene) -> None:
    """Start the command, strike at the point, and see what comes of it."""
    fault = scene.draw.fault
    hold = scene.listener.hold(scene.draw.point, scene.draw.nth)
    attempt = scene.start()
    try:
        if scene.wait_held(hold):
            scene.struck = True
            fault.strike(scene, hold)
    finally:
        hold.release()
    scene.finish(attempt)
    after_attempt(scene, attempt, scene.base)
    if fault.between is not None:
        fault.between(scene)


def _tidy(scene: Scene, verdict: Verdict) -> None:
    """End everything of the run, whatever state it is in."""
    try:
        scene.host.recover()
        if scene.reader is not None:
            scene.reader.__exit__()
            verdict.read = f", {scene.reader}"
        if hasattr(scene, "application"):
            scene.application.stop()
            journals = scene.application.journals
            verdict.acknowledged = sum(j.acknowledged for j in journals)
            verdict.unknown = sum(len(j.unknown) + len(j.maybe) for j in journals)
        scene.drop()
    except Exception:
        verdict.problem = verdict.problem or traceback.format_exc()

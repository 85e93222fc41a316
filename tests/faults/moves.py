"""Seeded moves between servers, each with a fault at a named point; half are reverted.

A run has servers, each behind a proxy of its own, an application that writes on the server that its
file names, and ``spirit-py move``. Of the moves that are not reverted, half go to two targets, and
a third come from two sources. A fault strikes on the way there, or in the revert. After it the same
command is run until it is done.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mysql_server import ServerOptions, running
from spirit_py.codes import ErrorCode
from spirit_py.errors import OutcomeUnknown
from tests.faults.fault import TROUBLE
from tests.faults.judge import bug_seen
from tests.fixtures.mysql import Database
from tests.kits import kills
from tests.kits.moving import (
    ALTER,
    ROWS,
    Application,
    MergingApplication,
    ShardedApplication,
    Shards,
    Sources,
    TwoServers,
    fill,
    part,
)
from tests.kits.point_listener import PointListener
from tests.kits.tcp_proxy import TcpProxy
from tests.kits.waiting import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from mysql_server import MySQLServer
    from tests.kits.point_listener import Hold

_SECONDS: Final = 180.0
#: Each further million rows may take so much longer.
_SECONDS_OF_A_MILLION: Final = 300.0
_MANY_ROWS: Final = 100_000
_MOST_ATTEMPTS: Final = 8
_POINTS: Final = (*kills.FEW_OF_A_MOVE, *kills.MORE_OF_A_MOVE)
_POINTS_BACK: Final = (*kills.FEW_OF_A_MOVE_BACK, *kills.MORE_OF_A_MOVE_BACK)
_POINTS_OF_SHARDS: Final = (*kills.FEW_OF_SHARDS, *kills.MORE_OF_SHARDS)
_POINTS_OF_SOURCES: Final = (*kills.FEW_OF_SOURCES, *kills.MORE_OF_SOURCES)
_SIDES: Final = ("source", "target", "other target")
_SIDES_OF_SOURCES: Final = ("source", "other source", "target")
_SHARDS: Final = ("eu", "us")
_LOST_RENAME: Final = "lost RENAME of the SIDE"
#: Where a server may have renamed its table, and renames it no more.
_BEHIND_A_RENAME: Final = frozenset(
    {
        *("switch.arrived", "switch.away", "switch.renamed", "switch.commanded"),
        *("switch.unlocked", "cleanup.checkpoint"),
    }
)


@dataclass
class Side:
    """A server and the proxy before it."""

    server: MySQLServer
    proxy: TcpProxy

    def recover(self) -> None:
        """Bring both back to what a run may expect."""
        if self.server.pid is None:
            self.server.resume()
        self.proxy.black_hole = False
        self.proxy.delay = 0.0
        self.proxy.lose_reply(b"")
        self.proxy.start()


@contextlib.contextmanager
def all_sides() -> Iterator[tuple[Side, ...]]:
    """Run servers that lose nothing in a crash, each behind a proxy."""
    with contextlib.ExitStack() as stack:
        sides = []
        for _ in _SIDES:
            options = ServerOptions(keeps_all=True, buffer_pool="64M")
            server = stack.enter_context(running(options))
            proxy = stack.enter_context(TcpProxy((server.host, server.port)))
            sides.append(Side(server, proxy))
        yield tuple(sides)


@dataclass(kw_only=True)
class Draw:
    """What a seed makes of a run; ``side`` is which server or network the fault strikes."""

    seed: int
    fault: str
    side: int
    point: str
    nth: int
    reverts: bool
    strikes_back: bool
    sharded: bool
    merging: bool = False

    def __str__(self) -> str:
        """Return it in some words."""
        sides = _SIDES_OF_SOURCES if self.merging else _SIDES
        where = self.fault.replace("SIDE", sides[self.side])
        way = "in the revert" if self.strikes_back else "on the way there"
        more = ", reverted" * self.reverts + ", to two targets" * self.sharded
        more += ", from two sources" * self.merging
        return f"{where} {way} at {self.point} #{self.nth}{more}"


def draw(seed: int) -> Draw:
    """Draw a run: all faults in turn, every other run reverted."""
    dice = random.Random(f"move {seed}")
    reverts = seed % 2 == 1
    drawn = dice.random() < 0.5
    strikes_back, sharded = reverts and drawn, not reverts and drawn
    merging = not (reverts or sharded) and random.Random(f"sources of {seed}").random() < 2 / 3
    points = list(_POINTS_BACK if strikes_back else _POINTS_OF_SHARDS if sharded else _POINTS)
    if merging:
        points = list(_POINTS_OF_SOURCES)
    fault = list(FAULTS)[seed // 2 % len(FAULTS)]
    if fault == _LOST_RENAME:
        points = [one for one in points if one[0] not in _BEHIND_A_RENAME]
    point, nth = dice.choice(points)
    if point.startswith("chunk."):
        nth = dice.randint(1, 6)
    return Draw(
        seed=seed,
        fault=fault,
        side=dice.randrange(3 if sharded or merging else 2),
        point=point,
        nth=nth,
        reverts=reverts,
        strikes_back=strikes_back,
        sharded=sharded,
        merging=merging,
    )


@dataclass(kw_only=True)
class Verdict:
    """What came of a run; ``problem`` is empty when all is well."""

    drawn: Draw
    struck: bool = False
    outcomes: list[str] = field(default_factory=list)
    writes: int = 0
    differences: int = 0
    seconds: float = 0.0
    problem: str = ""
    evidence: str = ""

    def __str__(self) -> str:
        """Return the verdict in one line."""
        how = "FAIL" if self.problem else "ok  "
        more = "" if self.struck else " NOT REACHED"
        line = (
            f"{how} SEED={self.drawn.seed} {self.drawn}{more}: {', '.join(self.outcomes)};"
            f" {self.writes} writes, {self.differences} differences, {self.seconds:.1f} s"
        )
        return f"{line}\n     {self.problem}\n     {self.evidence}" if self.problem else line


class Scene:
    """One run at work."""

    def __init__(self, drawn: Draw, sides: tuple[Side, ...], folder: Path, rows: int) -> None:
        self.drawn, self.folder = drawn, folder
        self.seconds = _SECONDS + _SECONDS_OF_A_MILLION * rows / 1_000_000
        self.sides = sides if drawn.sharded or drawn.merging else sides[:2]
        self.dice = random.Random(f"strike {drawn.seed}")
        self.databases = [Database(side.server, f"move_{drawn.seed}") for side in self.sides]
        here, *theirs = self.databases
        fill(here, rows=rows)
        how = {"seed": drawn.seed, "rows": rows, "clients": 3 if rows < _MANY_ROWS else 8}
        self.two = TwoServers(here, theirs[0], folder)
        self.clients = Application(self.two, **how)
        if drawn.sharded:
            part(here, _SHARDS)
            shards = Shards(here, dict(zip(_SHARDS, theirs, strict=True)), folder)
            self.two, self.clients = shards, ShardedApplication(shards, **how)
        if drawn.merging:
            ours = dict(zip(_SHARDS, self.databases, strict=False))
            fill(theirs[0], rows=rows)
            for name, db in ours.items():
                part(db, _SHARDS)
                db.execute(f"DELETE FROM t WHERE region <> '{name}'")
            sources = Sources(ours, theirs[-1], folder)
            self.two, self.clients = sources, MergingApplication(sources, **how)
        self.two.ways = tuple(f"{side.proxy.host}:{side.proxy.port}" for side in self.sides)
        self.process: subprocess.Popen[str] | None = None
        self.outcomes: list[str] = []
        self.differences = 0
        self.struck = False
        #: Whether a run was killed before it noted the place of the way back.
        self.placeless = False

    @property
    def reverted(self) -> bool:
        """Whether the table is to be on the source; the place of a switch may have been lost."""
        lost = self.placeless or str(ErrorCode.REVERSE_REPLICATION_LOST) in self.outcomes
        return self.drawn.reverts and not lost

    @property
    def side(self) -> Side:
        """Whose server or network the fault strikes."""
        return self.sides[self.drawn.side]

    def start(self, listener: PointListener | None = None) -> None:
        """Start the command of the run."""
        keep = ("--keep-old-current", "10m") if self.drawn.reverts and not self.placeless else ()
        self.two.report.unlink(missing_ok=True)
        self.process = self.two.start(
            "--alter", ALTER, "--on-switch", self.two.switch_both_ways, *keep, listener=listener
        )

    def ended(self) -> bool:
        """Wait for the end of the command, note what came of it, and return whether it is done."""
        assert self.process is not None
        _, said = self.process.communicate(timeout=self.seconds)
        (self.folder / f"attempt-{len(self.outcomes)}.log").write_text(said)
        code = self.process.returncode
        if code < 0:
            self.outcomes.append("killed")
            return False
        assert self.two.report.exists(), f"exit {code} without a report"
        report = json.loads(self.two.report.read_text())
        assert code in TROUBLE | {OutcomeUnknown.exit_code}, f"exit {code}: {said}"
        assert not (bug := bug_seen(report, said)), bug
        self.outcomes.append(str(report["error_code"] or report["outcome"]))
        self.placeless |= "without --keep-old-current" in str(report["hint"])
        self.differences += int(report["differences_found"] or 0)
        return bool(code == 0)

    def again(self) -> None:
        """Start the same command once more."""
        assert len(self.outcomes) < _MOST_ATTEMPTS, "not done after so many runs of the command"
        self.start()

    def last(self, seconds: float) -> None:
        """Let a fault last."""
        threading.Event().wait(seconds)

    def strike(self, hold: Hold, passed: Callable[[], bool]) -> None:
        """Wait until the command is held, or has passed the point; then let the fault happen."""
        process = self.process
        assert process is not None
        try:
            # Few points are reached as often as is drawn.
            until(lambda: hold.held.is_set() or passed(), "the point", self.seconds)
            if hold.held.is_set():
                self.struck = True
                FAULTS[self.drawn.fault](self, hold, process)
        finally:
            hold.release()

    def close(self) -> None:
        """End what is left, and drop the schemas."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            _, said = self.process.communicate()
            (self.folder / "unended.log").write_text(said)
        if self.drawn.fault == _LOST_RENAME:
            self.struck = self.side.proxy.lost.is_set()
        for side, database in zip(self.sides, self.databases, strict=True):
            side.recover()
            database.reconnect()
            database.close()


# -- faults


def _kill(_scene: Scene, _hold: Hold, process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _freeze(scene: Scene, hold: Hold, process: subprocess.Popen[str]) -> None:
    """Stop the process for longer than its locks outlive its silence, or for less."""
    process.send_signal(signal.SIGSTOP)
    hold.release()
    scene.last(scene.dice.choice((0.5, 3.0, 12.0)))
    process.send_signal(signal.SIGCONT)


def _kill_server(scene: Scene, hold: Hold, _process: subprocess.Popen[str]) -> None:
    scene.side.server.kill()
    hold.release()
    scene.last(scene.dice.uniform(0, 2))
    scene.side.server.resume()
    scene.databases[scene.drawn.side].reconnect()


def _cut(scene: Scene, _hold: Hold, _process: subprocess.Popen[str]) -> None:
    scene.side.proxy.cut()


def _refuse(scene: Scene, hold: Hold, _process: subprocess.Popen[str]) -> None:
    scene.side.proxy.stop()
    hold.release()
    scene.last(scene.dice.uniform(0.5, 4))
    scene.side.proxy.start()


def _black_hole(scene: Scene, hold: Hold, _process: subprocess.Popen[str]) -> None:
    proxy = scene.side.proxy
    proxy.black_hole = True
    hold.release()
    scene.last(scene.dice.uniform(1, 12))
    if scene.dice.random() < 0.5:
        proxy.cut()
    proxy.black_hole = False


def _lose_rename(scene: Scene, _hold: Hold, _process: subprocess.Popen[str]) -> None:
    scene.side.proxy.lose_reply(b"RENAME TABLE")


FAULTS: Final[dict[str, Callable[[Scene, Hold, subprocess.Popen[str]], None]]] = {
    "kill": _kill,
    "death of the SIDE": _kill_server,
    "cut before the SIDE": _cut,
    "freeze": _freeze,
    "refusal before the SIDE": _refuse,
    "black hole before the SIDE": _black_hole,
    _LOST_RENAME: _lose_rename,
}


def run(seed: int, sides: tuple[Side, ...], rows: int = ROWS) -> Verdict:
    """Carry out the run of a seed, on so many rows; what goes wrong is in the verdict."""
    verdict = Verdict(drawn=draw(seed))
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"spirit-py-moves-{seed}-"))
    for side in sides:
        side.recover()
    scene = Scene(verdict.drawn, sides, folder, rows)
    try:
        _through(scene, verdict)
    except Exception:
        verdict.problem = traceback.format_exc()
    finally:
        scene.close()
    verdict.struck, verdict.outcomes = scene.struck, scene.outcomes
    verdict.differences = scene.differences
    if verdict.problem:
        verdict.evidence = str(folder)
    else:
        shutil.rmtree(folder)
    verdict.seconds = time.monotonic() - began
    return verdict


def _through(scene: Scene, verdict: Verdict) -> None:
    drawn, two = scene.drawn, scene.two
    with PointListener(scene.folder / "points") as listener, scene.clients as clients:
        clients.wait_for(20)
        hold = None if drawn.strikes_back else listener.hold(drawn.point, drawn.nth)
        scene.start(listener)
        if hold is not None:
            assert scene.process is not None
            scene.strike(hold, partial(two.follows, scene.process))
        if drawn.reverts:
            _until_reverted(scene, listener if drawn.strikes_back else None, clients)
        else:
            while not scene.ended():
                scene.again()
        clients.wait_for(20)
        verdict.writes = clients.writes
    # Damage that comes late is no less one.
    here, *theirs = scene.databases
    if isinstance(clients, ShardedApplication):
        clients.assert_all_kept()
    else:
        clients.assert_kept(here if scene.reverted else theirs[-1])
    left = [two.tables(here), *map(two.tables, theirs)]
    out, moved = ["_t_chkpnt", "_t_moved"], ["t"]
    expected = [["t"], []] if scene.reverted else [out, *[moved] * len(theirs)]
    if drawn.merging:
        expected = [out, out, moved]
    assert left == expected, left
    assert scene.differences == 0, "the comparison has found differences"


def _answered(asked: subprocess.Popen[str]) -> bool:
    """Whether a command has ended."""
    return asked.poll() is not None


def _until_reverted(scene: Scene, listener: PointListener | None, clients: Application) -> None:
    """Ask for the revert until it is made; the fault strikes in the first one with a listener."""
    while True:
        process = scene.process
        assert process is not None
        until(partial(scene.two.follows, process), "reverse replication", scene.seconds)
        if process.poll() is None:
            clients.wait_for(10)
            hold = None
            if listener is not None:
                hold = listener.hold_after(scene.drawn.point, scene.drawn.nth)
            asked = scene.two.ask_revert()
            if hold is not None:
                # It follows all the time: only the answer says that the point was not reached.
                scene.strike(hold, partial(_answered, asked))
                listener = None
            said = asked.communicate(timeout=scene.seconds)
            scene.outcomes.append(f"revert {asked.returncode}")
            (scene.folder / f"revert-{len(scene.outcomes)}.log").write_text("".join(said))
            assert not (bug := bug_seen({}, "".join(said))), bug
            if asked.returncode != 0 and process.poll() is None:
                # It may be about to end, or goes on and can be asked again.
                continue
        if scene.ended():
            return
        scene.again()

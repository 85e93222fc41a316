"""Named points: what is called is what is listed, off costs nothing, on waits to be let go."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import spirit_py
from spirit_py import points
from tests.kits import kills
from tests.kits.point_listener import PointListener

PACKAGE = Path(spirit_py.__file__).parent
REACHED = re.compile(r'points\.reach\("([^"]+)"\)')


def test_every_point_is_reached_in_one_place_and_is_one_at_which_make_kills_kills():
    """A new point needs a test that reaches it, dies there, and resumes."""
    found = [name for file in PACKAGE.rglob("*.py") for name in REACHED.findall(file.read_text())]
    assert sorted(found) == sorted(kills.STRUCK)


def test_a_point_is_passed_when_nobody_listens():
    """Without the variable, and with a listener that is gone, a point is passed at once."""
    assert not points._listener
    points.reach("feed.started")
    code = "from spirit_py import points; points.reach('feed.started'); print('passed')"
    environ = {points.VARIABLE: "/nowhere/at/all", "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "passed\n"


def test_a_listener_has_a_short_path_wherever_its_folder_is(tmp_path, monkeypatch):
    """A socket's path has at most 107 bytes; TMPDIR may be longer."""
    with PointListener(tmp_path / ("d" * 100) / "points") as listener:
        monkeypatch.setattr(points, "_listener", str(listener.path))
        points.reach("chunk.executed")
        assert listener.reached == ["chunk.executed"]
    assert not listener.path.parent.exists()


def test_a_held_point_is_passed_when_it_is_let_go(tmp_path, monkeypatch):
    """The nth pass of a point is held until it is released; earlier ones are only noted."""
    with PointListener(tmp_path / "s") as listener:
        monkeypatch.setattr(points, "_listener", str(listener.path))
        hold = listener.hold("chunk.executed", nth=2)
        points.reach("chunk.executed")
        passed = threading.Event()

        def second():
            points.reach("chunk.executed")
            passed.set()

        thread = threading.Thread(target=second)
        thread.start()
        assert hold.held.wait(30)
        assert not passed.is_set()
        hold.release()
        thread.join(30)
        assert passed.is_set()
        assert listener.reached == ["chunk.executed"] * 2

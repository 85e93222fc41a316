"""A headless Chromium that opens pages and reports what they do, by its DevTools protocol.

The protocol goes over two pipes (``--remote-debugging-pipe``): one JSON object each way, ended by a
zero byte. The browser's own profile is a folder of the test.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip


@dataclass
class Opened:
    """What a page did while it was opened.

    Attributes:
        complaints: errors and warnings of its console.
        requests: the addresses that it asked for, but for its own.
        values: of the expressions that were evaluated in it, in their order.
    """

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class Browser:
    """A browser that runs."""

    def __init__(self, process: subprocess.Popen[bytes], wrote: int, reads: int) -> None:
        self._process = process
        self._wrote, self._reads = wrote, reads
        self._numbers = itertools.count(1)
        self._rest = b""
        self._events: list[dict[str, Any]] = []

    def open(
        self,
        path: Path,
        *expressions: str,
        size: tuple[int, int],
        dark: bool = False,
        picture: Path | None = None,
    ) -> Opened:
        """Open a page of the disk in a window of this size; evaluate expressions in it.

        Args:
            picture: gets a picture of the whole page.
        """
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        page = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable", page)
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", page, mobile=size[0] < 600, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", page, features=[scheme])
        self._events.clear()
        url = path.resolve().as_uri()
        self._call("Page.navigate", page, url=url)
        self._until("Page.loadEventFired")
        opened = Opened()
        for expression in expressions:
            answer = self._call("Runtime.evaluate", page, expression=expression, returnByValue=True)
            assert "exceptionDetails" not in answer, answer
            opened.values.append(answer["result"].get("value"))
        if picture is not None:
            shot = self._call(
                "Page.captureScreenshot", page, format="png", captureBeyondViewport=True
            )
            picture.write_bytes(base64.b64decode(shot["data"]))
        self._note(opened, url)
        self._call("Target.closeTarget", targetId=target)
        return opened

    def _note(self, opened: Opened, url: str) -> None:
        for event in self._events:
            known = event.get("params", {})
            match event["method"]:
                case "Network.requestWillBeSent":
                    asked = known["request"]["url"]
                    if asked != url and not asked.startswith("data:"):
                        opened.requests.append(asked)
                case "Runtime.exceptionThrown":
                    opened.complaints.append(str(known["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if known["type"] in {"error", "warning", "assert"}:
                    opened.complaints.append(str(known["args"]))
                case "Log.entryAdded" if known["entry"]["level"] in {"error", "warning"}:
                    opened.complaints.append(known["entry"]["text"])

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        asked: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self._wrote, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == number:
                assert "error" not in said, said
                return dict(said["result"])
            if "method" in said:
                self._events.append(said)

    def _until(self, method: str) -> None:
        """Wait for an event."""
        while not any(one["method"] == method for one in self._events):
            said = self._next()
            if "method" in said:
                self._events.append(said)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE
        while b"\0" not in self._rest:
            ready, _, _ = select.select(
                [self._reads], [], [], max(0.0, deadline - time.monotonic())
            )
            got = os.read(self._reads, 1 << 16) if ready else b""
            assert got, "the browser has ended, or says nothing"
            self._rest += got
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


def found() -> str:
    """Return the program; empty where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Run a browser with a profile in a folder."""
    from_us, wrote = os.pipe()
    reads, to_us = os.pipe()
    # The protocol's pipes are descriptors 3 and 4 of the browser.
    script = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
    words = [found(), *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, *words],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    os.close(from_us)
    os.close(to_us)
    try:
        yield Browser(process, wrote, reads)
    finally:
        os.close(wrote)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(reads)

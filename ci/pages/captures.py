"""Takes pictures of real runs for the pages: a throwaway server, an application that writes.

Addresses, host names and dates of the machine are replaced by others of the same length, because a
picture's letters stand in columns.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mysql_server
import workload
from mysql_base import ServerOptions
from pages.film import Screen, film
from terminal import ConditionNotMet, Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mysql_base import MySQLServer

SCHEMA: Final = "shop"
ROWS: Final = 1_000_000
COPY: Final = "MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD INDEX customer (customer)"
_SECONDS: Final = 240.0
_TITLE: Final = 100
#: Columns and rows of the film, and how many screens it has at most.
_FILM: Final = (100, 30)
_SCREENS: Final = 24
_PROGRAM: Final = str(Path(sys.executable).with_name("spirit-py"))
_CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")


def capture(folder: Path) -> None:
    """Make every capture anew.

    Raises:
        ConditionNotMet: a program did not show what was waited for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="spirit-py-captures-") as scratch,
        mysql_server.running(ServerOptions(buffer_pool="512M")) as server,
    ):
        captures = _Captures(server, folder, Path(scratch))
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("filling a table", partial(_load, server)),
            ("filming a migration", captures.film),
            ("filling the table again", partial(_load, server)),
            ("taking pictures of a migration", captures.take),
        )
        for number, (what, step) in enumerate(steps, start=1):
            print(f"docs: {what} (step {number} of {len(steps)})", file=sys.stderr)
            step()


def _load(server: MySQLServer) -> None:
    """Fill the table, and renew its statistics, as a table has them that was not just made."""
    workload.load(server, SCHEMA, ROWS)
    with contextlib.closing(workload.connect(server, SCHEMA)) as connection:
        connection.cursor().execute(f"ANALYZE TABLE {workload.TABLE}")


class _Captures:
    """The runs whose screens are kept."""

    def __init__(self, server: MySQLServer, folder: Path, scratch: Path) -> None:
        self._server, self._folder, self._scratch = server, folder, scratch
        address = f"{server.host}:{server.port}"
        port = "33060"[: len(str(server.port))]
        self._replaced = {
            address: f"{_fitted('db-1.shop', len(server.host))}:{port}",
            server.host: _fitted("db-1.shop", len(server.host)),
            socket.gethostname(): _fitted("admin-1", len(socket.gethostname())),
        }

    def film(self) -> None:
        """Film a whole migration under load, with its plan's first line and its summary."""
        command = ["migrate", "--alter", COPY]
        seen: list[Screen] = []
        with (
            self._application(),
            self._terminal(command, columns=_FILM[0], rows=_FILM[1]) as terminal,
        ):
            while not _ended(terminal):
                if lines := terminal.screen():
                    seen.append(Screen(lines=lines, seconds=1.0))
            seen.append(Screen(lines=terminal.screen(), seconds=8.0))
        step = 1 + len(seen) // _SCREENS
        # The last one is the summary, whatever is left out before it.
        seen = [*seen[:-1:step], seen[-1]]
        moving = film(
            seen,
            columns=_FILM[0],
            rows=_FILM[1],
            title=_title(command),
            still=len(seen) // 2,
        )
        (self._folder / "migrate.svg").write_text(self._clean(moving), encoding="utf-8")

    def take(self) -> None:
        """Take the pictures in the order of an operator's day."""
        self._one("plan", ["plan", "--alter", COPY])
        self._one("error", ["migrate", "--alter", "ADD COLUMN body VARCHAR(200)"])
        with self._application():
            self._migrate()
        self._report()

    def _migrate(self) -> None:
        """Migrate under load; pause in the middle, look at it, resume, and watch it end."""
        command = ["migrate", "--alter", COPY, "--report-html", str(self._scratch / "run.html")]
        with self._terminal(command) as terminal:
            terminal.wait_for(re.compile(r"\b[2-9]\d\.\d ?%").search, _SECONDS)
            self._write("migrate-copy", terminal, command[:-2])
            self._one("ctl", ["ctl", "set", "threads=2", "max-load=Threads_running=25"], rows=12)
            self._one("ctl-pause", ["ctl", "pause"], rows=12)
            self._one("status", ["status"], rows=30)
            self._one("ctl-resume", ["ctl", "resume"], rows=12)
            terminal.wait_for(lambda text: "checksum" in text and "differences" in text, _SECONDS)
            self._write("migrate-checksum", terminal, command[:-2])
            terminal.wait(_SECONDS)
            self._write("migrate-end", terminal, command[:-2])

    def _report(self) -> None:
        """Photograph the page of the run in a browser, where there is one."""
        browser = next(filter(None, map(shutil.which, _CHROMIUM)), None)
        if browser is None:
            print("docs: no Chromium, so the picture of the report stays as it is", file=sys.stderr)
            return
        page = self._scratch / "run.html"
        page.write_text(self._clean(page.read_text()))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        size = ["--window-size=1100,1500", f"--screenshot={self._folder / 'report.png'}"]
        subprocess.run(
            [browser, *options, *size, page.as_uri()], check=True, capture_output=True, timeout=120
        )

    def _one(self, name: str, command: list[str], *, rows: int = 48) -> None:
        """Run a command to its end, and keep its screen."""
        with self._terminal(command, rows=rows) as terminal:
            terminal.wait(_SECONDS)
            self._write(name, terminal, command)

    def _terminal(self, command: list[str], *, columns: int = 110, rows: int = 40) -> Terminal:
        named = ["--database", SCHEMA, "--table", workload.TABLE]
        environment = {
            "SPIRIT_PY_NO_DEFAULTS": "1",
            "SPIRIT_PY_HOST": f"{self._server.host}:{self._server.port}",
            "SPIRIT_PY_USER": self._server.user,
            "SPIRIT_PY_PASSWORD": self._server.password,
            "TZ": "UTC",
        }
        first, *more = command
        return Terminal(
            [_PROGRAM, first, *named, *more], columns=columns, rows=rows, environment=environment
        )

    def _write(self, name: str, terminal: Terminal, command: list[str]) -> None:
        picture = self._clean(terminal.picture(_title(command)))
        (self._folder / f"{name}.svg").write_text(picture, encoding="utf-8")

    def _clean(self, text: str) -> str:
        """Replace what is of this machine alone by words of the same length."""
        for word, other in self._replaced.items():
            text = re.sub(rf"\b{re.escape(word)}\b", other, text)
        return re.sub(r"\b20\d\d-\d\d-\d\d(?=[T &])", "2026-01-31", text)

    @contextlib.contextmanager
    def _application(self) -> Iterator[None]:
        application = workload.Application(
            self._server, SCHEMA, rows=ROWS, folder=self._scratch, writers=4, rate=400.0, seed=1
        )
        application.start()
        try:
            yield
        finally:
            application.stop()


def _ended(terminal: Terminal) -> bool:
    """Wait for a second, or for the command's end; return whether it has ended."""
    try:
        terminal.wait(1.0)
    except ConditionNotMet:
        return False
    return True


def _title(command: list[str]) -> str:
    """Return the command line as the title of its picture."""
    first, *more = command
    words = [f'"{word}"' if " " in word else word for word in more]
    title = " ".join(["spirit-py", first, "--table", workload.TABLE, *words])
    return title if len(title) < _TITLE else title[: _TITLE - 3] + "..."


def _fitted(word: str, length: int) -> str:
    """Return a word cut, or drawn out, to a length."""
    return (word + "-" + "x" * length)[:length] if len(word) < length else word[:length]

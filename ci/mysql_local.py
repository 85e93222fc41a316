"""A throwaway mysqld on this machine, and a watchdog that ensures that it stops."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mysql_base import (
    START_TIMEOUT,
    MySQLServer,
    ServerError,
    ServerOptions,
    exclusive,
    free_port,
    greeting,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mysql_debian import Installation

STOP_TIMEOUT = 60.0
#: What mysqld logs where another process has taken its port since it was found to be free.
PORT_TAKEN = "Bind on TCP/IP port: Address already in use"
PORTS_TRIED = 3
#: After a restart the port is to be the same: mysqld waits so many seconds until it is free.
WAITS_FOR_PORT = "--port-open-timeout=60"
#: Profiles of programs, by their paths.
APPARMOR = Path("/etc/apparmor.d")

# Runs alongside every throwaway server: when the starter's end of the pipe closes, for whatever
# reason, the server is killed and its folder removed.
WATCHDOG = """
import os, pathlib, shutil, signal, sys
home = pathlib.Path(sys.argv[1])
sys.stdin.buffer.read()
try:
    pid = int((home / "mysqld.pid").read_text())
    if os.fsencode(home) in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        os.kill(pid, signal.SIGKILL)
except (OSError, ValueError):
    pass
shutil.rmtree(home, ignore_errors=True)
"""


class LocalServer(MySQLServer):
    """A throwaway mysqld on this machine, in a temporary folder of its own."""

    def __init__(self, installation: Installation, *, origin: str, templates: Path) -> None:
        """Prepare to run `installation`; `templates` caches initialised data folders."""
        self.origin = origin
        self.client = installation.client
        self._mysqld = installation.mysqld
        self._templates = templates
        self._options = ServerOptions()
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """Return the folder that holds everything of this server."""
        if self._home is None:
            message = "the server has not been started, or has been stopped already"
            raise ServerError(message)
        return self._home

    @property
    def pid(self) -> int | None:
        """Return the process id of mysqld while it runs."""
        return self._process.pid if self._process else None

    def start(self, options: ServerOptions | None = None) -> None:
        """Start a fresh server; nothing remains after a failure."""
        if self._home is not None:
            message = f"the server on port {self.port} is already started"
            raise ServerError(message)
        self._options = options or ServerOptions()
        home = self._home = Path(tempfile.mkdtemp(prefix="spirit-py-mysql-"))
        self.datadir, self.socket, self.log = home / "data", home / "s", home / "mysqld.log"
        self.password = secrets.token_hex(12)
        try:
            if not self._options.survive_parent:
                self._watchdog = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", WATCHDOG, str(home)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            _copy(self._template(), self.datadir)
            first = home / "first.sql"
            first.touch(mode=0o600)
            first.write_text(
                "SET SESSION sql_log_bin = 0;\n"
                f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{self.password}';\n"
                f"CREATE USER 'root'@'%' IDENTIFIED BY '{self.password}';\n"
                "GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;\n"
            )
            self._launch_anywhere(f"--init-file={first}")
            first.unlink()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its folder; safe to call twice.

        Nobody reads the data again, so nothing is written back: a clean end takes seconds, and ten
        while a replica reads.
        """
        if self._home is None:
            return
        self._end(signal.SIGKILL)
        home, self._home = self._home, None
        shutil.rmtree(home, ignore_errors=True)
        if self._watchdog:
            self._watchdog.communicate()
            self._watchdog = None

    def restart(self, *, extra: Sequence[str] = ()) -> None:
        """Stop cleanly and start again; `extra` options stay for later restarts too."""
        self._end(signal.SIGTERM)
        self._options = dataclasses.replace(self._options, extra=(*self._options.extra, *extra))
        self._launch(WAITS_FOR_PORT)

    def kill(self) -> None:
        """Kill mysqld; the data folder stays as a crash leaves it."""
        self._end(signal.SIGKILL)

    def resume(self) -> None:
        """Start mysqld again on the data folder; it recovers as after a crash."""
        self._launch(WAITS_FOR_PORT)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the error log."""
        if self.log is None or not self.log.exists():
            return "(no error log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _command(self, *more: str) -> list[str]:
        return [
            *self._mysqld,
            *(["--user=root"] if os.geteuid() == 0 else []),
            f"--datadir={self.datadir}",
            f"--socket={self.socket}",
            f"--pid-file={self.home / 'mysqld.pid'}",
            f"--log-error={self.log}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            *self._options.arguments(self.server_id),
            *more,
        ]

    def _launch_anywhere(self, *more: str) -> None:
        """Launch on a port that is free, another one where it is taken meanwhile."""
        for left in reversed(range(PORTS_TRIED)):
            self.port = free_port()
            try:
                self._launch(*more)
            except ServerError:
                if not left or PORT_TAKEN not in self.log_tail(200):
                    raise
            else:
                return

    def _launch(self, *more: str) -> None:
        # Another server may have taken the port since it was free, and greet there.
        written = self.home / "mysqld.pid"
        written.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            self._command(*more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process = self._process

        def answers() -> bool:
            return written.exists() and greeting(self.host, self.port) is not None

        wait_until(lambda: process.poll() is not None or answers(), START_TIMEOUT)
        if process.poll() is not None or not answers():
            message = (
                f"mysqld ({self.origin}) did not start; its log ends:\n"
                f"{self.log_tail()}{self._advice()}"
            )
            raise ServerError(message)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _template(self) -> Path:
        """Return an initialised data folder of exactly this mysqld, made on first use."""
        asked = subprocess.run(
            [*self._mysqld, "--version"], capture_output=True, text=True, check=False
        )
        if asked.returncode:
            message = (
                f"mysqld --version ({self.origin}) ended with {asked.returncode}:\n"
                f"{asked.stderr}{self._advice()}"
            )
            raise ServerError(message)
        words = asked.stdout.partition("Ver ")[2].split() or ["unknown"]
        template = self._templates / f"template-{words[0]}"
        self._templates.mkdir(parents=True, exist_ok=True)
        with exclusive(self._templates / "template.lock"):
            if not template.is_dir():
                self._initialise(template)
        return template

    def _advice(self) -> str:
        """Return what to do where AppArmor may keep a distribution's mysqld out of our folders.

        One that was fetched may be damaged.
        """
        program = self._mysqld[0]
        if self._templates in Path(program).parents:
            # `make clean` leaves a cache that SPIRIT_PY_CACHE names.
            folder = self._templates / Path(program).relative_to(self._templates).parts[0]
            return f"\nIf its files are damaged: remove {folder}, and they are fetched again"
        profile = APPARMOR / program.strip("/").replace("/", ".")
        if not profile.exists():
            return ""
        return (
            f"\nAppArmor's {profile} keeps {program} in folders of its own: run"
            f" `sudo aa-complain {program}`, or name a server in SPIRIT_PY_TEST_MYSQL"
        )

    def _initialise(self, template: Path) -> None:
        work = Path(tempfile.mkdtemp(prefix="new-", dir=self._templates))
        try:
            done = subprocess.run(
                [
                    *self._mysqld,
                    *(["--user=root"] if os.geteuid() == 0 else []),
                    "--initialize-insecure",
                    "--skip-log-bin",
                    "--loose-innodb-redo-log-capacity=8M",
                    f"--datadir={work / 'data'}",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                message = (
                    f"mysqld --initialize-insecure ({self.origin}) failed:\n"
                    f"{done.stderr}{self._advice()}"
                )
                raise ServerError(message)
            # A copy must come up with a server_uuid of its own.
            (work / "data/auto.cnf").unlink(missing_ok=True)
            (work / "data").rename(template)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    target.chmod(0o750)

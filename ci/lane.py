"""The regression lanes: the tests again, under a condition that the usual run does not have.

A lane sets up its condition, or fails and reports what is missing. It never passes by skipping:
the tests refuse a server of another kind (SPIRIT_PY_LANE_MYSQL), and a skipped test fails the lane
(SPIRIT_PY_LANE). Arguments after the lane's name are passed to pytest.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mysql_base import free_port
from mysql_container import engine_answers
from mysql_server import IMAGE_VARIABLE, SERVER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parent.parent
COMPOSE_FILE = "docker-compose.semisync.yml"
INIT_FILE = "ci/semisync-init.sh"
FILE_SERVER_VARIABLE = "SPIRIT_PY_TEST_MYSQL_FILE"
SEMISYNC_VARIABLE = "SPIRIT_PY_SEMISYNC"
START_SECONDS = 300
#: Programs that the lane of pages can use.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Markers of tests about what servers before 9.0 and before 9.6 have not.
NEWER = ("vector", "logged_cascades")
#: The oldest server that is not refused.
OLDEST = "8.0.19"
#: Folders of tests of which a usual run draws some.
DRAWN_FROM = ("tests/golden", "tests/integration", "tests/unit")
#: Has Spark run the tasks that are threads of the tests' process in the usual run.
ON_SPARK = {"SPIRIT_PY_TEST_ENGINE": "spark"}


class LaneLacks(RuntimeError):
    """A lane cannot set up its condition on this machine."""


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command in the repository and return its exit code."""
    print(f"lane: {' '.join(command)}", file=sys.stderr, flush=True)
    # A SIGTERM while the child starts would end this process and not the child.
    early: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    child = subprocess.Popen(command, cwd=REPOSITORY, env=dict(environ))
    try:
        signal.signal(signal.SIGTERM, handler)
        if early:
            signal.raise_signal(signal.SIGTERM)
        return child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise


@dataclass(kw_only=True)
class Lane:
    """One run of a lane: its arguments, and its access to the outside."""

    arguments: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    engine: Callable[[Mapping[str, str]], bool] = engine_answers
    run: Callable[[Sequence[str], Mapping[str, str]], int] = run

    def tests(self, *selection: str, **variables: str) -> int:
        """Run pytest on a selection with more variables set."""
        environ = {**self.environ, "SPIRIT_PY_LANE": "1", **variables}
        pytest = [sys.executable, "-m", "pytest"]
        return self.run([*pytest, *selection, *self.arguments], environ)

    def mysql(self, series: str, image: str, *, without: Sequence[str] = ()) -> int:
        """Run the usual tests on one series of MySQL: in containers, or on named servers.

        Args:
            without: the markers of tests about what the series has not; the run counts them as
                deselected.

        Raises:
            LaneLacks: when there is neither an engine nor a named server of both kinds.
        """
        named = [self.environ.get(name) for name in (SERVER_VARIABLE, FILE_SERVER_VARIABLE)]
        if not all(named) and not self.engine(self.environ):
            raise LaneLacks(
                f"this lane needs MySQL {series}, and no Docker engine answers for a container of"
                f" {image}: start one, name it in DOCKER_HOST, or name servers of that version in"
                f" {SERVER_VARIABLE} (with GTIDs) and {FILE_SERVER_VARIABLE} (without)"
            )
        image = self.environ.get(IMAGE_VARIABLE) or image
        markers = " and ".join(f"not {marker}" for marker in without)
        selection = ("-m", markers) if markers else ()
        return self.tests(*selection, **{IMAGE_VARIABLE: image, "SPIRIT_PY_LANE_MYSQL": series})

    def file_position(self) -> int:
        """Run the usual integration tests on Spark without GTIDs: positions are file, offset."""
        variables = {"SPIRIT_PY_LANE_GTID": "OFF", **ON_SPARK}
        return self.tests("tests/integration", "-m", "not gtid", **variables)

    def cases_after(self) -> int:
        """Run every case, all writes after the last checksum (R21); a fifth without GTIDs too."""
        return self.tests("tests/integration/test_cases_after.py", SPIRIT_PY_CASES_AFTER="all")

    def attached(self) -> int:
        """Swap tables with triggers and keys 50 times under writers, some of them killed."""
        swaps = self.environ.get("SPIRIT_PY_ATTACHED_SWAPS", "50")
        return self.tests(
            "tests/integration/test_attached_writers.py",
            *("-o", "log_cli=true", "-o", "log_cli_level=INFO", "-o", "log_cli_format=%(message)s"),
            SPIRIT_PY_ATTACHED_SWAPS=swaps,
        )

    def gentle(self) -> int:
        """Run all tests of which the usual run draws some, on Spark."""
        drawn = ("-m", "draws or slow")
        return self.tests(*DRAWN_FROM, *drawn, SPIRIT_PY_GENTLE="all", **ON_SPARK)

    def rules(self) -> int:
        """Break each rule of docs/rules.md once, in a copy: its tests must fail."""
        return self.tests("tests/breakages/broken.py", "--timeout", "1200")

    def tools(self) -> int:
        """Run every test of the tests' own tools, of which the usual run has a few."""
        # A container is ended by its reaper, not with the process that started it.
        without = ("-m", "not local_server") if self.engine(self.environ) else ()
        return self.tests("tests/tools", *without, SPIRIT_PY_GENTLE="all")

    def delays(self) -> int:
        """Run the usual integration tests with random pauses between statements."""
        seed = self.environ.get("SPIRIT_PY_TEST_DELAYS") or str(secrets.randbelow(10**6))
        folders = ("tests/integration", "tests/attacks", "tests/golden")
        return self.tests(*folders, "-v", "--timeout", "900", SPIRIT_PY_TEST_DELAYS=seed)

    def told(self) -> int:
        """Run the usual integration tests on a server that is told to be older."""
        version = self.environ.get("SPIRIT_PY_TEST_TOLD") or OLDEST
        newer = " and ".join(f"not {marker}" for marker in NEWER)
        folders = ("tests/integration", "tests/attacks")
        return self.tests(*folders, "-m", newer, SPIRIT_PY_TEST_TOLD=version)

    def semisync(self) -> int:
        """Run the tests of visibility with a replica whose acknowledgements are delayed.

        Raises:
            LaneLacks: when Docker's engine answers and cannot be used.
        """
        wanted = self.environ.get(SEMISYNC_VARIABLE)
        if not wanted:
            wanted = "compose" if self.engine(self.environ) else "pair"
        print(f"lane: semi-sync servers: {wanted}", file=sys.stderr, flush=True)
        if wanted != "compose":
            return self.tests("tests/semisync", **{SEMISYNC_VARIABLE: wanted})
        with TemporaryDirectory() as folder, self._composed(Path(folder)) as variables:
            return self.tests("tests/semisync", **{SEMISYNC_VARIABLE: wanted}, **variables)

    def large(self) -> int:
        """Run what is too large for the usual run: huge transactions (R19), millions of rows."""
        return self.tests("tests/large/transactions.py", "tests/large/rows.py")

    def faults(self) -> int:
        """Run what takes too long: a cluster, a server's limits, planted bugs, many faults."""
        names = ("test_short_draw", "executors", "server_limits", "proof")
        runs = self.environ.get("SPIRIT_PY_FAULTS_RUNS", "20")
        files = (f"tests/faults/{name}.py" for name in names)
        return self.tests(*files, SPIRIT_PY_FAULTS_RUNS=runs)

    @contextlib.contextmanager
    def _composed(self, folder: Path) -> Iterator[dict[str, str]]:
        """Run the servers of the compose file for the duration of a `with` block."""
        # In a clone made with umask 077 nobody else may read it.
        init = shutil.copy(REPOSITORY / INIT_FILE, folder)
        Path(init).chmod(0o755)
        password = secrets.token_hex(12)
        ports = {"SOURCE": free_port(), "REPLICA": free_port()}
        environ = {
            **self.environ,
            "SPIRIT_PY_SEMISYNC_PASSWORD": password,
            "SPIRIT_PY_SEMISYNC_INIT": str(init),
            **{f"SPIRIT_PY_SEMISYNC_{name}_PORT": str(port) for name, port in ports.items()},
        }
        project = f"spirit-py-semisync-{os.getpid()}"
        compose = ["docker", "compose", "-f", COMPOSE_FILE, "-p", project]
        if self.run(["docker", "compose", "version"], environ):
            raise LaneLacks(
                "a Docker engine answers, but there is no `docker compose`: install its compose"
                f" plugin, or set {SEMISYNC_VARIABLE}=pair to use two servers of this machine"
            )
        if self.run([*compose, "config", "--quiet"], environ):
            raise LaneLacks(f"{COMPOSE_FILE} is not valid: see above")
        try:
            up = ["up", "--detach", "--wait", "--wait-timeout", str(START_SECONDS)]
            if self.run([*compose, *up], environ):
                self.run([*compose, "logs", "--tail", "40"], environ)
                raise LaneLacks(f"the servers of {COMPOSE_FILE} did not start: see above")
            yield {
                f"SPIRIT_PY_SEMISYNC_{name}": f"mysql://root:{password}@127.0.0.1:{port}"
                for name, port in ports.items()
            }
        finally:
            self.run([*compose, "down", "--volumes", "--timeout", "5"], environ)

    def pages(self) -> int:
        """Open pages of real runs in a browser, which is installed where there is none.

        Raises:
            LaneLacks: when it cannot be installed.
        """
        if not any(shutil.which(name, path=self.environ.get("PATH")) for name in BROWSERS):
            root = [] if os.geteuid() == 0 else ["sudo"]
            apt = [*root, "apt-get", "--quiet", "--yes"]
            environ = {**self.environ, "DEBIAN_FRONTEND": "noninteractive"}
            install = [*apt, "install", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
            if self.run([*apt, "update"], environ) or self.run(install, environ):
                raise LaneLacks(
                    f"this lane needs a browser ({', '.join(BROWSERS)}), and Chromium cannot be"
                    " installed from this machine's archive: see above"
                )
        return self.tests("tests/pages/browser.py", "tests/pages/documentation.py")

    def wheel_bare(self) -> int:
        """Install the wheel on a clean system, and migrate a table from there."""
        return self._as_root("ci/wheel_bare.py")

    def image(self) -> int:
        """Build the container image, and migrate a table from there."""
        return self._as_root("ci/image.py")

    def _as_root(self, program: str) -> int:
        # chroot and mount are for root alone.
        root = () if os.geteuid() == 0 else ("sudo", "--preserve-env")
        script = [*root, sys.executable, program]
        return self.run([sys.executable, "ci/mysql_server.py", "run", "--", *script], self.environ)


LANES: dict[str, Callable[[Lane], int]] = {
    "semisync": Lane.semisync,
    "file-position": Lane.file_position,
    "delays": Lane.delays,
    "told": Lane.told,
    "cases-after": Lane.cases_after,
    "attached": Lane.attached,
    "gentle": Lane.gentle,
    "tools": Lane.tools,
    "rules": Lane.rules,
    "large": Lane.large,
    "faults": Lane.faults,
    "pages": Lane.pages,
    "wheel-bare": Lane.wheel_bare,
    "image": Lane.image,
    "mysql80": lambda lane: lane.mysql("8.0", "mysql:8.0", without=NEWER),
    "mysql84": lambda lane: lane.mysql("8.4", "mysql:8.4", without=NEWER),
    "mysql9": lambda lane: lane.mysql("9.", "mysql:9"),
}


def main(argv: Sequence[str]) -> int:
    """Run one lane and return its exit code."""
    if not argv or argv[0] not in LANES:
        print(f"usage: lane.py {'|'.join(LANES)} [pytest arguments]", file=sys.stderr)
        return 2
    name, *arguments = argv
    # Like a KeyboardInterrupt: the running command is ended, and containers are stopped.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        code = LANES[name](Lane(arguments=arguments))
    except LaneLacks as lack:
        print(f"lane {name}: {lack}", file=sys.stderr)
        return 1
    print(f"lane {name}: {'passed' if code == 0 else f'failed ({code})'}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

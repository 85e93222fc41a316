"""A clean machine: the wheel, installed with pipx in a bare Debian, migrates a table.

The system is made by debootstrap in a temporary folder and entered with chroot: Python and pipx are
all that it gets, no compiler, no client library, no Java. The commands that the program prints are
the ones that are run. The server is the one of SPIRIT_PY_TEST_MYSQL, outside.

It leaves nothing behind, also after a failure: nothing is mounted any more, the folder is gone, and
so is the schema on the server.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import MySQLdb

from mysql_debian import FetchError, debian_source, machine_sources
from mysql_server import SERVER_VARIABLE
from seeded_runs import end_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY: Final = Path(__file__).resolve().parent.parent
#: The Debian that is made: 12 has Python 3.11, 13 (trixie) has 3.13, sid a newer one.
SUITE: Final = os.environ.get("SUITE", "bookworm")
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
#: Where pipx puts programs for root, in the system that is made as here.
_HOME: Final = pwd.getpwuid(0).pw_dir
_PATH: Final = f"{_HOME}/.local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ROWS: Final = 1000
#: How this machine reaches archives and indexes; the system that is made has to go the same way.
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_WAYS_OUT: Final = (
    *_PROXIES,
    *map(str.upper, _PROXIES),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"),
)


class Failed(RuntimeError):
    """A step did not do what it must."""


def main() -> int:
    """Make the system, go through the steps, clean up."""
    if os.geteuid() != 0:
        print("wheel-bare: chroot and mount need root: run it with sudo", file=sys.stderr)
        return 1
    end_on_sigterm()
    try:
        with tempfile.TemporaryDirectory(prefix="spirit-py-bare-") as scratch:
            wheel = _built(Path(scratch))
            with (
                Server.of(os.environ[SERVER_VARIABLE]) as server,
                bare_system(Path(scratch)) as system,
            ):
                _steps(system, wheel, server)
    except (Failed, FetchError, MySQLdb.Error, subprocess.CalledProcessError) as error:
        print(f"wheel-bare: {error}", file=sys.stderr)
        return 1
    return 0


def _steps(system: System, wheel: Path, server: Server) -> None:
    """Install, be told what is missing, install that, migrate; then with Java once more."""
    step("pipx installs the wheel")
    shutil.copy(wheel, system.root / "srv")
    system.must("pipx", "install", f"/srv/{wheel.name}")
    step("there is no compiler, no client library, no Java")
    for program in ("gcc", "pkg-config", "java"):
        if system.run("which", program).returncode == 0:
            raise Failed(f"the system is not bare: it has {program}")
    step("--version and --help")
    expect(system.must("spirit-py", "--version"), "mysqlclient not installed")
    expect(system.must("spirit-py", "--help"), "migrate")
    expect(system.must("spirit-py", "explain", "client-library-missing"), "apt-get install")
    step("migrate names what is missing")
    refused = system.run("spirit-py", *server.migrate("ADD COLUMN a INT"))
    if refused.returncode != 2 or "Traceback" in refused.stderr or "defect" in refused.stderr:
        raise Failed(f"no refusal but exit code {refused.returncode}: {refused.stderr}")
    for name in ("Debian, Ubuntu: apt-get", "Fedora: dnf", "macOS: brew"):
        expect(refused.stderr, name)
    step(f"what it printed: {named(refused.stderr, 'Debian, Ubuntu')}")
    system.must("sh", "-c", named(refused.stderr, "Debian, Ubuntu"))
    system.must("sh", "-c", named(refused.stderr, "then"))
    step("a table without Java")
    expect(system.must("spirit-py", *server.migrate("ADD COLUMN a INT")), "swapped")
    server.expect_columns("id", "v", "a")
    step("a table for Spark is refused without Java")
    asked = server.migrate("ADD COLUMN b INT", "--spark-master", "local[1]")
    refused = system.run("spirit-py", *asked)
    if refused.returncode != 2:
        raise Failed(f"no refusal but exit code {refused.returncode}: {refused.stderr}")
    step(f"what it printed: {named(refused.stderr, 'Debian, Ubuntu')}")
    system.must("sh", "-c", named(refused.stderr, "Debian, Ubuntu"))
    step("the same on Spark")
    expect(system.must("spirit-py", *asked), "swapped")
    server.expect_columns("id", "v", "a", "b")
    print("wheel-bare: the wheel migrates a table on a clean machine", file=sys.stderr)


def step(text: str) -> None:
    """Say what comes."""
    print(f"wheel-bare: {text}", file=sys.stderr, flush=True)


def expect(text: str, part: str) -> None:
    """Raise where a program has not said something.

    Raises:
        Failed: it has not.
    """
    if part not in text:
        raise Failed(f"{part!r} is not in: {text}")


def named(said: str, system: str) -> str:
    """Return the command that an error names for a system.

    Raises:
        Failed: there is none.
    """
    found = re.search(rf"^ *{system}: (.+)$", said, re.MULTILINE)
    if found is None:
        raise Failed(f"there is no command for {system} in: {said}")
    return found[1]


@dataclass(frozen=True)
class System:
    """A Debian in a folder."""

    root: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, with an environment of its own and nobody to answer questions."""
        environ = {
            "PATH": _PATH,
            "HOME": _HOME,
            "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "SPIRIT_PY_PASSWORD": unquote(urlsplit(os.environ[SERVER_VARIABLE]).password or ""),
            "PIP_DEFAULT_TIMEOUT": "180",
            "PIP_CERT": f"/{_AUTHORITIES}",
            **_configured_index(),
            **{name: os.environ[name] for name in _WAYS_OUT if name in os.environ},
        }
        return subprocess.run(
            ["chroot", str(self.root), *command],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def must(self, *command: str) -> str:
        """Run a command that has to succeed; return all that it prints.

        Raises:
            Failed: it does not.
        """
        done = self.run(*command)
        if done.returncode:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr


@contextlib.contextmanager
def bare_system(scratch: Path) -> Iterator[System]:
    """Make a Debian with Python and pipx, and nothing else; remove it at the end."""
    root = scratch / "root"
    step(f"debootstrap {SUITE}")
    command = [*_debootstrap(scratch), "--variant=minbase", f"--keyring={_KEYRING}", SUITE]
    try:
        _run_group([*command, str(root), _mirror()])
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        system = System(root)
        subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
        # A mirror in between may have a certificate of its own.
        (root / _AUTHORITIES).parent.mkdir(parents=True, exist_ok=True)
        system.must("apt-get", "install", "-y", "--no-install-recommends", "pipx", "python3-venv")
        shutil.copy(os.environ.get("PIP_CERT") or f"/{_AUTHORITIES}", root / _AUTHORITIES)
        yield system
    finally:
        # What debootstrap mounts it leaves when it is ended.
        for name in ("proc", "sys"):
            if (root / name).is_mount():
                subprocess.run(["umount", "--lazy", str(root / name)], check=True)


def _run_group(command: list[str]) -> None:
    """Run a command that starts others; when this program is ended, all of them end first.

    One that is left would write, and mount, in a folder that is being removed.
    """
    made = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        code = made.wait()
    except BaseException:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait()
        raise
    if code:
        raise subprocess.CalledProcessError(code, command)


def _debootstrap(scratch: Path) -> list[str]:
    """Return how debootstrap is called: as installed, or out of its package."""
    if program := shutil.which("debootstrap"):
        return [program]
    subprocess.run(["apt-get", "download", "-q", "debootstrap"], cwd=scratch, check=True)
    (package,) = scratch.glob("debootstrap_*.deb")
    unpacked = scratch / "debootstrap"
    subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True)
    folder = unpacked / "usr/share/debootstrap"
    return ["env", f"DEBOOTSTRAP_DIR={folder}", str(unpacked / "usr/sbin/debootstrap")]


@functools.cache
def _configured_index() -> dict[str, str]:
    """Return the index of pip's files as the variable that it has in the system."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:global|install)\.index-url='(.+)'$", done.stdout, re.MULTILINE)
    return {} if found is None else {"PIP_INDEX_URL": found[1]}


def _mirror() -> str:
    """Return the Debian archive that this machine uses.

    Raises:
        FetchError: it uses none.
    """
    return debian_source(machine_sources(Path("/etc/apt"))).uri


def _built(scratch: Path) -> Path:
    """Build the wheel."""
    target = scratch / "wheel"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    return wheel


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server outside, and a table on it."""

    host: str
    port: int
    user: str
    password: str

    @classmethod
    @contextlib.contextmanager
    def of(cls, url: str) -> Iterator[Server]:
        """Make the table on a server; drop its schema at the end."""
        parts = urlsplit(url)
        server = cls(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
        )
        # Refused where there is one: it may be somebody's.
        server.query("CREATE DATABASE bare")
        try:
            server.query("CREATE TABLE bare.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))")
            server.query(
                "INSERT INTO bare.t (v) WITH RECURSIVE n (i) AS"
                f" (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {_ROWS}) SELECT i FROM n"
            )
            yield server
        finally:
            server.query("DROP DATABASE bare")

    def query(self, sql: str) -> tuple[tuple[object, ...], ...]:
        """Run a statement."""
        with contextlib.closing(
            MySQLdb.connect(
                host=self.host,
                port=self.port,
                user=self.user,
                password=self.password,
                autocommit=True,
            )
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    def migrate(self, alter: str, *options: str) -> list[str]:
        """Return the command that changes the table by a copy."""
        where = ["--host", f"{self.host}:{self.port}", "--user", self.user]
        what = ["--database", "bare", "--table", "t", "--alter", alter, "--no-shortcut"]
        return ["migrate", *where, *what, *options]

    def expect_columns(self, *names: str) -> None:
        """Raise where the table has other columns, or not all its rows.

        Raises:
            Failed: it has not.
        """
        found = [str(row[0]) for row in self.query("SHOW COLUMNS FROM bare.t")]
        rows = self.query("SELECT COUNT(*) FROM bare.t")[0][0]
        if found != list(names) or rows != _ROWS:
            raise Failed(f"the table has {rows} rows and the columns {found}")


if __name__ == "__main__":
    sys.exit(main())

"""Choose a real MySQL for tests, demo and bench, start it, and ensure that it stops.

As a library: `with running(ServerOptions(gtid=True)) as server: ...`.
As a program: `python ci/mysql_server.py start|stop|status|client|fetch|run -- CMD`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mysql_base import MySQLServer, NamedServer, ServerError, ServerOptions, exclusive, wait_until
from mysql_container import DEFAULT_IMAGE, ContainerServer, engine_answers
from mysql_debian import DebianMySQL, FetchError, Installation
from mysql_local import LocalServer
from seeded_runs import end_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "MySQLServer",
    "Provider",
    "ServerError",
    "ServerOptions",
    "cache_folder",
    "choose",
    "running",
]

SERVER_VARIABLE = "SPIRIT_PY_TEST_MYSQL"
IMAGE_VARIABLE = "SPIRIT_PY_TEST_MYSQL_IMAGE"
CACHE_VARIABLE = "SPIRIT_PY_CACHE"
REPOSITORY = Path(__file__).resolve().parent.parent
#: Seconds that a command which is ended has for its cleanup.
CLEANUP_TIMEOUT = 60.0


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Where servers come from, why, and how to make one (not started yet)."""

    name: str
    why: str
    make: Callable[[], MySQLServer]

    def __str__(self) -> str:
        """Return the sentence that is printed."""
        return f"MySQL: {self.name}, because {self.why}"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for files made once: under SPIRIT_PY_CACHE, or .cache here."""
    folder = Path(environ.get(CACHE_VARIABLE) or REPOSITORY / ".cache").resolve() / "mysql"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def mysqld_on_path(environ: Mapping[str, str]) -> Path | None:
    """Return MySQL's own mysqld on the PATH; MariaDB's has the same name and is skipped."""
    found = shutil.which("mysqld", path=environ.get("PATH", ""))
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    usable = version.returncode == 0 and "mariadb" not in version.stdout.lower()
    return Path(found) if usable else None


def choose(
    environ: Mapping[str, str] = os.environ,
    *,
    variable: str = SERVER_VARIABLE,
    engine: Callable[[Mapping[str, str]], bool] = engine_answers,
    on_path: Callable[[Mapping[str, str]], Path | None] = mysqld_on_path,
    outlives: bool = False,
) -> Provider:
    """Choose where MySQL comes from: a named server, a container, the PATH, Debian's packages.

    A server that `outlives` the process that starts it is neither named nor in a container.
    """
    url = environ.get(variable)
    if url and not outlives:
        return Provider(
            name="the server you named",
            why=f"{variable} is set",
            make=lambda: NamedServer(url, variable=variable),
        )
    if not outlives and engine(environ):
        image = environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE
        return Provider(
            name=f"a container of {image}",
            why=f"{variable} is not set and a Docker engine answers",
            make=lambda: ContainerServer(image),
        )
    passed_over = (
        "a server of your own is asked for that outlives this command"
        if outlives
        else f"{variable} is not set, no Docker engine answers"
    )
    mysqld = on_path(environ)
    cache = cache_folder(environ)
    if mysqld is not None:
        return Provider(
            name=str(mysqld),
            why=f"{passed_over}, and the PATH has a mysqld",
            make=lambda: LocalServer(
                Installation(mysqld=(str(mysqld), "--no-defaults"), client=("mysql",)),
                origin=str(mysqld),
                templates=cache,
            ),
        )
    return Provider(
        name="Debian's packages from the unstable suite, unpacked in a cache folder",
        why=f"{passed_over}, and the PATH has no mysqld of MySQL",
        make=lambda: LocalServer(
            fetch_debian(cache), origin="Debian's mysql-server-core", templates=cache
        ),
    )


def fetch_debian(cache: Path) -> Installation:
    """Fetch Debian's MySQL once, even if several processes ask for it."""
    debian = DebianMySQL(cache / "debian")
    with exclusive(cache / "debian.lock"):
        if not debian.fetched:
            say("MySQL: fetching Debian's packages (about 70 MB, once)")
        return debian.fetch()


@contextlib.contextmanager
def running(
    options: ServerOptions | None = None, *, provider: Provider | None = None
) -> Iterator[MySQLServer]:
    """Run a server for the duration of a `with` block."""
    server = (provider or choose()).make()
    server.start(options)
    try:
        yield server
    finally:
        server.stop()


def say(text: str) -> None:
    """Print to the terminal, apart from a program's own output."""
    print(text, file=sys.stderr, flush=True)


def describe(server: MySQLServer) -> str:
    """Return what is needed to use a server."""
    return (
        f"version   {server.version()}\nhost      {server.host}\nport      {server.port}\n"
        f"user      {server.user}\npassword  {server.password}\n"
        f"log       {server.log or '(see its owner)'}\nclient    {server.client_command()}"
    )


def _state_file(name: str) -> Path:
    folder = cache_folder() / "servers"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{name}.json"


def _alive(pid: int, home: str) -> bool:
    try:
        return os.fsencode(home) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _load(name: str) -> dict[str, str] | None:
    """Return the state of the server `start` made under this name, if it still runs."""
    state = _noted(name)
    return state if state and _alive(int(state["pid"]), state["home"]) else None


def _noted(name: str) -> dict[str, str] | None:
    """Return the state of a server that may have ended, as by a reboot."""
    try:
        state: dict[str, str] = json.loads(_state_file(name).read_text())
    except (OSError, ValueError):
        return None
    return state


def _forget(name: str) -> None:
    """Remove what a server that has ended has left."""
    if (state := _noted(name)) and not _answers(Path(state["home"]) / "s"):
        shutil.rmtree(state["home"], ignore_errors=True)
    _state_file(name).unlink(missing_ok=True)


def _answers(place: Path) -> bool:
    """Whether a server listens there: of another namespace, say, whose processes are not seen."""
    with socket.socket(socket.AF_UNIX) as link, contextlib.suppress(OSError):
        link.connect(str(place))
        return True
    return False


def _start(arguments: argparse.Namespace) -> int:
    state = _load(arguments.name)
    if state is not None:
        print(state["text"])
        return 0
    _forget(arguments.name)
    provider = choose(outlives=True)
    say(str(provider))
    server = provider.make()
    assert isinstance(server, LocalServer)  # noqa: S101 - neither named nor a container
    server.start(
        ServerOptions(gtid=not arguments.no_gtid, extra=tuple(arguments.set), survive_parent=True)
    )
    try:
        text = describe(server)
        state = {
            "pid": str(server.pid),
            "home": str(server.home),
            "url": server.url,
            "text": text,
            "client": json.dumps(
                [*server.client, f"-h{server.host}", f"-P{server.port}", f"-u{server.user}"]
            ),
            "password": server.password,
        }
        file = _state_file(arguments.name)
        whole = file.with_suffix(".new")
        whole.unlink(missing_ok=True)
        whole.touch(mode=0o600)
        whole.write_text(json.dumps(state))
        whole.replace(file)
    except BaseException:
        # Nobody would know of it.
        server.stop()
        raise
    print(text)
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    state = _load(arguments.name)
    if state is None:
        say(f"no server named {arguments.name} is running")
        _forget(arguments.name)
        return 0
    pid, home = int(state["pid"]), state["home"]
    os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: not _alive(pid, home), timeout=60):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not _alive(pid, home), timeout=10)
    _forget(arguments.name)
    say(f"stopped the server named {arguments.name}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    state = _load(arguments.name)
    if state is None:
        say(f"no server named {arguments.name} is running")
        return 1
    print(state["url"] if arguments.url else state["text"])
    return 0


def _client(arguments: argparse.Namespace) -> int:
    state = _load(arguments.name)
    if state is None:
        say(f"no server named {arguments.name} is running")
        return 1
    command = [*json.loads(state["client"]), *arguments.words]
    return subprocess.run(
        command, check=False, env={**os.environ, "MYSQL_PWD": state["password"]}
    ).returncode


def _run(arguments: argparse.Namespace) -> int:
    end_on_sigterm()
    provider = choose()
    say(str(provider))
    options = ServerOptions(gtid=not arguments.no_gtid, extra=tuple(arguments.set))
    with running(options, provider=provider) as server:
        environ = {
            **os.environ,
            SERVER_VARIABLE: server.url,
            "MYSQL_PWD": server.password,
        }
        child = subprocess.Popen(arguments.words, env=environ)
        try:
            return child.wait()
        except BaseException:
            # It may have to clean up, with the server. Another account's may not be ended, and an
            # interactive shell passes SIGTERM over.
            with contextlib.suppress(PermissionError):
                child.terminate()
                try:
                    child.wait(CLEANUP_TIMEOUT)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            raise


def _fetch(arguments: argparse.Namespace) -> int:
    del arguments
    provider = choose()
    say(str(provider))
    server = provider.make()
    if isinstance(server, ContainerServer):
        server.pull()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mysql_server.py", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, action, about in (
        ("start", _start, "start a server that outlives this shell"),
        ("stop", _stop, "stop it and remove its data"),
        ("status", _status, "print how to connect to it"),
        ("client", _client, "open a client on it; words after -- are passed to the client"),
        ("run", _run, "run a command with a throwaway server, named in SPIRIT_PY_TEST_MYSQL"),
        ("fetch", _fetch, "fetch what `start` needs"),
    ):
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(action=action)
        if name in {"start", "stop", "status", "client"}:
            command.add_argument("--name", default="default", help="name, for several servers")
        if name in {"start", "run"}:
            command.add_argument("--no-gtid", action="store_true", help="file-and-offset server")
            command.add_argument(
                "--set",
                action="append",
                default=[],
                metavar="--OPTION=VALUE",
                help="one more mysqld option, as in --set=--max-connections=50",
            )
        if name == "status":
            command.add_argument("--url", action="store_true", help="print only the URL")
        if name in {"run", "client"}:
            words = "+" if name == "run" else "*"
            command.add_argument("words", nargs=words, help="the command, after --")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        with contextlib.ExitStack() as stack:
            if arguments.action in {_start, _stop}:
                # Another command about that server waits until this one has noted what it did.
                lock = _state_file(arguments.name).with_suffix(".lock")
                stack.enter_context(exclusive(lock))
            code: int = arguments.action(arguments)
    # Such as a command that is not there, or a cache of another account's.
    except (ServerError, FetchError, OSError) as error:
        say(f"MySQL: {error}")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())

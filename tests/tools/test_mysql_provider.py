"""Where the tests' MySQL comes from, decided without starting one."""

from __future__ import annotations

import fcntl
import importlib
import json
import re
import signal
import socket
import stat
import sys
import threading
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import mysql_debian
import mysql_server
from mysql_base import NamedServer, ServerError, ServerOptions, greeting
from mysql_container import ContainerServer, engine_answers
from mysql_debian import (
    AptSource,
    DebianMySQL,
    FetchError,
    Installation,
    debian_source,
    machine_sources,
    parse_deb822,
    parse_one_line,
)
from mysql_local import LocalServer
from mysql_server import Provider, cache_folder, choose, main, mysqld_on_path

if TYPE_CHECKING:
    from collections.abc import Mapping

URL = "mysql://root:p%40ss@192.0.2.1:3307"


def engine(*, answers: bool):
    """Return a probe of a Docker engine that answers, or does not."""

    def probe(_: Mapping[str, str]) -> bool:
        return answers

    return probe


def path(found: str | None):
    """Return a search of the PATH with a fixed result."""

    def search(_: Mapping[str, str]) -> Path | None:
        return Path(found) if found else None

    return search


def program(folder: Path, text: str) -> Path:
    """Write an executable shell script named mysqld."""
    script = folder / "mysqld"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


@pytest.mark.smoke
def test_a_named_server_is_chosen_first(tmp_path: Path) -> None:
    """A named server is used even where an engine answers and a mysqld is there."""
    provider = choose(
        {"SPIRIT_PY_TEST_MYSQL": URL, "SPIRIT_PY_CACHE": str(tmp_path)},
        engine=engine(answers=True),
        on_path=path("/usr/sbin/mysqld"),
    )
    server = provider.make()
    assert isinstance(server, NamedServer)
    assert (server.host, server.port, server.user, server.password) == (
        "192.0.2.1",
        3307,
        "root",
        "p@ss",
    )
    assert server.url == URL
    assert "SPIRIT_PY_TEST_MYSQL is set" in str(provider)


def test_a_provider_never_shows_the_password(tmp_path: Path) -> None:
    """The printed choice of a server does not contain the named server's password."""
    provider = choose({"SPIRIT_PY_TEST_MYSQL": URL, "SPIRIT_PY_CACHE": str(tmp_path)})
    assert "p%40ss" not in str(provider)
    assert "p@ss" not in str(provider)


def test_a_container_is_chosen_before_a_local_mysqld(tmp_path: Path) -> None:
    """Where a Docker engine answers, a container is chosen over a mysqld on the PATH."""
    provider = choose(
        {"SPIRIT_PY_CACHE": str(tmp_path)},
        engine=engine(answers=True),
        on_path=path("/usr/sbin/mysqld"),
    )
    server = provider.make()
    assert isinstance(server, ContainerServer)
    assert server.image == "mysql:9"
    assert "a Docker engine answers" in str(provider)


def test_the_container_image_comes_from_the_environment(tmp_path: Path) -> None:
    """SPIRIT_PY_TEST_MYSQL_IMAGE names the version to test with."""
    provider = choose(
        {"SPIRIT_PY_TEST_MYSQL_IMAGE": "mysql:8.0", "SPIRIT_PY_CACHE": str(tmp_path)},
        engine=engine(answers=True),
    )
    server = provider.make()
    assert isinstance(server, ContainerServer)
    assert server.image == "mysql:8.0"


def test_a_mysqld_on_the_path_is_chosen_third(tmp_path: Path) -> None:
    """Without an engine, a mysqld on the PATH is used."""
    provider = choose(
        {"SPIRIT_PY_CACHE": str(tmp_path)},
        engine=engine(answers=False),
        on_path=path("/usr/sbin/mysqld"),
    )
    server = provider.make()
    assert isinstance(server, LocalServer)
    assert server.origin == "/usr/sbin/mysqld"


def test_debians_package_is_chosen_last_and_not_fetched_yet(tmp_path: Path) -> None:
    """With nothing else there, Debian's packages are chosen; choosing alone fetches nothing."""
    provider = choose(
        {"SPIRIT_PY_CACHE": str(tmp_path)}, engine=engine(answers=False), on_path=path(None)
    )
    assert "Debian's packages" in str(provider)
    assert "no Docker engine answers" in str(provider)
    assert not DebianMySQL(tmp_path / "mysql/debian").fetched


def test_a_server_that_outlives_its_starter_is_neither_named_nor_a_container(
    tmp_path: Path,
) -> None:
    """`start` leaves a server of its own behind, whatever else there is, and says why."""
    provider = choose(
        {"SPIRIT_PY_TEST_MYSQL": URL, "SPIRIT_PY_CACHE": str(tmp_path)},
        engine=engine(answers=True),
        on_path=path("/usr/sbin/mysqld"),
        outlives=True,
    )
    assert isinstance(provider.make(), LocalServer)
    assert "no Docker engine" not in str(provider)


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    """SPIRIT_PY_CACHE moves everything that is fetched or made once."""
    assert cache_folder({"SPIRIT_PY_CACHE": str(tmp_path)}) == tmp_path / "mysql"


def test_mariadb_is_not_taken_for_mysql(tmp_path: Path) -> None:
    """MariaDB installs a mysqld too; it is not taken."""
    program(tmp_path, "echo 'mysqld  Ver 10.11.19-MariaDB for debian-linux-gnu'")
    assert mysqld_on_path({"PATH": f"{tmp_path}:/bin"}) is None


def test_a_mysqld_that_does_not_run_is_not_taken(tmp_path: Path) -> None:
    """A mysqld that cannot even say its version is passed over."""
    program(tmp_path, "exit 127")
    assert mysqld_on_path({"PATH": f"{tmp_path}:/bin"}) is None


def test_a_mysqld_of_mysql_is_taken(tmp_path: Path) -> None:
    """MySQL's own mysqld is found."""
    script = program(tmp_path, "echo 'mysqld  Ver 8.4.3 for Linux on x86_64'")
    assert mysqld_on_path({"PATH": f"{tmp_path}:/bin"}) == script


def test_a_mysqld_that_apparmor_confines_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu's may write into its own folders only, and reports no more than that it may not."""
    mysqld = program(tmp_path, 'case "$*" in *--version) echo Ver 8.0 ;; *) exit 1 ;; esac')
    server = LocalServer(
        Installation(mysqld=(str(mysqld),), client=("mysql",)),
        origin="PATH",
        templates=tmp_path / "templates",
    )
    profiles = tmp_path / "profiles"
    monkeypatch.setattr("mysql_local.APPARMOR", profiles)
    with pytest.raises(ServerError) as found:
        server.start()
    assert "AppArmor" not in str(found.value)
    profiles.mkdir()
    (profiles / str(mysqld).strip("/").replace("/", ".")).touch()
    with pytest.raises(ServerError, match=f"aa-complain {mysqld}"):
        server.start()


@pytest.mark.smoke
@pytest.mark.parametrize("version", ["echo Ver 8.0", "exit 127"])
def test_a_mysqld_that_was_fetched_and_does_not_run_can_be_fetched_again(
    tmp_path: Path, version: str
) -> None:
    """A full disk or a killed fetch may have damaged it; `make clean` leaves a named cache."""
    place = tmp_path / "debian"
    place.mkdir()
    mysqld = program(place, f'case "$*" in *--version) {version} ;; *) exit 1 ;; esac')
    fetched = Installation(mysqld=(str(mysqld),), client=("mysql",))
    with pytest.raises(ServerError, match=f"remove {place},"):
        LocalServer(fetched, origin="Debian", templates=tmp_path).start()


@pytest.mark.parametrize("url", ["root@host", "http://u:p@h:1", "mysql://", "mysql://host:3306"])
def test_a_bad_url_is_refused_with_the_variable_and_the_form(url: str) -> None:
    """A named server that cannot be parsed is refused without repeating a possible password."""
    with pytest.raises(ServerError, match=r"THE_VARIABLE is not of the form mysql://user:") as info:
        NamedServer(url, variable="THE_VARIABLE")
    assert url not in str(info.value).replace("mysql://user:password@host:port", "")


@pytest.mark.parametrize("verb", ["restart", "kill", "resume"])
def test_a_named_server_is_never_started_or_stopped(verb: str) -> None:
    """A server that is only named is never restarted or killed."""
    server = NamedServer(URL, variable="SPIRIT_PY_TEST_MYSQL")
    with pytest.raises(ServerError, match="unset the variable"):
        getattr(server, verb)()
    server.stop()


class _Engine(StreamRequestHandler):
    def handle(self) -> None:
        """Answer one ping the way a Docker engine does."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")


def test_a_docker_engine_that_answers_is_found(tmp_path: Path) -> None:
    """An engine on the socket that DOCKER_HOST names is pinged for real."""
    socket = tmp_path / "s"
    with ThreadingUnixStreamServer(str(socket), _Engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            assert engine_answers({"DOCKER_HOST": f"unix://{socket}"})
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["unix:///nowhere/engine.sock", "tcp://127.0.0.1:1", "ssh://h"])
def test_a_docker_engine_that_does_not_answer_is_not_waited_for(host: str) -> None:
    """A client without an engine, or one that cannot be pinged, means no container."""
    assert not engine_answers({"DOCKER_HOST": host})


def test_a_failed_start_leaves_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """When MySQL in the container does not come up, the container is removed.

    Its port was open to this machine alone.
    """
    events: list[str] = []
    ports: dict[str, tuple[str, int]] = {}

    class Fake:
        def __init__(self, image: str) -> None:
            events.append(f"new {image}")
            self.ports = ports

        def get_docker_client(self) -> object:
            """Return a client of an engine on this machine, which is reached over its socket."""
            mode = SimpleNamespace(name="docker_host")
            return SimpleNamespace(get_connection_mode=lambda: mode, host=lambda: "localhost")

        def __getattr__(self, name: str):
            if name.startswith("with_"):
                return lambda *_: self
            raise AttributeError(name)

        def start(self) -> None:
            """Start."""
            events.append("start")

        def stop(self) -> None:
            """Stop."""
            events.append("stop")

        def get_container_host_ip(self) -> str:
            """Return an address."""
            return "localhost"

    def refuse(self: ContainerServer) -> None:
        message = f"no answer at {self.host}"
        raise ServerError(message)

    library = type("library", (), {"DockerContainer": Fake})
    errors = importlib.import_module("docker.errors")
    modules = {"docker.errors": errors, "testcontainers.core.container": library}
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    monkeypatch.setattr(ContainerServer, "await_greeting", refuse)
    with pytest.raises(ServerError, match=r"127\.0\.0\.1"):
        ContainerServer("mysql:8.4").start()
    assert events == ["new mysql:8.4", "start", "stop"]
    assert [place for place, _ in ports.values()] == ["127.0.0.1"]

    def no_such_image(self: Fake) -> None:
        raise errors.DockerException("no such image")

    monkeypatch.setattr(Fake, "start", no_such_image)
    with pytest.raises(ServerError, match="no such image"):
        ContainerServer("mysql:8.4").start()


def test_an_image_that_is_not_there_is_fetched_before_the_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each worker fetches it at once, within the time of a test."""
    pulled: list[str] = []
    docker = importlib.import_module("docker")

    def get(image: str) -> None:
        if image not in pulled:
            raise docker.errors.ImageNotFound("no such image")

    images = SimpleNamespace(get=get, pull=pulled.append)
    monkeypatch.setattr(docker, "from_env", lambda: SimpleNamespace(images=images))
    container = Provider(name="one", why="it is", make=lambda: ContainerServer("mysql:8.4"))
    monkeypatch.setattr(mysql_server, "choose", lambda: container)
    reaper = importlib.import_module("testcontainers.core.config").testcontainers_config
    monkeypatch.setattr(reaper, "ryuk_disabled", False)
    assert main(["fetch"]) == main(["fetch"]) == 0
    assert pulled == ["mysql:8.4", reaper.ryuk_image]

    def late(_: str) -> None:
        raise importlib.import_module("requests").ReadTimeout

    images.get = late
    assert main(["fetch"]) == 1
    monkeypatch.setitem(sys.modules, "docker", None)
    assert main(["fetch"]) == 1


@pytest.mark.parametrize("gtid", [True, False])
def test_server_options_set_gtids_and_put_extra_options_last(*, gtid: bool) -> None:
    """GTID mode is as asked, and an extra option stands after the default it overrides."""
    arguments = ServerOptions(gtid=gtid, extra=("--sync-binlog=1",)).arguments(7)
    assert f"--gtid-mode={'ON' if gtid else 'OFF'}" in arguments
    assert arguments.index("--sync-binlog=0") < arguments.index("--sync-binlog=1")


def test_a_server_waits_for_the_disk_unless_told_otherwise() -> None:
    """Benchmarks measure a server that is durable; the tests' servers need not be."""
    option = "--innodb-flush-method=nosync"
    assert option not in ServerOptions().arguments(7)
    assert option in ServerOptions(durable=False).arguments(7)


def test_a_closed_port_has_no_server_greeting() -> None:
    """A port without a listener is no server, and no error."""
    assert greeting("127.0.0.1", 1) is None


NOWHERE = Path("/nowhere")
DEB822 = """\
# A comment
Types: deb deb-src
URIs: https://mirror.example/debian/ https://other.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://vendor.example/apt
Suites: nodistro
Components: main
"""


def test_deb822_sources_are_read() -> None:
    """A `.sources` file gives one source per paragraph, with its first address and keyring."""
    first, second = parse_deb822(DEB822)
    assert first == AptSource(
        uri="https://mirror.example/debian/",
        suites=("bookworm", "bookworm-updates"),
        components=("main", "contrib"),
        options=(("Signed-By", "/usr/share/keyrings/debian-archive-keyring.gpg"),),
    )
    assert first.is_debian_main(NOWHERE)
    assert not second.is_debian_main(NOWHERE)


def test_disabled_and_source_only_paragraphs_are_passed_over() -> None:
    """`Enabled: no` and `Types: deb-src` give nothing to fetch from."""
    text = DEB822.replace("Types: deb deb-src", "Types: deb-src") + "Enabled: no\n"
    assert list(parse_deb822(text)) == []


def test_an_inline_key_is_kept_as_it_is() -> None:
    """A key written into the source is carried over with all its lines."""
    text = DEB822.split("\n\n", 1)[0].replace(
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----",
    )
    (source,) = parse_deb822(text)
    assert list(parse_deb822(source.deb822("sid", "amd64")))[0].options == source.options  # noqa: RUF015


ONE_LINE = """\
# deb https://commented.example/debian bookworm main
deb-src https://mirror.example/debian bookworm main
deb [signed-by=/k/vendor.gpg] https://vendor.example/apt sdk-bookworm main
deb [ arch=amd64 signed-by=/k/a.gpg,/k/debian-archive-b ] https://m.example/debian trixie main # why
deb https://mirror.example/debian-security bookworm-security main
"""


def test_one_line_sources_are_read() -> None:
    """A `sources.list` line gives its address, suite, components and keyrings."""
    assert debian_source(parse_one_line(ONE_LINE), NOWHERE) == AptSource(
        uri="https://m.example/debian",
        suites=("trixie",),
        components=("main",),
        options=(("Signed-By", "/k/a.gpg /k/debian-archive-b"),),
    )


def test_both_kinds_of_file_are_read_in_order(tmp_path: Path) -> None:
    """sources.list comes first, then sources.list.d by name; other files do not count."""
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb https://one.example/debian stable main\n")
    (parts / "b.list").write_text("deb https://three.example/debian stable main\n")
    (parts / "a.sources").write_text(DEB822)
    (parts / "c.list.save").write_text("deb https://saved.example/debian stable main\n")
    assert [source.uri for source in machine_sources(tmp_path)] == [
        "https://one.example/debian",
        "https://mirror.example/debian/",
        "https://vendor.example/apt",
        "https://three.example/debian",
    ]


def test_the_private_source_is_the_machines_own_with_another_suite() -> None:
    """What is fetched comes from the machine's archive and is checked with its keyring."""
    (source,) = parse_one_line(
        "deb [signed-by=/k/a.gpg] https://mirror.example/debian bookworm main contrib"
    )
    assert source.deb822("sid", "arm64") == (
        "Types: deb\n"
        "URIs: https://mirror.example/debian\n"
        "Suites: sid\n"
        "Components: main\n"
        "Architectures: arm64\n"
        "Signed-By: /k/a.gpg\n"
    )


def test_a_machine_without_debian_is_refused_with_what_to_do() -> None:
    """On a machine that is not Debian the message names the three other ways."""
    with pytest.raises(FetchError, match=r"install a mysqld, start a Docker engine, or name"):
        debian_source(parse_one_line("deb https://vendor.example/apt nodistro main"))


@pytest.mark.parametrize(
    "vendor",
    [
        "deb [arch=amd64] https://dl.vendor.example/linux/chrome/deb/ stable main",
        "deb [signed-by=/k/vendor.gpg] https://vendor.example/debian stable main",
        "deb https://packages.vendor.example/runner/debian bookworm main",
        "deb https://read.example/debian stable main",
    ],
)
def test_a_vendor_with_names_as_debians_is_not_taken_for_debian(
    vendor: str, tmp_path: Path
) -> None:
    """Its server would be asked for sid, and its packages be run as mysqld."""
    release = tmp_path / "read.example_debian_dists_stable_InRelease"
    release.write_text("-----BEGIN PGP SIGNED MESSAGE-----\n\nOrigin: Vendor\nLabel: Debian\n")
    debian = "deb https://mirror.example/debian bookworm main"
    found = debian_source(parse_one_line(f"{vendor}\n{debian}\n"), tmp_path)
    assert found.uri == "https://mirror.example/debian"


@pytest.mark.parametrize("kind", ["InRelease", "Release"])
def test_a_mirror_is_known_by_what_apt_has_read_from_it(kind: str, tmp_path: Path) -> None:
    """Wherever it is, and whoever has signed it."""
    line = "deb [signed-by=/k/own.gpg] http://u:p@mirror.example:8080/our_apt/deb trixie main"
    with pytest.raises(FetchError, match="once apt-get update has read it"):
        debian_source(parse_one_line(line), tmp_path)
    release = tmp_path / f"mirror.example:8080_our%5fapt_deb_dists_trixie_{kind}"
    release.write_text("Origin: Debian\nLabel: Debian\n")
    assert debian_source(parse_one_line(line), tmp_path).options == (("Signed-By", "/k/own.gpg"),)


MIRRORS = """\
deb http://vendor.example/apt stable main
deb http://gone.example/apt stable main
deb http://mirror.example/debian/packages stable main
"""


@pytest.mark.parametrize(
    ("origins", "chosen"),
    [
        ({"vendor": "Vendor", "mirror": "Debian"}, "mirror.example/debian/packages"),
        ({"vendor": "Vendor", "copy": "Our copy", "mirror": "Too"}, "copy.example/all"),
        ({"vendor": "Vendor"}, ""),
    ],
)
def test_sources_of_which_nothing_is_known_are_read_until_one_is_debians(
    origins: dict[str, str], chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image has no lists of apt; its mirror may have any place and key, and any origin."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/a.list").write_text(MIRRORS)
    copy = "Types: deb\nURIs: http://copy.example/all\nSuites: stable\nComponents: main\n"
    (tmp_path / "sources.list.d/debian.sources").write_text(copy)
    apt = tmp_path / "apt"
    for name in ("lists", "sources"):
        (apt / name).mkdir(parents=True)

    def asked() -> str:
        text = (apt / "sources/debian.sources").read_text()
        return re.findall(r"^URIs: http://(.*)$", text, re.MULTILINE)[0]

    def run(command: list[str]) -> str:
        if command[0] == "dpkg":
            return "amd64\n"
        origin = origins.get(asked().partition(".")[0])
        if origin is None:
            raise FetchError("no answer")
        (apt / "lists/some_dists_sid_InRelease").write_text(f"Origin: {origin}\n")
        return ""

    monkeypatch.setattr(mysql_debian, "_run", run)
    monkeypatch.setattr(mysql_debian, "LISTS", NOWHERE)
    debian = DebianMySQL(tmp_path / "mysql", etc_apt=tmp_path)
    if not chosen:
        with pytest.raises(FetchError, match="no answer"):
            debian._update(apt, ["apt-get", "update"])
        return
    debian._update(apt, ["apt-get", "update"])
    assert asked() == chosen


@pytest.mark.smoke
def test_the_client_of_a_folder_that_was_moved_is_in_the_new_place(tmp_path: Path) -> None:
    """As after the clone was renamed: its scripts named the old one."""
    for name in ("old", "new"):
        libraries = tmp_path / name / "root/usr/lib/x86_64-linux-gnu"
        if name == "old":
            libraries.mkdir(parents=True)
            (libraries / "ld-linux-x86-64.so.2").touch()
            (tmp_path / "old/complete").touch()
        else:
            (tmp_path / "old").rename(tmp_path / "new")
        (client,) = DebianMySQL(tmp_path / name).fetch().client
        assert str(libraries) in Path(client).read_text()


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of what is noted of the servers that outlive a command."""
    monkeypatch.setenv("SPIRIT_PY_CACHE", str(tmp_path))
    return cache_folder() / "servers"


@pytest.mark.smoke
def test_a_half_written_note_is_of_no_server(servers: Path) -> None:
    """As after a full disk; each command ended with a traceback, stop too."""
    servers.mkdir()
    (servers / "default.json").write_text('{"pid": "1')
    assert main(["status"]) == 1
    assert main(["stop"]) == 0
    assert not (servers / "default.json").exists()


@pytest.mark.smoke
def test_the_folder_of_a_server_that_a_reboot_ended_is_removed(
    servers: Path, tmp_path: Path
) -> None:
    """It has the data and the log."""
    home = tmp_path / "home"
    home.mkdir()
    servers.mkdir()
    (servers / "default.json").write_text(json.dumps({"pid": "999999999", "home": str(home)}))
    assert main(["stop"]) == 0
    assert not home.exists()


@pytest.mark.smoke
def test_the_folder_of_a_server_that_answers_stays(servers: Path, tmp_path: Path) -> None:
    """As of one in another container with the same cache, where its process cannot be seen."""
    servers.mkdir()
    (servers / "default.json").write_text(json.dumps({"pid": "999999999", "home": str(tmp_path)}))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert main(["stop"]) == 0
        assert (tmp_path / "s").exists()


@pytest.mark.smoke
def test_a_server_that_cannot_be_noted_is_stopped(
    servers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run for ever; and it is started under a lock, so that another one waits."""
    done: list[str] = []

    class Server(LocalServer):
        def start(self, options: ServerOptions | None = None) -> None:
            with (servers / "default.lock").open("a") as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            done.append("start")

        def stop(self) -> None:
            done.append("stop")

    nothing = Installation(mysqld=("false",), client=("false",))
    made = Server(nothing, origin="the test", templates=servers)
    provider = Provider(name="the test", why="it is one", make=lambda: made)
    monkeypatch.setattr(mysql_server, "choose", lambda **_: provider)
    # It answers nowhere, so it has no version.
    assert main(["start"]) == 1
    assert done == ["start", "stop"]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("words", "said"),
    [((), "required: words"), (("--",), "required: words"), (("nosuch",), "directory: 'nosuch'")],
)
def test_a_command_that_cannot_be_run_is_said_in_a_line(
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A traceback was above it."""
    nobody = SimpleNamespace(start=lambda _: None, stop=lambda: None, url="", password="")
    provider = Provider(name="the test", why="it is one", make=lambda: cast("Any", nobody))
    monkeypatch.setattr(mysql_server, "choose", lambda: provider)
    monkeypatch.setattr(mysql_server, "end_on_sigterm", lambda: None)
    try:
        code: object = main(["run", *words])
    except SystemExit as ended:
        code = ended.code
    assert code in {1, 2}
    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.smoke
def test_a_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As below a folder of another account's."""
    (tmp_path / "cache").touch()
    monkeypatch.setenv("SPIRIT_PY_CACHE", str(tmp_path / "cache"))
    assert main(["start"]) == 1
    assert f"'{tmp_path}/cache" in capsys.readouterr().err


def test_a_command_that_passes_its_end_over_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an interactive shell does; the server and its folder stayed until it was left."""
    nobody = SimpleNamespace(start=lambda _: None, stop=lambda: None, url="", password="")
    provider = Provider(name="the test", why="it is one", make=lambda: cast("Any", nobody))
    monkeypatch.setattr(mysql_server, "choose", lambda: provider)
    monkeypatch.setattr(mysql_server, "CLEANUP_TIMEOUT", 0.0)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
            main(["run", "--", "sh", "-c", "trap '' TERM; kill $PPID; exec sleep infinity"])
    finally:
        signal.signal(signal.SIGTERM, before)

"""MySQL from Debian's own packages, unpacked into a folder and run from there.

Debian stable ships no MySQL, the unstable suite does. The packages are fetched
with a private apt state (own source list, lists, status and cache), so nothing
on the machine changes and no root is needed, and they bring their own C library,
so the machine may be older than they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUITE = "sid"
PACKAGES = ("mysql-server-core", "mysql-client-core")
CLIENT_PROGRAMS = ("mysql", "mysqladmin", "mysqlbinlog", "mysqldump")
DEBIAN_SUITES = frozenset(
    {"stable", "oldstable", "testing", "unstable", "sid", "bookworm", "trixie", "forky", "duke"}
)

#: Where apt keeps what it has fetched about each archive.
LISTS = Path("/var/lib/apt/lists")

OTHER_WAYS = "install a mysqld, start a Docker engine, or name a server in SPIRIT_PY_TEST_MYSQL"

# The machine's apt hooks (cleaning its cache, notifying its desktop) must not run here.
APT_CONF = """\
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
"""


class FetchError(RuntimeError):
    """MySQL could not be fetched from Debian; the message names the alternatives."""


@dataclass(frozen=True, kw_only=True)
class AptSource:
    """One `deb` source of the machine, as far as a private fetch needs it."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    of_system: bool = False

    def is_debian_main(self, lists: Path) -> bool | None:
        """Whether this is Debian's main archive, not a security or vendor source; None: perhaps.

        Vendors name their suites and components as Debian does, and some their folder. What apt has
        fetched says whose it is; before that Debian's keyring does, or where no key is named, the
        place of a usual mirror.
        """
        if "main" not in self.components or not DEBIAN_SUITES.intersection(self.suites):
            return False
        if releases := [text for suite in self.suites for text in self._releases(lists, suite)]:
            return any(map(_BY_DEBIAN.search, releases))
        if keys := dict(self.options).get("Signed-By"):
            named = any(Path(key).name.startswith("debian-archive-") for key in keys.split())
        else:
            named = urlsplit(self.uri).path.strip("/") == "debian"
        return named or None

    def _releases(self, lists: Path, suite: str) -> Iterator[str]:
        """Yield what apt has last fetched about a suite, under the name that it gives to that."""
        parts = urlsplit(self.uri)
        place = f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/dists/{suite}/"
        name = re.sub(r'[\\|{}\[\]<>"^~_=!@#$%&*]', lambda found: f"%{ord(found[0]):02x}", place)
        for kind in ("InRelease", "Release"):
            with contextlib.suppress(OSError):
                yield (lists / f"{name}{kind}".replace("/", "_")).read_text()

    def deb822(self, suite: str, architecture: str) -> str:
        """Return this source as a deb822 paragraph for another suite."""
        fields = [
            ("Types", "deb"),
            ("URIs", self.uri),
            ("Suites", suite),
            ("Components", "main"),
            ("Architectures", architecture),
            *self.options,
        ]
        return "".join(f"{name}: {value}\n" for name, value in fields)


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A MySQL that can be run: the command prefixes for the server and its client."""

    mysqld: tuple[str, ...]
    client: tuple[str, ...]


_BY_DEBIAN = re.compile(r"^Origin: Debian$", re.MULTILINE)
KEPT_OPTIONS = {
    "signed-by": "Signed-By",
    "trusted": "Trusted",
    "check-valid-until": "Check-Valid-Until",
}


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the enabled `deb` sources of a `.sources` file."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1].isspace() and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").lower() in {"no", "false", "0"}:
            continue
        uris = fields.get("uris", "").split()
        if "deb" in fields.get("types", "").split() and uris:
            yield AptSource(
                uri=uris[0],
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                options=tuple(
                    (title, fields[key]) for key, title in KEPT_OPTIONS.items() if key in fields
                ),
            )


ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<rest>.*)$"
)


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Yield the `deb` sources of a `sources.list` file."""
    for line in text.splitlines():
        match = ONE_LINE.match(line.partition("#")[0].strip())
        if match is None:
            continue
        given = dict(
            word.partition("=")[::2] for word in (match["options"] or "").split() if "=" in word
        )
        yield AptSource(
            uri=match["uri"],
            suites=(match["suite"],),
            components=tuple(match["rest"].split()),
            options=tuple(
                (title, given[key].replace(",", " "))
                for key, title in KEPT_OPTIONS.items()
                if key in given
            ),
        )


def machine_sources(etc_apt: Path) -> Iterator[AptSource]:
    """Yield the apt sources of the machine: those of the system, then apt's order of reading."""
    parts = etc_apt / "sources.list.d"
    system = [etc_apt / "sources.list", parts / "debian.sources"]
    others = sorted(parts.iterdir()) if parts.is_dir() else []
    for file in (*system, *(one for one in others if one not in system)):
        parse = {".sources": parse_deb822, ".list": parse_one_line}.get(file.suffix)
        if parse is not None and file.is_file():
            for source in parse(file.read_text()):
                yield replace(source, of_system=file in system)


def debian_sources(sources: Iterable[AptSource], lists: Path = LISTS) -> list[AptSource]:
    """Return the first Debian main source; where none is known for one, all that may be one."""
    known = [(source, source.is_debian_main(lists)) for source in sources]
    sure = [source for source, is_one in known if is_one]
    return sure[:1] or [source for source, is_one in known if is_one is None]


def debian_source(sources: Iterable[AptSource], lists: Path = LISTS) -> AptSource:
    """Return the first Debian main source, or raise if none is known for one."""
    for source in debian_sources(sources, lists):
        if source.is_debian_main(lists):
            return source
    raise no_archive()


def no_archive() -> FetchError:
    """Return the error about a machine without a source of Debian."""
    message = (
        "no Debian main archive among this machine's apt sources, so MySQL cannot be fetched from "
        f"Debian: {OTHER_WAYS}; a mirror with a place or a key of its own is known for Debian once"
        " apt-get update has read it"
    )
    return FetchError(message)


class DebianMySQL:
    """Debian's MySQL in one folder: fetched once, then run from there."""

    def __init__(self, folder: Path, *, etc_apt: Path = Path("/etc/apt")) -> None:
        """Use `folder` for the packages; nothing is fetched yet."""
        self.folder = folder
        self.root = folder / "root"
        self.etc_apt = etc_apt

    @property
    def fetched(self) -> bool:
        """Whether the packages are unpacked and complete."""
        return (self.folder / "complete").is_file()

    def fetch(self) -> Installation:
        """Fetch and unpack the packages unless they are there, and return how to run them."""
        if not self.fetched:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._unpack(self._download())
            shutil.rmtree(self.folder / "apt")
            (self.folder / "complete").touch()
        # They name this folder, which may have been moved since it was filled.
        self._write_wrappers()
        return self.installation()

    def installation(self) -> Installation:
        """Return the commands that run this folder's server and client."""
        share = self.root / "usr/share/mysql"
        mysqld = (
            *self._loader("usr/sbin/mysqld"),
            "--no-defaults",
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
        )
        return Installation(mysqld=mysqld, client=(str(self.folder / "bin" / "mysql"),))

    def _loader(self, program: str) -> tuple[str, ...]:
        libraries = sorted((self.root / "usr/lib").glob("*-linux-gnu*"))
        loaders = [loader for folder in libraries for loader in folder.glob("ld-linux*.so.*")]
        if not loaders:
            message = f"no dynamic loader under {self.root}: remove {self.folder} to fetch it again"
            raise FetchError(message)
        path = ":".join(str(folder) for folder in libraries)
        return (str(loaders[0]), "--library-path", path, str(self.root / program))

    def _download(self) -> list[Path]:
        apt = self.folder / "apt"
        for sub in ("lists/partial", "cache/archives/partial", "sources"):
            (apt / sub).mkdir(parents=True)
        (apt / "status").touch()
        (apt / "apt.conf").write_text(APT_CONF)
        command = [
            "apt-get",
            f"-c={apt / 'apt.conf'}",
            *(
                word
                for option in (
                    f"Dir::State={apt}",
                    f"Dir::State::lists={apt / 'lists'}",
                    f"Dir::State::status={apt / 'status'}",
                    f"Dir::Cache={apt / 'cache'}",
                    "Dir::Etc::sourcelist=/dev/null",
                    f"Dir::Etc::sourceparts={apt / 'sources'}",
                    # The machine's pins and its release are about its own packages.
                    "Dir::Etc::preferences=/dev/null",
                    "Dir::Etc::preferencesparts=/dev/null",
                    "APT::Default-Release=",
                    "APT::Sandbox::User=root",
                    "APT::Get::Assume-Yes=true",
                    "APT::Install-Recommends=false",
                    "Acquire::Languages=none",
                    "Acquire::Retries=3",
                )
                for word in ("-o", option)
            ),
        ]
        self._update(apt, [*command, "update", "--error-on=any"])
        _run_twice([*command, "install", "--download-only", *PACKAGES])
        return sorted((apt / "cache/archives").glob("*.deb"))

    def _update(self, apt: Path, command: list[str]) -> None:
        """Read what the machine's Debian archive has.

        Where nothing tells yet which source is one, each is read until one says so; after them all
        it is the first of the system's own, which may be a copy under another name.
        """
        architecture = _run(["dpkg", "--print-architecture"]).strip()

        def read(source: AptSource) -> bool:
            (apt / "sources/debian.sources").write_text(source.deb822(SUITE, architecture))
            for old in (apt / "lists").glob("*Release"):
                old.unlink()
            _run_twice(command)
            found = [one.read_text() for one in (apt / "lists").glob("*Release")]
            return any(map(_BY_DEBIAN.search, found))

        failure, readable = no_archive(), []
        for source in debian_sources(machine_sources(self.etc_apt)):
            sure = source.is_debian_main(LISTS)
            try:
                if read(source) or sure:
                    return
                readable.append(source)
            except FetchError as error:
                failure = error
        own = [source for source in readable if source.of_system]
        if not own:
            raise failure
        read(own[0])

    def _unpack(self, packages: list[Path]) -> None:
        self.root.mkdir()
        for package in packages:
            # Perl is needed only by the client's helper scripts, which are not used here.
            if "perl" not in package.name:
                _run(["dpkg", "-x", str(package), str(self.root)])

    def _write_wrappers(self) -> None:
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name in CLIENT_PROGRAMS:
            words = self._loader(f"usr/bin/{name}")
            charsets = f"--character-sets-dir={self.root / 'usr/share/mysql/charsets'}"
            script = folder / name
            text = (
                f'#!/bin/sh\nexec {shlex.join(words)} --no-defaults {shlex.quote(charsets)} "$@"\n'
            )
            if not script.is_file() or script.read_text() != text:
                # Somebody may be running the old one.
                new = script.with_suffix(".new")
                new.write_text(text)
                new.chmod(0o755)
                new.replace(script)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            check=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
    except FileNotFoundError as error:
        message = f"{command[0]} is not on this machine, which seems not to be Debian: {OTHER_WAYS}"
        raise FetchError(message) from error
    except subprocess.CalledProcessError as error:
        tail = "\n".join(error.stdout.strip().splitlines()[-15:])
        message = (
            f"{shlex.join(command)} failed with status {error.returncode}:\n{tail}\n"
            f"MySQL was not fetched from Debian: repair this machine's apt, or {OTHER_WAYS}"
        )
        raise FetchError(message) from error
    return done.stdout


def _run_twice(command: list[str]) -> str:
    try:
        return _run(command)
    except FetchError:
        return _run(command)

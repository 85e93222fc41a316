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
from dataclasses import dataclass
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

    def is_debian_main(self, lists: Path) -> bool:
        """Whether this is Debian's main archive, not a security or vendor source.

        Vendors name their suites and components as Debian does, and some their folder. What apt has
        fetched says whose it is; before that Debian's keyring does, or where no key is named, the
        place of a usual mirror.
        """
        if "main" not in self.components or not DEBIAN_SUITES.intersection(self.suites):
            return False
        if releases := [text for suite in self.suites for text in self._releases(lists, suite)]:
            return any(re.search(r"^Origin: Debian$", text, re.MULTILINE) for text in releases)
        if keys := dict(self.options).get("Signed-By"):
            return any(Path(key).name.startswith("debian-archive-") for key in keys.split())
        return urlsplit(self.uri).path.strip("/") == "debian"

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
    """Yield the apt sources of the machine, in apt's order of reading."""
    parts = etc_apt / "sources.list.d"
    files = [etc_apt / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())]
    for file in files:
        if not file.is_file():
            continue
        if file.suffix == ".sources":
            yield from parse_deb822(file.read_text())
        elif file.suffix == ".list":
            yield from parse_one_line(file.read_text())


def debian_source(sources: Iterable[AptSource], lists: Path = LISTS) -> AptSource:
    """Return the first Debian main source, or raise if there is none."""
    for source in sources:
        if source.is_debian_main(lists):
            return source
    message = (
        "no Debian main archive among this machine's apt sources, so MySQL cannot be fetched from "
        f"Debian: {OTHER_WAYS}; a mirror with a place or a key of its own is known for Debian once"
        " apt-get update has read it"
    )
    raise FetchError(message)


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
            self._write_wrappers()
            shutil.rmtree(self.folder / "apt")
            (self.folder / "complete").touch()
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
        architecture = _run(["dpkg", "--print-architecture"]).strip()
        source = debian_source(machine_sources(self.etc_apt))
        (apt / "sources/debian.sources").write_text(source.deb822(SUITE, architecture))
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
                    "APT::Sandbox::User=root",
                    "APT::Get::Assume-Yes=true",
                    "APT::Install-Recommends=false",
                    "Acquire::Languages=none",
                    "Acquire::Retries=3",
                )
                for word in ("-o", option)
            ),
        ]
        for step in (["update", "--error-on=any"], ["install", "--download-only", *PACKAGES]):
            _run_twice([*command, *step])
        return sorted((apt / "cache/archives").glob("*.deb"))

    def _unpack(self, packages: list[Path]) -> None:
        self.root.mkdir()
        for package in packages:
            # Perl is needed only by the client's helper scripts, which are not used here.
            if "perl" not in package.name:
                _run(["dpkg", "-x", str(package), str(self.root)])

    def _write_wrappers(self) -> None:
        folder = self.folder / "bin"
        folder.mkdir()
        for name in CLIENT_PROGRAMS:
            words = self._loader(f"usr/bin/{name}")
            charsets = f"--character-sets-dir={self.root / 'usr/share/mysql/charsets'}"
            script = folder / name
            script.write_text(
                f'#!/bin/sh\nexec {shlex.join(words)} --no-defaults {shlex.quote(charsets)} "$@"\n'
            )
            script.chmod(0o755)


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

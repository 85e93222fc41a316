"""The list of servers: TOML, or one URL a line with its labels; from a file, or from a command.

::

    [[server]]                                 mysql://db1:3306/shop_1 name=shop-1 region=eu
    name = "shop-1"                            mysql://db2:3306/shop_2 name=shop-2 region=us
    host = "db1:3306"
    database = "shop_1"
    labels = {region = "eu"}

Who may write the list decides which servers get the account's password (R26).
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass, field
from spirit_py.errors import UsageFault
from spirit_py.hooks import output_of
from spirit_py.mysql.option_files import read_dsn
from spirit_py.records import everybody_may_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Of an entry, and the option of the command line that it stands for.
_OPTIONS: Final = {
    "dsn": "dsn",
    "host": "host",
    "port": "port",
    "socket": "socket",
    "user": "user",
    "database": "database",
    "login_path": "login_path",
    "group_suffix": "defaults_group_suffix",
    "replicas": "replicas",
}
#: In a line they are no labels.
_OWN: Final = ("name", "login_path", "group_suffix")
#: Dots alone would be the folder of all archives, or the one above it.
_NAME: Final = re.compile(r"(?!\.+\Z)[\w.:\[\]/@-]{1,100}", re.ASCII)
_LABEL: Final = re.compile(r"[\w.-]{1,63}", re.ASCII)
_LARGEST: Final = 16 << 20
_SECONDS: Final = 60.0
_EXAMPLE: Final = "write for instance mysql://db1:3306/shop name=shop-1 region=eu"


@dataclass(frozen=True, kw_only=True)
class Server:
    """One entry: ``options`` are those of the command line that reach it, by their names."""

    name: str
    options: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        """The schema that the entry names; empty for none."""
        return _schema(self.options)


def of_file(path: Path) -> tuple[Server, ...]:
    """Read a list; UsageFault where it cannot be read, or others may write it."""
    try:
        mode, size = path.stat().st_mode, path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= _LARGEST else ""
    except (OSError, ValueError) as error:
        raise UsageFault(
            f"the list of servers cannot be read: {error}", hint="name a file of text in UTF-8"
        ) from None
    if size > _LARGEST:
        raise UsageFault(f"{path} is larger than {_LARGEST >> 20} MiB", hint="part it into several")
    if everybody_may_write(path):
        raise UsageFault(
            f"the list of servers {path} is world-writable, and it decides who gets the password",
            hint=f"chmod o-w {path}",
        )
    servers = read_servers(text, str(path))
    secret = any("password" in one.options.get("dsn", {}) for one in servers)
    if secret and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        raise UsageFault(
            f"{path} holds a password, and other users of this machine may read it",
            hint=f"chmod 600 {path}, or write the account into an option file or a login path",
        )
    return servers


def of_command(command: str) -> tuple[Server, ...]:
    """Run a command, and read what it prints; UsageFault where it fails."""
    try:
        code, output, in_time = output_of(command, seconds=_SECONDS, most=_LARGEST + 1)
    except OSError as error:
        raise _failed(str(error)) from None
    if not in_time:
        raise _failed(f"it took longer than {_SECONDS:.0f} s")
    if len(output) > _LARGEST:
        raise _failed(f"it printed more than {_LARGEST >> 20} MiB")
    if code:
        raise _failed(f"it ended with exit code {code}")
    try:
        text = output.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _failed(str(error)) from None
    return read_servers(text, "the output of --servers-from")


def _failed(why: str) -> UsageFault:
    return UsageFault(
        f"--servers-from gave no list of servers: {why}",
        hint="run the command alone, and see what it prints",
    )


def read_servers(text: str, origin: str) -> tuple[Server, ...]:
    """Read the entries of a list; raises UsageFault with the place of what is wrong."""
    toml = any(line.lstrip().startswith("[") for line in text.splitlines())
    servers = tuple(_of_toml(text, origin) if toml else _of_lines(text, origin))
    if not servers:
        raise UsageFault(f"{origin} names no server", hint=_EXAMPLE)
    counts = Counter(one.name for one in servers)
    if twice := next((name for name, count in counts.items() if count > 1), ""):
        raise UsageFault(
            f"{origin} has two servers of the name {twice}", hint="give each a name of its own"
        )
    return servers


def _of_lines(text: str, origin: str) -> Iterator[Server]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        entry: dict[str, Any] = {"dsn": words[0], "labels": {}}
        for at, word in enumerate(words[1:], 2):
            name, equals, value = word.partition("=")
            if not equals:
                # A part of a password with a space in it may be such a word.
                place = f"{origin}, line {number}"
                raise UsageFault(f"{place}: word {at} is no label", hint=_EXAMPLE)
            if name in _OPTIONS and name not in _OWN:
                raise UsageFault(
                    f"{origin}, line {number}: {name} is no label",
                    hint="host, port, user and schema are parts of the URL; write the list as TOML"
                    " for the others",
                )
            holder = entry if name in _OWN else entry["labels"]
            holder[name] = value
        yield _server(entry, f"{origin}, line {number}")


def _of_toml(text: str, origin: str) -> Iterator[Server]:
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageFault(f"{origin} is no TOML: {error}", hint="see docs/fleet.md") from None
    entries = found.pop("server", [])
    if found or not isinstance(entries, list):
        raise UsageFault(
            f"{origin} has more than servers: {', '.join(found) or 'server'}",
            hint="each server is a table [[server]]",
        )
    for number, entry in enumerate(entries, 1):
        yield _server(entry, f"{origin}, server {number}")


def _server(entry: Any, place: str) -> Server:
    if not isinstance(entry, dict):
        raise UsageFault(f"{place} is no table", hint="each server is a table [[server]]")
    labels = entry.pop("labels", {})
    if not isinstance(labels, dict):
        raise UsageFault(f"{place}: labels are no table", hint='labels = {region = "eu"}')
    for name, value in labels.items():
        # The value is not shown: it may be a part of a password with a space in it.
        if not _LABEL.fullmatch(name) or not _LABEL.fullmatch(str(value)):
            raise UsageFault(
                f"{place}: the label {name}, or its value, has other characters than letters,"
                " digits, dot, dash and underscore",
                hint="choose another name or value",
            )
    named = entry.pop("name", None)
    if unknown := [name for name in entry if name not in _OPTIONS]:
        raise UsageFault(
            f"{place}: there is no {unknown[0]} of a server",
            hint=f"name, labels, {', '.join(_OPTIONS)}; what holds for all is an option",
        )
    options = {_OPTIONS[name]: _value(name, value, place) for name, value in entry.items()}
    name = str(named) if named is not None else _address(options)
    if not _NAME.fullmatch(name):
        raise UsageFault(
            f"{place}: {name!r} is no name of a server: it may have letters, digits and ._:/@[]-,"
            " and is not of dots alone",
            hint="give it a name",
        )
    return Server(name=name, options=options, labels={key: str(of) for key, of in labels.items()})


def _value(name: str, value: Any, place: str) -> Any:
    if name == "replicas":
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise UsageFault(f"{place}: replicas are no list", hint='replicas = ["db1b:3306"]')
        return tuple(value)
    if name == "port":
        if type(value) is not int or not 0 < value <= 65535:
            raise UsageFault(f"{place}: {value!r} is no port", hint="write a number")
        return value
    if not isinstance(value, str):
        raise UsageFault(f"{place}: {name} is no text", hint="write it in quotes")
    if name != "dsn":
        return value
    try:
        return read_dsn(value)
    except UsageFault as fault:
        raise UsageFault(f"{place}: {fault.message.removeprefix('--dsn ')}", hint=fault.hint) from (
            None
        )


def _address(options: Mapping[str, Any]) -> str:
    """Return how a server without a name is called: by its address, and its schema."""
    url = options.get("dsn", {})
    host = options.get("host") or url.get("host") or options.get("socket") or "localhost"
    port = options.get("port") or url.get("port")
    schema = _schema(options)
    return "".join((host, f":{port}" if port else "", f"/{schema}" if schema else ""))


def _schema(options: Mapping[str, Any]) -> str:
    return str(options.get("database") or options.get("dsn", {}).get("database") or "")

"""How the values of options are read: click types, and checks over several options."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from spirit_py.cli.configfile import is_of_file, is_set_by, is_typed, weight_of
from spirit_py.config import LOCALHOST, MigrationConfig
from spirit_py.errors import UsageFault
from spirit_py.units import (
    MAX_PORT,
    host_and_port,
    parse_windows,
    read_duration,
    read_limits,
    read_size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.config import ConnectionOptions

V = TypeVar("V")

_TLS = ("ssl_mode", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
_SERVER = ("host", "user", "socket", *_TLS)
#: An unset variable of a shell would lead elsewhere, or take a protection away.
NOT_EMPTY: Final = (
    *("servers_from", "on_replica", "throttle_http", "throttle_query", *_SERVER),
    *(f"target_{name}" for name in _SERVER),
)


class WholeRange(click.IntRange):
    """A range of whole numbers; TOML and Python have others, of which none is made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number, which must be whole."""
        if isinstance(value, bool | float):
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return int(super().convert(number, param, ctx))


class FiniteRange(click.FloatRange):
    """A range of floats that ``nan`` is not in: it compares with no bound."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number, which must be finite."""
        if isinstance(value, bool):
            self.fail(f"{value} is not a number.", param, ctx)
        try:
            number = self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        except OverflowError:
            self.fail("the number is too large.", param, ctx)
        number = float(super().convert(number, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number

    def read(self, value: Any) -> float:
        """Return the number; raises ValueError with the reason."""
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a number.") from None


class SecondsRange(FiniteRange):
    """A range of durations, as :class:`Duration` reads them."""

    name = "duration"

    def read(self, value: Any) -> float:
        """Return the seconds; raises ValueError with the reason."""
        try:
            return float(value)
        except ValueError:
            return read_duration(str(value))


class ReadType(click.ParamType[V]):
    """A type whose texts a function reads; it raises ValueError or UsageFault with the reason."""

    def __init__(self, name: str, read: Callable[[Any], V]) -> None:
        self.name = name
        self.read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> V:
        """Return the value of a text."""
        try:
            return self.read(value)
        except UsageFault as fault:
            self.fail(f"{fault.message}: {fault.hint}.", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(ReadType[float]):
    """Seconds, as a number or with a unit: ``90``, ``90s``, ``200ms``, ``30m``, ``2h``, ``7d``.

    ``least`` is the shortest that is accepted; ``never`` reads this word as infinity.
    """

    def __init__(self, *, least: float = 0.0, never: bool = False) -> None:
        super().__init__("duration|never" if never else "duration", self._seconds)
        self._least = least
        self._never = never

    def _seconds(self, value: Any) -> float:
        if self._never and value in {"never", math.inf}:
            return math.inf
        if not isinstance(value, float):
            seconds = self._read(str(value))
        elif math.isfinite(value):
            seconds = value
        else:
            raise ValueError(f"{value} is no duration.")
        if seconds < self._least:
            raise ValueError(f"{value} is shorter than {self._least:g} s.")
        return seconds

    def _read(self, text: str) -> float:
        try:
            return read_duration(text)
        except ValueError as error:
            if self._never:
                raise ValueError(f"{str(error).removesuffix('.')}, or never.") from None
            raise


def _read_once(read: Callable[[str], Any], already: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, already) else read(str(value))


def _url(value: Any) -> str:
    """Read a URL; what is wrong with it is never repeated: it may hold a password."""
    if not value:
        return ""
    try:
        parts = urlsplit(str(value))
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("write a URL such as http://throttle.example:8080/check.")
    return str(value)


def _address(value: Any) -> tuple[str, int] | None:
    if not value or isinstance(value, tuple):
        return value or None
    host, colon, port = str(value).rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    valid = port.isascii() and port.isdecimal()
    if valid and int(port) > MAX_PORT:
        raise ValueError(f"a port is at most {MAX_PORT}.")
    if not colon or not valid or (":" in host and not bracketed):
        raise ValueError("write host:port, :port or [IPv6 address]:port.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _dsn(value: Any) -> dict[str, str]:
    from spirit_py.mysql.option_files import read_dsn

    if isinstance(value, dict):
        return value
    return read_dsn(str(value)) if value else {}


def _limits(text: str) -> tuple[tuple[str, float], ...]:
    found = read_limits(text)
    if not found:
        raise ValueError("it is empty, and would be no limit; write such as Threads_running=25.")
    return found


_PART: Final = r"(?:`((?:[^`]|``)+)`|([^.`]+))"


def _table(value: Any) -> tuple[str, str]:
    found = re.fullmatch(rf"{_PART}\.{_PART}", str(value))
    if found is None:
        raise ValueError(f"{value!r} is not a table with its schema, such as percona.checksums.")
    quoted, plain, table, bare = (part or "" for part in found.groups())
    return (quoted.replace("``", "`") or plain, table.replace("``", "`") or bare)


ADDRESS: Final = ReadType("host:port", _address)
DSN: Final = ReadType("url", _dsn)
LIMITS: Final = ReadType("name=value,...", _read_once(_limits, tuple))
SIZE: Final = ReadType("size", lambda value: read_size(str(value)))
TABLE: Final = ReadType("schema.table", _table)
URL: Final = ReadType("url", _url)
WINDOWS: Final = ReadType("windows", _read_once(parse_windows, tuple))


def complete(options: dict[str, Any]) -> None:
    """Check the texts of options, and enter the URL's schema where none is named."""
    _refuse_undecodable(options)
    for name in NOT_EMPTY:
        if options.get(name) == "" and is_typed(name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageFault(f"{flag} is empty", hint=f"give a value, or leave {flag} out")
    named, of_url = options["database"], options["dsn"].get("database", "")
    if named and of_url and named != of_url and is_of_file("database"):
        named = ""
    if named and of_url and named != of_url:
        raise UsageFault(
            f"two schemas: {named} in --database and {of_url} in --dsn",
            hint="leave one of them out",
        )
    options["database"] = named or of_url


def missing(options: dict[str, Any]) -> str:
    """Return which of the options that name a table are missing, as a sentence; empty for none."""
    names = [f"--{name}" for name in ("database", "table") if not options[name]]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing" if names else ""


def _refuse_undecodable(options: dict[str, Any]) -> None:
    """Refuse bytes that are no text here (lone surrogates), without naming the value."""
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and any("\ud800" <= mark <= "\udfff" for mark in text):
                option_name = {"position": "from"}.get(name, name).replace("_", "-")
                raise UsageFault(
                    f"--{option_name} holds bytes that are not text in this locale's encoding",
                    hint="write it in UTF-8 and run under a UTF-8 locale, such as LC_ALL=C.UTF-8",
                )


def named_alike(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration's fields by options of their names, where given."""
    values = {
        each.name: options[each.name]
        for each in dataclasses.fields(kind)
        if options.get(each.name) is not None
    }
    if "threads" in options:
        values["threads"] = _threads(kind, options["threads"], options["spark_master"])
        values["spark_conf"] = tuple(_key_value(text) for text in options["spark_conf"])
    return values


def connection_of(options: dict[str, Any]) -> ConnectionOptions:
    """Join the connection options of the command line with a URL and the option files."""
    from spirit_py.mysql.option_files import DefaultsOptions, connection_options, read_defaults

    stored = read_defaults(
        DefaultsOptions(
            file=options["defaults_file"],
            extra=options["defaults_extra_file"],
            usual=not options["no_defaults"],
            suffix=options["defaults_group_suffix"],
            login_path=options["login_path"],
        )
    )
    url = {name: value for name, value in options["dsn"].items() if name != "database"}
    if url.get("host"):
        stored.pop("socket", None)
    elif url.get("socket"):
        stored.pop("host", None)
    if url.get("socket"):
        stored.pop("protocol", None)
    given = given_server(_without_lower(options, url))
    if given["host"] and _is_another(given["host"], url):
        if weight_of("host") == weight_of("dsn"):
            wrong = "two hosts" if "host" in url else "two servers"
            of_url = url.get("host") or "the socket"
            raise UsageFault(
                f"{wrong}: {given['host']} in {_named('host')} and {of_url} in {_named('dsn')}",
                hint="leave one of them out",
            )
        for name in ("host", "port", "socket"):
            url.pop(name, None)
    if url.get("host", LOCALHOST) != LOCALHOST:
        _drop_socket(given, "--dsn", weight_of("dsn"))
    # As in MySQL's own programs, where it counts least.
    if "password" in stored | url and is_set_by("password", "MYSQL_PWD"):
        given["password"] = None
    if given["user"] is None and "user" not in stored | url:
        given["user"] = _own_name()
    return connection_options(stored | url, given)


def _own_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # As in a container whose account has a number alone.
        raise UsageFault(
            "no user is given, and the account of this process has no name",
            hint="name one with --user, or in an option file",
        ) from None


def _is_another(host: str, url: Mapping[str, str]) -> bool:
    """Return whether a host is not that of a URL; a socket alone is of this machine."""
    of_url = url.get("host") or (LOCALHOST if url.get("socket") else host)
    return host.lower() != of_url.lower()


def _without_lower(options: dict[str, Any], url: Mapping[str, str]) -> dict[str, Any]:
    """Leave out what counts less than the URL, of what that names itself.

    Account and TLS of the environment count more than any URL; a URL with a socket on this machine
    needs no host and no port.
    """
    named = {name.replace("-", "_") for name in url}
    if url.get("socket") and url.get("host", LOCALHOST) == LOCALHOST:
        named |= {"host", "port"}
    of_server = named.intersection(("host", "port", "socket"))
    lower = {name for name in of_server if weight_of(name) < weight_of("dsn")}
    return options | {name: None for name in named if name in lower or is_of_file(name)}


def _named(name: str) -> str:
    """Return what sets an option: the command line, or a variable of the environment."""
    return f"--{name}" if is_typed(name) else f"SPIRIT_PY_{name.upper()}"


def given_server(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the server that options of a prefix name; the port may be part of ``--host``."""
    names = ("port", "socket", "user", "password", *_TLS)
    given = {name: options[f"{prefix}{name}"] for name in names}
    named = options[f"{prefix}host"]
    host, port = host_and_port(named) if named else (None, None)
    dashed = prefix.replace("_", "-")
    weight = weight_of(f"{prefix}host")
    if port is not None and given["port"] not in (None, port):
        if weight == weight_of(f"{prefix}port"):
            raise UsageFault(
                f"two ports: {port} in --{dashed}host and {given['port']} in --{dashed}port",
                hint="leave one of them out",
            )
        port = port if weight > weight_of(f"{prefix}port") else None
    if host not in (None, LOCALHOST):
        _drop_socket(given, f"--{dashed}host", weight, prefix)
    return given | {"host": host, "port": port or given["port"]}


def _drop_socket(given: dict[str, Any], other: str, weight: int, prefix: str = "") -> None:
    """Take a socket out that counts no more than a host; refuse it beside one of this run."""
    counts = weight_of(f"{prefix}socket")
    if not given["socket"] or counts > weight:
        return
    flag = f"--{prefix}socket".replace("_", "-")
    if counts == weight and is_typed(f"{prefix}socket"):
        raise UsageFault(
            f"two servers: the host of {other}, and {flag} on this machine",
            hint="leave one of them out",
        )
    given["socket"] = None


def _threads(kind: Any, asked: int | None, master: str) -> int:
    import os

    threads: int = asked or kind.threads
    if issubclass(kind, MigrationConfig) or (master and not master.startswith("local[")):
        return threads
    # Nothing finds out how many the server can use.
    return min(threads, len(os.sched_getaffinity(0)))


def _key_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageFault(
            f"--spark-conf {text!r} is not KEY=VALUE",
            hint="write for instance spark.eventLog.enabled=true",
        )
    return key.strip(), value

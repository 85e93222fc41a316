"""Option files of the mysql client, and what they, a URL and the command line say together (R20).

The later line wins: ``/etc/my.cnf``, ``/etc/mysql/my.cnf``, ``--defaults-extra-file``,
``~/.my.cnf``, login path file; ``--defaults-file`` takes the place of the first four. The login
path file is encrypted (AES-128, ECB) under a key in its head. What is wrong is a UsageFault.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from spirit_py.classes import dataclass
from spirit_py.config import LOCALHOST, ConnectionOptions
from spirit_py.errors import UsageFault
from spirit_py.mysql.tls.driver import TLS_PATHS, read_material
from spirit_py.mysql.tls.modes import SSL_MODES, VERIFYING
from spirit_py.records import everybody_may_write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_log = logging.getLogger(__name__)

_ESCAPES: Final = dict(zip("bntrs", "\b\n\t\r ", strict=True)) | {c: c for c in "\\\"'"}
_DEEPEST_INCLUDE: Final = 10
#: A value, whatever quotes are in it, and the number sign outside of them that ends it (measured).
_COMMENTED: Final = re.compile(
    r"""((?:"(?:\\.|[^"\\])*(?:"|$)|'(?:\\.|[^'\\])*(?:'|$)|[^"'#])*)#"""
)


def read_option_file(path: Path, groups: Collection[str]) -> dict[str, str]:
    """Read the options of some groups, with dashes in their names and ``loose-`` cut off.

    UsageFault for a file that everybody may write: it may say where the password goes.
    """
    if everybody_may_write(path):
        raise UsageFault(f"the option file {path} is world-writable", hint=f"chmod o-w {path}")
    return dict(_settings(path, groups, depth=0))


def passed_over(path: Path) -> bool:
    """Return whether everybody may write a file, and warn: the mysql client ignores it too."""
    if not everybody_may_write(path):
        return False
    _log.warning("the option file %s is ignored: it is world-writable (chmod o-w %s)", path, path)
    return True


def parse_options(text: str, origin: Path, groups: Collection[str]) -> dict[str, str]:
    """Read the options of some groups of the text of a file, which includes no other one."""
    return dict(_parsed(text, origin, groups, depth=_DEEPEST_INCLUDE))


def _settings(path: Path, groups: Collection[str], *, depth: int) -> Iterator[tuple[str, str]]:
    if depth and passed_over(path):
        return
    if depth > _DEEPEST_INCLUDE:
        raise UsageFault(f"{path}: option files include each other", hint="remove an !include line")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageFault(
            f"cannot read the option file {path}: {reason}",
            hint="make it readable, or pass --no-defaults",
        ) from None
    yield from _parsed(text, path, groups, depth=depth)


def _parsed(
    text: str, path: Path, groups: Collection[str], *, depth: int
) -> Iterator[tuple[str, str]]:
    group = ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if included := re.fullmatch(r"!(include|includedir)\s+(.+)", line):
            named = path.parent / included.group(2).strip()
            found = [named]
            if included.group(1) == "includedir":
                found = sorted(entry for entry in named.glob("*.cnf") if entry.is_file())
            for other in found:
                yield from _settings(other, groups, depth=depth + 1)
        elif header := re.fullmatch(r"\[([^\]]*)\]\s*(?:#.*)?", line):
            group = header.group(1).strip().lower()
        elif not group:
            raise UsageFault(
                f"{path}, line {number}: an option stands before the first [group]",
                hint="put it below a [client] line",
            )
        elif group in groups:
            yield _setting(line)


def _setting(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    name = name.split("#", 1)[0].strip().lower().replace("_", "-").removeprefix("loose-")
    if commented := _COMMENTED.match(value):
        value = commented.group(1)
    value = value.strip()
    # The first and the last one alone, whatever is between them (measured).
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    # An unknown sequence keeps its backslash, as MySQL does.
    return name, re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value)


_UNUSED: Final = 4
_KEY_BYTES: Final = 20
_BLOCK: Final = 16
_LENGTH: Final = 4


def read_login_file(path: Path, groups: Collection[str], login_path: str) -> dict[str, str]:
    """Read the options of some groups and of a login path; nothing where there is no such file."""
    if not os.path.isfile(path):  # noqa: PTH113 - raises no error where the home is another's
        if login_path:
            raise UsageFault(
                f"--login-path {login_path}: there is no {path}",
                hint=f"mysql_config_editor set --login-path={login_path} makes it",
            )
        return {}
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        if not login_path:
            return {}
        raise UsageFault(f"{path} is accessible to other users", hint=f"chmod 600 {path}")
    text = _decrypted(path)
    if login_path and f"[{login_path.lower()}]" not in text.lower().split():
        raise UsageFault(
            f"there is no login path {login_path} in {path}",
            hint="mysql_config_editor print --all lists them",
        )
    found = parse_options(text, path, groups)
    return found | (parse_options(text, path, {login_path.lower()}) if login_path else {})


def _decrypted(path: Path) -> str:
    try:
        return "".join(_lines(path.read_bytes()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise UsageFault(
            f"cannot read the login path file {path}: {reason}",
            hint="mysql_config_editor writes it again",
        ) from None


def _lines(data: bytes) -> Iterator[str]:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    head = data[_UNUSED : _UNUSED + _KEY_BYTES]
    if len(head) != _KEY_BYTES:
        raise ValueError(data)
    key = bytearray(_BLOCK)
    for place, byte in enumerate(head):
        key[place % _BLOCK] ^= byte
    # The format's own cipher (mysys_ssl/my_default.cc): another one would read nothing.
    cipher = Cipher(algorithms.AES(bytes(key)), modes.ECB())  # noqa: S305
    place = _UNUSED + _KEY_BYTES
    while place < len(data):
        length = int.from_bytes(data[place : place + _LENGTH], "little")
        sealed = data[place + _LENGTH : place + _LENGTH + length]
        if not length or len(sealed) != length or length % _BLOCK:
            raise ValueError(data)
        decryptor, padding = cipher.decryptor(), PKCS7(_BLOCK * 8).unpadder()
        padded = decryptor.update(sealed) + decryptor.finalize()
        yield (padding.update(padded) + padding.finalize()).decode()
        place += _LENGTH + length


#: Options of any client, and of this program.
GROUPS: Final = ("client", "spirit-py")
_GLOBAL: Final = (Path("/etc/my.cnf"), Path("/etc/mysql/my.cnf"))


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions:
    """What the command line says about option files.

    ``file``: the only one that is read; ``extra``: one more. ``suffix``: of further groups.
    ``login_path``: empty for ``client``, None for not reading it.
    """

    file: Path | None = None
    extra: Path | None = None
    usual: bool = True
    suffix: str = ""
    login_path: str | None = ""


def read_defaults(options: DefaultsOptions) -> dict[str, str]:
    """Read all option files."""
    groups = {f"{group}{suffix}".lower() for group in GROUPS for suffix in ("", options.suffix)}
    found: dict[str, str] = {}
    for path in _files(options):
        found |= read_option_file(path, groups)
    if options.login_path is None:
        return found
    named = os.environ.get("MYSQL_TEST_LOGIN_FILE")
    path = Path(named or os.path.expanduser("~/.mylogin.cnf"))  # noqa: PTH111
    return found | read_login_file(path, groups, options.login_path)


def _files(options: DefaultsOptions) -> list[Path]:
    if options.file is not None:
        return [options.file]
    named = [] if options.extra is None else [options.extra]
    if not options.usual:
        return named
    first = [path for path in _GLOBAL if _is_usable(path)]
    own = Path(os.path.expanduser("~/.my.cnf"))  # noqa: PTH111 - Path.home() raises without one
    return [*first, *named, *filter(_is_usable, [own])]


def _is_usable(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
        return False
    return not passed_over(path)


_TEXTS: Final = ("host", "user", "password", "socket")
_KNOWN_MODES: Final = f"one of {', '.join(SSL_MODES)}"
_NUMBERS: Final = frozenset({"port", "connect-timeout"})
_LONGEST_TIMEOUT: Final = 3600 * 12


def connection_options(
    stored: Mapping[str, str], given: Mapping[str, object] | None = None
) -> ConnectionOptions:
    """Build a connection's options; what was ``given`` on the command line wins; or UsageFault."""
    explicit = {name: value for name, value in (given or {}).items() if value is not None}
    fields: dict[str, Any] = {name: stored[name] for name in _TEXTS if name in stored}
    for option in _NUMBERS.intersection(stored):
        # Zero is the default to the mysql client.
        if number := _number(stored, option):
            fields[option.replace("-", "_")] = number
    # As for the mysql client: a socket is of this machine, whatever host is named besides.
    away = fields.get("host", LOCALHOST) != LOCALHOST
    if away or over_tcp(stored) or explicit.get("host") or explicit.get("port"):
        fields.pop("socket", None)
    server = {name: value for name, value in explicit.items() if not name.startswith("ssl_")}
    return dataclasses.replace(ConnectionOptions(**_tls(stored, explicit)), **(fields | server))


def over_tcp(stored: Mapping[str, str]) -> bool:
    """Return whether a file names TCP, whatever socket another one names; or UsageFault."""
    name = stored.get("protocol", "")
    if name.lower() not in {"", "tcp", "socket"}:
        raise UsageFault(
            f"protocol={name} in the option file is none that spirit-py has",
            hint="name tcp or socket, or pass --no-defaults",
        )
    return name.lower() == "tcp"


def names_tls(stored: Mapping[str, str], given: Mapping[str, object]) -> bool:
    """Return whether the file or the command line has an option about TLS."""
    named = [*stored, *(name.replace("_", "-") for name, value in given.items() if value)]
    return any(name in {"ssl-mode", *TLS_PATHS} for name in named)


def _tls(stored: Mapping[str, str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    mode = str(explicit.get("ssl_mode") or _stored_mode(stored))
    paths = {name: explicit.get(name.replace("-", "_")) or stored.get(name) for name in TLS_PATHS}
    material = read_material({name: str(path) for name, path in paths.items() if path})
    if mode in VERIFYING and not material.authorities:
        raise UsageFault(
            f"--ssl-mode {mode} without --ssl-ca: there is nothing to verify the certificate with",
            hint="pass --ssl-ca with the authority's certificate; those that this machine trusts"
            " are often in /etc/ssl/certs/ca-certificates.crt",
        )
    return {"ssl_mode": mode, "tls": material}


def _stored_mode(stored: Mapping[str, str]) -> str:
    mode = stored.get("ssl-mode", "").upper()
    if mode and mode not in SSL_MODES:
        raise UsageFault(
            f"ssl-mode={stored['ssl-mode']} in the option file is unknown", hint=_KNOWN_MODES
        )
    return mode


def _number(stored: Mapping[str, str], option: str) -> int:
    try:
        number = int(stored[option])
        # As the mysql client bounds it; the driver of the binlog's connection takes no more.
        return max(0, min(number, _LONGEST_TIMEOUT)) if option == "connect-timeout" else number
    except ValueError:
        raise UsageFault(
            f"{option}={stored[option]} in the option file is not a number",
            hint="check the option files, or pass --no-defaults",
        ) from None


_SCHEMES: Final = ("mysql", "mysql+mysqldb", "mysql2", "mariadb")
_PARAMETERS: Final = ("socket", "ssl-mode", "ssl-ca", "ssl-capath", "ssl-cert", "ssl-key")
_HINT: Final = "write mysql://user:password@host:3306/schema, special characters as %XX"


def read_dsn(text: str) -> dict[str, str]:
    """Return a URL's options by option-file names, and ``database``; errors never show it (R20)."""
    try:
        parts = urlsplit(text)
        port = parts.port
        # No form of a browser, in which a plus sign is a blank.
        query = parts.query.replace("+", "%2B")
        parameters = dict(parse_qsl(query, keep_blank_values=True, errors="strict"))
        path = parts.path.removeprefix("/")
        host, user, password, schema = (
            unquote(part or "", errors="strict")
            for part in (parts.hostname, parts.username, parts.password, path)
        )
    except ValueError:
        raise UsageFault("--dsn is no URL that can be read", hint=_HINT) from None
    if port == 0:
        raise UsageFault("--dsn has the port 0", hint=_HINT)
    if parts.scheme not in _SCHEMES:
        raise UsageFault(f"--dsn begins with {parts.scheme or 'no scheme'!r}", hint=_HINT)
    if "/" in schema or parts.fragment:
        raise UsageFault("--dsn has more than a schema after the host", hint=_HINT)
    found = {"host": host, "port": str(port or ""), "user": user, "database": schema}
    given = {name: value for name, value in (found | _options(parameters)).items() if value}
    return given if parts.password is None else given | {"password": password}


def _options(parameters: dict[str, str]) -> dict[str, str]:
    named = {name.replace("_", "-").lower(): value for name, value in parameters.items()}
    if unknown := sorted(set(named) - set(_PARAMETERS)):
        # The rest of a password with a question mark looks like one.
        first = "" if re.search("[@/:]", unknown[0]) else f": {unknown[0]}"
        raise UsageFault(
            f"--dsn has an unknown parameter{first}",
            hint=f"known are {', '.join(_PARAMETERS)}",
        )
    if (mode := named.get("ssl-mode", "").upper()) and mode not in SSL_MODES:
        raise UsageFault(f"--dsn: ssl-mode={mode} is unknown", hint=_KNOWN_MODES)
    return named

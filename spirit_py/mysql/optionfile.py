"""Read connection options from a MySQL option file (manual 6.2.2.2, Using Option Files).

Only the groups ``[client]`` and ``[spirit-py]`` are read, the later line wins. Options of other
programs in ``[client]`` are passed over, as the MySQL clients expect.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from spirit_py.config import ConnectionOptions
from spirit_py.errors import UsageFault
from spirit_py.mysql.tls.files import TLS_PATHS, read_material
from spirit_py.mysql.tls.modes import SSL_MODES, VERIFYING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

GROUPS: Final = frozenset({"client", "spirit-py"})
_ESCAPES: Final = dict(zip("bntrs", "\b\n\t\r ", strict=True)) | {c: c for c in "\\\"'"}
_TEXTS: Final = ("host", "user", "password", "socket")
_NUMBERS: Final = frozenset({"port", "connect-timeout"})
_DEEPEST_INCLUDE: Final = 10


def read_option_file(path: Path) -> dict[str, str]:
    """Read the options of our groups, with dashes in their names and ``loose-`` cut off.

    Raises:
        UsageFault: when the file cannot be read or a line makes no sense.
    """
    return dict(_settings(path, depth=0))


def _settings(path: Path, *, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the settings of a file and of the files that it includes, in order."""
    if depth > _DEEPEST_INCLUDE:
        raise UsageFault(f"{path}: option files include each other", hint="remove an !include line")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageFault(
            f"cannot read the option file {path}: {reason}", hint="check --defaults-file"
        ) from None
    group = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if included := re.fullmatch(r"!(include|includedir)\s+(.+)", line):
            for other in _included(included.group(1), path.parent / included.group(2).strip()):
                yield from _settings(other, depth=depth + 1)
        elif header := re.fullmatch(r"\[([^\]]*)\]\s*(?:#.*)?", line):
            group = header.group(1).strip().lower()
        elif not group:
            raise UsageFault(
                f"{path}, line {number}: an option stands before the first [group]",
                hint="put it below a [client] line",
            )
        elif group in GROUPS:
            yield _setting(line)


def _included(kind: str, path: Path) -> list[Path]:
    if kind == "include":
        return [path]
    return sorted(entry for entry in path.glob("*.cnf") if entry.is_file())


def _setting(line: str) -> tuple[str, str]:
    """Split one line into the option's name and its value, quotes, escapes and comment undone."""
    name, _, value = line.partition("=")
    name = name.split("#", 1)[0].strip().lower().replace("_", "-").removeprefix("loose-")
    value = value.strip()
    if quoted := re.match(r"""(["'])((?:\\.|(?!\1).)*)\1\s*(?:#.*)?$""", value):
        value = quoted.group(2)
    else:
        value = re.split(r"\s+#|^#", value, maxsplit=1)[0].rstrip()
    return name, re.sub(r"\\(.)", _unescape, value)


def _unescape(found: re.Match[str]) -> str:
    """Undo one escape sequence; an unknown one keeps its backslash, as MySQL does."""
    return _ESCAPES.get(found.group(1), found.group(0))


def connection_options(
    stored: Mapping[str, str], given: Mapping[str, object] | None = None
) -> ConnectionOptions:
    """Build the options of a connection; what the command line gave wins over the file.

    Args:
        stored: what :func:`read_option_file` read.
        given: fields of :class:`~spirit_py.config.ConnectionOptions`, and ``ssl_ca`` and the
            like for paths; None means not given.

    Raises:
        UsageFault: when a value makes no sense, or a file of TLS cannot be used.
    """
    explicit = {name: value for name, value in (given or {}).items() if value is not None}
    fields: dict[str, Any] = {name: stored[name] for name in _TEXTS if name in stored}
    for option in _NUMBERS.intersection(stored):
        fields[option.replace("-", "_")] = _number(stored, option)
    # A socket of the file must not override a host of the command line.
    if explicit.get("host") or explicit.get("port"):
        fields.pop("socket", None)
    server = {name: value for name, value in explicit.items() if not name.startswith("ssl_")}
    return dataclasses.replace(ConnectionOptions(**_tls(stored, explicit)), **(fields | server))


def names_tls(stored: Mapping[str, str], given: Mapping[str, object]) -> bool:
    """Return whether the file or the command line has an option about TLS."""
    named = [*stored, *(name.replace("_", "-") for name, value in given.items() if value)]
    return any(name in {"ssl-mode", *TLS_PATHS} for name in named)


def _tls(stored: Mapping[str, str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    """Return mode, certificates and key; each from the command line, or else from the file."""
    mode = str(explicit.get("ssl_mode") or _stored_mode(stored))
    paths = {name: explicit.get(name.replace("-", "_")) or stored.get(name) for name in TLS_PATHS}
    material = read_material({name: str(path) for name, path in paths.items() if path})
    if mode in VERIFYING and not material.authorities:
        raise UsageFault(
            f"--ssl-mode {mode} without --ssl-ca: there is nothing to verify the certificate by",
            hint="pass --ssl-ca with the authority's certificate; those that this machine trusts"
            " are often in /etc/ssl/certs/ca-certificates.crt",
        )
    return {"ssl_mode": mode, "tls": material}


def _stored_mode(stored: Mapping[str, str]) -> str:
    mode = stored.get("ssl-mode", "").upper()
    if mode and mode not in SSL_MODES:
        raise UsageFault(
            f"ssl-mode={stored['ssl-mode']} in the option file is unknown",
            hint=f"one of {', '.join(SSL_MODES)}",
        )
    return mode


def _number(stored: Mapping[str, str], option: str) -> int:
    try:
        return int(stored[option])
    except ValueError:
        raise UsageFault(
            f"{option}={stored[option]} in the option file is not a number",
            hint="check --defaults-file",
        ) from None

"""The syntax of a MySQL option file (manual 6.2.2.2, Using Option Files).

Only the groups that are asked for are read; the later line wins. Options of other programs in
``[client]`` are passed over, as the MySQL clients expect.
"""

from __future__ import annotations

import logging
import re
import stat
from typing import TYPE_CHECKING, Final

from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)

_ESCAPES: Final = dict(zip("bntrs", "\b\n\t\r ", strict=True)) | {c: c for c in "\\\"'"}
_DEEPEST_INCLUDE: Final = 10


def read_option_file(path: Path, groups: Collection[str]) -> dict[str, str]:
    """Read the options of some groups, with dashes in their names and ``loose-`` cut off.

    Raises:
        UsageFault: when the file cannot be read or a line makes no sense.
    """
    return dict(_settings(path, groups, depth=0))


def everybody_may_write(path: Path) -> bool:
    """Return whether a regular file may be changed by any user of the machine (R26)."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)


def passed_over(path: Path) -> bool:
    """Return whether everybody may write a file, and warn: the mysql client ignores it too."""
    if not everybody_may_write(path):
        return False
    _log.warning("the option file %s is ignored: everybody may write it (chmod o-w %s)", path, path)
    return True


def parse_options(text: str, origin: Path, groups: Collection[str]) -> dict[str, str]:
    """Read the options of some groups of a text, which includes no other file.

    Args:
        origin: the file that the text is of, for messages.

    Raises:
        UsageFault: when a line makes no sense.
    """
    return dict(_parsed(text, origin, groups, depth=_DEEPEST_INCLUDE))


def _settings(path: Path, groups: Collection[str], *, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the settings of a file and of the files that it includes, in order."""
    if depth and passed_over(path):
        return
    if depth > _DEEPEST_INCLUDE:
        raise UsageFault(f"{path}: option files include each other", hint="remove an !include line")
    try:
        text = path.read_text(encoding="utf-8")
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
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if included := re.fullmatch(r"!(include|includedir)\s+(.+)", line):
            for other in _included(included.group(1), path.parent / included.group(2).strip()):
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

"""Which option files are read, in the order of the mysql client (manual 6.2.2.2).

``/etc/my.cnf``, ``/etc/mysql/my.cnf``, ``--defaults-extra-file``, ``~/.my.cnf`` and at last the
login path file; later ones win. ``--defaults-file`` takes the place of the first four, and
``--no-defaults`` leaves them out; the login path file is read in any case.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spirit_py.errors import UsageFault
from spirit_py.mysql.options.file import everybody_may_write, passed_over, read_option_file
from spirit_py.mysql.options.login import login_file, read_login_file

#: Options of any client, and of this program.
GROUPS: Final = ("client", "spirit-py")
_GLOBAL: Final = (Path("/etc/my.cnf"), Path("/etc/mysql/my.cnf"))


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions:
    """What the command line says about option files.

    Attributes:
        file: the only option file that is read; None for the usual ones.
        extra: one that is read beside the usual ones.
        usual: whether the usual ones are read.
        suffix: groups of this suffix are read too: ``client_suffix``.
        login_path: the group of the login path file; empty for ``client``, None for not reading it.
    """

    file: Path | None = None
    extra: Path | None = None
    usual: bool = True
    suffix: str = ""
    login_path: str | None = ""


def read_defaults(options: DefaultsOptions) -> dict[str, str]:
    """Read all option files.

    Raises:
        UsageFault: a file cannot be read or makes no sense, or a login path is not there.
    """
    groups = {f"{group}{suffix}".lower() for group in GROUPS for suffix in ("", options.suffix)}
    found: dict[str, str] = {}
    for path in _files(options):
        found |= read_option_file(path, groups)
    if options.login_path is None:
        return found
    return found | read_login_file(login_file(), groups, options.login_path)


def _files(options: DefaultsOptions) -> list[Path]:
    """Return the files in the order in which they count; named ones must exist.

    Raises:
        UsageFault: everybody may write a named one.
    """
    for path in filter(None, (options.file, options.extra)):
        if everybody_may_write(path):
            raise UsageFault(
                f"everybody may write the option file {path}", hint=f"chmod o-w {path}"
            )
    if options.file is not None:
        return [options.file]
    named = [] if options.extra is None else [options.extra]
    if not options.usual:
        return named
    first = [path for path in _GLOBAL if _is_usable(path)]
    return [*first, *named, *filter(_is_usable, [_home() / ".my.cnf"])]


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none


def _is_usable(path: Path) -> bool:
    """Whether a file exists that may be read, and that not everybody may write."""
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
        return False
    return not passed_over(path)

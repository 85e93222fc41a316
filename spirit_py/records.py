"""Where a command writes what it does, each file whole, and whose files it believes."""

from __future__ import annotations

import errno
import functools
import os
import select
import stat
from typing import TYPE_CHECKING, Final, Literal

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TAKES_NO_OTHER: Final = (errno.EACCES, errno.EBUSY, errno.EROFS)
_TAKEN_WITHIN: Final = 60.0
#: As many as the kernel follows.
_MOST_LINKS: Final = 40
LogFormat = Literal["text", "json"]


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What ``spirit-py migrate``, ``revert`` and ``checksum`` are asked to record.

    ``log_format`` is of the lines on standard error, also on a terminal; ``metrics_listen`` is host
    and port for Prometheus, ``metrics_file`` for node_exporter's textfile collector. ``on_event``
    is a shell command for each event, limited by ``hook_timeout`` seconds; ``hook_veto`` lets it
    hold the swap back.
    """

    log_format: LogFormat = "text"
    report_json: Path | None = None
    report_html: Path | None = None
    metrics_listen: tuple[str, int] | None = None
    metrics_file: Path | None = None
    on_event: str = ""
    hook_veto: bool = False
    hook_timeout: float = 30.0


@functools.cache
def run_token() -> str:
    """Return the random token of this process, by which its records are told from others'."""
    return os.urandom(8).hex()


def write_whole(path: Path, text: str) -> None:
    """Replace a file as a whole, through links, in UTF-8 with escapes; raises OSError.

    One that may be written in a folder that takes no other file, or that is mounted by itself, is
    written in place.
    """
    _require_own_link(path)
    content = text.encode("utf-8", "backslashreplace")
    # By its own name: what /dev/stdout leads to may have none.
    if path.exists() and not path.is_file():
        _write_through(path, content)
        return
    target = path.resolve()
    known = target.stat() if target.exists() else None
    own = known is not None and known.st_uid == os.geteuid()
    # What another user has allowed on a file of theirs is not allowed on one of ours.
    mode = known.st_mode & (0o777 if own else 0o666) if known is not None else 0o666
    try:
        _replace(target, content, mode, exactly=own)
    except OSError as error:
        if known is None or error.errno not in _TAKES_NO_OTHER:
            raise
        # The folder's owner may have put a link or a pipe there by now.
        handle = os.open(target, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "wb") as file:
            os.ftruncate(handle, 0)
            file.write(content)


def _replace(target: Path, content: bytes, mode: int, *, exactly: bool) -> None:
    temporary = target.with_name(f".spirit-py-{os.urandom(8).hex()}")
    # A new file gets what the umask leaves; a replacement of ours is private until it has its mode.
    created = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handle = os.open(temporary, created, 0o600 if exactly else mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if exactly:
                os.fchmod(handle, mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_through(path: Path, content: bytes) -> None:
    """Write into a pipe or a device; OSError also where nobody reads it, or not on and on."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(handle)
        # That of a shell's ``|`` has no name, and may be of whoever called sudo.
        real = path.resolve()
        if stat.S_ISFIFO(found.st_mode) and real.exists() and _is_open(real.parent.stat()):
            _require_own(found.st_uid, "pipe")
        ready = select.poll()
        ready.register(handle, select.POLLOUT)
        while content:
            if not ready.poll(1000 * _TAKEN_WITHIN):
                raise TimeoutError(errno.ETIMEDOUT, f"nobody read it within {_TAKEN_WITHIN:g} s")
            content = content[os.write(handle, content) :]
    finally:
        os.close(handle)


def _require_own_link(path: Path) -> None:
    """Raise PermissionError for a link of another user, where others than we and root may write.

    The kernel does so at an open (``fs.protected_symlinks``), but in folders like ``/tmp`` only,
    and a file is replaced here.
    """
    for link in _links(path):
        folder = link.parent.stat()
        # Those further up and further on are a deployment's own, but where everybody may write.
        if _is_open(folder) if link == path else folder.st_mode & stat.S_IWOTH:
            _require_own(link.lstat().st_uid, "link")


def _links(path: Path, met: int = 0) -> Iterator[Path]:
    """Yield each link that leads to a file, in the order in which the kernel follows them."""
    at = type(path)(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        at /= part
        if at.is_symlink():
            yield at
            if met < _MOST_LINKS:
                yield from _links(at.parent / at.readlink(), met + 1)


def _is_open(folder: os.stat_result) -> bool:
    """Whether others than we and root may put a file into a folder."""
    return bool(folder.st_mode & 0o022) or folder.st_uid not in {os.geteuid(), 0}


def _require_own(owner: int, what: str) -> None:
    if owner not in {os.geteuid(), 0}:
        raise PermissionError(
            errno.EACCES, f"it is another user's {what}, in a folder where others may write"
        )


def everybody_may_write(path: Path) -> bool:
    """Return whether a regular file or a folder may be changed by any user of the machine (R26)."""
    return _found(path)[0]


def of_another_user(path: Path) -> bool:
    """Return whether a regular file or a folder is neither ours nor root's (R26)."""
    return _found(path)[1]


def _found(path: Path) -> tuple[bool, bool]:
    try:
        found = path.stat()
    except OSError:
        return False, False
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return False, False
    writable = bool(found.st_mode & stat.S_IWOTH)
    return writable and not _is_mounted_read_only(path), found.st_uid not in {os.geteuid(), 0}


def _is_mounted_read_only(path: Path) -> bool:
    """Whether nobody can write there, whatever the modes: as in the volumes of Kubernetes."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)

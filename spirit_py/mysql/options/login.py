"""The login path file of ``mysql_config_editor`` (manual 6.6.7).

The file is an option file, encrypted line by line with AES-128 in ECB mode, under a key that stands
in its head: it hides passwords from a glance, no more.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.errors import UsageFault
from spirit_py.mysql.options.file import parse_options

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_UNUSED: Final = 4
_KEY_BYTES: Final = 20
_BLOCK: Final = 16
_LENGTH: Final = 4


def login_file() -> Path:
    """Return where the file is; it need not exist."""
    named = os.environ.get("MYSQL_TEST_LOGIN_FILE")
    return Path(named or os.path.expanduser("~/.mylogin.cnf"))  # noqa: PTH111


def read_login_file(path: Path, groups: Collection[str], login_path: str) -> dict[str, str]:
    """Read the options of some groups and of a login path; none where there is no such file.

    Args:
        login_path: the group that counts most; empty for none beside ``groups``.

    Raises:
        UsageFault: the file cannot be read, others may read it, or it has no such login path.
    """
    if not path.is_file():
        if login_path:
            raise UsageFault(
                f"--login-path {login_path}: there is no {path}",
                hint=f"mysql_config_editor set --login-path={login_path} makes it",
            )
        return {}
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        if not login_path:
            return {}
        raise UsageFault(f"{path} may be used by others", hint=f"chmod 600 {path}")
    text = _decrypted(path)
    if login_path and f"[{login_path.lower()}]" not in text.lower().split():
        raise UsageFault(
            f"there is no login path {login_path} in {path}",
            hint="mysql_config_editor print --all lists them",
        )
    found = parse_options(text, path, groups)
    return found | (parse_options(text, path, {login_path.lower()}) if login_path else {})


def _decrypted(path: Path) -> str:
    """Return the text of the file.

    Raises:
        UsageFault: it cannot be read, or is no such file.
    """
    try:
        return "".join(_lines(path.read_bytes()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise UsageFault(
            f"cannot read the login path file {path}: {reason}",
            hint="mysql_config_editor writes it again",
        ) from None


def _lines(data: bytes) -> Iterator[str]:
    """Yield the lines, decrypted.

    Raises:
        ValueError: for anything but such a file.
    """
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

"""Certificates and keys: read once where the command runs, and carried to every process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.config import TlsMaterial
from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_PATHS: Final = ("ssl-ca", "ssl-capath", "ssl-cert", "ssl-key")
_HASHED: Final = re.compile(r"[0-9a-f]{8}\.\d+")
_IN_MEMORY: Final = Path("/proc/self/fd")


def read_material(paths: Mapping[str, str]) -> TlsMaterial:
    """Read the files that options of :data:`TLS_PATHS` name; UsageFault for an unusable one."""
    given = {name: path for name, path in paths.items() if path}
    authorities = _contents("ssl-ca", given.get("ssl-ca", ""))
    if folder := given.get("ssl-capath", ""):
        authorities += _folder(folder)
    # A file with both may be named by one option alone, as for the mysql client.
    certificate = _contents("ssl-cert", given.get("ssl-cert", "") or given.get("ssl-key", ""))
    key = _contents("ssl-key", given.get("ssl-key", "") or given.get("ssl-cert", ""))
    material = TlsMaterial(authorities=authorities, certificate=certificate, key=key)
    _refuse_unusable(material, given)
    return material


def _contents(option: str, path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(option, path, error) from None


def _folder(path: str) -> bytes:
    """Join the certificates of a folder; OpenSSL finds them by the hashes that name them."""
    try:
        files = sorted(file for file in Path(path).iterdir() if _HASHED.fullmatch(file.name))
    except OSError as error:
        raise _unreadable("ssl-capath", path, error) from None
    if not files:
        raise UsageFault(
            f"--ssl-capath {path} has no certificate under the name of its hash",
            hint="run openssl rehash on it, or name one file with --ssl-ca",
        )
    return b"\n".join(_contents("ssl-capath", str(file)) for file in files)


def _unreadable(option: str, path: str, error: OSError) -> UsageFault:
    return UsageFault(
        f"cannot read --{option} {path}: {error.strerror}",
        hint="the file must be readable where this command runs, and nowhere else",
    )


def _refuse_unusable(material: TlsMaterial, given: Mapping[str, str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        trust(context, material)
    except (ssl.SSLError, ValueError) as error:
        named = given.get("ssl-ca") or given.get("ssl-capath")
        raise UsageFault(
            f"--ssl-ca {named} holds no usable certificate: {_reason(error)}",
            hint="name a file of certificates in PEM format",
        ) from None
    if not material.certificate:
        return
    names = " and ".join(f"--{name} {given[name]}" for name in TLS_PATHS[2:] if name in given)
    if b"ENCRYPTED" in material.key:
        raise UsageFault(
            f"the private key of {names} is encrypted",
            hint="name a key without a passphrase: openssl pkey -in KEY -out PLAIN_KEY",
        )
    try:
        identify(context, material)
    except (ssl.SSLError, ValueError) as error:
        raise UsageFault(
            f"{names} cannot be used: {_reason(error)}",
            hint="name a certificate and its own private key, in PEM format",
        ) from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error).lower().replace("_", " ")


def trust(context: ssl.SSLContext, material: TlsMaterial) -> None:
    """Let a context trust these authorities and no others; without any, nobody."""
    if material.authorities:
        context.load_verify_locations(cadata=material.authorities.decode("ascii", "replace"))


def identify(context: ssl.SSLContext, material: TlsMaterial) -> None:
    """Let a context show the client certificate."""
    context.load_cert_chain(file_of(material.certificate), file_of(material.key))


@functools.cache
def file_of(content: bytes) -> str:
    """Return the path of a memory file with this content, or one removed at the end."""
    if hasattr(os, "memfd_create") and _IN_MEMORY.is_dir():
        number = os.memfd_create("spirit-py")
        with open(number, "wb", closefd=False) as file:
            file.write(content)
        return str(_IN_MEMORY / str(number))
    number, path = tempfile.mkstemp(prefix="spirit-py-")
    with open(number, "wb") as file:  # noqa: PTH123 - likewise
        file.write(content)
    atexit.register(_remove, path)
    return path


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()

"""Certificates and keys, and an attempt as arguments of the driver or of Python's ``ssl``.

The handshake is MySQL's (manual, Connection Phase) and ends before a user is named; the server
counts it as aborted. Python's ``ssl`` alone decides whether a certificate is right: MariaDB
Connector/C has no VERIFY_CA. It gets REQUIRED and the fingerprint in an option file, and ends every
connection that shows another one. Without a fingerprint it goes on in the clear where no TLS is
offered, and caching_sha2_password then sends the password as it is (measured, 3.3.20). Before 3.4
it compares SHA-1 fingerprints only.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import re
import socket
import ssl
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spirit_py.config import TlsMaterial
from spirit_py.errors import ServerFault, UsageFault
from spirit_py.mysql.tls import modes
from spirit_py.records import everybody_may_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.config import ConnectionOptions

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
    _refuse_of_everybody(option, Path(path))
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(option, path, error) from None


def _folder(path: str) -> bytes:
    """Join the certificates of a folder; OpenSSL finds them by the hashes that name them."""
    _refuse_of_everybody("ssl-capath", Path(path))
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


def _refuse_of_everybody(option: str, path: Path) -> None:
    if everybody_may_write(path):
        raise UsageFault(
            f"--{option}: {path} is world-writable, and it decides which servers are trusted",
            hint=f"chmod o-w {path}",
        )


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


def context_of(attempt: modes.TlsAttempt, material: TlsMaterial) -> ssl.SSLContext:
    """Return an encrypted attempt's context; MySQL's certificates fail ``VERIFY_X509_STRICT``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = attempt.check is modes.CertificateCheck.IDENTITY
    if attempt.check is modes.CertificateCheck.NOTHING:
        context.verify_mode = ssl.CERT_NONE
    else:
        trust(context, material)
    if material.certificate:
        identify(context, material)
    return context


_CANNOT_CONNECT: Final = 2003
_UNKNOWN_HOST: Final = 2005
_PROTOCOL_41: Final = 0x200
_TLS: Final = 0x800
_SECURE: Final = 0x8000
_PACKET: Final = 1 << 24
_UTF8MB4: Final = 45
_ERROR: Final = 0xFF

#: Certificates that were checked, by address, what was checked, and the authorities.
_known: dict[tuple[str, str, bytes], bytes] = {}


def shown_certificate(options: ConnectionOptions, attempt: modes.TlsAttempt) -> bytes:
    """Return the server's certificate, checked, cached in the process; ServerFault if not right."""
    key = _key(options, attempt)
    if key not in _known:
        _known[key] = _shown(options, attempt)
    return _known[key]


def verify_again(options: ConnectionOptions, attempt: modes.TlsAttempt) -> None:
    """Check the certificate that the server has now; :func:`shown_certificate` returns it then."""
    _known[_key(options, attempt)] = _shown(options, attempt)


def _key(options: ConnectionOptions, attempt: modes.TlsAttempt) -> tuple[str, str, bytes]:
    return options.address, attempt.check.value, options.tls.authorities


def _shown(options: ConnectionOptions, attempt: modes.TlsAttempt) -> bytes:
    where = f"TLS handshake with {options.address}"
    context = context_of(attempt, TlsMaterial(authorities=options.tls.authorities))
    try:
        with _wire(options) as wire:
            _ask_for_tls(wire, where)
            with context.wrap_socket(
                wire, server_hostname=modes.certificate_host(options)
            ) as secure:
                return secure.getpeercert(binary_form=True) or b""
    except ssl.SSLError as error:
        text = getattr(error, "verify_message", "") or error.reason or str(error)
        raise ServerFault(modes.TLS_FAULT, f"TLS: {text}", where=where) from error
    except socket.gaierror as error:
        raise ServerFault(_UNKNOWN_HOST, f"{options.host}: {error}", where=where) from error
    except (OSError, EOFError) as error:
        raise ServerFault(_CANNOT_CONNECT, f"no handshake: {error}", where=where) from error


def _wire(options: ConnectionOptions) -> socket.socket:
    if not options.socket:
        address = (modes.connecting_host(options), options.port)
        return socket.create_connection(address, timeout=options.connect_timeout)
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    wire.settimeout(options.connect_timeout)
    try:
        wire.connect(options.socket)
    except BaseException:
        wire.close()
        raise
    return wire


def _ask_for_tls(wire: socket.socket, where: str) -> None:
    head = _exactly(wire, 4)
    greeting = _exactly(wire, int.from_bytes(head[:3], "little"))
    try:
        if greeting[0] == _ERROR:
            (code,) = struct.unpack_from("<H", greeting, 1)
            raise ServerFault(code, greeting[3:].decode("utf-8", "replace"), where=where)
        # Version, its zero byte, thread id, eight bytes of salt and a filler come first.
        at = greeting.index(0, 1) + 1 + 4 + 8 + 1
        (offered,) = struct.unpack_from("<H", greeting, at)
    except (IndexError, ValueError, struct.error) as error:
        # Such as the port of the X Protocol.
        why = "no MySQL server answers there"
        raise ServerFault(_CANNOT_CONNECT, why, where=where) from error
    if not offered & _TLS:
        text = f"{modes.WITHOUT_TLS}, but the server does not support it"
        raise ServerFault(modes.TLS_FAULT, text, where=where)
    wanted = struct.pack("<IIB23x", _TLS | _PROTOCOL_41 | _SECURE, _PACKET, _UTF8MB4)
    wire.sendall(len(wanted).to_bytes(3, "little") + b"\x01" + wanted)


def _exactly(wire: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        if not (more := wire.recv(size - len(read))):
            raise EOFError("the server closed the connection")
        read += more
    return read


_NATIVE: Final = {
    modes.CertificateCheck.NOTHING: "REQUIRED",
    modes.CertificateCheck.AUTHORITY: "VERIFY_CA",
    modes.CertificateCheck.IDENTITY: "VERIFY_IDENTITY",
}
#: Plugins of the server's and of Connector/C that never send the password as it is without TLS.
_SAFE_IN_THE_CLEAR: Final = (
    *("caching_sha2_password", "sha256_password", "mysql_native_password", "client_ed25519"),
    *("auth_gssapi_client", "authentication_kerberos_client", "authentication_ldap_sasl_client"),
    "parsec",
)
#: MYSQL_CLIENT_AUTHENTICATION_PLUGIN
_AUTHENTICATION: Final = 2
#: The first Connector/C with SHA-256, and the first MariaDB whose packages have it.
_SHA256_SINCE: Final = {3: (3, 4), 11: (11, 4)}


def tls_arguments(options: ConnectionOptions, attempt: modes.TlsAttempt) -> dict[str, Any]:
    """Return the driver's arguments for an attempt, for which a certificate may be checked."""
    if not attempt.encrypted:
        return {"ssl_mode": "DISABLED"} | _without_clear_passwords(options)
    arguments: dict[str, Any] = {"ssl_mode": _NATIVE[attempt.check]}
    files: dict[str, str] = {}
    if options.tls.certificate:
        files |= {"cert": file_of(options.tls.certificate), "key": file_of(options.tls.key)}
    if attempt.check is not modes.CertificateCheck.NOTHING:
        files["ca"] = file_of(options.tls.authorities)
    if pinning(attempt):
        arguments["ssl_mode"] = "REQUIRED"
        certificate = shown_certificate(options, attempt)
        digits = hashlib.new(_algorithm(), certificate, usedforsecurity=False).hexdigest()
        arguments["read_default_file"] = file_of(f"[client]\nssl-fp={digits}\n".encode())
    if files:
        arguments["ssl"] = files
    return arguments


def pinning(attempt: modes.TlsAttempt) -> bool:
    """Return whether the library is given a fingerprint."""
    return attempt.encrypted and _is_connector_c()


def _without_clear_passwords(options: ConnectionOptions) -> dict[str, str]:
    """Return the arguments by which no server is sent the password as it is, over a network.

    Connector/C does it for every server that asks (``mysql_clear_password``, ``dialog``). From 3.4
    on a setting forbids it; 3.3.20 crashes by it, so older ones get a folder without such plugins.
    """
    if options.socket or not _is_connector_c():
        return {}
    kept = f"restricted-auth={','.join(_SAFE_IN_THE_CLEAR)}"
    if _algorithm() == "sha1":
        _load_plugins()
        kept = f"plugin-dir={os.devnull}"
    return {"read_default_file": file_of(f"[client]\n{kept}\n".encode())}


@functools.cache
def _load_plugins() -> None:
    from MySQLdb import _mysql

    library = ctypes.CDLL(_mysql.__file__)
    library.mysql_init.restype = ctypes.c_void_p
    library.mysql_close.argtypes = (ctypes.c_void_p,)
    library.mysql_client_find_plugin.restype = ctypes.c_void_p
    library.mysql_client_find_plugin.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
    handle = library.mysql_init(None)
    for name in _SAFE_IN_THE_CLEAR:
        library.mysql_client_find_plugin(handle, name.encode(), _AUTHENTICATION)
    library.mysql_close(handle)


@functools.cache
def _is_connector_c() -> bool:
    from MySQLdb import _mysql

    return hasattr(ctypes.CDLL(_mysql.__file__), "mariadb_get_infov")


@functools.cache
def _algorithm() -> str:
    from MySQLdb import _mysql

    words = str(_mysql.get_client_info())  # type: ignore[no-untyped-call]
    version = tuple(int(part) for part in words.split("-", maxsplit=1)[0].split(".")[:2])
    since = _SHA256_SINCE.get(version[0])
    later = version >= since if since else version[0] > max(_SHA256_SINCE)
    return "sha256" if later else "sha1"

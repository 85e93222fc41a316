"""The certificate that the server shows, checked by Python's ``ssl``, and its fingerprint.

The handshake is one of MySQL's (manual, Connection Phase): the server greets, the client asks for
TLS before it names a user, and leaves once the certificate is checked. The server counts an
aborted connection; it is followed by one that succeeds, so that the host is not blocked for it
(``max_connect_errors``).
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Final

from spirit_py.config import TlsMaterial
from spirit_py.errors import ServerFault
from spirit_py.mysql.tls.context import context_of
from spirit_py.mysql.tls.modes import (
    TLS_FAULT,
    WITHOUT_TLS,
    certificate_host,
    connecting_host,
)

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.tls.modes import TlsAttempt

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


def shown_certificate(options: ConnectionOptions, attempt: TlsAttempt) -> bytes:
    """Return the server's certificate, checked as the attempt says; once for each process.

    Raises:
        ServerFault: it is not right, the server offers no TLS, or it cannot be reached.
    """
    key = _key(options, attempt)
    if key not in _known:
        _known[key] = _shown(options, attempt)
    return _known[key]


def certificate_renewed(options: ConnectionOptions, attempt: TlsAttempt) -> bool:
    """Check the server's certificate again; return whether it is another one now.

    Raises:
        ServerFault: it is not right, or the server cannot be reached.
    """
    key = _key(options, attempt)
    before, _known[key] = _known.get(key), _shown(options, attempt)
    return _known[key] != before


def fingerprint(certificate: bytes, algorithm: str) -> str:
    """Return the fingerprint of a certificate in DER form, in hexadecimal digits."""
    return hashlib.new(algorithm, certificate, usedforsecurity=False).hexdigest()


def _key(options: ConnectionOptions, attempt: TlsAttempt) -> tuple[str, str, bytes]:
    return options.address, attempt.check.value, options.tls.authorities


def _shown(options: ConnectionOptions, attempt: TlsAttempt) -> bytes:
    """Shake hands once; return the certificate whose key the server has proved to have."""
    where = f"TLS handshake with {options.address}"
    context = context_of(attempt, TlsMaterial(authorities=options.tls.authorities))
    try:
        with _wire(options) as wire:
            _ask_for_tls(wire, where)
            with context.wrap_socket(wire, server_hostname=certificate_host(options)) as secure:
                return secure.getpeercert(binary_form=True) or b""
    except ssl.SSLError as error:
        text = getattr(error, "verify_message", "") or error.reason or str(error)
        raise ServerFault(TLS_FAULT, f"TLS: {text}", where=where) from error
    except socket.gaierror as error:
        raise ServerFault(_UNKNOWN_HOST, f"{options.host}: {error}", where=where) from error
    except (OSError, EOFError) as error:
        raise ServerFault(_CANNOT_CONNECT, f"no handshake: {error}", where=where) from error


def _wire(options: ConnectionOptions) -> socket.socket:
    if not options.socket:
        address = (connecting_host(options), options.port)
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
    """Read the greeting and answer with the request for TLS.

    Raises:
        ServerFault: what the server greets with instead, or that it offers no TLS.
    """
    head = _exactly(wire, 4)
    greeting = _exactly(wire, int.from_bytes(head[:3], "little"))
    if greeting[0] == _ERROR:
        (code,) = struct.unpack_from("<H", greeting, 1)
        raise ServerFault(code, greeting[3:].decode("utf-8", "replace"), where=where)
    # Version, its zero byte, thread id, eight bytes of salt and a filler come first.
    at = greeting.index(0, 1) + 1 + 4 + 8 + 1
    (offered,) = struct.unpack_from("<H", greeting, at)
    if not offered & _TLS:
        raise ServerFault(
            TLS_FAULT, f"{WITHOUT_TLS}, but the server does not support it", where=where
        )
    wanted = struct.pack("<IIB23x", _TLS | _PROTOCOL_41 | _SECURE, _PACKET, _UTF8MB4)
    wire.sendall(len(wanted).to_bytes(3, "little") + b"\x01" + wanted)


def _exactly(wire: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = wire.recv(size - len(read))
        if not more:
            raise EOFError("the server closed the connection")
        read += more
    return read

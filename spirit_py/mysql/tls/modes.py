"""The attempts of each ``--ssl-mode``, what each checks, and what a failure means (pure).

As in the mysql client: ``--ssl-ca`` alone means VERIFY_CA, lower modes check no certificate, and on
a socket file TLS begins at REQUIRED. Stricter: a client certificate alone means REQUIRED.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions

TLS_FAULT: Final = 2026
TLS_REQUIRED: Final = 3159
_ACCESS_DENIED: Final = 1045
#: Also of caching_sha2_password, where MySQL's own client library sends no password in the clear.
_PLUGIN_FAILED: Final = 2061

SSL_MODES: Final = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
VERIFYING: Final = frozenset({"VERIFY_CA", "VERIFY_IDENTITY"})
WITHOUT_TLS: Final = "SSL is required"
"""Part of all drivers' words for a server that offers no TLS."""
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class CertificateCheck(enum.Enum):
    """What is checked of the server's certificate."""

    NOTHING = "nothing"
    AUTHORITY = "authority"
    """It is signed by the authority, and valid now."""
    IDENTITY = "identity"
    """And it names the host or its address."""


@dataclass(frozen=True)
class TlsAttempt:
    """One way to connect."""

    encrypted: bool
    check: CertificateCheck = CertificateCheck.NOTHING


PLAIN: Final = TlsAttempt(encrypted=False)
ENCRYPTED: Final = TlsAttempt(encrypted=True)
_ONLY: Final = {
    "DISABLED": PLAIN,
    "REQUIRED": ENCRYPTED,
    "VERIFY_CA": TlsAttempt(encrypted=True, check=CertificateCheck.AUTHORITY),
    "VERIFY_IDENTITY": TlsAttempt(encrypted=True, check=CertificateCheck.IDENTITY),
}


def attempts(options: ConnectionOptions) -> tuple[TlsAttempt, ...]:
    """Return the attempts in order; locally without TLS first, as a handshake costs 30 ms."""
    mode = effective_mode(options)
    if mode in _ONLY:
        return (_ONLY[mode],)
    if options.socket:
        return (PLAIN,)
    if not mode and options.host in _THIS_MACHINE:
        return (PLAIN, ENCRYPTED)
    return (ENCRYPTED, PLAIN)


def effective_mode(options: ConnectionOptions) -> str:
    """Return the mode that the options mean; empty where none is given and none follows."""
    if options.ssl_mode:
        return options.ssl_mode
    if options.tls.authorities:
        return "VERIFY_CA"
    return "REQUIRED" if options.tls.certificate else ""


def proves_servers(options: ConnectionOptions) -> bool:
    """Return whether the options can tell a server of the operator's from any other."""
    return bool(options.tls.authorities) and effective_mode(options) in VERIFYING


def next_may_do(attempt: TlsAttempt, code: int, text: str) -> bool:
    """Return whether the next attempt may help; never after a denial under TLS (R20)."""
    if attempt.encrypted:
        return code == TLS_FAULT and WITHOUT_TLS in text
    return code in {TLS_REQUIRED, _ACCESS_DENIED, _PLUGIN_FAILED}


def certificate_host(options: ConnectionOptions) -> str:
    """Return the host that a certificate has to name; ``localhost`` for a socket file."""
    return "localhost" if options.socket else options.host


def connecting_host(options: ConnectionOptions) -> str:
    """Return the host to connect to: libraries read ``localhost`` as their own socket file."""
    return "127.0.0.1" if options.host == "localhost" else options.host


# Parts of a message in small letters, cause and remedy; {host} and {text} are filled in. The first
# that fits counts: a server's complaint about us, an "alert", has words like those about it.
_FAULTS: Final = (
    ((WITHOUT_TLS.lower(),), "the server offers no TLS",
     "enable TLS on the server; or, on a trusted network, pass --ssl-mode DISABLED"),
    (("alert unknown ca", "alert bad certificate", "alert certificate", "alert decrypt error"),
     "the server does not accept the client certificate: {text}",
     ("pass --ssl-cert and --ssl-key that are signed by an authority of the server's ssl_ca"
      " and still valid")),
    # The alert may be lost: the server closes the connection behind it.
    (("lost connection", "gone away", "connection reset", "broken pipe"),
     "the server closed the connection: it may not accept the client certificate",
     "pass --ssl-cert and --ssl-key that its ssl_ca has signed, and see its error log"),
    (("mismatch, certificate is not valid", "hostname mismatch", "ip address mismatch"),
     "the server's certificate is not for {host}",
     ("pass --host with a name or an address that the certificate has, or check its authority"
      " alone with --ssl-mode VERIFY_CA")),
    (("expired",), "the server's certificate has expired",
     "renew the certificate on the server (ssl_cert, then ALTER INSTANCE RELOAD TLS)"),
    (("not yet valid",), "the server's certificate is not valid yet",
     "check the clocks of this machine and of the server"),
    (("self-signed", "self signed", "unable to get", "unable to verify", "verify failed"),
     "the server's certificate is not signed by an authority of --ssl-ca: {text}",
     ("pass the file of this server's authority: ca.pem of its data directory, or the"
      " provider's bundle; and check that it is the server that you mean")),
    (("fingerprint",), "the server shows another certificate on each connection",
     "connect to one server, not to a load balancer in front of several"),
    (("protocol version", "unsupported protocol", "no protocols", "handshake failure", "cipher"),
     "no common TLS version or cipher: {text}",
     "allow TLSv1.2 or TLSv1.3 on the server (tls_version)"),
)  # fmt: skip
_OTHER: Final = (
    "TLS failed: {text}",
    "check --ssl-mode, --ssl-ca, --ssl-cert and --ssl-key, and the server's error log",
)


def explain_tls(text: str, host: str) -> tuple[str, str]:
    """Return cause and remedy for a message of a driver that connected to a host under TLS."""
    low = text.lower()
    found = next((fault[1:] for fault in _FAULTS if any(part in low for part in fault[0])), _OTHER)
    cause, remedy = (part.format(text=text, host=host) for part in found)
    return cause, remedy

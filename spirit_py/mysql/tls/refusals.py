"""What a TLS failure means, and the next step (pure).

The words are OpenSSL's, which all drivers pass on, and the drivers' own.
"""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.tls.modes import WITHOUT_TLS

# Parts of a message in small letters, cause and remedy; {host} and {text} are filled in. The first
# that fits counts: a server's complaint about us, an "alert", has words like those about it.
_FAULTS: Final = (
    (
        (WITHOUT_TLS.lower(),),
        "the server offers no TLS",
        (
            "enable TLS on the server; or, where the network may be trusted with the data, pass"
            " --ssl-mode DISABLED"
        ),
    ),
    (
        ("alert unknown ca", "alert bad certificate", "alert certificate", "alert decrypt error"),
        "the server does not accept the client certificate: {text}",
        (
            "pass --ssl-cert and --ssl-key that are signed by an authority of the server's ssl_ca"
            " and still valid"
        ),
    ),
    # The alert may be lost: the server closes the connection behind it.
    (
        ("lost connection", "gone away", "connection reset", "broken pipe"),
        "the server closed the connection: it may not accept the client certificate",
        "pass --ssl-cert and --ssl-key that its ssl_ca has signed, and see its error log",
    ),
    (
        ("mismatch, certificate is not valid", "hostname mismatch", "ip address mismatch"),
        "the server's certificate is not for {host}",
        (
            "pass --host with a name or an address that the certificate has, or check its authority"
            " alone with --ssl-mode VERIFY_CA"
        ),
    ),
    (
        ("expired",),
        "the server's certificate has expired",
        "renew the certificate on the server (ssl_cert, then ALTER INSTANCE RELOAD TLS)",
    ),
    (
        ("not yet valid",),
        "the server's certificate is not valid yet",
        "check the clocks of this machine and of the server",
    ),
    (
        ("self-signed", "self signed", "unable to get", "unable to verify", "verify failed"),
        "the server's certificate is not signed by an authority of --ssl-ca: {text}",
        (
            "pass the file of this server's authority: ca.pem of its data directory, or the"
            " provider's bundle; and check that it is the server that you mean"
        ),
    ),
    (
        ("fingerprint",),
        "the server shows another certificate on each connection",
        "connect to one server, not to a load balancer in front of several",
    ),
    (
        ("protocol version", "unsupported protocol", "no protocols", "handshake failure", "cipher"),
        "no TLS version or cipher that both sides have: {text}",
        "allow TLSv1.2 or TLSv1.3 on the server (tls_version)",
    ),
)
_OTHER: Final = (
    "TLS failed: {text}",
    "check --ssl-mode, --ssl-ca, --ssl-cert and --ssl-key, and the server's error log",
)


def explain_tls(text: str, host: str) -> tuple[str, str]:
    """Return cause and remedy for a message of a driver that connected under TLS.

    Args:
        host: as the operator named it.
    """
    low = text.lower()
    found = next((fault[1:] for fault in _FAULTS if any(part in low for part in fault[0])), _OTHER)
    cause, remedy = (part.format(text=text, host=host) for part in found)
    return cause, remedy

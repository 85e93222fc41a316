"""An attempt as a context of Python's ``ssl``."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from spirit_py.mysql.tls.files import identify, trust
from spirit_py.mysql.tls.modes import CertificateCheck, TlsAttempt

if TYPE_CHECKING:
    from spirit_py.config import TlsMaterial


def context_of(attempt: TlsAttempt, material: TlsMaterial) -> ssl.SSLContext:
    """Return the context of an encrypted attempt, with the client certificate if there is one.

    Without ``VERIFY_X509_STRICT``, which Python 3.13 sets in its default context: the certificates
    that MySQL makes for itself lack an extension that it demands.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = attempt.check is CertificateCheck.IDENTITY
    if attempt.check is CertificateCheck.NOTHING:
        context.verify_mode = ssl.CERT_NONE
    else:
        trust(context, material)
    if material.certificate:
        identify(context, material)
    return context

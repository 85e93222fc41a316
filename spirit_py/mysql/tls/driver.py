"""An attempt as arguments of the driver, for either library that it may be linked with.

libmysqlclient has all modes itself. MariaDB Connector/C gets REQUIRED and the fingerprint of
:mod:`spirit_py.mysql.tls.pins`, in an option file, as the driver has no argument for it; without a
fingerprint its REQUIRED goes on in the clear where the server offers no TLS, and
caching_sha2_password then sends the password as it is (measured, 3.3.20).

Connector/C before 3.4 compares SHA-1 fingerprints only, later ones SHA-2 too. To have another
certificate with the same SHA-1 one must break its second preimages, not only its collisions. A
fingerprint that the library cannot read matches nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING, Any, Final

from spirit_py.mysql.tls.files import file_of
from spirit_py.mysql.tls.modes import CertificateCheck
from spirit_py.mysql.tls.pins import fingerprint, shown_certificate

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.tls.modes import TlsAttempt

_NATIVE: Final = {
    CertificateCheck.NOTHING: "REQUIRED",
    CertificateCheck.AUTHORITY: "VERIFY_CA",
    CertificateCheck.IDENTITY: "VERIFY_IDENTITY",
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


def tls_arguments(options: ConnectionOptions, attempt: TlsAttempt) -> dict[str, Any]:
    """Return the driver's arguments for an attempt.

    Raises:
        ServerFault: the server offers no TLS, or its certificate is not right.
    """
    if not attempt.encrypted:
        return {"ssl_mode": "DISABLED"} | _without_clear_passwords(options)
    arguments: dict[str, Any] = {"ssl_mode": _NATIVE[attempt.check]}
    files: dict[str, str] = {}
    if options.tls.certificate:
        files |= {"cert": file_of(options.tls.certificate), "key": file_of(options.tls.key)}
    if attempt.check is not CertificateCheck.NOTHING:
        files["ca"] = file_of(options.tls.authorities)
    if pinning(attempt):
        arguments["ssl_mode"] = "REQUIRED"
        arguments["read_default_file"] = _pin_file(options, attempt)
    if files:
        arguments["ssl"] = files
    return arguments


def pinning(attempt: TlsAttempt) -> bool:
    """Return whether the library is given a fingerprint."""
    return attempt.encrypted and _is_connector_c()


def _without_clear_passwords(options: ConnectionOptions) -> dict[str, str]:
    """Return the arguments by which no server is sent the password as it is, over a network.

    Connector/C does it for every server that asks (``mysql_clear_password``, ``dialog``); the
    mysql client, and libmysqlclient, only where they are told so. From 3.4 on a setting forbids it.
    3.3.20 crashes where it has to refuse by that setting, so before 3.4 the library is given the
    other plugins, and a folder that has none. It still has a plugin that this process loaded
    before, for a server that asked for it under TLS.
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
    """Have the library load the plugins that are safe in the clear, as far as it has them."""
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


def _pin_file(options: ConnectionOptions, attempt: TlsAttempt) -> str:
    digits = fingerprint(shown_certificate(options, attempt), _algorithm())
    return file_of(f"[client]\nssl-fp={digits}\n".encode())


@functools.cache
def _is_connector_c() -> bool:
    """Return whether the driver is linked with MariaDB Connector/C: it alone has this function."""
    from MySQLdb import _mysql

    return hasattr(ctypes.CDLL(_mysql.__file__), "mariadb_get_infov")


@functools.cache
def _algorithm() -> str:
    """Return the algorithm of the fingerprints that the library compares."""
    from MySQLdb import _mysql

    words = str(_mysql.get_client_info())  # type: ignore[no-untyped-call]
    version = tuple(int(part) for part in words.split("-", maxsplit=1)[0].split(".")[:2])
    since = _SHA256_SINCE.get(version[0])
    later = version >= since if since else version[0] > max(_SHA256_SINCE)
    return "sha256" if later else "sha1"

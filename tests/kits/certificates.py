"""An authority of a test's own, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Signed:
    """A certificate and its private key, both files in PEM format."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority with its files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        #: The file that verifies what it signs.
        self.file = folder / f"{name}.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = x509.BasicConstraints(ca=True, path_length=None)
        self._certify(name, self._key.public_key(), [own], 30, self.file)

    @property
    def pem(self) -> bytes:
        """The content of the file."""
        return self.file.read_bytes()

    def sign(self, name: str, *alternatives: str, days: int = 30) -> Signed:
        """Return a new certificate.

        Args:
            alternatives: names and addresses: ``DNS:db1``, ``IP:127.0.0.1``.
            days: until it expires; below zero for one that has expired.
        """
        path = self._folder / f"{self._name}-{name}.pem"
        made = Signed(path, path.with_suffix(".key"))
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        made.key.write_bytes(text)
        names = [_alternative(one) for one in alternatives]
        extensions = [x509.SubjectAlternativeName(names)] if names else []
        self._certify(name, key.public_key(), extensions, days, path)
        return made

    def _certify(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        extensions: Sequence[x509.ExtensionType],
        days: int,
        file: Path,
    ) -> None:
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(_common(name))
            .issuer_name(_common(self._name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + timedelta(days=days))
        )
        for one in extensions:
            made = made.add_extension(one, critical=isinstance(one, x509.BasicConstraints))
        signed = made.sign(self._key, hashes.SHA256())
        file.write_bytes(signed.public_bytes(Encoding.PEM))


def _common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(text: str) -> x509.GeneralName:
    kind, _, name = text.partition(":")
    return x509.DNSName(name) if kind == "DNS" else x509.IPAddress(ip_address(name))

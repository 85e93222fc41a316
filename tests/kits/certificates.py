"""An authority of a test's own, and what it signs; made with the command ``openssl``."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


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
        self._key = folder / f"{name}.key"
        self._run(
            *("req", "-x509", *_NEW_KEY, "-days", "30", "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.file),
        )

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
        request, extensions = path.with_suffix(".csr"), path.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={','.join(alternatives)}\n" if alternatives else "")
        self._run("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        self._run(
            *("x509", "-req", "-in", request, "-extfile", extensions, "-days", str(days)),
            *("-CA", self.file, "-CAkey", self._key, "-CAcreateserial", "-out", path),
        )
        return made

    def _run(self, *words: str | Path) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

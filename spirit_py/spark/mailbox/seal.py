"""Prove that a message of a gang was written by the gang (R26, pure).

Rows and user variables can be written by other accounts: a variable of the same name in a session
of their own, a row by whoever may insert into the schema. What such a message claims would be
believed: a chunk that was copied, sessions that are to be ended. So each message carries a code
that only those can compute who have the gang's key. The key is random, is given to the tasks with
the password, and is on no server.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

_CODE_BYTES: Final = 64


@dataclass(frozen=True)
class Seal:
    """The key of one gang. Picklable; it is not shown.

    The place of a message, such as whose it is, is part of what its code proves, so that a message
    cannot be put elsewhere.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def close(self, message: Any, *place: str | int) -> str:
        """Return a JSON value as a text with its code."""
        text = json.dumps(message)
        return self._code(text, place) + text

    def open(self, sealed: bytes, *place: str | int) -> Any:
        """Return the value; None for a text that was not made by :meth:`close` for this place.

        Args:
            sealed: in UTF-8, as far as it is text.
        """
        code, text = sealed[:_CODE_BYTES], sealed[_CODE_BYTES:].decode(errors="replace")
        if not hmac.compare_digest(code, self._code(text, place).encode()):
            return None
        return json.loads(text)

    def _code(self, text: str, place: tuple[str | int, ...]) -> str:
        proven = json.dumps([*place, text]).encode()
        return hmac.new(self.key, proven, hashlib.sha256).hexdigest()

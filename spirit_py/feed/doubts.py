"""The keys of a table's rows that may not be what the server has.

:mod:`spirit_py.binlog.cascades` has the reason: the server may log changes of a foreign key's
cascade, and of what was in the same statement, although it has rolled them back. What is applied of
them is wrong until the row is compared, or changed again.

Keys enter at the end of their transaction, because only then it is known whether a cascade was in
it. Each has the number of the transaction that put it in doubt last; the numbers grow. A key leaves

- when a change that is in no doubt is received: it brings the whole row;
- when its row was compared in one snapshot for which everything was applied that had been received
  with the numbers up to the comparison's (:meth:`DoubtfulKeys.forget`);
- when the whole table was (the same call);
- when the server had no deadlock meanwhile (the same call).

Where writing one row may remove another one, because of a second unique key, a false row may remove
a true one, which was received after it and is applied before it, in the order of the keys. So there
no change takes a key out, and while any is in doubt every changed row comes in doubt.

The number of keys is bounded (R19). Of those beyond only the last number is kept: then nothing but
a comparison of the whole table helps.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog.events import Doubt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.codec.rows import ImageDecoder, RowChange

MOST_KEYS: Final = 100_000
"""Keys that are kept of a table: about 20 MB."""


class DoubtfulKeys:
    """The keys in doubt of one table. Thread-safe.

    Args:
        most: keys that are kept.
        independent: writing one row never removes another one.
    """

    def __init__(self, most: int = MOST_KEYS, *, independent: bool = True) -> None:
        self._mutex = threading.Lock()
        self._most = most
        self._independent = independent
        self._keys: dict[tuple[Any, ...], int] = {}
        self._codec: ImageDecoder | None = None
        self._number = 0
        #: The number of the last transaction of which a key was not kept; 0 for none.
        self._lost = 0
        #: Of the transaction that is being received.
        self._open: dict[tuple[Any, ...], None] = {}
        self._open_cascaded = self._open_lost = False

    # -- receiving

    def receive(self, changes: Sequence[RowChange], doubt: Doubt) -> None:
        """Take in the changes of a rows event."""
        if doubt is Doubt.NONE and self._independent:
            if self._keys or self._open:
                self._changed_again(changes)
            return
        if doubt is Doubt.NONE and not self.since(0):
            return
        self._open_cascaded |= doubt is not Doubt.BESIDE
        for _, before, after in changes:
            for image in (before, after):
                if image is not None:
                    self._open[image.key] = None
                    self._codec = image.codec
            if len(self._open) > self._most:
                self._open.clear()
                self._open_lost = True

    def _changed_again(self, changes: Sequence[RowChange]) -> None:
        """Drop the keys of changes that are in no doubt."""
        with self._mutex:
            for _, before, after in changes:
                for image in (before, after):
                    if image is not None:
                        self._keys.pop(image.key, None)
                        self._open.pop(image.key, None)

    def transaction_ended(self, *, cascaded: bool) -> None:
        """Put the transaction's keys in doubt if a cascade may have been in it."""
        if not (self._open or self._open_lost):
            return
        if cascaded or self._open_cascaded:
            self._enter()
        self.transaction_abandoned()

    def _enter(self) -> None:
        with self._mutex:
            self._number += 1
            if self._open_lost:
                self._lost = self._number
            for key in self._open:
                if key in self._keys or len(self._keys) < self._most:
                    self._keys[key] = self._number
                else:
                    self._lost = self._number

    def transaction_abandoned(self) -> None:
        """Forget the transaction being received: it comes again from its beginning, or never."""
        self._open = {}
        self._open_cascaded = self._open_lost = False

    # -- looking

    @property
    def number(self) -> int:
        """The number of the last transaction that put a key in doubt; 0 before the first."""
        with self._mutex:
            return self._number

    def since(self, number: int) -> bool:
        """Whether a row is in doubt since a later transaction than this one; of 0: whether any."""
        with self._mutex:
            return self._lost > number or any(put > number for put in self._keys.values())

    def up_to(self, number: int) -> bool:
        """Whether a row is in doubt since this transaction, or one before it."""
        with self._mutex:
            return 0 < self._lost <= number or any(put <= number for put in self._keys.values())

    def literals(self) -> list[str] | None:
        """Return the keys, each as ``(literal, ...)``; None when not all of them were kept."""
        with self._mutex:
            if self._lost:
                return None
            keys, codec = list(self._keys), self._codec
        return [codec.key_sql(key) for key in keys] if codec is not None else []

    def begin_comparison(self) -> int:
        """Return the number up to which a comparison of the whole table would settle all keys.

        Where not all of them were kept, there is room again for those that come during it.
        """
        with self._mutex:
            if self._lost:
                self._lost = self._number
                self._keys.clear()
            return self._number

    def forget(self, number: int, *, after: int = 0) -> None:
        """Forget the keys that are in doubt since this transaction, or one before it.

        Args:
            after: not those that are since this one, or one before it.
        """
        with self._mutex:
            kept = {key: put for key, put in self._keys.items() if not after < put <= number}
            self._keys = kept
            if after < self._lost <= number:
                self._lost = 0

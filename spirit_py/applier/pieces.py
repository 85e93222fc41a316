"""Rows whose SQL text is larger than a packet, though their values are not (pure; R19).

A hexadecimal literal takes two bytes of text for one of its value, and the values of one row
share a statement. So the large literals of such a row go to the server piece by piece, into user
variables, and the statement names the variables. A user variable holds bytes: text gets its
character set back by ``CONVERT(... USING ...)``, which takes bytes as they are.

A variable is limited to ``max_allowed_packet`` as well: no function of the server returns a longer
string.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT: Final = 128
"""Hexadecimal digits of a literal that stays where it is."""
_FRAME: Final = len("SET @spirit_py_9999 = CONCAT(@spirit_py_9999, X'')")
_TOKEN: Final = re.compile(
    r"(?:_(?P<charset>\w+) )?X'(?P<digits>[0-9A-Fa-f]*)'|'(?:[^'\\]|\\.|'')*'|[()]", re.DOTALL
)


class PiecedRow:
    """One row, with its large literals taken out.

    Literals of text are taken out anywhere, also inside a JSON expression; plain binary ones only
    where they are a column's value, because inside JSON the literal decides about the type.

    Args:
        row: ``(literal, ...)``.

    Attributes:
        text: the row with variables.
        largest: bytes of the largest value that was taken out.
    """

    def __init__(self, row: str) -> None:
        self._depth = 0
        self._digits: list[str] = []
        self.text = _TOKEN.sub(self._replaced, row)
        self.largest = max((len(digits) // 2 for digits in self._digits), default=0)

    def _replaced(self, token: re.Match[str]) -> str:
        whole = token[0]
        if whole in "()":
            self._depth += 1 if whole == "(" else -1
            return whole
        charset, digits = token["charset"], token["digits"]
        if digits is None or len(digits) <= SHORT or (charset is None and self._depth != 1):
            return whole
        self._digits.append(digits)
        name = f"@spirit_py_{len(self._digits)}"
        return name if charset is None else f"CONVERT({name} USING {charset})"

    def fill(self, room: int) -> Iterator[str]:
        """Yield the statements, of ``room`` bytes at most, that fill the variables."""
        step = max(2, (room - _FRAME) // 2 * 2)
        for number, digits in enumerate(self._digits, 1):
            name = f"@spirit_py_{number}"
            yield f"SET {name} = X'{digits[:step]}'"
            for at in range(step, len(digits), step):
                yield f"SET {name} = CONCAT({name}, X'{digits[at : at + step]}')"

    def forget(self) -> str:
        """Return the statement that empties the variables."""
        names = (f"@spirit_py_{number}" for number in range(1, len(self._digits) + 1))
        return f"SET {', '.join(f'{name} = NULL' for name in names)}"

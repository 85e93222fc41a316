"""Tables of many kinds, all written and read through the same few columns.

A row has a number, which its key is computed from, and a state: what writers change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.attached import columns

if TYPE_CHECKING:
    from collections.abc import Callable

BIG = 1 << 63
_EPOCH = datetime(2024, 2, 28, 23, 59, 59)  # noqa: DTZ001 - a DATETIME has no zone
_MEMBERS = ("", "a", "b", "Ä")


class State(NamedTuple):
    """What a row holds beside its number.

    Attributes:
        spelling: which of several keys that the server takes for equal.
    """

    value: int | None
    body: str
    slot: str | None = None
    spelling: int = 0


Key = tuple[Any, ...]


class Line(NamedTuple):
    """Which rows ``--keep`` keeps.

    Attributes:
        text: the expression, as the server judges it.
        keeps: the same, of a row's number and state.
    """

    text: str
    keeps: Callable[[int, State], bool]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of table.

    Attributes:
        columns: definition of the key columns.
        key: the key's names, and the primary key's text.
        encode: gives the key of a row number in one of its spellings.
        decode: gives number and spelling of a key as the server returns it.
        line: keeps rows by their keys.
        auto: the server gives the numbers of new rows.
        slot: there is a UNIQUE column, whose values move between rows.
        spellings: how many keys of a number the server takes for equal.
        alter: what the migration is asked for; it always adds ``note``.
        wide: rows of hundreds of KB now and then.
        attached: the table has triggers, a parent and, where its key stays, a child.
    """

    name: str
    columns: str
    key: tuple[str, ...]
    encode: Callable[[int, int], Key]
    decode: Callable[[Key], tuple[int, int]]
    line: Line
    alter: str = "ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'n'"
    auto: bool = False
    slot: bool = False
    spellings: int = 1
    wide: bool = False
    attached: bool = False

    def create(self) -> str:
        """Return the table's definition."""
        slot = "slot VARCHAR(40) NULL, UNIQUE KEY slot (slot)," if self.slot else ""
        attached = f"{columns()}," if self.attached else ""
        return (
            f"CREATE TABLE t ({self.columns}, {attached} value INT NULL, body MEDIUMTEXT NOT NULL,"
            " amount DECIMAL(14,3) NULL, kind ENUM('','a','b','Ä') CHARACTER SET latin1 NULL,"
            f" facts JSON NULL, at DATETIME(3) NULL, {slot}"
            " KEY by_value (value, at), KEY by_body (body(20) DESC),"
            f" PRIMARY KEY ({', '.join(self.key)})) CHARACTER SET utf8mb4"
        )

    @property
    def lines(self) -> tuple[Line, ...]:
        """What ``--keep`` may keep: by columns that writers change, and by the key."""
        return (*_LINES, self.line)

    @property
    def written(self) -> tuple[str, ...]:
        """The columns beside the key that writers set."""
        slot = ("slot",) if self.slot else ()
        return ("value", "body", "amount", "kind", "facts", "at", *slot)

    def values(self, state: State) -> tuple[Any, ...]:
        """Return the values of :attr:`written` for a state."""
        value = state.value
        derived: tuple[Any, ...] = (None, None, None, None)
        if value is not None:
            facts = json.dumps({"v": value, "list": [value, None, "é"], "half": value / 2})
            derived = (
                Decimal(value) / 8,
                _MEMBERS[value % 4],
                facts,
                _EPOCH + timedelta(milliseconds=value),
            )
        return (value, state.body, *derived, *((state.slot,) if self.slot else ()))

    def read(self, row: tuple[Any, ...]) -> tuple[int, State]:
        """Return number and state of a row selected as key and :attr:`written`.

        Raises:
            ValueError: when the columns that depend on ``value`` do not go with it.
        """
        width = len(self.key)
        number, spelling = self.decode(row[:width])
        rest = row[width:]
        state = State(rest[0], rest[1], rest[6] if self.slot else None, spelling)
        wanted = self.values(state)
        found = (*rest[:4], None if rest[4] is None else json.loads(rest[4]), *rest[5:])
        facts = None if wanted[4] is None else json.loads(wanted[4])
        if found != (*wanted[:4], facts, *wanted[5:]):
            raise ValueError(f"row {number} does not hold together: {found} for {wanted}")
        return number, state


def _one(number: int, _spelling: int) -> Key:
    return (number,)


def _digits(text: str) -> int:
    found = re.search(r"\d+", text)
    assert found is not None, text
    return int(found.group())


def _word(number: int, spelling: int) -> Key:
    text = f"key {number % 13} é{number:07d}"
    return (text.upper() if spelling else text,)


def _unword(key: Key) -> tuple[int, int]:
    return _digits(key[0].split()[-1]), int(key[0].startswith("K"))


_LINES = (
    Line("value >= -300000", lambda _, s: s.value is not None and s.value >= -300_000),
    Line("value % 3 <> 0", lambda _, s: s.value is not None and s.value % 3 != 0),
    Line(
        "COALESCE(value, 0) < 0 OR body LIKE 'w1 %'",
        lambda _, s: (s.value or 0) < 0 or s.body.startswith("w1 "),
    ),
    Line(
        "JSON_EXTRACT(facts, '$.v') < 500000",
        lambda _, s: s.value is not None and s.value < 500_000,
    ),
    Line("value IS NULL OR kind <> 'a'", lambda _, s: s.value is None or s.value % 4 != 1),
)

SHAPES: tuple[Shape, ...] = (
    Shape(
        name="auto",
        columns="id INT NOT NULL AUTO_INCREMENT",
        key=("id",),
        encode=_one,
        decode=lambda key: (key[0], 0),
        line=Line("id % 3 <> 0", lambda number, _: number % 3 != 0),
        alter="MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD COLUMN note VARCHAR(20)"
        " NOT NULL DEFAULT 'n', ADD INDEX value (value)",
        auto=True,
    ),
    Shape(
        name="auto-unique",
        columns="id BIGINT NOT NULL AUTO_INCREMENT",
        key=("id",),
        encode=_one,
        decode=lambda key: (key[0], 0),
        line=Line("id % 2 = 0", lambda number, _: number % 2 == 0),
        auto=True,
        slot=True,
    ),
    Shape(
        name="composite",
        columns="a SMALLINT NOT NULL, b VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        " NOT NULL",
        key=("a", "b"),
        encode=lambda number, _: (number % 7 - 3, f"k{number}"),
        decode=lambda key: (_digits(key[1]), 0),
        line=Line("a <> 0", lambda number, _: number % 7 != 3),
        alter="MODIFY value BIGINT NULL, ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'n'",
    ),
    Shape(
        name="collated",
        columns="word VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL",
        key=("word",),
        encode=_word,
        decode=_unword,
        line=Line("word LIKE 'key 1%'", lambda number, _: number % 13 in {1, 10, 11, 12}),
        spellings=2,
        slot=True,
    ),
    Shape(
        name="unsigned",
        columns="id BIGINT UNSIGNED NOT NULL",
        key=("id",),
        encode=lambda number, _: (BIG - 2000 + number * 3,),
        decode=lambda key: ((key[0] - BIG + 2000) // 3, 0),
        line=Line("id % 2 = 0", lambda number, _: number % 2 == 0),
        alter="ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'n' FIRST,"
        " MODIFY amount DECIMAL(20,4) NULL",
        slot=True,
    ),
    Shape(
        name="decimal",
        columns="id DECIMAL(20,4) NOT NULL",
        key=("id",),
        encode=lambda number, _: (Decimal(number) / 16 - 100,),
        decode=lambda key: (int((key[0] + 100) * 16), 0),
        line=Line("id >= 0", lambda number, _: number >= 1600),
    ),
    Shape(
        name="moment",
        columns="at_key DATETIME(6) NOT NULL, shard TINYINT UNSIGNED NOT NULL",
        key=("at_key", "shard"),
        encode=lambda number, _: (_EPOCH + timedelta(microseconds=137 * number), number % 5),
        decode=lambda key: (round((key[0] - _EPOCH) / timedelta(microseconds=137)), 0),
        line=Line("shard < 3", lambda number, _: number % 5 < 3),
    ),
    Shape(
        name="wide",
        columns="id VARBINARY(16) NOT NULL",
        key=("id",),
        encode=lambda number, _: (number.to_bytes(5) + b"\0\xff\0",),
        decode=lambda key: (int.from_bytes(key[0][:5]), 0),
        line=Line("ORD(SUBSTRING(id, 5, 1)) % 2 = 0", lambda number, _: number % 2 == 0),
        wide=True,
    ),
)

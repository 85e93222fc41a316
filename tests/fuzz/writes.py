"""The writes of a scenario's sessions: of every kind, each sound at its commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.attached import PARENTS
from tests.fuzz.families import one_of
from tests.fuzz.model import Actor, Unit, Write, quoted

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.fuzz.families import Family, KeyFamily

_MODES = (
    "@@GLOBAL.sql_mode",
    "''",
    "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'",
    "'STRICT_TRANS_TABLES,PIPES_AS_CONCAT'",
    # Not PAD_CHAR_TO_FULL_LENGTH: MySQL 9.7.4 loses entries of an index on a generated column
    # over a CHAR when sessions with and without it write the table, and then stops at an assertion.
    "'NO_AUTO_VALUE_ON_ZERO,HIGH_NOT_PRECEDENCE'",
    "'ANSI'",
)
#: Settings that no value depends on, and others.
_FREE = (
    "SET SESSION binlog_transaction_compression = ON",
    "SET SESSION binlog_rows_query_log_events = ON",
    "SET SESSION transaction_isolation = 'READ-COMMITTED'",
    "SET SESSION sql_require_primary_key = OFF",
    "SET SESSION innodb_lock_wait_timeout = 5",
)
_OTHER = (
    "SET time_zone = '{zone}'",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET default_week_format = 3",
    "SET div_precision_increment = 9",
    "SET lc_time_names = 'de_DE'",
)
#: Writers get numbers a million apart, and come to fewer rounds than this.
_ROUNDS = 12_000
_XA_NUMBERS = 10_000_000
ZONES = ("+00:00", "+05:30", "-08:00", "+13:00")


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A column that writers fill from its pool."""

    name: str
    family: Family
    lenient: bool
    nullable: bool


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What writers know of the table.

    Attributes:
        key: the column that tells rows apart; with ``group`` before it, where that is drawn.
        unique: a column that holds each number at most once, or nothing; empty for none.
        respells: one writer writes keys in another spelling, which is another key at most.
        parent: the table refers to another.
        incoming: other tables refer to it.
        own: it refers to itself.
        bound: writers keep the server's settings: what generated columns hold depends on them, and
            the judge has no other session than a fresh one.
    """

    key: str
    key_family: KeyFamily
    group: str
    counted: bool
    plain: tuple[Plain, ...]
    unique: str
    respells: bool
    rows: int
    bound: bool
    parent: bool = False
    incoming: bool = False
    own: bool = False


class Author:
    """Draws the writes of one session after the other."""

    def __init__(self, source: random.Random, shape: Shape) -> None:
        self._source = source
        self._shape = shape
        self._first = True
        self._modes: str = ""
        self._xa_transactions = 0
        self._offset = 0

    def actor(self) -> Actor:
        """Draw a session."""
        source = self._source
        self._offset = 0
        self._modes = _MODES[0] if self._shape.bound else source.choice(_MODES)
        session = [f"SET sql_mode = {self._modes}"]
        settings = _FREE if self._shape.bound else _FREE + _OTHER
        chosen = source.sample(settings, source.randrange(3))
        session += [setting.format(zone=source.choice(ZONES)) for setting in chosen]
        kinds = self._kinds()
        units = tuple(source.choice(kinds)() for _ in range(source.randrange(2, 7)))
        once = tuple(self._xa_transaction(at) for at in range(source.choice((0, 0, 1, 2))))
        self._first = False
        return Actor(session=tuple(session), units=units, once=once)

    def _kinds(self) -> list[Callable[[], Unit]]:
        """Return what the next session may do; what could meet itself in another one, only once."""
        kinds = [self._insert, self._insert, self._update, self._update, self._update]
        kinds += [self._delete, self._transaction, self._move, self._joined, self._insert_ignore]
        if self._first:
            kinds += [self._delete_and_insert, self._delete_and_insert]
            if self._shape.unique:
                kinds += [self._hand_over, self._hand_over]
            if self._shape.respells:
                kinds += [self._respell] * 4
            else:
                kinds += [self._replace, self._on_duplicate]
        if self._shape.parent:
            kinds += [self._adopt, self._adopt, self._parent, self._parent]
        if self._shape.incoming:
            kinds += [self._child, self._child]
        return kinds

    def _number(self) -> str:
        """Return an expression for the number of a row that may be there."""
        return f"1 + {self._source.choice(('@r', '@s'))} MOD {self._shape.rows}"

    def _new(self) -> str:
        """Return a number that no other statement uses: @n is another one in every round."""
        self._offset += _ROUNDS
        return f"@n + {self._offset}"

    def _key(self, number: str, spelling: str = "") -> str:
        return (spelling or self._shape.key_family.value).replace("{i}", f"({number})")

    def _where(self, number: str, *, both: bool = False) -> str:
        shape = self._shape
        found = f"{quoted(shape.key)} = {self._key(number)}"
        if both and shape.key_family.other:
            values = f"{self._key(number)}, {self._key(number, shape.key_family.other)}"
            found = f"{quoted(shape.key)} IN ({values})"
        return f"WHERE {found}"

    def _some_rows(self) -> str:
        """Return a WHERE over several rows where numbers tell rows apart, else over one."""
        if self._shape.key_family.name == "int" and self._source.random() < 0.6:
            low = self._number()
            return f"WHERE {quoted(self._shape.key)} BETWEEN {low} AND {low} + 9"
        return self._where(self._number())

    def _assigned(self, most: int = 3) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Draw columns and what they become."""
        source, plain = self._source, self._shape.plain
        chosen = source.sample(plain, min(len(plain), source.randrange(1, most + 1)))
        return tuple(c.name for c in chosen), tuple(self._value(c) for c in chosen)

    def _value(self, column: Plain) -> str:
        pool = column.family.pool
        if column.lenient and self._modes == "''":
            pool += column.family.lenient
        if column.nullable:
            pool += ("NULL",)
        return one_of(self._source, pool)

    def _row(self, number: str, unique: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values of a row for the columns that :meth:`_insertable` gave."""
        shape = self._shape
        values = {shape.key: self._key(number), shape.group: "@i MOD 3", shape.unique: unique}
        by_name = {column.name: column for column in shape.plain}
        return tuple(
            values[name] if name in values else self._value(by_name[name]) for name in names
        )

    def _insertable(self) -> tuple[str, ...]:
        """Draw the columns of an INSERT."""
        shape = self._shape
        names = [name for name in (shape.key, shape.group) if name]
        if shape.unique and self._source.random() < 0.8:
            names.append(shape.unique)
        names += [c.name for c in shape.plain if not c.nullable or self._source.random() < 0.7]
        return tuple(names)

    def _inserted(self, head: str, number: str = "", tail: str = "") -> Write:
        """Return an INSERT of one row with a given number, or of up to three new ones."""
        names = self._insertable()
        if number:
            row = self._row(number, self._new(), names)
            return Write(head=head, names=names, rows=(row,), tail=tail)
        numbers = [self._new() for _ in range(self._source.choice((1, 1, 2, 3)))]
        rows = tuple(self._row(new, new, names) for new in numbers)
        return Write(head=head, names=names, rows=rows, tail=tail)

    def _insert(self) -> Unit:
        if self._shape.counted and self._source.random() < 0.4:
            write = self._inserted("INSERT INTO t").without(self._shape.key)
            return (write,) if write else (self._inserted("INSERT INTO t"),)
        return (self._inserted("INSERT INTO t"),)

    def _insert_ignore(self) -> Unit:
        return (self._inserted("INSERT IGNORE INTO t"),)

    def _replace(self) -> Unit:
        return (self._inserted("REPLACE INTO t", self._number()),)

    def _on_duplicate(self) -> Unit:
        names, values = self._assigned(1)
        tail = f"ON DUPLICATE KEY UPDATE {quoted(names[0])} = {values[0]}" if names else ""
        return (
            self._inserted("INSERT INTO t" if tail else "REPLACE INTO t", self._number(), tail),
        )

    def _update(self) -> Unit:
        names, values = self._assigned()
        if not names:
            return self._insert()
        return (Write(head="UPDATE t SET", names=names, values=values, tail=self._some_rows()),)

    def _delete(self) -> Unit:
        return (Write(head="DELETE FROM t", tail=self._where(self._number(), both=True)),)

    def _joined(self) -> Unit:
        source = self._source
        number = self._number()
        join = f"JOIN (SELECT {self._key(number)} AS x) AS j ON t.{quoted(self._shape.key)} = j.x"
        if source.random() < 0.3:
            return (Write(head=f"DELETE t FROM t {join}"),)
        names, values = self._assigned()
        if not names:
            return self._delete()
        return (Write(head=f"UPDATE t {join} SET", names=names, values=values),)

    def _move(self) -> Unit:
        """Return a row another key."""
        return (
            Write(
                head="UPDATE t SET",
                names=(self._shape.key,),
                values=(self._key(self._new()),),
                tail=self._where(self._number()),
            ),
        )

    def _respell(self) -> Unit:
        """Write a key in its other spelling, or back."""
        family = self._shape.key_family
        old, new = (family.value, family.other)[:: self._source.choice((1, -1))]
        number = self._number()
        tail = f"WHERE {quoted(self._shape.key)} = {self._key(number, old)}"
        value = self._key(number, new)
        return (Write(head="UPDATE t SET", names=(self._shape.key,), values=(value,), tail=tail),)

    def _adopt(self) -> Unit:
        """Give rows to a parent that may be there, or to another row."""
        if self._shape.own and self._source.random() < 0.4:
            names, values = ("up",), (self._key(self._number()),)
        else:
            names, values = ("p",), (f"{self._source.choice(('@r', '@s'))} MOD {PARENTS}",)
        return (Write(head="UPDATE t SET", names=names, values=values, tail=self._some_rows()),)

    def _parent(self) -> Unit:
        """Let a parent come, go, or become another one."""
        one, other = f"@r MOD {PARENTS}", f"@s MOD {PARENTS}"
        heads = [
            f"INSERT IGNORE INTO parent (id) VALUES ({one}), ({other})",
            f"DELETE FROM parent WHERE id = {one}",
            f"UPDATE parent SET id = {other} WHERE id = {one}",
        ]
        if self._shape.incoming:
            heads.append(f"UPDATE parent SET fav = {self._number()} WHERE id = {one}")
        return (Write(head=self._source.choice(heads)),)

    def _child(self) -> Unit:
        """Let a child come, go, or belong to another row."""
        number = self._number()
        heads = (
            f"INSERT INTO child (id, tk) VALUES ({self._new()}, {number})",
            f"INSERT INTO child (id, tk) VALUES ({self._new()}, {number})",
            f"DELETE FROM child WHERE tk = {number}",
            f"UPDATE child SET tk = {number} WHERE tk = 1 + @s MOD 30",
        )
        return (Write(head=self._source.choice(heads)),)

    def _delete_and_insert(self) -> Unit:
        """Take a row away and put it there again, perhaps spelt in another way."""
        number = "1 + @r MOD 20"
        inserted = self._inserted("INSERT INTO t", number)
        if self._shape.respells and self._source.random() < 0.6:
            at = inserted.names.index(self._shape.key)
            row = list(inserted.rows[0])
            row[at] = self._key(number, self._shape.key_family.other)
            inserted = Write(head=inserted.head, names=inserted.names, rows=(tuple(row),))
        return (
            Write(head="BEGIN"),
            Write(head="DELETE FROM t", tail=self._where(number, both=True)),
            inserted,
            Write(head="COMMIT"),
        )

    def _hand_over(self) -> Unit:
        """Let a unique value pass from one row to another."""
        unique = quoted(self._shape.unique)
        name = (self._shape.unique,)
        # Under a key of two columns several rows may have the one that is looked for.
        first = f"{f'ORDER BY {quoted(self._shape.group)} ' * bool(self._shape.group)}LIMIT 1"
        one = f"{self._where('1 + @r MOD 30')} {first}"
        other = f"{self._where('1 + @s MOD 30')} {first}"
        return (
            Write(head="BEGIN"),
            Write(head="SET @u = NULL"),
            Write(head=f"SELECT {unique} INTO @u FROM t", tail=f"{one} FOR UPDATE"),
            Write(head="UPDATE t SET", names=name, values=(self._new(),), tail=one),
            Write(head="UPDATE t SET", names=name, values=("@u",), tail=other),
            Write(head="COMMIT"),
        )

    def _transaction(self) -> Unit:
        """Draw a transaction, with a savepoint that is gone back to, or rolled back as a whole."""
        source = self._source
        inner = [self._update, self._insert, self._delete]
        writes = [write for _ in range(2) for write in source.choice(inner)()]
        back = source.choice(inner)()
        mark = [Write(head="SAVEPOINT one"), *back, Write(head="ROLLBACK TO one")]
        end = source.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        middle = mark if source.random() < 0.5 else []
        return (Write(head="BEGIN"), *writes[:1], *middle, *writes[1:], Write(head=end))

    def _xa_transaction(self, number: int) -> Unit:
        """Draw an XA transaction, committed or rolled back; it sees no variables of a round."""
        xid = f"'fuzz-{self._source.randrange(10**9)}-{number}'"
        inner = [self._update, self._delete, self._insert_ignore]
        writes = [write for _ in range(2) for write in self._source.choice(inner)()]
        self._xa_transactions += 1
        fixed = _XA_NUMBERS * self._xa_transactions
        variables = f"SET @i = 3, @n = {fixed}, @r = {fixed % 89}, @s = {fixed % 97}"
        return (
            Write(head="SET sql_mode = @@GLOBAL.sql_mode"),
            Write(head=variables),
            Write(head=f"XA START {xid}"),
            *(Write(**{**vars(w), "head": _ignoring(w.head)}) for w in writes),
            Write(head=f"XA END {xid}"),
            Write(head=f"XA PREPARE {xid}"),
            Write(head=f"XA {self._source.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {xid}"),
        )


def _ignoring(head: str) -> str:
    """Let a row that does not fit be left out, so that the XA transaction continues."""
    return head.replace("UPDATE t", "UPDATE IGNORE t", 1)

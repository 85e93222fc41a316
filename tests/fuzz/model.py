"""A migration as data that can be made smaller: what is drawn, played, and shrunk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.oracle.case import Case, Expectation, Timing, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What a write may fail with: values that do not fit, keys that are taken.
FORGIVEN = frozenset(
    (
        *(1022, 1048, 1062, 1103, 1136, 1213, 1205, 1264, 1265, 1292, 1364, 1365, 1366, 1406),
        *(1411, 1416, 1441, 1467, 1526, 1690, 3140, 3141, 3156, 3157, 3638, 3751, 3752, 3819),
        *(1105, 1366, 3903, 3904, 3905, 3907, 3940),
        # Rows that refer to each other, and a snapshot from before the swap.
        *(1412, 1451, 1452),
    )
)
_GONE = re.compile(r"(?:DROP COLUMN|RENAME COLUMN|CHANGE) `(\w+)`")


def quoted(name: str) -> str:
    """Quote one of the plain names that are drawn here."""
    return f"`{name}`"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as CREATE TABLE has it.

    Attributes:
        start: its value in the row number ``i`` of the first rows; empty when the server makes it.
    """

    name: str
    definition: str
    start: str = ""

    def __str__(self) -> str:
        """Return the line of CREATE TABLE."""
        return f"{quoted(self.name)} {self.definition}"


@dataclass(frozen=True, kw_only=True)
class Write:
    """One statement; ``INSERT`` and ``UPDATE`` as assignments that can be taken away.

    Attributes:
        rows: rows of an INSERT, each with a value for each of ``names``.
        values: what an UPDATE assigns to each of ``names``.
    """

    head: str
    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    values: tuple[str, ...] = ()
    tail: str = ""

    def __str__(self) -> str:
        """Return the statement."""
        if self.rows:
            names = ", ".join(map(quoted, self.names))
            rows = ", ".join(f"({', '.join(row)})" for row in self.rows)
            return f"{self.head} ({names}) VALUES {rows} {self.tail}".strip()
        pairs = zip(self.names, self.values, strict=True)
        sets = ", ".join(f"{quoted(name)} = {value}" for name, value in pairs)
        return " ".join(part for part in (self.head, sets, self.tail) if part)

    def without(self, name: str) -> Write | None:
        """Return the statement without a column; None where it is about that column."""
        if quoted(name) in self.head + self.tail or quoted(name) in repr((self.rows, self.values)):
            return None
        if name not in self.names:
            return self
        if len(self.names) == 1:
            return None
        at = self.names.index(name)
        return replace(
            self,
            names=_cut(self.names, at),
            rows=tuple(_cut(row, at) for row in self.rows),
            values=_cut(self.values, at),
        )


def _cut(given: tuple[str, ...], at: int) -> tuple[str, ...]:
    return given[:at] + given[at + 1 :]


#: Statements that belong together: one alone, or a transaction.
Unit = tuple[Write, ...]


def unit_without(unit: Unit, name: str) -> Unit:
    """Return a unit without a column; empty where nothing is left but BEGIN and COMMIT."""
    left = tuple(found for write in unit if (found := write.without(name)))
    control = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "SET ")
    return left if any(not str(write).startswith(control) for write in left) else ()


@dataclass(frozen=True, kw_only=True)
class Actor:
    """One session: its settings, what it repeats, and what is done once meanwhile."""

    session: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    once: tuple[Unit, ...] = ()

    def without(self, name: str) -> Actor:
        """Return the session without everything about a column."""
        return replace(
            self,
            units=tuple(found for unit in self.units if (found := unit_without(unit, name))),
            once=tuple(found for unit in self.once if (found := unit_without(unit, name))),
        )


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A table, a change, writers, and a server's settings.

    Attributes:
        lines: keys and checks of CREATE TABLE.
        options: what stands behind the closing parenthesis.
        before: statements before the table's own, as ``after`` has those behind it.
        invariants: SELECTs that must return no row at any commit.
        rows: how many first rows there are.
        poisoned: a write is among them that the new definition cannot hold.
        keep: which rows the new table has; empty for all.
        flush_interval: of the change feed, seconds.
    """

    seed: int
    columns: tuple[Column, ...]
    lines: tuple[str, ...]
    options: str
    rows: int
    clauses: tuple[str, ...]
    actors: tuple[Actor, ...]
    timing: Timing
    poisoned: bool
    server: tuple[tuple[str, str | int], ...] = ()
    flush_interval: float = 0.05
    batch_rows: int = 100
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    keep: str = ""

    @property
    def cascades(self) -> bool:
        """Whether a foreign key changes rows by itself."""
        texts = " ".join((*self.lines, *self.after))
        return "CASCADE" in texts or "SET NULL" in texts

    def without_column(self, name: str) -> Scenario:
        """Return the scenario without a column and all that is about it."""
        mark = quoted(name)
        return replace(
            self,
            columns=tuple(
                c for c in self.columns if c.name != name and mark not in c.definition + c.start
            ),
            lines=tuple(line for line in self.lines if mark not in line),
            options="" if mark in self.options else self.options,
            clauses=tuple(clause for clause in self.clauses if mark not in clause),
            keep="" if mark in self.keep else self.keep,
            actors=tuple(actor.without(name) for actor in self.actors),
        )

    def case(self) -> Case:
        """Return the scenario as a case, as ``tests/cases`` has them."""
        return Case(
            name=f"fuzz_{self.seed}",
            setup=self._setup(),
            alter=", ".join(self.clauses),
            invariants=self.invariants,
            statement="",
            writers=tuple(self._writer(actor) for actor in self.actors),
            expect=Expectation(
                server=dict(self.server), keyless=False, effects=False, keep=self.keep
            ),
            timing=self.timing,
        )

    def _setup(self) -> tuple[str, ...]:
        body = ",\n  ".join([*map(str, self.columns), *self.lines])
        filled = [column for column in self.columns if column.start]
        names = ", ".join(quoted(column.name) for column in filled)
        values = ", ".join(column.start for column in filled)
        return (
            (
                "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', cte_max_recursion_depth = 10000,"
                " sql_require_primary_key = OFF"
            ),
            *self.before,
            f"CREATE TABLE t (\n  {body}\n) {self.options}".strip(),
            *self.after,
            # The twin gets these rows from the binlog.
            (
                f"INSERT INTO t ({names}) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1"
                f" FROM n WHERE i < {self.rows}) SELECT {values} FROM n"
            ),
        )

    def _writer(self, actor: Actor) -> Writer:
        later = actor
        for clause in self.clauses:
            for name in _GONE.findall(clause):
                later = later.without(name)
        return Writer(
            session=actor.session,
            allowed=FORGIVEN,
            during=_flat(actor.units),
            after=_flat(later.units),
            meanwhile=_flat(actor.once),
        )


def _flat(units: Iterable[Unit]) -> tuple[str, ...]:
    return tuple(str(write) for unit in units for write in unit)


def as_files(case: Case) -> str:
    """Show a case as the files of a directory of ``tests/cases``."""
    parts = ["--- table.sql", *(f"{statement};" for statement in case.setup)]
    parts += ["--- alter.sql", case.alter, "--- during.sql"]
    for writer in case.writers:
        parts.append("-- @writer")
        parts += [f"-- @session {statement}" for statement in writer.session]
        parts.append(f"-- @allow {' '.join(map(str, sorted(writer.allowed)))}")
        parts += [f"{statement};" for statement in writer.during]
        for mark, statements in (("after", writer.after), ("meanwhile", writer.meanwhile)):
            if statements and statements != writer.during:
                parts += [f"-- @{mark}", *(f"{statement};" for statement in statements)]
    if case.invariants:
        parts += ["--- invariants.sql", *(f"{one};" for one in case.invariants)]
    settings = ", ".join(f"{name} = {json.dumps(v)}" for name, v in case.expect.server.items())
    parts += ["--- expect.toml", "effects = false", "keyless = false", f"server = {{ {settings} }}"]
    parts += [f"keep = {json.dumps(case.expect.keep)}"] if case.expect.keep else []
    parts.append(f"# played {case.timing.name.lower()}")
    return "\n".join(parts)

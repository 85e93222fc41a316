"""Draw a table: columns that tell rows apart, columns that hold values, computed ones, keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fuzz.families import FAMILIES, KEYS
from tests.fuzz.model import Column, quoted

if TYPE_CHECKING:
    import random

    from tests.fuzz.families import Family, KeyFamily


@dataclass(kw_only=True)
class Table:
    """What has been drawn so far."""

    source: random.Random
    columns: list[Column] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    plain: dict[str, tuple[Family, str]] = field(default_factory=dict)
    clauses: list[str] = field(default_factory=list)
    #: Columns that the ALTER gives another name or place, or takes away.
    touched: set[str] = field(default_factory=set)
    key: str = "k"
    group: str = ""
    key_type: str = ""
    key_family: KeyFamily = KEYS[0]
    primary: bool = True
    counted: bool = False
    unique: str = ""
    coarser: bool = False
    partitioned: bool = False
    related: bool = False

    def chance(self, share: float) -> bool:
        """Draw yes or no."""
        return self.source.random() < share

    def definition(self, name: str) -> str:
        """Return what CREATE TABLE says of a column."""
        return next(c.definition for c in self.columns if c.name == name)


def draw_keys(table: Table) -> None:
    """Draw the columns that tell rows apart, and the key over them."""
    source = table.source
    table.key_family = family = source.choice((KEYS[0], *KEYS))
    table.key_type = source.choice(family.types)
    table.counted = family.name == "int" and table.chance(0.5)
    table.primary = table.chance(0.85)
    extra = " AUTO_INCREMENT" if table.counted else ""
    start = family.value.replace("{i}", "i")
    table.columns.append(
        Column(name="k", definition=f"{table.key_type} NOT NULL{extra}", start=start)
    )
    names = [quoted("k")]
    if not table.counted and table.chance(0.25):
        table.group = "g"
        table.columns.append(Column(name="g", definition="INT NOT NULL", start="i MOD 3"))
        names.insert(source.randrange(2), quoted("g"))
    kind = "PRIMARY KEY" if table.primary else "UNIQUE KEY `only`"
    order = " DESC" if table.chance(0.1) else ""
    table.lines.append(f"{kind} ({', '.join(names)}{order})")
    if table.chance(0.6):
        table.unique = "u"
        table.columns.append(Column(name="u", definition="INT", start="i"))


def draw_columns(table: Table) -> None:
    """Draw the columns that hold values."""
    source = table.source
    for number in range(source.randrange(1, 6)):
        family = source.choice(FAMILIES)
        kind = source.choice(family.types)
        name = f"c{number}"
        pool = tuple(value.replace("@", "0+@") for value in family.pool if "@" not in value)
        values = " ".join(f"WHEN {at} THEN {value}" for at, value in enumerate(pool))
        start = f"CASE (i * 7 + {number}) MOD {len(pool)} {values} END"
        invisible = " INVISIBLE" if table.chance(0.05) else ""
        nullable = "NULL" not in kind and table.chance(0.7)
        null = "" if nullable or "NULL" in kind else " NOT NULL"
        table.plain[name] = (family, kind)
        table.columns.append(Column(name=name, definition=kind + null + invisible, start=start))
    source.shuffle(table.columns)


def draw_generated(table: Table) -> None:
    """Draw columns that the server computes."""
    for number, (name, (family, _)) in enumerate(list(table.plain.items())):
        if family.computed and table.chance(0.35):
            definition = computed(table, family, name)
            table.columns.append(Column(name=f"v{number}", definition=definition))


def computed(table: Table, family: Family, name: str) -> str:
    """Draw the definition of a generated column over a column."""
    kind, expression = table.source.choice(family.computed)
    how = table.source.choice(("STORED", "STORED", "VIRTUAL"))
    return f"{kind} AS ({expression.replace('{c}', quoted(name))}) {how}"


def draw_secondary(table: Table) -> None:
    """Draw keys beside the one that tells rows apart, and checks."""
    for name, (family, kind) in table.plain.items():
        if family.indexed and table.chance(0.25):
            table.lines.append(f"KEY `{name}_key` ({indexed(family, kind, name)})")
        elif family.name == "json" and kind == "JSON" and table.chance(0.5):
            cast = f"(CAST({quoted(name)}->'$.tags' AS UNSIGNED ARRAY))"
            table.lines.append(f"KEY `{name}_tags` ({cast})")
        elif family.name in {"small", "decimal"} and table.chance(0.1):
            table.lines.append(f"CHECK ({quoted(name)} <> 12345)")
        elif family.name == "latin" and table.chance(0.2):
            table.lines.append(f"KEY `{name}_upper` ((UPPER(LEFT({quoted(name)}, 9))))")
    if table.unique and table.chance(0.35):
        table.lines.append("UNIQUE KEY `u_key` (`u`)")


def indexed(family: Family, kind: str, name: str) -> str:
    """Return how a key names a column."""
    prefixed = "TEXT" in kind or "BLOB" in kind
    return (family.indexed if prefixed else "{c}").replace("{c}", quoted(name))

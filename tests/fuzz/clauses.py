"""Draw a sound change of a table: clauses that lose nothing and do not get in each other's way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.model import quoted
from tests.fuzz.table import computed, indexed

if TYPE_CHECKING:
    from tests.fuzz.table import Table


def draw_clauses(table: Table) -> None:
    """Draw one to four clauses that do not get in each other's way."""
    source = table.source
    kinds = [_modify_key, _modify, _modify, _modify, _add_unique, _add_unique, _add, _add_generated]
    kinds += [_drop, _rename, _reorder, _index, _options, _change_primary]
    kinds += [_lengthen_key, _lengthen_key]
    for kind in source.sample(kinds, source.choice((1, 2, 2, 3, 4))):
        if clause := kind(table):
            table.clauses.append(clause)
    if not table.clauses:
        table.clauses.append("ADD COLUMN `x9` INT")


def _free(table: Table, *, named: bool = False) -> str:
    """Return a plain column that no clause is about yet and, with ``named``, nothing else names."""
    lines = " ".join([*table.lines, *(c.definition for c in table.columns)])
    found = [
        name
        for name in table.plain
        if name not in table.touched and not (named and quoted(name) in lines)
    ]
    if not found:
        return ""
    name = table.source.choice(found)
    table.touched.add(name)
    return name


def _modify_key(table: Table) -> str:
    """Change the type of the key: longer, padded, of another collation."""
    kind = table.source.choice(table.key_family.types)
    if "PRIMARY KEY (" in str(table.clauses):
        return ""
    if "UNSIGNED" in kind + table.key_type or kind == table.key_type:
        return ""
    types = table.key_family.types
    if table.key_family.longer and types.index(kind) < types.index(table.key_type):
        return ""
    table.coarser = True
    extra = " AUTO_INCREMENT" if table.counted else ""
    return f"MODIFY `k` {kind} NOT NULL{extra}"


def _modify(table: Table) -> str:
    """Change a column to another type that can hold its values."""
    name = _free(table)
    if not name:
        return ""
    family, old = table.plain[name]
    kind = table.source.choice(family.types)
    if ("TEXT" in kind or "BLOB" in kind) and f"({quoted(name)})" in " ".join(table.lines):
        return ""
    null = " NOT NULL" if " NOT NULL" in table.definition(name) and "NULL" not in kind else ""
    return f"MODIFY {quoted(name)} {kind}{null}" if kind != old else ""


def _add_unique(table: Table) -> str:
    """Make a column unique that is so in fact: by itself, by a function, with a generated one."""
    if not table.unique or "ADD UNIQUE" in " ".join(table.clauses):
        return ""
    return table.source.choice(
        (
            "ADD UNIQUE `new_u` (`u`)",
            "ADD UNIQUE `new_u` (`u`)",
            "ADD UNIQUE `new_u` ((`u` * 2))",
            "ADD UNIQUE `new_u` ((LOWER(CONCAT('U', `u`))))",
            "ADD COLUMN `uu` BIGINT AS (`u` + 5) VIRTUAL, ADD UNIQUE `new_u` (`uu`)",
            "ADD COLUMN `uu` BIGINT AS (`u` + 5) STORED, ADD UNIQUE `new_u` (`uu`)",
            (
                "ADD UNIQUE `new_u` ((CAST(IF(`u` IS NULL, JSON_ARRAY(), JSON_ARRAY(`u`, -`u`))"
                " AS SIGNED ARRAY)))"
            ),
        )
    )


def _add(table: Table) -> str:
    default = table.source.choice(
        (
            "INT",
            "INT NOT NULL DEFAULT 7",
            "VARCHAR(20) NOT NULL DEFAULT 'é'",
            "VARCHAR(40) DEFAULT (CONCAT('a', 1 / 3))",
            "JSON DEFAULT (JSON_ARRAY(1, 2.5))",
            "DATETIME NOT NULL DEFAULT '2024-01-01 10:00:00'",
            "TIMESTAMP NOT NULL DEFAULT '2024-01-01 10:00:00'",
            "VARCHAR(60) DEFAULT (DATE_FORMAT('2024-03-03', '%W'))",
            "DECIMAL(30,12) DEFAULT (1 / 7)",
            "INT DEFAULT (WEEK('2021-01-03'))",
            "ENUM('a','b') NOT NULL DEFAULT 'b'",
            "BINARY(3) NOT NULL",
            "TIME INVISIBLE",
        )
    )
    place = table.source.choice(("", "", " FIRST", " AFTER `k`"))
    return f"ADD COLUMN `x0` {default}{place}"


def _add_generated(table: Table) -> str:
    found = [(n, f) for n, (f, _) in table.plain.items() if f.computed and n not in table.touched]
    if not found:
        return ""
    name, family = table.source.choice(found)
    table.touched.add(name)
    return f"ADD COLUMN `x1` {computed(table, family, name)}"


def _drop(table: Table) -> str:
    name = _free(table, named=True)
    return f"DROP COLUMN {quoted(name)}" if name else ""


def _rename(table: Table) -> str:
    name = _free(table, named=True)
    if not name:
        return ""
    family, _ = table.plain[name]
    if table.chance(0.5):
        return f"RENAME COLUMN {quoted(name)} TO `{name}_b`"
    kind = table.source.choice(family.types)
    null = " NOT NULL" if " NOT NULL" in table.definition(name) and "NULL" not in kind else ""
    return f"CHANGE {quoted(name)} `{name}_b` {kind}{null}"


def _reorder(table: Table) -> str:
    name = _free(table)
    if not name:
        return ""
    return f"MODIFY {quoted(name)} {table.definition(name)}" + table.source.choice(
        (" FIRST", " AFTER `k`")
    )


def _index(table: Table) -> str:
    found = [line for line in table.lines if line.startswith(("KEY", "UNIQUE KEY `u_key`"))]
    if found and table.chance(0.5):
        line = table.source.choice(found)
        return f"DROP INDEX `{line.split('`')[1]}`"
    name = _free(table)
    if not name or not table.plain[name][0].indexed:
        return ""
    family, kind = table.plain[name]
    return f"ADD INDEX `new_index` ({indexed(family, kind, name)})"


def _options(table: Table) -> str:
    return table.source.choice(
        (
            "ENGINE=InnoDB",
            "ROW_FORMAT=COMPRESSED",
            "COMMENT='changed'",
            "DEFAULT CHARACTER SET utf8mb4",
            "STATS_PERSISTENT=1",
            "AUTO_INCREMENT=5000" if table.counted else "ENGINE=InnoDB",
            "CONVERT TO CHARACTER SET utf8mb4" if not _has_text(table) else "ENGINE=InnoDB",
        )
    )


def _has_text(table: Table) -> bool:
    """Whether CONVERT TO would reach a column whose values or key might not allow it."""
    return any("CHAR" in c.definition or "TEXT" in c.definition for c in table.columns)


def _change_primary(table: Table) -> str:
    """Return the table another key that tells rows apart as well."""
    if table.counted or table.key_family.name == "double" or "`k`" in str(table.clauses):
        return ""
    if not table.primary:
        return "" if table.group else "DROP INDEX `only`, ADD PRIMARY KEY (`k`)"
    if table.group:
        return "DROP PRIMARY KEY, ADD PRIMARY KEY (`g`, `k`), ADD UNIQUE `was` (`k`, `g`)"
    return "DROP PRIMARY KEY, ADD UNIQUE `was_primary` (`k`)"


def _lengthen_key(table: Table) -> str:
    """Put a column that writers change into the key, in front of the old key or behind it."""
    if "`k`" in str(table.clauses):
        return ""
    found = [
        name
        for name, (family, kind) in table.plain.items()
        if name not in table.touched
        and family.indexed
        and not ("TEXT" in kind or "BLOB" in kind)
        and " NOT NULL" in table.definition(name)
    ]
    if not found:
        return ""
    name = table.source.choice(found)
    table.touched.add(name)
    more, old = quoted(name), [quoted(one) for one in (table.group, "k") if one]
    table.source.shuffle(old)
    parts = table.source.choice(([*old, more], [old[0], more, *old[1:]], [more, *old]))
    found_by = f", ADD INDEX `old_key` ({old[0]})" if parts[0] == more else ""
    dropped = "PRIMARY KEY" if table.primary else "INDEX `only`"
    return f"DROP {dropped}, ADD PRIMARY KEY ({', '.join(parts)}){found_by}"

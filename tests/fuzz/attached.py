"""Draw triggers of all six kinds and foreign keys around a table, and what proves each effect.

Triggers write ``tlog`` and count in the row itself: ``tb`` how often BEFORE INSERT has fired for
it, ``tv`` BEFORE UPDATE; writers count their own updates of it in ``tu``. So a row says by itself
whether a trigger fired twice or not at all, and ``tlog`` has exactly one line for each row that was
inserted or deleted, and the updates of those that are gone. Cascaded changes fire no trigger of the
table: BEFORE DELETE of the parent writes the lines of the rows that fall with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.fuzz.model import Column, quoted

if TYPE_CHECKING:
    from tests.fuzz.model import Actor, Unit, Write
    from tests.fuzz.table import Table

#: Numbers of parents; some of them are gone at any moment.
PARENTS = 25
LOG = "CREATE TABLE tlog (id BIGINT AUTO_INCREMENT PRIMARY KEY, what CHAR(1), n INT NOT NULL)"
TRIGGERS = (
    "CREATE TRIGGER t_bi BEFORE INSERT ON t FOR EACH ROW SET NEW.tb = NEW.tb + 1",
    (
        "CREATE TRIGGER t_ai AFTER INSERT ON t FOR EACH ROW"
        " INSERT INTO tlog (what, n) VALUES ('i', NEW.tv)"
    ),
    "CREATE TRIGGER t_bu BEFORE UPDATE ON t FOR EACH ROW SET NEW.tv = NEW.tv + 1",
    (
        "CREATE TRIGGER t_au AFTER UPDATE ON t FOR EACH ROW"
        " INSERT INTO tlog (what, n) VALUES ('u', NEW.tv - OLD.tv)"
    ),
    (
        "CREATE TRIGGER t_bd BEFORE DELETE ON t FOR EACH ROW"
        " INSERT INTO tlog (what, n) VALUES ('b', OLD.tv)"
    ),
    (
        "CREATE TRIGGER t_ad AFTER DELETE ON t FOR EACH ROW"
        " INSERT INTO tlog (what, n) VALUES ('d', OLD.tv)"
    ),
)
_SECOND = (
    "CREATE TRIGGER t_au2 AFTER UPDATE ON t FOR EACH ROW {order} t_au"
    " INSERT INTO tlog (what, n) VALUES ('w', 1)"
)
_FALLING = (
    "CREATE TRIGGER parent_bd BEFORE DELETE ON parent FOR EACH ROW"
    " INSERT INTO tlog (what, n) SELECT falls.what, t.tv FROM t,"
    " (SELECT 'b' AS what UNION ALL SELECT 'd') AS falls WHERE t.p = OLD.id FOR SHARE"
)
ACCOUNTS = (
    "SELECT tb, tv, tu FROM t WHERE tb <> 1 OR tv <> tu",
    (
        "SELECT logged.*, there.* FROM"
        " (SELECT COALESCE(SUM(what = 'i'), 0) AS i, COALESCE(SUM(what = 'd'), 0) AS d,"
        " COALESCE(SUM(what = 'b'), 0) AS b, COALESCE(SUM(IF(what = 'u', n, 0)), 0) AS u,"
        " COALESCE(SUM(what = 'w'), 0) AS w,"
        " COALESCE(SUM(IF(what = 'd', n, 0)), 0) AS gone FROM tlog) AS logged,"
        " (SELECT COUNT(*) AS n, COALESCE(SUM(tv), 0) AS v FROM t) AS there"
        " WHERE i - d <> n OR b <> d OR u <> v + gone OR w NOT IN ({second})"
    ),
)
_ON_DELETE = ("", " ON DELETE RESTRICT", " ON DELETE SET NULL", " ON DELETE CASCADE")
_ON_UPDATE = ("", " ON UPDATE CASCADE", " ON UPDATE SET NULL")


@dataclass(frozen=True, kw_only=True)
class Attached:
    """What is made around a table.

    Attributes:
        before: statements before its CREATE TABLE.
        after: statements behind it, before its first rows.
        invariants: SELECTs that must return no row, whoever writes.
        parent: the table has one.
        incoming: other tables, and its own rows, refer to its key.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    parent: bool = False
    incoming: bool = False


def draw_attached(table: Table) -> Attached:
    """Draw what is attached; the table gets the columns and keys that go with it."""
    triggers, keys = table.chance(0.45), table.chance(0.4)
    made = _draw_keys(table, triggers=triggers) if keys else Attached()
    if not triggers:
        return made
    for name in ("tb", "tv", "tu"):
        table.columns.append(Column(name=name, definition="INT NOT NULL DEFAULT 0"))
    second = table.chance(0.5)
    more = [_SECOND.format(order=table.source.choice(("FOLLOWS", "PRECEDES")))] if second else []
    accounts = (ACCOUNTS[0], ACCOUNTS[1].format(second="u" if second else "0"))
    return replace(
        made,
        before=(LOG, *made.before),
        after=(*TRIGGERS, *more, *made.after),
        invariants=(*accounts, *made.invariants),
    )


def _draw_keys(table: Table, *, triggers: bool) -> Attached:
    """Draw a parent, and, where the key can be referred to, children, a cycle, and the table."""
    source = table.source
    deletes, updates = source.choice(_ON_DELETE), source.choice(_ON_UPDATE)
    table.related = True
    table.columns.append(Column(name="p", definition="INT"))
    name = source.choice(("t_ibfk_1", "to_parent"))
    table.lines.append(
        f"CONSTRAINT `{name}` FOREIGN KEY (`p`) REFERENCES `parent` (`id`){deletes}{updates}"
    )
    falling = [_FALLING] if triggers and "CASCADE" in deletes else []
    incoming = table.key_family.name == "int" and not table.group and table.chance(0.7)
    own = table.key_type if incoming else "INT"
    before = (
        f"CREATE TABLE parent (id INT PRIMARY KEY, fav {own})",
        "INSERT INTO parent (id) VALUES " + ", ".join(f"({n})" for n in range(PARENTS)),
    )
    invariants = ["SELECT t.p FROM t LEFT JOIN parent ON id = p WHERE p > -1 AND id IS NULL"]
    after = list(falling)
    if incoming:
        after += _draw_incoming(table)
        invariants += [
            "SELECT tk FROM child LEFT JOIN t ON k = tk WHERE tk > -1 AND k IS NULL",
            "SELECT fav FROM parent LEFT JOIN t ON k = fav WHERE fav > -1 AND k IS NULL",
        ]
        if table.chance(0.6):
            table.columns.append(Column(name="up", definition=own))
            on_delete = source.choice(("", " ON DELETE SET NULL"))
            table.lines.append(
                f"CONSTRAINT `itself` FOREIGN KEY (`up`) REFERENCES `t` (`k`){on_delete}"
            )
    return Attached(
        before=before,
        after=tuple(after),
        invariants=tuple(invariants),
        parent=True,
        incoming=incoming,
    )


def _draw_incoming(table: Table) -> list[str]:
    """Draw a child, and a key of the parent back to the table."""
    source = table.source
    deletes, updates = source.choice(_ON_DELETE), source.choice(_ON_UPDATE)
    name = source.choice(("child_ibfk_1", "of_t"))
    made = [
        (
            f"CREATE TABLE child (id BIGINT PRIMARY KEY, tk {table.key_type},"
            f" CONSTRAINT `{name}` FOREIGN KEY (tk) REFERENCES t (k){deletes}{updates})"
        )
    ]
    if table.chance(0.5):
        made.append(
            "ALTER TABLE parent ADD CONSTRAINT `cycle` FOREIGN KEY (fav) REFERENCES t (k)"
            " ON DELETE SET NULL"
        )
    else:
        made.append(
            "ALTER TABLE parent ADD CONSTRAINT `back` FOREIGN KEY (fav) REFERENCES t (k)"
            " ON DELETE SET NULL ON UPDATE CASCADE"
        )
    return made


def counting(actor: Actor) -> Actor:
    """Return a session that counts its updates of each row in the row."""

    def counted(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        return tuple(tuple(_counted(write) for write in unit) for unit in units)

    return replace(actor, units=counted(actor.units), once=counted(actor.once))


def _counted(write: Write) -> Write:
    head, tail = write.head, write.tail
    if re.match(r"UPDATE (IGNORE )?t\b", head):
        head = re.sub(r" SET$", f" SET t.{quoted('tu')} = t.{quoted('tu')} + 1,", head)
    duplicate = "ON DUPLICATE KEY UPDATE "
    return replace(
        write, head=head, tail=tail.replace(duplicate, f"{duplicate}`tu` = t.`tu` + 1, ")
    )

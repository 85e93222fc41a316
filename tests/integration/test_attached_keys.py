"""Foreign keys at the swap: where they are after it, and in every state that can be left."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.attached.record import Attachments
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.migration.attachments import SwapAttachments, settle_left
from tests.kits.attached import Swapping, definitions, loose_ends, run_killed_after
from tests.kits.cutover import ProvenCutover, SnapshotSource

#: Name: the tables that are swapped, and the definitions of all, in the order of their creation.
SHAPES = {
    "child": (
        ("t",),
        {
            "p": "id INT PRIMARY KEY",
            "q": "id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY ab (a, b)",
            "t": "id INT PRIMARY KEY, p INT, q INT, a INT, b INT, KEY own (q),"
            " CONSTRAINT named FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE,"
            " FOREIGN KEY (a, b) REFERENCES q (a, b) ON DELETE RESTRICT ON UPDATE CASCADE,"
            " CONSTRAINT q FOREIGN KEY (q) REFERENCES q (id) ON DELETE SET NULL",
        },
    ),
    "parent": (
        ("t",),
        {
            "t": "id INT PRIMARY KEY, p INT, UNIQUE KEY p (p)",
            "c": "id INT PRIMARY KEY, a INT, b INT, KEY own (b, a),"
            " FOREIGN KEY (a) REFERENCES t (id) ON DELETE SET NULL ON UPDATE CASCADE,"
            " CONSTRAINT named FOREIGN KEY (b) REFERENCES t (p) ON DELETE NO ACTION",
            "d": "id INT PRIMARY KEY, CONSTRAINT d_to_t FOREIGN KEY (id) REFERENCES t (id)",
        },
    ),
    "self": (
        ("t",),
        {
            "t": "id INT PRIMARY KEY, up INT, p INT,"
            " FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE,"
            " CONSTRAINT other FOREIGN KEY (p) REFERENCES t (id)",
            "c": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id)",
        },
    ),
    "together": (
        ("t", "c"),
        {
            "p": "id INT PRIMARY KEY",
            "t": "id INT PRIMARY KEY, p INT, back INT, KEY back (back),"
            " FOREIGN KEY (p) REFERENCES p (id)",
            "c": "id INT PRIMARY KEY, p INT,"
            " CONSTRAINT up FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE",
            "d": "id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES t (id),"
            " FOREIGN KEY (q) REFERENCES c (id)",
        },
    ),
}
CYCLE = "ALTER TABLE t ADD CONSTRAINT round FOREIGN KEY (back) REFERENCES c (id) ON DELETE SET NULL"


def made(db, shape: str) -> Swapping:
    """Make the tables of a shape, with a few rows each."""
    names, tables = SHAPES[shape]
    for table, definition in tables.items():
        db.execute(f"CREATE TABLE `{table}` ({definition})")
    if shape == "together":
        db.execute(CYCLE)
    return Swapping(db, names)


class Copied(SnapshotSource):
    """A change source whose new tables have all rows already."""

    def flush_under_table_lock(self, session: Any, only: Any = None) -> None:
        """Write nothing."""


def cutover(swapping: Swapping, attached: SwapAttachments) -> ProvenCutover:
    """Return the swap."""
    return ProvenCutover(
        swapping.db,
        swapping.swaps,
        Copied(*swapping.swaps),
        attached=attached,
        message=swapping.process.message,
        stop=swapping.process.stop,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_swap_leaves_every_key_as_a_native_alter_does(db, shape):
    """Names, actions, indexes: SHOW CREATE TABLE of all tables is as before."""
    swapping = made(db, shape)
    tables = SHAPES[shape][1]
    before = definitions(db, tables)
    attached = swapping.attachments()
    result = cutover(swapping, attached).run()
    assert definitions(db, tables) == before
    assert loose_ends(db) == []
    assert "rename" in result.steps_ms
    attached.finish()
    with swapping.session() as session:
        assert CheckpointTable(db.name, swapping.names[0]).read(session, Attachments) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_packet_that_stopped_anywhere_is_undone_or_completed(db, shape):
    """After each of its statements; before the RENAME nothing has changed, after it all is done."""
    swapping = made(db, shape)
    tables = SHAPES[shape][1]
    before = definitions(db, tables)
    number, renamed = 0, False
    attached = swapping.attachments()
    attached.survey()
    length = len(attached.statements.all)
    assert length >= 4
    for number in range(length + 1):
        renamed = run_killed_after(swapping, number)
        with swapping.session() as session:
            settle_left(swapping.process, session, [(db.name, swapping.names[0])])
        assert definitions(db, tables) == before, f"after {number} statements"
        assert loose_ends(db) == [], f"after {number} statements"
        if renamed:
            back_again(swapping)
    assert renamed


def back_again(swapping: Swapping) -> None:
    """Drop the old tables, and make new copies."""
    for name in swapping.names:
        swapping.db.execute(f"DROP TABLE `_{name}_old`")
        swapping.db.execute(f"CREATE TABLE `_{name}_new` LIKE `{name}`")

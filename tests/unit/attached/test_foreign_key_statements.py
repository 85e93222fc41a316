"""Foreign keys as SQL."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, replace

import pytest

from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.attached.sequence import added, constraint, dropped

KEY = ForeignKey(
    name="f`k",
    schema="shop",
    table="lines",
    columns=("order_id", "no"),
    parent_schema="o ther",
    parent_table="orders",
    parent_columns=("id", "n`o"),
    on_delete="SET NULL",
    on_update="RESTRICT",
    parent_index="PRIMARY",
)


def test_a_key_is_rendered_whole_and_quoted():
    """Names are quoted, both actions are written, and the parent has its schema."""
    assert constraint(KEY) == (
        "CONSTRAINT `f``k` FOREIGN KEY (`order_id`, `no`)"
        " REFERENCES `o ther`.`orders` (`id`, `n``o`) ON DELETE SET NULL ON UPDATE RESTRICT"
    )
    assert added(replace(KEY, name="g")).startswith("ADD CONSTRAINT `g` FOREIGN KEY")
    assert dropped(KEY) == "DROP FOREIGN KEY `f``k`"


def test_a_key_survives_pickling_and_json():
    """What is noted in a checkpoint comes back as it was."""
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    noted = json.loads(json.dumps(asdict(KEY)))
    columns = {name: tuple(noted[name]) for name in ("columns", "parent_columns")}
    assert ForeignKey(**noted | columns) == KEY


@pytest.mark.parametrize(
    ("on_delete", "on_update", "changes"),
    [
        ("NO ACTION", "RESTRICT", False),
        ("CASCADE", "NO ACTION", True),
        ("NO ACTION", "SET NULL", True),
        ("SET DEFAULT", "NO ACTION", True),
    ],
)
def test_a_key_knows_whether_its_parent_changes_rows(on_delete, on_update, changes):
    """Only NO ACTION and RESTRICT leave the child as it is."""
    assert replace(KEY, on_delete=on_delete, on_update=on_update).changes_rows is changes

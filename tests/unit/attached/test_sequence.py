"""The statements of a swap with foreign keys, and what remains of them."""

from __future__ import annotations

from dataclasses import replace

from spirit_py.attached import sequence
from spirit_py.attached.foreign_keys.model import ForeignKey
from spirit_py.attached.record import Attachments, AttachmentsNote, KeyMove
from spirit_py.attached.sequence import Existing, remaining, sequence_of, undoing
from spirit_py.checkpoint.codec import from_text, to_text
from spirit_py.table.names import Swap

X1, X2, X3 = (f"_spirit_py_0f0f0f0f_{number}" for number in (1, 2, 3))
SWAP = Swap(schema="s", table="t", new="_t_new", old="_t_old")
OF_T = ForeignKey(
    name="t_ibfk_1",
    schema="s",
    table="t",
    columns=("a",),
    parent_schema="s",
    parent_table="p",
    parent_columns=("id",),
    on_delete="CASCADE",
    parent_index="PRIMARY",
)
TO_T = ForeignKey(
    name="f",
    schema="other",
    table="c",
    columns=("t",),
    parent_schema="s",
    parent_table="t",
    parent_columns=("id",),
    parent_index="PRIMARY",
)
NOTED = Attachments(
    swaps=(SWAP,),
    keys=(
        KeyMove(before=OF_T, after=replace(OF_T, columns=("b",)), temporary=X1, indexes=("i",)),
        KeyMove(before=TO_T, after=TO_T, temporary=X2),
    ),
)


def test_a_key_and_its_copy_hold_together_until_the_original_is_dropped():
    """Copies, RENAME, originals, names; a name that the server gave follows the table."""
    rule = "ON DELETE NO ACTION ON UPDATE NO ACTION"
    assert sequence_of(NOTED).all == (
        (
            f"ALTER TABLE `s`.`_t_new` ADD CONSTRAINT `{X1}` FOREIGN KEY (`b`)"
            " REFERENCES `s`.`p` (`id`) ON DELETE CASCADE ON UPDATE NO ACTION,"
            " RENAME INDEX `i` TO `i`, ALGORITHM=INPLACE"
        ),
        (
            f"ALTER TABLE `other`.`c` ADD CONSTRAINT `{X2}` FOREIGN KEY (`t`) REFERENCES"
            f" `s`.`_t_new` (`id`) {rule}, ALGORITHM=INPLACE"
        ),
        "RENAME TABLE `s`.`t` TO `s`.`_t_old`, `s`.`_t_new` TO `s`.`t`",
        "ALTER TABLE `s`.`_t_old` DROP FOREIGN KEY `_t_old_ibfk_1`, ALGORITHM=INPLACE",
        "ALTER TABLE `other`.`c` DROP FOREIGN KEY `f`, ALGORITHM=INPLACE",
        (
            f"ALTER TABLE `s`.`t` DROP FOREIGN KEY `{X1}`, ADD CONSTRAINT `t_ibfk_1` FOREIGN KEY"
            " (`b`) REFERENCES `s`.`p` (`id`) ON DELETE CASCADE ON UPDATE NO ACTION,"
            " ALGORITHM=INPLACE"
        ),
        (
            f"ALTER TABLE `other`.`c` DROP FOREIGN KEY `{X2}`, ADD CONSTRAINT `f` FOREIGN KEY (`t`)"
            f" REFERENCES `s`.`t` (`id`) {rule}, ALGORITHM=INPLACE"
        ),
    )


def test_a_key_that_the_alter_drops_is_only_taken_off_the_old_table():
    """It gets no copy."""
    noted = Attachments(swaps=(SWAP,), keys=(KeyMove(before=OF_T, after=None, temporary=X1),))
    assert [str(sql)[:24] for sql in sequence_of(noted).all] == [
        "RENAME TABLE `s`.`t` TO ",
        "ALTER TABLE `s`.`_t_old`",
    ]


def test_nothing_remains_once_every_key_has_its_name():
    """Neither after the swap nor, where there was none, before it."""
    after = [move.after for move in NOTED.keys if move.after is not None]
    assert remaining(NOTED.note, Existing(keys=tuple(after))) == []
    assert undoing(NOTED.note, Existing(keys=(OF_T, TO_T))) == []


def test_only_the_copies_that_exist_are_undone():
    """Here the packet stopped after its first statement."""
    copy = replace(OF_T, name=X1, table="_t_new", columns=("b",))
    assert undoing(NOTED.note, Existing(keys=(OF_T, TO_T, copy))) == [
        f"ALTER TABLE `s`.`_t_new` DROP FOREIGN KEY `{X1}`, ALGORITHM=INPLACE"
    ]


def test_a_key_that_somebody_has_dropped_meanwhile_is_not_made_again():
    """It is named, because nothing proves that its rows still fit."""
    left = [key for key in sequence.renamed(NOTED) if key.name != X2]
    assert not any(
        "ADD CONSTRAINT `f`" in str(sql)
        for sql in remaining(NOTED.note, Existing(keys=tuple(left)))
    )
    assert sequence.missing(NOTED.note, [key for key in left if key.name != "f"]) == [
        NOTED.keys[1].note
    ]


def test_the_tables_beside_those_that_are_swapped_are_known():
    """Parents and children, each once."""
    assert NOTED.note.others == (("other", "c"), ("s", "p"))


def test_the_row_of_the_checkpoint_table_reads_back():
    """With keys of which some are dropped."""
    noted = replace(NOTED, keys=(*NOTED.keys, KeyMove(before=OF_T, after=None, temporary=X3)))
    assert from_text(to_text(noted.note), AttachmentsNote) == noted.note
    assert "CASCADE" not in to_text(noted.note)


def test_an_original_is_dropped_under_whatever_name_the_server_left_it():
    """Settling finds it also where RENAME did not rename it; what is not on the old table stays."""
    left = replace(OF_T, table="_t_old")
    to_old, copy = replace(TO_T, parent_table="_t_old"), replace(TO_T, name=X2)
    statements = remaining(NOTED.note, Existing(keys=(left, to_old, copy)))
    assert statements[:2] == [
        "ALTER TABLE `s`.`_t_old` DROP FOREIGN KEY `t_ibfk_1`, ALGORITHM=INPLACE",
        "ALTER TABLE `other`.`c` DROP FOREIGN KEY `f`, ALGORITHM=INPLACE",
    ]
    assert remaining(NOTED.note, Existing(keys=(OF_T, TO_T))) == []


def test_a_child_that_is_not_swapped_keeps_its_key_until_it_has_the_copy():
    """R26: a note that nobody has sent takes no key from a table of another schema."""
    assert remaining(NOTED.note, Existing(keys=(replace(TO_T, parent_table="_t_old"),))) == []

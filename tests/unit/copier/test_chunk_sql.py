"""The exact text of the statements that copy a chunk."""

from __future__ import annotations

from dataclasses import replace

from spirit_py.copier.chunk_sql import chunk_lock, copy_sql, row_lookup_sql
from spirit_py.table.mapping import ColumnPair, Fill
from tests.kits.chunks import chunk, mapping, primary
from tests.kits.definitions import column

ID, V = column("id", "int"), column("v", "varchar")
PLAIN = mapping(primary("id"), ID, V)


def test_a_chunk_is_one_replace_select():
    """The source is only read: REPLACE, not INSERT IGNORE, and by the key's index (R1)."""
    assert copy_sql(PLAIN, chunk(1, 10, 20)) == (
        "REPLACE INTO `s`.`_t_new` (`id`, `v`) SELECT `id`, `v`"
        " FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE (`id` > 10) AND (`id` <= 20)"
    )


def test_renamed_columns_and_fills_are_named():
    """New names on the left, old names and constants on the right, in the same order."""
    pairs = (ColumnPair(old=V, new=column("w", "varchar")), ColumnPair(old=ID, new=ID))
    changed = replace(PLAIN, pairs=pairs, fills=(Fill(column=column("n"), sql="0"),))
    assert copy_sql(changed, chunk(0, None, None)) == (
        "REPLACE INTO `s`.`_t_new` (`w`, `id`, `n`) SELECT `v`, `id`, 0"
        " FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE TRUE"
    )


def test_an_invisible_key_is_made_usable():
    """Forcing an invisible index is an error unless the optimizer may use it."""
    hidden = mapping(primary("id", visible=False), ID, V)
    assert copy_sql(hidden, chunk(0, None, 9)) == (
        "REPLACE INTO `s`.`_t_new` (`id`, `v`)"
        " SELECT /*+ SET_VAR(optimizer_switch='use_invisible_indexes=on') */ `id`, `v`"
        " FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE (`id` <= 9)"
    )


def test_a_row_is_looked_up_by_its_place():
    """Row 3 of a chunk is at offset 2 of its walk."""
    assert row_lookup_sql(PLAIN, chunk(1, 10, 20), ("`id`",), row=3) == (
        "SELECT `id` FROM `s`.`t` FORCE INDEX (`PRIMARY`)"
        " WHERE (`id` > 10) AND (`id` <= 20) ORDER BY `id` LIMIT 1 OFFSET 2"
    )


def test_a_row_is_looked_up_by_its_null():
    """The server does not say in which row a NULL was refused."""
    assert row_lookup_sql(PLAIN, chunk(1, 10, None), ("`id`",), null="v") == (
        "SELECT `id` FROM `s`.`t` FORCE INDEX (`PRIMARY`)"
        " WHERE (`id` > 10) AND `v` IS NULL ORDER BY `id` LIMIT 1 OFFSET 0"
    )


def test_lock_names_fit_and_are_each_chunks_own():
    """GET_LOCK takes 64 characters; without the origin no name can be guessed (R18, R26)."""
    names = {
        chunk_lock(PLAIN, chunk(number, None, None), origin)
        for number in (1, 11, 10**15 - 1)
        for origin in ("a", "b")
    }
    assert len(names) == 6
    assert max(map(len, names)) <= 64

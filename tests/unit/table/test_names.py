"""Names of auxiliary tables: long enough to differ, short enough for the server."""

from __future__ import annotations

from spirit_py.table.names import MAX_IDENTIFIER, AuxiliaryNames, lock_name


def all_names(table: str) -> tuple[str, ...]:
    """Return every auxiliary name of a table."""
    names = AuxiliaryNames.of(table)
    return names.new, names.old, names.checkpoint, names.sentinel, names.undone


def test_a_short_name_is_kept_whole():
    """A short name is kept whole between an underscore and the suffix."""
    assert all_names("t") == ("_t_new", "_t_old", "_t_chkpnt", "_t_snt", "_t_undone")


def test_names_of_every_length_are_taken_by_the_server():
    """Every length up to 64, in any letters, gives names that the server takes."""
    for letter in ("t", "é", "表"):
        for length in range(1, MAX_IDENTIFIER + 1):
            for name in all_names(letter * length):
                assert len(name) <= MAX_IDENTIFIER


def test_check_constraints_can_be_renamed_whatever_the_name():
    """RENAME TABLE can rename ``t_chk_1`` to ``_t_old_chk_1`` whatever the table's name."""
    for length in range(1, MAX_IDENTIFIER + 1):
        names = AuxiliaryNames.of("t" * length)
        for name in (names.new, names.old):
            assert len(f"{name}_chk_9999") <= MAX_IDENTIFIER


def test_long_names_do_not_meet():
    """Tables that differ in their last letter only have other auxiliary names."""
    tables = ["x" * 63 + end for end in "abc"] + ["x" * length for length in range(40, 65)]
    names = [name for table in tables for name in all_names(table)]
    assert len(set(names)) == len(names)


def test_the_same_name_gives_the_same_names():
    """A resumed run finds what an earlier one made."""
    assert AuxiliaryNames.of("x" * 64) == AuxiliaryNames.of("x" * 64)


def test_lock_names_fit_and_differ():
    """Lock names fit, and parts that only look alike when joined give other names."""
    long_name = lock_name("purpose-of-a-long-name-" * 3, "s", "t")
    assert len(long_name) <= MAX_IDENTIFIER
    assert lock_name("p", "a", "b.c") != lock_name("p", "a.b", "c")
    assert lock_name("p", "a", "b") == lock_name("p", "a", "b")

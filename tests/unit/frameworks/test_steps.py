"""Which statements of a migration are made, by the form of the table."""

from __future__ import annotations

import itertools

import pytest

from spirit_py.frameworks.steps import ABSENT, RevisionStep, form_of, made_of


def steps(*forms, made):
    """Return steps of one table that lead from form to form; the first ``made`` are made."""
    return [
        RevisionStep(
            history="h",
            number=number,
            table="s.t",
            statement=f"S{number}",
            before=before,
            after=after,
            made=number < made,
        )
        for number, (before, after) in enumerate(itertools.pairwise(forms))
    ]


@pytest.mark.parametrize(
    ("forms", "made", "now", "expected"),
    [
        # Nothing but the beginning.
        ("ab", 0, "a", 0),
        # Killed between the swap and the note.
        ("ab", 0, "b", 1),
        ("abc", 1, "b", 1),
        ("abc", 1, "c", 2),
        # A column is dropped and added again: the table looks as before, and is not.
        ("aba", 2, "a", 2),
        ("aba", 1, "a", 2),
        ("aba", 1, "b", 1),
        # A statement that leaves the definition as it is counts where it was noted alone.
        ("aa", 0, "a", 0),
        ("aa", 1, "a", 1),
        # What was never begun is not made, whatever the form.
        ("abc", 0, "c", -1),
        # Somebody else has changed it.
        ("ab", 1, "x", -1),
        ("ab", 0, "x", -1),
    ],
)
def test_what_is_made_shows_in_the_form(forms, made, now, expected):
    """The last step that left the form counts, with all before it."""
    assert made_of(steps(*forms, made=made), now) == expected


def test_a_table_that_is_made_and_one_that_goes():
    """No table is a form like any other."""
    assert made_of(steps(ABSENT, "a", made=1), "a") == 1
    assert made_of(steps("a", ABSENT, made=1), ABSENT) == 1
    assert made_of([], "a") == 0


CREATE = (
    "CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `{0}f` FOREIGN KEY (`a`) REFERENCES `p` (`a`),\n"
    "  CONSTRAINT `{0}c` CHECK ((`a` > 1))\n) ENGINE=InnoDB{1}"
)


def test_names_of_constraints_and_the_counter_are_no_part_of_the_form():
    """A copy gives constraints other names, and rows move the counter."""
    assert form_of(CREATE.format("", "")) == form_of(CREATE.format("_", " AUTO_INCREMENT=7"))
    assert form_of(CREATE.format("", "")) != form_of(CREATE.format("", " COMMENT='x'"))


def test_foreign_keys_come_from_the_definition_that_has_them():
    """A temporary table has none."""
    whole = CREATE.format("", "")
    without = whole.replace("\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`a`),", "")
    assert form_of(without) != form_of(whole)
    assert form_of(without, whole) == form_of(whole)

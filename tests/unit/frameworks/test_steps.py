"""Which statements of a migration are made, by the form of the table."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from spirit_py import points
from spirit_py.classes import replace
from spirit_py.frameworks import steps as steps_module
from spirit_py.frameworks.joining import ABSENT, form_of
from spirit_py.frameworks.steps import RevisionStep, StepTable, VersionSwap, made_of, same_form
from spirit_py.mysql.tables.identity import NOTHING, Identity


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


def test_what_has_no_step_may_come_between():
    """A plain statement of the migration itself has changed the table before the next step."""
    made, begun = steps("a", "b", made=1)[0], replace(steps("c", "d", made=0)[0], number=1)
    assert made_of([made, begun], "c") == 1
    assert made_of([made, begun], "d") == 2
    assert made_of([made, begun], "x") == -1


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


def test_a_parent_may_be_renamed():
    """It is another table's change, though the definition shows it."""
    parent = "REFERENCES `p` (`a`)"
    renamed = CREATE.replace(parent, "REFERENCES `s`.`q,``(` (`b`, `c d`)")
    cascade = CREATE.replace(parent, f"{parent} ON DELETE CASCADE")
    before, after, other = (form_of(one.format("", "")) for one in (CREATE, renamed, cascade))
    assert same_form(before, after)
    assert not same_form(before, other)
    assert made_of(steps("a", before, made=1), after) == 1
    assert made_of(steps(before, after, made=0), before) == 0


def test_a_form_of_an_earlier_version_is_known_again():
    """It has no digest without the names of parents."""
    now = form_of(CREATE.format("", ""))
    earlier, _ = now.split()
    assert made_of(steps("a", earlier, made=1), now) == 1
    assert made_of(steps(earlier, "a", made=0), now) == 0
    assert not same_form("", now)


class Killed(Exception):
    """The run ends at a point."""


class VersionsAlone:
    """A session of a schema with a version table, and beside it what a swap has made."""

    def __init__(self):
        self.made = ""
        self.drops = 0

    def query(self, sql, _=()):
        """Answer."""
        if "TABLE_TYPE, TABLE_COMMENT" in sql:
            return [("BASE TABLE", self.made)] if self.made else []
        if "ENGINE, TABLE_COMMENT" in sql:
            return [("InnoDB", "", "")]
        return [("v", "CREATE TABLE `v` (\n  `n` int\n)")] if sql.startswith("SHOW") else []

    def execute(self, sql, _=()):
        """Keep the comment of what is made."""
        if sql.startswith("CREATE"):
            (self.made,) = re.findall(r"COMMENT='(.*)'", sql)
        elif sql.startswith("DROP"):
            self.made, self.drops = "", self.drops + 1


def test_a_version_table_that_a_killed_run_left_without_a_note_is_dropped(monkeypatch):
    """It bears the mark by which the next run takes it for its own."""
    session: Any = VersionsAlone()

    def number(_session, _schema, table):
        made = session.made and table != "v"
        return Identity(server="u", numbers=frozenset({7})) if made else NOTHING

    def kill(point):
        raise Killed(point)

    monkeypatch.setattr(steps_module, "identity", number)
    monkeypatch.setattr(points, "reach", kill)
    swap = VersionSwap(("s", "v"), (), (), (), "s")
    for drops in (0, 1):
        with pytest.raises(Killed, match="versions_made"):
            swap.prepare(session)
        assert session.drops == drops


def test_version_tables_of_several_schemas_have_tables_of_steps_of_their_own():
    """Their migrations have one default schema, where the steps are kept."""
    session: Any = None
    names = {StepTable(lambda: session, (one, "v" * 64)).name for one in ("", "a", "b")}
    assert len(names) == 3
    assert max(map(len, names)) <= 64
    assert StepTable(lambda: session, ("", "alembic_version")).name == "_alembic_version_steps"

"""The diff of two definitions."""

from __future__ import annotations

from spirit_py.units import diff_of

OLD = "CREATE TABLE `t` (\n  `a` int,\n  `b` int,\n  `c` int,\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB"


def test_a_comma_at_the_end_of_a_line_is_no_difference():
    """It depends on what follows: a key that is added behind the last one changes one line."""
    new = OLD.replace("  PRIMARY KEY (`a`)\n", "  PRIMARY KEY (`a`),\n  KEY `b` (`b`)\n")
    changed = [line for line in diff_of(OLD, new) if line.mark in {"added", "removed"}]
    assert changed == [("added", "  KEY `b` (`b`)")]


def test_the_same_definition_has_no_lines():
    """Nothing changes."""
    assert diff_of(OLD, OLD) == []


def test_lines_that_are_the_same_are_left_out_but_for_those_around():
    """A gap stands for them."""
    new = OLD.replace("`t` (", "`u` (").replace("=InnoDB", "=InnoDB COMMENT='x'")
    marks = [line.mark for line in diff_of(OLD, new)]
    assert "gap" in marks
    assert marks.count("removed") == marks.count("added") == 2

"""CHECK constraints on the way to the new table and back."""

from __future__ import annotations

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement import alter_of
from spirit_py.statement.rewrite import (
    TemporaryForm,
    check_definitions,
    check_names,
    rewrite_clauses,
    rewrite_create,
    written,
)

CREATE = """CREATE TABLE `t` (
  `id` int NOT NULL,
  `v` int DEFAULT NULL COMMENT 'CONSTRAINT `mine` CHECK ',
  PRIMARY KEY (`id`),
  CONSTRAINT `mine` CHECK ((`v` > 0)),
  CONSTRAINT `t_chk_1` CHECK ((`v` < 9)) /*!80016 NOT ENFORCED */
) ENGINE=InnoDB AUTO_INCREMENT=7"""


def test_generated_names_follow_the_table():
    """A name that RENAME TABLE carries along gets the new table's prefix."""
    assert check_names("t", "_t_new", ["t_chk_7", "t_chk_x"], []) == {
        "t_chk_7": "_t_new_chk_7",
        "t_chk_x": "_t_new_chk_x",
    }


def test_other_names_are_toggled():
    """Another name gets an underscore, and the next migration takes it away again."""
    assert check_names("t", "_t_new", ["mine"], ["mine"]) == {"mine": "_mine"}
    assert check_names("t", "_t_new", ["_mine"], ["_mine"]) == {"_mine": "mine"}


def test_taken_names_are_avoided():
    """A name that the schema holds already, whatever its case, is not used."""
    assert check_names("t", "_t_new", ["mine"], ["mine", "_MINE"]) == {"mine": "mine_2"}
    both = check_names("t", "_t_new", ["a", "A"], ["a"])
    assert len({name.lower() for name in both.values()}) == 2


def test_no_room_for_a_name():
    """A name of 64 letters loses its last one, unless it can lose an underscore."""
    long = "x" * 64
    assert check_names("t", "_t_new", [long], []) == {long: "_" + "x" * 63}
    numbered = check_names("t", "_t_new", [long], ["_" + "x" * 63])
    assert numbered == {long: "x" * 61 + "_2"}
    with pytest.raises(Refusal, match="free name"):
        check_names(
            "t", "_t_new", ["mine"], ["_mine", *(f"mine_{number}" for number in range(2, 100))]
        )
    assert check_names("t", "_t_new", ["_" + "x" * 63], []) == {"_" + "x" * 63: "x" * 63}


def test_only_names_change_in_a_definition():
    """Only the table's name and the names of CHECK constraints change in the definition."""
    names = {"mine": "_mine", "t_chk_1": "_t_new_chk_1"}
    assert rewrite_create(CREATE, "s", "t", "_t_new", names) == CREATE.replace(
        "TABLE `t`", "TABLE `s`.`_t_new`"
    ).replace("  CONSTRAINT `mine`", "  CONSTRAINT `_mine`").replace("t_chk_1", "_t_new_chk_1")


def test_the_definition_of_a_check_is_read_whole():
    """What a constraint demands is read from the definition, enforcement included."""
    assert check_definitions(CREATE, ["mine", "t_chk_1", "other"]) == {
        "mine": "((`v` > 0))",
        "t_chk_1": "((`v` < 9)) /*!80016 NOT ENFORCED */",
    }


def test_a_definition_of_unknown_form_is_refused():
    """A text that is not known is refused, not guessed at."""
    with pytest.raises(Refusal, match="expected form"):
        rewrite_create("CREATE VIEW `t` AS SELECT 1", "s", "t", "_t_new", {})


@pytest.mark.parametrize(
    ("clauses", "rewritten"),
    [
        ("DROP CHECK mine", "DROP CHECK `_mine`"),
        ("DROP CHECK `MINE`, ADD c INT", "DROP CHECK `_mine`, ADD c INT"),
        ("DROP CONSTRAINT t_chk_1", "DROP CONSTRAINT `_t_new_chk_1`"),
        ("ALTER CHECK mine NOT ENFORCED", "ALTER CHECK `_mine` NOT ENFORCED"),
        ("ALTER CONSTRAINT mine ENFORCED", "ALTER CONSTRAINT `_mine` ENFORCED"),
        ("ADD CHECK (v > 1)", "ADD CHECK (v > 1)"),
        ("ADD CONSTRAINT CHECK (v > 1)", "ADD CONSTRAINT CHECK (v > 1)"),
        ("ADD CONSTRAINT fresh CHECK (v > 1)", "ADD CONSTRAINT fresh CHECK (v > 1)"),
        ("ADD CONSTRAINT t_chk_5 CHECK (v > 1)", "ADD CONSTRAINT `_t_new_chk_5` CHECK (v > 1)"),
        ("ADD CONSTRAINT mine CHECK (v > 1)", "ADD CONSTRAINT mine CHECK (v > 1)"),
        (
            "DROP CHECK mine, ADD CONSTRAINT mine CHECK (v > 1)",
            "DROP CHECK `_mine`, ADD CONSTRAINT `_mine` CHECK (v > 1)",
        ),
        (
            "ADD w INT CONSTRAINT t_chk_8 CHECK (w > 0)",
            "ADD w INT CONSTRAINT `_t_new_chk_8` CHECK (w > 0)",
        ),
        ("DROP INDEX mine", "DROP INDEX mine"),
        ("COMMENT 'DROP CHECK mine'", "COMMENT 'DROP CHECK mine'"),
    ],
)
def test_only_names_of_constraints_change_in_clauses(clauses, rewritten):
    """Clauses speak of the new table's constraints; nothing else of the text changes."""
    names = {"mine": "_mine", "t_chk_1": "_t_new_chk_1"}
    assert rewrite_clauses(alter_of("s", "t", clauses), "t", "_t_new", names) == rewritten


def test_a_clause_of_a_list_in_parentheses_stands_alone():
    """A column whose name begins with the word is no clause that has it."""
    statement = alter_of("s", "t", "ADD (added_at DATETIME, Add$x INT, b INT), add c INT")
    assert [written(one) for one in statement.parsed] == [
        *("ADD added_at DATETIME", "ADD Add$x INT", "ADD b INT", "add c INT")
    ]


@pytest.mark.parametrize(
    ("clauses", "rewritten"),
    [
        ("DROP FOREIGN KEY f", "FORCE"),
        ("add c int, drop /* a */ foreign key `F`, add d int", "add c int, FORCE, add d int"),
        ("DROP CONSTRAINT F, DROP CONSTRAINT mine", "FORCE, DROP CONSTRAINT `_mine`"),
        ("DROP CONSTRAINT other", "DROP CONSTRAINT other"),
        ("ADD c INT COMMENT 'x, DROP FOREIGN KEY f'", "ADD c INT COMMENT 'x, DROP FOREIGN KEY f'"),
    ],
)
def test_a_foreign_key_that_is_dropped_needs_no_change_of_the_new_table(clauses, rewritten):
    """The new table has no foreign keys: only the clause's place among the others is kept."""
    statement = alter_of("s", "t", clauses)
    assert rewrite_clauses(statement, "t", "_t_new", {"mine": "_mine"}, keys=["f"]) == rewritten


@pytest.mark.parametrize(
    "options",
    [
        "KEY_BLOCK_SIZE=8",
        "COMPRESSION='zlib' /*!80016 ENCRYPTION='Y' */",
        "KEY_BLOCK_SIZE=8 COMMENT='x' CONNECTION='y' DATA DIRECTORY='/z/'",
    ],
)
def test_options_come_back_where_the_server_writes_them(options):
    """Before a comment, old or new, but for the directories."""
    create = f"CREATE TABLE `t` (\n  `id` int NOT NULL\n) ENGINE=InnoDB {options}"
    form = TemporaryForm.of(create, "t")
    assert form is not None
    made = f"CREATE TABLE `t` {form.body}"
    assert form.complete(made, alter_of("a", "t", "ADD c INT")) == create
    new = made.partition(" COMMENT=")[0] + " COMMENT='new'"
    rest = " DATA DIRECTORY='/z/'" if "DIRECTORY" in options else ""
    expected = create.partition(" COMMENT=")[0] + f" COMMENT='new'{rest}"
    assert form.complete(new, alter_of("a", "t", "COMMENT 'new'")) == expected


@pytest.mark.parametrize(
    ("clauses", "left"),
    [
        ("DROP INDEX x", "CONSTRAINT"),
        ("DROP FOREIGN KEY X", "FULLTEXT KEY"),
        ("DROP CONSTRAINT x", "FULLTEXT KEY"),
    ],
)
def test_an_index_and_a_foreign_key_of_one_name_are_two(clauses, left):
    """Each goes by its own clauses alone."""
    lines = [
        "  FULLTEXT KEY `x` (`v`)",
        "  CONSTRAINT `x` FOREIGN KEY (`p`) REFERENCES `q` (`id`)",
    ]
    create = ",\n".join(["CREATE TABLE `t` (\n  `v` text", *lines]) + "\n) ENGINE=InnoDB"
    form = TemporaryForm.of(create, "t")
    assert form is not None
    whole = form.complete(f"CREATE TABLE `t` {form.body}", alter_of("a", "t", clauses))
    assert [line for line in lines if line in whole] == [
        line for line in lines if line.startswith(f"  {left} ")
    ]


@pytest.mark.parametrize(
    "option", [" DATA DIRECTORY='/srv/comments/'", " /*!50100 TABLESPACE `comments` */"]
)
def test_a_value_that_names_an_option_is_no_option(option):
    """What the statement sets is known by the option's own name."""
    create = f"CREATE TABLE `t` (\n  `id` int NOT NULL\n) ENGINE=InnoDB{option}"
    form = TemporaryForm.of(create, "t")
    assert form is not None
    whole = form.complete(f"CREATE TABLE `t` {form.body}", alter_of("a", "t", "COMMENT='x'"))
    assert whole == create


def test_a_key_to_the_same_table_has_the_new_names():
    """However the table is written in the statement."""
    create = (
        "CREATE TABLE `o(` (\n  `id` int NOT NULL,\n  `up` int DEFAULT NULL,\n"
        "  KEY `k(` (`up`,`id`),\n"
        "  CONSTRAINT `j` FOREIGN KEY (`up`, `id`) REFERENCES `o(` (`id`, `up`),\n"
        "  CONSTRAINT `k(` FOREIGN KEY (`up`) REFERENCES `o(` (`id`) ON DELETE CASCADE\n) ENGINE=x"
    )
    form = TemporaryForm.of(create, "o(")
    assert form is not None
    made = form.complete(
        f"CREATE TABLE `o(` {form.body}", alter_of("a", "O(", "RENAME COLUMN id TO oid")
    )
    assert "(`up`) REFERENCES `o(` (`oid`) ON DELETE CASCADE\n" in made
    # As SHOW CREATE TABLE writes them: with a blank where it is a foreign key's.
    assert "FOREIGN KEY (`up`, `oid`) REFERENCES `o(` (`oid`, `up`),\n" in made


def test_an_index_with_a_lines_end_in_a_columns_name_is_taken_out_whole():
    """As one is that has a grave accent in its comment."""
    index = ",\n  FULLTEXT KEY `a``\n` (`w,\n``x`) COMMENT 'it''s `'"
    create = f"CREATE TABLE `t` (\n  `id` int NOT NULL{index},\n  KEY `k` (`id`)\n) ENGINE=InnoDB"
    form = TemporaryForm.of(create, "t")
    assert form is not None
    assert form.fulltext == (index,)
    assert form.body == "(\n  `id` int NOT NULL,\n  KEY `k` (`id`)\n) ENGINE=InnoDB"

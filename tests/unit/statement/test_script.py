"""A file of statements: delimiters, comments, USE, and the line of each statement."""

from __future__ import annotations

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement.lexer import DEFAULT_MODE, SqlMode
from spirit_py.statement.parse import ScriptStatement, read_script


def read(text, mode=DEFAULT_MODE):
    """Return all statements of a text."""
    return list(read_script(text, mode))


def test_statements_end_at_the_delimiter_and_know_their_line():
    """Blanks and comments before a statement are not of it; the last delimiter may be missing."""
    first = "-- first; not this\n\nALTER TABLE a.b ADD c INT;"
    text = f"{first} # more;\n/* x; \n */ ALTER TABLE d.e FORCE"
    assert read(text) == [
        ScriptStatement("ALTER TABLE a.b ADD c INT", 3),
        ScriptStatement("ALTER TABLE d.e FORCE", 5),
    ]


@pytest.mark.parametrize(
    "inside", ["'a;b'", '"a;b"', "`a;b`", "'it''s;'", r"'\';'", "/* ; */ 1", "1 -- ;\n", "1 # ;\n"]
)
def test_a_delimiter_in_quotes_or_in_a_comment_ends_nothing(inside):
    """The lexer of the statements reads them here too."""
    first, second = read(f"ALTER TABLE a.b COMMENT {inside}, FORCE; ALTER TABLE c.d FORCE;")
    assert first.text == f"ALTER TABLE a.b COMMENT {inside}, FORCE"
    assert second.text == "ALTER TABLE c.d FORCE"


@pytest.mark.parametrize("delimiter", ["//", "$$", "|", ";;"])
def test_another_delimiter_counts_from_its_line_on(delimiter):
    """It may follow a word without a blank, as ``INT$$`` does."""
    first = f"DELIMITER {delimiter}\nALTER TABLE a.b ADD c INT{delimiter}"
    text = f"{first}\ndelimiter ;\nALTER TABLE d.e FORCE;"
    assert read(text) == [
        ScriptStatement("ALTER TABLE a.b ADD c INT", 2),
        ScriptStatement("ALTER TABLE d.e FORCE", 4),
    ]


def test_use_names_the_schema_of_what_follows():
    """A name in backquotes is read as one."""
    text = "ALTER TABLE a FORCE; USE `sh;op`; ALTER TABLE b FORCE;\nuse x;\nALTER TABLE c FORCE"
    assert [(one.schema, one.line) for one in read(text)] == [("", 1), ("sh;op", 1), ("x", 3)]


def test_use_goes_without_a_delimiter_at_the_end_of_its_line():
    """As the client takes it; with something behind it, it needs one."""
    text = "USE a\r\nALTER TABLE t FORCE;\nuse `b`\nDELIMITER //\nUSE c//\nALTER TABLE u FORCE//"
    assert [(one.schema, one.text, one.line) for one in read(text)] == [
        ("a", "ALTER TABLE t FORCE", 2),
        ("c", "ALTER TABLE u FORCE", 6),
    ]
    with pytest.raises(Refusal, match="USE takes one schema"):
        read("USE a ALTER TABLE t FORCE;")


def test_empty_statements_are_passed_over():
    """A file may end with several delimiters, or have nothing in it."""
    assert read(";;  ; -- nothing\n;") == []
    assert read("\ufeff") == []


@pytest.mark.parametrize("charset", ["utf8mb4", "UTF8", "'utf8mb3'"])
def test_the_character_set_in_which_a_file_is_read_may_be_named(charset):
    """Files often begin with SET NAMES; another character set is not passed over in silence."""
    found = read(f"SET NAMES {charset};\nALTER TABLE t FORCE;\nset names latin1;")
    assert [one.text for one in found] == ["ALTER TABLE t FORCE", "set names latin1"]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("ALTER TABLE a.b FORCE;\n\nALTER TABLE c.d COMMENT 'open", 3, "inside a quote"),
        ("x;\n\nALTER TABLE /* open", 3, "inside a comment"),
        ("x;\nALTER TABLE a.b /*!80000 FORCE */;", 2, "some servers execute"),
        ("\nUSE a b;", 2, "USE takes one schema"),
        ("\n\nDELIMITER\nx", 3, "no delimiter"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, line, why):
    """Whoever wrote the file finds the place."""
    with pytest.raises(Refusal, match=rf"^line {line}: .*{why}"):
        read(text)


def test_quotes_are_read_as_the_server_reads_them():
    """Without backslash escapes a backslash ends no string early."""
    mode = SqlMode(no_backslash_escapes=True)
    assert len(read(r"ALTER TABLE a.b COMMENT 'x\'; ALTER TABLE c.d FORCE", mode)) == 2


def test_a_file_of_many_statements_is_read_in_linear_time():
    """Counting lines does not begin at the top for each statement."""
    steps = []
    for count in (2000, 4000):
        text = _Counted("ALTER TABLE a.b FORCE;\n" * count)
        assert [one.line for one in read(text)] == list(range(1, count + 1))
        steps.append(text.counted)
    assert steps[1] <= 2.5 * steps[0]


class _Counted(str):  # noqa: SLOT000 - it counts
    """A text that counts the characters through which lines were counted."""

    counted = 0

    def count(self, sub, start=0, end=None):
        """Count, and note how far it had to look."""
        end = len(self) if end is None else end
        self.counted += end - start
        return str.count(self, sub, start, end)

    def removeprefix(self, prefix):
        """Stay this kind of text."""
        return self

"""Tokens as the server cuts them."""

from __future__ import annotations

import pytest

from spirit_py.errors import Refusal
from spirit_py.statement.lexer import SqlMode, tokenize

PLAIN = SqlMode()


def cut(sql: str, mode: SqlMode = PLAIN) -> list[tuple[str, str]]:
    """Return kind and value of each token."""
    return [(token.kind, token.value) for token in tokenize(sql, mode)]


@pytest.mark.parametrize(
    ("sql", "tokens"),
    [
        ("ADD x", [("word", "ADD"), ("word", "x")]),
        ("`a``b`", [("name", "a`b")]),
        ("'it''s'", [("string", "it's")]),
        (r"'a\'b\\'", [("string", "a'b\\")]),
        (r"'\n'", [("string", "\n")]),
        (r"'1\%\\%\_%'", [("string", r"1\%\%\_%")]),
        ('"x,y"', [("string", "x,y")]),
        ("2b", [("word", "2b")]),
        ("a$b", [("word", "a$b")]),
        ("äß", [("word", "äß")]),
        ("a -- b, c\n, d", [("word", "a"), ("symbol", ","), ("word", "d")]),
        ("a # b\n c", [("word", "a"), ("word", "c")]),
        ("a /* ; , */ b", [("word", "a"), ("word", "b")]),
        ("1--1", [("word", "1"), ("symbol", "-"), ("symbol", "-"), ("word", "1")]),
        ("a --", [("word", "a")]),
        ("a --\x01 '\n b", [("word", "a"), ("word", "b")]),
        ("a\u00a0b", [("word", "a\u00a0b")]),
        ("x'00'", [("word", "x"), ("string", "00")]),
    ],
)
def test_quotes_escapes_and_comments_are_read_as_mysql_does(sql, tokens):
    """Quotes, escapes and comments are read as MySQL reads them."""
    assert cut(sql) == tokens


def test_under_ansi_quotes_a_double_quote_encloses_a_name():
    """Under ANSI_QUOTES a double quote encloses a name and a backslash in it is a letter."""
    assert cut(r'"a\"', SqlMode.of("STRICT_ALL_TABLES,ANSI_QUOTES")) == [("name", "a\\")]


def test_under_no_backslash_escapes_a_backslash_is_a_letter():
    """Under NO_BACKSLASH_ESCAPES a backslash is a letter and does not protect the quote."""
    mode = SqlMode.of("no_backslash_escapes")
    assert cut(r"'a\', b", mode) == [("string", "a\\"), ("symbol", ","), ("word", "b")]


@pytest.mark.parametrize("sql", ["'a", "`a", '"a', r"'a\'", "a /* b", "a /*! b */", "a /*M! b */"])
def test_an_unclosed_quote_or_comment_is_refused(sql):
    """An unclosed quote or comment, and a comment that servers execute, are refused."""
    with pytest.raises(Refusal) as refused:
        tokenize(sql, PLAIN)
    assert refused.value.hint


@pytest.mark.parametrize("sql", ["/*!80000 ADD c INT */", "/*+ SET_VAR(x=1) */", "$a"])
def test_what_versions_read_differently_is_refused(sql):
    """What another version reads otherwise is refused by name."""
    with pytest.raises(Refusal, match=r"execute|dollar"):
        tokenize(sql, PLAIN)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("a /*!50000 b /* c */ d */ e /* 99999 f */", ["a", "b", "d", "e"]),
        ("/*!a*/ /*!080034 b*/", ["a", "b"]),
        ("/*!50000 '*/' */", ["*/"]),
    ],
)
def test_in_a_binlog_an_executed_version_comment_is_code(sql, words):
    """In a binlog a version comment is code; one that was not executed is none there any more."""
    assert [token.value for token in tokenize(sql, PLAIN, executed=True)] == words


@pytest.mark.parametrize("sql", ["/*!123 a */", "/*!1234567 a */", "/*!50000 /*!50000 a */"])
def test_version_comments_that_are_not_certain(sql):
    """Five or six digits make a version; comments in comments end where versions differ."""
    with pytest.raises(Refusal):
        tokenize(sql, PLAIN, executed=True)


def test_a_token_knows_its_place_in_the_text():
    """A token knows its place, so that the text is passed on as written."""
    sql = "ADD  `a` /* c */ INT"
    assert [sql[t.start : t.end] for t in tokenize(sql, PLAIN)] == ["ADD", "`a`", "INT"]

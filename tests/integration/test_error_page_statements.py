"""The statements that the errors' pages give are statements of the server, and run."""

from __future__ import annotations

import re

import MySQLdb
import pytest

from spirit_py.cli.explain import read_page
from spirit_py.codes import ErrorCode

TABLE = """CREATE TABLE {} (
    id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, c VARCHAR(20), d DATE, INDEX (a)
)"""
BEGINNINGS = (
    "SELECT", "SHOW", "SET", "GRANT", "ALTER", "CREATE", "DROP", "UPDATE", "CALL", "KILL", "PURGE",
    "XA", "CHECK", "RENAME", "TRUNCATE", "LOCK",
)  # fmt: skip
#: Of other versions, of a managed service, with a value that a page cannot know; or a clause.
ELSEWHERE = (
    "SHOW MASTER STATUS",
    "SHOW BINARY LOG STATUS",
    "CALL mysql.rds_",
    "KILL ID",
    "RENAME TO",
)
SYNTAX_ERROR = 1064
#: SHOW GRANTS and SHOW CREATE USER for an account that is not there.
NO_ACCOUNT = {1141, 1396}


def statements(code: ErrorCode) -> list[str]:
    """Return the statements of a page, those with an ellipsis left out."""
    found: list[str] = []
    for span in re.findall(r"`([^`]+)`", read_page(code).text):
        for text in " ".join(span.split()).split(";"):
            words = text.strip()
            # A word alone, such as RENAME, names a kind of statement.
            if words.split(" ")[0] in BEGINNINGS and " " in words and "..." not in words:
                found.append(words)
    return [text for text in found if not text.startswith(ELSEWHERE)]


PAGES = [code for code in ErrorCode if statements(code)]


@pytest.fixture
def tables(db):
    """Have the tables that the pages speak of."""
    for name in ("t", "orders", "_t_old"):
        db.execute(TABLE.format(name))
    db.execute("CREATE VIEW v AS SELECT 1")
    return db


def test_the_statements_of_the_pages_can_be_read_and_questions_be_asked(tables):
    """Each is read by the server, in its default modes; a SELECT or a SHOW runs, too."""
    wrong: list[str] = []
    for code in PAGES:
        for statement in statements(code):
            text = statement.replace("shop", tables.name)
            if error := objection(tables, text):
                wrong.append(f"{code}: {statement}: {error}")
    assert not wrong, "\n".join(wrong)


def objection(db, text: str) -> str:
    """Return what the server says against a statement; none but a question is run."""
    asked = text.startswith(("SELECT", "SHOW"))
    try:
        if asked:
            db.query(text)
        else:
            db.execute("SET @page = %s", (text,))
            db.execute("PREPARE page FROM @page")
            db.execute("DEALLOCATE PREPARE page")
    except MySQLdb.Error as error:
        # PREPARE does not take every statement, and looks for accounts and columns that a page
        # cannot know.
        wrong = asked and error.args[0] not in NO_ACCOUNT
        return str(error) if wrong or error.args[0] == SYNTAX_ERROR else ""
    return ""

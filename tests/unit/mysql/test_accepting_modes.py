"""Which options are named for an ALTER that only other modes accept."""

from __future__ import annotations

import pytest

from spirit_py.errors import ServerFault
from spirit_py.mysql.evaluation import accepting_modes, copying_modes
from spirit_py.sql import string_literal

STRICT = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"
OLD_DEFAULT = ServerFault(1067, "Invalid default value for 'd'", where="test")


class _Server:
    """A server that accepts the ALTER after a certain SET, or never."""

    def __init__(self, accepting: str, *, denied: bool = False) -> None:
        self._accepting = accepting
        self._denied = denied
        self._last = ""

    def query(self, *_):
        """Return the session's mode."""
        return [(STRICT,)]

    def execute(self, sql):
        """Run a SET or the ALTER."""
        if sql.startswith("SET"):
            if self._denied and "innodb" in sql:
                raise ServerFault(1227, "Access denied", where="test")
            self._last = sql
        elif not self._accepting or self._accepting not in self._last:
            raise OLD_DEFAULT


@pytest.mark.parametrize(
    ("accepting", "options"),
    [
        (
            string_literal("STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO"),
            "--allow-zero-dates",
        ),
        (
            string_literal("STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,ALLOW_INVALID_DATES"),
            "--sql-mode 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,ALLOW_INVALID_DATES'",
        ),
        (
            string_literal("ERROR_FOR_DIVISION_BY_ZERO,ALLOW_INVALID_DATES"),
            "--sql-mode 'ERROR_FOR_DIVISION_BY_ZERO,ALLOW_INVALID_DATES'",
        ),
        ("innodb_strict_mode", "--innodb-strict-mode off"),
        ("", ""),
    ],
)
def test_the_smallest_change_of_modes_is_named(accepting, options):
    """The first of the candidates under which the server executes the statement."""
    assert accepting_modes(_Server(accepting), "ALTER", OLD_DEFAULT) == options  # type: ignore[arg-type]


def test_an_error_that_no_mode_changes_is_not_tried_again():
    """The statement is sent again for errors of definitions alone."""
    fault = ServerFault(1054, "Unknown column", where="test")
    assert accepting_modes(_Server("sql_mode"), "ALTER", fault) == ""  # type: ignore[arg-type]


def test_a_mode_that_the_account_may_not_set_is_named_with_the_privilege():
    """The operator learns what to grant."""
    server = _Server("innodb_strict_mode", denied=True)
    assert "SESSION_VARIABLES_ADMIN" in accepting_modes(server, "ALTER", OLD_DEFAULT)  # type: ignore[arg-type]


def test_a_row_that_may_be_too_long_hinders_the_copy_of_the_definition():
    """No sql_mode does, because definitions are copied under a lenient one."""
    assert copying_modes(ServerFault(1118, "", where="test")) == "--innodb-strict-mode off"
    assert copying_modes(OLD_DEFAULT) == ""

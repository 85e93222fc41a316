"""Reporting what the checks found."""

from __future__ import annotations

import importlib
import pkgutil
from types import SimpleNamespace
from typing import Any

import pytest

import spirit_py.preflight.checks
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.preflight import registry
from spirit_py.preflight.check import Finding, TooLong, refusal_of, refuse, warn
from spirit_py.preflight.registry import CHECKS, PRIVILEGES, Check, CheckScope, run_checks
from spirit_py.statement import alter_of

SIGNATURE = {"context": "PreflightContext", "return": "Findings"}
"""Of a check."""


def run(monkeypatch, *checks: Check) -> tuple:
    """Run these checks instead of the registered ones."""
    monkeypatch.setattr(registry, "CHECKS", checks)
    config = SimpleNamespace(native=0, target=None)
    context: Any = SimpleNamespace(found=None, statement=alter_of("s", "t", "FORCE"), config=config)
    return run_checks([context], CheckScope.SERVER, CheckScope.SOURCE)


def test_a_single_refusal_is_reported_as_it_is():
    """A single refusal is reported as it is."""
    error = refusal_of([refuse("cause", "remedy", ["example"])])
    assert (error.message, error.hint, error.details) == ("cause", "remedy", ("example",))
    assert error.exit_code == 2


def test_several_refusals_are_reported_together():
    """Several refusals are reported together, each with its remedy and its examples."""
    error = refusal_of([refuse("one", "do this", ["example"]), refuse("two", "do that")])
    assert "2 checks" in error.message
    assert error.details == (
        "1. one",
        "   example",
        "   remedy: do this",
        "2. two",
        "   remedy: do that",
    )


def test_a_statement_that_was_ended_is_no_finding(monkeypatch):
    """A stop request ends a long search: that is no reason to refuse."""

    def ended(_context: Any) -> Any:
        raise ServerFault(1317, "Query execution was interrupted", where="a session")

    with pytest.raises(ServerFault, match="interrupted"):
        run(monkeypatch, Check("a", CheckScope.SERVER, ended, ErrorCode.SERVER_SETTINGS))


def test_a_refusal_keeps_no_other_check_from_running(monkeypatch):
    """A refusal does not keep the other checks from running; warnings do not refuse."""
    checks = [
        Check("a", CheckScope.SERVER, lambda _: [refuse("first", "r")], ErrorCode.SERVER_SETTINGS),
        Check("b", CheckScope.SERVER, lambda _: [warn("hm")], ErrorCode.SERVER_SETTINGS),
        Check("c", CheckScope.SERVER, lambda _: [refuse("second", "r")], ErrorCode.SERVER_SETTINGS),
    ]
    with pytest.raises(Refusal) as refused:
        run(monkeypatch, *checks)
    assert [line for line in refused.value.details if line[0].isdigit()] == [
        "1. first",
        "2. second",
    ]
    (warning,) = run(monkeypatch, checks[1])
    assert (warning.check, warning.cause) == ("b", "hm")


def test_a_check_that_a_plan_ends_refuses_nothing(monkeypatch):
    """What it would have found is not known; the migration looks."""

    def check(_: object) -> list[Finding]:
        raise TooLong("has not looked", hint="later")

    (warning,) = run(monkeypatch, Check("a", CheckScope.SERVER, check, ErrorCode.SERVER_SETTINGS))
    assert (warning.cause, warning.remedy) == ("the check a has not looked", "later")


@pytest.mark.parametrize(
    "ends",
    [
        TooLong("has not looked"),
        Refusal("no such column"),
        ServerFault(1205, "Lock wait timeout exceeded", where="test"),
    ],
)
def test_what_a_check_found_before_it_ended_is_told(monkeypatch, ends):
    """An operator who mends the error alone would meet the refusal at the next run."""

    def check(_: object) -> Any:
        yield refuse("two rows are equal", "delete one")
        raise ends

    with pytest.raises(Refusal) as refused:
        run(monkeypatch, Check("a", CheckScope.SERVER, check, ErrorCode.SERVER_SETTINGS))
    assert "two rows are equal" in "".join([refused.value.message, *refused.value.details])


def test_checks_wait_for_the_table_they_need(monkeypatch):
    """Checks of the table wait for a table, checks of the new table for the new table."""
    checks = [
        Check(
            "a", CheckScope.SOURCE, lambda _: [refuse("no table", "r")], ErrorCode.SERVER_SETTINGS
        ),
        Check(
            "b",
            CheckScope.AFTER_CREATE,
            lambda _: [refuse("no new table", "r")],
            ErrorCode.SERVER_SETTINGS,
        ),
    ]
    assert run(monkeypatch, *checks) == ()


def test_a_check_that_cannot_look(monkeypatch):
    """A check that the server does not allow to look refuses, and says why."""

    def forbidden(_):
        raise ServerFault(1142, "SELECT command denied", where="test")

    with pytest.raises(Refusal, match="forbidden failed: SELECT command denied") as refused:
        run(
            monkeypatch, Check("forbidden", CheckScope.SERVER, forbidden, ErrorCode.SERVER_SETTINGS)
        )
    assert "privileges" in refused.value.hint


def test_what_is_missing_is_named_once(monkeypatch):
    """The check of privileges has all the GRANTs: others that could not look say no more."""

    def forbidden(_):
        raise ServerFault(1142, "SELECT command denied", where="test")

    unseen = Check("forbidden", CheckScope.SERVER, forbidden, ErrorCode.SERVER_SETTINGS)
    lacking = Check(
        PRIVILEGES,
        CheckScope.SERVER,
        lambda _: [refuse("the account lacks SELECT", "GRANT SELECT")],
        ErrorCode.MISSING_PRIVILEGES,
    )
    with pytest.raises(Refusal, match="the account lacks SELECT") as refused:
        run(monkeypatch, unseen, lacking)
    assert refused.value.details == ()
    assert refused.value.hint == "GRANT SELECT"


def test_a_check_that_fails_otherwise_speaks_of_no_privileges(monkeypatch):
    """The server's own words are passed on, with a remedy that fits any cause."""

    def broken(_):
        raise ServerFault(1115, "Unknown character set: 'nope'", where="test")

    with pytest.raises(Refusal, match="Unknown character set: 'nope'") as refused:
        run(monkeypatch, Check("broken", CheckScope.SERVER, broken, ErrorCode.SERVER_SETTINGS))
    assert refused.value.hint
    assert "privileges" not in refused.value.hint


def test_a_lost_server_is_no_refusal(monkeypatch):
    """A connection that is lost during a check is reported as that."""

    def lost(_):
        raise ServerFault(2013, "Lost connection", where="test")

    with pytest.raises(ServerFault):
        run(monkeypatch, Check("lost", CheckScope.SERVER, lost, ErrorCode.SERVER_SETTINGS))


def test_every_check_is_registered():
    """A check in one of the files is in the registry, under its own name, in the order of names."""
    found = {
        name
        for _, module, _ in pkgutil.iter_modules(spirit_py.preflight.checks.__path__)
        for name, made in vars(
            importlib.import_module(f"spirit_py.preflight.checks.{module}")
        ).items()
        if not name.startswith("_") and getattr(made, "__annotations__", {}) == SIGNATURE
    }
    assert [check.name for check in CHECKS] == sorted(found)

"""Before copied rows of another migration are dropped, a terminal is asked."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from spirit_py import cli
from spirit_py.cli import outcome
from spirit_py.errors import UnfinishedWork
from spirit_py.migration import entry
from spirit_py.status.report import MigrationReport

LINE = ("migrate", "--user", "u", "--database", "shop", "--table", "t", "--alter", "ENGINE=InnoDB")


@pytest.fixture
def tried(monkeypatch):
    """Keep the configurations of the runs; each is refused that would drop copied rows unasked."""
    configs = []

    def migrate(config, **_):
        configs.append(config)
        if not config.start_afresh:
            raise UnfinishedWork(
                "an unfinished migration of shop.t would be dropped",
                hint="--start-afresh drops it",
                details=("would be lost: 7 rows",),
            )
        return MigrationReport(schema="shop", table="t")

    monkeypatch.setattr(entry, "migrate", migrate)
    return configs


def run(monkeypatch, *more, terminal, answer=None):
    """Run the command to its end."""
    monkeypatch.setattr(outcome, "can_ask", lambda _: terminal)
    return CliRunner().invoke(cli.main, [*LINE, *more], input=answer)


def test_without_a_terminal_it_is_refused(tried, monkeypatch):
    """A supervisor that runs the wrong command loses nothing; the hint names the option."""
    result = run(monkeypatch, terminal=False, answer="y\n")
    assert result.exit_code == 2
    assert "would be lost: 7 rows" in result.stderr
    assert "hint: --start-afresh" in result.stderr
    assert [one.start_afresh for one in tried] == [False]


@pytest.mark.parametrize("answer", ["n\n", "\n", None])
def test_a_no_keeps_everything(tried, monkeypatch, answer):
    """So does no answer at all."""
    result = run(monkeypatch, terminal=True, answer=answer)
    assert result.exit_code == 2
    assert "Drop it, and begin with this migration? [y/N]" in result.stderr
    assert [one.start_afresh for one in tried] == [False]


def test_a_yes_begins_again_with_leave_to_drop_it(tried, monkeypatch):
    """What would be lost is shown before the question."""
    result = run(monkeypatch, terminal=True, answer="y\n")
    assert result.exit_code == 0
    asked, _, _ = result.stderr.partition("Drop it,")
    assert "would be lost: 7 rows" in asked
    assert [one.start_afresh for one in tried] == [False, True]


def test_the_option_says_yes(tried, monkeypatch):
    """Nothing is asked."""
    assert run(monkeypatch, "--start-afresh", terminal=False).exit_code == 0
    assert [one.start_afresh for one in tried] == [True]

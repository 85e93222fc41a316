"""``spirit-py status`` and ``spirit-py cleanup``: what is asked for, and what is shown."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner

from spirit_py.batch import listing as batches
from spirit_py.cli import main
from spirit_py.errors import Refusal
from spirit_py.migration import cleanup
from spirit_py.migration import listing as shown
from spirit_py.migration.migration_status import MigrationShown
from spirit_py.statement import parse_statement

SHOWN = MigrationShown(
    checkpoint="shop._t_chkpnt",
    statement="ALTER TABLE `shop`.`t`\nADD COLUMN x int",
    tables=("shop.t",),
    phase="copy",
    age=130.0,
    started_at="2026-11-20T11:00:00+00:00",
    runs=2,
    seconds=7300.0,
    rows_copied=12,
    position="gtid;u;",
    worked_on_by=77,
    again="resume",
    reason="stopped in the copy phase",
)


@pytest.fixture
def asked(monkeypatch):
    """Keep what the commands ask for; nothing asks a server."""
    seen: dict[str, object] = {"shown": [SHOWN]}

    def migrations(_options, **given):
        seen.update(given)
        return seen["shown"]

    def clean_up(_options, *, ask, ask_old, say, **given):
        seen.update(given)
        say("an abandoned migration has left:")
        if not ask("Drop 2 tables?"):
            raise Refusal("nothing was dropped", hint="answer yes, or give --yes")
        seen["old"] = ask_old("Drop the old one too?")

    monkeypatch.setattr(shown, "migrations", migrations)
    monkeypatch.setattr(shown, "require_table", lambda _options, **_given: None)
    monkeypatch.setattr(batches, "batches", lambda _options, **_given: [])
    monkeypatch.setattr(cleanup, "clean_up", clean_up)
    return seen


def run(*arguments, answers=None):
    """Run a command to its end."""
    return CliRunner().invoke(main, [*arguments, "--user", "u"], input=answers)


def test_status_shows_everything_a_line_each(asked):
    """Phase, age, statement, rows, position, binlog, the process at work, what a run would do."""
    result = run("status", "--database", "shop", "--checkpoint-max-age", "2d")
    assert result.exit_code == 0
    assert asked["max_age"] == 2 * 86400.0
    assert result.stdout.splitlines() == [
        "shop.t: copy, checkpoint written 2m10s ago",
        "  statement  ALTER TABLE `shop`.`t` ADD COLUMN x int",
        "  copied     12 rows",
        "  worked     2h01m in 2 runs since 2026-11-20 11:00:00 UTC",
        "  position   gtid;u;",
        "  binlog     the binlog still reaches its position",
        "  process    a process works on it now (server session 77); it has written no figures yet",
        "  run again  after a stop it would resume, from its checkpoint",
    ]


def test_the_command_that_resumes_can_be_pasted(asked):
    """One line, with the options that the record does not have, and those that may be forged."""
    statement = "ALTER TABLE `s`.`t` FORCE; ALTER TABLE `s`.`u` COMMENT 'it''s'"
    command = shlex.join(["spirit-py", "migrate", "--statement", statement, "--keep", "id > 7"])
    asked["shown"] = [replace(SHOWN, worked_on_by=None, command=command)]
    *_, line, add, compare = run("status").stdout.splitlines()
    words = shlex.split(line.removeprefix("  command "))
    assert [one.table for one in parse_statement(words[3], "")] == ["t", "u"]
    assert "does not have: hooks, limits of load and lag, replicas, TLS" in add
    assert compare.startswith("  compare    --keep with what you gave at first")


def test_status_as_json_has_every_field(asked):
    """One list, also when there is nothing."""
    result = run("status", "--json")
    assert json.loads(result.stdout)[0]["rows_copied"] == 12
    asked["shown"] = []
    result = run("status", "--json")
    assert json.loads(result.stdout) == []
    assert result.exit_code == 0


def test_status_that_finds_nothing_is_no_failure(asked):
    """The answer is that there is nothing; with --json, an empty list."""
    asked["shown"] = []
    result = run("status")
    assert result.exit_code == 0
    assert "no migration is under way or unfinished here" in result.stderr


def test_a_checkpoint_that_cannot_be_read_is_shown_as_such(asked):
    """Its table, why it cannot be read, and what a run would do."""
    asked["shown"] = [
        MigrationShown(checkpoint="shop._t_chkpnt", unreadable="format 9", again="start afresh")
    ]
    result = run("status")
    assert "shop._t_chkpnt: a checkpoint that cannot be read: format 9" in result.stdout
    assert "would start afresh" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--table", "t"),
        ("cleanup", "--table", "t"),
        ("cleanup", "--database", "shop"),
        ("cleanup",),
    ],
)
def test_a_table_goes_with_its_schema(asked, arguments):
    """Half a name is refused before anything is asked."""
    assert run(*arguments).exit_code == 2


CLEANUP = ("cleanup", "--database", "shop", "--table", "t")


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "old"),
    [
        ((), "y\nn\n", 0, False),
        ((), "y\ny\n", 0, True),
        ((), "n\n", 2, None),
        ((), "", 2, None),
        (("--yes",), None, 0, False),
        (("--yes", "--drop-old"), None, 0, True),
        (("--drop-old",), "y\nn\n", 0, False),
    ],
)
def test_cleanup_asks_twice_unless_told_otherwise(asked, arguments, answers, code, old):
    """--yes answers the first question; only --drop-old with it the second; no answer is a no."""
    result = run(*CLEANUP, *arguments, answers=answers)
    assert result.exit_code == code, result.output
    assert asked.get("old") == old
    assert asked["table"] == "t"

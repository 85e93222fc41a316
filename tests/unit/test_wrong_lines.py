"""A wrong command line is refused as everything else: cause, what is meant, where to read."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from spirit_py.cli import main

ALTER = ["migrate", "--host", "db1", "--alter"]


def refused(*arguments: str) -> list[str]:
    """Return the lines to standard error; exit code 2, and nothing on standard output."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2
    assert not result.stdout
    return result.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "cause", "remedy"),
    [
        (["migrat"], "no such command 'migrat'", "did you mean migrate? spirit-py --help"),
        (["help", "migrat"], "no such command 'migrat'", "did you mean migrate? spirit-py --help"),
        (["--verzion"], "no such option '--verzion'", "did you mean --version? spirit-py --help"),
        (["migrate", "--alterr", "x"], "no such option '--alterr'", "did you mean --alter"),
        (["migrate", "--table"], "option '--table' requires", "spirit-py migrate --help"),
        (["migrate", "--kill-blockers", "alle"], "'alle' is not one of", "did you mean all?"),
        (["migrate", "--max-lag", "5x"], "'5x' is not a duration", "spirit-py migrate --help"),
        (["migrate", "--threads", "2.5"], "'2.5' is not a whole number", "migrate --help shows"),
        (["migrate", "--nice", "slow"], "'slow' is not a number", "migrate --help shows"),
        (["migrate", "--kill-after", "1x"], "'1x' is not a duration", "migrate --help-all shows"),
        (["migrate", "--kill-after", "2d"], "172800.0 is not in the range", "--help-all shows"),
        (["plan", "--drop-old-after", "sometimes"], "30m or 2h, or never", "plan --help shows"),
        (["watch", "--heartbeat", "x"], "'x' is not a duration", "spirit-py watch --help shows"),
        (["ctl"], "missing argument 'VERB'. Choose from: pause, resume,", "ctl --help shows"),
        (["ctl", "continue"], "invalid value for 'VERB'", "did you mean resume? spirit-py ctl"),
        (["ctl", "stop"], "invalid value for 'VERB'", "did you mean pause, abort? spirit-py ctl"),
        (["ctl", "paus"], "invalid value for 'VERB'", "did you mean pause? spirit-py ctl --help"),
        (["--config", "/no/such", "status"], "'/no/such' does not exist", "spirit-py --help"),
        ([*ALTER, "ADD", "x", "INT"], "unexpected extra arguments (x INT)", "spaces in quotes"),
    ],
)
def test_a_wrong_line_names_cause_remedy_and_page(arguments, cause, remedy):
    """Whatever is wrong about it, and wherever on the line it stands."""
    error, hint, more = refused(*arguments)
    assert error.startswith("error: ")
    assert cause in error
    assert hint.startswith("hint: ")
    assert remedy in hint
    assert more == "more: spirit-py explain wrong-options"


@pytest.mark.parametrize(
    "words", [["migrate", "--threads", "x"], ["migrate", "--lock-wait-timeout", "x"], ["ctl"]]
)
def test_no_cause_has_the_words_of_the_reader_of_options(words):
    """No kinds of ranges, and no escapes of lines and tabs."""
    error, _, _ = refused(*words)
    assert not re.search(r"float|integer|range|\\[nt]", error)


def test_in_json_it_is_one_line_with_the_same_words():
    """Whoever reads JSON lines gets the remedy, too."""
    (line,) = refused("migrate", "--log-format", "json", "--kill-blockers", "alle")
    ended = json.loads(line)
    assert ended["event"] == "run.ended"
    assert ended["code"] == "wrong-options"
    assert ended["hint"] == "did you mean all? spirit-py migrate --help shows what there is"


def test_without_a_command_the_help_is_shown():
    """A first look at the program ends in its commands, not in an error."""
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "\nCommands:\n" in result.output
    assert "hint:" not in result.output


AT = ["--user", "u", "--database", "shop", "--table", "t"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["status", "--json", "--tabel", "t"], "wrong-options"),
        (["status", "--json", "--user", "u", "--table", "t"], "wrong-options"),
        (["status", "--json", *AT, "--host", "127.0.0.1:1"], "cannot-connect"),
        (["ctl", *AT, "--json", "paus"], "wrong-options"),
        (["ctl", *AT, "--json", "--host", "127.0.0.1:1", "pause"], "cannot-connect"),
        (["ctl", *AT, "--json", "set", "threads=none"], "wrong-options"),
        (["plan", *AT, "--format", "json", "--max-lag", "5x"], "wrong-options"),
        (["plan", *AT, "--format=json"], "wrong-options"),
        (["move", *AT, "--plan", "--format", "json", "--max-lag", "5x"], "wrong-options"),
        (["move", *AT, "--plan", "--format=json"], "wrong-options"),
        (["explain", "--json", "--cod", "x"], "wrong-options"),
        (["explain", "--json", "no-such-code"], "wrong-options"),
        (
            ["plan", *AT, "--format=json", "--alter", "ADD x INT", "--host", "127.0.0.1:1"],
            "cannot-connect",
        ),
    ],
)
def test_who_asked_for_a_json_document_gets_the_error_as_one(arguments, code):
    """With the words that people get on standard error, and nothing else on standard output."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert list(document) == ["outcome", "exit_code", "error", "code", "hint", "details"]
    assert (document["outcome"], document["exit_code"]) == ("refused", 2)
    assert document["code"] == code
    assert f"error: {document['error']}\n" in result.stderr
    assert f"hint: {document['hint']}\n" in result.stderr

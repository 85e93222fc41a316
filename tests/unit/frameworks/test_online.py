"""What a framework's settings make of a change."""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.api.running import Running
from spirit_py.errors import Interrupted, MigrationFailure, UsageFault
from spirit_py.frameworks import online
from spirit_py.frameworks.online import OnlineChange, SessionFacts
from spirit_py.frameworks.policy import split_settings
from spirit_py.status.report import MigrationReport
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger(__name__)


def change(**settings: Any) -> OnlineChange:
    """Return a change by such settings."""
    return OnlineChange.of(("s", "t"), "ALTER TABLE t FORCE", {"nice": 1, **settings})


@pytest.mark.parametrize(
    ("value", "on"),
    [
        (True, True), (False, False), ("true", True), ("false", False), ("Off", False),
        ("yes", True), ("1", True), ("0", False),
    ],
)  # fmt: skip
def test_a_setting_that_is_on_or_off_may_be_a_text(value, on):
    """As the options' values: the text false is not on, and no option of the migration."""
    made = change(handle_signals=value)
    assert made.handle_signals is on
    assert made.arguments == {"nice": 1}


def test_without_the_setting_signals_are_the_frameworks():
    """It is off."""
    assert change().handle_signals is False


@pytest.mark.parametrize("value", ["maybe", 2, 0.5, None, [], [True]])
def test_a_setting_that_is_neither_is_refused_by_name(value):
    """The refusal says what to write."""
    with pytest.raises(UsageFault, match="handle_signals is") as refused:
        change(handle_signals=value)
    assert refused.value.hint == "set handle_signals to true or false"


@pytest.mark.parametrize(("lower_case", "found"), [(0, None), (1, ("s", "t")), (2, ("s", "t"))])
def test_a_large_table_is_named_as_the_server_takes_names(lower_case, found):
    """The spelling of the settings need not be that of the statement."""

    def query(sql: str, _: Any = ()) -> list[tuple[Any, ...]]:
        return [(86400, lower_case)] if "lower_case_table_names" in sql else [(1, 1)]

    session: Any = SimpleNamespace(query=query)
    around = SessionFacts(schema="s", sql_mode="", chosen_mode=None, server_uuid="u")
    policy, _ = split_settings({"tables": "T"})
    assert online.chosen(session, around, "ALTER TABLE t FORCE", policy) == found


AROUND = SessionFacts(schema="s", sql_mode="", chosen_mode=None, server_uuid="u")


@pytest.mark.parametrize(
    ("clauses", "sent"),
    [
        ("ADD (a INT, b INT), DROP CHECK k", None),
        ("DROP CHECK K PARTITION BY HASH (id) PARTITIONS 2", None),
        ("DROP CONSTRAINT u, DROP CHECK k", None),
        ("ADD (a INT, b INT), DROP CHECK l", "ADD (a INT, b INT), DROP CHECK `_l`"),
        (
            "ALTER CHECK `l` NOT ENFORCED, drop constraint _m PARTITION BY HASH (id)",
            "ALTER CHECK `_l` NOT ENFORCED, drop constraint `m` PARTITION BY HASH (id)",
        ),
    ],
)
def test_only_the_names_of_checks_change_in_what_is_sent(clauses, sent):
    """A list in parentheses, and a clause without a comma before it, stay as they are written."""
    checks = [("k", "CHECK"), ("_l", "CHECK"), ("m", "CHECK"), ("u", "UNIQUE"), ("l", "UNIQUE")]
    session: Any = SimpleNamespace(query=lambda *_: checks, commit=list)
    given = f"ALTER TABLE `s`.`t` {clauses}"
    config = online.prepared(session, {"host": "127.0.0.1", "user": "u"}, AROUND, given)
    assert config.statement == f"ALTER TABLE `s`.`t` {sent or clauses}"


def test_the_names_that_a_copy_may_have_given_are_all_tried():
    """By them a later run finds what an earlier one has sent."""
    given = "ALTER TABLE `s`.`t` ADD (a INT, b INT), DROP CHECK k, ALTER CHECK _l ENFORCED"
    assert list(online.namings(given, AROUND)) == [
        given,
        given.replace("_l", "`l`"),
        given.replace("CHECK k", "CHECK `_k`"),
        given.replace("CHECK k", "CHECK `_k`").replace("_l", "`l`"),
    ]


def carried_out(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[Any], Any], *, interrupted: bool
) -> list[str]:
    """Run a change whose work is given; its caller gets Ctrl-C while it waits for events."""
    run: Running[Any, Any] = Running(lambda *, reporter, stop: work(stop))

    def ctrl_c(_seconds: object) -> None:
        raise KeyboardInterrupt

    if interrupted:
        monkeypatch.setattr(run, "next_event", ctrl_c)
    monkeypatch.setattr(online, "run_of", lambda *_, **__: run)
    sent: list[str] = []

    def query(sql: str) -> list[tuple[Any, ...]]:
        sent.append(sql)
        return [(28800,)]

    session: Any = SimpleNamespace(commit=list, keep_alive=list, query=query)
    config: Any = SimpleNamespace(dry_run=False)
    online.change(session, config, LOG)
    return sent


def test_a_session_whose_machine_is_lost_ends_soon_and_gives_up_the_lock_of_the_steps(monkeypatch):
    """The server's own patience may be eight hours; after the change it is as it was."""

    def made(_stop: Any) -> MigrationReport:
        return MigrationReport(outcome="done", tables=["s.t"], algorithm="inplace", seconds=1.0)

    sent = carried_out(monkeypatch, made, interrupted=False)
    assert [one.rpartition(" = ")[2] for one in sent if "SET" in one] == ["240", "28800"]


def until_stopped(stop: Any) -> None:
    """Work until the stop, as a migration does."""
    stop.wait(60)
    stop.check()


def test_an_interrupt_ends_a_command_with_its_code_and_two_lines(monkeypatch, capsys):
    """A program that runs the framework may still catch KeyboardInterrupt."""
    with pytest.raises(KeyboardInterrupt) as ended:
        carried_out(monkeypatch, until_stopped, interrupted=True)
    assert isinstance(ended.value, SystemExit)
    assert ended.value.code == 130
    assert capsys.readouterr().err == (
        "error: interrupted by SIGINT\n"
        "hint: the source table is intact; run the same command again: it resumes\n"
    )


def test_a_task_of_asyncio_that_is_cancelled_is_an_interrupt(monkeypatch, capsys):
    """So asyncio.run takes the first Ctrl-C; env.py runs Alembic so for an asynchronous driver."""

    async def migrate() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        carried_out(monkeypatch, until_stopped, interrupted=False)

    with pytest.raises(KeyboardInterrupt) as ended:
        asyncio.run(migrate())
    assert isinstance(ended.value, SystemExit)
    assert capsys.readouterr().err.startswith("error: interrupted by SIGINT")


def test_a_second_interrupt_does_not_know_whether_the_change_is_made(monkeypatch, capsys):
    """A statement that was sent is carried out, though nobody waits: nothing is called intact."""
    over, wait = threading.Event(), Background.wait

    def interrupted(thread: Background, seconds: float | None) -> bool:
        if seconds is None:
            raise KeyboardInterrupt
        return wait(thread, seconds)

    monkeypatch.setattr(Background, "wait", interrupted)
    with pytest.raises(SystemExit) as ended:
        carried_out(monkeypatch, lambda _stop: over.wait(60), interrupted=True)
    over.set()
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert "intact" not in said
    assert "it looks at the table" in said


def test_an_interrupt_says_what_the_run_has_ended_with(monkeypatch, capsys):
    """The change may have been made, or have failed, while it was stopped."""

    def made(stop: Any) -> MigrationReport:
        stop.wait(60)
        return MigrationReport(outcome="done", tables=["s.t"], algorithm="inplace", seconds=1.0)

    with pytest.raises(KeyboardInterrupt):
        carried_out(monkeypatch, made, interrupted=True)
    assert capsys.readouterr().err == (
        "error: interrupted by SIGINT when the change was made: s.t changed (inplace) in 1.0s\n"
        "hint: run the same command again: it waits for what is left of drop_old_after, archives"
        " what is to be archived, and passes over what is made\n"
    )

    def failed(stop: Any) -> None:
        stop.wait(60)
        raise MigrationFailure("the disk is full", hint="make room")

    with pytest.raises(SystemExit) as ended:
        carried_out(monkeypatch, failed, interrupted=True)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: the disk is full\nhint: make room\n"


def test_a_signal_that_the_run_handles_says_the_same(monkeypatch, capsys):
    """With handle_signals the run's own error has the exit code."""

    def signalled(_stop: Any) -> None:
        raise Interrupted(15, hint="the source table is intact; run the same command again")

    with pytest.raises(SystemExit) as ended:
        carried_out(monkeypatch, signalled, interrupted=False)
    assert ended.value.code == 143
    assert capsys.readouterr().err == (
        "error: interrupted by SIGTERM\n"
        "hint: the source table is intact; run the same command again\n"
    )


def test_other_failures_are_the_frameworks_to_show(monkeypatch, capsys):
    """They have their text in the exception, and the next step under the traceback."""

    def failed(_stop: Any) -> None:
        raise MigrationFailure("the \x1bdisk is full", hint="make \x1broom")

    with pytest.raises(MigrationFailure) as ended:
        carried_out(monkeypatch, failed, interrupted=False)
    assert capsys.readouterr().err == ""
    assert traceback.format_exception(ended.value)[-2:] == [
        "spirit_py.errors.MigrationFailure: the \\x1bdisk is full\n",
        "hint: make \\x1broom\n",
    ]


@pytest.mark.parametrize("framework", ["alembic", "django"])
def test_no_text_of_a_server_reaches_a_frameworks_terminal(framework, caplog):
    """Events, cleanup's lines and the summary name what the server names."""
    module = importlib.import_module(f"spirit_py.frameworks.{framework}.changing")
    module._log.warning("spirit-py: %s, 100%%", "t\x1b[2J\n")
    assert caplog.messages == [r"spirit-py: t\x1b[2J\n, 100%"]


@pytest.mark.parametrize(
    ("keep", "drops", "level"),
    [(True, False, "WARNING"), (False, True, "INFO"), (None, False, "INFO")],
)
def test_only_an_old_table_that_is_kept_by_choice_is_warned_of(
    monkeypatch, caplog, keep, drops, level
):
    """Of the second table of a swap nothing is left to drop, once the first one's record is."""
    asked = {}

    def cleanup(**options):
        asked.update(options)
        return ["what is left"]

    monkeypatch.setattr(online, "cleanup", cleanup)
    log = logging.getLogger("spirit_py.tests")
    with caplog.at_level(logging.INFO, logger=log.name):
        online.settle_by(dict, log)(("s", "t"), keep)
    assert asked == {"database": "s", "table": "t", "drop_old": drops}
    assert [one.levelname for one in caplog.records] == [level]

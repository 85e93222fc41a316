"""One call of a hook: whatever it does, its caller goes on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spirit_py.cli import main
from spirit_py.cli.configfile import variables_of
from spirit_py.events.swap import SwapDone
from spirit_py.hooks import call, environment
from tests.kits.background import BackgroundCall
from tests.kits.waiting import DEADLINE, alive, state, until

EVENT = SwapDone(table="shop.orders", tries=1, lock_wait_ms=1.0, lock_held_ms=2.0, steps_ms={})


def test_the_event_is_on_its_standard_input_and_in_its_environment(tmp_path):
    """One JSON line; name and table also as variables."""
    out = tmp_path / "out"
    words = f'cat > {shlex.quote(str(out))}; echo "$SPIRIT_PY_EVENT $SPIRIT_PY_EVENT_TABLE"'
    done = call(words, EVENT, seconds=30)
    assert (done.code, done.trouble) == (0, "")
    assert done.lines == ("swap.done shop.orders",)
    found = json.loads(out.read_text())
    assert (found["event"], found["table"], found["tries"]) == ("swap.done", "shop.orders", 1)


@pytest.mark.parametrize(
    ("command", "trouble", "why"),
    [
        ("exec <&-; exit 3", "failed", "ended with exit code 3"),
        ("exec >&- 2>&-; exit 4", "failed", "ended with exit code 4"),
        ("kill -9 $$", "failed", "was killed by signal 9"),
        (
            "/nowhere/a-hook",
            "missing",
            "did not run: its command was not found (exit code 127)",
        ),
        ("true", "", ""),
    ],
)
def test_how_it_ended_is_known(command, trouble, why):
    """It need not read, and it need not write."""
    done = call(command, EVENT, seconds=30)
    assert (done.trouble, done.why) == (trouble, why)


def test_a_call_that_is_given_up_is_not_said_to_have_had_its_time():
    """The run has waited for all calls together: this one may have begun a moment ago."""
    given_up = threading.Event()
    given_up.set()
    done = call("sleep 600", EVENT, seconds=600, given_up=given_up)
    assert done.trouble == "too long"
    assert "600 s" not in done.why
    assert "the run stopped waiting" in done.why


def test_a_command_that_has_ended_was_in_time_though_nobody_looked(monkeypatch):
    """The process may stand still past the limit: the command's end counts, not when it is seen."""
    begin = subprocess.Popen

    def ended(*arguments, **more):
        process = begin(*arguments, **more)
        until(lambda: state(process.pid) == "Z", "the end of the command")
        return process

    monkeypatch.setattr(subprocess, "Popen", ended)
    done = call("echo sent", EVENT, seconds=0)
    assert (done.code, done.lines, done.trouble) == (0, ("sent",), "")


def test_megabytes_of_output_are_read_and_cut_off():
    """It is not blocked by a full pipe, and takes no memory."""
    done = call("yes 1234567 | head -c 5000000; echo last; exit 5", EVENT, seconds=30)
    assert done.code == 5
    assert 0 < sum(map(len, done.lines)) <= 64 << 10


def test_lines_of_output_cannot_control_a_terminal():
    """What is shown of them has escapes."""
    assert call(r"printf 'a\033[2Jb\n'", EVENT, seconds=30).lines == ("a\\x1b[2Jb",)


def ended_when_written(command: str, file: Path) -> int:
    """Return the number that a command writes into a file; its call is given up after that."""
    given_up = threading.Event()

    def watch() -> None:
        until(lambda: file.exists() and file.read_text().endswith("\n"), "the number")
        given_up.set()

    watching = BackgroundCall(watch)
    done = call(command, EVENT, seconds=2 * DEADLINE, given_up=given_up)
    watching.result()
    assert done.trouble == "too long"
    return int(file.read_text())


@pytest.mark.parametrize("first", ["", "trap '' TERM;"])
def test_one_that_hangs_is_ended_with_what_it_has_begun(tmp_path, first):
    """A hook that ignores SIGTERM gets SIGKILL; no zombie and no child is left."""
    file = tmp_path / "pid"
    child = shlex.quote(f"echo $$ > {shlex.quote(str(file))}; sleep 600")
    number = ended_when_written(f"{first} sh -c {child}; sleep 600", file)
    until(lambda: not alive(number), "the end of the child")


@pytest.mark.parametrize("apart", ["", "set -m;"])
def test_what_it_has_begun_is_ended_even_where_it_ignores_sigterm(tmp_path, apart):
    """The command itself ends at SIGTERM, and its child does not; also in a group of its own."""
    file = tmp_path / "pid"
    stubborn = f'trap "" TERM; echo $$ > {shlex.quote(str(file))}; while :; do sleep 0.1; done'
    number = ended_when_written(f"{apart} sh -c {shlex.quote(stubborn)} & sleep 600", file)
    until(lambda: not alive(number), "the end of the child")


def test_a_table_may_be_named_what_the_locale_cannot_write():
    """The environment has UTF-8, and escapes for what that cannot have either."""
    code = (
        "from spirit_py.events.swap import OldTableDropped;"
        "from spirit_py.hooks import call;"
        "event = OldTableDropped(dropped='x', table='s.\\u65e5\\ud800');"
        """done = call('printf %s "$SPIRIT_PY_EVENT_TABLE" | od -An -tx1', event, seconds=30);"""
        "print(done.code, *done.lines)"
    )
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    text = bytes.fromhex(done.stdout.split(maxsplit=1)[1]).decode()
    assert text == "s.\u65e5\\ud800"


def test_a_daemon_that_it_leaves_is_not_waited_for(tmp_path):
    """The end of the command counts, not that of its output; the daemon lives on."""
    file = tmp_path / "pid"
    began = time.monotonic()
    done = call(
        f"setsid sleep 60 & echo $! > {shlex.quote(str(file))}; echo ready", EVENT, seconds=50
    )
    assert (done.code, done.lines) == (0, ("ready",))
    assert time.monotonic() - began < 50
    child = int(file.read_text())
    assert alive(child)
    os.kill(child, 9)


def test_it_inherits_no_password_and_no_descriptor():
    """Not what configures us, and no file or socket beside the three standard streams."""
    given = {"PATH": "/bin", "MYSQL_PWD": "a", "SPIRIT_PY_PASSWORD": "b", "SPIRIT_PY_DSN": "c"}
    made = environment(given, EVENT)
    assert made.keys() == {b"PATH", b"SPIRIT_PY_EVENT", b"SPIRIT_PY_EVENT_TABLE", b"SPIRIT_PY_RUN"}
    with Path(os.devnull).open() as file:
        os.set_inheritable(file.fileno(), True)
        done = call("ls /proc/$$/fd", EVENT, seconds=30)
        assert str(file.fileno()) not in done.lines
    assert {"0", "1", "2"} <= set(done.lines)


def test_a_hook_may_call_the_program():
    """No option reads what a hook is given: it would be that of the command that the hook calls."""
    event = replace(EVENT, table="s.t", fleet_server="db1")
    given = {name.decode() for name in environment({}, event)}
    options = [one for command in main.commands.values() for one in command.params]
    assert len(given) == 4
    assert not given & {name for one in options for name in variables_of(one)}


LOST = """
import signal
from pathlib import Path
from spirit_py import hooks
from spirit_py.errors import UsageFault
from spirit_py.fleet.servers import of_command
from tests.unit.hooks.test_call import EVENT, call
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for command in ("echo no; exit 1", "exec >&- 2>&-; exit 1", "true"):
    done = call(command, EVENT, seconds=30)
    assert (done.code, done.trouble) == (None, "failed"), done
    assert "SIGCHLD" in done.why
assert call("echo no", EVENT, seconds=30).lines == ("no",)
for hooks.PROCESSES in (hooks.PROCESSES, Path("/nowhere")):
    done = call("exec sleep 600", EVENT, seconds=0)
    assert (done.code, done.trouble) == (None, "too long"), done
try:
    print(of_command("echo mysql://db1; exit 1"))
except UsageFault as error:
    assert "SIGCHLD" in str(error), error
else:
    raise AssertionError
"""
RESET = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
words = "migrate --table t --alter ENGINE=InnoDB --servers-from".split()
sys.argv = ["spirit-py", *words, "echo mysql://db1; exit 3"]
from spirit_py.cli import main
try:
    main()
except SystemExit as left:
    assert left.code == 2, left
"""


def test_an_exit_code_that_is_lost_is_no_yes():
    """Where the host ignores SIGCHLD, or reaps every child, nobody knows how a command ended."""
    run_python(LOST)


def test_a_command_line_knows_how_commands_end_though_its_parent_ignores_sigchld():
    """What is ignored is inherited; the program itself waits for what it starts."""
    assert "it ended with exit code 3" in run_python(RESET)


LEAKS = """
import os
from pathlib import Path
from tests.unit.hooks.test_call import EVENT, call, state
open_files = lambda: len(os.listdir("/proc/self/fd"))
call("true", EVENT, seconds=30)
before = open_files()
for command in ("true", "exit 1", "cat", "sleep 5"):
    call(command, EVENT, seconds=0.2)
assert open_files() == before
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
assert not [pid for pid in children if state(int(pid)) == "Z"]
"""


def test_a_call_leaks_no_descriptor_and_no_zombie():
    """Of many calls, hanging ones too, nothing is left in the process, which does nothing else."""
    run_python(LEAKS)


def run_python(text: str) -> str:
    """Run it in a process of its own, to its good end; return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr

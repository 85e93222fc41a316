"""One with a shell on the machine: other people's processes, files and ports are before him (R20).

What a local user can do depends on modes of files and on what ports ask for, not on who he is, so
these tests look at exactly that, and need no second login.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest

from tests.attacks.victim import SECRET
from tests.kits.held_command import assert_migrated
from tests.kits.spark_stranger import listening

pytestmark = pytest.mark.timeout(400)
PATIENCE = 3.0


def descendants(root):
    """Return the process ids of a process and of everything that it has started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for number in found:
        found += children.get(number, [])
    return found


def words_of(number):
    """Return what everybody reads of a process: its command line."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(number) / "cmdline").read_bytes()
    return b""


def answers(port):
    """Return what a port answers to those who know nothing: silence, HTTP and a line."""
    heard = []
    for said in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\0" * 21, b"c\nz:\nlist\ne\n"):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line,
        ):
            line.settimeout(PATIENCE)
            line.sendall(said)
            line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                heard.append(part)
    return b"".join(heard)


def readable_by_others(folder):
    """Return the files below a folder that every local user can reach and read, with their text."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if os.lstat(Path(place, one)).st_mode & stat.S_IXOTH]
        for name in files:
            path = Path(place, name)
            with contextlib.suppress(OSError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
                    found[path] = path.read_bytes()
    return found


def test_who_has_a_shell_finds_no_password(victim, tmp_path, monkeypatch):
    """Neither in command lines, nor in files that others can read, nor at any port of a run."""
    own = tmp_path / "tmp"
    own.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(own))
    options = ("--spark-master", "local[2]", "--metrics-listen", "127.0.0.1:0", "--verbose")
    with victim.migrating(tmp_path, *options) as (command, listener):
        hold = listener.hold("checksum.chunk")
        command.wait_held(hold)
        numbers = descendants(command.process.pid)
        assert any(b"java" in words_of(number) for number in numbers), "Spark runs"
        for number in numbers:
            assert SECRET.encode() not in words_of(number)
        ports = listening(numbers)
        assert ports
        assert [port for port in ports if not port.of_this_machine] == []
        for port in ports:
            assert SECRET.encode() not in answers(port.number)
        for path, text in readable_by_others(own).items():
            assert SECRET.encode() not in text, path
        hold.release()
        command.finish()
    assert SECRET not in command.said
    assert SECRET not in command.report_file.read_text()
    assert_migrated(victim.db)

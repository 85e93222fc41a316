"""How the other tools are called, from their own documentation.

gh-ost: ``doc/command-line-flags.md`` and ``gh-ost --help``. Spirit: ``docs/migrate.md``.
pt-online-schema-change: its manual page. All read user and password from the ``[client]`` group of
a file, so that no password is an argument.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.sessions import SCHEMA, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.sessions import Address


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a tool is to do.

    Attributes:
        folder: for files that the tool needs or makes.
        help: what ``--help`` says; options that only some versions know are looked for in it.
    """

    address: Address
    alter: str
    threads: int
    folder: Path
    help: str = ""

    @property
    def credentials(self) -> Path:
        """The file with user and password."""
        return self.folder / "client.cnf"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that may be on the PATH.

    Attributes:
        help: the arguments that print its options.
    """

    name: str
    help: tuple[str, ...]
    command: Callable[[Call], list[str]]


def gh_ost(call: Call) -> list[str]:
    """Return the call: on the primary itself, old table dropped, otherwise its defaults."""
    return [
        "gh-ost",
        f"--conf={call.credentials}",
        f"--host={call.address.host}",
        f"--port={call.address.port}",
        f"--database={SCHEMA}",
        f"--table={TABLE}",
        f"--alter={call.alter}",
        "--allow-on-master",
        "--assume-rbr",
        "--ok-to-drop-table",
        "--initially-drop-ghost-table",
        "--initially-drop-old-table",
        f"--serve-socket-file={call.folder / 'gh-ost.sock'}",
        f"--throttle-additional-flag-file={call.folder / 'gh-ost.throttle'}",
        "--execute",
    ]


def spirit(call: Call) -> list[str]:
    """Return the call: as many readers as there are threads, and writers where it knows them."""
    command = [
        "spirit",
        "migrate",
        f"--conf={call.credentials}",
        f"--host={call.address.host}:{call.address.port}",
        f"--database={SCHEMA}",
        f"--statement=ALTER TABLE {TABLE} {call.alter}",
        f"--threads={call.threads}",
    ]
    if "--write-threads" in call.help:
        command.append(f"--write-threads={call.threads}")
    return command


def pt_online_schema_change(call: Call) -> list[str]:
    """Return the call: its defaults, without asking its maker for a newer version."""
    return [
        "pt-online-schema-change",
        # It has to be the first argument.
        f"--defaults-file={call.credentials}",
        f"--alter={call.alter}",
        # There are no replicas here, and its version 3.2 asks for them in words that 8.4 has not.
        "--recursion-method=none",
        "--no-version-check",
        "--execute",
        f"h={call.address.host},P={call.address.port},D={SCHEMA},t={TABLE}",
    ]


TOOLS = (
    Tool(name="gh-ost", help=("--help",), command=gh_ost),
    Tool(name="spirit", help=("migrate", "--help"), command=spirit),
    Tool(name="pt-online-schema-change", help=("--help",), command=pt_online_schema_change),
)


def found() -> list[Tool]:
    """Return the tools that are on the PATH."""
    return [tool for tool in TOOLS if shutil.which(tool.name)]


def prepare(tool: Tool, call: Call) -> list[str]:
    """Write the file of credentials; return the call for the version that is installed."""
    call.credentials.touch(mode=0o600)
    call.credentials.write_text(credentials(call.address))
    said = subprocess.run(
        [tool.name, *tool.help], capture_output=True, text=True, check=False, timeout=30
    )
    with_help = Call(
        address=call.address,
        alter=call.alter,
        threads=call.threads,
        folder=call.folder,
        help=said.stdout + said.stderr,
    )
    return tool.command(with_help)


def credentials(address: Address) -> str:
    """Return the text of the file."""
    return f"[client]\nuser={address.user}\npassword={address.password}\n"
